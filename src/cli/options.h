// Role: the one option table: every flag, its environment variable, help text and the commands that
// take it. Help, parsing and the commands' settings all come from it. Thread: main only.
#ifndef BALLAST_CLI_OPTIONS_H_
#define BALLAST_CLI_OPTIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ballast {

/// One setting as it came out of flags, variables, the configuration file and defaults.
struct EffectiveSetting {
  std::string key;
  std::string value;
  std::string origin;  // "flag", "BALLAST_PORT", "/etc/ballast/ballast.toml:3" or "default"
};

/// The values of all flags; a command reads the ones its rows list.
struct Options {
  // Model and its place.
  std::string model;
  std::string alias;
  std::string chat_template;
  std::string chat_template_file;
  // Machine.
  int32_t threads = 0;  // 0: all usable cores
  std::string isa;      // empty: the best
  std::string memory;   // empty: a share of what is free
  // Arithmetic.
  int64_t ctx_size = 0;  // 0: the model's own
  std::string activations = "default";
  std::string kv_dtype = "f16";
  // serve
  std::string host = "127.0.0.1";
  int32_t port = 8420;
  int32_t max_queue = 256;
  std::string cors_origins;
  std::string allowed_hosts;
  std::string max_body = "8MiB";
  int32_t max_connections = 1024;
  int32_t max_sequences = 32;
  int64_t request_timeout_s = 0;  // 0: none
  int64_t drain_timeout_s = 30;
  std::string keys_file;
  std::string api_key;
  std::string state_dir;  // empty: DefaultStateFolder()
  std::string audit_log;
  // keys
  std::string key_id;
  std::string tenant;
  std::string scopes = "inference";
  int64_t requests_per_minute = 0;  // 0: leave as it is
  int64_t tokens_per_minute = 0;
  int64_t concurrent_requests = 0;
  // run
  std::string prompt;
  int64_t max_tokens = 0;
  float temperature = 0.7f;
  uint64_t seed = 0;
  std::string system;
  // eval
  std::string text;
  int64_t context = 512;
  int64_t chunks = 1;
  int64_t prefill_chunk = 512;
  int32_t batch = 1;
  std::string mode = "prefill";
  std::string decode_backend = "standard";
  std::string save_logits;
  // bench speed
  std::vector<std::string> peers;
  std::vector<std::string> peer_figures;
  std::vector<int64_t> prefill;
  std::vector<int64_t> decode;
  std::vector<int64_t> depths;
  std::vector<int32_t> batches;
  int32_t repeats = 5;
  std::string out;
  // completion
  std::string shell;
  // General.
  bool json = false;
  bool yes = false;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string config;
  /// What may stand in the configuration file, with its origin: filled after parsing.
  std::vector<EffectiveSetting> effective;
};

/// Commands as bits, so that a row can name several.
enum CommandBits : uint32_t {
  kCmdRun = 1u << 0,
  kCmdServe = 1u << 1,
  kCmdPull = 1u << 2,
  kCmdList = 1u << 3,
  kCmdRm = 1u << 4,
  kCmdInspect = 1u << 5,
  kCmdEval = 1u << 6,
  kCmdBenchSpeed = 1u << 7,
  kCmdConfig = 1u << 8,
  kCmdKeysNew = 1u << 9,
  kCmdKeysList = 1u << 10,
  kCmdKeysRevoke = 1u << 11,
  kCmdDoctor = 1u << 12,
  kCmdCompletion = 1u << 13,
  kCmdManual = 1u << 14,
};

/// What the configuration file may hold for an option.
enum class FileValue {
  kNothing,  // the option is for the command line (and its variable) only
  kOne,      // a string, number or boolean, as the option's type says
  kList,     // a comma-separated option: a string or an array of strings
};

/// Attaches an option to its field of Options with the right type and checks.
using BindOption = CLI::Option* (*)(CLI::App*, Options*, const char* flags, const char* help);

struct OptionRow {
  const char* flags;
  const char* env;  // or null
  const char* help;
  uint32_t commands;
  BindOption bind;
  FileValue file = FileValue::kOne;  // only for options with a variable

  /// True if the configuration file may set it.
  bool in_file() const { return env != nullptr && file != FileValue::kNothing; }
  /// The long name without dashes, e.g. "ctx-size"; a positional's own name.
  std::string key() const;
};

/// The whole table.
std::span<const OptionRow> OptionRows();

struct BoundOption {
  const OptionRow* row;
  CLI::Option* option;
};

/// Adds the rows of the table that any command in `commands` takes. Values come from flags only;
/// cli/settings.h adds the rest.
std::vector<BoundOption> AddOptions(uint32_t commands, CLI::App* app, Options* options);

}  // namespace ballast

#endif  // BALLAST_CLI_OPTIONS_H_
