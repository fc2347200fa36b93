// Role: what the surfaces over the chat share when they read a body. Thread: pure functions.
#ifndef BALLAST_SERVER_SURFACE_BLOCKS_H_
#define BALLAST_SERVER_SURFACE_BLOCKS_H_

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/api_error.h"

namespace ballast {

/// 400 unless every non-null member of `object` is one of `known`.
ApiStatus CheckMembers(const Json& object, const std::string& path,
                       std::initializer_list<std::string_view> known);
/// A member that must be a string. Errors: 400 `missing_field` or `invalid_type` with its path.
ApiResult<std::string> RequireString(const Json& object, std::string_view name,
                                     const std::string& path);
/// `object` itself must be a JSON object.
ApiStatus RequireObject(const Json& object, const std::string& path);
/// An error for a "type" that is known elsewhere but not here; `known` lists what is.
ApiError UnsupportedType(const std::string& path, const std::string& type, std::string_view known);
/// What a list of text parts may hold.
struct TextParts {
  std::string_view word;                            // what an API calls them: "parts", "blocks"
  std::initializer_list<std::string_view> types;    // known values of "type"
  std::string_view shown_types;                     // those that an error offers
  std::initializer_list<std::string_view> members;  // of a part
};
/// The text of one part, or a 400 with its path.
ApiResult<std::string> ReadTextPart(const Json& part, const std::string& path,
                                    const TextParts& known);
/// A string, or the texts of an array of parts joined by line ends.
ApiResult<std::string> ReadTextParts(const Json& content, const std::string& path,
                                     const TextParts& known);
/// Adds `more` to `text` on a line of its own.
void AppendLine(std::string& text, const std::string& more);

}  // namespace ballast

#endif  // BALLAST_SERVER_SURFACE_BLOCKS_H_
