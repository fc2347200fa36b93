// Role: the public face of structured output. A Grammar is what a text must look like: compiled
// from a JSON Schema, a regular expression, or put together from parts for tool calls.
// Thread: a Grammar is immutable and may be shared by any number of threads. Compile on a request
// thread; match on the engine thread (matcher.h, token_masker.h).
#ifndef BALLAST_TEXT_GRAMMAR_GRAMMAR_H_
#define BALLAST_TEXT_GRAMMAR_GRAMMAR_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"

namespace ballast::grammar {

struct GrammarData;

class Grammar {
 public:
  explicit Grammar(std::unique_ptr<const GrammarData> data);
  ~Grammar();
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  const GrammarData& data() const { return *data_; }
  /// Heap bytes held, for the ledger and for caches of compiled grammars.
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<const GrammarData> data_;
  size_t bytes_ = 0;
};

using GrammarPtr = std::shared_ptr<const Grammar>;

/// The compact JSON texts that `schema` (draft 2020-12, see docs/structured-output.md) allows.
/// Cost: about 1 ms for tens of properties; bounded by limits.h.
/// Errors: kInvalidArgument (malformed, or no value satisfies it: reason "unsatisfiable"),
/// kUnimplemented (reason: the keyword), kResourceExhausted; all name the JSON pointer.
Result<GrammarPtr> CompileJsonSchema(const Json& schema);

/// Any JSON object, at most kMaxNesting deep.
Result<GrammarPtr> CompileJsonObject();

/// The texts that `pattern` describes as a whole (anchors implied). Errors as above.
Result<GrammarPtr> CompileRegex(std::string_view pattern);

/// Puts grammars together. Use one builder for one grammar; parts belong to their builder.
/// Thread: one owner.
class GrammarBuilder {
 public:
  using Part = int32_t;
  /// What free text is watched for, and what follows it.
  struct Trigger {
    std::string text;    ///< literal text, or
    TokenId token = -1;  ///< a control token when not negative
    Part then = -1;
  };

  GrammarBuilder();
  ~GrammarBuilder();

  Result<Part> Literal(std::string_view text);
  /// A control token of the vocabulary, which no text can spell.
  Result<Part> SpecialToken(TokenId token);
  Result<Part> JsonSchema(const Json& schema);
  Result<Part> JsonObject();
  Result<Part> Regex(std::string_view pattern);
  Part Sequence(std::vector<Part> parts);
  Part Choice(std::vector<Part> parts);
  /// Free text (valid UTF-8) in which each occurrence of a trigger must be followed by its part;
  /// at most `max_rounds` of them, after the last of which nothing follows. The text may end
  /// anywhere but inside a part; kNotBlank: only once it holds more than white space, or a part.
  enum class FreeText { kMayBeBlank, kNotBlank };
  Result<Part> TextWithTriggers(const std::vector<Trigger>& triggers, int max_rounds,
                                FreeText text = FreeText::kMayBeBlank);

  /// Ends the work; the builder is then empty.
  Result<GrammarPtr> Build(Part root);

 private:
  std::unique_ptr<GrammarData> data_;
};

/// The bytes by which grammars and token tries spell a control token: no UTF-8 contains 0xFF.
std::string SpecialTokenBytes(TokenId token);

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_GRAMMAR_H_
