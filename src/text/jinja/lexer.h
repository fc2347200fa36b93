// Role: Jinja source to tokens, with trim_blocks and lstrip_blocks on and one trailing newline
// dropped, as the reference library configures its environment.
// Thread: pure function.
#ifndef BALLAST_TEXT_JINJA_LEXER_H_
#define BALLAST_TEXT_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::jinja {

enum class TokenKind {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  ///< Strings are unescaped; numbers without underscores.
  uint32_t line = 1;

  bool IsOp(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
  bool IsName(std::string_view name) const { return kind == TokenKind::kName && text == name; }
};

/// Throws Failure with the line. The last token is kEnd.
std::vector<Token> Lex(std::string_view source);

}  // namespace ballast::jinja

#endif  // BALLAST_TEXT_JINJA_LEXER_H_
