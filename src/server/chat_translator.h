// Role: gives a chat's reply another API's shape: stands in for the exchange of a chat call, reads
// the reply or the stream's chunks, and passes them on as the pieces that all chat APIs share.
// Thread: as Exchange; the writer is one call, whose writes never overlap. Invariant: errors,
// endings and hang-ups mean the same on both sides.
#ifndef BALLAST_SERVER_CHAT_TRANSLATOR_H_
#define BALLAST_SERVER_CHAT_TRANSLATOR_H_

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "http/forwarding_exchange.h"

namespace ballast {

class ChatTranslator : public ForwardingExchange {
 public:
  explicit ChatTranslator(std::shared_ptr<Exchange> to) : ForwardingExchange(std::move(to)) {}

  void Send(HttpResponse response) final;
  void StartStream(HttpResponse response) final;
  /// REQUIRES: whole server-sent events.
  bool Write(std::string_view bytes) final;

  /// Known before the reply starts.
  void SetPromptTokens(int64_t tokens) { prompt_tokens_ = tokens; }

 protected:
  enum class Kind { kText, kReasoning, kCall, kArguments };
  struct End {
    std::string finish_reason;  // of the chat: stop, length, tool_calls
    std::string stop;           // the stop string that matched, or empty
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t completion_tokens = 0;
  };

  // What a shape has to say. Pieces of a whole reply come in the same order as those of a stream.
  virtual void OnStart() = 0;
  /// kCall: `text` is the function's name and `call_id` its id; kArguments belong to the last call.
  virtual void OnPiece(Kind kind, const std::string& text, const std::string& call_id) = 0;
  virtual void OnEnd(const End& end) = 0;
  /// After OnEnd, for a reply that is not streamed.
  virtual Json Whole() const = 0;
  /// `error` is OpenAI's error object.
  virtual Json ErrorBody(const Json& error, int status) const = 0;
  /// An error in the middle of a stream.
  virtual void OnStreamError(const Json& error) = 0;
  /// A sign of life while nothing else is sent.
  virtual void OnComment(std::string_view comment) = 0;

  bool streaming() const { return streaming_; }
  int64_t prompt_tokens() const { return prompt_tokens_; }
  /// Sends one event with a name, as both APIs want them; nothing for a whole reply.
  void Emit(std::string_view name, const Json& data);
  void EmitRaw(std::string_view text);

 private:
  void TakeChunk(const Json& chunk);
  void TakeMessage(const Json& message);
  void TakeUsage(const Json& usage);

  bool streaming_ = false;
  bool started_ = false;
  bool open_ = true;  // the client is there
  int64_t prompt_tokens_ = 0;
  End end_;
};

}  // namespace ballast

#endif  // BALLAST_SERVER_CHAT_TRANSLATOR_H_
