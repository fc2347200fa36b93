#include "cli/runtime.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include "base/log.h"
#include "base/units.h"
#include "model/registry.h"
#include "model/tokenizer_from_gguf.h"
#include "platform/cpu.h"
#include "text/template_repairs.h"

namespace ballast {

namespace {

// The fixed line "runtime" (binary, tokenizer, buffers).
constexpr uint64_t kRuntimeBytes = 64 * kMiB;
// The default share of free memory that a server takes.
constexpr uint64_t kDefaultShareNumerator = 3;
constexpr uint64_t kDefaultShareDenominator = 4;

Result<uint64_t> MemoryBudget(const Options& options) {
  if (!options.memory.empty()) {
    auto bytes = ParseBytes(options.memory);
    if (!bytes.has_value()) return std::move(bytes).error().WithContext("--memory");
    return *bytes;
  }
  return DefaultBudget(AvailableMemoryBytes());
}

Result<ModelOptions> ParseModelOptions(const Options& options, int32_t max_step_rows) {
  ModelOptions parsed;
  parsed.context = options.ctx_size;
  parsed.max_step_rows = max_step_rows;
  if (options.activations == "precise") {
    parsed.activations = Activations::kPrecise;
  } else if (options.activations != "default") {
    return InvalidArgument("--activations '{}' is unknown (default or precise)",
                           options.activations);
  }
  if (options.kv_dtype == "kv8") {
    parsed.kv_dtype = KvDType::kKv8;
  } else if (options.kv_dtype != "f16") {
    return InvalidArgument("--kv-dtype '{}' is unknown (f16 or kv8)", options.kv_dtype);
  }
  return parsed;
}

Result<Isa> ChooseIsa(const Options& options) {
  if (options.isa.empty()) return BestIsa();
  return ParseIsa(options.isa);
}

Result<std::unique_ptr<const Tokenizer>> LoadTokenizer(const std::string& path) {
  ASSIGN_OR_RETURN(const auto source, OpenWeights(path));
  ASSIGN_OR_RETURN(TokenizerSpec spec, TokenizerSpecFromSource(*source));
  RETURN_IF_ERROR(source->CheckIntact());
  return Tokenizer::Create(std::move(spec));
}

// What the budget leaves for KV after weights, activations and the runtime line.
Result<uint64_t> KvBytes(const Runtime& runtime, KvBudget kv_budget, int64_t kv_tokens) {
  const uint64_t taken = runtime.ledger->total_bytes() + runtime.model->activation_growth_bytes();
  const uint64_t budget = runtime.ledger->budget_bytes();
  if (budget < taken + kFrameBytes) {
    return ResourceExhausted(
        "--memory {} leaves nothing for the KV cache: weights, activations and runtime take {}",
        FormatBytes(budget), FormatBytes(taken));
  }
  const uint64_t left = budget - taken;
  if (kv_budget == KvBudget::kWholeBudget) return left;
  uint64_t token_bytes = 0;
  uint64_t slack_frames = 2;  // a partly used frame a record size, and one to round up
  for (const KvLayer& layer : runtime.model->kv_layers()) {
    token_bytes += layer.shape.f16_record_bytes() / kPageTokens;
    ++slack_frames;
  }
  const uint64_t pages = static_cast<uint64_t>(CeilDiv<int64_t>(kv_tokens, kPageTokens)) + 1;
  // A frame holds whole records: at most an eighth is lost for the largest records in use.
  const uint64_t wanted = pages * kPageTokens * token_bytes * 9 / 8 + slack_frames * kFrameBytes;
  if (wanted > left) {
    return ResourceExhausted("the KV cache needs {} for {} tokens, --memory leaves {}",
                             FormatBytes(wanted), kv_tokens, FormatBytes(left));
  }
  return wanted;
}

}  // namespace

uint64_t DefaultBudget(uint64_t available_bytes) {
  return available_bytes / kDefaultShareDenominator * kDefaultShareNumerator;
}

Result<Runtime> LoadRuntime(const Options& options, int32_t max_step_rows, KvBudget kv_budget,
                            int64_t kv_tokens) {
  Runtime runtime;
  ASSIGN_OR_RETURN(runtime.model_options, ParseModelOptions(options, max_step_rows));
  ASSIGN_OR_RETURN(const Isa isa, ChooseIsa(options));
  ASSIGN_OR_RETURN(const uint64_t budget, MemoryBudget(options));
  const ProgressMode mode = options.json ? ProgressMode::kQuiet : ProgressMode::kAuto;
  const std::string name =
      options.model.empty() ? Catalog::Embedded().default_model() : options.model;
  ASSIGN_OR_RETURN(const ResolvedModel resolved, EnsureModel(name, mode));
  runtime.name = resolved.model.name;
  runtime.path = resolved.path;
  // The probe asks for AMX permission, which must precede the pool's threads.
  if (!IsaSupported(isa)) {
    return Unimplemented("--isa {} needs instructions that this CPU lacks ({})", IsaName(isa),
                         CpuName());
  }
  runtime.pool =
      std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : UsableCores());
  runtime.ledger = std::make_unique<Ledger>(budget);
  runtime.ledger->Charge(MemoryOwner::kRuntime, kRuntimeBytes);
  ASSIGN_OR_RETURN(const Kernels kernels, Kernels::Create(isa, *runtime.pool));
  runtime.kernels = kernels;
  auto tokenizer =
      std::async(std::launch::async, [path = runtime.path] { return LoadTokenizer(path); });
  ASSIGN_OR_RETURN(runtime.model,
                   LoadModel(runtime.path, runtime.model_options, kernels, runtime.ledger.get()));
  ASSIGN_OR_RETURN(runtime.tokenizer, tokenizer.get());
  ASSIGN_OR_RETURN(const uint64_t kv_bytes, KvBytes(runtime, kv_budget, kv_tokens));
  ASSIGN_OR_RETURN(runtime.arena, FrameArena::Create(kv_bytes, runtime.ledger.get()));
  return runtime;
}

