// Role: filters on single values: text, numbers, JSON.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "text/jinja/interpreter.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace ballast::jinja {
namespace {

using In = const Value&;
using Args = const Arguments&;

bool Flag(const Value* value, bool absent) { return value == nullptr ? absent : value->Truthy(); }

Value Upper(Interpreter&, In in, Args) { return Value::String(MapCase(ToText(in), Case::kUpper)); }
Value Lower(Interpreter&, In in, Args) { return Value::String(MapCase(ToText(in), Case::kLower)); }
Value Title(Interpreter&, In in, Args) { return Value::String(MapCase(ToText(in), Case::kTitle)); }
Value Capitalize(Interpreter&, In in, Args) {
  return Value::String(MapCase(ToText(in), Case::kCapitalize));
}
Value ToStringFilter(Interpreter&, In in, Args) { return Value::String(ToText(in)); }
/// Nothing is escaped in a prompt, so nothing needs marking.
Value Safe(Interpreter&, In in, Args) { return Value::String(ToText(in)); }

Value Trim(Interpreter&, In in, Args args) {
  args.Check("trim", {"chars"});
  const Value* chars = args.Get(0, "chars");
  std::optional<std::string_view> set;
  if (chars != nullptr && chars->Is(Kind::kString)) set = chars->str();
  return Value::String(Strip(ToText(in), Side::kBoth, set));
}

Value Escape(Interpreter&, In in, Args) {
  const Text text = ToText(in);
  TextBuilder builder;
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    std::string_view entity;
    switch (text.bytes[i]) {
      case '&':
        entity = "&amp;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '"':
        entity = "&#34;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      default:
        builder.Append(text, i, i + 1);
        continue;
    }
    builder.Append(entity, text.TrustedAt(i));
  }
  return Value::String(builder.Take());
}

Value ReplaceFilter(Interpreter& interpreter, In in, Args args) {
  args.Check("replace", {"old", "new", "count"});
  const Value* from = args.Get(0, "old");
  const Value* to = args.Get(1, "new");
  if (from == nullptr || to == nullptr) Fail("replace needs the arguments 'old' and 'new'");
  const Value* count = args.Get(2, "count");
  const bool all = count == nullptr || count->Is(Kind::kNone);
  Text out =
      Replace(ToText(in), ToText(*from).bytes, ToText(*to), all ? -1 : ToIndex(*count, "count"));
  interpreter.ChargeBytes(out.bytes.size());
  return Value::String(std::move(out));
}

Value IndentFilter(Interpreter&, In in, Args args) {
  args.Check("indent", {"width", "first", "blank"});
  const Value* width = args.Get(0, "width");
  Text indention;
  if (width != nullptr && width->Is(Kind::kString)) {
    indention = width->text();
  } else {
    const int64_t count = width == nullptr ? 4 : ToIndex(*width, "width");
    if (count > 1000) Fail("indent: width {} is over the limit of 1000", count);
    TextBuilder builder;
    builder.Append(std::string(static_cast<size_t>(std::max<int64_t>(count, 0)), ' '), true);
    indention = builder.Take();
  }
  return Value::String(Indent(ToText(in), indention, Flag(args.Get(1, "first"), false),
                              Flag(args.Get(2, "blank"), false)));
}

