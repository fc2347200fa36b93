#include "weights/json_walk.h"

#include <optional>
#include <vector>

#include "base/json.h"

namespace ballast {
namespace {

using Visit = std::function<Status(std::span<const std::string>, const JsonLeaf&)>;

// nlohmann's parser drives this without recursion; returning false stops it.
class Walker : public nlohmann::json_sax<Json> {
 public:
  Walker(size_t max_depth, std::string_view label, const Visit& visit)
      : max_depth_(max_depth), label_(label), visit_(visit) {}

  bool null() override { return Leaf({}); }
  bool boolean(bool) override { return Leaf({}); }
  bool number_integer(number_integer_t) override { return Leaf({}); }
  bool number_unsigned(number_unsigned_t value) override {
    return Leaf({.kind = JsonLeaf::Kind::kUnsigned, .text = {}, .number = value});
  }
  bool number_float(number_float_t, const string_t&) override { return Leaf({}); }
  bool string(string_t& value) override {
    return Leaf({.kind = JsonLeaf::Kind::kString, .text = value, .number = 0});
  }
  bool binary(binary_t&) override { return Leaf({}); }

  bool start_object(size_t) override { return Open(true); }
  bool start_array(size_t) override { return Open(false); }
  bool key(string_t& name) override {
    path_.back() = name;
    return true;
  }
  bool end_object() override {
    path_.pop_back();
    return Close(JsonLeaf::Kind::kEndObject);
  }
  bool end_array() override { return Close(JsonLeaf::Kind::kEndArray); }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = InvalidArgument("'{}': malformed JSON at byte {}", label_, position);
    return false;
  }

  std::optional<Error> TakeError() { return std::move(error_); }

 private:
  Error NotAnObject() const { return InvalidArgument("'{}': the JSON is not an object", label_); }
  bool Fail(Error error) {
    error_ = std::move(error);
    return false;
  }
  bool Open(bool object) {
    if (depth_ == 0 && !object) return Fail(NotAnObject());
    if (++depth_ > max_depth_) {
      return Fail(InvalidArgument("'{}': the JSON is nested deeper than {}", label_, max_depth_));
    }
    if (object) path_.emplace_back();
    return true;
  }
  bool Close(JsonLeaf::Kind kind) {
    --depth_;
    return depth_ == 0 || Leaf({.kind = kind, .text = {}, .number = 0});
  }
  bool Leaf(const JsonLeaf& leaf) {
    if (depth_ == 0) return Fail(NotAnObject());
    Status status = visit_(path_, leaf);
    return status.has_value() || Fail(std::move(status).error());
  }

  size_t max_depth_;
  std::string_view label_;
  const Visit& visit_;
  size_t depth_ = 0;
  std::vector<std::string> path_;
  std::optional<Error> error_;
};

}  // namespace

Status WalkJson(std::string_view text, size_t max_depth, std::string_view label,
                const Visit& visit) {
  Walker walker(max_depth, label, visit);
  const bool done = Json::sax_parse(text.begin(), text.end(), &walker);
  if (std::optional<Error> error = walker.TakeError()) return *std::move(error);
  if (!done) return InvalidArgument("'{}': malformed JSON", label);
  return OkStatus();
}

}  // namespace ballast
