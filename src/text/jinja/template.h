// Role: a parsed template and its rendering: the boundary of the Jinja subset.
// Thread: immutable after Parse; Render may run on any number of threads at once.
#ifndef BALLAST_TEXT_JINJA_TEMPLATE_H_
#define BALLAST_TEXT_JINJA_TEMPLATE_H_

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace ballast::jinja {

inline constexpr size_t kMaxSourceBytes = size_t{1} << 20;
inline constexpr uint32_t kMaxExpressionDepth = 150;
inline constexpr uint32_t kMaxStatementDepth = 60;

struct Limits {
  uint64_t steps = 10'000'000;  ///< Nodes visited, plus work on long values.
  size_t output_bytes = kMaxStringBytes;
  int depth = 800;  ///< Nested evaluations, macros included.
};

class Template {
 public:
  /// Errors: kInvalidArgument or kUnimplemented, with "line N".
  static Result<Template> Parse(std::string_view source);

  /// Renders with these variables. Errors carry "line N".
  Result<Text> Render(const std::vector<std::pair<std::string, Value>>& variables,
                      const Clock& clock, const Limits& limits = {}) const;

  /// True if the source mentions a variable of that name.
  bool Mentions(std::string_view name) const { return symbols_.contains(std::string(name)); }

 private:
  friend class Parser;
  friend class Interpreter;
  Body body_;
  std::unordered_map<std::string, Symbol> symbols_;
  std::vector<std::string> names_;  ///< [symbol]
};

}  // namespace ballast::jinja

#endif  // BALLAST_TEXT_JINJA_TEMPLATE_H_
