// Role: text to token ids and back. One boundary for byte-level BPE (GPT-2 family) and for
// SentencePiece vocabularies (Gemma, Llama 2), filled from a GGUF file or a tokenizer.json.
// Trust: a control token ("<|im_start|>") can only come from a trusted span, never from user text.
// Thread: a Tokenizer is immutable after Create and may be shared by any number of threads.
#ifndef BALLAST_TEXT_TOKENIZER_H_
#define BALLAST_TEXT_TOKENIZER_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace ballast {

enum class TokenizerKind { kBpe, kSentencePiece };

/// What a vocabulary entry is for. The values are those of GGUF's tokenizer.ggml.token_type.
enum class TokenType : int {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// A vocabulary as it lies in a file, before any check. Create() validates every field.
struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::kBpe;
  /// BPE only: how text is cut before merging, in GGUF's words (tokenizer.ggml.pre): "gpt2",
  /// "smollm", "llama-bpe", "qwen2", "default", … or "regex:" followed by a PCRE2 pattern.
  std::string pre_tokenizer = "default";
  std::vector<std::string> tokens;  ///< [vocab] as in the file ("Ġthe", "▁the", "<0x0A>").
  std::vector<float> scores;        ///< [vocab], or empty; SentencePiece without merges needs it.
  std::vector<TokenType> types;     ///< [vocab], or empty (all normal).
  /// "a b" in order of priority. BPE needs it; a SentencePiece vocabulary merges by rank when it
  /// is given and by score when it is empty.
  std::vector<std::string> merges;
  std::optional<TokenId> bos, eos, eot, unk, pad;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;  ///< SentencePiece: a space is put before each stretch of text.
  /// BPE: a piece that is itself a token is taken whole, without replaying merges (Llama 3).
  bool ignore_merges = false;
  bool nfc = false;  ///< Text is brought to Normalization Form C first (Qwen's tokenizer.json).
  std::string chat_template;  ///< Jinja source, or empty.
};

/// A piece of a prompt. Trusted text comes from the template; untrusted text from a user, a tool
/// or a document, and never becomes a control token whatever it spells.
struct TextSpan {
  std::string text;
  bool trusted = false;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

enum class SkipSpecial { kNo, kYes };

class TokenizerBuilder;

class Tokenizer {
 public:
  /// Builds the lookup tables. Cost: about 30 ms for 150,000 tokens and as many merges.
  /// Errors: kInvalidArgument naming the field, the index and the limit.
  static Result<std::unique_ptr<const Tokenizer>> Create(TokenizerSpec spec);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Tokens of untrusted text, without BOS or EOS. Never yields a control token. User-defined
  /// tokens (Gemma's runs of newlines) are matched, as in the reference tokenizers.
  /// Bytes that the vocabulary cannot express become `unk`, or nothing where there is none.
  /// Cost: O(n log n) in the worst case.
  std::vector<TokenId> Encode(std::string_view user_text) const;

  /// Tokens of a rendered prompt, without BOS or EOS beyond those spelled out in trusted spans.
  /// Ids equal those of the joined text; control tokens are matched inside trusted text only.
  std::vector<TokenId> EncodeSpans(std::span<const TextSpan> spans) const;

  /// The text of `tokens`. Invalid UTF-8 becomes U+FFFD; ids outside the vocabulary are ignored.
  /// kYes leaves out control tokens; user-defined ones ("<tool_call>") always stay.
  std::string Decode(std::span<const TokenId> tokens, SkipSpecial skip) const;

  /// The raw bytes a token stands for; control tokens spell their name. Empty if out of range.
  const std::string& TokenBytes(TokenId token) const;

  /// True for control and user-defined tokens: those matched as a whole, before merging.
  bool IsSpecial(TokenId token) const;
  /// True for control tokens: no user text can produce them.
  bool IsControl(TokenId token) const;
  /// True if generation must stop here: eos, eot and well-known ends of a turn.
  bool IsEndOfGeneration(TokenId token) const;

  TokenType type(TokenId token) const;
  int vocab_size() const;
  TokenizerKind kind() const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  std::optional<TokenId> eot() const;
  std::optional<TokenId> unk() const;
  std::optional<TokenId> pad() const;
  bool add_bos() const;
  bool add_eos() const;
  bool add_space_prefix() const;
  /// The id of a token by its raw bytes ("<|im_end|>", " the"); special tokens first.
  std::optional<TokenId> Find(std::string_view token) const;
  /// Jinja source from the model file, or empty.
  const std::string& chat_template() const;

 private:
  friend class TokenizerBuilder;
  struct Tables;
  explicit Tokenizer(std::unique_ptr<const Tables> tables);
  std::unique_ptr<const Tables> tables_;
};

/// Puts BOS in front where the model wants it, once: most chat templates spell it out themselves.
void EnsureBos(const Tokenizer& tokenizer, std::vector<TokenId>* tokens);
/// Puts around a text what the model wants there: BOS in front, EOS behind.
void AddSpecial(const Tokenizer& tokenizer, std::vector<TokenId>* tokens);

/// Reads the `tokenizers` library's JSON (BPE models: byte-level, or Gemma's with byte fallback)
/// and, unless empty, its tokenizer_config.json (special tokens, chat template).
/// Errors: kInvalidArgument or kUnimplemented, naming the JSON field.
Result<TokenizerSpec> ParseTokenizerJson(std::string_view tokenizer_json,
                                         std::string_view tokenizer_config_json);

/// Turns a stream of tokens into text, holding back bytes until they form whole characters.
/// The joined output equals decoding all bytes at once with each ill-formed sequence replaced by
/// U+FFFD (the Unicode Standard's "maximal subpart" rule, which Python's errors='replace' uses).
/// Thread: one owner. The tokenizer must outlive it.
class StreamingDetokenizer {
 public:
  explicit StreamingDetokenizer(const Tokenizer& tokenizer, SkipSpecial skip = SkipSpecial::kYes)
      : tokenizer_(&tokenizer), skip_(skip) {}
  /// Adds a token; returns the characters that are now complete (may be empty).
  std::string Push(TokenId token);
  /// Ends the stream: an incomplete character becomes U+FFFD. The object is then as new.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  SkipSpecial skip_;
  std::string pending_;
  bool at_start_ = true;
};

}  // namespace ballast

#endif  // BALLAST_TEXT_TOKENIZER_H_
