// Role: reads a JSON Schema document into flat records: keywords checked, references resolved,
// numbers exact, everything bounded. Keywords that would need a look beyond the automaton are
// refused here by name. Also evaluates a schema on a value, the reference for the automaton.
// Thread: one owner. The document must outlive the loader.
#ifndef BALLAST_TEXT_GRAMMAR_SCHEMA_LOADER_H_
#define BALLAST_TEXT_GRAMMAR_SCHEMA_LOADER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/grammar/dfa.h"
#include "text/grammar/number.h"

namespace ballast::grammar {

using SchemaId = int32_t;
inline constexpr SchemaId kNoSchema = -1;

/// Types as bits; a number is an integer or has a fraction.
enum TypeBit : uint32_t {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kFraction = 8,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kAllTypes = 127,
};

/// A choice among schemas: any of them, or exactly one.
struct SchemaGroup {
  std::vector<SchemaId> options;
  bool exclusive = false;
  std::string path;
};

/// A regular expression on strings, compiled for the JSON spelling.
struct StringPattern {
  std::shared_ptr<const Dfa> dfa;  ///< of the body
  bool negated = false;
  /// The same with its quotes, where it was made before (the formats are large).
  std::shared_ptr<const Dfa> quoted;
};

/// One schema object. What is absent does not constrain.
struct FlatSchema {
  std::string path;      ///< JSON pointer, "" for the root
  bool loading = false;  ///< its keywords are still being read
  bool never = false;
  uint32_t types = kAllTypes;
  std::vector<SchemaId> all_of;  ///< allOf and $ref
  std::vector<SchemaGroup> groups;
  std::optional<std::vector<Json>> values;  ///< enum or const
  NumberSpec number;
  int64_t min_length = 0, max_length = -1;  ///< −1: no limit, here and below
  std::vector<StringPattern> patterns;
  std::vector<SchemaId> prefix;
  SchemaId items = kNoSchema;
  int64_t min_items = 0, max_items = -1;
  std::vector<std::pair<std::string, SchemaId>> properties;  ///< in the author's order
  std::vector<std::pair<StringPattern, SchemaId>> pattern_properties;
  SchemaId additional = kNoSchema;
  SchemaId property_names = kNoSchema;
  std::vector<std::string> required;
  int64_t min_properties = 0, max_properties = -1;

  /// Whether it says nothing at all.
  bool Trivial() const;
  SchemaId Property(std::string_view name) const;
  /// What this schema alone asks of the member `name`.
  std::vector<SchemaId> Member(std::string_view name) const;
};

class SchemaLoader {
 public:
  explicit SchemaLoader(const Json& root) : root_(root) {}

  /// Loads the root and all that it can reach. Errors: kInvalidArgument, kUnimplemented or
  /// kResourceExhausted with the pointer, the keyword, the value and the limit.
  Result<SchemaId> LoadRoot();

  const FlatSchema& flat(SchemaId id) const { return flats_[static_cast<size_t>(id)]; }
  /// A schema without constraints.
  SchemaId True();
  /// Adds a schema that stands in no document.
  SchemaId Add(FlatSchema flat);
  /// The schema of all values that `id` refuses. Errors: kUnimplemented naming the keyword whose
  /// opposite has no automaton.
  Result<SchemaId> Not(SchemaId id);

  /// Whether `value` satisfies `id`. Cost: the size of the value × the schemas met.
  bool Validate(SchemaId id, const Json& value, int depth = 0) const;

 private:
  friend class SchemaReader;

  Result<SchemaId> NotUncached(SchemaId id);
  Result<SchemaId> Load(const Json& schema, std::string path);
  Result<const Json*> Resolve(const std::string& reference, const std::string& path) const;
  bool ValidateNumber(const FlatSchema& flat, const Json& value) const;
  bool ValidateString(const FlatSchema& flat, const std::string& value) const;
  bool ValidateArray(const FlatSchema& flat, const Json& value, int depth) const;
  bool ValidateObject(const FlatSchema& flat, const Json& value, int depth) const;
  Status NotScalars(const FlatSchema& flat, std::vector<SchemaId>* options);
  Status NotContainers(const FlatSchema& flat, std::vector<SchemaId>* options);
  Status NotValues(const FlatSchema& flat, std::vector<SchemaId>* options);

  const Json& root_;
  std::vector<FlatSchema> flats_;
  std::unordered_map<const Json*, SchemaId> loaded_;
  std::map<SchemaId, SchemaId> negations_;
  std::map<std::string, std::shared_ptr<const Dfa>> patterns_;
  SchemaId true_ = kNoSchema;
  int64_t pattern_states_ = 0;
  int load_depth_ = 0, not_depth_ = 0;
};

/// Equality of JSON Schema: 1 equals 1.0, members in any order.
bool JsonEqual(const Json& a, const Json& b);

/// A `format` as a pattern. Made once a process: 0.1 s for those with a time, else below 10 ms.
/// Any thread. Errors: kUnimplemented naming the format.
Result<StringPattern> FormatPattern(std::string_view format);

/// A string body with its quotes.
Result<Dfa> Quote(const Dfa& body);

/// The names that FormatPattern knows.
std::vector<std::string_view> FormatNames();

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_SCHEMA_LOADER_H_
