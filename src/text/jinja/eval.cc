// Role: expressions.
#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/text_ops.h"

namespace ballast::jinja {

int64_t ToIndex(const Value& value, std::string_view what) {
  if (!value.Is(Kind::kInt) && !value.Is(Kind::kBool)) {
    Fail("{} must be an integer, not '{}'", what, value.TypeName());
  }
  const Integer integer = value.as_int();
  // Anything beyond is as good as the ends for slices and counts.
  constexpr int64_t kFar = int64_t{1} << 40;
  return static_cast<int64_t>(std::clamp<Integer>(integer, -kFar, kFar));
}

namespace {

[[noreturn]] void FailUndefined(const Value& value) {
  Fail("'{}' is undefined", value.undefined_name());
}

Value GetLoopAttribute(const LoopState& loop, std::string_view name) {
  const auto index = static_cast<int64_t>(loop.index);
  const auto length = static_cast<int64_t>(loop.items->size());
  if (name == "index") return Value::Int(index + 1);
  if (name == "index0") return Value::Int(index);
  if (name == "revindex") return Value::Int(length - index);
  if (name == "revindex0") return Value::Int(length - index - 1);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index + 1 == length);
  if (name == "length") return Value::Int(length);
  if (name == "depth") return Value::Int(loop.depth);
  if (name == "depth0") return Value::Int(loop.depth - 1);
  if (name == "previtem") {
    return index > 0 ? (*loop.items)[loop.index - 1] : Value::Undefined("loop.previtem");
  }
  if (name == "nextitem") {
    return index + 1 < length ? (*loop.items)[loop.index + 1] : Value::Undefined("loop.nextitem");
  }
  return Value::Undefined(name);
}

Value BoundMethod(const Value& object, std::string_view name) {
  auto function = std::make_shared<Function>();
  function->name = std::string(name);
  function->call = [object, method = std::string(name)](Interpreter& interpreter,
                                                        const Arguments& arguments) {
    return CallMethod(interpreter, object, method, arguments);
  };
  return Value::FromFunction(std::move(function));
}

}  // namespace

class EvalDepth {
 public:
  EvalDepth(int* depth, int limit) : depth_(depth) {
    if (*depth >= limit) {
      throw Failure{Code::kResourceExhausted,
                    fmt::format("evaluation nests deeper than {} levels", limit), 0};
    }
    ++*depth_;
  }
  ~EvalDepth() { --*depth_; }
  EvalDepth(const EvalDepth&) = delete;
  EvalDepth& operator=(const EvalDepth&) = delete;

 private:
  int* depth_;
};

Value Interpreter::Eval(const Expr& expr) {
  EvalDepth guard(&depth_, limits_.depth);
  Charge(1);
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kLiteral:
      return expr.value;
    case ExprKind::kName: {
      const Value* value = scope_->Find(expr.symbol);
      return value != nullptr ? *value : Value::Undefined(expr.text);
    }
    case ExprKind::kList:
    case ExprKind::kTuple:
    case ExprKind::kDict:
      return EvalContainer(expr);
    case ExprKind::kAttribute:
      return GetAttribute(Eval(*expr.kids[0]), expr.text);
    case ExprKind::kItem: {
      const Value object = Eval(*expr.kids[0]);
      return GetItem(object, Eval(*expr.kids[1]));
    }
    case ExprKind::kSlice:
      return EvalSlice(expr);
    case ExprKind::kCall:
      return EvalCall(expr);
    case ExprKind::kFilter:
      return EvalFilter(expr);
    case ExprKind::kTest:
      return Value::Bool(EvalTest(expr));
    case ExprKind::kNot:
      return Value::Bool(!Eval(*expr.kids[0]).Truthy());
    case ExprKind::kNegate:
    case ExprKind::kPlus:
      return EvalNegate(expr);
    case ExprKind::kAnd: {
      Value left = Eval(*expr.kids[0]);
      return left.Truthy() ? Eval(*expr.kids[1]) : left;
    }
    case ExprKind::kOr: {
      Value left = Eval(*expr.kids[0]);
      return left.Truthy() ? left : Eval(*expr.kids[1]);
    }
    case ExprKind::kBinary:
      return EvalBinary(expr);
    case ExprKind::kConcat:
      return EvalConcat(expr);
    case ExprKind::kCompare:
      return Value::Bool(EvalCompare(expr));
    case ExprKind::kConditional:
      if (Eval(*expr.kids[1]).Truthy()) return Eval(*expr.kids[0]);
      if (expr.kids[2] == nullptr) return Value::Undefined("inline if without else");
      return Eval(*expr.kids[2]);
  }
  return {};
}

