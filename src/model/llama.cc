// Role: the llama architecture: Llama 2 and 3, SmolLM2, and others that convert to it. The shared
// decoder as it stands. GGUF files hold q and k with permuted rows, so RoPE pairs neighbours
// (RopeKind::kNorm, from WeightSource::rope_layout); Llama 3's frequency factors come in the tensor
// rope_freqs.weight.
#include <utility>

#include "model/decoder.h"

namespace ballast {

Result<std::unique_ptr<Model>> LoadLlama(LoadContext context) {
  ASSIGN_OR_RETURN(DecoderSpec spec, ReadDecoderSpec(*context.source));
  return Decoder::Create(std::move(spec), std::move(context));
}

}  // namespace ballast
