#include "text/template_repairs.h"

#include <gtest/gtest.h>

namespace ballast {
namespace {

TEST(TemplateRepairs, DoubledBracesOfAToolCallExample) {
  const std::string before = R"({{- "<tool_call>\n" }}{{- x }}{{- ")";
  const std::string after = R"(\n</tool_call>" }})";
  std::string source =
      before + R"({{\"name\": <function-name>, \"arguments\": <args-json-object>}})" + after;
  const std::string fixed =
      before + R"({\"name\": <function-name>, \"arguments\": <args-json-object>})" + after;
  EXPECT_EQ(RepairChatTemplate(&source).size(), 1u);
  EXPECT_EQ(source, fixed);
  EXPECT_TRUE(RepairChatTemplate(&source).empty());  // what is right stays
  EXPECT_EQ(source, fixed);
}

}  // namespace
}  // namespace ballast
