// Role: reads a reply as it arrives: free text, and tool calls in the model's format. What it says
// does not depend on how the reply was cut into pieces.
// Thread: one owner.
#ifndef BALLAST_TEXT_TOOLS_CALL_PARSER_H_
#define BALLAST_TEXT_TOOLS_CALL_PARSER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tools/loose_calls.h"
#include "text/tools/tool_format.h"

namespace ballast {

struct ReplyPiece {
  enum class Kind {
    kContent,
    kReasoning,  ///< between <think> tags
    kCall,       ///< a call begins; `text` is the function's name
    kArguments,  ///< more of the last call's arguments, JSON text
  };
  Kind kind = Kind::kContent;
  std::string text;
  friend bool operator==(const ReplyPiece&, const ReplyPiece&) = default;
};
using ReplyPieces = std::vector<ReplyPiece>;

/// Adds a piece; text of the same kind is joined to the last one.
void AddPiece(ReplyPiece::Kind kind, std::string_view text, ReplyPieces* out);

/// Reads one JSON object {"name": …, "arguments" or "parameters": …}, byte by byte.
class CallReader {
 public:
  enum class State { kReading, kDone, kBroken };
  /// Feeds one byte. The name comes out before any argument.
  State Push(char c, ReplyPieces* out);
  bool named() const { return named_; }

 private:
  enum class Place { kStart, kKeyOrEnd, kKey, kColon, kValue, kInValue, kAfterValue };
  State Value(char c, ReplyPieces* out);
  State EndValue(ReplyPieces* out);
  void Take(char c, ReplyPieces* out);

  Place place_ = Place::kStart;
  std::string key_;
  std::string name_;       // JSON text
  std::string arguments_;  // that came before the name
  bool named_ = false;
  int depth_ = 0;  // brackets within the value
  bool quoted_ = false, escaped_ = false;
};

class ToolCallParser {
 public:
  /// `format` must outlive the parser.
  explicit ToolCallParser(const ToolFormat& format) : format_(format) {}

  void Push(std::string_view text, ReplyPieces* out);
  /// The reply is over: what was held back is text.
  void Finish(ReplyPieces* out);
  int calls() const { return calls_; }

 private:
  enum class Place { kText, kBeforeCall, kInCall, kAfterCall };
  void PushByte(char c, ReplyPieces* out);
  void PushText(char c, ReplyPieces* out);
  void PushCall(char c, ReplyPieces* out);
  void StartCall();
  void Break(ReplyPieces* out);

  const ToolFormat& format_;
  Place place_ = Place::kText;
  std::string held_;  // blanks and what may become an opening; or the call so far
  std::string close_;
  CallReader reader_;
  int calls_ = 0;
};

/// Splits <think>…</think> at the start of a reply from the rest, then reads tool calls.
class ReplyParser {
 public:
  /// @param format null: no tool calls.  @param thinking the prompt has opened <think> already.
  /// @param loose the reply's grammar where calls without the format's tags count as well.
  explicit ReplyParser(const ToolFormat* format = nullptr, bool thinking = false,
                       grammar::GrammarPtr loose = nullptr);
  void Push(std::string_view text, ReplyPieces* out);
  void Finish(ReplyPieces* out);

 private:
  enum class Place { kStart, kThinking, kAfter, kRest };
  void PushByte(char c, ReplyPieces* out);
  void Rest(std::string_view text, ReplyPieces* out);

  std::optional<LooseCalls> loose_;
  std::optional<ToolCallParser> tools_;
  Place place_;
  std::string held_;
  bool thought_ = false;
};

}  // namespace ballast

#endif  // BALLAST_TEXT_TOOLS_CALL_PARSER_H_
