// Role: reads the tokenizers library's tokenizer.json. Vocabulary and merges, which are large, go
// straight into the result while parsing; everything else, which is small, into a document.
// (An ordered document would search 150,000 keys once for each key.)
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_tables.h"

namespace ballast {
namespace {

using Doc = nlohmann::json;

constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr size_t kMaxSmallValues = 2'000'000;  // outside vocabulary and merges
constexpr int64_t kMaxTokenId = int64_t{1} << 22;
constexpr size_t kMaxMerges = size_t{1} << 23;

struct Parsed {
  Doc document;
  std::vector<std::pair<std::string, int64_t>> vocab;
  std::vector<std::string> merges;
};

/// Receives nlohmann's events.
class Handler {
 public:
  explicit Handler(Parsed* out) : out_(*out) {}

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(int64_t value) { return Number(value); }
  bool number_unsigned(uint64_t value) {
    return Number(static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)));
  }
  bool number_float(double value, const std::string&) { return Add(value); }
  bool binary(Doc::binary_t&) { return Refuse("binary values are not JSON"); }

  bool string(std::string& value) {
    if (place_ == Place::kMerges) return AddMerge(std::move(value));
    if (place_ == Place::kMergePair) {
      if (pair_.size() == 2) return Refuse("model.merges: an entry has more than two parts");
      pair_.push_back(std::move(value));
      return true;
    }
    return Add(std::move(value));
  }

  bool start_object(size_t) {
    if (place_ != Place::kDocument) return Refuse("model.vocab or model.merges holds an object");
    if (path_ == kVocabPath && stack_.size() == 2) {
      place_ = Place::kVocab;
      return true;
    }
    return Open(Doc::object());
  }
  bool end_object() {
    if (place_ == Place::kVocab) {
      place_ = Place::kDocument;
      return true;
    }
    return Close();
  }
  bool key(std::string& value) {
    key_ = std::move(value);
    if (place_ == Place::kDocument) {
      if (stack_.size() == 1) path_ = key_;
      if (stack_.size() == 2) path_ = path_.substr(0, path_.find('\n')) + "\n" + key_;
      if (stack_.size() > 2) path_ += '\n';
    }
    return true;
  }
  bool start_array(size_t) {
    if (place_ == Place::kMerges) {
      place_ = Place::kMergePair;
      pair_.clear();
      return true;
    }
    if (place_ != Place::kDocument) return Refuse("model.vocab or model.merges holds a list");
    if (path_ == kMergesPath && stack_.size() == 2) {
      place_ = Place::kMerges;
      return true;
    }
    return Open(Doc::array());
  }
  bool end_array() {
    if (place_ == Place::kMergePair) {
      place_ = Place::kMerges;
      if (pair_.size() != 2) return Refuse("model.merges: an entry has not two parts");
      return AddMerge(pair_[0] + " " + pair_[1]);
    }
    if (place_ == Place::kMerges) {
      place_ = Place::kDocument;
      return true;
    }
    return Close();
  }
  bool parse_error(size_t position, const std::string&, const Doc::exception& error) {
    return Refuse(fmt::format("invalid JSON at byte {}: {}", position, error.what()));
  }

  const std::string& error() const { return error_; }

 private:
  enum class Place { kDocument, kVocab, kMerges, kMergePair };
  static constexpr std::string_view kVocabPath = "model\nvocab";
  static constexpr std::string_view kMergesPath = "model\nmerges";

  bool Refuse(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }

  bool Number(int64_t value) {
    if (place_ == Place::kVocab) {
      if (value < 0 || value > kMaxTokenId) {
        return Refuse(fmt::format("model.vocab: id {} of \"{}\" is outside 0 to {}", value,
                                  key_.substr(0, 40), kMaxTokenId));
      }
      out_.vocab.emplace_back(std::move(key_), value);
      return true;
    }
    return Add(value);
  }

  bool AddMerge(std::string merge) {
    if (out_.merges.size() >= kMaxMerges) {
      return Refuse(fmt::format("model.merges has more than {} entries", kMaxMerges));
    }
    out_.merges.push_back(std::move(merge));
    return true;
  }

  /// Puts a value at the current place of the document; null (with an error) beyond a limit.
  Doc* Put(Doc value) {
    if (place_ != Place::kDocument) {
      Refuse("model.vocab or model.merges holds a value of an unexpected type");
      return nullptr;
    }
    if (++values_ > kMaxSmallValues) {
      Refuse(fmt::format("more than {} values outside vocabulary and merges", kMaxSmallValues));
      return nullptr;
    }
    if (stack_.empty()) {
      out_.document = std::move(value);
      return &out_.document;
    }
    Doc& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }
  bool Add(Doc value) { return Put(std::move(value)) != nullptr; }

