// Role: translates Hugging Face checkpoints into GGUF's words: config.json to metadata keys, tensor
// names to GGUF names. Thread: pure.
#ifndef BALLAST_WEIGHTS_HF_CONFIG_H_
#define BALLAST_WEIGHTS_HF_CONFIG_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "weights/metadata.h"

namespace ballast {

/// What config.json says.
struct HfConfig {
  std::string architecture;  // GGUF's: "llama", "qwen2", …
  bool tied_embedding = false;
  std::vector<float> rope_factors;  // llama3 scaling: divisors of the frequencies; else empty
};

/// Adds "<arch>.block_count" and the like to `metadata` (whose file() names config.json in
/// messages). Errors: kInvalidArgument for a field that is missing, of the wrong type or out of
/// range; kUnimplemented for an architecture or a setting that would change what is computed.
Result<HfConfig> ReadHfConfig(const Json& config, Metadata* metadata);

/// "model.layers.3.self_attn.q_proj.weight" → "blk.3.attn_q.weight"; the name itself when it has no
/// counterpart (such tensors are of no use to a model).
std::string CanonicalTensorName(std::string_view architecture, std::string_view name);

/// The divisors of llama3's RoPE scaling for each of rotary_dim / 2 frequencies.
/// Source: Llama 3.1's published scaling rule (low and high frequency factors).
struct Llama3Scaling {
  double theta = 0;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_context = 8192;
};
std::vector<float> Llama3RopeFactors(const Llama3Scaling& scaling, int64_t rotary_dim);

}  // namespace ballast

#endif  // BALLAST_WEIGHTS_HF_CONFIG_H_
