// Role: values as text: Python's str() and repr(), and json.dumps().
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/stable_sort.h"
#include "text/jinja/value.h"
#include "text/unicode.h"

namespace ballast::jinja {
namespace {

void CheckSize(const std::string& out) {
  if (out.size() > kMaxStringBytes) {
    throw Failure{Code::kResourceExhausted,
                  fmt::format("the text grows beyond the limit of {} bytes", kMaxStringBytes), 0};
  }
}

bool IsPrintable(uint32_t c) {
  if (c < 0x7F) return c >= 0x20;
  return c > 0xA0 && c != 0xAD && !IsPythonSpace(c) && !(c >= 0x200B && c <= 0x200F) &&
         !(c >= 0x2028 && c <= 0x202E) && !(c >= 0xE000 && c <= 0xF8FF) && c != 0xFEFF;
}

void ReprString(std::string_view text, std::string* out) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  *out += quote;
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = DecodeUtf8(text, i);
    const uint32_t c = step.code_point;
    if (c == static_cast<uint32_t>(quote) || c == '\\') {
      *out += '\\';
      *out += static_cast<char>(c);
    } else if (c == '\n') {
      *out += "\\n";
    } else if (c == '\r') {
      *out += "\\r";
    } else if (c == '\t') {
      *out += "\\t";
    } else if (IsPrintable(c)) {
      out->append(text.substr(i, step.length));
    } else if (c < 0x100) {
      *out += fmt::format("\\x{:02x}", c);
    } else if (c < 0x10000) {
      *out += fmt::format("\\u{:04x}", c);
    } else {
      *out += fmt::format("\\U{:08x}", c);
    }
    i += step.length;
  }
  *out += quote;
}

void ReprInto(const Value& value, std::string* out, int depth) {
  if (depth > kMaxValueDepth) Fail("the value nests deeper than {} levels", kMaxValueDepth);
  CheckSize(*out);
  switch (value.kind()) {
    case Kind::kUndefined:
      *out += "Undefined";
      return;
    case Kind::kNone:
      *out += "None";
      return;
    case Kind::kBool:
      *out += value.as_bool() ? "True" : "False";
      return;
    case Kind::kInt:
      *out += FormatInteger(value.as_int());
      return;
    case Kind::kFloat:
      *out += FormatFloat(value.as_float());
      return;
    case Kind::kString:
      ReprString(value.str(), out);
      return;
    case Kind::kList:
    case Kind::kTuple: {
      const bool tuple = value.Is(Kind::kTuple);
      *out += tuple ? '(' : '[';
      bool first = true;
      for (const Value& item : value.items()) {
        if (!std::exchange(first, false)) *out += ", ";
        ReprInto(item, out, depth + 1);
      }
      if (tuple && value.items().size() == 1) *out += ',';
      *out += tuple ? ')' : ']';
      return;
    }
    case Kind::kDict: {
      *out += '{';
      bool first = true;
      for (const auto& [key, item] : value.dict().entries) {
        if (!std::exchange(first, false)) *out += ", ";
        ReprInto(key, out, depth + 1);
        *out += ": ";
        ReprInto(item, out, depth + 1);
      }
      *out += '}';
      return;
    }
    default:
      *out += fmt::format("<{}>", value.TypeName());
  }
}

void JsonString(std::string_view text, bool ensure_ascii, std::string* out) {
  *out += '"';
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = DecodeUtf8(text, i);
    const uint32_t c = step.code_point;
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      case '\r':
        *out += "\\r";
        break;
      case '\t':
        *out += "\\t";
        break;
      case '\b':
        *out += "\\b";
        break;
      case '\f':
        *out += "\\f";
        break;
      default:
        if (c < 0x20 || (ensure_ascii && c >= 0x7F && c < 0x10000)) {
          *out += fmt::format("\\u{:04x}", c);
        } else if (ensure_ascii && c >= 0x10000) {
          *out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10),
                              0xDC00 + ((c - 0x10000) & 0x3FF));
        } else {
          out->append(text.substr(i, step.length));
        }
    }
    i += step.length;
  }
  *out += '"';
}

