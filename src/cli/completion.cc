// Role: completion scripts of bash, zsh and fish, made from the tables. Thread: pure functions.
#include <fmt/format.h>

#include <map>
#include <set>

#include "catalog/catalog.h"
#include "cli/option_shape.h"

namespace ballast {

namespace {

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (const std::string& part : parts) {
    if (!joined.empty()) joined += separator;
    joined += part;
  }
  return joined;
}

std::vector<std::string> Names(const OptionShape& shape) {
  std::vector<std::string> names = shape.short_names;
  names.insert(names.end(), shape.long_names.begin(), shape.long_names.end());
  return names;
}

std::string ModelWords() {
  std::vector<std::string> names;
  for (const CatalogModel& model : Catalog::Embedded().models()) names.push_back(model.name);
  return Join(names, " ");
}

// For single quotes of any of the shells.
std::string Quoted(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\'') {
      safe += "’";
    } else {
      safe += c;
    }
  }
  return safe;
}

// The first words of a command line that may follow `ballast`: commands and groups.
std::map<std::string, std::string> FirstWords() {
  std::map<std::string, std::string> words;
  for (const CommandRow& row : CommandRows()) {
    if (*row.group == '\0') words[row.name] = row.help;
  }
  for (const CommandGroup& group : CommandGroups()) words[group.name] = group.help;
  return words;
}

std::string GroupNames(std::string_view separator) {
  std::vector<std::string> names;
  for (const CommandGroup& group : CommandGroups()) names.emplace_back(group.name);
  return Join(names, separator);
}

std::string FirstWordList() {
  std::string list;
  for (const auto& [word, help] : FirstWords()) list += word + ' ';
  return list;
}

std::string BashValueCases() {
  std::map<std::string, std::string> cases;  // names → what is offered
  std::set<std::string> plain;
  for (const CommandRow& row : CommandRows()) {
    for (const OptionShape& shape : ShapesOf(row)) {
      const std::string names = Join(Names(shape), "|");
      if (names.empty() || !shape.takes_value) continue;
      if (shape.hint == ValueHint::kFile) cases[names] = "-f";
      if (shape.hint == ValueHint::kModel) cases[names] = "-f -W \"$models\"";
      if (shape.hint == ValueHint::kWords) {
        cases[names] = fmt::format("-W '{}'", Join(shape.words, " "));
      }
      if (shape.hint == ValueHint::kOther) plain.insert(names);
    }
  }
  std::string text;
  for (const auto& [names, offer] : cases) {
    text += fmt::format("    {}) COMPREPLY=($(compgen {} -- \"$cur\")); return ;;\n", names, offer);
  }
  for (const std::string& names : plain) text += fmt::format("    {}) return ;;\n", names);
  return text;
}

std::string BashScript() {
  std::string script =
      "# Completion of ballast for bash: source it, or put it into\n"
      "# /usr/share/bash-completion/completions/ballast.\n"
      "_ballast() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command= words= models= i\n";
  script += fmt::format("  models='{}'\n", ModelWords());
  script +=
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    [[ ${COMP_WORDS[i]} == -* ]] && break\n"
      "    command+=\"${command:+ }${COMP_WORDS[i]}\"\n"
      "    case $command in ";
  script += GroupNames("|") + ") ;; *) break ;; esac\n  done\n  case $prev in\n";
  script += BashValueCases() + "  esac\n  case $command in\n";
  script += fmt::format("    '') words='{}--help --version' ;;\n", FirstWordList());
  for (const CommandGroup& group : CommandGroups()) {
    std::string names;
    for (const CommandRow& row : CommandRows()) {
      if (std::string_view(row.group) == group.name) names += std::string(row.name) + ' ';
    }
    script += fmt::format("    {}) words='{}--help' ;;\n", group.name, names);
  }
  for (const CommandRow& row : CommandRows()) {
    std::string words;
    std::string more;
    for (const OptionShape& shape : ShapesOf(row)) {
      for (const std::string& name : Names(shape)) words += name + ' ';
      if (shape.positional.empty()) continue;
      if (shape.hint == ValueHint::kModel) more = "$models ";
      if (shape.hint == ValueHint::kWords) more = Join(shape.words, " ") + " ";
    }
    script += fmt::format("    '{}') words=\"{}{}--help\" ;;\n", row.full_name(), more, words);
  }
  script +=
      "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\n"
      "complete -o default -F _ballast ballast\n";
  return script;
}

