// Role: reads and checks the hyper-parameters that decoder architectures share. An architecture's
// file (llama.cc, qwen2.cc, …) starts from ReadDecoderSpec and changes what is its own.
// Thread: pure functions. Invariant: every value that reaches the decoder was bounded here.
#ifndef BALLAST_MODEL_SPEC_H_
#define BALLAST_MODEL_SPEC_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/model.h"
#include "weights/source.h"

namespace ballast {

/// Biases of the q, k and v projections.
enum class QkvBias : uint8_t { kIfPresent, kRequired };
/// RMS norm of every query and key head before RoPE.
enum class QkNorm : uint8_t { kNone, kPerHead };
/// RMS norms of what attention and MLP add to the residual, beside those of their inputs.
enum class PostNorm : uint8_t { kNone, kRms };

/// What the shared decoder computes (model/decoder.h).
struct DecoderSpec {
  ModelConfig config;
  Activation activation = Activation::kSilu;
  QkvBias qkv_bias = QkvBias::kIfPresent;
  QkNorm qk_norm = QkNorm::kNone;
  PostNorm post_norm = PostNorm::kNone;
};

/// "<architecture>.<suffix>", as GGUF names the keys of one architecture.
std::string ArchKey(const WeightSource& source, std::string_view suffix);

/// Fills everything that follows from the common keys: sizes, norm epsilon, RoPE, context, scale
/// 1/sqrt(head_dim), tied embedding. Sliding windows are left empty: the architecture decides.
/// Errors: kInvalidArgument naming file, key, value and limit; kUnimplemented for settings that
/// would change the arithmetic (expert layers, RoPE scaling other than linear, soft caps, …).
Result<DecoderSpec> ReadDecoderSpec(const WeightSource& source);

}  // namespace ballast

#endif  // BALLAST_MODEL_SPEC_H_
