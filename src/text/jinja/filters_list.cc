// Role: filters over sequences.
#include <algorithm>
#include <unordered_map>

#include "text/jinja/interpreter.h"
#include "text/jinja/stable_sort.h"
#include "text/jinja/text_ops.h"

namespace ballast::jinja {
namespace {

using In = const Value&;
using Args = const Arguments&;

bool Flag(const Value* value, bool absent) { return value == nullptr ? absent : value->Truthy(); }

/// Follows "a.b.0" from `item`, as attribute arguments of filters do.
Value GetPath(Interpreter& interpreter, Value item, const Value& path) {
  if (path.Is(Kind::kInt)) return interpreter.GetItem(item, path);
  if (!path.Is(Kind::kString)) Fail("attribute must be a string or an integer");
  std::string_view rest = path.str();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool digits =
        !part.empty() && part.size() < 10 &&
        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    item = interpreter.GetItem(
        item, digits ? Value::Int(std::stoi(std::string(part))) : Value::String(part));
    if (dot == std::string_view::npos) return item;
    rest.remove_prefix(dot + 1);
  }
}

/// What items are compared by: an attribute, and lower case unless asked otherwise.
Value SortKey(Interpreter& interpreter, const Value& item, const Value* attribute,
              bool case_sensitive) {
  Value key = attribute != nullptr && !attribute->Is(Kind::kNone)
                  ? GetPath(interpreter, item, *attribute)
                  : item;
  if (!case_sensitive && key.Is(Kind::kString)) {
    key = Value::String(MapCase(key.text(), Case::kLower));
  }
  return key;
}

using Keyed = std::pair<Value, Value>;

std::vector<Keyed> WithKeys(Interpreter& interpreter, const std::vector<Value>& items,
                            const Value* attribute, bool case_sensitive) {
  std::vector<Keyed> keyed;
  keyed.reserve(items.size());
  for (const Value& item : items) {
    keyed.emplace_back(SortKey(interpreter, item, attribute, case_sensitive), item);
  }
  return keyed;
}

void SortKeyed(Interpreter& interpreter, std::vector<Keyed>* keyed, bool reverse) {
  StableSort(keyed, [&](const Keyed& a, const Keyed& b) {
    interpreter.Charge(1);
    return reverse ? Less(b.first, a.first, "<") : Less(a.first, b.first, "<");
  });
}

Value Join(Interpreter& interpreter, In in, Args args) {
  args.Check("join", {"d", "attribute"});
  const Value* separator = args.Get(0, "d");
  const Text between = separator != nullptr ? ToText(*separator) : Text{};
  const Value* attribute = args.Get(1, "attribute");
  TextBuilder builder;
  bool first = true;
  for (const Value& item : interpreter.Iterate(in)) {
    if (!std::exchange(first, false)) builder.Append(between);
    AppendStr(attribute != nullptr ? GetPath(interpreter, item, *attribute) : item, &builder);
  }
  interpreter.ChargeBytes(builder.size());
  return Value::String(builder.Take());
}

Value First(Interpreter& interpreter, In in, Args) {
  const std::vector<Value> items = interpreter.Iterate(in);
  return items.empty() ? Value::Undefined("first item of an empty sequence") : items.front();
}
Value Last(Interpreter& interpreter, In in, Args) {
  const std::vector<Value> items = interpreter.Iterate(in);
  return items.empty() ? Value::Undefined("last item of an empty sequence") : items.back();
}
Value ListFilter(Interpreter& interpreter, In in, Args) {
  return Value::List(interpreter.Iterate(in));
}

Value Reverse(Interpreter& interpreter, In in, Args) {
  if (in.Is(Kind::kString)) {
    return Value::String(SliceText(in.text(), std::nullopt, std::nullopt, -1));
  }
  std::vector<Value> items = interpreter.Iterate(in);
  std::reverse(items.begin(), items.end());
  return Value::List(std::move(items));
}

Value Items(Interpreter& interpreter, In in, Args) {
  if (in.Is(Kind::kUndefined)) return Value::List({});
  if (!in.Is(Kind::kDict)) Fail("Can only get item pairs from a mapping.");
  return CallMethod(interpreter, in, "items", {});
}

Value Map(Interpreter& interpreter, In in, Args args) {
  std::vector<Value> out;
  if (args.positional.empty()) {
    args.Check("map", {"attribute", "default"});
    const Value* attribute = args.Get(0, "attribute");
    if (attribute == nullptr) Fail("map needs a filter or an attribute");
    const Value* fallback = args.Get(1, "default");
    for (const Value& item : interpreter.Iterate(in)) {
      Value value = GetPath(interpreter, item, *attribute);
      out.push_back(value.Is(Kind::kUndefined) && fallback != nullptr ? *fallback
                                                                      : std::move(value));
    }
    return Value::List(std::move(out));
  }
  if (!args.positional[0].Is(Kind::kString)) Fail("map needs the name of a filter");
  Arguments rest{{args.positional.begin() + 1, args.positional.end()}, args.named};
  for (const Value& item : interpreter.Iterate(in)) {
    out.push_back(interpreter.ApplyFilter(args.positional[0].str(), item, rest));
  }
  return Value::List(std::move(out));
}

Value Choose(Interpreter& interpreter, In in, Args args, bool by_attribute, bool keep) {
  const size_t skip = by_attribute ? 1 : 0;
  if (args.positional.size() < skip) Fail("missing the name of an attribute");
  const bool has_test = args.positional.size() > skip;
  if (has_test && !args.positional[skip].Is(Kind::kString)) Fail("the test must be a name");
  Arguments rest;
  if (has_test) {
    rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(skip) + 1,
                           args.positional.end());
    rest.named = args.named;
  }
  std::vector<Value> out;
  for (Value& item : interpreter.Iterate(in)) {
    const Value subject = by_attribute ? GetPath(interpreter, item, args.positional[0]) : item;
    const bool holds = has_test ? interpreter.ApplyTest(args.positional[skip].str(), subject, rest)
                                : subject.Truthy();
    if (holds == keep) out.push_back(std::move(item));
  }
  return Value::List(std::move(out));
}
Value Select(Interpreter& i, In in, Args args) { return Choose(i, in, args, false, true); }
Value Reject(Interpreter& i, In in, Args args) { return Choose(i, in, args, false, false); }
Value SelectAttr(Interpreter& i, In in, Args args) { return Choose(i, in, args, true, true); }
Value RejectAttr(Interpreter& i, In in, Args args) { return Choose(i, in, args, true, false); }

