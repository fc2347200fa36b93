#include "server/prompt.h"

#include <utility>

#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/tools/inject.h"

namespace ballast {

namespace {

std::string SpecialText(const Tokenizer& tokenizer, std::optional<TokenId> token) {
  return token ? tokenizer.TokenBytes(*token) : std::string();
}

bool OpensThinking(const std::vector<TextSpan>& spans) {
  if (spans.empty() || !spans.back().trusted) return false;
  std::string_view text = spans.back().text;
  const size_t end = text.find_last_not_of(" \n");
  return end != std::string_view::npos && text.substr(0, end + 1).ends_with("<think>");
}

}  // namespace

ApiResult<std::vector<TextSpan>> RenderChat(const GenerationBody& body, const OutputPlan& plan,
                                            const EngineClient& engine, bool* thinking) {
  const ChatTemplate* chat_template = engine.chat_template();
  if (chat_template == nullptr) {
    return FieldError("messages", "no_chat_template",
                      "the model {:?} has no chat template; start the server with "
                      "--chat-template NAME or --chat-template-file FILE, or use /v1/completions",
                      engine.info().model_id);
  }
  const Tokenizer& tokenizer = engine.tokenizer();
  Json messages = body.messages;
  Json tools = plan.show_tools ? body.tools.tools : Json(nullptr);
  std::string begun;
  if (body.continue_final_message) {
    begun = messages.back()["content"].get<std::string>();
    messages.erase(messages.size() - 1);
  }
  if (!chat_template->UsesTools() && plan.tool_format != nullptr) {
    messages = InjectTools(*plan.tool_format, messages, plan.show_tools ? tools : Json::array());
    tools = nullptr;
  }
  auto spans = chat_template->Render(messages, tools,
                                     body.add_generation_prompt || body.continue_final_message,
                                     body.template_kwargs, SpecialText(tokenizer, tokenizer.bos()),
                                     SpecialText(tokenizer, tokenizer.eos()));
  if (!spans) {
    ApiError error = FromError(spans.error());
    error.message = "the model's chat template refuses these messages: " + error.message;
    error.param = "messages";
    error.code = "chat_template_error";
    error.status = 400;
    error.type = "invalid_request_error";
    return error;
  }
  *thinking = begun.empty() && OpensThinking(*spans);
  if (!begun.empty()) spans->push_back({begun, /*trusted=*/false});
  return *std::move(spans);
}

ApiResult<BuiltPrompts> BuildPrompts(const GenerationBody& body, const OutputPlan& plan,
                                     const EngineClient& engine) {
  BuiltPrompts built;
  std::vector<std::vector<TokenId>>& prompts = built.prompts;
  if (body.endpoint == kChat) {
    ASSIGN_OR_RETURN(const auto spans, RenderChat(body, plan, engine, &built.thinking));
    prompts.push_back(engine.tokenizer().EncodeSpans(spans));
    EnsureBos(engine.tokenizer(), &prompts.back());
  }
  for (const PromptInput& input : body.prompts) {
    if (const auto* text = std::get_if<std::string>(&input)) {
      prompts.push_back(engine.tokenizer().Encode(*text));
      EnsureBos(engine.tokenizer(), &prompts.back());
    } else {
      prompts.push_back(std::get<std::vector<TokenId>>(input));
    }
  }
  for (const auto& prompt : prompts) {
    if (!prompt.empty()) continue;
    return FieldError(body.endpoint == kChat ? "messages" : "prompt", "empty_prompt",
                      "the prompt has no tokens; it needs at least 1");
  }
  return built;
}

}  // namespace ballast
