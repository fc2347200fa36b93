// Role: from a body of OpenAI's Responses API to the chat body that means the same. Thread: pure
// functions.
#ifndef BALLAST_SERVER_RESPONSES_REQUEST_H_
#define BALLAST_SERVER_RESPONSES_REQUEST_H_

#include <string_view>

#include "base/json.h"
#include "server/api_error.h"

namespace ballast {

struct ResponsesBody {
  Json chat = Json::object();  // a body of /v1/chat/completions
  Json echo = Json::object();  // the settings as the response object repeats them
  bool stream = false;
};

/// Errors: 400 naming the field by its path in `body`; values that the chat checks itself are left
/// to it.
ApiResult<ResponsesBody> ChatFromResponses(std::string_view body);

}  // namespace ballast

#endif  // BALLAST_SERVER_RESPONSES_REQUEST_H_
