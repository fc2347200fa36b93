// Role: the shapes of OpenAI's replies: whole objects and streamed chunks. Thread: pure functions.
#ifndef BALLAST_SERVER_REPLY_JSON_H_
#define BALLAST_SERVER_REPLY_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "engine/client.h"
#include "server/fields.h"

namespace ballast {

/// What every object of one call repeats.
struct ReplyHeader {
  Endpoints endpoint = kChat;
  std::string id;
  std::string model;
  std::string fingerprint;  // names the settings that a result depends on
  int64_t created = 0;      // Unix seconds
};

/// {"id", "object", "created", "model", "system_fingerprint"}; the object's name depends on
/// endpoint and `streamed`.
Json ReplyEnvelope(const ReplyHeader& header, bool streamed);

/// {"prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details":
/// {"cached_tokens"}}.
Json UsageJson(const Usage& usage);
/// llama-server's names, and queue_ms and preemptions of ours. Rates are 0 where nothing was
/// measured.
Json TimingsJson(const Usage& usage, const Timings& timings);

std::string_view FinishReasonName(FinishReason reason);

/// Adds the tokens of `event` to a chat reply's {"content": […]}.
void AppendChatLogprobs(const TokenEvent& event, Json& logprobs);
/// Adds the tokens of `event` to the old shape {"tokens", "token_logprobs", "top_logprobs",
/// "text_offset"}; `offset` counts characters of the completion so far.
void AppendCompletionLogprobs(const TokenEvent& event, int64_t& offset, Json& logprobs);

/// One server-sent event.
std::string SseData(const Json& json);

}  // namespace ballast

#endif  // BALLAST_SERVER_REPLY_JSON_H_
