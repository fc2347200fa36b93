// Role: typed reads of JSON members for request bodies; each names the field, its value and its
// limits. Thread: pure functions.
#ifndef BALLAST_SERVER_JSON_READ_H_
#define BALLAST_SERVER_JSON_READ_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/json.h"
#include "server/api_error.h"

namespace ballast {

/// The member, or null when it is absent or JSON's null.
const Json* FindMember(const Json& object, std::string_view name);

/// A short rendering of a value for messages.
std::string ShowJson(const Json& value);

// Each leaves `out` alone when the member is absent or null.
ApiStatus ReadBool(const Json& object, std::string_view name, bool& out);
ApiStatus ReadString(const Json& object, std::string_view name, std::string& out);
ApiStatus ReadInt(const Json& object, std::string_view name, int64_t min, int64_t max,
                  int64_t& out);
ApiStatus ReadFloat(const Json& object, std::string_view name, double min, double max, float& out);

/// One integer within [min, max]; `path` names it in errors.
ApiResult<int64_t> IntWithin(const Json& value, std::string_view path, int64_t min, int64_t max);
/// One number within [min, max].
ApiResult<double> NumberWithin(const Json& value, std::string_view path, double min, double max);
/// An array of token ids below `vocab`.
ApiResult<std::vector<TokenId>> TokenArray(const Json& value, std::string_view path, int32_t vocab);

}  // namespace ballast

#endif  // BALLAST_SERVER_JSON_READ_H_
