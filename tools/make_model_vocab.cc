// Vocabularies: byte-level BPE, and SentencePiece with byte tokens. Both hold every
// byte, so any text can be tokenized, plus merges spelled from a list of common words.
#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/check.h"
#include "base/json.h"
#include "tools/make_model_parts.h"

namespace ballast {
namespace {

constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUnused = 5, kByte = 6;
constexpr const char* kBlockWord = "\u2581";  // SentencePiece's space

constexpr std::string_view kWords[] = {
    " the", " of",    " and",      " to",    " in",    " is",     " that",  " for",    " it",
    " as",  " with",  " on",       " be",    " are",   " this",   " you",   " not",    " have",
    "ing",  "tion",   "er",        "ed",     "es",     "ly",      "al",     "ment",    " return",
    " if",  " else",  " def",      " class", " const", " static", " int",   " void",   " string",
    "user", "system", "assistant", " hello", " world", " model",  " token", " memory", " cache"};

// The character that stands for a byte in a byte-level vocabulary: printable ones stand for
// themselves.
std::string ByteCharacter(int byte) {
  int shifted = 0;
  for (int b = 0; b <= byte; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    if (b == byte) {
      const int code = printable ? b : 256 + shifted;
      if (code < 128) return std::string(1, static_cast<char>(code));
      return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
    }
    if (!printable) ++shifted;
  }
  return {};
}

// The characters of a word as the vocabulary spells them.
std::vector<std::string> Spell(std::string_view word, bool sentencepiece) {
  std::vector<std::string> parts;
  for (const char c : word) {
    if (sentencepiece) {
      parts.push_back(c == ' ' ? std::string(kBlockWord) : std::string(1, c));
    } else {
      parts.push_back(ByteCharacter(static_cast<unsigned char>(c)));
    }
  }
  return parts;
}

class VocabularyMaker {
 public:
  explicit VocabularyMaker(const ModelRecipe& recipe) : size_(static_cast<size_t>(recipe.vocab)) {
    const SeededArchitecture* architecture = FindSeededArchitecture(recipe.architecture);
    CHECK(architecture != nullptr);
    switch (architecture->vocabulary) {
      case VocabularyKind::kGpt2:
        out_.pre = "gpt-2";
        break;
      case VocabularyKind::kQwen2:
        out_.pre = "qwen2";
        break;
      case VocabularyKind::kSentencePiece:
        out_.pre = "default";
        out_.sentencepiece = true;
        break;
    }
  }

  Vocabulary Make() {
    if (out_.sentencepiece) {
      StartSentencePiece();
    } else {
      for (int byte = 0; byte < 256; ++byte) Add(ByteCharacter(byte), kNormal);
    }
    // Byte-level vocabularies keep three places at the end for the special tokens.
    const size_t room = out_.sentencepiece ? size_ : size_ - 3;
    for (const std::string_view word : kWords) MergeWord(word, room);
    for (char a = 'a'; a <= 'z'; ++a) {
      for (char b = 'a'; b <= 'z'; ++b) MergeWord(std::string{a, b}, room);
    }
    for (int i = 0; out_.tokens.size() < room; ++i) Add(fmt::format("<unused{}>", i), kUnused);
    if (!out_.sentencepiece) {
      out_.bos = out_.unk = out_.pad = Add("<|endoftext|>", kControl);
      Add("<|im_start|>", kControl);
      out_.eos = Add("<|im_end|>", kControl);
    }
    return std::move(out_);
  }

 private:
  int32_t Add(std::string token, int32_t type) {
    known_.insert(token);
    out_.tokens.push_back(std::move(token));
    out_.types.push_back(type);
    if (out_.sentencepiece) {
      // Earlier pieces win, as merges of lower rank do.
      out_.scores.push_back(type == kNormal ? -static_cast<float>(out_.tokens.size()) : 0.0f);
    }
    return static_cast<int32_t>(out_.tokens.size()) - 1;
  }

  void StartSentencePiece() {
    out_.pad = Add("<pad>", kControl);
    Add("<eos>", kControl);
    out_.bos = Add("<bos>", kControl);
    out_.unk = Add("<unk>", kUnknown);
    Add("<|endoftext|>", kControl);
    Add("<|im_start|>", kControl);
    out_.eos = Add("<|im_end|>", kControl);
    for (int byte = 0; byte < 256; ++byte) Add(fmt::format("<0x{:02X}>", byte), kByte);
    Add(kBlockWord, kNormal);
    for (char c = '!'; c <= '~'; ++c) Add(std::string(1, c), kNormal);
    out_.add_bos = true;
  }