Value Sort(Interpreter& interpreter, In in, Args args) {
  args.Check("sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<Keyed> keyed =
      WithKeys(interpreter, interpreter.Iterate(in), args.Get(2, "attribute"),
               Flag(args.Get(1, "case_sensitive"), false));
  SortKeyed(interpreter, &keyed, Flag(args.Get(0, "reverse"), false));
  std::vector<Value> out;
  for (Keyed& entry : keyed) out.push_back(std::move(entry.second));
  return Value::List(std::move(out));
}

Value DictSort(Interpreter& interpreter, In in, Args args) {
  args.Check("dictsort", {"case_sensitive", "by", "reverse"});
  if (!in.Is(Kind::kDict)) Fail("dictsort needs a dict, not '{}'", in.TypeName());
  const Value* by = args.Get(1, "by");
  const bool by_value = by != nullptr && by->Is(Kind::kString) && by->str() == "value";
  const Value position = Value::Int(by_value ? 1 : 0);
  const Value pairs = CallMethod(interpreter, in, "items", {});
  std::vector<Keyed> keyed =
      WithKeys(interpreter, pairs.items(), &position, Flag(args.Get(0, "case_sensitive"), false));
  SortKeyed(interpreter, &keyed, Flag(args.Get(2, "reverse"), false));
  std::vector<Value> out;
  for (Keyed& entry : keyed) out.push_back(std::move(entry.second));
  return Value::List(std::move(out));
}

Value Unique(Interpreter& interpreter, In in, Args args) {
  args.Check("unique", {"case_sensitive", "attribute"});
  std::vector<Value> seen;
  std::vector<Value> out;
  for (auto& [key, item] : WithKeys(interpreter, interpreter.Iterate(in), args.Get(1, "attribute"),
                                    Flag(args.Get(0, "case_sensitive"), false))) {
    interpreter.Charge(seen.size() / 4);
    const bool known = std::any_of(seen.begin(), seen.end(),
                                   [&key](const Value& value) { return Equal(value, key); });
    if (known) continue;
    seen.push_back(std::move(key));
    out.push_back(std::move(item));
  }
  return Value::List(std::move(out));
}

Value GroupBy(Interpreter& interpreter, In in, Args args) {
  args.Check("groupby", {"attribute", "default", "case_sensitive"});
  const Value* attribute = args.Get(0, "attribute");
  if (attribute == nullptr) Fail("groupby needs an attribute");
  std::vector<Keyed> keyed = WithKeys(interpreter, interpreter.Iterate(in), attribute,
                                      Flag(args.Get(2, "case_sensitive"), false));
  SortKeyed(interpreter, &keyed, false);
  std::vector<Value> groups;
  for (size_t i = 0; i < keyed.size();) {
    std::vector<Value> members;
    const Value name = GetPath(interpreter, keyed[i].second, *attribute);
    const size_t start = i;
    for (; i < keyed.size() && Equal(keyed[i].first, keyed[start].first); ++i) {
      members.push_back(keyed[i].second);
    }
    groups.push_back(Value::Tuple({name, Value::List(std::move(members))}));
  }
  return Value::List(std::move(groups));
}

Value Extreme(Interpreter& interpreter, In in, Args args, bool greatest) {
  args.Check(greatest ? "max" : "min", {"case_sensitive", "attribute"});
  std::vector<Keyed> keyed =
      WithKeys(interpreter, interpreter.Iterate(in), args.Get(1, "attribute"),
               Flag(args.Get(0, "case_sensitive"), false));
  if (keyed.empty()) return Value::Undefined("no aggregated item, sequence was empty");
  const Keyed* best = &keyed[0];
  for (const Keyed& entry : keyed) {
    if (greatest ? Less(best->first, entry.first, ">") : Less(entry.first, best->first, "<")) {
      best = &entry;
    }
  }
  return best->second;
}
Value Min(Interpreter& interpreter, In in, Args args) {
  return Extreme(interpreter, in, args, false);
}
Value Max(Interpreter& interpreter, In in, Args args) {
  return Extreme(interpreter, in, args, true);
}

Value Sum(Interpreter& interpreter, In in, Args args) {
  args.Check("sum", {"attribute", "start"});
  const Value* attribute = args.Get(0, "attribute");
  const Value* start = args.Get(1, "start");
  Value total = start != nullptr ? *start : Value::Int(0);
  for (const Value& item : interpreter.Iterate(in)) {
    const bool path = attribute != nullptr && !attribute->Is(Kind::kNone);
    total = BinaryOperator(interpreter, "+", total,
                           path ? GetPath(interpreter, item, *attribute) : item);
  }
  return total;
}

Value Batch(Interpreter& interpreter, In in, Args args) {
  args.Check("batch", {"linecount", "fill_with"});
  const Value* count = args.Get(0, "linecount");
  const int64_t size = count == nullptr ? 0 : ToIndex(*count, "linecount");
  if (size < 1 || size > 1'000'000) Fail("batch: linecount {} is outside 1 to 1000000", size);
  const Value* fill = args.Get(1, "fill_with");
  std::vector<Value> rows;
  std::vector<Value> row;
  for (Value& item : interpreter.Iterate(in)) {
    row.push_back(std::move(item));
    if (static_cast<int64_t>(row.size()) == size) {
      rows.push_back(Value::List(std::exchange(row, {})));
    }
  }
  if (!row.empty()) {
    if (fill != nullptr && !fill->Is(Kind::kNone)) {
      interpreter.Charge(static_cast<uint64_t>(size));
      row.resize(static_cast<size_t>(size), *fill);
    }
    rows.push_back(Value::List(std::move(row)));
  }
  return Value::List(std::move(rows));
}

}  // namespace

FilterFn FindListFilter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFn> kFilters = {
      {"join", Join},
      {"first", First},
      {"last", Last},
      {"list", ListFilter},
      {"reverse", Reverse},
      {"items", Items},
      {"map", Map},
      {"select", Select},
      {"reject", Reject},
      {"selectattr", SelectAttr},
      {"rejectattr", RejectAttr},
      {"sort", Sort},
      {"dictsort", DictSort},
      {"unique", Unique},
      {"groupby", GroupBy},
      {"min", Min},
      {"max", Max},
      {"sum", Sum},
      {"batch", Batch},
  };
  const auto it = kFilters.find(name);
  return it == kFilters.end() ? nullptr : it->second;
}

}  // namespace ballast::jinja
