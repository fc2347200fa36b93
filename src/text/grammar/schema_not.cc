// The opposite of a schema, as a choice of schemas: what `not`, `if` and an overlapping `oneOf`
// need. Not every keyword's opposite has an automaton; those are refused by name.
#include <algorithm>

#include "text/grammar/limits.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_loader.h"

namespace ballast::grammar {
namespace {

FlatSchema OfTypes(uint32_t types) {
  FlatSchema out;
  out.types = types;
  return out;
}

Error NoOpposite(std::string_view keyword, const std::string& path) {
  Error error = Unimplemented("the opposite of '{}' at '{}' is not supported", keyword, path);
  error.reason = std::string(keyword);
  return error;
}

}  // namespace

Status SchemaLoader::NotScalars(const FlatSchema& f, std::vector<SchemaId>* options) {
  const auto number = [&](auto set) {
    FlatSchema out = OfTypes(kInteger | kFraction);
    set(&out.number);
    options->push_back(Add(std::move(out)));
  };
  if (f.number.lo) {
    number([&](NumberSpec* n) { n->hi = f.number.lo, n->hi_open = !f.number.lo_open; });
  }
  if (f.number.hi) {
    number([&](NumberSpec* n) { n->lo = f.number.hi, n->lo_open = !f.number.hi_open; });
  }
  if (f.number.multiple) return NoOpposite("multipleOf", f.path);
  if (f.min_length > 0) {
    FlatSchema out = OfTypes(kStringType);
    out.max_length = f.min_length - 1;
    options->push_back(Add(std::move(out)));
  }
  if (f.max_length >= 0) {
    FlatSchema out = OfTypes(kStringType);
    out.min_length = f.max_length + 1;
    options->push_back(Add(std::move(out)));
  }
  for (const StringPattern& pattern : f.patterns) {
    FlatSchema out = OfTypes(kStringType);
    out.patterns.push_back({pattern.dfa, !pattern.negated, nullptr});
    options->push_back(Add(std::move(out)));
  }
  return OkStatus();
}

Status SchemaLoader::NotContainers(const FlatSchema& f, std::vector<SchemaId>* options) {
  if (f.items != kNoSchema) return NoOpposite("items", f.path);
  if (!f.pattern_properties.empty()) return NoOpposite("patternProperties", f.path);
  if (f.property_names != kNoSchema) return NoOpposite("propertyNames", f.path);
  if (f.additional != kNoSchema) return NoOpposite("additionalProperties", f.path);
  const auto sized = [&](uint32_t type, int64_t min, int64_t max) {
    FlatSchema out = OfTypes(type);
    (type == kArrayType ? out.min_items : out.min_properties) = min;
    (type == kArrayType ? out.max_items : out.max_properties) = max;
    options->push_back(Add(std::move(out)));
  };
  if (f.min_items > 0) sized(kArrayType, 0, f.min_items - 1);
  if (f.max_items >= 0) sized(kArrayType, f.max_items + 1, -1);
  if (f.min_properties > 0) sized(kObjectType, 0, f.min_properties - 1);
  if (f.max_properties >= 0) sized(kObjectType, f.max_properties + 1, -1);
  for (size_t i = 0; i < f.prefix.size(); ++i) {
    ASSIGN_OR_RETURN(const SchemaId inner, Not(f.prefix[i]));
    FlatSchema out = OfTypes(kArrayType);
    out.min_items = static_cast<int64_t>(i) + 1;
    out.prefix.assign(i, True());
    out.prefix.push_back(inner);
    options->push_back(Add(std::move(out)));
  }
  for (const auto& [name, id] : f.properties) {
    ASSIGN_OR_RETURN(const SchemaId inner, Not(id));
    FlatSchema out = OfTypes(kObjectType);
    out.properties.emplace_back(name, inner);
    out.required.push_back(name);
    options->push_back(Add(std::move(out)));
  }
  for (const std::string& name : f.required) {
    FlatSchema never, out = OfTypes(kObjectType);
    never.never = true;
    out.properties.emplace_back(name, Add(std::move(never)));
    options->push_back(Add(std::move(out)));
  }
  return OkStatus();
}

/// A value that is none of the enum's: another type, or a scalar kept away from each of them.
Status SchemaLoader::NotValues(const FlatSchema& f, std::vector<SchemaId>* options) {
  FlatSchema out;
  for (const Json& value : *f.values) {
    if (value.is_structured()) return NoOpposite("const", f.path);
    if (value.is_null()) out.types &= ~static_cast<uint32_t>(kNull);
    FlatSchema apart;
    if (value.is_boolean()) {
      apart.types = kAllTypes & ~static_cast<uint32_t>(kBoolean);
      FlatSchema other;
      other.values = std::vector<Json>{Json(!value.get<bool>())};
      SchemaGroup group{{Add(std::move(apart)), Add(std::move(other))}, false, f.path};
      out.groups.push_back(std::move(group));
    } else if (value.is_string()) {
      Nfa nfa;
      const int32_t start = nfa.AddState(), end = nfa.AddState();
      nfa.AddText(start, JsonBody(value.get_ref<const std::string&>()), end);
      nfa.Accept(end);
      ASSIGN_OR_RETURN(Dfa dfa, Determinize(nfa, start, kMaxDfaStates));
      out.patterns.push_back({std::make_shared<const Dfa>(std::move(dfa)), true, nullptr});
    } else if (value.is_number()) {
      ASSIGN_OR_RETURN(const Decimal number, Decimal::From(value));
      FlatSchema below, above;
      below.number.hi = above.number.lo = number;
      below.number.hi_open = above.number.lo_open = true;
      SchemaGroup group{{Add(std::move(below)), Add(std::move(above))}, false, f.path};
      out.groups.push_back(std::move(group));
    }
  }
  options->push_back(Add(std::move(out)));
  return OkStatus();
}

Result<SchemaId> SchemaLoader::Not(SchemaId id) {
  if (++not_depth_ > kMaxSchemaDepth) {
    return ResourceExhausted("opposites of schemas nest deeper than the limit of {}",
                             kMaxSchemaDepth);
  }
  auto out = NotUncached(id);
  --not_depth_;
  return out;
}

Result<SchemaId> SchemaLoader::NotUncached(SchemaId id) {
  if (const auto it = negations_.find(id); it != negations_.end()) return it->second;
  if (flats_.size() >= static_cast<size_t>(kMaxNodes)) {
    return ResourceExhausted("the schema has more than {} subschemas", kMaxNodes);
  }
  if (flat(id).loading) {
    return Unimplemented("the opposite of a schema that contains it ('{}') is not supported",
                         flat(id).path);
  }
  // Entered first, so that a reference back to itself finds its own opposite.
  const SchemaId out = Add({});
  negations_[id] = out;
  const FlatSchema f = flat(id);  // a copy: adding schemas moves them
  std::vector<SchemaId> options;
  if (!f.never) {
    if (f.types != kAllTypes) {
      options.push_back(Add(OfTypes(kAllTypes & ~f.types)));
    }
    RETURN_IF_ERROR(NotScalars(f, &options));
    RETURN_IF_ERROR(NotContainers(f, &options));
    if (f.values) RETURN_IF_ERROR(NotValues(f, &options));
    for (const SchemaId all : f.all_of) {
      ASSIGN_OR_RETURN(const SchemaId inner, Not(all));
      options.push_back(inner);
    }
    for (const SchemaGroup& group : f.groups) {
      if (group.exclusive) return NoOpposite("oneOf", f.path);
      FlatSchema none;
      for (const SchemaId option : group.options) {
        ASSIGN_OR_RETURN(const SchemaId inner, Not(option));
        none.all_of.push_back(inner);
      }
      options.push_back(Add(std::move(none)));
    }
  }
  FlatSchema result;
  result.path = f.path;
  if (f.never) return negations_[id] = True();
  result.never = options.empty();
  if (!options.empty()) result.groups.push_back({std::move(options), false, f.path});
  flats_[static_cast<size_t>(out)] = std::move(result);
  return out;
}

}  // namespace ballast::grammar
