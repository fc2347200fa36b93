// Role: the body of /v1/embeddings, from JSON to checked token lists. Thread: pure functions.
#ifndef BALLAST_SERVER_PARSE_EMBEDDINGS_H_
#define BALLAST_SERVER_PARSE_EMBEDDINGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "engine/client.h"
#include "server/api_error.h"

namespace ballast {

inline constexpr size_t kMaxEmbeddingInputs = 2048;  // the OpenAI API's limit

struct EmbeddingsBody {
  std::string model;  // empty: not given
  std::vector<std::vector<TokenId>> inputs;
  Pooling pooling = Pooling::kMean;
  int32_t dimensions = 0;  // [1, hidden]
  bool base64 = false;
};

/// Texts are tokenized with the BOS and EOS that the model wants; token arrays stay as they are.
/// Errors: 400 naming the field, with the input's index.
ApiResult<EmbeddingsBody> ParseEmbeddings(std::string_view body, const EngineClient& engine);

/// The first `dimensions` of an embedding, scaled to length 1 again.
std::vector<float> Shorten(std::vector<float> embedding, int32_t dimensions);
/// Little-endian floats in base64.
std::string Base64Floats(const std::vector<float>& values);
/// A JSON array; each number is the shortest that gives the same float.
std::string FloatArray(const std::vector<float>& values);

}  // namespace ballast

#endif  // BALLAST_SERVER_PARSE_EMBEDDINGS_H_
