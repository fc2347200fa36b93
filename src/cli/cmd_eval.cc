// Role: `ballast eval`: perplexity of a text and the hash of all logits. Thread: main only.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/runtime.h"
#include "model/evaluate.h"

namespace ballast {

namespace {

Result<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("--text: cannot read '{}'", path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Where the model wants BOS, every chunk starts with one, as every prompt would.
std::vector<TokenId> ChunkedTokens(const Tokenizer& tokenizer, const std::string& text,
                                   int64_t context) {
  const std::vector<TokenId> plain = tokenizer.Encode(text);
  if (!tokenizer.add_bos() || !tokenizer.bos().has_value()) return plain;
  std::vector<TokenId> tokens;
  for (const TokenId token : plain) {
    if (static_cast<int64_t>(tokens.size()) % context == 0) tokens.push_back(*tokenizer.bos());
    tokens.push_back(token);
  }
  return tokens;
}

void Print(const Options& options, const Runtime& runtime, const EvalResult& result) {
  const std::string isa(IsaName(runtime.kernels->isa()));
  if (options.json) {
    const Json document{{"model", runtime.name},
                        {"tokens", result.positions},
                        {"nll", result.nll_mean},
                        {"perplexity", result.perplexity},
                        {"logits_sha256", result.logits_sha256},
                        {"isa", isa},
                        {"decode_backend", options.decode_backend},
                        {"activations", options.activations},
                        {"kv_dtype", options.kv_dtype},
                        {"threads", runtime.pool->size()},
                        {"batch_identical", result.batch_identical}};
    std::printf("%s\n", DumpJson(document).c_str());
    return;
  }
  std::printf("%s: %lld tokens, nll %.6f, perplexity %.4f\nlogits sha256 %s\n",
              runtime.name.c_str(), static_cast<long long>(result.positions), result.nll_mean,
              result.perplexity, result.logits_sha256.c_str());
  std::printf("kernels %s, %d threads, activations %s, kv %s, %s\n", isa.c_str(),
              runtime.pool->size(), options.activations.c_str(), options.kv_dtype.c_str(),
              options.decode_backend.c_str());
}

}  // namespace

Status CommandEval(const Options& options) {
  if (options.decode_backend != "standard") {
    return Unimplemented("--decode-backend '{}' does not exist (standard)", options.decode_backend);
  }
  EvalOptions eval;
  ASSIGN_OR_RETURN(eval.mode, ParseEvalMode(options.mode));
  ASSIGN_OR_RETURN(const std::string text, ReadText(options.text));
  const int64_t rows = std::clamp<int64_t>(options.prefill_chunk, options.batch, 4096);
  ASSIGN_OR_RETURN(Runtime runtime, LoadRuntime(options, static_cast<int32_t>(rows),
                                                KvBudget::kAsNeeded, kPageTokens));
  runtime.arena.reset();  // the evaluation makes its own cache
  eval.context = options.context;
  eval.chunks = options.chunks;
  eval.prefill_chunk = options.prefill_chunk;
  eval.batch = options.batch;
  eval.kv_dtype = runtime.model_options.kv_dtype;
  eval.save_logits = options.save_logits;
  const std::vector<TokenId> tokens = ChunkedTokens(*runtime.tokenizer, text, options.context);
  ASSIGN_OR_RETURN(const EvalResult result,
                   Evaluate(*runtime.model, *runtime.kernels, runtime.ledger.get(), tokens, eval));
  Print(options, runtime, result);
  if (!result.batch_identical) {
    return Internal("sequences of one batch got different logits: this is a bug");
  }
  return OkStatus();
}

}  // namespace ballast