Value Interpreter::EvalContainer(const Expr& expr) {
  if (expr.kind == ExprKind::kDict) {
    Value dict = Value::EmptyDict();
    for (size_t i = 0; i + 1 < expr.kids.size(); i += 2) {
      Charge(dict.dict().entries.size() / 8);
      Value key = Eval(*expr.kids[i]);
      dict.dict().Set(std::move(key), Eval(*expr.kids[i + 1]));
    }
    return dict;
  }
  std::vector<Value> items;
  items.reserve(expr.kids.size());
  for (const ExprPtr& kid : expr.kids) items.push_back(Eval(*kid));
  return expr.kind == ExprKind::kList ? Value::List(std::move(items))
                                      : Value::Tuple(std::move(items));
}

Value Interpreter::EvalSlice(const Expr& expr) {
  const Value object = Eval(*expr.kids[0]);
  std::optional<int64_t> parts[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.kids[i + 1] == nullptr) continue;
    const Value part = Eval(*expr.kids[i + 1]);
    if (!part.Is(Kind::kNone)) parts[i] = ToIndex(part, "a slice index");
  }
  const int64_t step = parts[2].value_or(1);
  if (step == 0) Fail("slice step cannot be zero");
  if (object.Is(Kind::kString)) {
    ChargeBytes(object.str().size() * 8);
    return Value::String(SliceText(object.text(), parts[0], parts[1], step));
  }
  if (object.IsSequence()) {
    Charge(object.items().size() / 8);
    std::vector<Value> items;
    for (const size_t i : SliceIndices(object.items().size(), parts[0], parts[1], step)) {
      items.push_back(object.items()[i]);
    }
    return object.Is(Kind::kList) ? Value::List(std::move(items)) : Value::Tuple(std::move(items));
  }
  if (object.Is(Kind::kUndefined)) FailUndefined(object);
  // Jinja2 answers an impossible subscript with undefined.
  return Value::Undefined(fmt::format("slice of {}", object.TypeName()));
}

Value Interpreter::GetAttribute(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kUndefined:
      FailUndefined(object);
    case Kind::kLoop: {
      if (HasMethod(object, name)) return BoundMethod(object, name);
      return GetLoopAttribute(*object.loop(), name);
    }
    case Kind::kNamespace:
      for (const auto& [key, value] : object.ns().entries) {
        if (key == name) return value;
      }
      return Value::Undefined(name);
    default:
      break;
  }
  if (HasMethod(object, name)) return BoundMethod(object, name);
  if (object.Is(Kind::kDict)) {
    Charge(object.dict().entries.size() / 16);
    if (const Value* value = object.dict().Find(name); value != nullptr) return *value;
  }
  return Value::Undefined(name);
}

Value Interpreter::GetItem(const Value& object, const Value& key) {
  switch (object.kind()) {
    case Kind::kUndefined:
      FailUndefined(object);
    case Kind::kDict:
      Charge(object.dict().entries.size() / 16);
      if (const Value* value = object.dict().Find(key); value != nullptr) return *value;
      break;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kString: {
      if (!key.Is(Kind::kInt) && !key.Is(Kind::kBool)) break;
      const bool is_text = object.Is(Kind::kString);
      if (is_text) ChargeBytes(object.str().size());
      const auto size =
          static_cast<int64_t>(is_text ? Length(object.text()) : object.items().size());
      int64_t index = ToIndex(key, "an index");
      if (index < 0) index += size;
      if (index < 0 || index >= size) return Value::Undefined(fmt::format("index {}", index));
      if (is_text) return Value::String(SliceText(object.text(), index, index + 1, 1));
      return object.items()[static_cast<size_t>(index)];
    }
    default:
      break;
  }
  if (key.Is(Kind::kString)) return GetAttribute(object, key.str());
  return Value::Undefined(Repr(key).substr(0, 80));
}

