#include "model/tokenizer_from_gguf.h"

#include <algorithm>
#include <array>

namespace ballast {
namespace {

Result<std::vector<std::string>> CopyStrings(const Metadata& metadata, std::string_view key,
                                             size_t limit) {
  const MetaValue* value = metadata.Find(key);
  if (value != nullptr && value->count > limit) {
    return InvalidArgument("'{}': metadata key '{}' has {} entries, over the limit of {}",
                           metadata.file(), key, value->count, limit);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string_view> views, metadata.GetStringArray(key));
  return std::vector<std::string>(views.begin(), views.end());
}

Error WrongLength(const Metadata& metadata, std::string_view key, size_t found, size_t vocab) {
  return InvalidArgument("'{}': metadata key '{}' has {} entries for a vocabulary of {}",
                         metadata.file(), key, found, vocab);
}

Status ReadTypes(const Metadata& metadata, TokenizerSpec* spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  if (!metadata.Has(kKey)) return OkStatus();
  ASSIGN_OR_RETURN(const std::vector<int32_t> types, metadata.GetI32Array(kKey));
  if (types.size() != spec->tokens.size()) {
    return WrongLength(metadata, kKey, types.size(), spec->tokens.size());
  }
  spec->types.reserve(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] < 0 || types[i] > static_cast<int32_t>(TokenType::kByte)) {
      return InvalidArgument("'{}': metadata key '{}'[{}] is {}, must be in [0, 6]",
                             metadata.file(), kKey, i, types[i]);
    }
    spec->types.push_back(static_cast<TokenType>(types[i]));
  }
  return OkStatus();
}

Status ReadScores(const Metadata& metadata, TokenizerSpec* spec) {
  constexpr std::string_view kKey = "tokenizer.ggml.scores";
  if (!metadata.Has(kKey)) return OkStatus();
  ASSIGN_OR_RETURN(spec->scores, metadata.GetF32Array(kKey));
  if (spec->scores.size() != spec->tokens.size()) {
    return WrongLength(metadata, kKey, spec->scores.size(), spec->tokens.size());
  }
  return OkStatus();
}

Status ReadId(const Metadata& metadata, std::string_view key, size_t vocab,
              std::optional<TokenId> absent, std::optional<TokenId>* id) {
  *id = absent && static_cast<size_t>(*absent) < vocab ? absent : std::nullopt;
  if (!metadata.Has(key)) return OkStatus();
  ASSIGN_OR_RETURN(const uint64_t value, metadata.GetU64(key));
  // Converters write 2^32 − 1 for "none".
  if (value == UINT32_MAX) {
    *id = std::nullopt;
    return OkStatus();
  }
  if (value >= vocab) {
    return InvalidArgument("'{}': metadata key '{}' is {}, outside the vocabulary of {}",
                           metadata.file(), key, value, vocab);
  }
  *id = static_cast<TokenId>(value);
  return OkStatus();
}

// Llama 3's family takes a piece that is a token whole, and starts with BOS unless told otherwise.
bool IsLlama3Family(std::string_view pre) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "lfm2"};
  return std::find(kNames.begin(), kNames.end(), pre) != kNames.end();
}

Status ReadIdsAndFlags(const Metadata& metadata, TokenizerSpec* spec) {
  const bool sentencepiece = spec->kind == TokenizerKind::kSentencePiece;
  const auto spm_default = [&](TokenId id) {
    return sentencepiece ? std::optional<TokenId>(id) : std::nullopt;
  };
  struct Id {
    std::string_view key;
    std::optional<TokenId> absent;
    std::optional<TokenId>* id;
  };
  const Id ids[] = {
      {"tokenizer.ggml.bos_token_id", spm_default(1), &spec->bos},
      {"tokenizer.ggml.eos_token_id", spm_default(2), &spec->eos},
      {"tokenizer.ggml.eot_token_id", std::nullopt, &spec->eot},
      {"tokenizer.ggml.unknown_token_id", spm_default(0), &spec->unk},
      {"tokenizer.ggml.padding_token_id", std::nullopt, &spec->pad},
  };
  for (const Id& entry : ids) {
    RETURN_IF_ERROR(ReadId(metadata, entry.key, spec->tokens.size(), entry.absent, entry.id));
  }
  const bool llama3 = !sentencepiece && IsLlama3Family(spec->pre_tokenizer);
  spec->ignore_merges = llama3;
  ASSIGN_OR_RETURN(spec->add_bos,
                   metadata.GetBoolOr("tokenizer.ggml.add_bos_token", sentencepiece || llama3));
  ASSIGN_OR_RETURN(spec->add_eos, metadata.GetBoolOr("tokenizer.ggml.add_eos_token", false));
  ASSIGN_OR_RETURN(spec->add_space_prefix,
                   metadata.GetBoolOr("tokenizer.ggml.add_space_prefix", sentencepiece));
  return OkStatus();
}

}  // namespace

Result<TokenizerSpec> TokenizerSpecFromGguf(const WeightSource& source) {
  const Metadata& metadata = source.metadata();
  ASSIGN_OR_RETURN(const std::string_view model, metadata.GetString("tokenizer.ggml.model"));
  TokenizerSpec spec;
  if (model == "gpt2") {
    spec.kind = TokenizerKind::kBpe;
  } else if (model == "llama") {
    spec.kind = TokenizerKind::kSentencePiece;
  } else {
    return Unimplemented(
        "'{}': tokenizer.ggml.model '{}' is not supported (supported: gpt2, llama)",
        metadata.file(), model.substr(0, 64));
  }
  ASSIGN_OR_RETURN(const std::string_view pre,
                   metadata.GetStringOr("tokenizer.ggml.pre", "default"));
  spec.pre_tokenizer = std::string(pre);
  ASSIGN_OR_RETURN(spec.tokens, CopyStrings(metadata, "tokenizer.ggml.tokens", kMaxVocabTokens));
  if (spec.tokens.empty()) {
    return InvalidArgument("'{}': metadata key 'tokenizer.ggml.tokens' is empty", metadata.file());
  }
  if (metadata.Has("tokenizer.ggml.merges")) {
    ASSIGN_OR_RETURN(spec.merges, CopyStrings(metadata, "tokenizer.ggml.merges", kMaxMerges));
  }
  RETURN_IF_ERROR(ReadTypes(metadata, &spec));
  RETURN_IF_ERROR(ReadScores(metadata, &spec));
  RETURN_IF_ERROR(ReadIdsAndFlags(metadata, &spec));
  ASSIGN_OR_RETURN(const std::string_view chat_template,
                   metadata.GetStringOr("tokenizer.chat_template", ""));
  spec.chat_template = std::string(chat_template);
  return spec;
}

Result<TokenizerSpec> TokenizerSpecFromSource(const WeightSource& source) {
  if (source.format() == WeightFormat::kGguf) return TokenizerSpecFromGguf(source);
  if (source.tokenizer_json().empty()) {
    return NotFound("'{}': tokenizer.json is missing", source.path());
  }
  auto spec = ParseTokenizerJson(source.tokenizer_json(), source.tokenizer_config_json());
  if (!spec) return std::move(spec).error().WithContext(source.path());
  if (!source.chat_template().empty()) spec->chat_template = source.chat_template();
  return spec;
}

}  // namespace ballast
