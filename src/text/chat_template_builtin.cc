// Role: templates for model files that carry none, chosen by --chat-template NAME.
#include <array>

#include "text/chat_template.h"

namespace ballast {
namespace {

struct Builtin {
  std::string_view name;
  std::string_view source;
};

constexpr std::array kBuiltins = {
    Builtin{"chatml",
            R"({%- for message in messages -%}
{{- '<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\n' -}}
{%- endif -%}
)"},
    Builtin{"gemma",
            R"({{- bos_token -}}
{%- set ns = namespace(system='') -%}
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}
{%- set ns.system = ns.system + message['content'] | trim + '\n\n' -%}
{%- else -%}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
{{- '<start_of_turn>' + role + '\n' -}}
{%- if ns.system and role == 'user' -%}
{{- ns.system -}}
{%- set ns.system = '' -%}
{%- endif -%}
{{- (message['content'] or '') | trim + '<end_of_turn>\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<start_of_turn>model\n' -}}
{%- endif -%}
)"},
    Builtin{"llama3",
            R"({{- bos_token -}}
{%- for message in messages -%}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' -}}
{{- (message['content'] or '') | trim + '<|eot_id|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}
{%- endif -%}
)"},
};

}  // namespace

std::optional<std::string_view> FindBuiltinChatTemplate(std::string_view name) {
  for (const Builtin& builtin : kBuiltins) {
    if (builtin.name == name) return builtin.source;
  }
  return std::nullopt;
}

std::vector<std::string_view> BuiltinChatTemplateNames() {
  std::vector<std::string_view> names;
  for (const Builtin& builtin : kBuiltins) names.push_back(builtin.name);
  return names;
}

}  // namespace ballast
