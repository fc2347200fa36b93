#include "server/field_types.h"

#include <algorithm>

namespace ballast {

namespace {

constexpr unsigned kAnthropic = kMessages | kCountTokens;
constexpr unsigned kAll = ~0u;

struct TypeRow {
  std::string_view name;
  unsigned endpoints;
  const char* schema;
};

// clang-format off
constexpr TypeRow kTypes[] = {
    {"model", kAll, R"({"type":"string"})"},
    {"messages", kChat | kAnthropic, R"({"type":"array","minItems":1,"items":{"type":"object"}})"},
    {"prompt", kCompletions, R"({"type":["string","array"]})"},
    {"stream", kAll, R"({"type":"boolean"})"},
    {"stream_options", kAll, R"({"type":"object"})"},
    {"max_tokens", kGeneration, R"({"type":"integer","minimum":-1})"},
    {"max_tokens", kMessages, R"({"type":"integer","minimum":1})"},
    {"max_completion_tokens", kChat, R"({"type":"integer","minimum":-1})"},
    {"max_output_tokens", kResponses, R"({"type":"integer","minimum":1})"},
    {"temperature", kAll, R"({"type":"number","minimum":0,"maximum":2})"},
    {"top_p", kAll, R"({"type":"number","exclusiveMinimum":0,"maximum":1})"},
    {"top_k", kAll, R"({"type":"integer","minimum":-1})"},
    {"min_p", kAll, R"({"type":"number","minimum":0,"maximum":1})"},
    {"repetition_penalty", kAll, R"({"type":"number","exclusiveMinimum":0,"maximum":2})"},
    {"repeat_penalty", kAll, R"({"type":"number","exclusiveMinimum":0,"maximum":2})"},
    {"presence_penalty", kAll, R"({"type":"number","minimum":-2,"maximum":2})"},
    {"frequency_penalty", kAll, R"({"type":"number","minimum":-2,"maximum":2})"},
    {"logit_bias", kAll, R"({"type":"object","additionalProperties":{"type":"number"}})"},
    {"seed", kAll, R"({"type":"integer"})"},
    {"stop", kAll, R"({"type":["string","array"],"items":{"type":"string"}})"},
    {"stop_sequences", kAll, R"({"type":"array","items":{"type":"string"}})"},
    {"ignore_eos", kAll, R"({"type":"boolean"})"},
    {"logprobs", kChat, R"({"type":"boolean"})"},
    {"logprobs", kCompletions, R"({"type":["integer","boolean"],"minimum":0,"maximum":20})"},
    {"top_logprobs", kChat, R"({"type":"integer","minimum":0,"maximum":20})"},
    {"n", kAll, R"({"type":"integer","minimum":1,"maximum":16})"},
    {"response_format", kAll, R"({"type":"object"})"},
    {"json_schema", kAll, "{}"},
    {"guided_json", kAll, "{}"},
    {"guided_regex", kAll, R"({"type":"string"})"},
    {"guided_choice", kAll, R"({"type":"array","items":{"type":"string"}})"},
    {"tools", kAll, R"({"type":"array","items":{"type":"object"}})"},
    {"tool_choice", kChat | kResponses, R"({"type":["string","object"]})"},
    {"tool_choice", kAnthropic, R"({"type":"object"})"},
    {"parallel_tool_calls", kAll, R"({"type":"boolean"})"},
    {"continue_final_message", kAll, R"({"type":"boolean"})"},
    {"add_generation_prompt", kAll, R"({"type":"boolean"})"},
    {"chat_template_kwargs", kAll, R"({"type":"object"})"},
    {"content", kAll, R"({"type":"string"})"},
    {"add_special", kAll, R"({"type":"boolean"})"},
    {"with_pieces", kAll, R"({"type":"boolean"})"},
    {"tokens", kAll, R"({"type":"array","items":{"type":"integer","minimum":0}})"},
    {"input", kAll, R"({"type":["string","array"]})"},
    {"encoding_format", kAll, R"({"type":"string","enum":["float","base64"]})"},
    {"dimensions", kAll, R"({"type":"integer","minimum":1})"},
    {"pooling", kAll, R"({"type":"string","enum":["mean","last"]})"},
    {"system", kAll, R"({"type":["string","array"]})"},
    {"thinking", kAll, R"({"type":"object"})"},
    {"instructions", kAll, R"({"type":"string"})"},
    {"text", kAll, R"({"type":"object"})"},
    {"reasoning", kAll, R"({"type":"object"})"},
    {"include", kAll, R"({"type":"array"})"},
};

struct RequiredRow {
  std::string_view name;
  unsigned endpoints;
};
constexpr RequiredRow kRequired[] = {
    {"messages", kChat | kAnthropic},
    {"prompt", kCompletions},
    {"input", kEmbeddings | kResponses},
    {"content", kTokenize},
    {"tokens", kDetokenize},
    {"model", kAnthropic},
    {"max_tokens", kMessages},
};
// clang-format on

const TypeRow* FindType(std::string_view name, unsigned endpoint) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name && (row.endpoints & endpoint) != 0) return &row;
  }
  return nullptr;
}

}  // namespace

bool IsRequiredField(std::string_view name, Endpoints endpoint) {
  return std::any_of(std::begin(kRequired), std::end(kRequired), [&](const RequiredRow& row) {
    return row.name == name && (row.endpoints & endpoint) != 0;
  });
}

Json FieldTypeSchema(std::string_view name, Endpoints endpoint) {
  const TypeRow* row = FindType(name, endpoint);
  if (row == nullptr) return Json::object();
  Json schema = Json::parse(row->schema);
  if (!schema.contains("type") || IsRequiredField(name, endpoint)) return schema;
  Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
  types.push_back("null");
  schema["type"] = std::move(types);
  if (schema.contains("enum")) schema["enum"].push_back(nullptr);
  return schema;
}

std::vector<std::string> MistypedFields() {
  std::vector<std::string> names;
  std::vector<const TypeRow*> used;
  for (const auto& rules : {FieldRules(), SurfaceFieldRules()}) {
    for (const FieldRule& rule : rules) {
      if (rule.kind != FieldKind::kActs) continue;
      for (unsigned endpoint = kChat; endpoint <= kResponses; endpoint <<= 1) {
        if ((rule.endpoints & endpoint) == 0) continue;
        used.push_back(FindType(rule.name, endpoint));
        if (used.back() == nullptr) names.emplace_back(rule.name);
      }
    }
  }
  for (const TypeRow& row : kTypes) {
    if (std::find(used.begin(), used.end(), &row) == used.end()) names.emplace_back(row.name);
  }
  return names;
}

}  // namespace ballast
