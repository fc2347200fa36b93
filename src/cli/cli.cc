#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "cli/command_table.h"
#include "cli/commands.h"
#include "cli/settings.h"

namespace ballast {

namespace {

constexpr int kUsageExit = 2;

int Report(const Error& error, bool json) {
  if (json) {
    Json document;
    document["error"] = {{"code", CodeName(error.code)}, {"message", error.message}};
    std::fprintf(stderr, "%s\n", DumpJson(document).c_str());
  } else {
    std::fprintf(stderr, "ballast: %s\n", Printable(error.message).c_str());
  }
  return ExitCode(error.code);
}

struct Chosen {
  const CommandRow* command = nullptr;
  std::vector<BoundOption> bound;
};

void AddCommands(CLI::App* app, Options* options, Chosen* chosen) {
  std::map<std::string, CLI::App*> parents{{"", app}};
  for (const CommandRow& row : CommandRows()) {
    CLI::App*& parent = parents[row.group];
    if (parent == nullptr) {
      for (const CommandGroup& group : CommandGroups()) {
        if (std::string_view(group.name) == row.group) {
          parent = app->add_subcommand(group.name, group.help);
          parent->require_subcommand(1);
        }
      }
    }
    CLI::App* command = parent->add_subcommand(row.name, row.help);
    auto bound = AddOptions(row.options, command, options);
    command->callback([chosen, &row, bound = std::move(bound)] { *chosen = {&row, bound}; });
  }
}

}  // namespace

int RunCli(int argc, char** argv) {
  Options options;
  Chosen chosen;
  CLI::App app("Ballast: an LLM server for long-running agents on one machine's memory", "ballast");
  app.set_version_flag("--version", VersionText());
  app.require_subcommand(1);
  AddCommands(&app, &options, &chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kUsageExit;
  }
  if (const Status settled = SettleOptions(chosen.bound, &options); !settled.has_value()) {
    return Report(settled.error(), options.json);
  }
  InitLog(options.log_level, options.log_format == "json" ? LogFormat::kJson : LogFormat::kText);
  const Status status = chosen.command->run(options);
  return status.has_value() ? 0 : Report(status.error(), options.json);
}

}  // namespace ballast