  bool Open(Doc value) {
    if (stack_.size() >= kMaxDepth) {
      return Refuse(fmt::format("nests deeper than {} levels", kMaxDepth));
    }
    Doc* place = Put(std::move(value));
    if (place == nullptr) return false;
    stack_.push_back(place);
    return true;
  }
  bool Close() {
    stack_.pop_back();
    return true;
  }

  Parsed& out_;
  std::vector<Doc*> stack_;  // a parent is not changed while a child is open
  std::string key_;
  std::string path_;  // of the last key, two levels at most; deeper keys make it match nothing
  std::vector<std::string> pair_;
  Place place_ = Place::kDocument;
  size_t values_ = 0;
  std::string error_;
};

Result<Parsed> ParseLarge(std::string_view text, std::string_view file) {
  if (text.size() > kMaxFileBytes) {
    return InvalidArgument("{}: {} bytes; the limit is {}", file, text.size(), kMaxFileBytes);
  }
  Parsed parsed;
  Handler handler(&parsed);
  bool complete = false;
  try {
    complete = Doc::sax_parse(text.begin(), text.end(), &handler);
  } catch (const Doc::exception& e) {
    return InvalidArgument("{}: {}", file, e.what());
  }
  if (!complete) return InvalidArgument("{}: {}", file, handler.error());
  if (!parsed.document.is_object()) return InvalidArgument("{}: is not an object", file);
  return parsed;
}

const Doc& Member(const Doc& object, const char* name) {
  static const Doc kNull;
  if (!object.is_object()) return kNull;
  const auto it = object.find(name);
  return it == object.end() ? kNull : *it;
}
std::string Text(const Doc& value) { return value.is_string() ? value.get<std::string>() : ""; }
bool Flag(const Doc& value, bool absent) { return value.is_boolean() ? value.get<bool>() : absent; }

/// A step or a {"type": "Sequence"} of steps, as a flat list.
std::vector<const Doc*> Steps(const Doc& value, const char* list) {
  std::vector<const Doc*> steps;
  if (value.is_null()) return steps;
  if (Text(Member(value, "type")) == "Sequence" && Member(value, list).is_array()) {
    for (const Doc& step : Member(value, list)) steps.push_back(&step);
  } else {
    steps.push_back(&value);
  }
  return steps;
}

class SpecReader {
 public:
  explicit SpecReader(Parsed parsed) : parsed_(std::move(parsed)) {}

  Result<TokenizerSpec> Read() {
    RETURN_IF_ERROR(ReadModel());
    RETURN_IF_ERROR(ReadVocab());
    RETURN_IF_ERROR(ReadAddedTokens());
    RETURN_IF_ERROR(ReadNormalizer());
    RETURN_IF_ERROR(ReadPreTokenizer());
    ReadPostProcessor();
    return std::move(spec_);
  }

