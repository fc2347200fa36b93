#include "text/jinja/template.h"

#include "text/jinja/parser.h"
#include "text/unicode.h"

namespace ballast::jinja {

Result<Template> Template::Parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return InvalidArgument("the chat template has {} bytes; the limit is {}", source.size(),
                           kMaxSourceBytes);
  }
  if (!IsValidUtf8(source)) return InvalidArgument("the chat template is not valid UTF-8");
  Template result;
  try {
    Parser(Lex(source), &result).Run();
  } catch (const Failure& failure) {
    return MakeError(failure.code, "template line {}: {}", failure.line, failure.message);
  }
  return result;
}

}  // namespace ballast::jinja
