#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/jinja/value.h"
#include "text/unicode.h"

namespace ballast::jinja {
namespace {

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<uint8_t>(c) >= 0x80;
}
bool IsNameChar(char c) { return IsNameStart(c) || IsDigit(c); }

/// "\r\n" and "\r" become "\n"; one newline at the end goes.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : owned_(NormalizeNewlines(source)), s_(owned_) {}

  std::vector<Token> Run() {
    while (pos_ < s_.size()) LexRoot();
    Push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void FailHere(std::string message) {
    throw Failure{Code::kInvalidArgument, std::move(message), line_};
  }

  void Push(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  bool At(std::string_view text) const { return s_.substr(pos_).starts_with(text); }

  void Advance(size_t count) {
    for (size_t i = 0; i < count; ++i) line_ += s_[pos_ + i] == '\n';
    pos_ += count;
  }

  void SkipSpaces() {
    while (pos_ < s_.size() && IsSpace(s_[pos_])) Advance(1);
  }

  /// Reads '-' or '+' behind an opening tag.
  char Sign() {
    if (pos_ < s_.size() && (s_[pos_] == '-' || s_[pos_] == '+')) {
      const char sign = s_[pos_];
      Advance(1);
      return sign;
    }
    return 0;
  }

  /// What of the data before a tag stays, given the tag's sign.
  std::string_view StripBefore(std::string_view data, char sign, bool is_variable) const {
    if (sign == '-') {
      while (!data.empty() && IsSpace(data.back())) data.remove_suffix(1);
      return data;
    }
    if (sign == '+' || is_variable) return data;
    const size_t newline = data.rfind('\n');
    const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    if (line_start == 0 && !line_starting_) return data;
    const std::string_view tail = data.substr(line_start);
    if (!std::all_of(tail.begin(), tail.end(), IsSpace)) return data;
    return data.substr(0, line_start);
  }

  void EmitData(std::string_view data) {
    if (!data.empty()) Push(TokenKind::kData, std::string(data));
  }

  void LexRoot() {
    size_t open = pos_;
    while (true) {
      open = s_.find('{', open);
      if (open == std::string_view::npos || open + 1 >= s_.size()) {
        EmitData(s_.substr(pos_));
        Advance(s_.size() - pos_);
        return;
      }
      const char next = s_[open + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++open;
    }
    const std::string_view data = s_.substr(pos_, open - pos_);
    const char type = s_[open + 1];
    const size_t sign_at = open + 2;
    const char sign =
        sign_at < s_.size() && (s_[sign_at] == '-' || s_[sign_at] == '+') ? s_[sign_at] : '\0';
    EmitData(StripBefore(data, sign, type == '{'));
    Advance(open - pos_ + 2);
    Sign();
    line_starting_ = false;
    if (type == '#') {
      LexComment();
    } else if (type == '{') {
      Push(TokenKind::kVariableBegin, "");
      LexExpression(/*block=*/false);
    } else if (!TryRaw()) {
      Push(TokenKind::kBlockBegin, "");
      LexExpression(/*block=*/true);
    }
  }

  /// After a block's or comment's end: '-' eats all white space, else one newline goes.
  void TrimAfter(char sign) {
    if (sign == '-') {
      const size_t before = pos_;
      SkipSpaces();
      line_starting_ = pos_ > before && s_[pos_ - 1] == '\n';
    } else if (sign != '+' && pos_ < s_.size() && s_[pos_] == '\n') {
      Advance(1);
      line_starting_ = true;
    } else {
      line_starting_ = false;
    }
  }

  void LexComment() {
    const size_t end = s_.find("#}", pos_);
    if (end == std::string_view::npos) FailHere("Missing end of comment tag");
    const char sign = end > pos_ ? s_[end - 1] : '\0';
    Advance(end + 2 - pos_);
    TrimAfter(sign == '-' || sign == '+' ? sign : '\0');
  }

  /// Matches `\s* name \s* [-+]? %}` at `at`; returns the length or 0, and the sign.
  size_t MatchTag(size_t at, std::string_view name, char* sign) const {
    const size_t start = at;
    while (at < s_.size() && IsSpace(s_[at])) ++at;
    if (!s_.substr(at).starts_with(name)) return 0;
    at += name.size();
    while (at < s_.size() && IsSpace(s_[at])) ++at;
    *sign = '\0';
    if (at < s_.size() && (s_[at] == '-' || s_[at] == '+')) *sign = s_[at++];
    if (!s_.substr(at).starts_with("%}")) return 0;
    return at + 2 - start;
  }

  bool TryRaw() {
    char sign = '\0';
    const size_t length = MatchTag(pos_, "raw", &sign);
    if (length == 0 || sign == '+') return false;
    Advance(length);
    line_starting_ = s_[pos_ - 1] == '\n';
    if (sign == '-') {
      SkipSpaces();
      line_starting_ = s_[pos_ - 1] == '\n';
    }
    for (size_t open = s_.find("{%", pos_); open != std::string_view::npos;
         open = s_.find("{%", open + 1)) {
      size_t at = open + 2;
      char begin_sign = '\0';
      if (at < s_.size() && (s_[at] == '-' || s_[at] == '+')) begin_sign = s_[at++];
      char end_sign = '\0';
      const size_t end_length = MatchTag(at, "endraw", &end_sign);
      if (end_length == 0) continue;
      EmitData(StripBefore(s_.substr(pos_, open - pos_), begin_sign, false));
      Advance(at + end_length - pos_);
      TrimAfter(end_sign);
      return true;
    }
    FailHere("Missing end of raw directive");
  }

  /// True (and consumed) at the end of the tag.
  bool TryEnd(bool block) {
    const std::string_view end = block ? "%}" : "}}";
    char sign = '\0';
    size_t length = 0;
    if (At(end)) {
      length = 2;
    } else if (s_.substr(pos_ + 1).starts_with(end) &&
               (s_[pos_] == '-' || (block && s_[pos_] == '+'))) {
      sign = s_[pos_];
      length = 3;
    } else {
      return false;
    }
    Push(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, "");
    Advance(length);
    if (block) {
      TrimAfter(sign);
    } else if (sign == '-') {
      TrimAfter(sign);
    } else {
      line_starting_ = false;
    }
    return true;
  }

  void LexExpression(bool block) {
    std::string brackets;
    while (true) {
      SkipSpaces();
      if (pos_ >= s_.size()) {
        FailHere(block ? "unexpected end of template, expected '%}'"
                       : "unexpected end of template, expected '}}'");
      }
      if (brackets.empty() && TryEnd(block)) return;
      const char c = s_[pos_];
      if (IsNameStart(c)) {
        size_t end = pos_;
        while (end < s_.size() && IsNameChar(s_[end])) ++end;
        Push(TokenKind::kName, std::string(s_.substr(pos_, end - pos_)));
        Advance(end - pos_);
      } else if (IsDigit(c)) {
        LexNumber();
      } else if (c == '"' || c == '\'') {
        LexString(c);
      } else {
        LexOperator(&brackets);
      }
    }
  }

  size_t Digits(size_t at) const {
    size_t end = at;
    while (end < s_.size() && (IsDigit(s_[end]) || (s_[end] == '_' && end > at &&
                                                    end + 1 < s_.size() && IsDigit(s_[end + 1])))) {
      ++end;
    }
    return end;
  }

  void LexNumber() {
    size_t end = Digits(pos_);
    bool is_float = false;
    // After a dot ("a.0.1") the digits are an index, never a float.
    const bool after_dot = !tokens_.empty() && tokens_.back().IsOp(".");
    if (!after_dot) {
      if (end + 1 < s_.size() && s_[end] == '.' && IsDigit(s_[end + 1])) {
        end = Digits(end + 1);
        is_float = true;
      }
      if (end < s_.size() && (s_[end] == 'e' || s_[end] == 'E')) {
        size_t exponent = end + 1;
        if (exponent < s_.size() && (s_[exponent] == '+' || s_[exponent] == '-')) ++exponent;
        if (exponent < s_.size() && IsDigit(s_[exponent])) {
          end = Digits(exponent);
          is_float = true;
        }
      }
    }
    std::string text(s_.substr(pos_, end - pos_));
    std::erase(text, '_');
    if (!is_float && text.size() > 1 && text[0] == '0' &&
        text.find_first_not_of('0') != std::string::npos) {
      FailHere(fmt::format("bad number \"{}\"", text.substr(0, 40)));
    }
    Push(is_float ? TokenKind::kFloat : TokenKind::kInteger, std::move(text));
    Advance(end - pos_);
  }

  void LexString(char quote) {
    size_t end = pos_ + 1;
    while (end < s_.size() && s_[end] != quote) end += s_[end] == '\\' ? 2 : 1;
    if (end >= s_.size()) FailHere("string without closing quote");
    Push(TokenKind::kString, Unescape(s_.substr(pos_ + 1, end - pos_ - 1)));
    Advance(end + 1 - pos_);
  }

  uint32_t HexDigits(std::string_view text, size_t at, size_t count) {
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      const char c = at + i < text.size() ? text[at + i] : '\0';
      uint32_t digit = 0;
      if (IsDigit(c)) {
        digit = static_cast<uint32_t>(c - '0');
      } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
        digit = static_cast<uint32_t>((c | 0x20) - 'a') + 10;
      } else {
        FailHere("bad hexadecimal escape in a string");
      }
      value = value * 16 + digit;
    }
    return value;
  }

  std::string Unescape(std::string_view text) {
    constexpr std::string_view kFrom = "abfnrtv\\'\"";
    constexpr std::string_view kTo = "\a\b\f\n\r\t\v\\'\"";
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 >= text.size()) {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      if (const size_t simple = kFrom.find(c); simple != std::string_view::npos) {
        out += kTo[simple];
      } else if (c == '\n') {
        continue;
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        AppendUtf8(HexDigits(text, i + 1, count), &out);
        i += count;
      } else if (c >= '0' && c <= '7') {
        uint32_t value = 0;
        size_t count = 0;
        while (count < 3 && i + count < text.size() && text[i + count] >= '0' &&
               text[i + count] <= '7') {
          value = value * 8 + static_cast<uint32_t>(text[i + count++] - '0');
        }
        AppendUtf8(value, &out);
        i += count - 1;
      } else if (c == 'N') {
        FailHere("\\N escapes are not supported");
      } else {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  void LexOperator(std::string* brackets) {
    constexpr std::array<std::string_view, 25> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};
    for (const std::string_view op : kOperators) {
      if (!At(op)) continue;
      if (op == "(" || op == "[" || op == "{") {
        brackets->push_back(op == "(" ? ')' : op == "[" ? ']' : '}');
      } else if (op == ")" || op == "]" || op == "}") {
        if (brackets->empty() || brackets->back() != op[0]) {
          FailHere(fmt::format("unexpected '{}'", op));
        }
        brackets->pop_back();
      }
      Push(TokenKind::kOperator, std::string(op));
      Advance(op.size());
      return;
    }
    FailHere(fmt::format("unexpected character '{}'", s_.substr(pos_, 1)));
  }

  std::string owned_;
  std::string_view s_;
  size_t pos_ = 0;
  uint32_t line_ = 1;
  bool line_starting_ = true;  // nothing but white space can stand before pos_ on its line
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Lex(std::string_view source) { return Lexer(source).Run(); }

}  // namespace ballast::jinja
