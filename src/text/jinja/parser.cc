#include "text/jinja/parser.h"

#include <algorithm>

namespace ballast::jinja {
namespace {

StmtPtr MakeStmt(StmtKind kind, uint32_t line) {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = kind;
  stmt->line = line;
  return stmt;
}

std::string Describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kData:
      return "text";
    default:
      return "'" + token.text.substr(0, 40) + "'";
  }
}

}  // namespace

const Token& Parser::Peek(size_t ahead) const {
  return tokens_[std::min(pos_ + ahead, tokens_.size() - 1)];
}
Token Parser::Next() {
  const Token token = Peek();
  if (pos_ + 1 < tokens_.size()) ++pos_;
  return token;
}
bool Parser::AcceptOp(std::string_view op) {
  if (!Peek().IsOp(op)) return false;
  Next();
  return true;
}
bool Parser::AcceptName(std::string_view name) {
  if (!Peek().IsName(name)) return false;
  Next();
  return true;
}
void Parser::ExpectOp(std::string_view op) {
  if (!AcceptOp(op)) FailUnexpected(fmt::format("'{}'", op));
}
void Parser::ExpectName(std::string_view name) {
  if (!AcceptName(name)) FailUnexpected(fmt::format("'{}'", name));
}
std::string Parser::ExpectAnyName() {
  if (Peek().kind != TokenKind::kName) FailUnexpected("a name");
  return Next().text;
}
void Parser::ExpectBlockEnd() {
  if (Peek().kind != TokenKind::kBlockEnd) FailUnexpected("'%}'");
  Next();
}
void Parser::FailAt(uint32_t line, std::string message) const {
  throw Failure{Code::kInvalidArgument, std::move(message), line};
}
void Parser::FailUnexpected(std::string_view wanted) const {
  FailAt(Peek().line, fmt::format("unexpected {}, expected {}", Describe(Peek()), wanted));
}

Symbol Parser::Intern(const std::string& name) {
  const auto [it, added] =
      result_.symbols_.emplace(name, static_cast<Symbol>(result_.names_.size()));
  if (added) result_.names_.push_back(name);
  return it->second;
}

void Parser::Run() { result_.body_ = ParseBody({}); }

/// Stops before a tag in `ends` (its "{%" consumed, its name not), or at the end if there is none.
Body Parser::ParseBody(std::initializer_list<std::string_view> ends) {
  NestingGuard guard(*this, &statement_nesting_, kMaxStatementDepth, "blocks");
  Body body;
  while (true) {
    const Token token = Next();
    if (token.kind == TokenKind::kEnd) {
      if (ends.size() == 0) return body;
      FailAt(token.line, fmt::format("unexpected end of template; a block is not closed "
                                     "(missing '{}')",
                                     *(ends.end() - 1)));
    }
    if (token.kind == TokenKind::kData) {
      StmtPtr stmt = MakeStmt(StmtKind::kData, token.line);
      stmt->text = token.text;
      body.push_back(std::move(stmt));
    } else if (token.kind == TokenKind::kVariableBegin) {
      StmtPtr stmt = MakeStmt(StmtKind::kOutput, token.line);
      stmt->exprs.push_back(ParseTuple());
      if (Peek().kind != TokenKind::kVariableEnd) FailUnexpected("'}}'");
      Next();
      body.push_back(std::move(stmt));
    } else {
      if (Peek().kind != TokenKind::kName) FailUnexpected("a tag name");
      const std::string tag = Peek().text;
      if (std::find(ends.begin(), ends.end(), tag) != ends.end()) return body;
      Next();
      body.push_back(ParseStatement(tag, token.line));
    }
  }
}

void Parser::CloseBlock(std::string_view end) {
  ExpectName(end);
  // Jinja2 lets the end repeat the name of a macro or block.
  if (end == "endmacro" && Peek().kind == TokenKind::kName) Next();
  ExpectBlockEnd();
}