Value ToJsonFilter(Interpreter& interpreter, In in, Args args) {
  args.Check("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = Flag(args.Get(0, "ensure_ascii"), false);
  if (const Value* indent = args.Get(1, "indent"); indent != nullptr && !indent->Is(Kind::kNone)) {
    const int64_t width = ToIndex(*indent, "indent");
    if (width > 64) Fail("tojson: indent {} is over the limit of 64", width);
    style.indent = static_cast<int>(std::max<int64_t>(width, 0));
  }
  style.item_separator = style.indent < 0 ? ", " : ",";
  style.key_separator = ": ";
  if (const Value* separators = args.Get(2, "separators");
      separators != nullptr && !separators->Is(Kind::kNone)) {
    if (!separators->IsSequence() || separators->items().size() != 2 ||
        !separators->items()[0].Is(Kind::kString) || !separators->items()[1].Is(Kind::kString)) {
      Fail("tojson: separators must be two strings");
    }
    style.item_separator = separators->items()[0].str();
    style.key_separator = separators->items()[1].str();
  }
  style.sort_keys = Flag(args.Get(3, "sort_keys"), false);
  Text out = ToJson(in, style);
  interpreter.ChargeBytes(out.bytes.size());
  return Value::String(std::move(out));
}

Value Default(Interpreter&, In in, Args args) {
  args.Check("default", {"default_value", "boolean"});
  const Value* fallback = args.Get(0, "default_value");
  const bool use = in.Is(Kind::kUndefined) || (Flag(args.Get(1, "boolean"), false) && !in.Truthy());
  if (!use) return in;
  return fallback != nullptr ? *fallback : Value::String("");
}

std::optional<double> ParseFloat(std::string_view text) {
  const Text owned{std::string(text), {{text.size(), true}}};
  const std::string trimmed = Strip(owned, Side::kBoth, std::nullopt).bytes;
  if (trimmed.empty() || trimmed.find_first_of("xXpP") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(trimmed.c_str(), &end);
  if (end != trimmed.c_str() + trimmed.size()) return std::nullopt;
  return value;
}

Value IntFilter(Interpreter&, In in, Args args) {
  args.Check("int", {"default", "base"});
  const Value* fallback = args.Get(0, "default");
  auto failed = [&] { return fallback != nullptr ? *fallback : Value::Int(0); };
  double number = 0;
  bool trusted = true;
  if (in.Is(Kind::kInt) || in.Is(Kind::kBool)) return Value::Int(in.as_int(), in.trusted_number());
  if (in.Is(Kind::kFloat)) {
    number = in.as_float();
    trusted = in.trusted_number();
  } else if (in.Is(Kind::kString)) {
    trusted = in.text().AllTrusted();
    const Value* base = args.Get(1, "base");
    const int64_t radix = base == nullptr ? 10 : ToIndex(*base, "base");
    std::string digits = Strip(in.text(), Side::kBoth, std::nullopt).bytes;
    std::erase(digits, '_');
    if (radix == 16 && (digits.starts_with("0x") || digits.starts_with("0X"))) digits.erase(0, 2);
    if (digits.starts_with('+')) digits.erase(0, 1);
    int64_t value = 0;
    if (radix < 2 || radix > 36) return failed();
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value,
                                              static_cast<int>(radix));
    if (error == std::errc() && end == digits.data() + digits.size()) {
      return Value::Int(value, trusted);
    }
    const std::optional<double> parsed = ParseFloat(in.str());
    if (!parsed) return failed();
    number = *parsed;
  } else {
    return failed();
  }
  if (!std::isfinite(number) || std::fabs(number) > 9.0e18) return failed();
  return Value::Int(static_cast<int64_t>(number), trusted);
}

Value FloatFilter(Interpreter&, In in, Args args) {
  args.Check("float", {"default"});
  if (in.IsNumber()) return Value::Float(in.as_float(), in.trusted_number());
  if (in.Is(Kind::kString)) {
    if (const auto parsed = ParseFloat(in.str()); parsed) {
      return Value::Float(*parsed, in.text().AllTrusted());
    }
  }
  const Value* fallback = args.Get(0, "default");
  return fallback != nullptr ? *fallback : Value::Float(0);
}

Value Abs(Interpreter&, In in, Args) {
  if (!in.IsNumber()) Fail("abs: '{}' is not a number", in.TypeName());
  if (in.Is(Kind::kFloat)) return Value::Float(std::fabs(in.as_float()), in.trusted_number());
  return Value::Int(in.as_int() < 0 ? -in.as_int() : in.as_int(), in.trusted_number());
}

Value Round(Interpreter&, In in, Args args) {
  args.Check("round", {"precision", "method"});
  if (!in.IsNumber()) Fail("round: '{}' is not a number", in.TypeName());
  const Value* precision = args.Get(0, "precision");
  const int64_t digits = precision == nullptr ? 0 : ToIndex(*precision, "precision");
  if (digits < 0 || digits > 15) Fail("round: precision {} is outside 0 to 15", digits);
  const Value* method = args.Get(1, "method");
  const std::string_view how =
      method != nullptr && method->Is(Kind::kString) ? method->str() : "common";
  if (how == "common") {
    if (!in.Is(Kind::kFloat)) return Value::Int(in.as_int(), in.trusted_number());
    // Decimal formatting rounds the exact binary value, as Python does.
    const std::string text = fmt::format("{:.{}f}", in.as_float(), digits);
    return Value::Float(std::strtod(text.c_str(), nullptr), in.trusted_number());
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  if (how == "ceil") return Value::Float(std::ceil(in.as_float() * scale) / scale);
  if (how == "floor") return Value::Float(std::floor(in.as_float() * scale) / scale);
  Fail("round: method must be common, ceil or floor");
}

Value LengthFilter(Interpreter&, In in, Args) {
  switch (in.kind()) {
    case Kind::kUndefined:
      return Value::Int(0);
    case Kind::kString:
      return Value::Int(static_cast<int64_t>(Length(in.text())));
    case Kind::kList:
    case Kind::kTuple:
      return Value::Int(static_cast<int64_t>(in.items().size()));
    case Kind::kDict:
      return Value::Int(static_cast<int64_t>(in.dict().entries.size()));
    default:
      Fail("object of type '{}' has no len()", in.TypeName());
  }
}

Value WordCount(Interpreter&, In in, Args) {
  const Text text = ToText(in);
  int64_t words = 0;
  bool inside = false;
  for (size_t i = 0; i < text.bytes.size();) {
    const Utf8Step step = DecodeUtf8(text.bytes, i);
    const bool word =
        IsAlpha(step.code_point) || IsDecimalDigit(step.code_point) || step.code_point == '_';
    words += word && !inside;
    inside = word;
    i += step.length;
  }
  return Value::Int(words);
}

Value Format(Interpreter&, In in, Args args) {
  return Value::String(PercentFormat(ToText(in), args.positional));
}

Value Attr(Interpreter& interpreter, In in, Args args) {
  args.Check("attr", {"name"});
  if (args.positional.size() != 1 || !args.positional[0].Is(Kind::kString)) {
    Fail("attr needs a name");
  }
  // Python's attributes only: a dict's members are not among them.
  if (in.Is(Kind::kDict) && !HasMethod(in, args.positional[0].str())) {
    return Value::Undefined(args.positional[0].str());
  }
  return interpreter.GetAttribute(in, args.positional[0].str());
}

Value UrlEncode(Interpreter&, In in, Args) {
  const Text text = ToText(in);
  std::string out;
  for (const char c : text.bytes) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_.-~/").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<uint8_t>(c)));
    }
  }
  return Value::String(out, text.AllTrusted());
}

}  // namespace

FilterFn FindFilter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFn> kFilters = {
      {"upper", Upper},
      {"lower", Lower},
      {"title", Title},
      {"capitalize", Capitalize},
      {"string", ToStringFilter},
      {"safe", Safe},
      {"trim", Trim},
      {"escape", Escape},
      {"e", Escape},
      {"forceescape", Escape},
      {"replace", ReplaceFilter},
      {"indent", IndentFilter},
      {"tojson", ToJsonFilter},
      {"default", Default},
      {"d", Default},
      {"int", IntFilter},
      {"float", FloatFilter},
      {"abs", Abs},
      {"round", Round},
      {"length", LengthFilter},
      {"count", LengthFilter},
      {"wordcount", WordCount},
      {"format", Format},
      {"attr", Attr},
      {"urlencode", UrlEncode},
  };
  const auto it = kFilters.find(name);
  return it == kFilters.end() ? nullptr : it->second;
}

}  // namespace ballast::jinja
