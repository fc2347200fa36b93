// Role: typed, checked access to a model's metadata: GGUF key-values in place, or the same keys
// made from a config.json. Values point into memory that the owner (a WeightSource) keeps alive.
// Thread: immutable once its owner is built; any thread may read.
#ifndef BALLAST_WEIGHTS_METADATA_H_
#define BALLAST_WEIGHTS_METADATA_H_

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace ballast {

/// GGUF's value types, with GGUF's numbers.
enum class MetaType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kMetaTypeCount = 13;

/// "u32", "string", …
std::string_view MetaTypeName(MetaType type);
/// Bytes of a fixed-size type; 0 for strings and arrays.
size_t MetaTypeBytes(MetaType type);

/// One value, still encoded (little endian, unaligned). Strings in arrays are a u64 length and
/// bytes.
struct MetaValue {
  MetaType type = MetaType::kU8;
  MetaType element_type = MetaType::kU8;  // arrays only
  uint64_t count = 0;                     // arrays only: elements
  std::span<const std::byte> bytes;       // the value; a string's text; an array's elements
};

/// Ordered key-values. Errors of every getter name the file and the key:
/// kNotFound when the key is absent, kInvalidArgument for another type or a value out of range.
class Metadata {
 public:
  /// @param file shown in front of every message.
  explicit Metadata(std::string file = {}) : file_(std::move(file)) {}

  /// Adds an entry whose key and bytes outlive this object. False if the key exists already.
  bool Add(std::string_view key, const MetaValue& value);

  // Entries with storage of their own, for values that are not in a GGUF file. A key that exists
  // is kept as it is.
  void AddString(std::string_view key, std::string_view value);
  void AddU64(std::string_view key, uint64_t value);
  void AddI64(std::string_view key, int64_t value);
  void AddF64(std::string_view key, double value);
  void AddBool(std::string_view key, bool value);
  void AddBoolArray(std::string_view key, const std::vector<bool>& values);

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  /// Null if absent.
  const MetaValue* Find(std::string_view key) const;
  /// In the file's order.
  const std::vector<std::pair<std::string_view, MetaValue>>& entries() const { return entries_; }

  Result<std::string_view> GetString(std::string_view key) const;
  /// Any integer type; negative values are errors.
  Result<uint64_t> GetU64(std::string_view key) const;
  /// Any integer type that fits.
  Result<int64_t> GetI64(std::string_view key) const;
  /// An integer in [min, max]; the message names both.
  Result<int64_t> GetI64In(std::string_view key, int64_t min, int64_t max) const;
  /// f32, f64 or any integer; must be finite.
  Result<double> GetF64(std::string_view key) const;
  Result<bool> GetBool(std::string_view key) const;

  // The same with a value for absent keys; a present key of the wrong type is still an error.
  Result<std::string_view> GetStringOr(std::string_view key, std::string_view absent) const;
  Result<uint64_t> GetU64Or(std::string_view key, uint64_t absent) const;
  Result<int64_t> GetI64InOr(std::string_view key, int64_t min, int64_t max, int64_t absent) const;
  Result<double> GetF64Or(std::string_view key, double absent) const;
  Result<bool> GetBoolOr(std::string_view key, bool absent) const;

  /// Views into the file, not copied. Cost: one pass, about 1 ms for 150,000 strings.
  Result<std::vector<std::string_view>> GetStringArray(std::string_view key) const;
  /// f32 or f64 elements.
  Result<std::vector<float>> GetF32Array(std::string_view key) const;
  /// Integer elements that fit 32 bits.
  Result<std::vector<int32_t>> GetI32Array(std::string_view key) const;
  Result<std::vector<bool>> GetBoolArray(std::string_view key) const;

  const std::string& file() const { return file_; }

 private:
  Result<const MetaValue*> Require(std::string_view key) const;
  Result<const MetaValue*> RequireArray(std::string_view key) const;
  Error WrongType(std::string_view key, const MetaValue& value, std::string_view wanted) const;
  std::string_view Keep(std::string bytes);
  void AddOwned(std::string_view key, MetaType type, std::string bytes);

  std::string file_;
  std::vector<std::pair<std::string_view, MetaValue>> entries_;
  std::unordered_map<std::string_view, size_t> index_;
  std::deque<std::string> owned_;
};

}  // namespace ballast

#endif  // BALLAST_WEIGHTS_METADATA_H_
