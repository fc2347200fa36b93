// Role: walks a parsed template. Everything is bounded: steps, nesting, sizes.
// Thread: one render. Throws Failure.
#ifndef BALLAST_TEXT_JINJA_INTERPRETER_H_
#define BALLAST_TEXT_JINJA_INTERPRETER_H_

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/template.h"
#include "text/jinja/value.h"

namespace ballast::jinja {

class Interpreter;

/// The arguments of a call, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  /// Fails unless the arguments fit these parameters of `function`.
  void Check(std::string_view function, std::initializer_list<std::string_view> parameters) const;
  /// By position or by name; null if absent.
  const Value* Get(size_t index, std::string_view name) const;
};

struct Function {
  std::string name;
  std::function<Value(Interpreter&, const Arguments&)> call;
};

/// Variables of one block. Lives on the interpreter's stack.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<Symbol, Value>> variables;

  const Value* Find(Symbol symbol) const;
  void Set(Symbol symbol, Value value);
};

/// What `loop` shows.
struct LoopState {
  const std::vector<Value>* items = nullptr;
  size_t index = 0;  ///< From 0.
  int depth = 1;
  std::vector<Value> changed;  ///< Arguments of the last loop.changed().
  bool has_changed = false;
};

class Interpreter {
 public:
  Interpreter(const Template& source, const Clock& clock, const Limits& limits)
      : template_(source), clock_(clock), limits_(limits) {}

  Text Run(const std::vector<std::pair<std::string, Value>>& variables);
  /// The line that was being worked on, for error messages.
  uint32_t line() const { return line_; }

  // For filters, tests and functions:

  /// Counts work; fails beyond the limit.
  void Charge(uint64_t steps);
  /// Counts the copying of `bytes`.
  void ChargeBytes(size_t bytes) { Charge(bytes / 32); }
  Value ApplyFilter(std::string_view name, const Value& input, const Arguments& arguments);
  bool ApplyTest(std::string_view name, const Value& input, const Arguments& arguments);
  Value GetAttribute(const Value& object, std::string_view name);
  Value GetItem(const Value& object, const Value& key);
  /// The items that a loop over `value` visits. Fails if it is not iterable.
  std::vector<Value> Iterate(const Value& value);
  const Clock& clock() const { return clock_; }

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  class DepthGuard;

  Flow ExecBody(const Body& body);
  Flow ExecInScope(const Body& body);
  Flow Exec(const Stmt& stmt);
  Flow ExecIf(const Stmt& stmt);
  Flow ExecFor(const Stmt& stmt);
  void ExecSet(const Stmt& stmt);
  void ExecMacro(const Stmt& stmt);
  void ExecCallBlock(const Stmt& stmt);
  Flow ExecWith(const Stmt& stmt);
  void Assign(const Target& target, Value value);
  /// Runs a body and returns what it prints.
  Value Capture(const Body& body);
  Value MakeMacro(const Stmt& stmt, std::string name);
  Value CallMacro(const Stmt& stmt, Scope* closure, const Arguments& arguments);

  Value Eval(const Expr& expr);
  Value EvalContainer(const Expr& expr);
  Value EvalSlice(const Expr& expr);
  Value EvalCall(const Expr& expr);
  Value EvalFilter(const Expr& expr);
  bool EvalTest(const Expr& expr);
  bool EvalCompare(const Expr& expr);
  Value EvalConcat(const Expr& expr);
  Value EvalBinary(const Expr& expr);
  Value EvalNegate(const Expr& expr);
  Arguments EvalArguments(const Expr& expr);
  void DefineGlobals(Scope* scope);

  const Template& template_;
  const Clock& clock_;
  const Limits limits_;
  uint64_t steps_ = 0;
  int depth_ = 0;
  int loop_depth_ = 0;
  uint32_t line_ = 1;
  Scope* scope_ = nullptr;
  TextBuilder* out_ = nullptr;
  const Value* filter_block_input_ = nullptr;
};

/// a + b and the other arithmetic operators (operators.cc).
Value BinaryOperator(Interpreter& interpreter, std::string_view op, const Value& a, const Value& b);
/// Python's "format % arguments".
Text PercentFormat(const Text& format, const std::vector<Value>& arguments);

/// True if values of this kind have such a method (methods.cc).
bool HasMethod(const Value& object, std::string_view name);
Value CallMethod(Interpreter& interpreter, const Value& object, std::string_view name,
                 const Arguments& arguments);

using FilterFn = Value (*)(Interpreter&, const Value&, const Arguments&);
/// Null if unknown (filters.cc, filters_list.cc).
FilterFn FindFilter(std::string_view name);
FilterFn FindListFilter(std::string_view name);
using TestFn = bool (*)(Interpreter&, const Value&, const Arguments&);
TestFn FindTest(std::string_view name);

/// Globals such as range (functions.cc).
Value FindGlobal(std::string_view name);

/// A value as int64 for indices and counts. Fails naming `what`.
int64_t ToIndex(const Value& value, std::string_view what);

}  // namespace ballast::jinja

#endif  // BALLAST_TEXT_JINJA_INTERPRETER_H_
