#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/settings.h"

namespace ballast {

namespace {

struct CommandRow {
  const char* name;
  const char* help;
  uint32_t options;  // rows of the option table: those of any of these commands
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
    {"config", "Show the settings of serve and where each comes from", kCmdConfig | kCmdServe,
     CommandConfig},
};

constexpr CommandRow kBenchCommands[] = {
    {"speed", "Prefill and decode speed beside peers and the machine's limits", kCmdBenchSpeed,
     CommandBenchSpeed},
};

constexpr CommandRow kKeysCommands[] = {
    {"new", "Make a key for a tenant and show it once", kCmdKeysNew, CommandKeysNew},
    {"list", "List tenants, keys and quotas", kCmdKeysList, CommandKeysList},
    {"revoke", "Remove a key", kCmdKeysRevoke, CommandKeysRevoke},
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

struct Chosen {
  const CommandRow* command = nullptr;
  std::vector<BoundOption> bound;
};

void AddCommands(std::span<const CommandRow> rows, CLI::App* parent, Options* options,
                 Chosen* chosen) {
  for (const CommandRow& row : rows) {
    CLI::App* app = parent->add_subcommand(row.name, row.help);
    auto bound = AddOptions(row.options, app, options);
    app->callback([chosen, &row, bound = std::move(bound)] { *chosen = {&row, bound}; });
  }
}

}  // namespace

int RunCli(int argc, char** argv) {
  Options options;
  Chosen chosen;
  CLI::App app("Ballast: an LLM server for long-running agents on one machine's memory", "ballast");
  app.set_version_flag("--version", VersionText());
  app.require_subcommand(1);
  AddCommands(kCommands, &app, &options, &chosen);
  CLI::App* bench = app.add_subcommand("bench", "Measure speed and memory");
  bench->require_subcommand(1);
  AddCommands(kBenchCommands, bench, &options, &chosen);
  CLI::App* keys = app.add_subcommand("keys", "Make and revoke the keys of a server's tenants");
  keys->require_subcommand(1);
  AddCommands(kKeysCommands, keys, &options, &chosen);
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
