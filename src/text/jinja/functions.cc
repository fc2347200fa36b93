// Role: global functions of templates.
#include <ctime>
#include <unordered_map>

#include "text/jinja/interpreter.h"

namespace ballast::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // the reference's sandbox has the same limit

Value Range(Interpreter& interpreter, const Arguments& args) {
  if (!args.named.empty() || args.positional.empty() || args.positional.size() > 3) {
    Fail("range() takes one to three integers");
  }
  int64_t start = 0;
  int64_t stop = ToIndex(args.positional[0], "range()");
  int64_t step = 1;
  if (args.positional.size() > 1) {
    start = stop;
    stop = ToIndex(args.positional[1], "range()");
  }
  if (args.positional.size() > 2) step = ToIndex(args.positional[2], "range()");
  if (step == 0) Fail("range() step must not be zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<int64_t>(items.size()) >= kMaxRange) {
      Fail("range() has more than {} items", kMaxRange);
    }
    items.push_back(Value::Int(i));
  }
  interpreter.Charge(items.size());
  return Value::List(std::move(items));
}

void FillFrom(const Arguments& args, std::string_view function, DictData* dict) {
  if (args.positional.size() > 1) Fail("{}() takes at most one dict", function);
  for (const Value& source : args.positional) {
    if (!source.Is(Kind::kDict)) Fail("{}() needs a dict, not '{}'", function, source.TypeName());
    for (const auto& [key, value] : source.dict().entries) dict->Set(key, value);
  }
  for (const auto& [name, value] : args.named) dict->Set(Value::String(name), value);
}

Value Dict(Interpreter&, const Arguments& args) {
  Value dict = Value::EmptyDict();
  FillFrom(args, "dict", &dict.dict());
  return dict;
}

Value MakeNamespace(Interpreter&, const Arguments& args) {
  DictData members;
  FillFrom(args, "namespace", &members);
  Value result = Value::Namespace();
  for (auto& [key, value] : members.entries) {
    if (!key.Is(Kind::kString)) Fail("namespace() needs string keys");
    result.ns().entries.emplace_back(std::string(key.str()), value);
  }
  return result;
}

Value RaiseException(Interpreter&, const Arguments& args) {
  const Text message = args.positional.empty() ? Text{} : ToText(args.positional[0]);
  Fail("{}", std::string_view(message.bytes).substr(0, 1000));
}

Value StrftimeNow(Interpreter& interpreter, const Arguments& args) {
  args.Check("strftime_now", {"format"});
  const Value* format = args.Get(0, "format");
  if (format == nullptr || !format->Is(Kind::kString)) Fail("strftime_now() needs a format");
  const auto now = static_cast<time_t>(interpreter.clock().UnixSeconds());
  std::tm local{};
  localtime_r(&now, &local);
  const std::string pattern(format->str().substr(0, 256));
  char buffer[1024];
  const size_t size = std::strftime(buffer, sizeof buffer, pattern.c_str(), &local);
  return Value::String(std::string_view(buffer, size), format->text().AllTrusted());
}

}  // namespace

Value FindGlobal(std::string_view name) {
  using Call = Value (*)(Interpreter&, const Arguments&);
  static const std::unordered_map<std::string_view, Call> kGlobals = {
      {"range", Range},
      {"dict", Dict},
      {"namespace", MakeNamespace},
      {"raise_exception", RaiseException},
      {"strftime_now", StrftimeNow},
  };
  const auto it = kGlobals.find(name);
  if (it == kGlobals.end()) return {};
  auto function = std::make_shared<Function>();
  function->name = std::string(name);
  function->call = it->second;
  return Value::FromFunction(std::move(function));
}

}  // namespace ballast::jinja
