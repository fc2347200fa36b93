// Role: tools for models whose chat template knows none: a description in the system message, calls
// in the history as the text they were, results in the user's turn.
// Thread: pure functions.
#ifndef BALLAST_TEXT_TOOLS_INJECT_H_
#define BALLAST_TEXT_TOOLS_INJECT_H_

#include "base/json.h"
#include "text/tools/tool_format.h"

namespace ballast {

/// `messages` without roles and members that such a template would drop. `tools` (an array, may be
/// empty) is described in the first system message, which is made if there is none. Arguments in
/// the history must be objects.
Json InjectTools(const ToolFormat& format, const Json& messages, const Json& tools);

}  // namespace ballast

#endif  // BALLAST_TEXT_TOOLS_INJECT_H_
