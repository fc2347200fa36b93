#include "cli/command_table.h"

#include "cli/commands.h"

namespace ballast {

namespace {

constexpr CommandRow kCommands[] = {
    {"", "run", "Chat with a model in the terminal, pulling it if needed", kCmdRun, CommandRun},
    {"", "serve", "Serve a model over HTTP with a console", kCmdServe, CommandServe},
    {"", "pull", "Fetch a model and verify it", kCmdPull, CommandPull},
    {"", "list", "List the catalogue and the models on disk", kCmdList, CommandList},
    {"", "rm", "Remove a fetched model", kCmdRm, CommandRm},
    {"", "inspect", "Show what a model file holds", kCmdInspect, CommandInspect},
    {"", "eval", "Perplexity of a text and the hash of all logits", kCmdEval, CommandEval},
    {"", "config", "Show the settings of serve and where each comes from", kCmdConfig | kCmdServe,
     CommandConfig},
    {"", "doctor", "Check whether serve would run well here, with its settings",
     kCmdDoctor | kCmdServe, CommandDoctor},
    {"", "completion", "Print the completion script of a shell", kCmdCompletion, CommandCompletion},
    {"", "manual", "Print the manual page, as troff", kCmdManual, CommandManual},
    {"bench", "speed", "Prefill and decode speed beside peers and the machine's limits",
     kCmdBenchSpeed, CommandBenchSpeed},
    {"keys", "new", "Make a key for a tenant and show it once", kCmdKeysNew, CommandKeysNew},
    {"keys", "list", "List tenants, keys and quotas", kCmdKeysList, CommandKeysList},
    {"keys", "revoke", "Remove a key", kCmdKeysRevoke, CommandKeysRevoke},
};

constexpr CommandGroup kGroups[] = {
    {"bench", "Measure speed and memory"},
    {"keys", "Make and revoke the keys of a server's tenants"},
};

}  // namespace

std::span<const CommandRow> CommandRows() { return kCommands; }
std::span<const CommandGroup> CommandGroups() { return kGroups; }

}  // namespace ballast
