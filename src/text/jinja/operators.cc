// Role: arithmetic with Python's rules, and "%" formatting.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja/interpreter.h"

namespace ballast::jinja {
namespace {

// Far beyond any index or count, and safe to multiply within 128 bits.
constexpr Integer kMaxInteger = (Integer{1} << 63) * 4;

Value CheckedInt(Integer value, bool trusted) {
  if (value > kMaxInteger || value < -kMaxInteger) Fail("integer out of range");
  return Value::Int(value, trusted);
}

Integer FloorDivide(Integer a, Integer b) {
  const Integer quotient = a / b;
  return (a % b != 0) && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

[[noreturn]] void FailTypes(std::string_view op, const Value& a, const Value& b) {
  if (a.Is(Kind::kUndefined)) Fail("'{}' is undefined", a.undefined_name());
  if (b.Is(Kind::kUndefined)) Fail("'{}' is undefined", b.undefined_name());
  if (op == "+" && a.Is(Kind::kString)) {
    Fail("can only concatenate str (not \"{}\") to str", b.TypeName());
  }
  Fail("unsupported operand type(s) for {}: '{}' and '{}'", op, a.TypeName(), b.TypeName());
}

Value FloatOperator(std::string_view op, double a, double b, bool trusted) {
  if (op == "+") return Value::Float(a + b, trusted);
  if (op == "-") return Value::Float(a - b, trusted);
  if (op == "*") return Value::Float(a * b, trusted);
  if (op == "**") return Value::Float(std::pow(a, b), trusted);
  if (b == 0) Fail("division by zero");
  if (op == "/") return Value::Float(a / b, trusted);
  if (op == "//") return Value::Float(std::floor(a / b), trusted);
  double rest = std::fmod(a, b);
  if (rest != 0 && ((rest < 0) != (b < 0))) rest += b;
  return Value::Float(rest, trusted);
}

Value IntPower(Integer base, Integer exponent, bool trusted) {
  if (exponent < 0) {
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)),
                        trusted);
  }
  if (base == 0 || base == 1) return Value::Int(exponent == 0 ? 1 : base, trusted);
  if (base == -1) return Value::Int(exponent % 2 == 0 ? 1 : -1, trusted);
  if (exponent > 70) Fail("integer out of range");
  Integer result = 1;
  for (Integer i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) Fail("integer out of range");
  }
  return CheckedInt(result, trusted);
}

Value NumberOperator(std::string_view op, const Value& a, const Value& b) {
  const bool trusted = a.trusted_number() && b.trusted_number();
  if (a.Is(Kind::kFloat) || b.Is(Kind::kFloat)) {
    return FloatOperator(op, a.as_float(), b.as_float(), trusted);
  }
  const Integer x = a.as_int();
  const Integer y = b.as_int();
  if (op == "+") return CheckedInt(x + y, trusted);
  if (op == "-") return CheckedInt(x - y, trusted);
  if (op == "**") return IntPower(x, y, trusted);
  if (op == "*") {
    Integer product = 0;
    if (__builtin_mul_overflow(x, y, &product)) Fail("integer out of range");
    return CheckedInt(product, trusted);
  }
  if (y == 0) Fail("division by zero");
  if (op == "/") {
    return Value::Float(static_cast<double>(x) / static_cast<double>(y), trusted);
  }
  const Integer quotient = FloorDivide(x, y);
  return Value::Int(op == "//" ? quotient : x - quotient * y, trusted);
}

Value Repeat(Interpreter& interpreter, const Value& what, int64_t times) {
  times = std::max<int64_t>(times, 0);
  if (what.Is(Kind::kString)) {
    const size_t size = what.str().size();
    if (size != 0 && static_cast<uint64_t>(times) > kMaxStringBytes / size) {
      throw Failure{Code::kResourceExhausted,
                    fmt::format("the text grows beyond the limit of {} bytes", kMaxStringBytes), 0};
    }
    interpreter.ChargeBytes(size * static_cast<size_t>(times));
    TextBuilder builder;
    if (what.text().runs.size() == 1) {
      std::string bytes;
      bytes.reserve(size * static_cast<size_t>(times));
      for (int64_t i = 0; i < times; ++i) bytes += what.str();
      builder.Append(bytes, what.text().runs[0].trusted);
    } else if (size != 0) {
      interpreter.Charge(static_cast<uint64_t>(times));
      for (int64_t i = 0; i < times; ++i) builder.Append(what.text());
    }
    return Value::String(builder.Take());
  }
  const size_t size = what.items().size();
  if (size == 0) times = 0;
  interpreter.Charge(std::min<uint64_t>(static_cast<uint64_t>(times), uint64_t{1} << 32) * size);
  std::vector<Value> items;
  for (int64_t i = 0; i < times; ++i) {
    items.insert(items.end(), what.items().begin(), what.items().end());
  }
  return what.Is(Kind::kList) ? Value::List(std::move(items)) : Value::Tuple(std::move(items));
}

