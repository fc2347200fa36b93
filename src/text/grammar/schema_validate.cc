// The value side of a schema: evaluates it directly, without any automaton. The grammar uses this
// to pick the members of an enum; tests use it as the reference.
#include <algorithm>

#include "text/grammar/limits.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_loader.h"
#include "text/unicode.h"

namespace ballast::grammar {
namespace {

uint32_t TypeOf(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_string()) return kStringType;
  if (value.is_array()) return kArrayType;
  if (value.is_object()) return kObjectType;
  const auto number = Decimal::From(value);
  return number && number->IsInteger() ? kInteger : kFraction;
}

}  // namespace

bool JsonEqual(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    const auto x = Decimal::From(a), y = Decimal::From(b);
    return x && y && x->Compare(*y) == 0;
  }
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), JsonEqual);
  }
  if (a.is_object()) {
    for (const auto& [key, value] : a.items()) {
      const auto it = b.find(key);
      if (it == b.end() || !JsonEqual(value, *it)) return false;
    }
    return true;
  }
  return a == b;
}

bool SchemaLoader::ValidateNumber(const FlatSchema& flat, const Json& value) const {
  if (flat.number.plain()) return true;
  const auto number = Decimal::From(value);
  return number && flat.number.Contains(*number);
}

bool SchemaLoader::ValidateString(const FlatSchema& flat, const std::string& value) const {
  const auto length = static_cast<int64_t>(Utf8Length(value));
  if (length < flat.min_length || (flat.max_length >= 0 && length > flat.max_length)) return false;
  if (flat.patterns.empty()) return true;
  const std::string body = JsonBody(value);
  return std::all_of(flat.patterns.begin(), flat.patterns.end(),
                     [&](const StringPattern& p) { return p.dfa->Accepts(body) != p.negated; });
}

bool SchemaLoader::ValidateArray(const FlatSchema& flat, const Json& value, int depth) const {
  const auto size = static_cast<int64_t>(value.size());
  if (size < flat.min_items || (flat.max_items >= 0 && size > flat.max_items)) return false;
  for (size_t i = 0; i < value.size(); ++i) {
    const SchemaId item = i < flat.prefix.size() ? flat.prefix[i] : flat.items;
    if (item != kNoSchema && !Validate(item, value[i], depth + 1)) return false;
  }
  return true;
}

bool SchemaLoader::ValidateObject(const FlatSchema& flat, const Json& value, int depth) const {
  const auto size = static_cast<int64_t>(value.size());
  if (size < flat.min_properties || (flat.max_properties >= 0 && size > flat.max_properties)) {
    return false;
  }
  for (const std::string& name : flat.required) {
    if (!value.contains(name)) return false;
  }
  for (const auto& [name, member] : value.items()) {
    if (flat.property_names != kNoSchema && !Validate(flat.property_names, Json(name), depth + 1)) {
      return false;
    }
    for (const SchemaId id : flat.Member(name)) {
      if (!Validate(id, member, depth + 1)) return false;
    }
  }
  return true;
}

bool SchemaLoader::Validate(SchemaId id, const Json& value, int depth) const {
  // Deeper than any value: a reference that leads back to itself without consuming anything.
  if (depth > 4 * kMaxNesting) return true;
  const FlatSchema& f = flat(id);
  const uint32_t type = TypeOf(value);
  if (f.never || (f.types & type) == 0) return false;
  if (f.values && std::none_of(f.values->begin(), f.values->end(),
                               [&](const Json& v) { return JsonEqual(v, value); })) {
    return false;
  }
  if ((type & (kInteger | kFraction)) != 0 && !ValidateNumber(f, value)) return false;
  if (type == kStringType && !ValidateString(f, value.get_ref<const std::string&>())) return false;
  if (type == kArrayType && !ValidateArray(f, value, depth)) return false;
  if (type == kObjectType && !ValidateObject(f, value, depth)) return false;
  for (const SchemaId all : f.all_of) {
    if (!Validate(all, value, depth + 1)) return false;
  }
  for (const SchemaGroup& group : f.groups) {
    int64_t hits = 0;
    for (const SchemaId option : group.options) {
      hits += Validate(option, value, depth + 1) ? 1 : 0;
      if (hits > 0 && !group.exclusive) break;
    }
    if (group.exclusive ? hits != 1 : hits == 0) return false;
  }
  return true;
}

}  // namespace ballast::grammar
