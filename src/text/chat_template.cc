#include "text/chat_template.h"

#include <utility>

#include "text/jinja/template.h"

namespace ballast {

Result<ChatTemplate> ChatTemplate::Parse(std::string source) {
  ASSIGN_OR_RETURN(jinja::Template parsed, jinja::Template::Parse(source));
  ChatTemplate result;
  result.template_ = std::make_shared<const jinja::Template>(std::move(parsed));
  result.source_ = std::move(source);
  return result;
}

bool ChatTemplate::UsesTools() const { return template_->Mentions("tools"); }

Result<std::vector<TextSpan>> ChatTemplate::Render(const Json& messages, const Json& tools_or_null,
                                                   bool add_generation_prompt,
                                                   const Json& extra_kwargs, std::string_view bos,
                                                   std::string_view eos, const Clock& clock) const {
  if (!messages.is_array() || messages.empty()) {
    return InvalidArgument("messages must be an array of at least one message");
  }
  if (!tools_or_null.is_null() && !tools_or_null.is_array()) {
    return InvalidArgument("tools must be an array");
  }
  if (!extra_kwargs.is_null() && !extra_kwargs.is_object()) {
    return InvalidArgument("template arguments must be an object");
  }
  std::vector<std::pair<std::string, jinja::Value>> variables;
  try {
    variables.emplace_back("messages", jinja::Value::FromJson(messages));
    variables.emplace_back("tools", jinja::Value::FromJson(tools_or_null));
    variables.emplace_back("documents", jinja::Value());
    variables.emplace_back("add_generation_prompt", jinja::Value::Bool(add_generation_prompt));
    if (!bos.empty()) variables.emplace_back("bos_token", jinja::Value::String(bos));
    if (!eos.empty()) variables.emplace_back("eos_token", jinja::Value::String(eos));
    if (extra_kwargs.is_object()) {
      for (const auto& [name, value] : extra_kwargs.items()) {
        variables.emplace_back(name, jinja::Value::FromJson(value));
      }
    }
  } catch (const jinja::Failure& failure) {
    return MakeError(failure.code, "{}", failure.message);
  }
  ASSIGN_OR_RETURN(const jinja::Text text, template_->Render(variables, clock));
  std::vector<TextSpan> spans;
  spans.reserve(text.runs.size());
  size_t start = 0;
  for (const jinja::Text::Run& run : text.runs) {
    spans.push_back({text.bytes.substr(start, run.end - start), run.trusted});
    start = run.end;
  }
  return spans;
}

}  // namespace ballast
