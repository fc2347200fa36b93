// Role: pull, list and rm: the models on disk. Thread: main only.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>

#include "base/json.h"
#include "base/units.h"
#include "catalog/download.h"
#include "cli/commands.h"
#include "cli/model_store.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

struct LocalModel {
  std::string name;
  std::string path;
  uint64_t size_bytes = 0;
};

// Every finished model file in the store; catalogue names first, then hf: names.
std::vector<LocalModel> LocalModels() {
  std::vector<LocalModel> models;
  const fs::path root = fs::path(BallastHome()) / "models";
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(root, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (!it->is_regular_file(error) || it->path().extension() != ".gguf") continue;
    LocalModel model;
    const std::string relative = fs::relative(it->path(), root, error).string();
    model.name =
        relative.starts_with("hf/") ? "hf:" + relative.substr(3) : it->path().stem().string();
    model.path = it->path().string();
    model.size_bytes = it->file_size(error);
    models.push_back(std::move(model));
  }
  std::sort(models.begin(), models.end(),
            [](const LocalModel& a, const LocalModel& b) { return a.name < b.name; });
  return models;
}

void PrintModelRow(const std::string& name, const std::string& size, const std::string& state,
                   const std::string& note) {
  std::printf("%-32s %10s  %-8s %s\n", name.c_str(), size.c_str(), state.c_str(), note.c_str());
}

bool Confirm(const std::string& question) {
  std::printf("%s [y/N] ", question.c_str());
  std::fflush(stdout);
  std::string answer;
  return std::getline(std::cin, answer) && (answer == "y" || answer == "yes");
}

}  // namespace

Result<ResolvedModel> EnsureModel(const std::string& name, ProgressMode mode) {
  ASSIGN_OR_RETURN(ResolvedModel resolved, ResolveModel(Catalog::Embedded(), name));
  if (resolved.present) return resolved;
  if (resolved.model.sources.empty()) return NotFound("model file '{}' does not exist", name);
  Progress progress(resolved.model.name, mode);
  DownloadOptions options = DownloadOptionsFromEnvironment();
  options.progress = [&](uint64_t done, uint64_t total, const std::string& what) {
    progress.Update(done, total == 0 ? resolved.model.size_bytes : total, what);
  };
  RETURN_IF_ERROR(FetchModel(resolved.model, resolved.path, options));
  resolved.present = true;
  return resolved;
}

Status CommandPull(const Options& options) {
  const ProgressMode mode = options.json ? ProgressMode::kQuiet : ProgressMode::kAuto;
  ASSIGN_OR_RETURN(const ResolvedModel resolved, EnsureModel(options.model, mode));
  if (options.json) {
    Json document;
    document["name"] = resolved.model.name;
    document["path"] = resolved.path;
    document["sha256"] = resolved.model.sha256;
    document["license"] = resolved.model.license;
    std::printf("%s\n", DumpJson(document).c_str());
  } else {
    std::printf("%s\n", resolved.path.c_str());
  }
  return OkStatus();
}

Status CommandList(const Options& options) {
  const std::vector<LocalModel> local = LocalModels();
  const auto is_local = [&](const std::string& name) {
    return std::any_of(local.begin(), local.end(),
                       [&](const LocalModel& model) { return model.name == name; });
  };
  const Catalog& catalog = Catalog::Embedded();
  if (options.json) {
    Json rows = Json::array();
    for (const CatalogModel& model : catalog.models()) {
      rows.push_back({{"name", model.name},
                      {"size_bytes", model.size_bytes},
                      {"present", is_local(model.name)},
                      {"default", model.name == catalog.default_model()},
                      {"license", model.license},
                      {"note", model.note}});
    }
    for (const LocalModel& model : local) {
      if (catalog.Find(model.name) != nullptr) continue;
      rows.push_back({{"name", model.name},
                      {"size_bytes", model.size_bytes},
                      {"present", true},
                      {"path", model.path}});
    }
    std::printf("%s\n", DumpJson(Json{{"models", rows}}).c_str());
    return OkStatus();
  }
  PrintModelRow("NAME", "SIZE", "STATE", "NOTE");
  for (const CatalogModel& model : catalog.models()) {
    PrintModelRow(model.name, FormatBytes(model.size_bytes), is_local(model.name) ? "on disk" : "-",
                  model.note + " (" + model.license + ")");
  }
  for (const LocalModel& model : local) {
    if (catalog.Find(model.name) != nullptr) continue;
    PrintModelRow(model.name, FormatBytes(model.size_bytes), "on disk", "");
  }
  return OkStatus();
}

Status CommandRm(const Options& options) {
  ASSIGN_OR_RETURN(const ResolvedModel resolved, ResolveModel(Catalog::Embedded(), options.model));
  if (resolved.model.sources.empty()) {
    return InvalidArgument("rm removes models that pull fetched; '{}' is a path of yours",
                           options.model);
  }
  std::error_code error;
  const bool partial = fs::exists(resolved.path + ".partial", error);
  if (!resolved.present && !partial) {
    return NotFound("model '{}' is not on disk ({})", options.model, resolved.path);
  }
  if (!options.yes && !options.json && isatty(STDIN_FILENO) == 1 &&
      !Confirm("Remove " + resolved.path + "?")) {
    return MakeError(Code::kCancelled, "nothing was removed");
  }
  fs::remove(resolved.path, error);
  fs::remove(resolved.path + ".partial", error);
  if (options.json) {
    std::printf("%s\n", DumpJson(Json{{"removed", resolved.path}}).c_str());
  } else {
    std::printf("removed %s\n", resolved.path.c_str());
  }
  return OkStatus();
}

}  // namespace ballast
