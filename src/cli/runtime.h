// Role: builds what the commands need out of the options: pool, kernels, ledger, model, tokenizer,
// KV. Thread: main only.
#ifndef BALLAST_CLI_RUNTIME_H_
#define BALLAST_CLI_RUNTIME_H_

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/model_store.h"
#include "cli/options.h"
#include "engine/engine.h"
#include "kernels/kernels.h"
#include "memory/frame_arena.h"
#include "memory/ledger.h"
#include "model/model.h"
#include "platform/thread_pool.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ballast {

/// A loaded model and what it runs on. Members are destroyed from the last to the first.
struct Runtime {
  std::string name;
  std::string path;
  uint64_t file_bytes = 0;
  ModelOptions model_options;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Ledger> ledger;
  std::unique_ptr<FrameArena> arena;
  std::optional<Kernels> kernels;
  std::unique_ptr<Model> model;
  std::unique_ptr<const Tokenizer> tokenizer;
};

/// Room for KV: what the budget leaves, or just enough for `kv_tokens` tokens when that is less.
enum class KvBudget { kWholeBudget, kAsNeeded };

/// The memory budget without --memory, out of what is free.
uint64_t DefaultBudget(uint64_t available_bytes);

/// Fetches (if missing) and loads options.model. Tokenizer and weights load side by side.
/// @param max_step_rows the largest step the command will run.
/// @param kv_tokens tokens of all sequences together under kAsNeeded.
Result<Runtime> LoadRuntime(const Options& options, int32_t max_step_rows, KvBudget kv_budget,
                            int64_t kv_tokens);

/// The chat template of the options, else the model's, else none.
Result<std::optional<ChatTemplate>> LoadChatTemplate(const Options& options,
                                                     const Tokenizer& tokenizer);

/// Moves a runtime into an engine.
Result<std::unique_ptr<Engine>> StartEngine(const Options& options, Runtime runtime);

}  // namespace ballast

#endif  // BALLAST_CLI_RUNTIME_H_
