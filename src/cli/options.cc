#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <set>
#include <string>

namespace ballast {

namespace {

constexpr uint32_t kLoads = kCmdRun | kCmdServe | kCmdEval | kCmdBenchSpeed;
constexpr uint32_t kPositionalModel = kCmdRun | kCmdPull | kCmdRm | kCmdInspect;
// Those that only print what is compiled in need no settings, not even a sound file of them.
constexpr uint32_t kAll = ~(kCmdCompletion | kCmdManual);

template <auto Field>
CLI::Option* Value(CLI::App* app, Options* options, const char* flags, const char* help) {
  return app->add_option(flags, options->*Field, help)->capture_default_str();
}
template <auto Field>
CLI::Option* Required(CLI::App* app, Options* options, const char* flags, const char* help) {
  return app->add_option(flags, options->*Field, help)->required();
}
template <auto Field>
CLI::Option* Flag(CLI::App* app, Options* options, const char* flags, const char* help) {
  return app->add_flag(flags, options->*Field, help);
}
template <auto Field, int64_t kLow, int64_t kHigh>
CLI::Option* Bounded(CLI::App* app, Options* options, const char* flags, const char* help) {
  return app->add_option(flags, options->*Field, help)
      ->check(CLI::Range(kLow, kHigh))
      ->capture_default_str();
}
// Repeatable, and a value may hold commas: --depth 0,4096.
template <auto Field, int64_t kLow, int64_t kHigh>
CLI::Option* List(CLI::App* app, Options* options, const char* flags, const char* help) {
  return app->add_option(flags, options->*Field, help)
      ->delimiter(',')
      ->check(CLI::Range(kLow, kHigh));
}
// CLI11 lets a number that is too large for 64 bits wrap.
template <auto Field>
CLI::Option* Seed(CLI::App* app, Options* options, const char* flags, const char* help) {
  return Value<Field>(app, options, flags, help)->check([](const std::string& text) {
    uint64_t seed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole ? std::string() : text + " is not in [0 - 18446744073709551615]";
  });
}
template <auto Field>
CLI::Option* LogLevel(CLI::App* app, Options* options, const char* flags, const char* help) {
  const std::set<std::string> levels{"trace", "debug", "info", "warn", "error", "off"};
  return Value<Field>(app, options, flags, help)->check(CLI::IsMember(levels));
}
template <auto Field>
CLI::Option* LogFormatName(CLI::App* app, Options* options, const char* flags, const char* help) {
  const std::set<std::string> formats{"text", "json"};
  return Value<Field>(app, options, flags, help)->check(CLI::IsMember(formats));
}
template <auto Field>
CLI::Option* ShellName(CLI::App* app, Options* options, const char* flags, const char* help) {
  const std::set<std::string> shells{"bash", "zsh", "fish"};
  return Required<Field>(app, options, flags, help)->check(CLI::IsMember(shells));
}
template <auto Field>
CLI::Option* Named(CLI::App* app, Options* options, const char* flags, const char* help) {
  return Value<Field>(app, options, flags, help)->check([](const std::string& text) {
    return text.empty() ? std::string("must not be empty") : std::string();
  });
}
template <auto Field>
CLI::Option* RequiredNamed(CLI::App* app, Options* options, const char* flags, const char* help) {
  return Named<Field>(app, options, flags, help)->required();
}
template <auto Field>
CLI::Option* Repeated(CLI::App* app, Options* options, const char* flags, const char* help) {
  return app->add_option(flags, options->*Field, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1)
      ->allow_extra_args(false);
}

constexpr OptionRow kTable[] = {
    {"MODEL", nullptr, "Catalogue name, hf:ORG/REPO/FILE, GGUF file or safetensors folder",
     kPositionalModel, RequiredNamed<&Options::model>},
    {"-m,--model,MODEL", "BALLAST_MODEL",
     "Catalogue name, hf:ORG/REPO/FILE, GGUF file or safetensors folder",
     kCmdServe | kCmdEval | kCmdBenchSpeed, Named<&Options::model>},
    {"--alias", "BALLAST_ALIAS", "Name of the model in the API", kCmdServe, Value<&Options::alias>},
    {"--chat-template", "BALLAST_CHAT_TEMPLATE",
     "Chat template: a built-in name (chatml, llama3, gemma) or Jinja source", kCmdServe | kCmdRun,
     Value<&Options::chat_template>},
    {"--chat-template-file", nullptr, "File with the Jinja source of a chat template",
     kCmdServe | kCmdRun, Value<&Options::chat_template_file>},
    {"-t,--threads", "BALLAST_THREADS", "Threads for kernels (0: all usable cores)", kLoads,
     Bounded<&Options::threads, 0, 256>},
    {"--isa", "BALLAST_ISA", "Kernel bodies: ref, avx2, avx512 or amx (default: the best)", kLoads,
     Value<&Options::isa>},
    {"--memory", "BALLAST_MEMORY",
     "Memory budget, e.g. 2GiB (default: three quarters of what is free)", kLoads,
     Value<&Options::memory>},
    {"-c,--ctx-size", "BALLAST_CTX_SIZE", "Tokens a request may use (0: the model's context)",
     kCmdRun | kCmdServe, Bounded<&Options::ctx_size, 0, 1 << 24>},
    {"--activations", "BALLAST_ACTIVATIONS",
     "Rounding of activations: default or precise (docs/arithmetic.md)", kLoads,
     Value<&Options::activations>},
    {"--kv-dtype", "BALLAST_KV_DTYPE", "Type of cached keys and values: f16 or kv8", kLoads,
     Value<&Options::kv_dtype>},
    {"--host", "BALLAST_HOST", "Address to listen on", kCmdServe, Value<&Options::host>},
    {"-p,--port", "BALLAST_PORT", "Port to listen on (0: any free one)", kCmdServe,
     Bounded<&Options::port, 0, 65535>},
    {"--max-queue", "BALLAST_MAX_QUEUE", "Requests that may wait before 429", kCmdServe,
     Bounded<&Options::max_queue, 1, 65536>},
    {"--cors-origins", "BALLAST_CORS_ORIGINS", "Web origins that may call the API, comma-separated",
     kCmdServe, Value<&Options::cors_origins>, FileValue::kList},
    {"--allowed-hosts", "BALLAST_ALLOWED_HOSTS",
     "Host names, besides local ones, under which a server on loopback answers, comma-separated",
     kCmdServe, Value<&Options::allowed_hosts>, FileValue::kList},
    {"--max-body", "BALLAST_MAX_BODY", "Largest request body, e.g. 8MiB (413 above)", kCmdServe,
     Value<&Options::max_body>},
    {"--max-connections", "BALLAST_MAX_CONNECTIONS", "Clients connected at a time (503 above)",
     kCmdServe, Bounded<&Options::max_connections, 1, 65536>},
    {"--max-sequences,--parallel", "BALLAST_MAX_SEQUENCES", "Requests computed at a time",
     kCmdServe, Bounded<&Options::max_sequences, 1, 1024>},
    {"--request-timeout", "BALLAST_REQUEST_TIMEOUT",
     "Seconds a request may take, its queueing included (0: no limit)", kCmdServe,
     Bounded<&Options::request_timeout_s, 0, 31536000>},
    {"--drain-timeout", "BALLAST_DRAIN_TIMEOUT",
     "Seconds that running requests may go on after SIGTERM or Ctrl-C", kCmdServe,
     Bounded<&Options::drain_timeout_s, 0, 86400>},
    {"--api-key", "BALLAST_API_KEY",
     "One key that clients must send (better by the variable: others see a command line)",
     kCmdServe, Value<&Options::api_key>, FileValue::kNothing},
    {"--keys-file", "BALLAST_KEYS_FILE", "File with the tenants' keys (ballast keys new)",
     kCmdServe | kCmdKeysNew | kCmdKeysList | kCmdKeysRevoke, Value<&Options::keys_file>},
    {"--state-dir", "BALLAST_STATE_DIR",
     "Folder of the server's state (default: $XDG_STATE_HOME/ballast or ~/.local/state/ballast)",
     kCmdServe, Value<&Options::state_dir>},
    {"--audit-log", "BALLAST_AUDIT_LOG", "File that gets a JSON line for every request", kCmdServe,
     Value<&Options::audit_log>},
    {"ID", nullptr, "Id of the key, as keys list shows it", kCmdKeysRevoke,
     RequiredNamed<&Options::key_id>},
    {"--tenant", nullptr, "Whom the key belongs to", kCmdKeysNew, RequiredNamed<&Options::tenant>},
    {"--scopes", nullptr, "What the key allows: inference, metrics, admin (comma-separated)",
     kCmdKeysNew, Named<&Options::scopes>},
    {"--requests-per-minute", nullptr, "Quota of the tenant (default: as it is)", kCmdKeysNew,
     Bounded<&Options::requests_per_minute, 1, 1'000'000'000>},
    {"--tokens-per-minute", nullptr, "Quota of the tenant (default: as it is)", kCmdKeysNew,
     Bounded<&Options::tokens_per_minute, 1, 1'000'000'000'000>},
    {"--concurrent-requests", nullptr, "Quota of the tenant (default: as it is)", kCmdKeysNew,
     Bounded<&Options::concurrent_requests, 1, 1'000'000>},
    {"-P,--prompt", nullptr, "Answer this one prompt and exit", kCmdRun, Value<&Options::prompt>},
    {"--system", nullptr, "System message", kCmdRun, Value<&Options::system>},
    {"-n,--max-tokens", nullptr, "Longest answer (0: until the context is full)", kCmdRun,
     Bounded<&Options::max_tokens, 0, 1 << 24>},
    {"--temperature", nullptr, "Sampling temperature, 0 is greedy", kCmdRun,
     Value<&Options::temperature>},
    {"--seed", nullptr, "Seed of the sampler", kCmdRun, Seed<&Options::seed>},
    {"--text", nullptr, "File with the text to evaluate", kCmdEval, Required<&Options::text>},
    {"--context", nullptr, "Tokens a chunk", kCmdEval, Bounded<&Options::context, 2, 1 << 20>},
    {"--chunks", nullptr, "Chunks to evaluate (0: all)", kCmdEval,
     Bounded<&Options::chunks, 0, 1 << 20>},
    {"--prefill-chunk", nullptr, "Rows a step in prefill mode", kCmdEval,
     Bounded<&Options::prefill_chunk, 1, 65536>},
    {"--batch", nullptr, "Copies of the text evaluated side by side", kCmdEval,
     Bounded<&Options::batch, 1, 256>},
    {"--mode", nullptr, "prefill or decode (one token a step)", kCmdEval, Value<&Options::mode>},
    {"--decode-backend", nullptr, "Decode backend: standard", kCmdEval,
     Value<&Options::decode_backend>},
    {"--save-logits", nullptr, "Write all logits as float32 .npy [tokens, vocab]", kCmdEval,
     Value<&Options::save_logits>},
    {"--peer", nullptr, "NAME=COMMAND of a llama-bench program, run in turn with ours (repeatable)",
     kCmdBenchSpeed, Repeated<&Options::peers>},
    {"--peer-figures", nullptr, "NAME=FILE with another program's figures (JSON; repeatable)",
     kCmdBenchSpeed, Repeated<&Options::peer_figures>},
    {"--prefill", nullptr, "Prompt lengths to measure", kCmdBenchSpeed,
     List<&Options::prefill, 0, 1 << 20>},
    {"--decode", nullptr, "Tokens to decode per measurement", kCmdBenchSpeed,
     List<&Options::decode, 0, 1 << 20>},
    {"--depth", nullptr, "Context depths of decode measurements", kCmdBenchSpeed,
     List<&Options::depths, 0, 1 << 20>},
    {"--batch", nullptr, "Sequences decoding at once", kCmdBenchSpeed,
     List<&Options::batches, 1, 64>},
    {"-r,--repeats", nullptr, "Alternating repeats; medians are reported", kCmdBenchSpeed,
     Bounded<&Options::repeats, 1, 100>},
    {"--out", nullptr, "Also write the report as Markdown", kCmdBenchSpeed, Value<&Options::out>},
    {"SHELL", nullptr, "bash, zsh or fish", kCmdCompletion, ShellName<&Options::shell>},
    {"-y,--yes", nullptr, "Do not ask before removing", kCmdRm, Flag<&Options::yes>},
    {"--json", nullptr, "Print one JSON document", kAll & ~kCmdRun, Flag<&Options::json>},
    {"--log-level", "BALLAST_LOG_LEVEL", "trace, debug, info, warn, error or off", kAll,
     LogLevel<&Options::log_level>},
    {"--log-format", "BALLAST_LOG_FORMAT", "Lines of the log on stderr: text or json", kAll,
     LogFormatName<&Options::log_format>},
    {"--config", "BALLAST_CONFIG",
     "Configuration file (default: ballast.toml in $XDG_CONFIG_HOME/ballast, then /etc/ballast)",
     kAll, Value<&Options::config>, FileValue::kNothing},
};

}  // namespace

std::string OptionRow::key() const {
  const std::string_view names = flags;
  const size_t dashes = names.find("--");
  const size_t start = dashes == std::string_view::npos ? 0 : dashes + 2;
  return std::string(names.substr(start, names.find(',', start) - start));
}

std::span<const OptionRow> OptionRows() { return kTable; }

std::vector<BoundOption> AddOptions(uint32_t commands, CLI::App* app, Options* options) {
  std::vector<BoundOption> bound;
  for (const OptionRow& row : kTable) {
    if ((row.commands & commands) == 0) continue;
    std::string help = row.help;
    if (row.env != nullptr) help += std::string(" [") + row.env + "]";
    bound.push_back({&row, row.bind(app, options, row.flags, help.c_str())});
  }
  return bound;
}

}  // namespace ballast
