// Role: tests ("x is defined").
#include <unordered_map>

#include "text/jinja/interpreter.h"

namespace ballast::jinja {
namespace {

using In = const Value&;
using Args = const Arguments&;

const Value& Other(Args args) {
  if (args.positional.size() != 1) Fail("the test takes one argument");
  return args.positional[0];
}

Integer RequireInt(const Value& value) {
  if (!value.Is(Kind::kInt) && !value.Is(Kind::kBool)) {
    Fail("'{}' is not an integer", value.TypeName());
  }
  return value.as_int();
}

bool IsEven(Interpreter&, In in, Args) { return RequireInt(in) % 2 == 0; }
bool IsOdd(Interpreter&, In in, Args) { return RequireInt(in) % 2 != 0; }
bool IsDivisible(Interpreter&, In in, Args args) {
  const Integer divisor = RequireInt(Other(args));
  if (divisor == 0) Fail("division by zero");
  return RequireInt(in) % divisor == 0;
}
bool IsEqual(Interpreter&, In in, Args args) { return Equal(in, Other(args)); }
bool IsNotEqual(Interpreter&, In in, Args args) { return !Equal(in, Other(args)); }
bool IsLess(Interpreter&, In in, Args args) { return Less(in, Other(args), "<"); }
bool IsGreater(Interpreter&, In in, Args args) { return Less(Other(args), in, ">"); }
bool IsAtMost(Interpreter&, In in, Args args) {
  return Less(in, Other(args), "<=") || Equal(in, Other(args));
}
bool IsAtLeast(Interpreter&, In in, Args args) {
  return Less(Other(args), in, ">=") || Equal(in, Other(args));
}
bool IsIn(Interpreter&, In in, Args args) { return jinja::In(in, Other(args)); }
bool IsSame(Interpreter&, In in, Args args) {
  // Identity as far as templates can see it: same type and equal.
  return in.kind() == Other(args).kind() && Equal(in, Other(args));
}

bool IsDefined(Interpreter&, In in, Args) { return !in.Is(Kind::kUndefined); }
bool IsUndefined(Interpreter&, In in, Args) { return in.Is(Kind::kUndefined); }
bool IsNone(Interpreter&, In in, Args) { return in.Is(Kind::kNone); }
bool IsBoolean(Interpreter&, In in, Args) { return in.Is(Kind::kBool); }
bool IsTrue(Interpreter&, In in, Args) { return in.Is(Kind::kBool) && in.as_bool(); }
bool IsFalse(Interpreter&, In in, Args) { return in.Is(Kind::kBool) && !in.as_bool(); }
bool IsInteger(Interpreter&, In in, Args) { return in.Is(Kind::kInt); }
bool IsFloat(Interpreter&, In in, Args) { return in.Is(Kind::kFloat); }
bool IsNumber(Interpreter&, In in, Args) { return in.IsNumber(); }
bool IsString(Interpreter&, In in, Args) { return in.Is(Kind::kString); }
bool IsMapping(Interpreter&, In in, Args) { return in.Is(Kind::kDict); }
bool IsCallable(Interpreter&, In in, Args) { return in.Is(Kind::kFunction); }
bool IsIterable(Interpreter&, In in, Args) {
  return in.Is(Kind::kString) || in.IsSequence() || in.Is(Kind::kDict) || in.Is(Kind::kUndefined);
}
bool IsLower(Interpreter& interpreter, In in, Args) {
  const Value text = Value::String(ToText(in));
  return CallMethod(interpreter, text, "islower", {}).as_bool();
}
bool IsUpper(Interpreter& interpreter, In in, Args) {
  const Value text = Value::String(ToText(in));
  return CallMethod(interpreter, text, "isupper", {}).as_bool();
}
bool IsFilter(Interpreter&, In in, Args) {
  return in.Is(Kind::kString) &&
         (FindFilter(in.str()) != nullptr || FindListFilter(in.str()) != nullptr);
}
bool IsTest(Interpreter&, In in, Args) {
  return in.Is(Kind::kString) && FindTest(in.str()) != nullptr;
}

}  // namespace

TestFn FindTest(std::string_view name) {
  static const std::unordered_map<std::string_view, TestFn> kTests = {
      {"even", IsEven},
      {"odd", IsOdd},
      {"divisibleby", IsDivisible},
      {"eq", IsEqual},
      {"equalto", IsEqual},
      {"==", IsEqual},
      {"ne", IsNotEqual},
      {"!=", IsNotEqual},
      {"lt", IsLess},
      {"lessthan", IsLess},
      {"<", IsLess},
      {"gt", IsGreater},
      {"greaterthan", IsGreater},
      {">", IsGreater},
      {"le", IsAtMost},
      {"<=", IsAtMost},
      {"ge", IsAtLeast},
      {">=", IsAtLeast},
      {"in", IsIn},
      {"sameas", IsSame},
      {"defined", IsDefined},
      {"undefined", IsUndefined},
      {"none", IsNone},
      {"boolean", IsBoolean},
      {"true", IsTrue},
      {"false", IsFalse},
      {"integer", IsInteger},
      {"float", IsFloat},
      {"number", IsNumber},
      {"string", IsString},
      {"mapping", IsMapping},
      {"callable", IsCallable},
      {"iterable", IsIterable},
      {"sequence", IsIterable},
      {"lower", IsLower},
      {"upper", IsUpper},
      {"filter", IsFilter},
      {"test", IsTest},
  };
  const auto it = kTests.find(name);
  return it == kTests.end() ? nullptr : it->second;
}

}  // namespace ballast::jinja
