// Role: turns a conversation into a prompt with the model's own chat template (our Jinja subset,
// docs/howto/chat-templates.md). Every byte that came from the conversation stays untrusted, so
// that no message can smuggle in a control token.
// Thread: immutable after Parse; Render may run on any number of threads.
#ifndef BALLAST_TEXT_CHAT_TEMPLATE_H_
#define BALLAST_TEXT_CHAT_TEMPLATE_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace ballast {

namespace jinja {
class Template;
}

class ChatTemplate {
 public:
  /// Errors: kInvalidArgument with the line for what does not parse or is over a limit (1 MiB of
  /// source), kUnimplemented for Jinja beyond the subset.
  static Result<ChatTemplate> Parse(std::string source);

  /// Renders with the variables `messages`, `tools`, `documents` (none), `add_generation_prompt`,
  /// `bos_token`, `eos_token` and the members of `extra_kwargs`, as the reference library does.
  /// @param messages  array of at least one object.  @param tools_or_null  array, or null for none.
  /// @param extra_kwargs  object or null; its strings are untrusted like the messages'.
  /// @param bos, eos  texts of those tokens (trusted), empty if the model has none.
  /// @param clock  what strftime_now() shows (local time).
  /// @returns spans that joined give the prompt; neighbours differ in trust; none is empty.
  /// Errors: kInvalidArgument with the template's line, e.g. from raise_exception();
  /// kResourceExhausted beyond 10 million steps or 64 MiB.
  Result<std::vector<TextSpan>> Render(const Json& messages, const Json& tools_or_null,
                                       bool add_generation_prompt, const Json& extra_kwargs,
                                       std::string_view bos, std::string_view eos,
                                       const Clock& clock = SystemClock()) const;

  const std::string& source() const { return source_; }

  /// True if the template reads the variable `tools`: it can show tools to the model itself.
  bool UsesTools() const;

 private:
  ChatTemplate() = default;
  std::string source_;
  std::shared_ptr<const jinja::Template> template_;
};

/// The source of a built-in template by its --chat-template name ("chatml", "llama3", "gemma"),
/// or nullopt.
std::optional<std::string_view> FindBuiltinChatTemplate(std::string_view name);

/// The names of the built-in templates, sorted.
std::vector<std::string_view> BuiltinChatTemplateNames();

}  // namespace ballast

#endif  // BALLAST_TEXT_CHAT_TEMPLATE_H_
