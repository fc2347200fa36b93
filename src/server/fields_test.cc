// The table of fields, its published lists, and single rules of request parsing.
#include "server/fields.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "server/field_types.h"
#include "server/origin.h"
#include "server/parse_request.h"
#include "server/reply_json.h"
#include "server/request_id.h"

namespace ballast {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Names that stand first on the list lines ("- `name`…") of one section.
std::set<std::string> ListedIn(const std::string& docs, const std::string& heading) {
  std::set<std::string> names;
  std::istringstream lines(docs.substr(docs.find(heading) + heading.size()));
  std::string line;
  while (std::getline(lines, line) && !line.starts_with("#")) {
    if (!line.starts_with("- `")) continue;
    names.insert(line.substr(3, line.find('`', 3) - 3));
  }
  return names;
}

TEST(FieldRulesTest, AreThoseOfTheDocumentation) {
  const std::string docs = ReadFile(std::string(BALLAST_SOURCE_DIR) + "/docs/api.md");
  ASSERT_FALSE(docs.empty());
  std::map<FieldKind, std::set<std::string>> table;
  for (const FieldRule& rule : FieldRules()) {
    EXPECT_TRUE(table[rule.kind].insert(std::string(rule.name)).second) << rule.name;
  }
  EXPECT_EQ(ListedIn(docs, "### Fields that act"), table[FieldKind::kActs]);
  EXPECT_EQ(ListedIn(docs, "### Fields accepted without effect"), table[FieldKind::kNoEffect]);
  EXPECT_EQ(ListedIn(docs, "### Fields refused"), table[FieldKind::kRefused]);
}

TEST(FieldTypesTest, EveryActingFieldHasATypeAndNoTypeIsStale) {
  EXPECT_EQ(MistypedFields(), std::vector<std::string>());
  EXPECT_EQ(FieldTypeSchema("prompt", kCompletions)["type"], Json::array({"string", "array"}));
  EXPECT_EQ(FieldTypeSchema("pooling", kEmbeddings)["enum"],
            Json::array({"mean", "last", nullptr}));
}

TEST(FieldRulesTest, SurfacesAreThoseOfTheDocumentation) {
  const std::string docs = ReadFile(std::string(BALLAST_SOURCE_DIR) + "/docs/api.md");
  const std::pair<const char*, unsigned> surfaces[] = {{"### Embeddings: ", kEmbeddings},
                                                       {"### Messages: ", kMessages},
                                                       {"### Responses: ", kResponses}};
  for (const auto& [title, endpoint] : surfaces) {
    std::map<FieldKind, std::set<std::string>> table;
    for (const FieldRule& rule : SurfaceFieldRules()) {
      if ((rule.endpoints & endpoint) == 0) continue;
      EXPECT_TRUE(table[rule.kind].insert(std::string(rule.name)).second) << rule.name;
    }
    const std::pair<const char*, FieldKind> lists[] = {
        {"fields that act", FieldKind::kActs},
        {"accepted without effect", FieldKind::kNoEffect},
        {"refused", FieldKind::kRefused}};
    for (const auto& [heading, kind] : lists) {
      const std::string line = std::string(title) + heading + "\n";
      ASSERT_EQ(docs.find(line) == std::string::npos, table[kind].empty()) << line;
      if (!table[kind].empty()) EXPECT_EQ(ListedIn(docs, line), table[kind]) << line;
    }
  }
}

TEST(FieldRulesTest, RefusedFieldsAreRefusedOnlyWhenTheySaySomething) {
  EXPECT_TRUE(CheckFields(Json{{"best_of", 1}}, kCompletions).has_value());
  EXPECT_FALSE(CheckFields(Json{{"best_of", 2}}, kCompletions).has_value());
  EXPECT_FALSE(CheckFields(Json{{"best_of", "1"}}, kCompletions).has_value());
  EXPECT_TRUE(CheckFields(Json{{"echo", false}}, kCompletions).has_value());
  EXPECT_FALSE(CheckFields(Json{{"echo", false}}, kChat).has_value());  // unknown there
  const auto long_name = CheckFields(Json{{std::string(100'000, 'x'), 1}}, kChat);
  ASSERT_FALSE(long_name.has_value());
  EXPECT_LT(long_name.error().message.size(), 200u);
}

TEST(ParseGenerationTest, SeedsDifferUnlessGiven) {
  const ModelLimits limits{1000, 1000};
  const auto a = ParseGeneration(R"({"prompt":"x"})", kCompletions, limits);
  const auto b = ParseGeneration(R"({"prompt":"x"})", kCompletions, limits);
  ASSERT_TRUE(a.has_value() && b.has_value());
  EXPECT_NE(a->generation.sampling.seed, b->generation.sampling.seed);
  const auto c = ParseGeneration(R"({"prompt":"x","seed":-7})", kCompletions, limits);
  EXPECT_EQ(c->generation.sampling.seed, static_cast<uint64_t>(int64_t{-7}));
}

TEST(OriginTest, ComparesHostsAndNames) {
  EXPECT_TRUE(OriginIsHost("http://localhost:8080", "LOCALHOST:8080"));
  EXPECT_FALSE(OriginIsHost("http://localhost:8081", "localhost:8080"));
  EXPECT_FALSE(OriginIsHost("https://localhost:8080", "localhost:8080"));
  EXPECT_FALSE(OriginIsHost("null", "localhost"));
  EXPECT_FALSE(OriginIsHost("http://", ""));
  EXPECT_TRUE(HostIsLocal("127.0.0.1:80"));
  EXPECT_TRUE(HostIsLocal("[::1]:80"));
  EXPECT_TRUE(HostIsLocal("[::1]"));
  EXPECT_TRUE(HostIsLocal("10.0.0.5"));
  EXPECT_FALSE(HostIsLocal("localhost.evil.example:80"));
  EXPECT_FALSE(HostIsLocal("evillocalhost"));
  EXPECT_FALSE(HostIsLocal("127.0.0.1.evil.example"));
  EXPECT_FALSE(HostIsLocal("["));
  EXPECT_TRUE(IsLoopbackHost("127.0.0.1"));
  EXPECT_FALSE(IsLoopbackHost("0.0.0.0"));
  EXPECT_FALSE(IsLoopbackHost("127.evil.example"));
}

TEST(RequestIdTest, KeepsOnlyHarmlessOnes) {
  EXPECT_EQ(RequestIdFrom("abc"), "abc");
  for (const std::string bad : {"", "a b", "a\tb", "\xC3\xBC"}) {
    EXPECT_TRUE(RequestIdFrom(bad).starts_with("req-")) << bad;
  }
  EXPECT_NE(RandomId("x-"), RandomId("x-"));
}

TEST(TimingsTest, RatesCountIntervals) {
  Usage usage;
  usage.prompt_tokens = 110;
  usage.cached_tokens = 10;
  usage.completion_tokens = 11;
  Timings timings;
  timings.prompt_ms = 50;
  timings.predicted_ms = 100;
  const Json json = TimingsJson(usage, timings);
  EXPECT_EQ(json["prompt_n"], 100);
  EXPECT_DOUBLE_EQ(json["prompt_per_second"].get<double>(), 2000);
  EXPECT_DOUBLE_EQ(json["predicted_per_token_ms"].get<double>(), 10);
  EXPECT_DOUBLE_EQ(json["predicted_per_second"].get<double>(), 100);
  const Json nothing = TimingsJson({}, {});
  EXPECT_EQ(nothing["prompt_per_second"], 0.0);
  EXPECT_EQ(nothing["predicted_per_token_ms"], 0.0);
}

}  // namespace
}  // namespace ballast
