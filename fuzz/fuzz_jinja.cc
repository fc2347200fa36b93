// Chat templates: any source parses or is refused with a line, and what parses renders a small
// conversation within its limits or fails with a message; no message byte becomes trusted.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/jinja/template.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

// Bytes that no template of the corpus contains: if they come out trusted, taint was lost. A
// template can only spell them through an escape, so sources with a backslash are exempt.
constexpr char kMark[] = "\xE2\x9A\xA0";

std::vector<std::pair<std::string, ballast::jinja::Value>> Variables() {
  using ballast::Json;
  using ballast::jinja::Value;
  const std::string mark = kMark;
  const Json messages = {
      {{"role", "system"}, {"content", mark + " be brief"}},
      {{"role", "user"}, {"content", "Hi\n" + mark}},
      {{"role", "assistant"},
       {"content", nullptr},
       {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", {{"x", 1}}}}}}}}}};
  const Json tools = {{{"type", "function"}, {"function", {{"name", mark}, {"n", 1.5}}}}};
  return {{"messages", Value::FromJson(messages)},
          {"tools", Value::FromJson(tools)},
          {"add_generation_prompt", Value::Bool(true)},
          {"bos_token", Value::String("<s>")},
          {"eos_token", Value::String("</s>")}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = ballast::jinja::Template::Parse(source);
  if (!parsed) {
    Require(!parsed.error().message.empty());
    return 0;
  }
  static const auto kVariables = Variables();
  ballast::jinja::Limits limits;
  limits.steps = 20'000;
  limits.output_bytes = 1 << 20;
  const auto text = parsed->Render(kVariables, ballast::SystemClock(), limits);
  if (!text) {
    Require(text.error().message.find("line") != std::string::npos);
    return 0;
  }
  size_t start = 0;
  const bool may_spell = source.find('\\') != std::string_view::npos ||
                         source.find(kMark) != std::string_view::npos ||
                         source.find("\xE2") != std::string_view::npos;
  for (const auto& run : text->runs) {
    Require(run.end > start && run.end <= text->bytes.size());
    const std::string_view part = std::string_view(text->bytes).substr(start, run.end - start);
    if (run.trusted && !may_spell) Require(part.find(kMark) == std::string_view::npos);
    start = run.end;
  }
  Require(start == text->bytes.size());
  return 0;
}
