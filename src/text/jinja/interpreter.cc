// Role: statements, scopes and calls.
#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/text_ops.h"
#include "text/unicode.h"

namespace ballast::jinja {

void Arguments::Check(std::string_view function,
                      std::initializer_list<std::string_view> parameters) const {
  if (positional.size() > parameters.size()) {
    Fail("{}() takes at most {} arguments, {} were given", function, parameters.size(),
         positional.size());
  }
  for (const auto& [name, value] : named) {
    const auto* it = std::find(parameters.begin(), parameters.end(), name);
    if (it == parameters.end()) Fail("{}() has no argument '{}'", function, name);
    if (static_cast<size_t>(it - parameters.begin()) < positional.size()) {
      Fail("{}() got two values for argument '{}'", function, name);
    }
  }
}

const Value* Arguments::Get(size_t index, std::string_view name) const {
  if (index < positional.size()) return &positional[index];
  for (const auto& [key, value] : named) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Value* Scope::Find(Symbol symbol) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent) {
    for (const auto& [key, value] : scope->variables) {
      if (key == symbol) return &value;
    }
  }
  return nullptr;
}

void Scope::Set(Symbol symbol, Value value) {
  for (auto& [key, old] : variables) {
    if (key == symbol) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(symbol, std::move(value));
}

class Interpreter::DepthGuard {
 public:
  explicit DepthGuard(Interpreter* interpreter) : interpreter_(interpreter) {
    if (interpreter->depth_ >= interpreter->limits_.depth) {
      throw Failure{
          Code::kResourceExhausted,
          fmt::format("evaluation nests deeper than {} levels", interpreter->limits_.depth), 0};
    }
    ++interpreter->depth_;
  }
  ~DepthGuard() { --interpreter_->depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  Interpreter* interpreter_;
};

void Interpreter::Charge(uint64_t steps) {
  steps_ += steps;
  if (steps_ > limits_.steps) {
    throw Failure{Code::kResourceExhausted,
                  fmt::format("the template takes more than {} steps", limits_.steps), 0};
  }
}

Text Interpreter::Run(const std::vector<std::pair<std::string, Value>>& variables) {
  Scope globals;
  DefineGlobals(&globals);
  for (const auto& [name, value] : variables) {
    const auto it = template_.symbols_.find(name);
    if (it != template_.symbols_.end()) globals.Set(it->second, value);
  }
  TextBuilder out;
  out_ = &out;
  scope_ = &globals;
  ExecBody(template_.body_);
  return out.Take();
}

void Interpreter::DefineGlobals(Scope* scope) {
  for (Symbol symbol = 0; symbol < template_.names_.size(); ++symbol) {
    Value value = FindGlobal(template_.names_[symbol]);
    if (!value.Is(Kind::kNone)) scope->Set(symbol, std::move(value));
  }
}

Interpreter::Flow Interpreter::ExecBody(const Body& body) {
  for (const StmtPtr& stmt : body) {
    const Flow flow = Exec(*stmt);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecInScope(const Body& body) {
  Scope scope{scope_, {}};
  scope_ = &scope;
  const Flow flow = ExecBody(body);
  scope_ = scope.parent;
  return flow;
}

Interpreter::Flow Interpreter::Exec(const Stmt& stmt) {
  DepthGuard guard(this);
  Charge(1);
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::kData:
      out_->Append(stmt.text, true);
      break;
    case StmtKind::kOutput: {
      const Value value = Eval(*stmt.exprs[0]);
      const size_t before = out_->size();
      AppendStr(value, out_);
      ChargeBytes(out_->size() - before);
      break;
    }
    case StmtKind::kIf:
      return ExecIf(stmt);
    case StmtKind::kFor:
      return ExecFor(stmt);
    case StmtKind::kSet:
    case StmtKind::kSetBlock:
      ExecSet(stmt);
      break;
    case StmtKind::kMacro:
      ExecMacro(stmt);
      break;
    case StmtKind::kCallBlock:
      ExecCallBlock(stmt);
      break;
    case StmtKind::kFilterBlock: {
      const Value text = Capture(stmt.bodies[0]);
      const Value* outer = std::exchange(filter_block_input_, &text);
      const Value filtered = Eval(*stmt.exprs[0]);
      filter_block_input_ = outer;
      AppendStr(filtered, out_);
      break;
    }
    case StmtKind::kWith:
      return ExecWith(stmt);
    case StmtKind::kScope:
      return ExecInScope(stmt.bodies[0]);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
    case StmtKind::kExpression:
      Eval(*stmt.exprs[0]);
      break;
  }
  if (out_->size() > limits_.output_bytes) {
    throw Failure{Code::kResourceExhausted,
                  fmt::format("the output is longer than {} bytes", limits_.output_bytes), 0};
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecIf(const Stmt& stmt) {
  for (size_t i = 0; i < stmt.exprs.size(); ++i) {
    if (Eval(*stmt.exprs[i]).Truthy()) return ExecBody(stmt.bodies[i]);
  }
  if (stmt.bodies.size() > stmt.exprs.size()) return ExecBody(stmt.bodies.back());
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecFor(const Stmt& stmt) {
  std::vector<Value> items = Iterate(Eval(*stmt.exprs[0]));
  Scope* outer = scope_;
  if (stmt.exprs[1] != nullptr) {
    std::vector<Value> kept;
    for (Value& item : items) {
      Scope scope{outer, {}};
      scope_ = &scope;
      Assign(stmt.target, item);
      if (Eval(*stmt.exprs[1]).Truthy()) kept.push_back(std::move(item));
      scope_ = outer;
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    return stmt.bodies.size() > 1 ? ExecInScope(stmt.bodies[1]) : Flow::kNormal;
  }
  LoopState loop;
  loop.items = &items;
  loop.depth = ++loop_depth_;
  for (; loop.index < items.size(); ++loop.index) {
    Charge(1);
    Scope scope{outer, {}};
    scope_ = &scope;
    scope.Set(stmt.symbol, Value::Loop(&loop));
    Assign(stmt.target, items[loop.index]);
    const Flow flow = ExecBody(stmt.bodies[0]);
    scope_ = outer;
    if (flow == Flow::kBreak) break;
  }
  --loop_depth_;
  return Flow::kNormal;
}

void Interpreter::Assign(const Target& target, Value value) {
  if (!target.attribute.empty()) {
    const Value* object = scope_->Find(target.names[0]);
    if (object == nullptr || !object->Is(Kind::kNamespace)) {
      Fail("cannot assign attribute '{}' on a non-namespace object", target.attribute);
    }
    RequireStorable(value);
    auto& entries = object->ns().entries;
    for (auto& [name, old] : entries) {
      if (name == target.attribute) {
        old = std::move(value);
        return;
      }
    }
    entries.emplace_back(target.attribute, std::move(value));
    return;
  }
  if (!target.unpack) {
    scope_->Set(target.names[0], std::move(value));
    return;
  }
  std::vector<Value> items = Iterate(value);
  if (items.size() != target.names.size()) {
    Fail("cannot unpack {} values into {} names", items.size(), target.names.size());
  }
  for (size_t i = 0; i < items.size(); ++i) scope_->Set(target.names[i], std::move(items[i]));
}

void Interpreter::ExecSet(const Stmt& stmt) {
  if (stmt.kind == StmtKind::kSet) {
    Assign(stmt.target, Eval(*stmt.exprs[0]));
    return;
  }
  Value text = Capture(stmt.bodies[0]);
  if (stmt.exprs[0] != nullptr) {
    const Value* outer = std::exchange(filter_block_input_, &text);
    Value filtered = Eval(*stmt.exprs[0]);
    filter_block_input_ = outer;
    text = std::move(filtered);
  }
  Assign(stmt.target, std::move(text));
}

Value Interpreter::Capture(const Body& body) {
  TextBuilder builder;
  TextBuilder* outer = std::exchange(out_, &builder);
  ExecInScope(body);
  out_ = outer;
  ChargeBytes(builder.size());
  return Value::String(builder.Take());
}

Interpreter::Flow Interpreter::ExecWith(const Stmt& stmt) {
  Scope scope{scope_, {}};
  for (size_t i = 0; i < stmt.targets.size(); ++i) {
    scope.Set(stmt.targets[i].names[0], Eval(*stmt.exprs[i]));
  }
  scope_ = &scope;
  const Flow flow = ExecBody(stmt.bodies[0]);
  scope_ = scope.parent;
  return flow;
}

Value Interpreter::MakeMacro(const Stmt& stmt, std::string name) {
  // The closure may be a plain pointer: a function is never stored outside its own scope
  // (RequireStorable), and inner scopes die first.
  auto function = std::make_shared<Function>();
  function->name = std::move(name);
  Scope* closure = scope_;
  function->call = [&stmt, closure](Interpreter& interpreter, const Arguments& arguments) {
    return interpreter.CallMacro(stmt, closure, arguments);
  };
  return Value::FromFunction(std::move(function));
}

void Interpreter::ExecMacro(const Stmt& stmt) {
  scope_->Set(stmt.symbol, MakeMacro(stmt, stmt.text));
}

Value Interpreter::CallMacro(const Stmt& stmt, Scope* closure, const Arguments& arguments) {
  DepthGuard guard(this);
  const uint32_t line = line_;
  Scope scope{closure, {}};
  Scope* outer_scope = std::exchange(scope_, &scope);
  const size_t count = stmt.parameters.size();
  std::vector<Value> extra;
  for (size_t i = count; i < arguments.positional.size(); ++i) {
    extra.push_back(arguments.positional[i]);
  }
  Value kwargs = Value::EmptyDict();
  for (const auto& [name, value] : arguments.named) {
    const auto it = std::find(stmt.parameter_names.begin(), stmt.parameter_names.end(), name);
    if (it == stmt.parameter_names.end()) {
      if (name != "caller") kwargs.dict().Set(Value::String(name), value);
    } else if (static_cast<size_t>(it - stmt.parameter_names.begin()) <
               arguments.positional.size()) {
      Fail("macro '{}' got two values for argument '{}'", stmt.text, name);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (const Value* given = arguments.Get(i, stmt.parameter_names[i]); given != nullptr) {
      scope.Set(stmt.parameters[i], *given);
    } else if (stmt.exprs[i] != nullptr) {
      scope.Set(stmt.parameters[i], Eval(*stmt.exprs[i]));
    } else {
      scope.Set(stmt.parameters[i], Value::Undefined(stmt.parameter_names[i]));
    }
  }
  auto bind = [&](const char* name, Value value) {
    scope.Set(template_.symbols_.at(name), std::move(value));
  };
  bind("varargs", Value::Tuple(std::move(extra)));
  bind("kwargs", std::move(kwargs));
  const Value* caller = nullptr;
  for (const auto& [name, value] : arguments.named) {
    if (name == "caller") caller = &value;
  }
  if (caller != nullptr) bind("caller", *caller);
  const int loops = std::exchange(loop_depth_, 0);
  TextBuilder builder;
  TextBuilder* outer_out = std::exchange(out_, &builder);
  ExecBody(stmt.bodies[0]);
  out_ = outer_out;
  scope_ = outer_scope;
  loop_depth_ = loops;
  line_ = line;
  ChargeBytes(builder.size());
  return Value::String(builder.Take());
}

void Interpreter::ExecCallBlock(const Stmt& stmt) {
  const Expr& call = *stmt.exprs.back();
  const Value callee = Eval(*call.kids[0]);
  if (!callee.Is(Kind::kFunction)) Fail("'{}' object is not callable", callee.TypeName());
  Arguments arguments = EvalArguments(call);
  arguments.named.emplace_back("caller", MakeMacro(stmt, "caller"));
  AppendStr(callee.function().call(*this, arguments), out_);
}

std::vector<Value> Interpreter::Iterate(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return {};
    case Kind::kList:
    case Kind::kTuple:
      Charge(value.items().size() / 8);
      return value.items();
    case Kind::kDict: {
      std::vector<Value> keys;
      Charge(value.dict().entries.size() / 8);
      for (const auto& [key, item] : value.dict().entries) keys.push_back(key);
      return keys;
    }
    case Kind::kString:
      Charge(value.str().size());
      return Characters(value.text());
    default:
      Fail("'{}' object is not iterable", value.TypeName());
  }
}

Value Interpreter::ApplyFilter(std::string_view name, const Value& input,
                               const Arguments& arguments) {
  FilterFn filter = FindFilter(name);
  if (filter == nullptr) filter = FindListFilter(name);
  if (filter == nullptr) Fail("no filter named '{}'", name);
  Charge(1);
  if (input.Is(Kind::kString)) ChargeBytes(input.str().size());
  Value result = filter(*this, input, arguments);
  if (result.Is(Kind::kString)) ChargeBytes(result.str().size());
  return result;
}

bool Interpreter::ApplyTest(std::string_view name, const Value& input, const Arguments& arguments) {
  const TestFn test = FindTest(name);
  if (test == nullptr) Fail("no test named '{}'", name);
  Charge(1);
  return test(*this, input, arguments);
}

Result<Text> Template::Render(const std::vector<std::pair<std::string, Value>>& variables,
                              const Clock& clock, const Limits& limits) const {
  Interpreter interpreter(*this, clock, limits);
  try {
    return interpreter.Run(variables);
  } catch (const Failure& failure) {
    const uint32_t line = failure.line != 0 ? failure.line : interpreter.line();
    return MakeError(failure.code, "template line {}: {}", line, failure.message);
  }
}

}  // namespace ballast::jinja
