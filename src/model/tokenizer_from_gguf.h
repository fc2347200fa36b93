// Role: the vocabulary of a model file as a TokenizerSpec: from GGUF's tokenizer.ggml.* keys, or
// from the tokenizer.json beside safetensors. Thread: pure.
#ifndef BALLAST_MODEL_TOKENIZER_FROM_GGUF_H_
#define BALLAST_MODEL_TOKENIZER_FROM_GGUF_H_

#include "base/result.h"
#include "text/tokenizer.h"
#include "weights/source.h"

namespace ballast {

/// Largest vocabulary and merge list that we read.
inline constexpr size_t kMaxVocabTokens = size_t{1} << 20;
inline constexpr size_t kMaxMerges = size_t{1} << 21;

/// Reads tokenizer.ggml.{model, pre, tokens, scores, token_type, merges, *_token_id, add_*} and
/// tokenizer.chat_template. Missing ids and flags get the defaults that GGUF's readers use.
/// Cost: copies the strings, about 10 ms for 150,000 tokens and merges.
/// Errors: kNotFound and kInvalidArgument naming file, key, value and limit; kUnimplemented for a
/// tokenizer model other than "gpt2" and "llama".
Result<TokenizerSpec> TokenizerSpecFromGguf(const WeightSource& source);

/// The above for GGUF; ParseTokenizerJson for safetensors.
Result<TokenizerSpec> TokenizerSpecFromSource(const WeightSource& source);

}  // namespace ballast

#endif  // BALLAST_MODEL_TOKENIZER_FROM_GGUF_H_