 private:
  Status ReadModel() {
    const Doc& model = Member(parsed_.document, "model");
    const std::string type = Text(Member(model, "type"));
    if (type != "BPE" && !(type.empty() && !parsed_.merges.empty())) {
      return Unimplemented("tokenizer.json: model.type \"{}\" is not supported (only BPE)", type);
    }
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!Text(Member(model, affix)).empty()) {
        return Unimplemented("tokenizer.json: model.{} is not supported", affix);
      }
    }
    const Doc& dropout = Member(model, "dropout");
    if (dropout.is_number() && dropout.get<double>() != 0) {
      return Unimplemented("tokenizer.json: model.dropout is not supported");
    }
    spec_.ignore_merges = Flag(Member(model, "ignore_merges"), false);
    spec_.kind = Flag(Member(model, "byte_fallback"), false) ? TokenizerKind::kSentencePiece
                                                             : TokenizerKind::kBpe;
    unk_ = Text(Member(model, "unk_token"));
    spec_.merges = std::move(parsed_.merges);
    return OkStatus();
  }

  Status Place(std::string text, int64_t id, TokenType type) {
    if (id < 0 || id > kMaxTokenId) {
      return InvalidArgument("tokenizer.json: token id {} is outside 0 to {}", id, kMaxTokenId);
    }
    const auto at = static_cast<size_t>(id);
    if (at >= spec_.tokens.size()) {
      spec_.tokens.resize(at + 1);
      spec_.types.resize(at + 1, TokenType::kUnused);
    }
    spec_.tokens[at] = std::move(text);
    spec_.types[at] = type;
    return OkStatus();
  }

  Status ReadVocab() {
    if (parsed_.vocab.empty()) return InvalidArgument("tokenizer.json: model.vocab is missing");
    int64_t last = 0;
    for (const auto& [text, id] : parsed_.vocab) last = std::max(last, id);
    // Ids may have gaps, but a single huge id must not make a table of millions.
    const auto limit = static_cast<int64_t>(parsed_.vocab.size()) * 4 + 1024;
    if (last > limit) {
      return InvalidArgument("tokenizer.json: model.vocab has {} tokens but an id of {}",
                             parsed_.vocab.size(), last);
    }
    max_id_ = limit;
    spec_.tokens.reserve(static_cast<size_t>(last) + 1);
    for (auto& [text, id] : parsed_.vocab) {
      const bool byte = spec_.kind == TokenizerKind::kSentencePiece && ParseByteToken(text) >= 0;
      RETURN_IF_ERROR(Place(std::move(text), id, byte ? TokenType::kByte : TokenType::kNormal));
    }
    return OkStatus();
  }

  Status ReadAddedTokens() {
    const Doc& added = Member(parsed_.document, "added_tokens");
    if (!added.is_array()) return OkStatus();
    for (const Doc& token : added) {
      const Doc& id = Member(token, "id");
      const std::string text = Text(Member(token, "content"));
      if (!id.is_number_integer() || text.empty()) {
        return InvalidArgument("tokenizer.json: added_tokens: an entry lacks id or content");
      }
      if (id.get<int64_t>() > max_id_) {
        return InvalidArgument("tokenizer.json: added_tokens: id {} of \"{}\" is over {}",
                               id.get<int64_t>(), text.substr(0, 40), max_id_);
      }
      // These change which text around a token belongs to it; a prompt would differ silently.
      for (const char* option : {"lstrip", "rstrip", "single_word"}) {
        if (Flag(Member(token, option), false) && text != "<mask>") {
          return Unimplemented(
              "tokenizer.json: added_tokens: \"{}\" has {}, which is not supported",
              text.substr(0, 40), option);
        }
      }
      const bool special = Flag(Member(token, "special"), false);
      RETURN_IF_ERROR(
          Place(text, id.get<int64_t>(), special ? TokenType::kControl : TokenType::kUserDefined));
    }
    return OkStatus();
  }

  Status ReadNormalizer() {
    for (const Doc* step : Steps(Member(parsed_.document, "normalizer"), "normalizers")) {
      const std::string type = Text(Member(*step, "type"));
      if (type == "NFC") {
        spec_.nfc = true;
      } else if (type == "Prepend" && Text(Member(*step, "prepend")) == "\xE2\x96\x81") {
        spec_.add_space_prefix = true;
      } else if (type == "Replace" && Text(Member(Member(*step, "pattern"), "String")) == " " &&
                 Text(Member(*step, "content")) == "\xE2\x96\x81" &&
                 spec_.kind == TokenizerKind::kSentencePiece) {
        continue;  // what a SentencePiece vocabulary does anyway
      } else {
        return Unimplemented("tokenizer.json: normalizer \"{}\" is not supported", type);
      }
    }
    return OkStatus();
  }

  Status AddSplit(const Doc& step, std::vector<std::string>* stages) {
    const Doc& pattern = Member(step, "pattern");
    const std::string behavior = Text(Member(step, "behavior"));
    if (spec_.kind == TokenizerKind::kSentencePiece && Text(Member(pattern, "String")) == " ") {
      return OkStatus();  // Gemma's: all spaces are U+2581 by then, so it never cuts
    }
    if (Flag(Member(step, "invert"), false) || behavior != "Isolated" ||
        !Member(pattern, "Regex").is_string()) {
      return Unimplemented(
          "tokenizer.json: pre_tokenizer Split is supported with a Regex that is "
          "Isolated and not inverted; behavior is \"{}\"",
          behavior);
    }
    stages->push_back(Text(Member(pattern, "Regex")));
    return OkStatus();
  }

  Status ReadPreTokenizer() {
    constexpr std::string_view kGpt2 =
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    std::vector<std::string> stages;
    bool byte_level = false;
    for (const Doc* step : Steps(Member(parsed_.document, "pre_tokenizer"), "pretokenizers")) {
      const std::string type = Text(Member(*step, "type"));
      if (type == "Split") {
        RETURN_IF_ERROR(AddSplit(*step, &stages));
      } else if (type == "Digits") {
        stages.emplace_back(Flag(Member(*step, "individual_digits"), false) ? R"(\p{N})"
                                                                            : R"(\p{N}+)");
      } else if (type == "ByteLevel") {
        byte_level = true;
        if (Flag(Member(*step, "add_prefix_space"), false)) {
          return Unimplemented(
              "tokenizer.json: pre_tokenizer ByteLevel with add_prefix_space is "
              "not supported");
        }
        if (Flag(Member(*step, "use_regex"), true)) stages.emplace_back(kGpt2);
      } else if (type == "Metaspace" && spec_.kind == TokenizerKind::kSentencePiece) {
        const std::string scheme = Text(Member(*step, "prepend_scheme"));
        spec_.add_space_prefix =
            scheme.empty() ? Flag(Member(*step, "add_prefix_space"), true) : scheme != "never";
      } else {
        return Unimplemented("tokenizer.json: pre_tokenizer \"{}\" is not supported", type);
      }
    }
    if (spec_.kind == TokenizerKind::kSentencePiece) return OkStatus();
    if (!byte_level) {
      return Unimplemented(
          "tokenizer.json: BPE without a ByteLevel pre_tokenizer or "
          "byte_fallback is not supported");
    }
    if (stages.empty()) stages.emplace_back(R"((?s:.)+)");
    spec_.pre_tokenizer = "regex:";
    for (size_t i = 0; i < stages.size(); ++i) {
      if (i > 0) spec_.pre_tokenizer += PreTokenizer::kStageSeparator;
      spec_.pre_tokenizer += stages[i];
    }
    return OkStatus();
  }

  /// Llama 3 and Gemma say here that BOS goes first.
  void ReadPostProcessor() {
    for (const Doc* step : Steps(Member(parsed_.document, "post_processor"), "processors")) {
      const Doc& single = Member(*step, "single");
      if (!single.is_array() || single.empty()) continue;
      const std::string first = Text(Member(Member(single.front(), "SpecialToken"), "id"));
      if (first.empty()) continue;
      spec_.bos = FindToken(first);
      spec_.add_bos = spec_.bos.has_value();
    }
    if (!unk_.empty()) spec_.unk = FindToken(unk_);
  }

  std::optional<TokenId> FindToken(std::string_view text) const {
    const auto it = std::find(spec_.tokens.begin(), spec_.tokens.end(), text);
    if (it == spec_.tokens.end()) return std::nullopt;
    return static_cast<TokenId>(it - spec_.tokens.begin());
  }

  Parsed parsed_;
  TokenizerSpec spec_;
  std::string unk_;
  int64_t max_id_ = 0;
};

