// Role: reads ballast.toml: option names as keys, checked against the option table. Types and
// ranges are checked where the values are applied (cli/settings.h). Adapts toml++.
// Thread: pure functions and one file read.
#ifndef BALLAST_CLI_CONFIG_FILE_H_
#define BALLAST_CLI_CONFIG_FILE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/options.h"

namespace ballast {

enum class ConfigType { kString, kInteger, kFloat, kBoolean, kArray };

struct ConfigEntry {
  const OptionRow* row;
  ConfigType type;
  std::string value;  // as a flag would spell it; arrays joined by commas
  uint32_t line;      // from 1
};

struct ConfigFile {
  std::string path;
  std::vector<ConfigEntry> entries;
};

/// Parses the text of a configuration file; `path` is for messages. Errors: kInvalidArgument
/// naming path, line and key, with the nearest known key for an unknown one.
Result<ConfigFile> ParseConfig(std::string_view text, const std::string& path);

/// Reads `path`, or, when it is empty, the first that exists of
/// $XDG_CONFIG_HOME/ballast/ballast.toml (~/.config by default) and /etc/ballast/ballast.toml.
/// Nothing if there is none. Errors: kInvalidArgument (a named file that cannot be read, a file
/// over 1 MiB, ParseConfig's).
Result<std::optional<ConfigFile>> LoadConfig(const std::string& path);

/// The candidate with the fewest edits from `word`, or an empty view if none is near.
std::string_view Nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace ballast

#endif  // BALLAST_CLI_CONFIG_FILE_H_
