// Role: the `messages` of a chat request: roles, text parts and what an assistant's history may
// carry. Thread: pure functions.
#ifndef BALLAST_SERVER_PARSE_MESSAGES_H_
#define BALLAST_SERVER_PARSE_MESSAGES_H_

#include "base/json.h"
#include "server/api_error.h"

namespace ballast {

/// The checked messages of `body`, ready for a chat template: "developer" becomes "system", text
/// parts become one string (joined by a line end), the arguments of tool calls become objects,
/// nulls disappear. Errors: 400 with a path such as "messages[2].content[0].type" as `param`.
ApiResult<Json> ParseMessages(const Json& body);

}  // namespace ballast

#endif  // BALLAST_SERVER_PARSE_MESSAGES_H_
