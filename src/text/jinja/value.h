// Role: the values of a template and their Python behaviour (printing, truth, comparison).
// Strings know which of their bytes came from outside; every operation carries that along.
// Inside src/text/jinja errors are thrown as Failure and caught by Template's functions.
// Thread: values belong to one render.
#ifndef BALLAST_TEXT_JINJA_VALUE_H_
#define BALLAST_TEXT_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace ballast::jinja {

/// Wide enough for every integer of JSON that is not a float there (up to uint64).
using Integer = __int128;

inline constexpr size_t kMaxStringBytes = size_t{64} << 20;
inline constexpr int kMaxValueDepth = 100;

/// What went wrong; the line is added where it is known.
struct Failure {
  Code code = Code::kInvalidArgument;
  std::string message;
  uint32_t line = 0;
};

template <class... Args>
[[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{Code::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...), 0};
}

/// Bytes and where their trust changes. Immutable once shared.
struct Text {
  struct Run {
    size_t end;
    bool trusted;
  };
  std::string bytes;
  std::vector<Run> runs;  ///< Ascending ends, the last one bytes.size(); neighbours differ.

  bool AllTrusted() const { return runs.empty() || (runs.size() == 1 && runs[0].trusted); }
  bool TrustedAt(size_t offset) const;
};
using TextPtr = std::shared_ptr<const Text>;

/// Builds a Text piece by piece.
class TextBuilder {
 public:
  void Append(std::string_view bytes, bool trusted);
  void Append(const Text& text) { Append(text, 0, text.bytes.size()); }
  /// Bytes [begin, end) of `text`.
  void Append(const Text& text, size_t begin, size_t end);
  size_t size() const { return text_.bytes.size(); }
  const Text& text() const { return text_; }
  Text Take() { return std::exchange(text_, {}); }

 private:
  Text text_;
};

class Value;
struct ListData;
struct DictData;
struct NamespaceData;
struct LoopState;
struct Function;

enum class Kind {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kNamespace,
  kFunction,
  kLoop,
};

class Value {
 public:
  Value() : kind_(Kind::kNone) {}
  static Value Undefined(std::string_view name);
  static Value Bool(bool value);
  static Value Int(Integer value, bool trusted = true);
  static Value Float(double value, bool trusted = true);
  static Value String(Text text);
  static Value String(std::string_view bytes, bool trusted = true);
  static Value List(std::vector<Value> items);
  static Value Tuple(std::vector<Value> items);
  static Value EmptyDict();
  static Value Namespace();
  static Value FromFunction(std::shared_ptr<const Function> function);
  static Value Loop(LoopState* loop);
  /// Copies a document; its strings and numbers are untrusted. Errors: Failure beyond the depth.
  static Value FromJson(const Json& json, int depth = 0);

  Kind kind() const { return kind_; }
  bool Is(Kind kind) const { return kind_ == kind; }
  bool IsNumber() const { return Is(Kind::kInt) || Is(Kind::kFloat) || Is(Kind::kBool); }
  bool IsSequence() const { return Is(Kind::kList) || Is(Kind::kTuple); }
  /// "int", "str", … as Python names the type.
  std::string_view TypeName() const;

  bool as_bool() const { return std::get<bool>(data_); }
  /// Of an int or a bool.
  Integer as_int() const;
  /// Of any number.
  double as_float() const;
  const Text& text() const { return *std::get<TextPtr>(data_); }
  const TextPtr& text_ptr() const { return std::get<TextPtr>(data_); }
  std::string_view str() const { return text().bytes; }
  const std::vector<Value>& items() const;
  ListData& list() const { return *std::get<std::shared_ptr<ListData>>(data_); }
  DictData& dict() const { return *std::get<std::shared_ptr<DictData>>(data_); }
  NamespaceData& ns() const { return *std::get<std::shared_ptr<NamespaceData>>(data_); }
  const Function& function() const { return *std::get<std::shared_ptr<const Function>>(data_); }
  LoopState* loop() const { return std::get<LoopState*>(data_); }
  /// The name an undefined value was looked up by.
  std::string_view undefined_name() const { return text().bytes; }
  /// False if a number came from outside.
  bool trusted_number() const { return trusted_; }

  bool Truthy() const;
  /// Releases nested containers without recursion. Called by the containers' destructors.
  void MoveItemsTo(std::vector<Value>* out);

 private:
  friend struct ListData;
  Kind kind_;
  bool trusted_ = true;
  std::variant<std::monostate, bool, Integer, double, TextPtr, std::shared_ptr<ListData>,
               std::shared_ptr<DictData>, std::shared_ptr<NamespaceData>,
               std::shared_ptr<const Function>, LoopState*>
      data_;
};

/// Destroys a pile of values without recursing into nested containers.
void DestroyFlat(std::vector<Value> values);

struct ListData {
  std::vector<Value> items;
  ~ListData();
};

struct DictData {
  std::vector<std::pair<Value, Value>> entries;  ///< In order of insertion.
  ~DictData();
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  void Set(Value key, Value value);
};

struct NamespaceData {
  std::vector<std::pair<std::string, Value>> entries;
};

/// A namespace, a loop or a function is bound to names only; inside containers it could outlive
/// its frame or form a cycle. Throws Failure for those.
void RequireStorable(const Value& value);

/// Python's ==.
bool Equal(const Value& a, const Value& b, int depth = 0);
/// Python's < for what Python can order; else Failure naming `op`.
bool Less(const Value& a, const Value& b, std::string_view op, int depth = 0);
/// Python's `item in container`.
bool In(const Value& item, const Value& container);

/// str(value): strings keep their runs.
void AppendStr(const Value& value, TextBuilder* out);
Text ToText(const Value& value);
/// repr(value); untrusted as a whole if any part is.
std::string Repr(const Value& value);
bool AllTrusted(const Value& value, int depth = 0);

std::string FormatInteger(Integer value);
/// Python's repr of a float.
std::string FormatFloat(double value);

struct JsonStyle {
  bool ensure_ascii = false;
  int indent = -1;  ///< -1: one line.
  std::string item_separator;
  std::string key_separator;
  bool sort_keys = false;
};
/// json.dumps(value). Untrusted as a whole if any part is.
Text ToJson(const Value& value, const JsonStyle& style);

}  // namespace ballast::jinja

#endif  // BALLAST_TEXT_JINJA_VALUE_H_
