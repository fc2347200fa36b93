#include "cli/bench_peer.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "platform/subprocess.h"

namespace ballast {

namespace {

// A model of this size on two cores answers any of our cases well within this time.
constexpr int64_t kPeerTimeoutMs = 600'000;
// What the peers' own batched benchmark uses as its prompt before the timed decode.
constexpr int kBatchedPromptTokens = 128;

enum class Dialect { kMainline, kIk };

class ProgramPeer final : public BenchPeer {
 public:
  ProgramPeer(std::string name, std::vector<std::string> command, Dialect dialect,
              std::string model_path, int32_t threads)
      : name_(std::move(name)),
        command_(std::move(command)),
        dialect_(dialect),
        model_path_(std::move(model_path)),
        threads_(threads) {}

  const std::string& name() const override { return name_; }

  Result<double> Measure(const SpeedCase& speed_case) override {
    return speed_case.batch > 1 ? MeasureBatched(speed_case) : MeasureSingle(speed_case);
  }

 private:
  Result<double> MeasureSingle(const SpeedCase& speed_case) {
    std::vector<std::string> argv = command_;
    const std::string tokens = std::to_string(speed_case.tokens);
    const std::string depth = std::to_string(speed_case.depth);
    const bool prefill = speed_case.kind == SpeedCase::Kind::kPrefill;
    if (prefill && speed_case.depth > 0 && dialect_ == Dialect::kIk) {
      return Unimplemented("{} cannot prefill at a depth", name_);
    }
    argv.insert(argv.end(),
                {"-m", model_path_, "-t", std::to_string(threads_), "-r", "1", "-o", "json"});
    if (prefill) {
      argv.insert(argv.end(), {"-p", tokens, "-n", "0"});
    } else if (dialect_ == Dialect::kIk && speed_case.depth > 0) {
      argv.insert(argv.end(), {"-p", "0", "-n", "0", "-gp", depth + "," + tokens});
    } else {
      argv.insert(argv.end(), {"-p", "0", "-n", tokens});
    }
    if (dialect_ == Dialect::kMainline && speed_case.depth > 0) {
      argv.insert(argv.end(), {"-d", depth});
    }
    ASSIGN_OR_RETURN(const std::string output, Run(argv, SubprocessOptions::Stderr::kDiscard));
    // Some builds print a banner before the array.
    const size_t start = output.find("[\n");
    ASSIGN_OR_RETURN(const Json rows,
                     ParseJson(start == std::string::npos ? output : output.substr(start)));
    if (!rows.is_array() || rows.empty() || !rows.back().contains("avg_ts") ||
        !rows.back()["avg_ts"].is_number()) {
      return DataLoss("{} printed no field 'avg_ts'", name_);
    }
    return rows.back()["avg_ts"].get<double>();
  }

  // The batched program prints a table: | PP | TG | B | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG
  // t/s |...
  Result<double> MeasureBatched(const SpeedCase& speed_case) {
    const std::filesystem::path program =
        std::filesystem::path(command_.front()).parent_path() / "llama-batched-bench";
    if (speed_case.kind == SpeedCase::Kind::kPrefill || speed_case.depth > 0 ||
        !std::filesystem::exists(program)) {
      return Unimplemented("{} has no llama-batched-bench beside it", name_);
    }
    std::vector<std::string> argv = BatchedArguments(program.string());
    const int64_t context = speed_case.batch * (kBatchedPromptTokens + speed_case.tokens) + 256;
    argv.insert(argv.end(),
                {"-m", model_path_, "-t", std::to_string(threads_), "-c", std::to_string(context),
                 "-npp", std::to_string(kBatchedPromptTokens), "-ntg",
                 std::to_string(speed_case.tokens), "-npl", std::to_string(speed_case.batch)});
    ASSIGN_OR_RETURN(const std::string output, Run(argv, SubprocessOptions::Stderr::kMerge));
    std::istringstream lines(output);
    std::string line;
    double figure = 0;
    while (std::getline(lines, line)) {
      std::vector<std::string> cells;
      std::istringstream cell_stream(line);
      for (std::string cell; std::getline(cell_stream, cell, '|');) cells.push_back(cell);
      if (cells.size() < 9) continue;
      const double value = std::strtod(cells[8].c_str(), nullptr);
      if (value > 0) figure = value;
    }
    if (figure <= 0) return DataLoss("{} printed no batched figure", name_);
    return figure;
  }

  // -rtr 1 and -thp 1 of llama-bench are bare flags in the other programs.
  std::vector<std::string> BatchedArguments(std::string program) const {
    std::vector<std::string> argv{std::move(program)};
    for (size_t i = 1; i < command_.size(); ++i) {
      const bool switch_flag = command_[i] == "-rtr" || command_[i] == "-thp";
      if (!switch_flag) {
        argv.push_back(command_[i]);
        continue;
      }
      if (i + 1 < command_.size() && command_[i + 1] == "1") argv.push_back(command_[i]);
      ++i;
    }
    return argv;
  }