StmtPtr Parser::ParseStatement(const std::string& tag, uint32_t line) {
  if (tag == "if") return ParseIf(line);
  if (tag == "for") return ParseFor(line);
  if (tag == "set") return ParseSet(line);
  if (tag == "macro") return ParseMacro(line);
  if (tag == "call") return ParseCallBlock(line);
  if (tag == "filter") return ParseFilterBlock(line);
  if (tag == "with") return ParseWith(line);
  if (tag == "do") {
    StmtPtr stmt = MakeStmt(StmtKind::kExpression, line);
    stmt->exprs.push_back(ParseTuple());
    ExpectBlockEnd();
    return stmt;
  }
  if (tag == "generation") {
    ExpectBlockEnd();
    StmtPtr stmt = MakeStmt(StmtKind::kScope, line);
    stmt->bodies.push_back(ParseBody({"endgeneration"}));
    CloseBlock("endgeneration");
    return stmt;
  }
  if (tag == "break" || tag == "continue") {
    ExpectBlockEnd();
    if (loop_nesting_ == 0) FailAt(line, fmt::format("'{}' outside of a loop", tag));
    return MakeStmt(tag == "break" ? StmtKind::kBreak : StmtKind::kContinue, line);
  }
  constexpr std::string_view kUnsupported[] = {"include", "import", "from",       "extends",
                                               "block",   "trans",  "autoescape", "print"};
  if (std::find(std::begin(kUnsupported), std::end(kUnsupported), tag) != std::end(kUnsupported)) {
    throw Failure{Code::kUnimplemented, fmt::format("the tag '{}' is not supported", tag), line};
  }
  FailAt(line, fmt::format("unknown tag '{}'", tag.substr(0, 40)));
}

StmtPtr Parser::ParseIf(uint32_t line) {
  StmtPtr stmt = MakeStmt(StmtKind::kIf, line);
  stmt->exprs.push_back(ParseTuple(/*with_condition=*/false));
  ExpectBlockEnd();
  stmt->bodies.push_back(ParseBody({"elif", "else", "endif"}));
  while (AcceptName("elif")) {
    stmt->exprs.push_back(ParseTuple(/*with_condition=*/false));
    ExpectBlockEnd();
    stmt->bodies.push_back(ParseBody({"elif", "else", "endif"}));
  }
  if (AcceptName("else")) {
    ExpectBlockEnd();
    stmt->bodies.push_back(ParseBody({"endif"}));
  }
  CloseBlock("endif");
  return stmt;
}

Target Parser::ParseTarget(bool allow_attribute) {
  Target target;
  const bool parenthesis = AcceptOp("(");
  while (true) {
    const uint32_t line = Peek().line;
    const std::string name = ExpectAnyName();
    constexpr std::string_view kReserved[] = {"true", "false", "none", "True", "False", "None"};
    if (std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved)) {
      FailAt(line, fmt::format("cannot assign to '{}'", name));
    }
    target.names.push_back(Intern(name));
    if (allow_attribute && target.names.size() == 1 && AcceptOp(".")) {
      target.attribute = ExpectAnyName();
      return target;
    }
    if (!AcceptOp(",")) break;
    target.unpack = true;
    if (Peek().kind != TokenKind::kName || Peek().IsName("in")) break;
  }
  if (parenthesis) ExpectOp(")");
  return target;
}

StmtPtr Parser::ParseFor(uint32_t line) {
  StmtPtr stmt = MakeStmt(StmtKind::kFor, line);
  stmt->target = ParseTarget(/*allow_attribute=*/false);
  ExpectName("in");
  stmt->symbol = Intern("loop");
  stmt->exprs.push_back(ParseTuple(/*with_condition=*/false));
  stmt->exprs.push_back(AcceptName("if") ? ParseExpression() : nullptr);
  if (Peek().IsName("recursive")) {
    throw Failure{Code::kUnimplemented, "recursive loops are not supported", line};
  }
  ExpectBlockEnd();
  ++loop_nesting_;
  stmt->bodies.push_back(ParseBody({"else", "endfor"}));
  --loop_nesting_;
  if (AcceptName("else")) {
    ExpectBlockEnd();
    stmt->bodies.push_back(ParseBody({"endfor"}));
  }
  CloseBlock("endfor");
  return stmt;
}

