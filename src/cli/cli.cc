#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "cli/commands.h"

namespace ballast {

namespace {

struct CommandRow {
  const char* name;
  const char* help;
  uint32_t bit;
  Status (*run)(const Options&);
};

constexpr CommandRow kCommands[] = {
    {"run", "Chat with a model in the terminal, pulling it if needed", kCmdRun, CommandRun},
    {"serve", "Serve a model over HTTP with a console", kCmdServe, CommandServe},
    {"pull", "Fetch a model and verify it", kCmdPull, CommandPull},
    {"list", "List the catalogue and the models on disk", kCmdList, CommandList},
    {"rm", "Remove a fetched model", kCmdRm, CommandRm},
    {"inspect", "Show what a model file holds", kCmdInspect, CommandInspect},
    {"eval", "Perplexity of a text and the hash of all logits", kCmdEval, CommandEval},
};

constexpr CommandRow kBenchCommands[] = {
    {"speed", "Prefill and decode speed beside peers and the machine's limits", kCmdBenchSpeed,
     CommandBenchSpeed},
};

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

void AddCommands(std::span<const CommandRow> rows, CLI::App* parent, Options* options,
                 const CommandRow** chosen) {
  for (const CommandRow& row : rows) {
    CLI::App* app = parent->add_subcommand(row.name, row.help);
    AddOptions(row.bit, app, options);
    app->callback([chosen, &row] { *chosen = &row; });
  }
}

}  // namespace

int RunCli(int argc, char** argv) {
  Options options;
  const CommandRow* chosen = nullptr;
  CLI::App app("Ballast: an LLM server for long-running agents on one machine's memory", "ballast");
  app.set_version_flag("--version", VersionText());
  app.require_subcommand(1);
  AddCommands(kCommands, &app, &options, &chosen);
  CLI::App* bench = app.add_subcommand("bench", "Measure speed and memory");
  bench->require_subcommand(1);
  AddCommands(kBenchCommands, bench, &options, &chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : kUsageExit;
  }
  InitLog(options.log_level);
  const Status status = chosen->run(options);
  return status.has_value() ? 0 : Report(status.error(), options.json);
}

}  // namespace ballast