// One argument of zsh's _arguments.
std::string ZshArgument(const OptionShape& shape) {
  std::string action;
  if (shape.hint == ValueHint::kFile) action = "_files";
  if (shape.hint == ValueHint::kModel) action = "_ballast_models";
  if (shape.hint == ValueHint::kWords) action = "(" + Join(shape.words, " ") + ")";
  std::string help;
  for (const char c : Quoted(shape.row->help)) {
    if (c == '[' || c == ']' || c == ':') help += '\\';
    help += c;
  }
  std::string lines;
  for (const std::string& name : Names(shape)) {
    const std::string value =
        shape.takes_value ? fmt::format(":{}:{}", shape.row->key(), action) : std::string();
    lines += fmt::format(" \\\n        '*{}[{}]{}'", name, help, value);
  }
  if (!shape.positional.empty()) {
    lines += fmt::format(" \\\n        ':{}:{}'", shape.row->key(), action);
  }
  return lines;
}

std::string ZshCommands(std::string_view group) {
  const std::string_view indent = group.empty() ? "    " : "      ";
  std::string lines;
  for (const CommandRow& row : CommandRows()) {
    if (group != row.group) continue;
    lines += fmt::format("{}{})\n        _arguments '--help[Print the help]'", indent, row.name);
    for (const OptionShape& shape : ShapesOf(row)) lines += ZshArgument(shape);
    lines += "\n        ;;\n";
  }
  return lines;
}

std::string ZshScript() {
  std::string script =
      "#compdef ballast\n"
      "# Completion of ballast for zsh: put it into a folder of $fpath as "
      "_ballast.\n"
      "_ballast_models() {\n";
  script += fmt::format("  compadd {}\n  _files\n}}\n", ModelWords());
  script += "_ballast() {\n  local -a commands\n  if (( CURRENT == 2 )); then\n    commands=(\n";
  for (const auto& [word, help] : FirstWords()) {
    script += fmt::format("      '{}:{}'\n", word, Quoted(help));
  }
  script +=
      "    )\n    _describe command commands\n    return\n  fi\n"
      "  shift words\n  (( CURRENT-- ))\n  case $words[1] in\n";
  for (const CommandGroup& group : CommandGroups()) {
    script +=
        fmt::format("    {})\n    if (( CURRENT == 2 )); then\n      commands=(\n", group.name);
    for (const CommandRow& row : CommandRows()) {
      if (std::string_view(row.group) != group.name) continue;
      script += fmt::format("        '{}:{}'\n", row.name, Quoted(row.help));
    }
    script +=
        "      )\n      _describe command commands\n      return\n    fi\n"
        "    shift words\n    (( CURRENT-- ))\n    case $words[1] in\n";
    script += ZshCommands(group.name) + "    esac\n    ;;\n";
  }
  script += ZshCommands("");
  script +=
      "  esac\n}\n"
      "if [ \"$funcstack[1]\" = _ballast ]; then _ballast \"$@\"; else compdef _ballast "
      "ballast; fi\n";
  return script;
}

std::string FishScript() {
  std::string script =
      "# Completion of ballast for fish: put it into\n"
      "# ~/.config/fish/completions/ballast.fish.\n";
  for (const auto& [word, help] : FirstWords()) {
    script += fmt::format("complete -c ballast -n __fish_use_subcommand -f -a {} -d '{}'\n", word,
                          Quoted(help));
  }
  for (const CommandRow& row : CommandRows()) {
    const bool grouped = *row.group != '\0';
    const std::string when =
        grouped ? fmt::format("__fish_seen_subcommand_from {}; and __fish_seen_subcommand_from {}",
                              row.group, row.name)
                : fmt::format(
                      "__fish_seen_subcommand_from {}; and not "
                      "__fish_seen_subcommand_from {}",
                      row.name, GroupNames(" "));
    if (grouped) {
      script +=
          fmt::format("complete -c ballast -n '__fish_seen_subcommand_from {}' -f -a {} -d '{}'\n",
                      row.group, row.name, Quoted(row.help));
    }
    for (const OptionShape& shape : ShapesOf(row)) {
      std::string line = fmt::format("complete -c ballast -n '{}'", when);
      for (const std::string& name : shape.long_names) line += " -l " + name.substr(2);
      for (const std::string& name : shape.short_names) line += " -s " + name.substr(1);
      std::string offer;
      if (shape.hint == ValueHint::kModel) offer = ModelWords();
      if (shape.hint == ValueHint::kWords) offer = Join(shape.words, " ");
      const bool named = !Names(shape).empty();
      if (!named && offer.empty()) continue;
      if (named && shape.takes_value) line += shape.hint == ValueHint::kWords ? " -x" : " -r";
      if (!offer.empty()) line += fmt::format(" -a '{}'", offer);
      script += fmt::format("{} -d '{}'\n", line, Quoted(shape.row->help));
    }
  }
  return script;
}

}  // namespace

std::string CompletionScript(std::string_view shell) {
  if (shell == "zsh") return ZshScript();
  if (shell == "fish") return FishScript();
  return BashScript();
}

}  // namespace ballast
