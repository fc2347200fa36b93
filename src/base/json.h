// Role: JSON with limits. Every document from outside is parsed here, so none can exhaust the
// stack. Thread: pure functions.
#ifndef BALLAST_BASE_JSON_H_
#define BALLAST_BASE_JSON_H_

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace ballast {

/// Order-preserving, so that templates and replies keep the author's field order.
using Json = nlohmann::ordered_json;

/// nlohmann's dump() recurses; 64 levels is far beyond any API body and far below any stack.
inline constexpr int kMaxJsonDepth = 64;

/// Parses one JSON document. Errors: kInvalidArgument with byte offset, or depth over the limit.
/// `max_members` (0: no limit) bounds the members of one object: Json finds a member by a linear
/// search, so text from strangers could otherwise cost quadratic time.
Result<Json> ParseJson(std::string_view text, int max_depth = kMaxJsonDepth, int max_members = 0);

/// The same, and no object may name a member twice: readers differ in which one they take, so a
/// body that does so could mean one thing to a filter before us and another here.
Result<Json> ParseJsonUniqueKeys(std::string_view text, int max_depth, int max_members);

/// Serialises without ever throwing: invalid UTF-8 in strings becomes U+FFFD.
std::string DumpJson(const Json& value, int indent = -1);

}  // namespace ballast

#endif  // BALLAST_BASE_JSON_H_
