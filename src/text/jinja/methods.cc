// Role: methods of strings, lists, dicts and the loop variable.
// Lists from the template may grow by append; what is appended is copied deeply, so that no list
// can ever contain itself.
#include <algorithm>
#include <array>

#include "text/jinja/interpreter.h"
#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace ballast::jinja {
namespace {

constexpr std::string_view kStringMethods[] = {
    "strip",     "lstrip",    "rstrip",  "split",   "rsplit",       "splitlines",   "startswith",
    "endswith",  "lower",     "upper",   "title",   "capitalize",   "replace",      "find",
    "rfind",     "index",     "count",   "join",    "format",       "isdigit",      "isalpha",
    "isalnum",   "isspace",   "isupper", "islower", "removeprefix", "removesuffix", "partition",
    "isnumeric", "isdecimal", "zfill"};
constexpr std::string_view kListMethods[] = {"append", "index", "count"};
constexpr std::string_view kDictMethods[] = {"items", "keys", "values", "get"};
constexpr std::string_view kLoopMethods[] = {"cycle", "changed"};

template <size_t N>
bool Has(const std::string_view (&list)[N], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

std::optional<std::string_view> TextOrNone(const Value* value, std::string_view what) {
  if (value == nullptr || value->Is(Kind::kNone)) return std::nullopt;
  if (!value->Is(Kind::kString)) Fail("{} must be a string, not '{}'", what, value->TypeName());
  return value->str();
}

std::string_view RequireText(const Arguments& arguments, size_t index, std::string_view name,
                             std::string_view method) {
  const Value* value = arguments.Get(index, name);
  if (value == nullptr) Fail("{}() needs the argument '{}'", method, name);
  if (!value->Is(Kind::kString)) {
    Fail("{}(): argument '{}' must be a string, not '{}'", method, name, value->TypeName());
  }
  return value->str();
}

int64_t IndexOr(const Value* value, int64_t absent, std::string_view what) {
  return value == nullptr ? absent : ToIndex(*value, what);
}

/// str.startswith and endswith take one text or a tuple of them.
bool AffixMatches(const Value& object, const Arguments& arguments, bool prefix) {
  const std::string_view method = prefix ? "startswith" : "endswith";
  arguments.Check(method, {"affix"});
  const Value* affix = arguments.Get(0, "affix");
  if (affix == nullptr) Fail("{}() needs an argument", method);
  const std::vector<Value> one = {*affix};
  for (const Value& item : affix->Is(Kind::kTuple) ? affix->items() : one) {
    if (!item.Is(Kind::kString)) {
      Fail("{}() needs a string or a tuple of strings, not '{}'", method, item.TypeName());
    }
    if (prefix ? object.str().starts_with(item.str()) : object.str().ends_with(item.str())) {
      return true;
    }
  }
  return false;
}

template <class Predicate>
bool AllCharacters(std::string_view text, const Predicate& predicate) {
  if (text.empty()) return false;
  for (size_t i = 0; i < text.size();) {
    const Utf8Step step = DecodeUtf8(text, i);
    if (!predicate(step.code_point)) return false;
    i += step.length;
  }
  return true;
}

/// Has a cased character, and all cased ones are of this case.
bool AllCased(std::string_view text, bool upper) {
  bool any = false;
  const bool fits = AllCharacters(text, [&](uint32_t c) {
    any = any || (upper ? IsUpper(c) : IsLower(c));
    return !(upper ? IsLower(c) : IsUpper(c));
  });
  return fits && any;
}

Value IsKind(std::string_view text, std::string_view name) {
  bool result = false;
  if (name == "isdigit" || name == "isnumeric" || name == "isdecimal") {
    result = AllCharacters(text, IsDecimalDigit);
  } else if (name == "isalpha") {
    result = AllCharacters(text, IsAlpha);
  } else if (name == "isalnum") {
    result = AllCharacters(text, [](uint32_t c) { return IsAlpha(c) || IsDecimalDigit(c); });
  } else if (name == "isspace") {
    result = AllCharacters(text, IsPythonSpace);
  } else {
    result = AllCased(text, name == "isupper");
  }
  return Value::Bool(result);
}

/// str.format with {} and {0} and {name}, without format specifications.
Value BraceFormat(const Value& object, const Arguments& arguments) {
  TextBuilder builder;
  const std::string_view bytes = object.str();
  size_t next = 0;
  for (size_t i = 0; i < bytes.size();) {
    const size_t brace = bytes.find_first_of("{}", i);
    builder.Append(object.text(), i, std::min(brace, bytes.size()));
    if (brace == std::string_view::npos) break;
    if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
      builder.Append(object.text(), brace, brace + 1);
      i = brace + 2;
      continue;
    }
    const size_t close = bytes.find('}', brace);
    if (bytes[brace] == '}' || close == std::string_view::npos) {
      Fail("single '{}' encountered in format string", bytes[brace]);
    }
    const std::string_view field = bytes.substr(brace + 1, close - brace - 1);
    const Value* value = nullptr;
    if (field.empty()) {
      value = arguments.Get(next++, "");
    } else if (AllCharacters(field, IsDecimalDigit) && field.size() < 6) {
      value = arguments.Get(static_cast<size_t>(std::stoi(std::string(field))), "");
    } else {
      value = arguments.Get(SIZE_MAX, field);
    }
    if (value == nullptr) Fail("format field '{{{}}}' has no argument", field.substr(0, 40));
    AppendStr(*value, &builder);
    i = close + 1;
  }
  return Value::String(builder.Take());
}

Value Join(Interpreter& interpreter, const Value& separator, const Arguments& arguments) {
  arguments.Check("join", {"iterable"});
  if (arguments.positional.empty()) Fail("join() needs an argument");
  TextBuilder builder;
  bool first = true;
  for (const Value& item : interpreter.Iterate(arguments.positional[0])) {
    if (!item.Is(Kind::kString)) {
      Fail("join(): expected str instance, {} found", item.TypeName());
    }
    if (!std::exchange(first, false)) builder.Append(separator.text());
    builder.Append(item.text());
  }
  interpreter.ChargeBytes(builder.size());
  return Value::String(builder.Take());
}

int64_t CountOf(std::string_view text, std::string_view needle) {
  if (needle.empty()) return static_cast<int64_t>(Utf8Length(text)) + 1;
  int64_t count = 0;
  for (size_t at = text.find(needle); at != std::string_view::npos;
       at = text.find(needle, at + needle.size())) {
    ++count;
  }
  return count;
}

Value Partition(const Value& object, const Arguments& arguments) {
  const std::string_view separator = RequireText(arguments, 0, "sep", "partition");
  if (separator.empty()) Fail("empty separator");
  const size_t at = object.str().find(separator);
  const Text& text = object.text();
  if (at == std::string_view::npos) {
    return Value::Tuple({object, Value::String(""), Value::String("")});
  }
  const size_t end = at + separator.size();
  return Value::Tuple({Value::String(Substring(text, 0, at)),
                       Value::String(Substring(text, at, end)),
                       Value::String(Substring(text, end, text.bytes.size()))});
}

Value StripMethod(const Value& object, std::string_view name, const Arguments& arguments) {
  arguments.Check(name, {"chars"});
  const Side side = name == "strip" ? Side::kBoth : name == "lstrip" ? Side::kLeft : Side::kRight;
  return Value::String(Strip(object.text(), side, TextOrNone(arguments.Get(0, "chars"), "chars")));
}

Value SplitMethod(Interpreter& interpreter, const Value& object, std::string_view name,
                  const Arguments& arguments) {
  arguments.Check(name, {"sep", "maxsplit"});
  std::vector<Value> parts =
      Split(object.text(), TextOrNone(arguments.Get(0, "sep"), "sep"),
            IndexOr(arguments.Get(1, "maxsplit"), -1, "maxsplit"), name == "rsplit");
  interpreter.Charge(parts.size());
  return Value::List(std::move(parts));
}

Value ReplaceMethod(Interpreter& interpreter, const Value& object, const Arguments& arguments) {
  arguments.Check("replace", {"old", "new", "count"});
  const std::string_view from = RequireText(arguments, 0, "old", "replace");
  RequireText(arguments, 1, "new", "replace");
  Text out = Replace(object.text(), from, arguments.Get(1, "new")->text(),
                     IndexOr(arguments.Get(2, "count"), -1, "count"));
  interpreter.ChargeBytes(out.bytes.size());
  return Value::String(std::move(out));
}

Value RemoveAffix(const Value& object, std::string_view name, const Arguments& arguments) {
  const std::string_view affix = RequireText(arguments, 0, "affix", name);
  const std::string_view bytes = object.str();
  if (name == "removeprefix" && bytes.starts_with(affix)) {
    return Value::String(Substring(object.text(), affix.size(), bytes.size()));
  }
  if (name == "removesuffix" && bytes.ends_with(affix)) {
    return Value::String(Substring(object.text(), 0, bytes.size() - affix.size()));
  }
  return object;
}

Value ZeroFill(const Value& object, const Arguments& arguments) {
  if (arguments.positional.size() != 1) Fail("zfill() takes one argument");
  const int64_t width = std::min<int64_t>(ToIndex(arguments.positional[0], "width"), 10'000);
  const auto length = static_cast<int64_t>(Length(object.text()));
  if (length >= width) return object;
  const bool sign = object.str().starts_with('-') || object.str().starts_with('+');
  TextBuilder builder;
  builder.Append(object.text(), 0, sign ? 1 : 0);
  builder.Append(std::string(static_cast<size_t>(width - length), '0'), true);
  builder.Append(object.text(), sign ? 1 : 0, object.str().size());
  return Value::String(builder.Take());
}

Value CallString(Interpreter& interpreter, const Value& object, std::string_view name,
                 const Arguments& arguments) {
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    return StripMethod(object, name, arguments);
  }
  if (name == "split" || name == "rsplit") {
    return SplitMethod(interpreter, object, name, arguments);
  }
  if (name == "splitlines") {
    const Value* keep = arguments.Get(0, "keepends");
    return Value::List(SplitLines(object.text(), keep != nullptr && keep->Truthy()));
  }
  if (name == "startswith") return Value::Bool(AffixMatches(object, arguments, true));
  if (name == "endswith") return Value::Bool(AffixMatches(object, arguments, false));
  if (name == "lower") return Value::String(MapCase(object.text(), Case::kLower));
  if (name == "upper") return Value::String(MapCase(object.text(), Case::kUpper));
  if (name == "title") return Value::String(MapCase(object.text(), Case::kPythonTitle));
  if (name == "capitalize") return Value::String(MapCase(object.text(), Case::kCapitalize));
  if (name == "replace") return ReplaceMethod(interpreter, object, arguments);
  if (name == "find" || name == "rfind" || name == "index") {
    const int64_t at = Find(object.text(), RequireText(arguments, 0, "sub", name), name == "rfind");
    if (at < 0 && name == "index") Fail("substring not found");
    return Value::Int(at);
  }
  if (name == "count") {
    return Value::Int(CountOf(object.str(), RequireText(arguments, 0, "sub", name)));
  }
  if (name == "join") return Join(interpreter, object, arguments);
  if (name == "format") return BraceFormat(object, arguments);
  if (name == "partition") return Partition(object, arguments);
  if (name == "zfill") return ZeroFill(object, arguments);
  if (name == "removeprefix" || name == "removesuffix") {
    return RemoveAffix(object, name, arguments);
  }
  return IsKind(object.str(), name);
}

Value DeepCopy(Interpreter& interpreter, const Value& value, int depth) {
  if (depth > kMaxValueDepth) Fail("the value nests deeper than {} levels", kMaxValueDepth);
  interpreter.Charge(1);
  if (value.IsSequence()) {
    std::vector<Value> items;
    items.reserve(value.items().size());
    for (const Value& item : value.items()) {
      items.push_back(DeepCopy(interpreter, item, depth + 1));
    }
    return value.Is(Kind::kList) ? Value::List(std::move(items)) : Value::Tuple(std::move(items));
  }
  if (!value.Is(Kind::kDict)) return value;
  Value copy = Value::EmptyDict();
  for (const auto& [key, item] : value.dict().entries) {
    copy.dict().entries.emplace_back(key, DeepCopy(interpreter, item, depth + 1));
  }
  return copy;
}

Value CallList(Interpreter& interpreter, const Value& object, std::string_view name,
               const Arguments& arguments) {
  arguments.Check(name, {"item"});
  if (arguments.positional.size() != 1) Fail("{}() takes one argument", name);
  const Value& item = arguments.positional[0];
  interpreter.Charge(object.items().size() / 16);
  if (name == "append") {
    if (!object.Is(Kind::kList)) Fail("'tuple' object has no method 'append'");
    RequireStorable(item);
    object.list().items.push_back(DeepCopy(interpreter, item, 0));
    return {};
  }
  int64_t count = 0;
  for (size_t i = 0; i < object.items().size(); ++i) {
    if (!Equal(object.items()[i], item)) continue;
    if (name == "index") return Value::Int(static_cast<int64_t>(i));
    ++count;
  }
  if (name == "index") Fail("{} is not in list", Repr(item).substr(0, 80));
  return Value::Int(count);
}

Value CallDict(Interpreter& interpreter, const Value& object, std::string_view name,
               const Arguments& arguments) {
  const DictData& dict = object.dict();
  if (name == "get") {
    arguments.Check(name, {"key", "default"});
    if (arguments.positional.empty()) Fail("get() needs a key");
    interpreter.Charge(dict.entries.size() / 16);
    if (const Value* found = dict.Find(arguments.positional[0]); found != nullptr) return *found;
    const Value* fallback = arguments.Get(1, "default");
    return fallback != nullptr ? *fallback : Value();
  }
  arguments.Check(name, {});
  interpreter.Charge(dict.entries.size());
  std::vector<Value> items;
  items.reserve(dict.entries.size());
  for (const auto& [key, value] : dict.entries) {
    if (name == "items") {
      items.push_back(Value::Tuple({key, value}));
    } else {
      items.push_back(name == "keys" ? key : value);
    }
  }
  return Value::List(std::move(items));
}

Value CallLoop(const Value& object, std::string_view name, const Arguments& arguments) {
  LoopState& loop = *object.loop();
  if (name == "cycle") {
    if (arguments.positional.empty()) Fail("no items for cycling given");
    return arguments.positional[loop.index % arguments.positional.size()];
  }
  const bool same =
      loop.has_changed && loop.changed.size() == arguments.positional.size() &&
      std::equal(loop.changed.begin(), loop.changed.end(), arguments.positional.begin(),
                 [](const Value& a, const Value& b) { return Equal(a, b); });
  loop.has_changed = true;
  loop.changed = arguments.positional;
  return Value::Bool(!same);
}

}  // namespace

bool HasMethod(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kString:
      return Has(kStringMethods, name);
    case Kind::kList:
    case Kind::kTuple:
      return Has(kListMethods, name);
    case Kind::kDict:
      return Has(kDictMethods, name);
    case Kind::kLoop:
      return Has(kLoopMethods, name);
    default:
      return false;
  }
}

Value CallMethod(Interpreter& interpreter, const Value& object, std::string_view name,
                 const Arguments& arguments) {
  switch (object.kind()) {
    case Kind::kString:
      return CallString(interpreter, object, name, arguments);
    case Kind::kDict:
      return CallDict(interpreter, object, name, arguments);
    case Kind::kLoop:
      return CallLoop(object, name, arguments);
    default:
      return CallList(interpreter, object, name, arguments);
  }
}

}  // namespace ballast::jinja
