#include "server/parse_embeddings.h"

#include <cmath>
#include <cstdint>
#include <iterator>

#include "base/encoding.h"
#include "server/json_read.h"
#include "server/parse_request.h"
#include "text/tokenizer.h"

namespace ballast {

namespace {

constexpr char kInputTypes[] =
    "input must be a string, an array of strings, an array of token ids or an array of such "
    "arrays; it is {}";

ApiStatus AddInput(const Json& value, const std::string& path, const EngineClient& engine,
                   EmbeddingsBody& out) {
  std::vector<TokenId> tokens;
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (!text.empty()) {
      tokens = engine.tokenizer().Encode(text);
      AddSpecial(engine.tokenizer(), &tokens);
    }
  } else {
    ASSIGN_OR_RETURN(tokens, TokenArray(value, path, engine.info().vocab));
  }
  if (tokens.empty()) {
    return FieldError(path, "empty_prompt", "{} has no tokens; it needs at least 1", path);
  }
  if (static_cast<int64_t>(tokens.size()) > engine.info().context) {
    return FieldError(path, "context_length_exceeded",
                      "{} has {} tokens; this model's maximum context length is {} tokens", path,
                      tokens.size(), engine.info().context);
  }
  out.inputs.push_back(std::move(tokens));
  return {};
}

ApiStatus ReadInputs(const Json& body, const EngineClient& engine, EmbeddingsBody& out) {
  const Json* input = FindMember(body, "input");
  if (input == nullptr) {
    return FieldError("input", "missing_field", "the field \"input\" is missing");
  }
  if (input->is_string()) return AddInput(*input, "input", engine, out);
  if (!input->is_array() || input->empty()) {
    return FieldError("input", "invalid_type", kInputTypes, ShowJson(*input));
  }
  if (input->front().is_number()) return AddInput(*input, "input", engine, out);
  if (input->size() > kMaxEmbeddingInputs) {
    return FieldError("input", "invalid_value", "input holds {} inputs; the limit is {}",
                      input->size(), kMaxEmbeddingInputs);
  }
  for (size_t i = 0; i < input->size(); ++i) {
    const Json& item = (*input)[i];
    const std::string path = fmt::format("input[{}]", i);
    if (!item.is_string() && !item.is_array()) {
      return FieldError(path, "invalid_type", kInputTypes, ShowJson(item));
    }
    RETURN_IF_ERROR(AddInput(item, path, engine, out));
  }
  return {};
}

/// Reads a word out of two. False: absent.
ApiResult<bool> ReadChoice(const Json& body, std::string_view name, std::string_view first,
                           std::string_view second, bool& is_second) {
  if (FindMember(body, name) == nullptr) return false;
  std::string word;
  RETURN_IF_ERROR(ReadString(body, name, word));
  if (word != first && word != second) {
    return FieldError(name, "invalid_value", "{} is {:?}; known are {:?} and {:?}", name,
                      word.substr(0, 64), first, second);
  }
  is_second = word == second;
  return true;
}

}  // namespace

ApiResult<EmbeddingsBody> ParseEmbeddings(std::string_view body, const EngineClient& engine) {
  ASSIGN_OR_RETURN(const Json json, ParseBody(body, kEmbeddings));
  EmbeddingsBody out;
  RETURN_IF_ERROR(ReadString(json, "model", out.model));
  RETURN_IF_ERROR(ReadChoice(json, "encoding_format", "float", "base64", out.base64));
  bool last = false;
  ASSIGN_OR_RETURN(const bool given, ReadChoice(json, "pooling", "mean", "last", last));
  out.pooling = given ? (last ? Pooling::kLast : Pooling::kMean) : engine.info().pooling;
  int64_t dimensions = engine.info().hidden;
  RETURN_IF_ERROR(ReadInt(json, "dimensions", 1, dimensions, dimensions));
  out.dimensions = static_cast<int32_t>(dimensions);
  RETURN_IF_ERROR(ReadInputs(json, engine, out));
  return out;
}

std::vector<float> Shorten(std::vector<float> embedding, int32_t dimensions) {
  if (static_cast<size_t>(dimensions) >= embedding.size()) return embedding;
  embedding.resize(static_cast<size_t>(dimensions));
  double squares = 0;
  for (const float v : embedding) squares += static_cast<double>(v) * static_cast<double>(v);
  if (squares <= 0) return embedding;
  for (float& v : embedding) v = static_cast<float>(static_cast<double>(v) / std::sqrt(squares));
  return embedding;
}

std::string Base64Floats(const std::vector<float>& values) {
  return Base64({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

std::string FloatArray(const std::vector<float>& values) {
  std::string out = "[";
  for (const float value : values) {
    if (out.size() > 1) out.push_back(',');
    fmt::format_to(std::back_inserter(out), "{}", value);
  }
  out.push_back(']');
  return out;
}

}  // namespace ballast
