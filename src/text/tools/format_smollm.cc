// Role: the calls of SmolLM2: a JSON list between tags. Its template shows no tools, so they are
// described in the system message.
#include "text/tools/tool_format.h"

namespace ballast {

const ToolFormat kSmolFormat = {
    .name = "smollm2",
    .opening = "<tool_call>",
    .block_open = "[",
    .before_name = "{\"name\": \"",
    .before_arguments = "\", \"arguments\": ",
    .after_arguments = "}",
    .separator = ", ",
    .closing = "]</tool_call>",
    .block_separator = "\n",
    .parallel = true,
    .opening_is_call = false,
    .control_opening = "",
    .instructions =
        "You can call the functions described below, one JSON description a line. Call what helps "
        "to answer the question and write nothing else then:\n<tool_call>[{\"name\": "
        "\"FUNCTION\", \"arguments\": {\"ARGUMENT\": VALUE}}]</tool_call>\nThe results come back "
        "between <tool_response> tags. When no function fits, answer in plain text.",
    .result_open = "<tool_response>\n",
    .result_close = "\n</tool_response>",
};

}  // namespace ballast