Arguments Interpreter::EvalArguments(const Expr& expr) {
  Arguments arguments;
  arguments.positional.reserve(expr.kids.size() - 1);
  for (size_t i = 1; i < expr.kids.size(); ++i) arguments.positional.push_back(Eval(*expr.kids[i]));
  for (const auto& [name, kid] : expr.kwargs) arguments.named.emplace_back(name, Eval(*kid));
  return arguments;
}

Value Interpreter::EvalCall(const Expr& expr) {
  const Expr& callee = *expr.kids[0];
  if (callee.kind == ExprKind::kAttribute) {
    const Value object = Eval(*callee.kids[0]);
    if (HasMethod(object, callee.text)) {
      const Arguments arguments = EvalArguments(expr);
      line_ = expr.line;
      if (object.Is(Kind::kString)) ChargeBytes(object.str().size());
      Value result = CallMethod(*this, object, callee.text, arguments);
      if (result.Is(Kind::kString)) ChargeBytes(result.str().size());
      return result;
    }
    const Value member = GetAttribute(object, callee.text);
    if (!member.Is(Kind::kFunction)) {
      Fail("'{}' object has no method '{}'", object.TypeName(), callee.text);
    }
    return member.function().call(*this, EvalArguments(expr));
  }
  const Value function = Eval(callee);
  if (function.Is(Kind::kUndefined)) FailUndefined(function);
  if (!function.Is(Kind::kFunction)) Fail("'{}' object is not callable", function.TypeName());
  const Arguments arguments = EvalArguments(expr);
  line_ = expr.line;
  return function.function().call(*this, arguments);
}

Value Interpreter::EvalFilter(const Expr& expr) {
  const Value input = expr.kids[0] != nullptr ? Eval(*expr.kids[0]) : *filter_block_input_;
  const Arguments arguments = EvalArguments(expr);
  line_ = expr.line;
  return ApplyFilter(expr.text, input, arguments);
}

bool Interpreter::EvalTest(const Expr& expr) {
  const Value input = Eval(*expr.kids[0]);
  const Arguments arguments = EvalArguments(expr);
  line_ = expr.line;
  return ApplyTest(expr.text, input, arguments);
}

bool Interpreter::EvalCompare(const Expr& expr) {
  Value left = Eval(*expr.kids[0]);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    const Value right = Eval(*expr.kids[i + 1]);
    const std::string& op = expr.ops[i];
    if (right.Is(Kind::kString)) ChargeBytes(right.str().size());
    if (right.IsSequence()) Charge(right.items().size() / 8);
    bool holds = false;
    if (op == "==") {
      holds = Equal(left, right);
    } else if (op == "!=") {
      holds = !Equal(left, right);
    } else if (op == "in") {
      holds = In(left, right);
    } else if (op == "not in") {
      holds = !In(left, right);
    } else if (op == "<") {
      holds = Less(left, right, op);
    } else if (op == ">") {
      holds = Less(right, left, op);
    } else {
      holds = op == "<=" ? Less(left, right, op) || Equal(left, right)
                         : Less(right, left, op) || Equal(left, right);
    }
    if (!holds) return false;
    left = right;
  }
  return true;
}

Value Interpreter::EvalConcat(const Expr& expr) {
  TextBuilder builder;
  for (const ExprPtr& kid : expr.kids) AppendStr(Eval(*kid), &builder);
  ChargeBytes(builder.size());
  return Value::String(builder.Take());
}

Value Interpreter::EvalBinary(const Expr& expr) {
  const Value left = Eval(*expr.kids[0]);
  const Value right = Eval(*expr.kids[1]);
  line_ = expr.line;
  return BinaryOperator(*this, expr.text, left, right);
}

Value Interpreter::EvalNegate(const Expr& expr) {
  const Value value = Eval(*expr.kids[0]);
  if (value.Is(Kind::kUndefined)) FailUndefined(value);
  if (!value.IsNumber())
    Fail("bad operand type for unary {}: '{}'", expr.kind == ExprKind::kNegate ? '-' : '+',
         value.TypeName());
  if (value.Is(Kind::kFloat)) {
    return Value::Float(expr.kind == ExprKind::kNegate ? -value.as_float() : value.as_float(),
                        value.trusted_number());
  }
  return Value::Int(expr.kind == ExprKind::kNegate ? -value.as_int() : value.as_int(),
                    value.trusted_number());
}

}  // namespace ballast::jinja
