// Role: visits the scalars of a JSON document without building a tree, for headers that may be
// large: no quadratic key lookups, no deep recursion. Thread: pure.
#ifndef BALLAST_WEIGHTS_JSON_WALK_H_
#define BALLAST_WEIGHTS_JSON_WALK_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ballast {

/// One scalar, or the end of an array or object (kEnd), whose own path it carries.
struct JsonLeaf {
  enum class Kind : uint8_t { kString, kUnsigned, kOther, kEndArray, kEndObject };
  Kind kind = Kind::kOther;
  std::string_view text;  // kString
  uint64_t number = 0;    // kUnsigned
};

/// Calls visit(path, leaf) for every leaf in order; `path` holds the keys from the root (arrays add
/// no key). Stops at the first error that `visit` returns. Errors: kInvalidArgument for malformed
/// JSON, a root that is no object, or nesting over max_depth.
Status WalkJson(std::string_view text, size_t max_depth, std::string_view label,
                const std::function<Status(std::span<const std::string>, const JsonLeaf&)>& visit);

}  // namespace ballast

#endif  // BALLAST_WEIGHTS_JSON_WALK_H_
