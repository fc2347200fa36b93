#include "text/tools/call_parser.h"

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace ballast {

namespace {

using Kind = ReplyPiece::Kind;

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";
constexpr size_t kMaxKeyBytes = 256;

bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/// How many bytes at the end of `text` are a proper beginning of `word`.
size_t PartialMatch(std::string_view text, std::string_view word) {
  for (size_t n = std::min(text.size(), word.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == word.substr(0, n)) return n;
  }
  return 0;
}

size_t TrailingBlanks(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && IsBlank(text[text.size() - 1 - n])) ++n;
  return n;
}

}  // namespace

void AddPiece(Kind kind, std::string_view text, ReplyPieces* out) {
  if (text.empty() && kind != Kind::kCall) return;
  if (kind != Kind::kCall && !out->empty() && out->back().kind == kind) {
    out->back().text += text;
  } else {
    out->push_back({kind, std::string(text)});
  }
}

void CallReader::Take(char c, ReplyPieces* out) {
  if (key_ == "name") {
    name_ += c;
  } else if (key_ == "arguments" || key_ == "parameters") {
    if (named_) {
      AddPiece(Kind::kArguments, std::string_view(&c, 1), out);
    } else {
      arguments_ += c;
    }
  }
}

CallReader::State CallReader::EndValue(ReplyPieces* out) {
  place_ = Place::kAfterValue;
  if (key_ != "name" || named_) return State::kReading;
  const auto name = ParseJson(name_);
  if (!name || !name->is_string()) return State::kBroken;
  named_ = true;
  AddPiece(Kind::kCall, name->get<std::string>(), out);
  AddPiece(Kind::kArguments, arguments_, out);
  return State::kReading;
}

// Inside a value: strings, brackets and bare words end by different signs.
CallReader::State CallReader::Value(char c, ReplyPieces* out) {
  if (quoted_) {
    Take(c, out);
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      quoted_ = false;
      if (depth_ == 0) return EndValue(out);
    }
    return State::kReading;
  }
  if (depth_ == 0 && (c == ',' || c == '}' || IsBlank(c))) {  // ends a bare word
    if (const State state = EndValue(out); state != State::kReading) return state;
    return Push(c, out);
  }
  if (c == '}' || c == ']') {
    if (depth_ == 0) return State::kBroken;
    --depth_;
    Take(c, out);
    return depth_ == 0 ? EndValue(out) : State::kReading;
  }
  if (c == '"') quoted_ = true;
  if (c == '{' || c == '[') ++depth_;
  Take(c, out);
  return State::kReading;
}

CallReader::State CallReader::Push(char c, ReplyPieces* out) {
  switch (place_) {
    case Place::kStart:
      if (IsBlank(c)) return State::kReading;
      place_ = Place::kKeyOrEnd;
      return c == '{' ? State::kReading : State::kBroken;
    case Place::kKeyOrEnd:
      if (IsBlank(c)) return State::kReading;
      if (c == '}') return named_ ? State::kDone : State::kBroken;
      key_.clear();
      place_ = Place::kKey;
      return c == '"' ? State::kReading : State::kBroken;
    case Place::kKey:
      if (c == '"') {
        place_ = Place::kColon;
      } else if (key_.size() >= kMaxKeyBytes) {
        return State::kBroken;
      } else {
        key_ += c;
      }
      return State::kReading;
    case Place::kColon:
      if (IsBlank(c)) return State::kReading;
      place_ = Place::kValue;
      return c == ':' ? State::kReading : State::kBroken;
    case Place::kValue:
      if (IsBlank(c)) return State::kReading;
      if (c == ',' || c == '}' || c == ']') return State::kBroken;
      place_ = Place::kInValue;
      return Value(c, out);
    case Place::kInValue:
      return Value(c, out);
    case Place::kAfterValue:
      if (IsBlank(c)) return State::kReading;
      if (c == '}') return named_ ? State::kDone : State::kBroken;
      place_ = Place::kKeyOrEnd;
      return c == ',' ? State::kReading : State::kBroken;
  }
  return State::kBroken;
}

void ToolCallParser::Push(std::string_view text, ReplyPieces* out) {
  for (const char c : text) PushByte(c, out);
}

void ToolCallParser::StartCall() {
  reader_ = CallReader();
  close_.clear();
  place_ = Place::kBeforeCall;
}

// What looked like a call was none: it is text after all, unless its name has gone out.
void ToolCallParser::Break(ReplyPieces* out) {
  if (reader_.named()) {
    place_ = Place::kAfterCall;
    return;
  }
  AddPiece(Kind::kContent, held_, out);
  held_.clear();
  place_ = Place::kText;
}

void ToolCallParser::PushText(char c, ReplyPieces* out) {
  held_ += c;
  if (held_.ends_with(format_.opening)) {
    const size_t before = held_.size() - format_.opening.size();
    // Blanks between text and call, or between calls, belong to neither.
    const size_t blanks = TrailingBlanks(std::string_view(held_).substr(0, before));
    AddPiece(Kind::kContent, std::string_view(held_).substr(0, before - blanks), out);
    held_.erase(0, before - blanks);
    StartCall();
    if (!format_.opening_is_call) return;
    place_ = Place::kInCall;
    for (const char o : format_.opening) reader_.Push(o, out);
    return;
  }
  const size_t partial = PartialMatch(held_, format_.opening);
  const size_t blanks = TrailingBlanks(std::string_view(held_).substr(0, held_.size() - partial));
  const size_t ready = held_.size() - partial - blanks;
  AddPiece(Kind::kContent, std::string_view(held_).substr(0, ready), out);
  held_.erase(0, ready);
}

