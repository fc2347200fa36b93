// Role: Anthropic's /v1/messages and its count_tokens, over the chat.
#include "server/http_app.h"
#include "server/messages_reply.h"
#include "server/messages_request.h"
#include "server/request_id.h"

namespace ballast {

void HttpApp::Messages(Call& call) {
  call.translator =
      std::make_shared<MessagesReply>(call.exchange, RandomId("msg_"), ModelName(), call.id);
  call.exchange = call.translator;
  const auto chat = ChatFromMessages(call.request.body, kMessages);
  if (!chat) return ReplyError(call, chat.error());
  Generate(call, ReadGeneration(*chat, kChat, Limits()));
}

void HttpApp::CountTokens(Call& call) {
  const auto chat = ChatFromMessages(call.request.body, kCountTokens);
  if (!chat) return ReplyError(call, chat.error());
  const auto tokens = ChatTokens(*chat);
  if (!tokens) return ReplyError(call, tokens.error());
  ReplyJson(call, Json{{"input_tokens", tokens->size()}});
}

}  // namespace ballast
