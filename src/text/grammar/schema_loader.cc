#include "text/grammar/schema_loader.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "text/grammar/limits.h"
#include "text/grammar/regex.h"

namespace ballast::grammar {

bool FlatSchema::Trivial() const {
  return !never && types == kAllTypes && all_of.empty() && groups.empty() && !values &&
         number.plain() && min_length == 0 && max_length < 0 && patterns.empty() &&
         prefix.empty() && items == kNoSchema && min_items == 0 && max_items < 0 &&
         properties.empty() && pattern_properties.empty() && additional == kNoSchema &&
         property_names == kNoSchema && required.empty() && min_properties == 0 &&
         max_properties < 0;
}

SchemaId FlatSchema::Property(std::string_view name) const {
  for (const auto& [key, id] : properties) {
    if (key == name) return id;
  }
  return kNoSchema;
}

std::vector<SchemaId> FlatSchema::Member(std::string_view name) const {
  std::vector<SchemaId> out;
  if (const SchemaId id = Property(name); id != kNoSchema) out.push_back(id);
  const std::string body = JsonBody(name);
  for (const auto& [pattern, id] : pattern_properties) {
    if (pattern.dfa->Accepts(body)) out.push_back(id);
  }
  if (out.empty() && additional != kNoSchema) out.push_back(additional);
  return out;
}

SchemaId SchemaLoader::Add(FlatSchema flat) {
  flats_.push_back(std::move(flat));
  return static_cast<SchemaId>(flats_.size()) - 1;
}

SchemaId SchemaLoader::True() {
  if (true_ == kNoSchema) true_ = Add({});
  return true_;
}

Result<SchemaId> SchemaLoader::LoadRoot() { return Load(root_, ""); }

namespace {

std::string PointerToken(std::string_view key) {
  std::string out = "/";
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Shown(const Json& value) {
  std::string text = DumpJson(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// They describe; they never refuse an instance.
constexpr std::string_view kAnnotations[] = {"title",     "description", "default",     "examples",
                                             "$comment",  "$defs",       "definitions", "readOnly",
                                             "writeOnly", "deprecated",  "$anchor"};

}  // namespace

/// Reads the keywords of one schema object into a FlatSchema.
class SchemaReader {
 public:
  SchemaReader(SchemaLoader* loader, std::string path) : loader_(loader) {
    flat_.path = std::move(path);
  }

  Result<FlatSchema> Read(const Json& schema) {
    for (const auto& [key, value] : schema.items()) {
      key_ = key;
      const auto known = std::find_if(std::begin(kKeywords), std::end(kKeywords),
                                      [&](const Keyword& k) { return k.name == key_; });
      if (known != std::end(kKeywords)) {
        RETURN_IF_ERROR((this->*known->read)(value));
        continue;
      }
      if (std::find(std::begin(kAnnotations), std::end(kAnnotations), key) ==
          std::end(kAnnotations)) {
        return Refused("is not supported");
      }
    }
    RETURN_IF_ERROR(Conditional(schema));
    return std::move(flat_);
  }

 private:
  using Member = Status (SchemaReader::*)(const Json&);
  struct Keyword {
    std::string_view name;
    Member read;
  };
  static const Keyword kKeywords[36];

  std::string Where() const { return flat_.path + PointerToken(key_); }
  Error Refused(std::string_view why) const {
    Error error = Unimplemented("schema keyword '{}' at '{}' {}", key_, flat_.path, why);
    error.reason = key_;
    return error;
  }
  Error Bad(const Json& value, std::string_view wanted) const {
    return InvalidArgument("schema keyword '{}' at '{}' is {}, not {}", key_, flat_.path,
                           Shown(value), wanted);
  }
  Error Wrap(Error error) const {
    if (error.code == Code::kUnimplemented && error.reason.empty()) error.reason = key_;
    return std::move(error).WithContext("schema keyword '" + key_ + "' at '" + flat_.path + "'");
  }

  Result<SchemaId> Sub(const Json& schema, std::string_view extra = {}) {
    return loader_->Load(schema, Where() + std::string(extra));
  }

  Result<std::vector<SchemaId>> SubList(const Json& value) {
    if (!value.is_array() || value.empty()) return Bad(value, "a non-empty array of schemas");
    std::vector<SchemaId> out;
    for (size_t i = 0; i < value.size(); ++i) {
      ASSIGN_OR_RETURN(const SchemaId id, Sub(value[i], "/" + std::to_string(i)));
      out.push_back(id);
    }
    return out;
  }

  Result<int64_t> Count(const Json& value) {
    const bool whole = value.is_number_integer() || value.is_number_unsigned() ||
                       (value.is_number_float() &&
                        value.get<double>() == static_cast<double>(static_cast<int64_t>(
                                                   std::clamp(value.get<double>(), -1e15, 1e15))));
    if (!whole || value.get<double>() < 0) return Bad(value, "a count");
    if (value.get<double>() > static_cast<double>(kMaxCount)) {
      return ResourceExhausted("schema keyword '{}' at '{}' is {}, the limit is {}", key_,
                               flat_.path, Shown(value), kMaxCount);
    }
    return static_cast<int64_t>(value.get<double>());
  }

  Status SetCount(const Json& value, int64_t* out) {
    ASSIGN_OR_RETURN(*out, Count(value));
    return OkStatus();
  }
  Status MinLength(const Json& v) { return SetCount(v, &flat_.min_length); }
  Status MaxLength(const Json& v) { return SetCount(v, &flat_.max_length); }
  Status MinItems(const Json& v) { return SetCount(v, &flat_.min_items); }
  Status MaxItems(const Json& v) { return SetCount(v, &flat_.max_items); }
  Status MinProperties(const Json& v) { return SetCount(v, &flat_.min_properties); }
  Status MaxProperties(const Json& v) { return SetCount(v, &flat_.max_properties); }

  Status Type(const Json& value) {
    static constexpr std::pair<std::string_view, uint32_t> kNames[] = {
        {"null", kNull},
        {"boolean", kBoolean},
        {"integer", kInteger},
        {"string", kStringType},
        {"array", kArrayType},
        {"object", kObjectType},
        {"number", kInteger | kFraction}};
    const auto bit = [&](const Json& name) -> uint32_t {
      for (const auto& [text, bits] : kNames) {
        if (name.is_string() && name.get_ref<const std::string&>() == text) return bits;
      }
      return 0;
    };
    uint32_t types = 0;
    const Json list = value.is_array() ? value : Json::array({value});
    for (const Json& name : list) {
      if (bit(name) == 0) return Bad(name, "a type");
      types |= bit(name);
    }
    if (types == 0) return Bad(value, "a type");
    flat_.types &= types;
    return OkStatus();
  }

  Status Enum(const Json& value) {
    if (!value.is_array()) return Bad(value, "an array");
    if (value.size() > kMaxEnumValues) {
      return ResourceExhausted("schema keyword 'enum' at '{}' has {} values, the limit is {}",
                               flat_.path, value.size(), kMaxEnumValues);
    }
    return Values(std::vector<Json>(value.begin(), value.end()));
  }
  Status Const(const Json& value) { return Values({value}); }
  Status Values(std::vector<Json> values) {
    if (!flat_.values) {
      flat_.values = std::move(values);
      return OkStatus();
    }
    FlatSchema other;  // enum beside const: both hold
    other.path = flat_.path;
    other.values = std::move(values);
    flat_.all_of.push_back(loader_->Add(std::move(other)));
    return OkStatus();
  }

  Result<Decimal> Number(const Json& value) {
    if (!value.is_number()) return Bad(value, "a number");
    auto decimal = Decimal::From(value);
    if (!decimal) return Wrap(decimal.error());
    return *std::move(decimal);
  }
  /// `minimum` beside `exclusiveMinimum`: the tighter one counts.
  Status Low(const Json& value, bool open) {
    ASSIGN_OR_RETURN(Decimal d, Number(value));
    NumberSpec& n = flat_.number;
    const auto order = n.lo ? d.Compare(*n.lo) : std::strong_ordering::greater;
    if (order > 0 || (order == 0 && open)) n.lo = std::move(d), n.lo_open = open;
    return OkStatus();
  }
  Status High(const Json& value, bool open) {
    ASSIGN_OR_RETURN(Decimal d, Number(value));
    NumberSpec& n = flat_.number;
    const auto order = n.hi ? d.Compare(*n.hi) : std::strong_ordering::less;
    if (order < 0 || (order == 0 && open)) n.hi = std::move(d), n.hi_open = open;
    return OkStatus();
  }
  Status Minimum(const Json& v) { return Low(v, false); }
  Status ExclusiveMinimum(const Json& v) { return Low(v, true); }
  Status Maximum(const Json& v) { return High(v, false); }
  Status ExclusiveMaximum(const Json& v) { return High(v, true); }
  Status MultipleOf(const Json& value) {
    ASSIGN_OR_RETURN(Decimal d, Number(value));
    if (d.zero() || d.negative) return Bad(value, "greater than zero");
    NumberSpec probe;
    probe.multiple = d;
    if (auto lcm = LeastCommonMultiple(d, d); !lcm) return Wrap(lcm.error());
    flat_.number.multiple = std::move(d);
    return OkStatus();
  }

  Result<StringPattern> Regex(const std::string& source) {
    auto& cached = loader_->patterns_[source];
    if (cached == nullptr) {
      auto dfa = CompileRegexDfa(source, Anchor::kSearch, Spelling::kJson);
      if (!dfa) {
        loader_->patterns_.erase(source);
        return Wrap(dfa.error());
      }
      loader_->pattern_states_ += dfa->num_states();
      if (loader_->pattern_states_ > kMaxPatternStates) {
        return Wrap(ResourceExhausted("the patterns of the schema need more than {} states",
                                      kMaxPatternStates));
      }
      cached = std::make_shared<const Dfa>(*std::move(dfa));
    }
    return StringPattern{cached, false, nullptr};
  }
  Status Pattern(const Json& value) {
    if (!value.is_string()) return Bad(value, "a string");
    ASSIGN_OR_RETURN(StringPattern pattern, Regex(value.get_ref<const std::string&>()));
    flat_.patterns.push_back(std::move(pattern));
    return OkStatus();
  }
  Status Format(const Json& value) {
    if (!value.is_string()) return Bad(value, "a string");
    auto pattern = FormatPattern(value.get_ref<const std::string&>());
    if (!pattern) return Wrap(pattern.error());
    flat_.patterns.push_back(*std::move(pattern));
    return OkStatus();
  }

  Status PrefixItems(const Json& value) {
    ASSIGN_OR_RETURN(flat_.prefix, SubList(value));
    return OkStatus();
  }
  Status Items(const Json& value) {
    if (value.is_array()) return Refused("as an array belongs to older drafts; use 'prefixItems'");
    ASSIGN_OR_RETURN(flat_.items, Sub(value));
    return OkStatus();
  }
  Status UniqueItems(const Json& value) {
    if (!value.is_boolean()) return Bad(value, "a boolean");
    if (value.get<bool>()) return Refused("with the value true is not supported");
    return OkStatus();
  }

  Status CheckProperties(size_t count) {
    if (count <= kMaxProperties) return OkStatus();
    return ResourceExhausted("schema keyword '{}' at '{}' names {} properties, the limit is {}",
                             key_, flat_.path, count, kMaxProperties);
  }
  Status Properties(const Json& value) {
    if (!value.is_object()) return Bad(value, "an object");
    RETURN_IF_ERROR(CheckProperties(value.size()));
    for (const auto& [name, schema] : value.items()) {
      ASSIGN_OR_RETURN(const SchemaId id, Sub(schema, PointerToken(name)));
      flat_.properties.emplace_back(name, id);
    }
    return OkStatus();
  }
  Status PatternProperties(const Json& value) {
    if (!value.is_object()) return Bad(value, "an object");
    for (const auto& [pattern, schema] : value.items()) {
      ASSIGN_OR_RETURN(StringPattern compiled, Regex(pattern));
      ASSIGN_OR_RETURN(const SchemaId id, Sub(schema, PointerToken(pattern)));
      flat_.pattern_properties.emplace_back(std::move(compiled), id);
    }
    return OkStatus();
  }
  Status AdditionalProperties(const Json& value) {
    ASSIGN_OR_RETURN(flat_.additional, Sub(value));
    return OkStatus();
  }
  Status PropertyNames(const Json& value) {
    ASSIGN_OR_RETURN(flat_.property_names, Sub(value));
    return OkStatus();
  }
  Result<std::vector<std::string>> Names(const Json& value) {
    if (!value.is_array()) return Bad(value, "an array of names");
    RETURN_IF_ERROR(CheckProperties(value.size()));
    std::vector<std::string> out;
    for (const Json& name : value) {
      if (!name.is_string()) return Bad(value, "an array of names");
      out.push_back(name.get<std::string>());
    }
    return out;
  }
  Status Required(const Json& value) {
    ASSIGN_OR_RETURN(flat_.required, Names(value));
    return OkStatus();
  }

  /// "`name` is absent" as a schema (of objects; other values satisfy it).
  SchemaId Absent(const std::string& name) {
    FlatSchema never, absent;
    never.never = true;
    absent.path = flat_.path;
    absent.properties.emplace_back(name, loader_->Add(std::move(never)));
    return loader_->Add(std::move(absent));
  }
  Status DependentRequired(const Json& value) {
    if (!value.is_object()) return Bad(value, "an object");
    for (const auto& [name, list] : value.items()) {
      FlatSchema present;
      present.path = flat_.path;
      ASSIGN_OR_RETURN(present.required, Names(list));
      const SchemaId with = loader_->Add(std::move(present));
      flat_.groups.push_back({{Absent(name), with}, false, Where()});
    }
    return OkStatus();
  }
  Status DependentSchemas(const Json& value) {
    if (!value.is_object()) return Bad(value, "an object");
    for (const auto& [name, schema] : value.items()) {
      ASSIGN_OR_RETURN(const SchemaId then, Sub(schema, PointerToken(name)));
      flat_.groups.push_back({{Absent(name), then}, false, Where()});
    }
    return OkStatus();
  }

  Status AllOf(const Json& value) {
    ASSIGN_OR_RETURN(const std::vector<SchemaId> all, SubList(value));
    flat_.all_of.insert(flat_.all_of.end(), all.begin(), all.end());
    return OkStatus();
  }
  Status Group(const Json& value, bool exclusive) {
    ASSIGN_OR_RETURN(std::vector<SchemaId> options, SubList(value));
    flat_.groups.push_back({std::move(options), exclusive, Where()});
    return OkStatus();
  }
  Status AnyOf(const Json& value) { return Group(value, false); }
  Status OneOf(const Json& value) { return Group(value, true); }
  Status NotKeyword(const Json& value) {
    ASSIGN_OR_RETURN(const SchemaId inner, Sub(value));
    auto opposite = loader_->Not(inner);
    if (!opposite) return NotError(opposite.error());
    flat_.all_of.push_back(*opposite);
    return OkStatus();
  }
  Error NotError(Error error) const {
    if (error.code == Code::kUnimplemented) error.reason = key_;
    return std::move(error).WithContext("schema keyword '" + key_ + "' at '" + flat_.path + "'");
  }
  Status IfThenElse(const Json&) { return OkStatus(); }
  /// if/then/else: (if and then) or (not if and else).
  Status Conditional(const Json& schema) {
    const auto condition = schema.find("if");
    const auto then = schema.find("then"), otherwise = schema.find("else");
    if (condition == schema.end() || (then == schema.end() && otherwise == schema.end())) {
      return OkStatus();
    }
    key_ = "if";
    ASSIGN_OR_RETURN(const SchemaId test, Sub(*condition));
    auto opposite = loader_->Not(test);
    if (!opposite) return NotError(opposite.error());
    FlatSchema yes, no;
    yes.path = no.path = flat_.path;
    yes.all_of = {test};
    no.all_of = {*opposite};
    if (then != schema.end()) {
      key_ = "then";
      ASSIGN_OR_RETURN(const SchemaId id, Sub(*then));
      yes.all_of.push_back(id);
    }
    if (otherwise != schema.end()) {
      key_ = "else";
      ASSIGN_OR_RETURN(const SchemaId id, Sub(*otherwise));
      no.all_of.push_back(id);
    }
    const SchemaId a = loader_->Add(std::move(yes)), b = loader_->Add(std::move(no));
    flat_.groups.push_back({{a, b}, false, flat_.path + "/if"});
    return OkStatus();
  }

  Status Ref(const Json& value) {
    if (!value.is_string()) return Bad(value, "a string");
    auto target = loader_->Resolve(value.get_ref<const std::string&>(), flat_.path);
    if (!target) return Wrap(target.error());
    const std::string& text = value.get_ref<const std::string&>();
    ASSIGN_OR_RETURN(const SchemaId id, loader_->Load(**target, text.substr(1)));
    flat_.all_of.push_back(id);
    return OkStatus();
  }
  /// Older drafts are read as this one: the keywords kept here mean the same, except `items` as an
  /// array, which is refused. A meta-schema of someone's own could mean anything.
  Status Dialect(const Json& value) {
    const std::string text = value.is_string() ? value.get<std::string>() : std::string();
    for (const std::string_view start :
         {"https://json-schema.org/draft/", "http://json-schema.org/draft-",
          "http://json-schema.org/schema"}) {
      if (text.starts_with(start)) return OkStatus();
    }
    return Refused("names a dialect that is not known");
  }
  Status Id(const Json&) {
    if (!flat_.path.empty()) return Refused("below the root changes what references mean");
    return OkStatus();
  }

  SchemaLoader* loader_;
  FlatSchema flat_;
  std::string key_;
};

const SchemaReader::Keyword SchemaReader::kKeywords[36] = {
    {"type", &SchemaReader::Type},
    {"enum", &SchemaReader::Enum},
    {"const", &SchemaReader::Const},
    {"properties", &SchemaReader::Properties},
    {"required", &SchemaReader::Required},
    {"additionalProperties", &SchemaReader::AdditionalProperties},
    {"patternProperties", &SchemaReader::PatternProperties},
    {"propertyNames", &SchemaReader::PropertyNames},
    {"minProperties", &SchemaReader::MinProperties},
    {"maxProperties", &SchemaReader::MaxProperties},
    {"dependentRequired", &SchemaReader::DependentRequired},
    {"dependentSchemas", &SchemaReader::DependentSchemas},
    {"items", &SchemaReader::Items},
    {"prefixItems", &SchemaReader::PrefixItems},
    {"minItems", &SchemaReader::MinItems},
    {"maxItems", &SchemaReader::MaxItems},
    {"uniqueItems", &SchemaReader::UniqueItems},
    {"minLength", &SchemaReader::MinLength},
    {"maxLength", &SchemaReader::MaxLength},
    {"pattern", &SchemaReader::Pattern},
    {"format", &SchemaReader::Format},
    {"minimum", &SchemaReader::Minimum},
    {"maximum", &SchemaReader::Maximum},
    {"exclusiveMinimum", &SchemaReader::ExclusiveMinimum},
    {"exclusiveMaximum", &SchemaReader::ExclusiveMaximum},
    {"multipleOf", &SchemaReader::MultipleOf},
    {"allOf", &SchemaReader::AllOf},
    {"anyOf", &SchemaReader::AnyOf},
    {"oneOf", &SchemaReader::OneOf},
    {"not", &SchemaReader::NotKeyword},
    {"if", &SchemaReader::IfThenElse},
    {"then", &SchemaReader::IfThenElse},
    {"else", &SchemaReader::IfThenElse},
    {"$ref", &SchemaReader::Ref},
    {"$id", &SchemaReader::Id},
    {"$schema", &SchemaReader::Dialect},
};

Result<SchemaId> SchemaLoader::Load(const Json& schema, std::string path) {
  if (const auto it = loaded_.find(&schema); it != loaded_.end()) return it->second;
  if (flats_.size() >= static_cast<size_t>(kMaxNodes)) {
    return ResourceExhausted("the schema has more than {} subschemas (at '{}')", kMaxNodes, path);
  }
  const SchemaId id = Add({});
  loaded_[&schema] = id;
  flats_[static_cast<size_t>(id)].loading = true;
  if (schema.is_boolean()) {
    flats_[static_cast<size_t>(id)].loading = false;
    flats_[static_cast<size_t>(id)].never = !schema.get<bool>();
    flats_[static_cast<size_t>(id)].path = std::move(path);
    return id;
  }
  if (!schema.is_object()) {
    return InvalidArgument("the schema at '{}' is {}, not an object or a boolean", path,
                           Shown(schema));
  }
  if (++load_depth_ > kMaxSchemaDepth) {
    return ResourceExhausted("schemas nest and refer deeper than the limit of {} at '{}'",
                             kMaxSchemaDepth, path);
  }
  ASSIGN_OR_RETURN(FlatSchema flat, SchemaReader(this, std::move(path)).Read(schema));
  --load_depth_;
  flats_[static_cast<size_t>(id)] = std::move(flat);
  return id;
}

namespace {

/// Undoes %xx, then ~1 and ~0. Nullopt if malformed.
std::optional<std::string> PointerKey(std::string_view token) {
  std::string raw, out;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '%') {
      raw += token[i];
      continue;
    }
    const auto hex = [&](size_t at) -> int {
      const char c = at < token.size() ? token[at] : '\0';
      return c >= '0' && c <= '9'                     ? c - '0'
             : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                      : -1;
    };
    if (hex(i + 1) < 0 || hex(i + 2) < 0) return std::nullopt;
    raw += static_cast<char>(hex(i + 1) * 16 + hex(i + 2));
    i += 2;
  }
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '~') {
      out += raw[i];
      continue;
    }
    if (i + 1 == raw.size() || (raw[i + 1] != '0' && raw[i + 1] != '1')) return std::nullopt;
    out += raw[++i] == '0' ? '~' : '/';
  }
  return out;
}

/// The subschema with `"$anchor": name`, searched where schemas may stand.
const Json* FindAnchor(const Json& schema, std::string_view name) {
  if (!schema.is_structured()) return nullptr;
  if (schema.is_object()) {
    for (const char* keyword : {"$anchor", "$dynamicAnchor"}) {
      const auto it = schema.find(keyword);
      if (it != schema.end() && it->is_string() && it->get_ref<const std::string&>() == name) {
        return &schema;
      }
    }
  }
  for (const auto& [key, value] : schema.items()) {
    if (schema.is_object() && (key == "enum" || key == "const")) continue;
    if (const Json* found = FindAnchor(value, name)) return found;
  }
  return nullptr;
}

}  // namespace

