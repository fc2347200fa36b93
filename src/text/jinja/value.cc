#include "text/jinja/value.h"

#include <algorithm>

#include "base/check.h"

namespace ballast::jinja {

bool Text::TrustedAt(size_t offset) const {
  for (const Run& run : runs) {
    if (offset < run.end) return run.trusted;
  }
  return true;
}

void TextBuilder::Append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  if (bytes.size() > kMaxStringBytes - text_.bytes.size()) {
    throw Failure{Code::kResourceExhausted,
                  fmt::format("the text grows beyond the limit of {} bytes", kMaxStringBytes), 0};
  }
  text_.bytes += bytes;
  if (!text_.runs.empty() && text_.runs.back().trusted == trusted) {
    text_.runs.back().end = text_.bytes.size();
  } else {
    text_.runs.push_back({text_.bytes.size(), trusted});
  }
}

void TextBuilder::Append(const Text& text, size_t begin, size_t end) {
  const std::string_view bytes = text.bytes;
  auto run = std::upper_bound(text.runs.begin(), text.runs.end(), begin,
                              [](size_t offset, const Text::Run& r) { return offset < r.end; });
  while (begin < end && run != text.runs.end()) {
    const size_t stop = std::min(end, run->end);
    Append(bytes.substr(begin, stop - begin), run->trusted);
    begin = stop;
    ++run;
  }
}

Value Value::Undefined(std::string_view name) {
  Value value = String(name);
  value.kind_ = Kind::kUndefined;
  return value;
}
Value Value::Bool(bool b) {
  Value value;
  value.kind_ = Kind::kBool;
  value.data_ = b;
  return value;
}
Value Value::Int(Integer i, bool trusted) {
  Value value;
  value.kind_ = Kind::kInt;
  value.data_ = i;
  value.trusted_ = trusted;
  return value;
}
Value Value::Float(double d, bool trusted) {
  Value value;
  value.kind_ = Kind::kFloat;
  value.data_ = d;
  value.trusted_ = trusted;
  return value;
}
Value Value::String(Text text) {
  Value value;
  value.kind_ = Kind::kString;
  value.data_ = std::make_shared<const Text>(std::move(text));
  return value;
}
Value Value::String(std::string_view bytes, bool trusted) {
  TextBuilder builder;
  builder.Append(bytes, trusted);
  return String(builder.Take());
}
Value Value::List(std::vector<Value> items) {
  for (const Value& item : items) RequireStorable(item);
  Value value;
  value.kind_ = Kind::kList;
  auto data = std::make_shared<ListData>();
  data->items = std::move(items);
  value.data_ = std::move(data);
  return value;
}
Value Value::Tuple(std::vector<Value> items) {
  Value value = List(std::move(items));
  value.kind_ = Kind::kTuple;
  return value;
}
Value Value::EmptyDict() {
  Value value;
  value.kind_ = Kind::kDict;
  value.data_ = std::make_shared<DictData>();
  return value;
}
Value Value::Namespace() {
  Value value;
  value.kind_ = Kind::kNamespace;
  value.data_ = std::make_shared<NamespaceData>();
  return value;
}
Value Value::FromFunction(std::shared_ptr<const Function> function) {
  Value value;
  value.kind_ = Kind::kFunction;
  value.data_ = std::move(function);
  return value;
}
Value Value::Loop(LoopState* loop) {
  Value value;
  value.kind_ = Kind::kLoop;
  value.data_ = loop;
  return value;
}

Value Value::FromJson(const Json& json, int depth) {
  if (depth > kMaxValueDepth) Fail("the input nests deeper than {} levels", kMaxValueDepth);
  switch (json.type()) {
    case Json::value_t::boolean:
      return Bool(json.get<bool>());
    case Json::value_t::number_integer:
      return Int(json.get<int64_t>(), false);
    case Json::value_t::number_unsigned:
      return Int(json.get<uint64_t>(), false);
    case Json::value_t::number_float:
      return Float(json.get<double>(), false);
    case Json::value_t::string:
      return String(json.get_ref<const std::string&>(), false);
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(FromJson(item, depth + 1));
      return List(std::move(items));
    }
    case Json::value_t::object: {
      Value dict = EmptyDict();
      auto& entries = dict.dict().entries;
      entries.reserve(json.size());
      for (const auto& [key, item] : json.items()) {
        entries.emplace_back(String(key, false), FromJson(item, depth + 1));
      }
      return dict;
    }
    default:
      return Value();
  }
}

std::string_view Value::TypeName() const {
  switch (kind_) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kFunction:
      return "function";
    case Kind::kLoop:
      return "LoopContext";
  }
  return "object";
}

Integer Value::as_int() const {
  if (kind_ == Kind::kBool) return as_bool() ? 1 : 0;
  return std::get<Integer>(data_);
}
double Value::as_float() const {
  if (kind_ == Kind::kFloat) return std::get<double>(data_);
  return static_cast<double>(as_int());
}
const std::vector<Value>& Value::items() const { return list().items; }

bool Value::Truthy() const {
  switch (kind_) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return as_bool();
    case Kind::kInt:
      return as_int() != 0;
    case Kind::kFloat:
      return as_float() != 0;
    case Kind::kString:
      return !str().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !items().empty();
    case Kind::kDict:
      return !dict().entries.empty();
    default:
      return true;
  }
}

void Value::MoveItemsTo(std::vector<Value>* out) {
  if (auto* list = std::get_if<std::shared_ptr<ListData>>(&data_);
      list != nullptr && *list != nullptr && list->use_count() == 1) {
    for (Value& item : (*list)->items) out->push_back(std::move(item));
    (*list)->items.clear();
  }
  if (auto* dict = std::get_if<std::shared_ptr<DictData>>(&data_);
      dict != nullptr && *dict != nullptr && dict->use_count() == 1) {
    for (auto& [key, value] : (*dict)->entries) {
      out->push_back(std::move(key));
      out->push_back(std::move(value));
    }
    (*dict)->entries.clear();
  }
}

