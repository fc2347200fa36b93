// Role: a chat's reply in the shape of Anthropic's Messages API, whole or streamed. Thread: as
// ChatTranslator.
#ifndef BALLAST_SERVER_MESSAGES_REPLY_H_
#define BALLAST_SERVER_MESSAGES_REPLY_H_

#include <memory>
#include <string>

#include "server/chat_translator.h"

namespace ballast {

/// {"type": "error", "error": {"type", "message"}} from OpenAI's error object.
Json MessagesErrorBody(const Json& error, int status, const std::string& request_id);

class MessagesReply final : public ChatTranslator {
 public:
  /// @param id of the message.
  MessagesReply(std::shared_ptr<Exchange> to, std::string id, std::string model,
                std::string request_id);

 private:
  void OnStart() override;
  void OnPiece(Kind kind, const std::string& text, const std::string& call_id) override;
  void OnEnd(const End& end) override;
  Json Whole() const override { return message_; }
  Json ErrorBody(const Json& error, int status) const override;
  void OnStreamError(const Json& error) override;
  void OnComment(std::string_view comment) override;

  void OpenBlock(Json block);
  void CloseBlock();
  void Grow(const char* member, const char* delta_type, const char* delta_member,
            const std::string& text);

  const std::string request_id_;
  Json message_;
  std::string arguments_;  // of the open tool_use block
  bool block_open_ = false;
};

}  // namespace ballast

#endif  // BALLAST_SERVER_MESSAGES_REPLY_H_