  void MergeWord(std::string_view word, size_t room) {
    const std::vector<std::string> parts = Spell(word, out_.sentencepiece);
    std::string left = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      const std::string merged = left + parts[i];
      if (!known_.contains(merged)) {
        if (out_.tokens.size() >= room) return;
        out_.merges.push_back(left + " " + parts[i]);
        Add(merged, kNormal);
      }
      left = merged;
    }
  }

  size_t size_;
  Vocabulary out_;
  std::unordered_set<std::string> known_;
};

Json ByteLevel() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}};
}

Json PreTokenizer(const Vocabulary& vocabulary) {
  if (vocabulary.sentencepiece) return nullptr;
  Json byte_level = ByteLevel();
  if (vocabulary.pre == "gpt-2") {
    byte_level["use_regex"] = true;
    return byte_level;
  }
  const Json pattern = {
      {"Regex", R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+)"
                R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};
  const Json split = {
      {"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level})}};
}

Json Decoder(const Vocabulary& vocabulary) {
  if (!vocabulary.sentencepiece) return ByteLevel();
  const Json spaces = {
      {"type", "Replace"}, {"pattern", {{"String", kBlockWord}}}, {"content", " "}};
  return {
      {"type", "Sequence"},
      {"decoders", Json::array({spaces, Json{{"type", "ByteFallback"}}, Json{{"type", "Fuse"}}})}};
}

}  // namespace

Vocabulary MakeVocabulary(const ModelRecipe& recipe) { return VocabularyMaker(recipe).Make(); }

int32_t MinVocab(VocabularyKind kind) {
  return kind == VocabularyKind::kSentencePiece ? 7 + 256 + 95 : 256 + 3;
}

std::string TokenizerJsonText(const Vocabulary& vocabulary) {
  Json added = Json::array();
  nlohmann::json vocab = nlohmann::json::object();  // a map: ordered objects insert in linear time
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    vocab[vocabulary.tokens[i]] = i;
    if (vocabulary.types[i] != kControl && vocabulary.types[i] != kUnknown) continue;
    added.push_back({{"id", i},
                     {"content", vocabulary.tokens[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  Json normalizer = nullptr;
  if (vocabulary.sentencepiece) {
    normalizer = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kBlockWord}};
  }
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", vocabulary.sentencepiece},
                {"byte_fallback", vocabulary.sentencepiece},
                {"ignore_merges", false}};
  if (vocabulary.sentencepiece) model["unk_token"] = "<unk>";
  model["vocab"] = vocab;
  model["merges"] = vocabulary.merges;
  const Json document = {{"version", "1.0"},
                         {"truncation", nullptr},
                         {"padding", nullptr},
                         {"added_tokens", added},
                         {"normalizer", normalizer},
                         {"pre_tokenizer", PreTokenizer(vocabulary)},
                         {"post_processor", nullptr},
                         {"decoder", Decoder(vocabulary)},
                         {"model", model}};
  return DumpJson(document, 1) + "\n";
}

std::string TokenizerConfigText(const ModelRecipe& recipe, const Vocabulary& vocabulary) {
  const auto name = [&](int32_t id) { return vocabulary.tokens[static_cast<size_t>(id)]; };
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"add_bos_token", vocabulary.add_bos},
                 {"add_eos_token", false},
                 {"add_prefix_space", false},
                 {"bos_token", name(vocabulary.bos)},
                 {"eos_token", name(vocabulary.eos)},
                 {"unk_token", name(vocabulary.unk)},
                 {"pad_token", name(vocabulary.pad)},
                 {"clean_up_tokenization_spaces", false},
                 {"model_max_length", recipe.context}};
  if (recipe.chat_template) config["chat_template"] = ChatTemplate();
  return DumpJson(config, 1) + "\n";
}

std::string ChatTemplate() {
  return "{%- for message in messages -%}\n"
         "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n"
         "{%- endfor -%}\n"
         "{%- if add_generation_prompt -%}\n"
         "{{ '<|im_start|>assistant\\n' }}\n"
         "{%- endif -%}\n";
}

}  // namespace ballast
