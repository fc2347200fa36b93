// Role: the calls of Hermes and Qwen: one JSON object between tags, a block for each call.
#include "text/tools/tool_format.h"

namespace ballast {

const ToolFormat kHermesFormat = {
    .name = "hermes",
    .opening = "<tool_call>",
    .block_open = "\n",
    .before_name = "{\"name\": \"",
    .before_arguments = "\", \"arguments\": ",
    .after_arguments = "}",
    .separator = "",
    .closing = "\n</tool_call>",
    .block_separator = "\n",
    .parallel = true,
    .opening_is_call = false,
    .control_opening = "",
    .instructions =
        "You can call the functions described below, one JSON description a line. Call one when "
        "it helps to answer. To call a function, write only this:\n<tool_call>\n{\"name\": "
        "\"FUNCTION\", \"arguments\": {\"ARGUMENT\": VALUE}}\n</tool_call>\nThe result comes back "
        "between <tool_response> tags. When no function is needed, answer in plain text.",
    .result_open = "<tool_response>\n",
    .result_close = "\n</tool_response>",
};

}  // namespace ballast