Result<const Json*> SchemaLoader::Resolve(const std::string& reference,
                                          const std::string& /*path*/) const {
  if (reference.empty() || reference[0] != '#') {
    return Unimplemented("'{}' is not a local reference ('#', '#/…' or '#anchor')",
                         reference.substr(0, 100));
  }
  if (reference.size() > 1 && reference[1] != '/') {
    const Json* found = FindAnchor(root_, std::string_view(reference).substr(1));
    if (found == nullptr) return InvalidArgument("no anchor is called '{}'", reference);
    return found;
  }
  const Json* at = &root_;
  size_t pos = 1;
  while (pos < reference.size()) {
    const size_t end = std::min(reference.find('/', pos + 1), reference.size());
    const auto key = PointerKey(std::string_view(reference).substr(pos + 1, end - pos - 1));
    const Json* next = nullptr;
    if (key && at->is_object()) {
      const auto it = at->find(*key);
      if (it != at->end()) next = &*it;
    } else if (key && at->is_array() && !key->empty() && key->size() < 7 &&
               key->find_first_not_of("0123456789") == std::string::npos) {
      const auto index = static_cast<size_t>(std::stoul(*key));
      if (index < at->size()) next = &(*at)[index];
    }
    if (next == nullptr) return InvalidArgument("'{}' leads nowhere", reference.substr(0, 100));
    at = next;
    pos = end;
  }
  return at;
}

}  // namespace ballast::grammar
