// Role: regular expressions over code points → byte automata. The dialect is what RE2 and ECMA-262
// agree on: classes, alternation, groups, bounded and unbounded quantifiers, ^ and $ anywhere,
// \p{…} general categories. Look-around, back references, \b and flags are refused by name.
// Thread: pure functions. All sizes are bounded (limits.h).
#ifndef BALLAST_TEXT_GRAMMAR_REGEX_H_
#define BALLAST_TEXT_GRAMMAR_REGEX_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/dfa.h"
#include "text/grammar/limits.h"

namespace ballast::grammar {

struct CodeRange {
  uint32_t lo, hi;
  friend bool operator==(const CodeRange&, const CodeRange&) = default;
};
/// Sorted, disjoint, without surrogates.
using CodeSet = std::vector<CodeRange>;

CodeSet NormaliseSet(CodeSet set);
CodeSet ComplementSet(const CodeSet& set);
/// Every Unicode scalar value.
const CodeSet& AllCodes();

/// How a character is spelled: as UTF-8, or as inside a JSON string, where '"', '\' and controls
/// have exactly one escape each (the short one, else \u00xx) and all else is UTF-8.
enum class Spelling { kUtf8, kJson };

/// Adds edges that spell each character of `set` from `from` to `to`.
void AddCodes(Nfa* nfa, int32_t from, int32_t to, const CodeSet& set, Spelling spelling);

/// The canonical JSON spelling of `text` without quotes; `text` must be valid UTF-8.
std::string JsonBody(std::string_view text);

enum class Anchor {
  kWhole,   ///< the expression describes the whole text
  kSearch,  ///< it may match anywhere, as JSON Schema's `pattern`
};

/// Errors: kInvalidArgument (syntax; byte offset), kUnimplemented (a construct outside the
/// dialect), kResourceExhausted (a limit, with its value).
Result<Dfa> CompileRegexDfa(std::string_view pattern, Anchor anchor, Spelling spelling,
                            int32_t max_states = kMaxDfaStates);

/// Accepts every text (every JSON string body).
const Dfa& AnyTextDfa(Spelling spelling);

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_REGEX_H_