StmtPtr Parser::ParseSet(uint32_t line) {
  StmtPtr stmt = MakeStmt(StmtKind::kSet, line);
  stmt->target = ParseTarget(/*allow_attribute=*/true);
  if (AcceptOp("=")) {
    stmt->exprs.push_back(ParseTuple());
    ExpectBlockEnd();
    return stmt;
  }
  stmt->kind = StmtKind::kSetBlock;
  ExprPtr filter;
  if (AcceptOp("|")) filter = ParseFilters(ParseFilter(nullptr));
  stmt->exprs.push_back(std::move(filter));
  ExpectBlockEnd();
  stmt->bodies.push_back(ParseBody({"endset"}));
  CloseBlock("endset");
  return stmt;
}

void Parser::ParseParameters(Stmt* stmt) {
  ExpectOp("(");
  while (!AcceptOp(")")) {
    if (!stmt->parameters.empty()) {
      ExpectOp(",");
      if (AcceptOp(")")) return;
    }
    const uint32_t line = Peek().line;
    std::string name = ExpectAnyName();
    stmt->parameters.push_back(Intern(name));
    stmt->parameter_names.push_back(std::move(name));
    const bool has_default = AcceptOp("=");
    if (!has_default && !stmt->exprs.empty() && stmt->exprs.back() != nullptr) {
      FailAt(line, "a parameter without default follows one with a default");
    }
    stmt->exprs.push_back(has_default ? ParseExpression() : nullptr);
  }
}

StmtPtr Parser::ParseMacro(uint32_t line) {
  StmtPtr stmt = MakeStmt(StmtKind::kMacro, line);
  stmt->text = ExpectAnyName();
  stmt->symbol = Intern(stmt->text);
  ParseParameters(stmt.get());
  ExpectBlockEnd();
  for (const char* implicit : {"caller", "varargs", "kwargs"}) Intern(implicit);
  // A break inside a macro cannot leave a loop around its definition.
  const uint32_t loops = std::exchange(loop_nesting_, 0);
  stmt->bodies.push_back(ParseBody({"endmacro"}));
  loop_nesting_ = loops;
  CloseBlock("endmacro");
  return stmt;
}

StmtPtr Parser::ParseCallBlock(uint32_t line) {
  StmtPtr stmt = MakeStmt(StmtKind::kCallBlock, line);
  if (Peek().IsOp("(")) ParseParameters(stmt.get());
  ExprPtr call = ParseExpression();
  if (call->kind != ExprKind::kCall) FailAt(line, "expected a call");
  stmt->exprs.push_back(std::move(call));  // after the parameters' defaults
  ExpectBlockEnd();
  for (const char* implicit : {"caller", "varargs", "kwargs"}) Intern(implicit);
  const uint32_t loops = std::exchange(loop_nesting_, 0);
  stmt->bodies.push_back(ParseBody({"endcall"}));
  loop_nesting_ = loops;
  CloseBlock("endcall");
  return stmt;
}

StmtPtr Parser::ParseFilterBlock(uint32_t line) {
  StmtPtr stmt = MakeStmt(StmtKind::kFilterBlock, line);
  stmt->exprs.push_back(ParseFilters(ParseFilter(nullptr)));
  ExpectBlockEnd();
  stmt->bodies.push_back(ParseBody({"endfilter"}));
  CloseBlock("endfilter");
  return stmt;
}

StmtPtr Parser::ParseWith(uint32_t line) {
  StmtPtr stmt = MakeStmt(StmtKind::kWith, line);
  while (Peek().kind != TokenKind::kBlockEnd) {
    if (!stmt->targets.empty()) ExpectOp(",");
    Target target;
    target.names.push_back(Intern(ExpectAnyName()));
    stmt->targets.push_back(std::move(target));
    ExpectOp("=");
    stmt->exprs.push_back(ParseExpression());
  }
  ExpectBlockEnd();
  stmt->bodies.push_back(ParseBody({"endwith"}));
  CloseBlock("endwith");
  return stmt;
}

}  // namespace ballast::jinja
