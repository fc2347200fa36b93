#include "weights/metadata.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

namespace ballast {
namespace {

template <class T>
T LoadAs(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <class T>
std::string EncodeAs(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// An integer of any width with its sign, so that no conversion loses a value.
struct WideInt {
  uint64_t magnitude = 0;
  bool negative = false;
};

WideInt FromSigned(int64_t value) {
  if (value >= 0) return {static_cast<uint64_t>(value), false};
  return {~static_cast<uint64_t>(value) + 1, true};
}

std::optional<WideInt> LoadInteger(MetaType type, const std::byte* bytes) {
  switch (type) {
    case MetaType::kU8:
      return WideInt{LoadAs<uint8_t>(bytes), false};
    case MetaType::kU16:
      return WideInt{LoadAs<uint16_t>(bytes), false};
    case MetaType::kU32:
      return WideInt{LoadAs<uint32_t>(bytes), false};
    case MetaType::kU64:
      return WideInt{LoadAs<uint64_t>(bytes), false};
    case MetaType::kI8:
      return FromSigned(LoadAs<int8_t>(bytes));
    case MetaType::kI16:
      return FromSigned(LoadAs<int16_t>(bytes));
    case MetaType::kI32:
      return FromSigned(LoadAs<int32_t>(bytes));
    case MetaType::kI64:
      return FromSigned(LoadAs<int64_t>(bytes));
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> ToI64(const WideInt& value) {
  constexpr uint64_t kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (value.negative) {
    if (value.magnitude > kMax + 1) return std::nullopt;
    return static_cast<int64_t>(~value.magnitude + 1);
  }
  if (value.magnitude > kMax) return std::nullopt;
  return static_cast<int64_t>(value.magnitude);
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::string_view MetaTypeName(MetaType type) {
  static constexpr std::string_view kNames[kMetaTypeCount] = {
      "u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
      "bool", "string", "array", "u64", "i64", "f64"};
  const auto index = static_cast<uint32_t>(type);
  return index < kMetaTypeCount ? kNames[index] : "unknown";
}

size_t MetaTypeBytes(MetaType type) {
  static constexpr size_t kBytes[kMetaTypeCount] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const auto index = static_cast<uint32_t>(type);
  return index < kMetaTypeCount ? kBytes[index] : 0;
}

bool Metadata::Add(std::string_view key, const MetaValue& value) {
  if (!index_.emplace(key, entries_.size()).second) return false;
  entries_.emplace_back(key, value);
  return true;
}

std::string_view Metadata::Keep(std::string bytes) { return owned_.emplace_back(std::move(bytes)); }

void Metadata::AddOwned(std::string_view key, MetaType type, std::string bytes) {
  if (Has(key)) return;
  const std::string_view kept = Keep(std::move(bytes));
  MetaValue value{.type = type, .bytes = std::as_bytes(std::span(kept))};
  Add(Keep(std::string(key)), value);
}

void Metadata::AddString(std::string_view key, std::string_view value) {
  AddOwned(key, MetaType::kString, std::string(value));
}
void Metadata::AddU64(std::string_view key, uint64_t value) {
  AddOwned(key, MetaType::kU64, EncodeAs(value));
}
void Metadata::AddI64(std::string_view key, int64_t value) {
  AddOwned(key, MetaType::kI64, EncodeAs(value));
}
void Metadata::AddF64(std::string_view key, double value) {
  AddOwned(key, MetaType::kF64, EncodeAs(value));
}
void Metadata::AddBool(std::string_view key, bool value) {
  AddOwned(key, MetaType::kBool, std::string(1, value ? '\1' : '\0'));
}
void Metadata::AddBoolArray(std::string_view key, const std::vector<bool>& values) {
  if (Has(key)) return;
  std::string bytes;
  for (const bool value : values) bytes.push_back(value ? '\1' : '\0');
  const std::string_view kept = Keep(std::move(bytes));
  Add(Keep(std::string(key)), MetaValue{.type = MetaType::kArray,
                                        .element_type = MetaType::kBool,
                                        .count = values.size(),
                                        .bytes = std::as_bytes(std::span(kept))});
}

const MetaValue* Metadata::Find(std::string_view key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? nullptr : &entries_[it->second].second;
}

Result<const MetaValue*> Metadata::Require(std::string_view key) const {
  const MetaValue* value = Find(key);
  if (value == nullptr) return NotFound("'{}': metadata key '{}' is missing", file_, key);
  return value;
}

Result<const MetaValue*> Metadata::RequireArray(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetaValue* value, Require(key));
  if (value->type != MetaType::kArray) return WrongType(key, *value, "an array");
  return value;
}

Error Metadata::WrongType(std::string_view key, const MetaValue& value,
                          std::string_view wanted) const {
  if (value.type == MetaType::kArray) {
    return InvalidArgument("'{}': metadata key '{}' is an array of {}, expected {}", file_, key,
                           MetaTypeName(value.element_type), wanted);
  }
  return InvalidArgument("'{}': metadata key '{}' has type {}, expected {}", file_, key,
                         MetaTypeName(value.type), wanted);
}

Result<std::string_view> Metadata::GetString(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetaValue* value, Require(key));
  if (value->type != MetaType::kString) return WrongType(key, *value, "a string");
  return AsText(value->bytes);
}

Result<uint64_t> Metadata::GetU64(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetaValue* value, Require(key));
  const std::optional<WideInt> wide = LoadInteger(value->type, value->bytes.data());
  if (!wide) return WrongType(key, *value, "an integer");
  if (wide->negative) {
    return InvalidArgument("'{}': metadata key '{}' is -{}, must not be negative", file_, key,
                           wide->magnitude);
  }
  return wide->magnitude;
}

Result<int64_t> Metadata::GetI64(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetaValue* value, Require(key));
  const std::optional<WideInt> wide = LoadInteger(value->type, value->bytes.data());
  if (!wide) return WrongType(key, *value, "an integer");
  const std::optional<int64_t> narrow = ToI64(*wide);
  if (!narrow) {
    return InvalidArgument("'{}': metadata key '{}' is {}, over the limit of {}", file_, key,
                           wide->magnitude, std::numeric_limits<int64_t>::max());
  }
  return *narrow;
}

Result<int64_t> Metadata::GetI64In(std::string_view key, int64_t min, int64_t max) const {
  ASSIGN_OR_RETURN(const int64_t value, GetI64(key));
  if (value < min || value > max) {
    return InvalidArgument("'{}': metadata key '{}' is {}, must be in [{}, {}]", file_, key, value,
                           min, max);
  }
  return value;
}

Result<double> Metadata::GetF64(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetaValue* value, Require(key));
  double number = 0;
  if (value->type == MetaType::kF32) {
    number = static_cast<double>(LoadAs<float>(value->bytes.data()));
  } else if (value->type == MetaType::kF64) {
    number = LoadAs<double>(value->bytes.data());
  } else if (const auto wide = LoadInteger(value->type, value->bytes.data())) {
    number = static_cast<double>(wide->magnitude) * (wide->negative ? -1 : 1);
  } else {
    return WrongType(key, *value, "a number");
  }
  if (!std::isfinite(number)) {
    return InvalidArgument("'{}': metadata key '{}' is not finite", file_, key);
  }
  return number;
}

Result<bool> Metadata::GetBool(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetaValue* value, Require(key));
  if (value->type != MetaType::kBool) return WrongType(key, *value, "a bool");
  return LoadAs<uint8_t>(value->bytes.data()) != 0;
}

Result<std::string_view> Metadata::GetStringOr(std::string_view key,
                                               std::string_view absent) const {
  return Has(key) ? GetString(key) : Result<std::string_view>(absent);
}
Result<uint64_t> Metadata::GetU64Or(std::string_view key, uint64_t absent) const {
  return Has(key) ? GetU64(key) : Result<uint64_t>(absent);
}
Result<int64_t> Metadata::GetI64InOr(std::string_view key, int64_t min, int64_t max,
                                     int64_t absent) const {
  return Has(key) ? GetI64In(key, min, max) : Result<int64_t>(absent);
}
Result<double> Metadata::GetF64Or(std::string_view key, double absent) const {
  return Has(key) ? GetF64(key) : Result<double>(absent);
}
Result<bool> Metadata::GetBoolOr(std::string_view key, bool absent) const {
  return Has(key) ? GetBool(key) : Result<bool>(absent);
}

Result<std::vector<std::string_view>> Metadata::GetStringArray(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetaValue* value, RequireArray(key));
  if (value->element_type != MetaType::kString) return WrongType(key, *value, "strings");
  std::vector<std::string_view> strings;
  strings.reserve(value->count);
  // Lengths were checked when the file was opened.
  size_t pos = 0;
  for (uint64_t i = 0; i < value->count; ++i) {
    const auto length = LoadAs<uint64_t>(value->bytes.data() + pos);
    strings.push_back(AsText(value->bytes.subspan(pos + 8, length)));
    pos += 8 + length;
  }
  return strings;
}

