// The official JSON-Schema-Test-Suite (draft 2020-12) against the automaton: for every schema that
// compiles, an instance is accepted if and only if the suite calls it valid.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "base/json.h"
#include "text/grammar/grammar.h"
#include "text/grammar/matcher.h"
#include "text/grammar/schema_loader.h"

namespace ballast::grammar {
namespace {

namespace fs = std::filesystem;

const fs::path kSuite =
    fs::path(BALLAST_SOURCE_DIR) / "tests/third_party/json-schema-test-suite/draft2020-12";

Json ReadJson(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  auto json = ParseJson(text.str());
  EXPECT_TRUE(json.has_value()) << path;
  return json ? *json : Json::array();
}

/// Parses like Json::parse, but a number whose digits a double would change becomes a marked
/// string, from which Compact() restores the author's spelling.
class ExactNumbers : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  using Base = nlohmann::detail::json_sax_dom_parser<Json>;
  using Base::Base;
  bool number_float(double value, const std::string& spelling) {
    if (Json(value).dump() == spelling) return Base::number_float(value, spelling);
    std::string marked = kMark + spelling + kMark;
    return Base::string(marked);
  }
  static constexpr char kMark[] = "@number@";
};

Json ReadExact(const fs::path& path) {
  std::ifstream in(path);
  Json out;
  ExactNumbers sax(out);
  EXPECT_TRUE(Json::sax_parse(in, &sax)) << path;
  return out;
}

std::string Compact(const Json& exact) {
  std::string text = DumpJson(exact);
  const std::string mark = ExactNumbers::kMark;
  for (const std::string& quoted : {'"' + mark, mark + '"'}) {
    for (size_t at = text.find(quoted); at != std::string::npos; at = text.find(quoted)) {
      text.erase(at, quoted.size());
    }
  }
  return text;
}

bool Accepts(const GrammarPtr& grammar, const std::string& text) {
  Matcher matcher(grammar);
  return matcher.Accept(text) && matcher.IsComplete();
}

struct Tally {
  int schemas = 0, instances = 0;
  std::map<std::string, int> refused;  ///< by keyword
  std::vector<std::string> wrong;
};

void CheckCase(const std::string& file, const Json& group, const Json& exact, Tally* tally) {
  const Json& schema = group.at("schema");
  const auto grammar = CompileJsonSchema(schema);
  const std::string where = file + ": " + group.at("description").get<std::string>();
  if (!grammar && grammar.error().reason != "unsatisfiable") {
    EXPECT_EQ(grammar.error().code, Code::kUnimplemented) << where << grammar.error().message;
    ++tally->refused[grammar.error().reason];
    if (std::getenv("SUITE_VERBOSE") != nullptr) {
      std::cout << where << " REFUSED " << grammar.error().message << "\n";
    }
    return;
  }
  ++tally->schemas;
  SchemaLoader loader(schema);
  const auto root = loader.LoadRoot();
  ASSERT_TRUE(root.has_value()) << where;
  for (size_t i = 0; i < group.at("tests").size(); ++i) {
    const Json& test = group.at("tests")[i];
    ++tally->instances;
    const std::string text = Compact(exact.at("tests")[i].at("data"));
    const bool valid = test.at("valid").get<bool>();
    const bool accepted = grammar.has_value() && Accepts(*grammar, text);
    if (accepted != valid) {
      tally->wrong.push_back(where + " / " + test.at("description").get<std::string>() + " " +
                             text + (valid ? " must be accepted" : " must be refused"));
    }
    EXPECT_EQ(loader.Validate(*root, test.at("data")), valid) << where << " " << text;
  }
}

void CheckFile(const fs::path& path, Tally* tally) {
  const Json groups = ReadJson(path), exact = ReadExact(path);
  for (size_t i = 0; i < groups.size(); ++i) {
    CheckCase(path.stem().string(), groups[i], exact[i], tally);
  }
}

void Report(const std::string& what, const Tally& tally) {
  std::cout << what << ": " << tally.schemas << " schemas compiled, " << tally.instances
            << " instances judged; refused by keyword:";
  for (const auto& [keyword, count] : tally.refused) std::cout << " " << keyword << "×" << count;
  std::cout << "\n";
}

// Of format.json: it asks that formats be ignored; here they always assert, as the optional
// format tests below require.
TEST(JsonSchemaSuite, EverySupportedSchemaIsExact) {
  Tally tally;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kSuite)) {
    if (entry.path().extension() == ".json" && entry.path().stem() != "format") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) CheckFile(path, &tally);
  Report("draft2020-12", tally);
  EXPECT_THAT(tally.wrong, testing::IsEmpty());
}

TEST(JsonSchemaSuite, FormatsAssertExactly) {
  Tally tally;
  for (const std::string_view format : FormatNames()) {
    CheckFile(kSuite / "format" / (std::string(format) + ".json"), &tally);
  }
  Report("formats", tally);
  EXPECT_THAT(tally.wrong, testing::IsEmpty());
}

}  // namespace
}  // namespace ballast::grammar
