#include "cli/config_file.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>

#define TOML_EXCEPTIONS 0
// Its assertions fire on some malformed dates, which it then refuses properly.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

namespace ballast {

namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxShownBytes = 80;  // of a key or value in a message

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, replaced});
    }
  }
  return row.back();
}

std::string Where(const std::string& path, uint32_t line) {
  return fmt::format("{}:{}", path, line);
}

std::string Shown(std::string_view text) { return std::string(text.substr(0, kMaxShownBytes)); }

const OptionRow* FindRow(std::string_view key) {
  for (const OptionRow& row : OptionRows()) {
    if (row.key() == key) return &row;
  }
  return nullptr;
}

const OptionRow* FindFileRow(std::string_view key) {
  for (const OptionRow& row : OptionRows()) {
    if (row.in_file() && row.key() == key) return &row;
  }
  return nullptr;
}

Error UnknownKey(const std::string& where, std::string_view key) {
  const std::string shown = Shown(key);
  if (FindRow(key) != nullptr) {
    return InvalidArgument("{}: '{}' is an option of the command line only", where, shown);
  }
  std::vector<std::string> known;
  for (const OptionRow& row : OptionRows()) {
    if (row.in_file()) known.push_back(row.key());
  }
  std::string underscores(key.substr(0, kMaxShownBytes));
  std::replace(underscores.begin(), underscores.end(), '_', '-');
  const std::string_view near = Nearest(underscores, known);
  if (near.empty()) {
    return InvalidArgument("{}: the key '{}' is unknown (`ballast config` lists all)", where,
                           shown);
  }
  return InvalidArgument("{}: the key '{}' is unknown; did you mean '{}'?", where, shown, near);
}

// toml++ 3.3 has undefined behaviour for some characters beyond ASCII outside of strings, so it
// sees none: each such byte is written as "~" and two hex digits, and "~" as "~7E".
std::string ToAscii(std::string_view text) {
  std::string ascii;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  ascii.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || c == '~') {
      ascii += fmt::format("~{:02X}", byte);
    } else {
      ascii += c;
    }
  }
  return ascii;
}

std::string FromAscii(std::string_view ascii) {
  std::string text;
  for (size_t i = 0; i < ascii.size(); ++i) {
    unsigned byte = 0;
    const std::string_view digits = ascii.substr(i + 1, 2);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (ascii[i] != '~' || error != std::errc() || end != digits.data() + 2) {
      text += ascii[i];
      continue;
    }
    text += static_cast<char>(byte);
    i += 2;
  }
  return text;
}

// An escaped "~" would be taken for one of ours.
bool HasEscapedTilde(std::string_view text) {
  for (const std::string_view escape : {"\\u007e", "\\u007E", "\\U0000007e", "\\U0000007E"}) {
    if (text.find(escape) != std::string_view::npos) return true;
  }
  return false;
}

// Lists are comma-separated on the command line, so an item with a comma would fall apart.
Result<std::string> JoinArray(const toml::array& array, const std::string& where,
                              std::string_view key) {
  std::string joined;
  for (const toml::node& item : array) {
    const auto* text = item.as_string();
    if (text == nullptr || text->get().find(',') != std::string::npos) {
      return InvalidArgument("{}: '{}' takes strings without commas", where, key);
    }
    if (!joined.empty()) joined += ',';
    joined += FromAscii(text->get());
  }
  return joined;
}

Result<ConfigEntry> ReadEntry(const OptionRow& row, const toml::node& node,
                              const std::string& where, uint32_t line) {
  ConfigEntry entry{&row, ConfigType::kString, {}, line};
  if (const auto* text = node.as_string()) {
    entry.value = FromAscii(text->get());
    if (entry.value.find('\0') != std::string::npos) {
      return InvalidArgument("{}: the value of '{}' holds a zero byte", where, row.key());
    }
  } else if (const auto* integer = node.as_integer()) {
    entry.type = ConfigType::kInteger;
    entry.value = std::to_string(integer->get());
  } else if (const auto* number = node.as_floating_point()) {
    entry.type = ConfigType::kFloat;
    entry.value = fmt::format("{}", number->get());
  } else if (const auto* boolean = node.as_boolean()) {
    entry.type = ConfigType::kBoolean;
    entry.value = boolean->get() ? "true" : "false";
  } else if (const auto* array = node.as_array();
             array != nullptr && row.file == FileValue::kList) {
    entry.type = ConfigType::kArray;
    ASSIGN_OR_RETURN(entry.value, JoinArray(*array, where, row.key()));
  } else {
    return InvalidArgument("{}: '{}' takes {}", where, row.key(),
                           row.file == FileValue::kList ? "a string or an array of strings"
                                                        : "one string, number or boolean");
  }
  return entry;
}

std::vector<std::string> DefaultPaths() {
  std::vector<std::string> paths;
  const char* xdg = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  if (xdg != nullptr && xdg[0] == '/') {
    paths.push_back(std::string(xdg) + "/ballast/ballast.toml");
  } else if (home != nullptr && home[0] == '/') {
    paths.push_back(std::string(home) + "/.config/ballast/ballast.toml");
  }
  paths.push_back("/etc/ballast/ballast.toml");
  return paths;
}

Result<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  if (!file || std::filesystem::is_directory(path, error)) {
    return InvalidArgument("the configuration file '{}' cannot be read", path);
  }
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) return InvalidArgument("the configuration file '{}' cannot be read", path);
  if (text.size() > kMaxFileBytes) {
    return InvalidArgument("the configuration file '{}' is larger than 1 MiB", path);
  }
  return text;
}

}  // namespace

std::string_view Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(3, word.size() / 2);  // two swapped letters are 2
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

Result<ConfigFile> ParseConfig(std::string_view text, const std::string& path) {
  if (HasEscapedTilde(text)) return InvalidArgument("{}:1: write \"~\" without an escape", path);
  const toml::parse_result parsed = toml::parse(ToAscii(text), path);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return InvalidArgument("{}: {}", Where(path, error.source().begin.line),
                           FromAscii(error.description()));
  }
  ConfigFile file{path, {}};
  for (const auto& [key, node] : parsed.table()) {
    const uint32_t line = key.source().begin.line;
    const std::string where = Where(path, line);
    const OptionRow* row = FindFileRow(key.str());
    if (row == nullptr) return UnknownKey(where, FromAscii(key.str()));
    ASSIGN_OR_RETURN(ConfigEntry entry, ReadEntry(*row, node, where, line));
    file.entries.push_back(std::move(entry));
  }
  return file;
}

Result<std::optional<ConfigFile>> LoadConfig(const std::string& path) {
  std::string chosen = path;
  if (chosen.empty()) {
    std::error_code error;
    for (const std::string& candidate : DefaultPaths()) {
      if (std::filesystem::exists(candidate, error)) {
        chosen = candidate;
        break;
      }
    }
    if (chosen.empty()) return std::optional<ConfigFile>();
  }
  ASSIGN_OR_RETURN(const std::string text, ReadText(chosen));
  ASSIGN_OR_RETURN(ConfigFile file, ParseConfig(text, chosen));
  return std::optional<ConfigFile>(std::move(file));
}

}  // namespace ballast
