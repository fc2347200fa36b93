#include <gtest/gtest.h>

#include <string>

#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/units.h"

namespace ballast {
namespace {

TEST(UnitsTest, ParsesBinarySizes) {
  EXPECT_EQ(*ParseBytes("512"), 512u);
  EXPECT_EQ(*ParseBytes("2GiB"), 2 * kGiB);
  EXPECT_EQ(*ParseBytes("1.5 mib"), kMiB + kMiB / 2);
  for (const char* bad : {"", "-1", "x", "1QiB", "1e300GiB", "nan"}) {
    EXPECT_FALSE(ParseBytes(bad).has_value()) << bad;
  }
}

TEST(JsonTest, UniqueKeysAreAskedForByObjectNotByDocument) {
  const auto parse = [](std::string_view text) {
    return ParseJsonUniqueKeys(text, kMaxJsonDepth, 0);
  };
  EXPECT_TRUE(parse(R"({"a":{"a":1},"b":[{"a":1},{"a":2}]})").has_value());
  const auto twice = parse(R"({"a":{"b":1,"\u0062":2}})");
  ASSERT_FALSE(twice.has_value());
  EXPECT_EQ(twice.error().message, "the member \"b\" appears twice in an object");
  EXPECT_FALSE(parse(R"({"a":1,"a":1})").has_value());
  EXPECT_TRUE(ParseJson(R"({"a":1,"a":1})").has_value());
}

TEST(PrintableTest, ShowsControlCharacters) {
  EXPECT_EQ(Printable("a\x1b[31m\r\n\tb\x7f é"), "a\\x1b[31m\\x0d\n\tb\\x7f é");
}

TEST(JsonTest, RefusesDeepNestingButNotBracketsInStrings) {
  EXPECT_FALSE(ParseJson(std::string(65, '[') + std::string(65, ']')).has_value());
  EXPECT_TRUE(ParseJson(std::string(64, '[') + std::string(64, ']')).has_value());
  EXPECT_TRUE(ParseJson("\"" + std::string(1000, '[') + "\\\"\"").has_value());
  EXPECT_FALSE(ParseJson("{\"a\":").has_value());
}

TEST(HashTest, Sha256MatchesFips180) {
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgument("{} is odd", x);
  return x / 2;
}
Result<int> Quarter(int x) {
  ASSIGN_OR_RETURN(const int half, Half(x));
  return Half(half);
}

TEST(ResultTest, PropagatesErrors) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).error().message, "3 is odd");
  EXPECT_EQ(HttpStatus(Code::kInvalidArgument), 400);
}

TEST(RngTest, UniformIsNeverAnEndOfItsInterval) {
  for (const uint64_t top : {uint64_t{0}, uint64_t{1}, uint64_t{0x7FFFFF}, uint64_t{0x800000},
                             uint64_t{0xFFFFFE}, uint64_t{0xFFFFFF}}) {
    const float value = UniformOpen(top << 40 | 0xFFFFFFFFFF);
    EXPECT_GT(value, 0.0f) << top;
    EXPECT_LT(value, 1.0f) << top;
  }
}

TEST(LogTest, AJsonLineIsOneLineWhateverItHolds) {
  const LogField fields[] = {
      {"route", std::string_view("/a\"b")}, {"status", int64_t{200}}, {"duration_ms", 1.5}};
  EXPECT_EQ(JsonLogLine("T", "info", "one\ntwo \xff", "req-1", fields),
            "{\"time\":\"T\",\"level\":\"info\",\"message\":\"one\\ntwo \xEF\xBF\xBD\","
            "\"request_id\":\"req-1\",\"route\":\"/a\\\"b\",\"status\":200,"
            "\"duration_ms\":1.5}");
}

}  // namespace
}  // namespace ballast
