// Role: the qwen2 architecture (Qwen 2 and 2.5): the shared decoder with biases on q, k and v.
#include <utility>

#include "model/decoder.h"

namespace ballast {

Result<std::unique_ptr<Model>> LoadQwen2(LoadContext context) {
  ASSIGN_OR_RETURN(DecoderSpec spec, ReadDecoderSpec(*context.source));
  spec.qkv_bias = QkvBias::kRequired;
  return Decoder::Create(std::move(spec), std::move(context));
}

}  // namespace ballast