void ToolCallParser::PushCall(char c, ReplyPieces* out) {
  const bool named = reader_.named();
  const CallReader::State state = reader_.Push(c, out);
  if (!named && reader_.named()) {
    ++calls_;
    held_.clear();
  }
  if (state == CallReader::State::kBroken) {
    Break(out);
  } else if (state == CallReader::State::kDone) {
    place_ = format_.closing.empty() ? Place::kText : Place::kAfterCall;
  }
}

void ToolCallParser::PushByte(char c, ReplyPieces* out) {
  switch (place_) {
    case Place::kText:
      return PushText(c, out);
    case Place::kBeforeCall:
      held_ += c;
      if (IsBlank(c) || c == '[') return;
      place_ = Place::kInCall;
      return PushCall(c, out);
    case Place::kInCall:
      if (!reader_.named()) held_ += c;
      return PushCall(c, out);
    case Place::kAfterCall:
      close_ += c;
      if (close_.ends_with("</tool_call>")) {
        held_.clear();
        place_ = Place::kText;
      } else if (c == '{') {  // another call of the block
        held_.clear();
        StartCall();
        place_ = Place::kInCall;
        held_ += c;
        PushCall(c, out);
      } else if (close_.size() > 64) {
        close_.erase(0, close_.size() - 16);
      }
      return;
  }
}

void ToolCallParser::Finish(ReplyPieces* out) {
  const bool open_call = place_ == Place::kInCall && reader_.named();
  const bool only_blanks = calls_ > 0 && TrailingBlanks(held_) == held_.size();
  if (place_ != Place::kAfterCall && !open_call && !only_blanks) {
    AddPiece(Kind::kContent, held_, out);
  }
  held_.clear();
  place_ = Place::kText;
}

ReplyParser::ReplyParser(const ToolFormat* format, bool thinking, grammar::GrammarPtr loose)
    : place_(thinking ? Place::kThinking : Place::kStart) {
  if (format == nullptr) return;
  tools_.emplace(*format);
  if (loose != nullptr) loose_.emplace(*format, std::move(loose));
}

void ReplyParser::Rest(std::string_view text, ReplyPieces* out) {
  if (!tools_.has_value()) {
    AddPiece(Kind::kContent, text, out);
  } else if (loose_.has_value()) {
    std::string decided;
    loose_->Push(text, &decided);
    tools_->Push(decided, out);
  } else {
    tools_->Push(text, out);
  }
}

void ReplyParser::Push(std::string_view text, ReplyPieces* out) {
  size_t i = 0;
  for (; i < text.size() && place_ != Place::kRest; ++i) PushByte(text[i], out);
  if (i < text.size()) Rest(text.substr(i), out);
}

void ReplyParser::PushByte(char c, ReplyPieces* out) {
  held_ += c;
  switch (place_) {
    case Place::kStart: {
      std::string_view seen = held_;
      while (!seen.empty() && IsBlank(seen.front())) seen.remove_prefix(1);
      if (seen == kThinkOpen) {
        held_.clear();
        place_ = Place::kThinking;
      } else if (!kThinkOpen.starts_with(seen)) {
        place_ = Place::kRest;
        Rest(held_, out);
        held_.clear();
      }
      return;
    }
    case Place::kThinking: {
      if (held_.ends_with(kThinkClose)) {
        std::string_view text =
            std::string_view(held_).substr(0, held_.size() - kThinkClose.size());
        AddPiece(Kind::kReasoning, text.substr(0, text.size() - TrailingBlanks(text)), out);
        held_.clear();
        place_ = Place::kAfter;
        return;
      }
      // Blanks at either end of the thoughts are left out.
      if (!thought_ && held_.size() == 1 && IsBlank(c)) {
        held_.clear();
        return;
      }
      const size_t partial = PartialMatch(held_, kThinkClose);
      const size_t blanks =
          TrailingBlanks(std::string_view(held_).substr(0, held_.size() - partial));
      const size_t ready = held_.size() - partial - blanks;
      if (ready == 0) return;
      thought_ = true;
      AddPiece(Kind::kReasoning, std::string_view(held_).substr(0, ready), out);
      held_.erase(0, ready);
      return;
    }
    case Place::kAfter:
      if (IsBlank(c)) {
        held_.clear();
        return;
      }
      place_ = Place::kRest;
      [[fallthrough]];
    case Place::kRest:
      Rest(held_, out);
      held_.clear();
      return;
  }
}

void ReplyParser::Finish(ReplyPieces* out) {
  if (place_ == Place::kThinking) {
    AddPiece(Kind::kReasoning, held_, out);
  } else {
    Rest(held_, out);
  }
  held_.clear();
  if (loose_.has_value()) {
    std::string decided;
    loose_->Finish(&decided);
    tools_->Push(decided, out);
  }
  if (tools_.has_value()) tools_->Finish(out);
}

}  // namespace ballast
