// Role: what acting request fields hold and which must be there, for /openapi.json. The parsers
// decide; tests/e2e sends values beyond every type and limit here and expects a refusal.
// Thread: immutable.
#ifndef BALLAST_SERVER_FIELD_TYPES_H_
#define BALLAST_SERVER_FIELD_TYPES_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "server/fields.h"

namespace ballast {

/// JSON Schema of an acting field; null is allowed unless the field is required. {} if anything
/// goes.
Json FieldTypeSchema(std::string_view name, Endpoints endpoint);

/// True if a body without the field is refused.
bool IsRequiredField(std::string_view name, Endpoints endpoint);

/// Acting fields without a type, and types of no acting field: for the test that there are none.
std::vector<std::string> MistypedFields();

}  // namespace ballast

#endif  // BALLAST_SERVER_FIELD_TYPES_H_
