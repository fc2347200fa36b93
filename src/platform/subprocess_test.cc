#include "platform/subprocess.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(SubprocessTest, CollectsOutputAndExitCode) {
  auto result = RunSubprocess({"sh", "-c", "echo out; echo err >&2; exit 3"});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->output, "out\nerr\n");
}

TEST(SubprocessTest, KillsTheGroupOnTimeout) {
  SubprocessOptions options;
  options.timeout_ms = 100;
  auto result = RunSubprocess({"sh", "-c", "sleep 30 & sleep 30"}, options);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kDeadlineExceeded);
}

TEST(SubprocessTest, NamesAMissingProgram) {
  auto result = RunSubprocess({"ballast-no-such-program"});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::kNotFound);
}

TEST(SplitCommandLineTest, HonoursQuotes) {
  EXPECT_EQ(*SplitCommandLine("a 'b c' \"d \\\"e\" f\\ g ''"),
            (std::vector<std::string>{"a", "b c", "d \"e", "f g", ""}));
  EXPECT_FALSE(SplitCommandLine("a 'b").has_value());
}

}  // namespace
}  // namespace ballast
