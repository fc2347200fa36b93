// Role: the calls of Llama 3.1 and later: a bare JSON object with "parameters", sometimes after the
// control token <|python_tag|>. One call a reply.
#include "text/tools/tool_format.h"

namespace ballast {

const ToolFormat kLlama3Format = {
    .name = "llama3",
    .opening = "{\"name\": \"",
    .block_open = "",
    .before_name = "",
    .before_arguments = "\", \"parameters\": ",
    .after_arguments = "}",
    .separator = "",
    .closing = "",
    .block_separator = "",
    .parallel = false,
    .opening_is_call = true,
    .control_opening = "<|python_tag|>",
    .instructions =
        "You can call the functions described below, one JSON description a line. To call one, "
        "write only this:\n{\"name\": \"FUNCTION\", \"parameters\": {\"ARGUMENT\": VALUE}}\nWhen "
        "no function is needed, answer in plain text.",
    .result_open = "",
    .result_close = "",
};

}  // namespace ballast
