// Role: `ballast bench speed`: prefill and decode tables beside peers and the machine's limits.
// Every figure is the median of alternating repeats in one run: ours, then each peer, and again.
// Thread: main only.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>

#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/bench_ours.h"
#include "cli/bench_peer.h"
#include "cli/commands.h"
#include "cli/runtime.h"
#include "platform/cpu.h"

namespace ballast {

namespace {

constexpr int32_t kBenchStepRows = 512;

struct Row {
  SpeedCase speed_case;
  std::vector<double> ours;
  std::vector<std::vector<double>> peers;  // [peer][repeat]; empty: the peer cannot measure this
  double roofline_share = 0;
};

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Defaults: the table that reports quote.
std::vector<SpeedCase> Cases(const Options& options) {
  const std::vector<int64_t> prefill =
      options.prefill.empty() ? std::vector<int64_t>{512, 2048} : options.prefill;
  const std::vector<int64_t> decode =
      options.decode.empty() ? std::vector<int64_t>{64} : options.decode;
  const std::vector<int64_t> depths =
      options.depths.empty() ? std::vector<int64_t>{0, 4096} : options.depths;
  const std::vector<int32_t> batches =
      options.batches.empty() ? std::vector<int32_t>{1, 8} : options.batches;
  std::vector<SpeedCase> cases;
  for (const int64_t tokens : prefill) {
    if (tokens > 0) cases.push_back({SpeedCase::Kind::kPrefill, tokens, 0, 1});
  }
  for (const int64_t tokens : decode) {
    for (const int64_t depth : depths) {
      for (const int32_t batch : batches) {
        // Several sequences at a depth are measured only when asked for.
        if (batch > 1 && depth > 0 && options.batches.empty()) continue;
        if (tokens > 0) cases.push_back({SpeedCase::Kind::kDecode, tokens, depth, batch});
      }
    }
  }
  return cases;
}

int64_t KvTokens(const std::vector<SpeedCase>& cases, int32_t repeats) {
  int64_t most = 0;
  for (const SpeedCase& c : cases) {
    const bool decode = c.kind == SpeedCase::Kind::kDecode;
    const int64_t each = decode ? c.depth + c.tokens * (repeats + 1) : c.tokens;
    most = std::max(most, c.batch * (each + kPageTokens));
  }
  return most;
}

Result<Row> MeasureRow(const SpeedCase& speed_case, const Options& options, SpeedBench* bench,
                       std::vector<std::unique_ptr<BenchPeer>>& peers) {
  Row row;
  row.speed_case = speed_case;
  row.peers.resize(peers.size());
  RETURN_IF_ERROR(bench->Prepare(speed_case));
  SpeedCase warm_up = speed_case;
  warm_up.tokens = std::min<int64_t>(speed_case.tokens, 4);
  ASSIGN_OR_RETURN([[maybe_unused]] const double ignored, bench->Measure(warm_up));
  for (int32_t repeat = 0; repeat < options.repeats; ++repeat) {
    ASSIGN_OR_RETURN(const double ours, bench->Measure(speed_case));
    row.ours.push_back(ours);
    for (size_t i = 0; i < peers.size(); ++i) {
      const Result<double> figure = peers[i]->Measure(speed_case);
      if (figure.has_value()) {
        row.peers[i].push_back(*figure);
      } else if (figure.error().code != Code::kUnimplemented) {
        return figure.error();
      }
    }
  }
  row.roofline_share = bench->RooflineShare(speed_case, Median(row.ours));
  return row;
}

std::string CaseName(const SpeedCase& c) {
  if (c.kind == SpeedCase::Kind::kPrefill) return fmt::format("prefill {}", c.tokens);
  std::string name = fmt::format("decode {}", c.tokens);
  if (c.depth > 0) name += fmt::format(" at depth {}", c.depth);
  if (c.batch > 1) name += fmt::format(", {} sequences", c.batch);
  return name;
}

Json RowJson(const Row& row, const std::vector<std::unique_ptr<BenchPeer>>& peers,
             const Options& options) {
  const SpeedCase& c = row.speed_case;
  Json json{{"kind", c.kind == SpeedCase::Kind::kPrefill ? "prefill" : "decode"},
            {"n", c.tokens},
            {"depth", c.depth},
            {"batch", c.batch},
            {"kv_dtype", options.kv_dtype},
            {"ours", Median(row.ours)},
            {"ours_min", *std::min_element(row.ours.begin(), row.ours.end())},
            {"ours_max", *std::max_element(row.ours.begin(), row.ours.end())},
            {"peers", Json::object()},
            {"ratios", Json::object()},
            {"roofline_share", row.roofline_share}};
  for (size_t i = 0; i < peers.size(); ++i) {
    if (row.peers[i].empty()) continue;
    json["peers"][peers[i]->name()] = Median(row.peers[i]);
    json["ratios"][peers[i]->name()] = Median(row.ours) / Median(row.peers[i]);
  }
  return json;
}

struct Report {
  Runtime* runtime;
  SpeedBench* bench;
  const Options* options;
  std::vector<std::unique_ptr<BenchPeer>>* peers;
  std::vector<Row>* rows;
};

Json ReportJson(const Report& report) {
  Json json{{"model", report.runtime->name},
            {"cpu", CpuName()},
            {"isa", IsaName(report.runtime->kernels->isa())},
            {"threads", report.runtime->pool->size()},
            {"activations", report.options->activations},
            {"version", VersionText()},
            {"read_gb_per_s", report.bench->read_bytes_per_s() * 1e-9},
            {"int8_gop_per_s", report.bench->int8_ops_per_s() * 1e-9},
            {"decode_weight_bytes", report.runtime->model->decode_weight_bytes()},
            {"resident_weight_bytes", report.runtime->model->resident_weight_bytes()},
            {"peak_rss_bytes", ReadResidentBytes().peak},
            {"congested_joins", report.runtime->pool->congested_joins()},
            {"rows", Json::array()}};
  for (const Row& row : *report.rows) {
    json["rows"].push_back(RowJson(row, *report.peers, *report.options));
  }
  return json;
}

std::string ReportMarkdown(const Report& report) {
  char date[32] = {};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(date, sizeof(date), "%Y-%m-%d", &utc);
  std::string text = fmt::format(
      "# Speed of {}\n\n{}, {}. {} threads, kernels {}, activations {}, KV {}; medians of {} "
      "alternating repeats.\nRead bandwidth {:.1f} GB/s, int8 peak {:.0f} GOP/s.\n{}\n\n"
      "| tokens/s | ours (min–max) | of the roofline |",
      report.runtime->name, date, CpuName(), report.runtime->pool->size(),
      IsaName(report.runtime->kernels->isa()), report.options->activations,
      report.options->kv_dtype, report.options->repeats, report.bench->read_bytes_per_s() * 1e-9,
      report.bench->int8_ops_per_s() * 1e-9, VersionText());
  for (const auto& peer : *report.peers) text += fmt::format(" {} | ratio |", peer->name());
  text += "\n|---|---|---|";
  for (size_t i = 0; i < report.peers->size(); ++i) text += "---|---|";
  for (const Row& row : *report.rows) {
    text +=
        fmt::format("\n| {} | {:.1f} ({:.1f}–{:.1f}) | {:.0f} % |", CaseName(row.speed_case),
                    Median(row.ours), *std::min_element(row.ours.begin(), row.ours.end()),
                    *std::max_element(row.ours.begin(), row.ours.end()), row.roofline_share * 100);
    for (const std::vector<double>& figures : row.peers) {
      if (figures.empty()) {
        text += " – | – |";
      } else {
        text +=
            fmt::format(" {:.1f} | {:.2f} |", Median(figures), Median(row.ours) / Median(figures));
      }
    }
  }
  return text + "\n";
}

}  // namespace

Status CommandBenchSpeed(const Options& options) {
  const std::vector<SpeedCase> cases = Cases(options);
  if (cases.empty()) {  // lengths, depths and batches are bounded by the option table
    return InvalidArgument("bench speed: --prefill 0 with --decode 0 leaves nothing to measure");
  }
  ASSIGN_OR_RETURN(Runtime runtime, LoadRuntime(options, kBenchStepRows, KvBudget::kAsNeeded,
                                                KvTokens(cases, options.repeats)));
  runtime.model->SettleMemory();
  std::vector<std::unique_ptr<BenchPeer>> peers;
  for (const std::string& spec : options.peers) {
    ASSIGN_OR_RETURN(auto peer, MakeProgramPeer(spec, runtime.path, runtime.pool->size()));
    peers.push_back(std::move(peer));
  }
  for (const std::string& spec : options.peer_figures) {
    ASSIGN_OR_RETURN(auto peer, MakeFilePeer(spec));
    peers.push_back(std::move(peer));
  }
  ASSIGN_OR_RETURN(const auto bench, SpeedBench::Create(&runtime));
  std::vector<Row> rows;
  for (const SpeedCase& speed_case : cases) {
    ASSIGN_OR_RETURN(Row row, MeasureRow(speed_case, options, bench.get(), peers));
    LOG_INFO("{}: {:.1f} tokens/s", CaseName(speed_case), Median(row.ours));
    rows.push_back(std::move(row));
  }
  const Report report{&runtime, bench.get(), &options, &peers, &rows};
  const std::string markdown = ReportMarkdown(report);
  if (!options.out.empty()) {
    std::ofstream file(options.out);
    if (!(file << markdown).flush()) {
      return Unavailable("--out: cannot write '{}'", options.out);
    }
  }
  std::printf("%s\n", options.json ? DumpJson(ReportJson(report)).c_str() : markdown.c_str());
  return OkStatus();
}

}  // namespace ballast
