// Role: the parsed template. Names are interned to small numbers; node depth is bounded by the
// parser, so that walking and destroying a tree cannot exhaust the stack.
// Thread: immutable after parsing.
#ifndef BALLAST_TEXT_JINJA_AST_H_
#define BALLAST_TEXT_JINJA_AST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace ballast::jinja {

using Symbol = uint32_t;

enum class ExprKind {
  kLiteral,    ///< value
  kName,       ///< symbol
  kList,       ///< kids
  kTuple,      ///< kids
  kDict,       ///< kids: key, value, key, value, …
  kAttribute,  ///< kids[0] . text
  kItem,       ///< kids[0] [ kids[1] ]
  kSlice,      ///< kids[0] [ kids[1] : kids[2] : kids[3] ], absent parts null
  kCall,       ///< kids[0] ( kids[1…], kwargs )
  kFilter,     ///< kids[0] | text ( kids[1…], kwargs ); kids[0] null inside a filter block
  kTest,       ///< kids[0] is text ( kids[1…], kwargs )
  kNot,
  kNegate,
  kPlus,
  kAnd,
  kOr,
  kBinary,       ///< kids[0] text kids[1]
  kConcat,       ///< kids joined by ~
  kCompare,      ///< kids[0] ops[0] kids[1] ops[1] kids[2] …
  kConditional,  ///< kids[0] if kids[1] else kids[2] (null: undefined)
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::kLiteral;
  uint32_t line = 0;
  uint32_t depth = 1;
  Symbol symbol = 0;
  Value value;
  std::string text;
  std::vector<ExprPtr> kids;
  std::vector<std::pair<std::string, ExprPtr>> kwargs;
  std::vector<std::string> ops;
};

/// Where an assignment or a loop variable goes.
struct Target {
  std::vector<Symbol> names;  ///< One name, or several to unpack into.
  std::string attribute;      ///< Not empty: names[0].attribute of a namespace.
  bool unpack = false;
};

enum class StmtKind {
  kData,         ///< text
  kOutput,       ///< exprs[0]
  kIf,           ///< exprs[i] guards bodies[i]; one body more is the else
  kFor,          ///< target in exprs[0], filter exprs[1] or null; bodies[0], else bodies[1]
  kSet,          ///< target = exprs[0]
  kSetBlock,     ///< target = bodies[0], filtered by exprs[0] or null
  kMacro,        ///< symbol, parameters, defaults exprs (null: none), bodies[0]
  kCallBlock,    ///< exprs[0] is a kCall; parameters and bodies[0] are the caller
  kFilterBlock,  ///< exprs[0] a chain of kFilter over bodies[0]
  kWith,         ///< targets = exprs; bodies[0]
  kScope,        ///< bodies[0] alone (generation)
  kBreak,
  kContinue,
  kExpression,  ///< exprs[0], its value dropped (do)
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

struct Stmt {
  StmtKind kind = StmtKind::kData;
  uint32_t line = 0;
  Symbol symbol = 0;
  std::string text;
  Target target;
  std::vector<Target> targets;
  std::vector<ExprPtr> exprs;
  std::vector<Symbol> parameters;
  std::vector<std::string> parameter_names;
  std::vector<Body> bodies;
};

}  // namespace ballast::jinja

#endif  // BALLAST_TEXT_JINJA_AST_H_