Result<std::optional<ChatTemplate>> LoadChatTemplate(const Options& options,
                                                     const Tokenizer& tokenizer) {
  std::string source = options.chat_template;
  const char* flag = "--chat-template";
  if (!options.chat_template_file.empty()) {
    flag = "--chat-template-file";
    if (!options.chat_template.empty()) {
      return InvalidArgument("--chat-template and --chat-template-file exclude each other");
    }
    std::ifstream file(options.chat_template_file);
    if (!file || !std::filesystem::is_regular_file(options.chat_template_file)) {
      return NotFound("{}: cannot read '{}' as a file", flag, options.chat_template_file);
    }
    std::stringstream text;
    text << file.rdbuf();
    source = text.str();
    if (source.find_first_not_of(" \t\r\n") == std::string::npos) {
      return InvalidArgument("{}: '{}' is empty", flag, options.chat_template_file);
    }
  } else if (!source.empty()) {
    const auto builtin = FindBuiltinChatTemplate(source);
    if (builtin.has_value()) source = std::string(*builtin);
  } else {
    source = tokenizer.chat_template();
    flag = "the model's chat template";
    for (const std::string& repair : RepairChatTemplate(&source)) {
      LOG_INFO("{} is repaired: {}", flag, repair);
    }
  }
  if (source.empty()) return std::optional<ChatTemplate>();
  auto parsed = ChatTemplate::Parse(std::move(source));
  if (parsed.has_value()) return std::optional<ChatTemplate>(std::move(*parsed));
  // A broken template of the file must not keep the model from completing plain text.
  if (flag[0] != '-') {
    LOG_WARN("{} is not usable and is ignored: {}", flag, parsed.error().message);
    return std::optional<ChatTemplate>();
  }
  return std::move(parsed).error().WithContext(flag);
}

Result<std::unique_ptr<Engine>> StartEngine(const Options& options, Runtime runtime) {
  EngineOptions engine;
  engine.model_id = options.alias.empty() ? runtime.name : options.alias;
  engine.context = options.ctx_size;
  engine.kv_dtype = runtime.model_options.kv_dtype;
  engine.activations = runtime.model_options.activations;
  engine.max_queue = options.max_queue;
  engine.max_sequences = options.max_sequences;
  ASSIGN_OR_RETURN(auto chat_template, LoadChatTemplate(options, *runtime.tokenizer));
  EngineMemory memory;
  memory.pool = std::move(runtime.pool);
  memory.ledger = std::move(runtime.ledger);
  memory.arena = std::move(runtime.arena);
  return Engine::Create(std::move(engine), std::move(runtime.model), *runtime.kernels,
                        std::move(runtime.tokenizer), std::move(chat_template), std::move(memory));
}

}  // namespace ballast
