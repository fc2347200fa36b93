// Role: the expression half of the parser. Precedence follows Jinja2, where a filter binds tighter
// than any binary operator and "-x|f" is "-(x)|f" over the negated value.
#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "text/jinja/parser.h"

namespace ballast::jinja {

ExprPtr Parser::Make(ExprKind kind, uint32_t line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExprPtr Parser::MakeBinary(ExprKind kind, uint32_t line, std::string op, ExprPtr left,
                           ExprPtr right) const {
  ExprPtr node = Make(kind, line);
  node->text = std::move(op);
  node->kids.push_back(std::move(left));
  node->kids.push_back(std::move(right));
  return Finish(std::move(node));
}

ExprPtr Parser::Finish(ExprPtr node) const {
  uint32_t depth = 0;
  for (const ExprPtr& kid : node->kids) {
    if (kid != nullptr) depth = std::max(depth, kid->depth);
  }
  for (const auto& [name, kid] : node->kwargs) depth = std::max(depth, kid->depth);
  node->depth = depth + 1;
  if (node->depth > kMaxExpressionDepth) {
    FailAt(node->line,
           fmt::format("the expression nests deeper than {} levels", kMaxExpressionDepth));
  }
  return node;
}

ExprPtr Parser::ParseExpression(bool with_condition) {
  return with_condition ? ParseConditional() : ParseOr();
}

ExprPtr Parser::ParseTuple(bool with_condition) {
  const uint32_t line = Peek().line;
  ExprPtr first = ParseExpression(with_condition);
  if (!Peek().IsOp(",")) return first;
  ExprPtr tuple = Make(ExprKind::kTuple, line);
  tuple->kids.push_back(std::move(first));
  while (AcceptOp(",")) {
    const Token& next = Peek();
    if (next.kind == TokenKind::kVariableEnd || next.kind == TokenKind::kBlockEnd ||
        next.IsOp(")")) {
      break;
    }
    tuple->kids.push_back(ParseExpression(with_condition));
  }
  return Finish(std::move(tuple));
}

ExprPtr Parser::ParseConditional() {
  NestingGuard guard(*this, &expression_nesting_, kMaxExpressionDepth, "expressions");
  ExprPtr node = ParseOr();
  while (Peek().IsName("if")) {
    ExprPtr conditional = Make(ExprKind::kConditional, Next().line);
    conditional->kids.push_back(std::move(node));
    conditional->kids.push_back(ParseOr());
    conditional->kids.push_back(AcceptName("else") ? ParseConditional() : nullptr);
    node = Finish(std::move(conditional));
  }
  return node;
}

ExprPtr Parser::ParseOr() {
  ExprPtr left = ParseAnd();
  while (Peek().IsName("or")) {
    const uint32_t line = Next().line;
    left = MakeBinary(ExprKind::kOr, line, "or", std::move(left), ParseAnd());
  }
  return left;
}

ExprPtr Parser::ParseAnd() {
  ExprPtr left = ParseNot();
  while (Peek().IsName("and")) {
    const uint32_t line = Next().line;
    left = MakeBinary(ExprKind::kAnd, line, "and", std::move(left), ParseNot());
  }
  return left;
}

ExprPtr Parser::ParseNot() {
  if (!Peek().IsName("not")) return ParseCompare();
  NestingGuard guard(*this, &expression_nesting_, kMaxExpressionDepth, "expressions");
  ExprPtr node = Make(ExprKind::kNot, Next().line);
  node->kids.push_back(ParseNot());
  return Finish(std::move(node));
}

ExprPtr Parser::ParseCompare() {
  ExprPtr left = ParseSum();
  ExprPtr node;
  while (true) {
    const Token& token = Peek();
    std::string op;
    if (token.kind == TokenKind::kOperator &&
        (token.text == "==" || token.text == "!=" || token.text == "<" || token.text == "<=" ||
         token.text == ">" || token.text == ">=")) {
      op = token.text;
    } else if (token.IsName("in")) {
      op = "in";
    } else if (token.IsName("not") && Peek(1).IsName("in")) {
      op = "not in";
      Next();
    } else {
      break;
    }
    const uint32_t line = Next().line;
    if (node == nullptr) {
      node = Make(ExprKind::kCompare, line);
      node->kids.push_back(std::move(left));
    }
    node->ops.push_back(op);
    node->kids.push_back(ParseSum());
  }
  return node == nullptr ? std::move(left) : Finish(std::move(node));
}

ExprPtr Parser::ParseSum() {
  ExprPtr left = ParseConcat();
  while (Peek().IsOp("+") || Peek().IsOp("-")) {
    const Token op = Next();
    left = MakeBinary(ExprKind::kBinary, op.line, op.text, std::move(left), ParseConcat());
  }
  return left;
}

ExprPtr Parser::ParseConcat() {
  ExprPtr first = ParseProduct();
  if (!Peek().IsOp("~")) return first;
  ExprPtr node = Make(ExprKind::kConcat, Peek().line);
  node->kids.push_back(std::move(first));
  while (AcceptOp("~")) node->kids.push_back(ParseProduct());
  return Finish(std::move(node));
}

ExprPtr Parser::ParseProduct() {
  ExprPtr left = ParsePower();
  while (Peek().IsOp("*") || Peek().IsOp("/") || Peek().IsOp("//") || Peek().IsOp("%")) {
    const Token op = Next();
    left = MakeBinary(ExprKind::kBinary, op.line, op.text, std::move(left), ParsePower());
  }
  return left;
}

ExprPtr Parser::ParsePower() {
  ExprPtr left = ParseUnary(true);
  while (Peek().IsOp("**")) {
    const Token op = Next();
    left = MakeBinary(ExprKind::kBinary, op.line, op.text, std::move(left), ParseUnary(true));
  }
  return left;
}

ExprPtr Parser::ParseUnary(bool with_filter) {
  NestingGuard guard(*this, &expression_nesting_, kMaxExpressionDepth, "expressions");
  ExprPtr node;
  if (Peek().IsOp("-") || Peek().IsOp("+")) {
    const Token op = Next();
    node = Make(op.text == "-" ? ExprKind::kNegate : ExprKind::kPlus, op.line);
    node->kids.push_back(ParseUnary(false));
    node = Finish(std::move(node));
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  return with_filter ? ParseFilters(std::move(node)) : std::move(node);
}

ExprPtr Parser::ParsePrimary() {
  const Token token = Peek();
  ExprPtr node = Make(ExprKind::kLiteral, token.line);
  if (token.kind == TokenKind::kName) {
    Next();
    if (token.text == "true" || token.text == "True") {
      node->value = Value::Bool(true);
    } else if (token.text == "false" || token.text == "False") {
      node->value = Value::Bool(false);
    } else if (token.text != "none" && token.text != "None") {
      node->kind = ExprKind::kName;
      node->text = token.text;
      node->symbol = Intern(token.text);
    }
    return node;
  }
  if (token.kind == TokenKind::kString) {
    std::string text;
    while (Peek().kind == TokenKind::kString) text += Next().text;
    node->value = Value::String(text);
    return node;
  }
  if (token.kind == TokenKind::kInteger) {
    Next();
    int64_t value = 0;
    const auto [end, error] =
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (error != std::errc()) FailAt(token.line, "integer literal out of range");
    node->value = Value::Int(value);
    return node;
  }
  if (token.kind == TokenKind::kFloat) {
    Next();
    node->value = Value::Float(std::strtod(token.text.c_str(), nullptr));
    return node;
  }
  if (token.IsOp("(")) return ParseParenthesis();
  if (token.IsOp("{")) return ParseDict();
  if (token.IsOp("[")) {
    Next();
    node->kind = ExprKind::kList;
    while (!AcceptOp("]")) {
      if (!node->kids.empty()) {
        ExpectOp(",");
        if (AcceptOp("]")) break;
      }
      node->kids.push_back(ParseExpression());
    }
    return Finish(std::move(node));
  }
  FailUnexpected("an expression");
}

ExprPtr Parser::ParseParenthesis() {
  const uint32_t line = Next().line;
  if (AcceptOp(")")) return Make(ExprKind::kTuple, line);
  ExprPtr inner = ParseTuple();
  ExpectOp(")");
  return inner;
}

ExprPtr Parser::ParseDict() {
  ExprPtr node = Make(ExprKind::kDict, Next().line);
  while (!AcceptOp("}")) {
    if (!node->kids.empty()) {
      ExpectOp(",");
      if (AcceptOp("}")) break;
    }
    node->kids.push_back(ParseExpression());
    ExpectOp(":");
    node->kids.push_back(ParseExpression());
  }
  return Finish(std::move(node));
}

ExprPtr Parser::ParsePostfix(ExprPtr node) {
  while (true) {
    if (Peek().IsOp(".") || Peek().IsOp("[")) {
      node = ParseSubscript(std::move(node));
    } else if (Peek().IsOp("(")) {
      ExprPtr call = Make(ExprKind::kCall, Peek().line);
      call->kids.push_back(std::move(node));
      ParseArguments(call.get());
      node = Finish(std::move(call));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::ParseSubscript(ExprPtr node) {
  const Token open = Next();
  if (open.text == ".") {
    const Token name = Next();
    ExprPtr result = Make(ExprKind::kAttribute, open.line);
    result->kids.push_back(std::move(node));
    if (name.kind == TokenKind::kName) {
      result->text = name.text;
    } else if (name.kind == TokenKind::kInteger && name.text.size() < 10) {
      result->kind = ExprKind::kItem;
      ExprPtr index = Make(ExprKind::kLiteral, name.line);
      index->value = Value::Int(std::atoi(name.text.c_str()));
      result->kids.push_back(std::move(index));
    } else {
      FailAt(name.line, "expected a name or number after '.'");
    }
    return Finish(std::move(result));
  }
  ExprPtr parts[3];
  size_t part = 0;
  bool slice = false;
  while (!Peek().IsOp("]")) {
    if (AcceptOp(":")) {
      slice = true;
      if (++part > 2) FailAt(open.line, "a slice has at most three parts");
      continue;
    }
    if (parts[part] != nullptr) FailUnexpected("']'");
    parts[part] = ParseExpression();
  }
  ExpectOp("]");
  if (!slice && parts[0] == nullptr) FailAt(open.line, "expected a subscript");
  ExprPtr result = Make(slice ? ExprKind::kSlice : ExprKind::kItem, open.line);
  result->kids.push_back(std::move(node));
  result->kids.push_back(std::move(parts[0]));
  if (slice) {
    result->kids.push_back(std::move(parts[1]));
    result->kids.push_back(std::move(parts[2]));
  }
  return Finish(std::move(result));
}

ExprPtr Parser::ParseFilters(ExprPtr node) {
  while (true) {
    if (Peek().IsOp("|")) {
      Next();
      node = ParseFilter(std::move(node));
    } else if (Peek().IsName("is")) {
      Next();
      node = ParseTest(std::move(node));
    } else if (Peek().IsOp("(")) {
      ExprPtr call = Make(ExprKind::kCall, Peek().line);
      call->kids.push_back(std::move(node));
      ParseArguments(call.get());
      node = Finish(std::move(call));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::ParseFilter(ExprPtr node) {
  ExprPtr filter = Make(ExprKind::kFilter, Peek().line);
  filter->text = ExpectAnyName();
  filter->kids.push_back(std::move(node));
  if (Peek().IsOp("(")) ParseArguments(filter.get());
  return Finish(std::move(filter));
}

ExprPtr Parser::ParseTest(ExprPtr node) {
  const uint32_t line = Peek().line;
  const bool negated = AcceptName("not");
  ExprPtr test = Make(ExprKind::kTest, line);
  test->text = ExpectAnyName();
  test->kids.push_back(std::move(node));
  const Token& next = Peek();
  if (next.IsOp("(")) {
    ParseArguments(test.get());
  } else if (next.IsName("is")) {
    FailAt(next.line, "tests cannot be chained with \"is\"");
  } else if ((next.kind == TokenKind::kName && !next.IsName("else") && !next.IsName("or") &&
              !next.IsName("and")) ||
             next.kind == TokenKind::kString || next.kind == TokenKind::kInteger ||
             next.kind == TokenKind::kFloat || next.IsOp("[") || next.IsOp("{")) {
    // As in Jinja2, "is divisibleby 3" takes its argument without parentheses. Its quirk that
    // "x is defined if y" reads "if" as that argument is kept by neither.
    if (!next.IsName("if") && !next.IsName("not") && !next.IsName("in")) {
      test->kids.push_back(ParsePostfix(ParsePrimary()));
    }
  }
  test = Finish(std::move(test));
  if (!negated) return test;
  ExprPtr result = Make(ExprKind::kNot, line);
  result->kids.push_back(std::move(test));
  return Finish(std::move(result));
}

void Parser::ParseArguments(Expr* call) {
  ExpectOp("(");
  bool first = true;
  while (!AcceptOp(")")) {
    if (!std::exchange(first, false)) {
      ExpectOp(",");
      if (AcceptOp(")")) return;
    }
    if (Peek().IsOp("*") || Peek().IsOp("**")) {
      throw Failure{Code::kUnimplemented, "argument unpacking with * is not supported",
                    Peek().line};
    }
    if (Peek().kind == TokenKind::kName && Peek(1).IsOp("=")) {
      std::string name = Next().text;
      Next();
      call->kwargs.emplace_back(std::move(name), ParseExpression());
      continue;
    }
    if (!call->kwargs.empty()) FailUnexpected("a keyword argument");
    call->kids.push_back(ParseExpression());
  }
}

}  // namespace ballast::jinja
