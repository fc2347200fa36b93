// Role: the manual page, made from the tables, and the two commands that print generated text.
// Thread: main.
#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "cli/commands.h"
#include "cli/option_shape.h"

namespace ballast {

namespace {

// Troff takes a leading dot or quote as a request, "-" as a hyphen and "\" as an escape.
std::string Troff(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else if (c == '\'') {
      safe += "\\(aq";
    } else {
      safe += c;
    }
  }
  if (safe.starts_with('.')) safe.insert(0, "\\&");
  return safe;
}

std::string OptionEntry(const OptionShape& shape, const std::string& commands) {
  std::string names;
  const auto add = [&](const std::string& name) {
    if (!names.empty()) names += ", ";
    names += name;
  };
  for (const std::string& name : shape.short_names) add(name);
  for (const std::string& name : shape.long_names) add(name);
  if (!shape.positional.empty()) add(shape.positional);
  if (shape.takes_value && !shape.long_names.empty()) names += " VALUE";
  std::string entry = fmt::format(".TP\n.B {}\n{}.", Troff(names), Troff(shape.row->help));
  if (!shape.default_text.empty()) {
    entry += fmt::format(" Default: {}.", Troff(shape.default_text));
  }
  if (shape.row->env != nullptr) entry += fmt::format("\nVariable: {}.", Troff(shape.row->env));
  return entry + fmt::format("\nCommands: {}.\n", Troff(commands));
}

// Every row once, with the commands that take it.
std::string OptionEntries() {
  std::map<const OptionRow*, std::pair<OptionShape, std::string>> rows;
  for (const CommandRow& command : CommandRows()) {
    for (const OptionShape& shape : ShapesOf(command)) {
      auto& [kept, commands] = rows.try_emplace(shape.row, shape, "").first->second;
      commands += (commands.empty() ? "" : ", ") + command.full_name();
    }
  }
  std::string text;
  for (const auto& [row, entry] : rows) text += OptionEntry(entry.first, entry.second);
  return text;
}

}  // namespace

std::string ManualPage() {
  std::string page =
      fmt::format(".TH BALLAST 1 \"\" \"ballast {}\" \"User commands\"\n", VersionNumber());
  page +=
      ".SH NAME\nballast \\- serve large language models from one machine's memory\n"
      ".SH SYNOPSIS\n.B ballast\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.br\n"
      ".B ballast \\-\\-help\n|\n.B \\-\\-version\n"
      ".SH DESCRIPTION\n"
      "Serves one model over HTTP with the APIs of OpenAI and Anthropic, a console and metrics, "
      "or chats\nwith it in the terminal. Without configuration it listens on loopback only.\n"
      ".SH COMMANDS\n";
  for (const CommandRow& row : CommandRows()) {
    page += fmt::format(".TP\n.B {}\n{}.\n", Troff(row.full_name()), Troff(row.help));
  }
  page += ".SH OPTIONS\n" + OptionEntries();
  page +=
      ".SH ENVIRONMENT\n"
      "A variable named with an option gives its value when there is no flag; an empty one counts "
      "as unset.\n"
      ".TP\n.B BALLAST_HOME\nWhere models are kept. Default: ~/.cache/ballast.\n"
      ".TP\n.B HF_ENDPOINT, HF_TOKEN\nThe site and the token for models named hf:ORG/REPO/FILE.\n"
      ".SH FILES\n"
      ".TP\n.I $XDG_CONFIG_HOME/ballast/ballast.toml, /etc/ballast/ballast.toml\n"
      "Settings; the first that exists is read. Keys are the long options without dashes.\n"
      ".SH EXIT STATUS\n.TP\n.B 0\nThe command succeeded.\n.TP\n.B 1\nIt failed.\n"
      ".TP\n.B 2\nThe command line, a variable or the configuration file is wrong.\n"
      ".TP\n.B 3\nIt is not supported here, by this CPU for example.\n"
      ".SH SIGNALS\n"
      "On SIGTERM or SIGINT serve stops taking requests, lets running ones finish for "
      "\\-\\-drain\\-timeout\nseconds and ends. A second signal ends them at once.\n";
  return page;
}

Status CommandCompletion(const Options& options) {
  std::fputs(CompletionScript(options.shell).c_str(), stdout);
  return OkStatus();
}

Status CommandManual(const Options&) {
  std::fputs(ManualPage().c_str(), stdout);
  return OkStatus();
}

}  // namespace ballast
