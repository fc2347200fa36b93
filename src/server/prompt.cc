#include "server/prompt.h"

#include <utility>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ballast {

namespace {

std::string SpecialText(const Tokenizer& tokenizer, std::optional<TokenId> token) {
  return token ? tokenizer.TokenBytes(*token) : std::string();
}

// Models that want BOS get it once: most chat templates spell it out themselves.
void EnsureBos(const Tokenizer& tokenizer, std::vector<TokenId>& tokens) {
  if (!tokenizer.add_bos() || !tokenizer.bos()) return;
  if (!tokens.empty() && tokens.front() == *tokenizer.bos()) return;
  tokens.insert(tokens.begin(), *tokenizer.bos());
}

ApiResult<std::vector<TokenId>> ChatPrompt(const GenerationBody& body, const EngineClient& engine) {
  const ChatTemplate* chat_template = engine.chat_template();
  if (chat_template == nullptr) {
    return FieldError("messages", "no_chat_template",
                      "the model {:?} has no chat template; start the server with "
                      "--chat-template FILE, or use /v1/completions",
                      engine.info().model_id);
  }
  const Tokenizer& tokenizer = engine.tokenizer();
  auto spans = chat_template->Render(body.messages, Json(nullptr), /*add_generation_prompt=*/true,
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
  std::vector<TokenId> tokens = tokenizer.EncodeSpans(*spans);
  EnsureBos(tokenizer, tokens);
  return tokens;
}

}  // namespace

ApiResult<std::vector<std::vector<TokenId>>> BuildPrompts(const GenerationBody& body,
                                                          const EngineClient& engine) {
  std::vector<std::vector<TokenId>> prompts;
  if (body.endpoint == kChat) {
    ASSIGN_OR_RETURN(auto tokens, ChatPrompt(body, engine));
    prompts.push_back(std::move(tokens));
  }
  for (const PromptInput& input : body.prompts) {
    if (const auto* text = std::get_if<std::string>(&input)) {
      prompts.push_back(engine.tokenizer().Encode(*text));
      EnsureBos(engine.tokenizer(), prompts.back());
    } else {
      prompts.push_back(std::get<std::vector<TokenId>>(input));
    }
  }
  for (const auto& prompt : prompts) {
    if (!prompt.empty()) continue;
    return FieldError(body.endpoint == kChat ? "messages" : "prompt", "empty_prompt",
                      "the prompt has no tokens; it needs at least 1");
  }
  return prompts;
}

}  // namespace ballast
