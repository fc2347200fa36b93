// Role: a chat's reply in the shape of OpenAI's Responses API, whole or streamed. Thread: as
// ChatTranslator.
#ifndef BALLAST_SERVER_RESPONSES_REPLY_H_
#define BALLAST_SERVER_RESPONSES_REPLY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "server/chat_translator.h"

namespace ballast {

class ResponsesReply final : public ChatTranslator {
 public:
  /// @param echo the request's settings, as ResponsesBody has them.
  ResponsesReply(std::shared_ptr<Exchange> to, std::string model, int64_t created,
                 const Json& echo);

 private:
  void OnStart() override;
  void OnPiece(Kind kind, const std::string& text, const std::string& call_id) override;
  void OnEnd(const End& end) override;
  Json Whole() const override { return response_; }
  Json ErrorBody(const Json& error, int status) const override;
  void OnStreamError(const Json& error) override;
  void OnComment(std::string_view comment) override;

  /// Sends an event with its type and number.
  void SendEvent(const char* type, Json data);
  void SendResponse(const char* type);
  /// The same members as every event of the open item.
  Json OpenItem() const;
  void Begin(Json item);
  void BeginText(Kind kind);
  void Close(const char* status);

  Json response_;
  Kind kind_ = Kind::kText;  // of the open item
  bool item_open_ = false;
  int64_t sequence_ = 0;
};

}  // namespace ballast

#endif  // BALLAST_SERVER_RESPONSES_REPLY_H_
