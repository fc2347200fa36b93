// The fields of the surfaces beside chat and completions.
#include "server/fields.h"

namespace ballast {

namespace {

constexpr FieldKind kActs = FieldKind::kActs;
constexpr FieldKind kNoEffect = FieldKind::kNoEffect;
constexpr FieldKind kRefused = FieldKind::kRefused;
constexpr unsigned kAnthropic = kMessages | kCountTokens;

bool IsFalse(const Json& v) { return v.is_boolean() && !v.get<bool>(); }
bool IsEmptyArray(const Json& v) { return v.is_array() && v.empty(); }
bool IsDisabled(const Json& v) { return v.is_string() && v == "disabled"; }

// clang-format off
constexpr FieldRule kRules[] = {
    {"model", kEmbeddings, kActs, nullptr, ""},
    {"input", kEmbeddings, kActs, nullptr, ""},
    {"encoding_format", kEmbeddings, kActs, nullptr, ""},
    {"dimensions", kEmbeddings, kActs, nullptr, ""},
    {"pooling", kEmbeddings, kActs, nullptr, ""},
    {"user", kEmbeddings, kNoEffect, nullptr, ""},

    {"model", kAnthropic, kActs, nullptr, ""},
    {"messages", kAnthropic, kActs, nullptr, ""},
    {"system", kAnthropic, kActs, nullptr, ""},
    {"tools", kAnthropic, kActs, nullptr, ""},
    {"tool_choice", kAnthropic, kActs, nullptr, ""},
    {"thinking", kAnthropic, kActs, nullptr, ""},
    {"max_tokens", kMessages, kActs, nullptr, ""},
    {"stop_sequences", kMessages, kActs, nullptr, ""},
    {"stream", kMessages, kActs, nullptr, ""},
    {"temperature", kMessages, kActs, nullptr, ""},
    {"top_p", kMessages, kActs, nullptr, ""},
    {"top_k", kMessages, kActs, nullptr, ""},
    {"metadata", kMessages, kNoEffect, nullptr, ""},
    {"service_tier", kMessages, kNoEffect, nullptr, ""},
    {"cache_control", kAnthropic, kNoEffect, nullptr, ""},
    {"mcp_servers", kAnthropic, kRefused, IsEmptyArray, "the server calls no other servers"},
    {"container", kMessages, kRefused, nullptr, "the server runs no code"},
    {"context_management", kAnthropic, kRefused, nullptr, "the conversation is taken as sent"},
    {"output_config", kAnthropic, kRefused, nullptr, "use /v1/chat/completions for schemas"},
    {"output_format", kAnthropic, kRefused, nullptr, "use /v1/chat/completions for schemas"},

    {"model", kResponses, kActs, nullptr, ""},
    {"input", kResponses, kActs, nullptr, ""},
    {"instructions", kResponses, kActs, nullptr, ""},
    {"max_output_tokens", kResponses, kActs, nullptr, ""},
    {"temperature", kResponses, kActs, nullptr, ""},
    {"top_p", kResponses, kActs, nullptr, ""},
    {"stream", kResponses, kActs, nullptr, ""},
    {"tools", kResponses, kActs, nullptr, ""},
    {"tool_choice", kResponses, kActs, nullptr, ""},
    {"parallel_tool_calls", kResponses, kActs, nullptr, ""},
    {"text", kResponses, kActs, nullptr, ""},
    {"reasoning", kResponses, kActs, nullptr, ""},
    {"include", kResponses, kActs, nullptr, ""},
    {"stream_options", kResponses, kActs, nullptr, ""},
    {"metadata", kResponses, kNoEffect, nullptr, ""},
    {"user", kResponses, kNoEffect, nullptr, ""},
    {"service_tier", kResponses, kNoEffect, nullptr, ""},
    {"prompt_cache_key", kResponses, kNoEffect, nullptr, ""},
    {"prompt_cache_retention", kResponses, kNoEffect, nullptr, ""},
    {"safety_identifier", kResponses, kNoEffect, nullptr, ""},
    {"previous_response_id", kResponses, kRefused, nullptr,
     "replies are not stored; send the whole conversation in \"input\""},
    {"conversation", kResponses, kRefused, nullptr,
     "conversations are not stored; send all of it in \"input\""},
    {"store", kResponses, kRefused, IsFalse, "replies are not stored"},
    {"background", kResponses, kRefused, IsFalse, "replies are not stored"},
    {"truncation", kResponses, kRefused, IsDisabled, "nothing is left out of a conversation"},
    {"top_logprobs", kResponses, kRefused, nullptr, "use /v1/chat/completions"},
    {"max_tool_calls", kResponses, kRefused, nullptr, "the server runs no tools"},
    {"prompt", kResponses, kRefused, nullptr, "prompt templates are not stored"},
};
// clang-format on

}  // namespace

std::span<const FieldRule> SurfaceFieldRules() { return kRules; }

}  // namespace ballast