Result<std::vector<float>> Metadata::GetF32Array(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetaValue* value, RequireArray(key));
  std::vector<float> numbers(value->count);
  if (value->element_type == MetaType::kF32) {
    if (!numbers.empty()) std::memcpy(numbers.data(), value->bytes.data(), 4 * numbers.size());
  } else if (value->element_type == MetaType::kF64) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>(LoadAs<double>(value->bytes.data() + 8 * i));
    }
  } else {
    return WrongType(key, *value, "floats");
  }
  return numbers;
}

Result<std::vector<int32_t>> Metadata::GetI32Array(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetaValue* value, RequireArray(key));
  const size_t step = MetaTypeBytes(value->element_type);
  std::vector<int32_t> numbers;
  numbers.reserve(value->count);
  for (size_t i = 0; i < value->count; ++i) {
    const auto wide = LoadInteger(value->element_type, value->bytes.data() + step * i);
    if (!wide) return WrongType(key, *value, "integers");
    const std::optional<int64_t> number = ToI64(*wide);
    if (!number || *number < std::numeric_limits<int32_t>::min() ||
        *number > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("'{}': metadata key '{}'[{}] does not fit 32 bits", file_, key, i);
    }
    numbers.push_back(static_cast<int32_t>(*number));
  }
  return numbers;
}

Result<std::vector<bool>> Metadata::GetBoolArray(std::string_view key) const {
  ASSIGN_OR_RETURN(const MetaValue* value, RequireArray(key));
  if (value->element_type != MetaType::kBool) return WrongType(key, *value, "bools");
  std::vector<bool> flags(value->count);
  for (size_t i = 0; i < flags.size(); ++i) flags[i] = value->bytes[i] != std::byte{0};
  return flags;
}

}  // namespace ballast
