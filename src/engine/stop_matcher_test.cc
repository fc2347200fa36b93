#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ballast {
namespace {

struct Outcome {
  std::string text;
  std::string stop;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome Stream(const std::vector<std::string>& stop, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stop);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    const StopMatcher::Piece result = matcher.Push(piece);
    outcome.text += result.text;
    if (result.matched != nullptr) {
      outcome.stop = *result.matched;
      return outcome;
    }
  }
  outcome.text += matcher.Flush();
  return outcome;
}

TEST(StopMatcherTest, MatchesAcrossPieces) {
  EXPECT_EQ(Stream({"END"}, {"abc E", "N", "D tail"}), (Outcome{"abc ", "END"}));
  EXPECT_EQ(Stream({"\n\n"}, {"a\n", "b\n", "\nc"}), (Outcome{"a\nb", "\n\n"}));
  EXPECT_EQ(Stream({"aab"}, {"aa", "ab"}), (Outcome{"a", "aab"}));
  EXPECT_EQ(Stream({}, {"a", "b"}), (Outcome{"ab", ""}));
}

TEST(StopMatcherTest, HoldsBackOnlyWhatMayBeginAStopString) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.Push("xE").text, "x");
  EXPECT_EQ(matcher.Push("").text, "");
  EXPECT_EQ(matcher.Push("N").text, "");
  EXPECT_EQ(matcher.Push("E").text, "EN");
  EXPECT_EQ(matcher.Push("Q").text, "EQ");
  EXPECT_EQ(matcher.Push("EN").text, "");
  EXPECT_EQ(matcher.Flush(), "EN");
}

TEST(StopMatcherTest, TheOneThatIsCompleteFirstWins) {
  EXPECT_EQ(Stream({"abcdef", "bc"}, {"xabcdef"}), (Outcome{"xa", "bc"}));
  EXPECT_EQ(Stream({"c", "abc"}, {"xabc"}), (Outcome{"x", "abc"}));  // the longest of two
}

TEST(StopMatcherTest, EqualsAPlainSearchHoweverTheTextIsCut) {
  Rng rng(31);
  for (int round = 0; round < 5000; ++round) {
    const auto random_text = [&](size_t low, size_t high) {
      std::string text;
      const size_t n = low + rng.Below(high - low + 1);
      for (size_t i = 0; i < n; ++i) text += static_cast<char>('a' + rng.Below(3));
      return text;
    };
    std::vector<std::string> stop;
    for (size_t i = 1 + rng.Below(3); i > 0; --i) stop.push_back(random_text(1, 5));
    const std::string text = random_text(0, 30);
    Outcome want{text, ""};
    for (size_t end = 1; end <= text.size() && want.stop.empty(); ++end) {
      for (const std::string& s : stop) {
        if (end >= s.size() && text.compare(end - s.size(), s.size(), s) == 0 &&
            s.size() > want.stop.size()) {
          want = {text.substr(0, end - s.size()), s};
        }
      }
    }
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + rng.Below(4);
      pieces.push_back(text.substr(at, n));
      at += n;
    }
    ASSERT_EQ(Stream(stop, pieces), want) << text;
  }
}

TEST(StopMatcherTest, ValidatesItsLimits) {
  EXPECT_TRUE(StopMatcher::Validate(std::vector<std::string>(16, "x")).has_value());
  EXPECT_FALSE(StopMatcher::Validate(std::vector<std::string>(17, "x")).has_value());
  EXPECT_FALSE(StopMatcher::Validate({""}).has_value());
  EXPECT_TRUE(StopMatcher::Validate({std::string(1024, 'x')}).has_value());
  EXPECT_FALSE(StopMatcher::Validate({std::string(1025, 'x')}).has_value());
  EXPECT_FALSE(StopMatcher::Validate({"\x80"}).has_value());
}

}  // namespace
}  // namespace ballast