std::string JsonFloat(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return FormatFloat(value);
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, std::string* out) : style_(style), out_(*out) {}

  void Write(const Value& value, int depth) {
    if (depth > kMaxValueDepth) Fail("the value nests deeper than {} levels", kMaxValueDepth);
    CheckSize(out_);
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        return;
      case Kind::kBool:
        out_ += value.as_bool() ? "true" : "false";
        return;
      case Kind::kInt:
        out_ += FormatInteger(value.as_int());
        return;
      case Kind::kFloat:
        out_ += JsonFloat(value.as_float());
        return;
      case Kind::kString:
        JsonString(value.str(), style_.ensure_ascii, &out_);
        return;
      case Kind::kList:
      case Kind::kTuple:
        WriteList(value, depth);
        return;
      case Kind::kDict:
        WriteDict(value, depth);
        return;
      default:
        Fail("Object of type {} is not JSON serializable", value.TypeName());
    }
  }

 private:
  void NewLine(int depth) {
    if (style_.indent < 0) return;
    out_ += '\n';
    out_.append(static_cast<size_t>(style_.indent) * static_cast<size_t>(depth), ' ');
  }

  void WriteList(const Value& value, int depth) {
    if (value.items().empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    bool first = true;
    for (const Value& item : value.items()) {
      if (!std::exchange(first, false)) out_ += style_.item_separator;
      NewLine(depth + 1);
      Write(item, depth + 1);
    }
    NewLine(depth);
    out_ += ']';
  }

  void WriteKey(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        JsonString(key.str(), style_.ensure_ascii, &out_);
        return;
      case Kind::kBool:
        out_ += key.as_bool() ? "\"true\"" : "\"false\"";
        return;
      case Kind::kNone:
        out_ += "\"null\"";
        return;
      case Kind::kInt:
        out_ += '"' + FormatInteger(key.as_int()) + '"';
        return;
      case Kind::kFloat:
        out_ += '"' + JsonFloat(key.as_float()) + '"';
        return;
      default:
        Fail("keys must be str, int, float, bool or None, not {}", key.TypeName());
    }
  }

  void WriteDict(const Value& value, int depth) {
    if (value.dict().entries.empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : value.dict().entries) entries.push_back(&entry);
    if (style_.sort_keys) {
      StableSort(&entries,
                 [](const auto* a, const auto* b) { return Less(a->first, b->first, "<"); });
    }
    out_ += '{';
    bool first = true;
    for (const auto* entry : entries) {
      if (!std::exchange(first, false)) out_ += style_.item_separator;
      NewLine(depth + 1);
      WriteKey(entry->first);
      out_ += style_.key_separator;
      Write(entry->second, depth + 1);
    }
    NewLine(depth);
    out_ += '}';
  }

  const JsonStyle& style_;
  std::string& out_;
};

}  // namespace

std::string FormatInteger(Integer value) {
  if (value == 0) return "0";
  const bool negative = value < 0;
  auto magnitude = static_cast<unsigned __int128>(value);
  if (negative) magnitude = -magnitude;
  std::string digits;
  while (magnitude != 0) {
    digits += static_cast<char>('0' + static_cast<int>(magnitude % 10));
    magnitude /= 10;
  }
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
  std::string sign;
  if (shortest[0] == '-') {
    sign = "-";
    shortest.remove_prefix(1);
  }
  const size_t e = shortest.find('e');
  int exponent = 0;
  const char* exponent_start = shortest.data() + e + (shortest[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_start, end, exponent);
  std::string digits(shortest.substr(0, 1));
  if (e > 2) digits += shortest.substr(2, e - 2);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits.substr(0, 1);
    if (count > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02d}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1) {
    return sign + digits + std::string(static_cast<size_t>(exponent + 1 - count), '0') + ".0";
  }
  const auto point = static_cast<size_t>(exponent + 1);
  return sign + digits.substr(0, point) + "." + digits.substr(point);
}

std::string Repr(const Value& value) {
  std::string out;
  ReprInto(value, &out, 0);
  return out;
}

void AppendStr(const Value& value, TextBuilder* out) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return;
    case Kind::kString:
      out->Append(value.text());
      return;
    default:
      out->Append(Repr(value), AllTrusted(value));
  }
}

Text ToText(const Value& value) {
  if (value.Is(Kind::kString)) return value.text();
  TextBuilder builder;
  AppendStr(value, &builder);
  return builder.Take();
}

Text ToJson(const Value& value, const JsonStyle& style) {
  std::string out;
  JsonWriter(style, &out).Write(value, 0);
  TextBuilder builder;
  builder.Append(out, AllTrusted(value));
  return builder.Take();
}

}  // namespace ballast::jinja
