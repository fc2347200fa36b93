#include "text/grammar/number.h"

#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"

namespace ballast::grammar {
namespace {

Decimal D(std::string_view text) { return Decimal::Parse(text).value(); }

TEST(Decimal, ComparesExactly) {
  EXPECT_TRUE(D("0.1").Compare(D("0.10")) == 0);
  EXPECT_TRUE(D("1e2").Compare(D("100.0")) == 0);
  EXPECT_TRUE(D("-0").Compare(D("0.00")) == 0);
  EXPECT_TRUE(D("-2").Compare(D("-1.5")) < 0);
  EXPECT_TRUE(D("9007199254740993").Compare(D("9007199254740992")) > 0);
  EXPECT_TRUE(D("0.09").Compare(D("0.1")) < 0);
  EXPECT_TRUE(D("1.0").IsInteger());
  EXPECT_FALSE(D("1.5e0").IsInteger());
  EXPECT_TRUE(D("1.5e1").IsInteger());
  for (const char* bad : {"", "-", "1.", ".5", "1e", "0x1", "1e+"}) {
    EXPECT_FALSE(Decimal::Parse(bad).has_value()) << bad;
  }
  EXPECT_EQ(Decimal::Parse("1e2000").error().code, Code::kOutOfRange);
}

std::string RandomNumber(Rng* rng) {
  std::string text = rng->Below(2) == 0 ? "-" : "";
  const uint64_t whole = rng->Below(4) == 0 ? rng->Below(2000) : rng->Below(14);
  text += std::to_string(whole);
  if (rng->Below(2) == 0) {
    text += '.';
    for (uint64_t n = 1 + rng->Below(3); n > 0; --n)
      text += static_cast<char>('0' + rng->Below(10));
  }
  return text;
}

TEST(NumberDfa, AcceptsExactlyWhatTheSpecContains) {
  Rng rng(9);
  for (int round = 0; round < 400; ++round) {
    NumberSpec spec;
    const uint64_t kind = rng.Below(4);
    spec.integer = kind == 0;
    spec.fraction = kind == 1;
    if (rng.Below(3) != 0) spec.lo = D(RandomNumber(&rng)), spec.lo_open = rng.Below(2) == 0;
    if (rng.Below(3) != 0) spec.hi = D(RandomNumber(&rng)), spec.hi_open = rng.Below(2) == 0;
    static constexpr const char* kMultiples[] = {"1", "2", "7", "0.5", "0.25", "1.5", "0.01", "60"};
    if (rng.Below(3) == 0) spec.multiple = D(kMultiples[rng.Below(8)]);
    const Dfa dfa = NumberDfa(spec).value();
    for (int i = 0; i < 120; ++i) {
      const std::string text = RandomNumber(&rng);
      EXPECT_EQ(dfa.Accepts(text), spec.Contains(D(text)))
          << text << " lo " << (spec.lo ? spec.lo->digits : "") << " hi "
          << (spec.hi ? spec.hi->digits : "");
    }
  }
}

TEST(NumberDfa, SpellingIsJson) {
  const Dfa any = NumberDfa({}).value();
  for (const char* good : {"0", "-0", "10", "1.5", "1e5", "1E-7", "-2.50e+10"}) {
    EXPECT_TRUE(any.Accepts(good)) << good;
  }
  for (const char* bad : {"", "-", "00", "01", "1.", ".1", "+1", "1e", "1e+", "1e100", "0x1"}) {
    EXPECT_FALSE(any.Accepts(bad)) << bad;
  }
  EXPECT_TRUE(any.Accepts(std::string(64, '9')));
  EXPECT_FALSE(any.Accepts(std::string(65, '9')));
}

TEST(NumberDfa, MultiplesBeyondTheLimitAreRefused) {
  NumberSpec spec;
  spec.multiple = D("0.123456789");
  EXPECT_EQ(NumberDfa(spec).error().code, Code::kUnimplemented);
  EXPECT_TRUE(LeastCommonMultiple(D("1.5"), D("0.5"))->Compare(D("1.5")) == 0);
  EXPECT_TRUE(LeastCommonMultiple(D("4"), D("6"))->Compare(D("12")) == 0);
}

}  // namespace
}  // namespace ballast::grammar
