#include "server/fields.h"

namespace ballast {

namespace {

bool IsFalse(const Json& v) { return v.is_boolean() && !v.get<bool>(); }
bool IsTrue(const Json& v) { return v.is_boolean() && v.get<bool>(); }
bool IsOne(const Json& v) { return v.is_number_integer() && v.get<int64_t>() == 1; }
bool IsEmptyArray(const Json& v) { return v.is_array() && v.empty(); }
bool IsEmptyString(const Json& v) {
  return v.is_string() && v.get_ref<const std::string&>().empty();
}
bool IsText(const Json& v) { return v.is_string() && v.get_ref<const std::string&>() == "text"; }
bool IsNone(const Json& v) {
  if (!v.is_string()) return false;
  const auto& text = v.get_ref<const std::string&>();
  return text == "none" || text == "auto";  // both mean nothing without tools
}
bool IsTextOnly(const Json& v) { return v.is_array() && v.size() == 1 && IsText(v[0]); }

constexpr FieldKind kActs = FieldKind::kActs;
constexpr FieldKind kNoEffect = FieldKind::kNoEffect;
constexpr FieldKind kRefused = FieldKind::kRefused;

// clang-format off
constexpr FieldRule kRules[] = {
    {"model", kGeneration | kTokenize | kDetokenize, kActs, nullptr, ""},
    {"messages", kChat, kActs, nullptr, ""},
    {"prompt", kCompletions, kActs, nullptr, ""},
    {"stream", kGeneration, kActs, nullptr, ""},
    {"stream_options", kGeneration, kActs, nullptr, ""},
    {"max_tokens", kGeneration, kActs, nullptr, ""},
    {"max_completion_tokens", kChat, kActs, nullptr, ""},
    {"temperature", kGeneration, kActs, nullptr, ""},
    {"top_p", kGeneration, kActs, nullptr, ""},
    {"top_k", kGeneration, kActs, nullptr, ""},
    {"min_p", kGeneration, kActs, nullptr, ""},
    {"repetition_penalty", kGeneration, kActs, nullptr, ""},
    {"repeat_penalty", kGeneration, kActs, nullptr, ""},
    {"presence_penalty", kGeneration, kActs, nullptr, ""},
    {"frequency_penalty", kGeneration, kActs, nullptr, ""},
    {"logit_bias", kGeneration, kActs, nullptr, ""},
    {"seed", kGeneration, kActs, nullptr, ""},
    {"stop", kGeneration, kActs, nullptr, ""},
    {"ignore_eos", kGeneration, kActs, nullptr, ""},
    {"logprobs", kGeneration, kActs, nullptr, ""},
    {"top_logprobs", kChat, kActs, nullptr, ""},
    {"n", kGeneration, kActs, nullptr, ""},
    {"response_format", kGeneration, kActs, nullptr, ""},
    {"json_schema", kGeneration, kActs, nullptr, ""},
    {"guided_json", kGeneration, kActs, nullptr, ""},
    {"guided_regex", kGeneration, kActs, nullptr, ""},
    {"guided_choice", kGeneration, kActs, nullptr, ""},
    {"tools", kChat, kActs, nullptr, ""},
    {"tool_choice", kChat, kActs, nullptr, ""},
    {"parallel_tool_calls", kChat, kActs, nullptr, ""},
    {"continue_final_message", kChat, kActs, nullptr, ""},
    {"add_generation_prompt", kChat, kActs, nullptr, ""},
    {"chat_template_kwargs", kChat, kActs, nullptr, ""},
    {"content", kTokenize, kActs, nullptr, ""},
    {"add_special", kTokenize, kActs, nullptr, ""},
    {"with_pieces", kTokenize, kActs, nullptr, ""},
    {"tokens", kDetokenize, kActs, nullptr, ""},

    {"user", kGeneration, kNoEffect, nullptr, ""},
    {"metadata", kGeneration, kNoEffect, nullptr, ""},
    {"service_tier", kGeneration, kNoEffect, nullptr, ""},
    {"prediction", kChat, kNoEffect, nullptr, ""},
    {"prompt_cache_key", kGeneration, kNoEffect, nullptr, ""},
    {"prompt_cache_retention", kGeneration, kNoEffect, nullptr, ""},
    {"safety_identifier", kGeneration, kNoEffect, nullptr, ""},

    {"best_of", kCompletions, kRefused, IsOne, "the limit is 1"},
    {"store", kGeneration, kRefused, IsFalse, "replies are not stored"},
    {"echo", kCompletions, kRefused, IsFalse, "the prompt is never repeated in the reply"},
    {"suffix", kCompletions, kRefused, IsEmptyString, "insertion is not supported"},
    {"functions", kChat, kRefused, IsEmptyArray, "use \"tools\""},
    {"function_call", kChat, kRefused, IsNone, "use \"tool_choice\""},
    {"grammar", kGeneration, kRefused, IsEmptyString,
     "use \"response_format\" with a JSON schema or a regex"},
    {"modalities", kChat, kRefused, IsTextOnly, "only [\"text\"] is supported"},
    {"audio", kChat, kRefused, nullptr, "only text is supported"},
    {"web_search_options", kChat, kRefused, nullptr, "the server searches nothing"},
    {"reasoning_effort", kChat, kRefused, nullptr,
     "pass what the model's template knows in \"chat_template_kwargs\""},
    {"verbosity", kChat, kRefused, nullptr, ""},
    {"cache_prompt", kGeneration, kRefused, IsTrue, "there is no prefix cache yet"},
    {"parse_special", kTokenize, kRefused, IsFalse,
     "text from a request never becomes a control token"},
};
// clang-format on

}  // namespace

std::span<const FieldRule> FieldRules() { return kRules; }

ApiStatus CheckFields(const Json& body, Endpoints endpoint) {
  for (const auto& [name, value] : body.items()) {
    if (value.is_null()) continue;
    const FieldRule* found = nullptr;
    for (const auto rules : {FieldRules(), SurfaceFieldRules()}) {
      for (const FieldRule& rule : rules) {
        if (rule.name == name && (rule.endpoints & endpoint) != 0) found = &rule;
      }
    }
    if (found == nullptr) {
      const std::string shown = name.substr(0, 64);  // a hostile body may hold megabytes of name
      return FieldError(shown, "unknown_field", "the field {:?} is not known here", shown);
    }
    if (found->kind != FieldKind::kRefused) continue;
    if (found->neutral != nullptr && found->neutral(value)) continue;
    return FieldError(name, "unsupported_field",
                      "the field {:?} is not supported with this value{}{}", name,
                      found->why.empty() ? "" : ": ", found->why);
  }
  return {};
}

}  // namespace ballast