void DestroyFlat(std::vector<Value> values) {
  while (!values.empty()) {
    Value value = std::move(values.back());
    values.pop_back();
    value.MoveItemsTo(&values);
  }
}

ListData::~ListData() {
  if (!items.empty()) DestroyFlat(std::move(items));
}
DictData::~DictData() {
  if (entries.empty()) return;
  std::vector<Value> values;
  values.reserve(entries.size() * 2);
  for (auto& [key, value] : entries) {
    values.push_back(std::move(key));
    values.push_back(std::move(value));
  }
  DestroyFlat(std::move(values));
}

const Value* DictData::Find(const Value& key) const {
  if (key.Is(Kind::kString)) return Find(key.str());
  for (const auto& [k, v] : entries) {
    if (Equal(k, key)) return &v;
  }
  return nullptr;
}
const Value* DictData::Find(std::string_view key) const {
  for (const auto& [k, v] : entries) {
    if (k.Is(Kind::kString) && k.str() == key) return &v;
  }
  return nullptr;
}
void DictData::Set(Value key, Value value) {
  RequireStorable(value);
  switch (key.kind()) {
    case Kind::kList:
    case Kind::kDict:
      Fail("unhashable type: '{}'", key.TypeName());
    default:
      RequireStorable(key);
  }
  for (auto& [k, v] : entries) {
    if (Equal(k, key)) {
      v = std::move(value);
      return;
    }
  }
  entries.emplace_back(std::move(key), std::move(value));
}

void RequireStorable(const Value& value) {
  if (value.Is(Kind::kNamespace) || value.Is(Kind::kFunction) || value.Is(Kind::kLoop)) {
    Fail("a {} cannot be stored in a list, dict or namespace", value.TypeName());
  }
}

bool Equal(const Value& a, const Value& b, int depth) {
  if (depth > kMaxValueDepth) Fail("comparison nests deeper than {} levels", kMaxValueDepth);
  if (a.IsNumber() && b.IsNumber()) {
    if (a.Is(Kind::kFloat) || b.Is(Kind::kFloat)) return a.as_float() == b.as_float();
    return a.as_int() == b.as_int();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.str() == b.str();
    case Kind::kList:
    case Kind::kTuple: {
      const auto& x = a.items();
      const auto& y = b.items();
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i) {
        if (!Equal(x[i], y[i], depth + 1)) return false;
      }
      return true;
    }
    case Kind::kDict: {
      if (a.dict().entries.size() != b.dict().entries.size()) return false;
      for (const auto& [key, value] : a.dict().entries) {
        const Value* other = b.dict().Find(key);
        if (other == nullptr || !Equal(value, *other, depth + 1)) return false;
      }
      return true;
    }
    case Kind::kNamespace:
      return &a.ns() == &b.ns();
    case Kind::kFunction:
      return &a.function() == &b.function();
    case Kind::kLoop:
      return a.loop() == b.loop();
    default:
      return false;
  }
}

bool Less(const Value& a, const Value& b, std::string_view op, int depth) {
  if (depth > kMaxValueDepth) Fail("comparison nests deeper than {} levels", kMaxValueDepth);
  if (a.IsNumber() && b.IsNumber()) {
    if (a.Is(Kind::kFloat) || b.Is(Kind::kFloat)) return a.as_float() < b.as_float();
    return a.as_int() < b.as_int();
  }
  if (a.Is(Kind::kString) && b.Is(Kind::kString)) return a.str() < b.str();  // UTF-8 keeps order
  if (a.IsSequence() && a.kind() == b.kind()) {
    const auto& x = a.items();
    const auto& y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!Equal(x[i], y[i], depth + 1)) return Less(x[i], y[i], op, depth + 1);
    }
    return x.size() < y.size();
  }
  if (a.Is(Kind::kUndefined) || b.Is(Kind::kUndefined)) {
    Fail("'{}' is undefined", (a.Is(Kind::kUndefined) ? a : b).undefined_name());
  }
  Fail("'{}' not supported between instances of '{}' and '{}'", op, a.TypeName(), b.TypeName());
}

bool In(const Value& item, const Value& container) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!item.Is(Kind::kString)) {
        Fail("'in <string>' requires string as left operand, not {}", item.TypeName());
      }
      return container.str().find(item.str()) != std::string_view::npos;
    case Kind::kList:
    case Kind::kTuple:
      for (const Value& value : container.items()) {
        if (Equal(item, value)) return true;
      }
      return false;
    case Kind::kDict:
      return container.dict().Find(item) != nullptr;
    default:
      Fail("argument of type '{}' is not iterable", container.TypeName());
  }
}

bool AllTrusted(const Value& value, int depth) {
  if (depth > kMaxValueDepth) Fail("the value nests deeper than {} levels", kMaxValueDepth);
  switch (value.kind()) {
    case Kind::kString:
      return value.text().AllTrusted();
    case Kind::kInt:
    case Kind::kFloat:
      return value.trusted_number();
    case Kind::kList:
    case Kind::kTuple:
      return std::all_of(value.items().begin(), value.items().end(),
                         [depth](const Value& item) { return AllTrusted(item, depth + 1); });
    case Kind::kDict:
      return std::all_of(
          value.dict().entries.begin(), value.dict().entries.end(), [depth](const auto& entry) {
            return AllTrusted(entry.first, depth + 1) && AllTrusted(entry.second, depth + 1);
          });
    default:
      return true;
  }
}

}  // namespace ballast::jinja
