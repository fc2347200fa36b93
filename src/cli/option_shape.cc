#include "cli/option_shape.h"

#include <CLI/CLI.hpp>
#include <sstream>

namespace ballast {

namespace {

struct HintRow {
  std::string_view key;
  ValueHint hint;
  std::string_view words;  // separated by blanks
};

constexpr HintRow kHints[] = {
    {"MODEL", ValueHint::kModel, ""},
    {"model", ValueHint::kModel, ""},
    {"chat-template-file", ValueHint::kFile, ""},
    {"config", ValueHint::kFile, ""},
    {"keys-file", ValueHint::kFile, ""},
    {"state-dir", ValueHint::kFile, ""},
    {"audit-log", ValueHint::kFile, ""},
    {"text", ValueHint::kFile, ""},
    {"save-logits", ValueHint::kFile, ""},
    {"peer-figures", ValueHint::kFile, ""},
    {"out", ValueHint::kFile, ""},
    {"chat-template", ValueHint::kWords, "chatml llama3 gemma"},
    {"isa", ValueHint::kWords, "ref avx2 avx512 amx"},
    {"activations", ValueHint::kWords, "default precise"},
    {"kv-dtype", ValueHint::kWords, "f16 kv8"},
    {"mode", ValueHint::kWords, "prefill decode"},
    {"decode-backend", ValueHint::kWords, "standard"},
    {"SHELL", ValueHint::kWords, "bash zsh fish"},
    {"log-level", ValueHint::kWords, "trace debug info warn error off"},
    {"log-format", ValueHint::kWords, "text json"},
};

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{std::string(text)};
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

}  // namespace

std::vector<OptionShape> ShapesOf(const CommandRow& command) {
  CLI::App app;
  Options options;
  std::vector<OptionShape> shapes;
  for (const BoundOption& bound : AddOptions(command.options, &app, &options)) {
    OptionShape shape;
    shape.row = bound.row;
    for (const std::string& name : Split(bound.row->flags, ',')) {
      if (name.starts_with("--")) {
        shape.long_names.push_back(name);
      } else if (name.starts_with("-")) {
        shape.short_names.push_back(name);
      } else {
        shape.positional = name;
      }
    }
    shape.takes_value = bound.option->get_items_expected_max() > 0;
    shape.default_text = bound.option->get_default_str();
    for (const HintRow& hint : kHints) {
      if (hint.key != bound.row->key()) continue;
      shape.hint = hint.hint;
      shape.words = Split(hint.words, ' ');
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::vector<std::string_view> HintedKeys() {
  std::vector<std::string_view> keys;
  for (const HintRow& hint : kHints) keys.push_back(hint.key);
  return keys;
}

}  // namespace ballast
