#include "engine/engine.h"

#include <gtest/gtest.h>

#include "engine/testing/harness.h"

namespace ballast {
namespace {

using testing::MakeEngine;
using testing::MakeRequest;
using testing::RunAlone;
using testing::TestEngine;

TEST(EngineTest, GeneratesUpToMaxTokens) {
  TestEngine engine = MakeEngine();
  const auto sink = engine.Submit(MakeRequest(1, 100, 20));
  ASSERT_TRUE(sink->Wait());
  ASSERT_TRUE(sink->finish.has_value());
  EXPECT_EQ(sink->finish->reason, FinishReason::kLength);
  EXPECT_EQ(sink->tokens.size(), 20u);
  EXPECT_EQ(sink->finish->usage.prompt_tokens, 100);
  EXPECT_EQ(sink->finish->usage.completion_tokens, 20);
  EXPECT_EQ(engine.model->violations(), 0);
  EXPECT_EQ(engine.engine->Stats().kv_used_bytes, 0u);
}

}  // namespace
}  // namespace ballast
