#include "cli/settings.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "cli/config_file.h"

namespace ballast {

namespace {

// `origin` names the value in messages; CLI11's own text begins with the flag's names.
Status Apply(CLI::Option* option, const std::string& value, const std::string& origin) {
  try {
    option->add_result(value);
    option->run_callback();
  } catch (const CLI::Error& error) {
    return InvalidArgument("{}: {}", origin, error.what());
  }
  return OkStatus();
}

// What the file must hold for this option; flags have no types, so the file is held to more.
ConfigType WantedType(const CLI::Option& option) {
  if (option.get_expected_max() == 0 || option.get_type_size_max() == 0) {
    return ConfigType::kBoolean;
  }
  const std::string name = option.get_type_name();
  if (name.starts_with("INT") || name.starts_with("UINT")) return ConfigType::kInteger;
  if (name.starts_with("FLOAT")) return ConfigType::kFloat;
  return ConfigType::kString;
}

const char* TypeName(ConfigType type) {
  switch (type) {
    case ConfigType::kString:
      return "a string";
    case ConfigType::kInteger:
      return "an integer";
    case ConfigType::kFloat:
      return "a number";
    case ConfigType::kBoolean:
      return "true or false";
    case ConfigType::kArray:
      return "an array of strings";
  }
  return "";
}

Status ApplyFileEntry(const ConfigFile& file, const ConfigEntry& entry, CLI::Option* option) {
  const std::string where = fmt::format("{}:{}", file.path, entry.line);
  const ConfigType wanted = WantedType(*option);
  const bool fits = entry.type == wanted ||
                    (wanted == ConfigType::kString && entry.type == ConfigType::kArray) ||
                    (wanted == ConfigType::kFloat && entry.type == ConfigType::kInteger);
  if (!fits) {
    return InvalidArgument("{}: '{}' takes {}, here it is {}", where, entry.row->key(),
                           TypeName(wanted), TypeName(entry.type));
  }
  return Apply(option, entry.value, where);
}

std::string ValueText(const CLI::Option& option) {
  if (option.count() == 0) return option.get_default_str();
  std::string text;
  for (const std::string& value : option.results()) {
    if (!text.empty()) text += ',';
    text += value;
  }
  return text;
}

// Applies the variable, if it is set and no flag was given. True if the option now has a value.
Result<bool> ApplyVariable(const BoundOption& bound, std::string* origin) {
  if (bound.option->count() > 0) {
    *origin = "flag";
    return true;
  }
  const char* value = bound.row->env == nullptr ? nullptr : std::getenv(bound.row->env);
  if (value == nullptr || value[0] == '\0') return false;
  *origin = bound.row->env;
  RETURN_IF_ERROR(Apply(bound.option, value, *origin));
  return true;
}

}  // namespace

Status SettleOptions(const std::vector<BoundOption>& bound, Options* options) {
  std::vector<std::string> origins(bound.size());
  std::vector<bool> settled(bound.size());
  for (size_t i = 0; i < bound.size(); ++i) {
    ASSIGN_OR_RETURN(settled[i], ApplyVariable(bound[i], &origins[i]));
  }
  const bool reads_file = std::any_of(bound.begin(), bound.end(), [](const BoundOption& option) {
    return option.row->key() == "config";
  });
  std::optional<ConfigFile> file;
  if (reads_file) {
    ASSIGN_OR_RETURN(file, LoadConfig(options->config));
  }
  for (size_t i = 0; i < bound.size() && file; ++i) {
    if (settled[i]) continue;
    for (const ConfigEntry& entry : file->entries) {
      if (entry.row != bound[i].row) continue;
      RETURN_IF_ERROR(ApplyFileEntry(*file, entry, bound[i].option));
      origins[i] = fmt::format("{}:{}", file->path, entry.line);
    }
  }
  for (size_t i = 0; i < bound.size(); ++i) {
    if (!bound[i].row->in_file()) continue;
    if (origins[i].empty()) origins[i] = "default";
    options->effective.push_back({bound[i].row->key(), ValueText(*bound[i].option), origins[i]});
  }
  return OkStatus();
}

}  // namespace ballast