Value Add(Interpreter& interpreter, const Value& a, const Value& b) {
  if (a.Is(Kind::kString) && b.Is(Kind::kString)) {
    interpreter.ChargeBytes(a.str().size() + b.str().size());
    TextBuilder builder;
    builder.Append(a.text());
    builder.Append(b.text());
    return Value::String(builder.Take());
  }
  if (a.IsSequence() && a.kind() == b.kind()) {
    interpreter.Charge((a.items().size() + b.items().size()) / 2);
    std::vector<Value> items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return a.Is(Kind::kList) ? Value::List(std::move(items)) : Value::Tuple(std::move(items));
  }
  FailTypes("+", a, b);
}

}  // namespace

Value BinaryOperator(Interpreter& interpreter, std::string_view op, const Value& a,
                     const Value& b) {
  if (a.IsNumber() && b.IsNumber()) return NumberOperator(op, a, b);
  if (op == "+") return Add(interpreter, a, b);
  if (op == "*") {
    const bool a_repeats = a.Is(Kind::kString) || a.IsSequence();
    const bool b_repeats = b.Is(Kind::kString) || b.IsSequence();
    if (a_repeats && b.Is(Kind::kInt)) {
      return Repeat(interpreter, a, ToIndex(b, "a count"));
    }
    if (b_repeats && a.Is(Kind::kInt)) {
      return Repeat(interpreter, b, ToIndex(a, "a count"));
    }
  }
  if (op == "%" && a.Is(Kind::kString)) {
    return Value::String(
        PercentFormat(a.text(), b.Is(Kind::kTuple) ? b.items() : std::vector<Value>{b}));
  }
  FailTypes(op, a, b);
}

Text PercentFormat(const Text& format, const std::vector<Value>& arguments) {
  TextBuilder builder;
  const std::string_view bytes = format.bytes;
  size_t used = 0;
  size_t start = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '%') continue;
    builder.Append(format, start, i);
    size_t end = i + 1;
    while (end < bytes.size() &&
           std::string_view("-+ 0#123456789.").find(bytes[end]) != std::string_view::npos) {
      ++end;
    }
    if (end >= bytes.size()) Fail("incomplete format");
    const char type = bytes[end];
    start = end + 1;
    const std::string flags(bytes.substr(i + 1, end - i - 1));
    i = end;
    if (type == '%') {
      builder.Append("%", format.TrustedAt(i));
      continue;
    }
    if (used >= arguments.size()) Fail("not enough arguments for format string");
    const Value& argument = arguments[used++];
    const bool plain = flags.empty();
    if ((type == 's' || type == 'r') && plain) {
      if (type == 's') {
        AppendStr(argument, &builder);
      } else {
        builder.Append(Repr(argument), AllTrusted(argument));
      }
      continue;
    }
    if (flags.size() > 5 || std::atoi(flags.c_str()) > 1000)
      Fail("format '%{}' is too wide", flags);
    if (!argument.IsNumber())
      Fail("%{} format: a number is required, not {}", type, argument.TypeName());
    char buffer[1500];
    int size = 0;
    if (type == 'd' || type == 'i' || type == 'x') {
      const std::string spec = "%" + flags + "ll" + (type == 'i' ? 'd' : type);
      const auto number = static_cast<long long>(ToIndex(
          argument.Is(Kind::kFloat)
              ? Value::Int(static_cast<int64_t>(std::clamp(argument.as_float(), -1e12, 1e12)))
              : argument,
          "%d"));
      size = std::snprintf(buffer, sizeof buffer, spec.c_str(), number);
    } else if (type == 'f' || type == 'e' || type == 'g') {
      const std::string spec = "%" + flags + type;
      size = std::snprintf(buffer, sizeof buffer, spec.c_str(), argument.as_float());
    } else {
      Fail("unsupported format character '{}'", type);
    }
    if (size < 0 || static_cast<size_t>(size) >= sizeof buffer) Fail("format result is too long");
    builder.Append(std::string_view(buffer, static_cast<size_t>(size)), argument.trusted_number());
  }
  if (start < bytes.size()) builder.Append(format, start, bytes.size());
  if (used < arguments.size()) Fail("not all arguments converted during string formatting");
  return builder.Take();
}

}  // namespace ballast::jinja
