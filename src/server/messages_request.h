// Role: from a body of Anthropic's Messages API to the chat body that means the same. Thread: pure
// functions.
#ifndef BALLAST_SERVER_MESSAGES_REQUEST_H_
#define BALLAST_SERVER_MESSAGES_REQUEST_H_

#include <string_view>

#include "base/json.h"
#include "server/api_error.h"
#include "server/fields.h"

namespace ballast {

/// A body of /v1/chat/completions. @param endpoint kMessages or kCountTokens. Errors: 400 naming
/// the field by its path in `body`; values that the chat checks itself are left to it.
ApiResult<Json> ChatFromMessages(std::string_view body, Endpoints endpoint);

}  // namespace ballast

#endif  // BALLAST_SERVER_MESSAGES_REQUEST_H_
