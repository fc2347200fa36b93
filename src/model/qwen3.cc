// Role: the qwen3 architecture (dense): the shared decoder with an RMS norm on every query and key
// head before RoPE.
#include <utility>

#include "model/decoder.h"

namespace ballast {

Result<std::unique_ptr<Model>> LoadQwen3(LoadContext context) {
  ASSIGN_OR_RETURN(DecoderSpec spec, ReadDecoderSpec(*context.source));
  spec.qk_norm = QkNorm::kPerHead;
  return Decoder::Create(std::move(spec), std::move(context));
}

}  // namespace ballast
