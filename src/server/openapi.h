// Role: the OpenAPI 3.1 document of the API, made from the route table and the field tables, so
// that it names what the server takes. Thread: pure.
#ifndef BALLAST_SERVER_OPENAPI_H_
#define BALLAST_SERVER_OPENAPI_H_

#include <span>
#include <string_view>

#include "base/json.h"

namespace ballast {

struct ApiRoute {
  std::string_view method;
  std::string_view path;  // with a final '/': a prefix, completed by {id}
  bool needs_key = false;
};

/// The document. Pages of the console are left out. Types and limits of fields come from
/// server/field_types.h; replies are not described.
Json OpenApiDocument(std::span<const ApiRoute> routes);

}  // namespace ballast

#endif  // BALLAST_SERVER_OPENAPI_H_