/// A token of the config: its text, or an object with the text as "content".
std::string ConfigToken(const Json& config, const char* name) {
  const auto it = config.find(name);
  if (it == config.end()) return {};
  if (it->is_string()) return it->get<std::string>();
  if (it->is_object() && it->contains("content") && (*it)["content"].is_string()) {
    return (*it)["content"].get<std::string>();
  }
  return {};
}

Status ReadConfig(std::string_view text, TokenizerSpec* spec) {
  auto parsed = ParseJson(text);
  if (!parsed) return std::move(parsed).error().WithContext("tokenizer_config.json");
  const Json& config = *parsed;
  if (!config.is_object()) return InvalidArgument("tokenizer_config.json: is not an object");
  const std::pair<const char*, std::optional<TokenId>*> tokens[] = {{"bos_token", &spec->bos},
                                                                    {"eos_token", &spec->eos},
                                                                    {"unk_token", &spec->unk},
                                                                    {"pad_token", &spec->pad}};
  for (const auto& [name, id] : tokens) {
    const std::string token = ConfigToken(config, name);
    if (token.empty()) continue;
    const auto it = std::find(spec->tokens.begin(), spec->tokens.end(), token);
    if (it == spec->tokens.end()) {
      return InvalidArgument("tokenizer_config.json: {} \"{}\" is not in the vocabulary", name,
                             token.substr(0, 40));
    }
    *id = static_cast<TokenId>(it - spec->tokens.begin());
  }
  if (config.contains("add_bos_token") && config["add_bos_token"].is_boolean()) {
    spec->add_bos = config["add_bos_token"].get<bool>() && spec->bos.has_value();
  }
  if (config.contains("add_eos_token") && config["add_eos_token"].is_boolean()) {
    spec->add_eos = config["add_eos_token"].get<bool>() && spec->eos.has_value();
  }
  if (!config.contains("chat_template")) return OkStatus();
  const Json& chat = config["chat_template"];
  if (chat.is_string()) {
    spec->chat_template = chat.get<std::string>();
  } else if (chat.is_array()) {
    for (const Json& named : chat) {
      if (named.is_object() && named.value("name", Json()) == "default" &&
          named.value("template", Json()).is_string()) {
        spec->chat_template = named["template"].get<std::string>();
      }
    }
  }
  return OkStatus();
}

}  // namespace

Result<TokenizerSpec> ParseTokenizerJson(std::string_view tokenizer_json,
                                         std::string_view tokenizer_config_json) {
  ASSIGN_OR_RETURN(Parsed parsed, ParseLarge(tokenizer_json, "tokenizer.json"));
  ASSIGN_OR_RETURN(TokenizerSpec spec, SpecReader(std::move(parsed)).Read());
  if (!tokenizer_config_json.empty()) RETURN_IF_ERROR(ReadConfig(tokenizer_config_json, &spec));
  return spec;
}

}  // namespace ballast