  Result<std::string> Run(const std::vector<std::string>& argv,
                          SubprocessOptions::Stderr stderr_mode) {
    SubprocessOptions options;
    options.timeout_ms = kPeerTimeoutMs;
    options.stderr_mode = stderr_mode;
    ASSIGN_OR_RETURN(const SubprocessResult result, RunSubprocess(argv, options));
    if (result.exit_code != 0) {
      return Unavailable("{} exited with {}: {}", name_, result.exit_code,
                         result.output.substr(0, 400));
    }
    return result.output;
  }

  std::string name_;
  std::vector<std::string> command_;
  Dialect dialect_;
  std::string model_path_;
  int32_t threads_;
};

struct FileFigure {
  SpeedCase speed_case;
  double tokens_per_s = 0;
};

class FilePeer final : public BenchPeer {
 public:
  FilePeer(std::string name, std::vector<FileFigure> figures)
      : name_(std::move(name)), figures_(std::move(figures)) {}
  const std::string& name() const override { return name_; }
  Result<double> Measure(const SpeedCase& wanted) override {
    for (const FileFigure& figure : figures_) {
      const SpeedCase& have = figure.speed_case;
      if (have.kind == wanted.kind && have.tokens == wanted.tokens && have.depth == wanted.depth &&
          have.batch == wanted.batch) {
        return figure.tokens_per_s;
      }
    }
    return Unimplemented("{} has no figure for this case", name_);
  }

 private:
  std::string name_;
  std::vector<FileFigure> figures_;
};

Result<int64_t> IntegerField(const Json& row, const char* field, int64_t fallback) {
  const auto it = row.find(field);
  if (it == row.end()) return fallback;
  if (!it->is_number_integer()) return InvalidArgument("field '{}' must be an integer", field);
  return it->get<int64_t>();
}

Result<FileFigure> ParseFigure(const Json& row) {
  FileFigure figure;
  const std::string kind = row.is_object() ? row.value("kind", "") : "";
  if (kind != "prefill" && kind != "decode") {
    return InvalidArgument("field 'kind' is '{}', expected prefill or decode", kind);
  }
  figure.speed_case.kind = kind == "prefill" ? SpeedCase::Kind::kPrefill : SpeedCase::Kind::kDecode;
  ASSIGN_OR_RETURN(figure.speed_case.tokens, IntegerField(row, "n", 0));
  ASSIGN_OR_RETURN(figure.speed_case.depth, IntegerField(row, "depth", 0));
  ASSIGN_OR_RETURN(const int64_t batch, IntegerField(row, "batch", 1));
  figure.speed_case.batch = static_cast<int32_t>(batch);
  if (!row.contains("tokens_per_s") || !row["tokens_per_s"].is_number()) {
    return InvalidArgument("field 'tokens_per_s' must be a number");
  }
  figure.tokens_per_s = row["tokens_per_s"].get<double>();
  return figure;
}

}  // namespace

Result<std::pair<std::string, std::string>> SplitPeerSpec(const std::string& flag,
                                                          const std::string& spec) {
  const size_t equals = spec.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == spec.size()) {
    return InvalidArgument("{} '{}' is not of the form NAME=VALUE", flag, spec);
  }
  return std::pair(spec.substr(0, equals), spec.substr(equals + 1));
}

Result<std::unique_ptr<BenchPeer>> MakeProgramPeer(const std::string& spec,
                                                   const std::string& model_path, int32_t threads) {
  ASSIGN_OR_RETURN(const auto parts, SplitPeerSpec("--peer", spec));
  ASSIGN_OR_RETURN(std::vector<std::string> command, SplitCommandLine(parts.second));
  if (command.empty()) return InvalidArgument("--peer '{}' names no program", spec);
  SubprocessOptions options;
  options.timeout_ms = 20'000;
  ASSIGN_OR_RETURN(const SubprocessResult help,
                   RunSubprocess({command.front(), "--help"}, options));
  const bool mainline = help.output.find("--n-depth") != std::string::npos;
  const bool ik = help.output.find("-gp") != std::string::npos;
  if (!mainline && !ik) {
    return InvalidArgument("--peer '{}': '{}' does not look like a llama-bench program", spec,
                           command.front());
  }
  return std::unique_ptr<BenchPeer>(new ProgramPeer(parts.first, std::move(command),
                                                    mainline ? Dialect::kMainline : Dialect::kIk,
                                                    model_path, threads));
}

Result<std::unique_ptr<BenchPeer>> MakeFilePeer(const std::string& spec) {
  ASSIGN_OR_RETURN(const auto parts, SplitPeerSpec("--peer-figures", spec));
  std::ifstream file(parts.second);
  if (!file) return NotFound("--peer-figures: cannot read '{}'", parts.second);
  std::stringstream text;
  text << file.rdbuf();
  ASSIGN_OR_RETURN(const Json rows, ParseJson(text.str()));
  if (!rows.is_array()) {
    return InvalidArgument("--peer-figures '{}' must hold a JSON array", parts.second);
  }
  std::vector<FileFigure> figures;
  for (const Json& row : rows) {
    auto figure = ParseFigure(row);
    if (!figure.has_value()) return std::move(figure).error().WithContext(parts.second);
    figures.push_back(*figure);
  }
  return std::unique_ptr<BenchPeer>(new FilePeer(parts.first, std::move(figures)));
}

}  // namespace ballast
