// Role: tokens to tree: expressions in parser_expr.cc, statements in parser.cc.
// Thread: one parse. Throws Failure with the line.
#ifndef BALLAST_TEXT_JINJA_PARSER_H_
#define BALLAST_TEXT_JINJA_PARSER_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"
#include "text/jinja/template.h"

namespace ballast::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, Template* result)
      : tokens_(std::move(tokens)), result_(*result) {}
  void Run();

 private:
  // Tokens.
  const Token& Peek(size_t ahead = 0) const;
  Token Next();
  bool AcceptOp(std::string_view op);
  bool AcceptName(std::string_view name);
  void ExpectOp(std::string_view op);
  void ExpectName(std::string_view name);
  std::string ExpectAnyName();
  void ExpectBlockEnd();
  [[noreturn]] void FailAt(uint32_t line, std::string message) const;
  [[noreturn]] void FailUnexpected(std::string_view wanted) const;

  // Statements (parser.cc).
  Body ParseBody(std::initializer_list<std::string_view> ends);
  StmtPtr ParseStatement(const std::string& tag, uint32_t line);
  StmtPtr ParseIf(uint32_t line);
  StmtPtr ParseFor(uint32_t line);
  StmtPtr ParseSet(uint32_t line);
  StmtPtr ParseMacro(uint32_t line);
  StmtPtr ParseCallBlock(uint32_t line);
  StmtPtr ParseFilterBlock(uint32_t line);
  StmtPtr ParseWith(uint32_t line);
  void ParseParameters(Stmt* stmt);
  Target ParseTarget(bool allow_attribute);
  void CloseBlock(std::string_view end);

  // Expressions (parser_expr.cc), loosest first.
  ExprPtr ParseExpression(bool with_condition = true);
  ExprPtr ParseTuple(bool with_condition = true);
  ExprPtr ParseConditional();
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filter);
  ExprPtr ParsePrimary();
  ExprPtr ParseParenthesis();
  ExprPtr ParseDict();
  ExprPtr ParsePostfix(ExprPtr node);
  ExprPtr ParseSubscript(ExprPtr node);
  ExprPtr ParseFilters(ExprPtr node);
  ExprPtr ParseFilter(ExprPtr node);
  ExprPtr ParseTest(ExprPtr node);
  void ParseArguments(Expr* call);

  ExprPtr Make(ExprKind kind, uint32_t line) const;
  ExprPtr MakeBinary(ExprKind kind, uint32_t line, std::string op, ExprPtr left,
                     ExprPtr right) const;
  /// Sets the depth from the kids and refuses trees that are too deep.
  ExprPtr Finish(ExprPtr node) const;
  Symbol Intern(const std::string& name);

  struct NestingGuard;
  std::vector<Token> tokens_;
  Template& result_;
  size_t pos_ = 0;
  uint32_t expression_nesting_ = 0;
  uint32_t statement_nesting_ = 0;
  uint32_t loop_nesting_ = 0;
};

/// Counts one level of recursion for as long as it lives.
struct Parser::NestingGuard {
  NestingGuard(const Parser& parser, uint32_t* counter, uint32_t limit, std::string_view what)
      : counter_(counter) {
    if (++*counter_ > limit) {
      const uint32_t line = parser.Peek().line;
      --*counter_;
      parser.FailAt(line, fmt::format("{} nest deeper than {} levels", what, limit));
    }
  }
  ~NestingGuard() { --*counter_; }
  NestingGuard(const NestingGuard&) = delete;
  NestingGuard& operator=(const NestingGuard&) = delete;

 private:
  uint32_t* counter_;
};

}  // namespace ballast::jinja

#endif  // BALLAST_TEXT_JINJA_PARSER_H_
