// Role: the one table of request fields: those that act, those accepted because ignoring them loses
// nothing, and those refused by name. docs/api.md publishes the same three lists; a test compares
// them. Thread: immutable.
#ifndef BALLAST_SERVER_FIELDS_H_
#define BALLAST_SERVER_FIELDS_H_

#include <span>
#include <string_view>

#include "base/json.h"
#include "server/api_error.h"

namespace ballast {

/// Which request bodies know a field; a bit mask.
enum Endpoints : unsigned {
  kChat = 1,
  kCompletions = 2,
  kGeneration = kChat | kCompletions,
  kTokenize = 4,
  kDetokenize = 8,
  kEmbeddings = 16,
  kMessages = 32,
  kCountTokens = 64,
  kResponses = 128,
};

enum class FieldKind {
  kActs,
  kNoEffect,  // accepted whatever it says
  kRefused,   // unless its value says nothing (the rule's `neutral`)
};

struct FieldRule {
  std::string_view name;
  unsigned endpoints;
  FieldKind kind;
  /// Refused fields: true for values that change nothing, such as `"n": 1`. May be null.
  bool (*neutral)(const Json& value);
  /// Refused fields: what the message adds, such as "the limit is 1".
  std::string_view why;
};

/// The fields of chat, completions and the tokenizer.
std::span<const FieldRule> FieldRules();
/// The fields of the other surfaces; each has three lists of its own in docs/api.md.
std::span<const FieldRule> SurfaceFieldRules();

/// Checks every member of `body` (an object). Nulls are accepted everywhere. Errors: 400 with the
/// field as `param` and code "unsupported_field" or "unknown_field".
ApiStatus CheckFields(const Json& body, Endpoints endpoint);

}  // namespace ballast

#endif  // BALLAST_SERVER_FIELDS_H_
