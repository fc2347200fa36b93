// Role: OpenAI's /v1/responses, over the chat.
#include "base/clock.h"
#include "server/http_app.h"
#include "server/responses_reply.h"
#include "server/responses_request.h"

namespace ballast {

void HttpApp::Responses(Call& call) {
  const auto body = ChatFromResponses(call.request.body);
  if (!body) return ReplyError(call, body.error());
  call.translator = std::make_shared<ResponsesReply>(call.exchange, ModelName(),
                                                     SystemClock().UnixSeconds(), body->echo);
  call.exchange = call.translator;
  Generate(call, ReadGeneration(body->chat, kChat, Limits()));
}

}  // namespace ballast
