#include "text/tools/tool_format.h"

#include <utility>

namespace ballast {

namespace {

constexpr const ToolFormat* kFormats[] = {&kHermesFormat, &kLlama3Format, &kSmolFormat};

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

std::span<const ToolFormat* const> ToolFormats() { return kFormats; }

const ToolFormat& FindToolFormat(const ChatTemplate& chat_template) {
  const std::string& source = chat_template.source();
  if (Has(source, "<tool_call>")) return kHermesFormat;
  if (Has(source, "<|start_header_id|>")) return kLlama3Format;
  if (Has(source, "SmolLM")) return kSmolFormat;
  return kHermesFormat;
}

std::string WriteToolCalls(const ToolFormat& format,
                           std::span<const std::pair<std::string, std::string>> calls) {
  std::string out;
  bool open = false;
  for (const auto& [name, arguments] : calls) {
    if (open && !format.separator.empty()) {
      out += format.separator;
    } else {
      if (open) (out += format.closing) += format.block_separator;
      (out += format.opening) += format.block_open;
      open = true;
    }
    out += format.before_name;
    out += name;
    out += format.before_arguments;
    out += arguments;
    out += format.after_arguments;
  }
  if (open) out += format.closing;
  return out;
}

}  // namespace ballast
