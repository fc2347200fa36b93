#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "cli/config_file.h"
#include "cli/settings.h"

namespace ballast {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  const auto parsed = ParseConfig(text, "t.toml");
  return parsed.has_value() ? "" : parsed.error().message;
}

TEST(ConfigFileTest, ReadsEveryTypeWithItsLine) {
  const auto parsed = ParseConfig("# a comment\nport = 9000\nmemory = \"2GiB\"\n", "t.toml");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  ASSERT_EQ(parsed->entries.size(), 2u);
  for (const ConfigEntry& entry : parsed->entries) {
    const bool port = entry.row->key() == "port";
    EXPECT_EQ(entry.value, port ? "9000" : "2GiB");
    EXPECT_EQ(entry.type, port ? ConfigType::kInteger : ConfigType::kString);
    EXPECT_EQ(entry.line, port ? 2u : 3u);
  }
}

TEST(ConfigFileTest, ListsMayBeArrays) {
  const auto parsed = ParseConfig("cors-origins = [\"http://a\", \"http://b\"]", "t.toml");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->entries.at(0).value, "http://a,http://b");
  EXPECT_THAT(ErrorOf("cors-origins = [\"a,b\"]"), HasSubstr("without commas"));
  EXPECT_THAT(ErrorOf("cors-origins = [1]"), HasSubstr("without commas"));
  EXPECT_THAT(ErrorOf("host = [\"a\"]"), HasSubstr("takes one string"));
}

TEST(ConfigFileTest, UnknownKeysNameFileLineAndTheNearest) {
  EXPECT_EQ(ErrorOf("\nprot = 1"), "t.toml:2: the key 'prot' is unknown; did you mean 'port'?");
  EXPECT_THAT(ErrorOf("ctx_size = 1"), HasSubstr("did you mean 'ctx-size'?"));
  EXPECT_THAT(ErrorOf("zzzzzzzzzzzz = 1"), HasSubstr("`ballast config` lists all"));
  EXPECT_THAT(ErrorOf("prompt = \"x\""), HasSubstr("of the command line only"));
  EXPECT_THAT(ErrorOf("config = \"x\""), HasSubstr("of the command line only"));
  EXPECT_THAT(ErrorOf("[serve]\nport = 1"), HasSubstr("t.toml:1: the key 'serve' is unknown"));
}

TEST(ConfigFileTest, BrokenTextIsAnErrorWithALine) {
  EXPECT_THAT(ErrorOf("port = 1\nport = 2"), HasSubstr("t.toml:2:"));
  EXPECT_THAT(ErrorOf("port = "), HasSubstr("t.toml:1:"));
  EXPECT_THAT(ErrorOf("host = \"a\\u0000b\""), HasSubstr("zero byte"));
}

TEST(ConfigFileTest, CharactersBeyondAsciiStandInQuotesAndComments) {
  const auto parsed = ParseConfig(
      "# \xFF\nalias = \"~ü~C3\\u00fc\"\nallowed-hosts = ['ü~', \"\"\"ü\"\"\"]", "t.toml");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  for (const ConfigEntry& entry : parsed->entries) {
    EXPECT_EQ(entry.value, entry.row->key() == "alias" ? "~ü~C3ü" : "ü~,ü");
  }
  EXPECT_EQ(ErrorOf("\xEF\xBB\xBFport = 1"), "");  // a byte order mark
  EXPECT_THAT(ErrorOf("\n'ü' = 1"), HasSubstr("t.toml:2: the key 'ü' is unknown"));
  for (const char* text : {"\nü = 1", "\nport = ü", "\nalias = \"a\" ü", "port = 1\n# \x01"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("t.toml:2: ")) << text;
  }
  EXPECT_THAT(ErrorOf("alias = \"\\u007E41\""), HasSubstr("without an escape"));
}

// Sets a variable for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("settings_") +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    for (const OptionRow& row : OptionRows()) {
      if (row.env != nullptr) unsetenv(row.env);
    }
    setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& text, const std::string& name = "f.toml") {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

  Status Settle(std::vector<std::string> arguments) {
    options_ = Options();
    CLI::App app;
    const auto bound = AddOptions(kCmdServe, &app, &options_);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes a vector
    app.parse(arguments);
    return SettleOptions(bound, &options_);
  }
  std::string Origin(const std::string& key) const {
    for (const EffectiveSetting& setting : options_.effective) {
      if (setting.key == key) return setting.value + " from " + setting.origin;
    }
    return "";
  }

  std::filesystem::path folder_;
  Options options_;
};

TEST_F(SettingsTest, FlagsOverVariablesOverFileOverDefaults) {
  const std::string path = Write("port = 1\nthreads = 2\nmax-queue = 3\n");
  const Variable port("BALLAST_PORT", "11");
  const Variable threads("BALLAST_THREADS", "12");
  const auto settled = Settle({"--config", path, "--port", "21"});
  ASSERT_TRUE(settled.has_value()) << settled.error().message;
  EXPECT_EQ(options_.port, 21);
  EXPECT_EQ(options_.threads, 12);
  EXPECT_EQ(options_.max_queue, 3);
  EXPECT_EQ(options_.max_sequences, 32);
  EXPECT_EQ(Origin("port"), "21 from flag");
  EXPECT_EQ(Origin("threads"), "12 from BALLAST_THREADS");
  EXPECT_EQ(Origin("max-queue"), "3 from " + path + ":3");
  EXPECT_EQ(Origin("max-sequences"), "32 from default");
  EXPECT_EQ(Origin("config"), "");
}

TEST_F(SettingsTest, TheFileIsHeldToTypesAndRanges) {
  const auto error = [&](const std::string& text) {
    const auto settled = Settle({"--config", Write(text)});
    return settled.has_value() ? "" : settled.error().message;
  };
  EXPECT_THAT(error("\nport = 65536"), HasSubstr("f.toml:2: --port: Value 65536 not in range"));
  EXPECT_THAT(error("port = \"80\""), HasSubstr("'port' takes an integer, here it is a string"));
  EXPECT_THAT(error("port = 1.5"), HasSubstr("takes an integer, here it is a number"));
  EXPECT_THAT(error("host = 1"), HasSubstr("takes a string, here it is an integer"));
  EXPECT_THAT(error("log-level = \"loud\""), HasSubstr("--log-level"));
  EXPECT_EQ(error("allowed-hosts = [\"a\", \"b\"]"), "");
  EXPECT_EQ(options_.allowed_hosts, "a,b");
}

TEST_F(SettingsTest, AWrongVariableIsNamed) {
  const Variable port("BALLAST_PORT", "many");
  const auto settled = Settle({});
  ASSERT_FALSE(settled.has_value());
  EXPECT_THAT(settled.error().message, HasSubstr("BALLAST_PORT: "));
  EXPECT_EQ(settled.error().code, Code::kInvalidArgument);
}

TEST_F(SettingsTest, TheFileIsFoundByFlagVariableOrPlace) {
  EXPECT_FALSE(Settle({"--config", (folder_ / "absent.toml").string()}).has_value());
  EXPECT_FALSE(Settle({"--config", folder_.string()}).has_value());
  Write("port = 5", "ballast/ballast.toml");
  ASSERT_TRUE(Settle({}).has_value());
  EXPECT_EQ(options_.port, 5);
  {
    const Variable other("BALLAST_CONFIG", Write("port = 6").c_str());
    ASSERT_TRUE(Settle({}).has_value());
    EXPECT_EQ(options_.port, 6);
  }
  ASSERT_TRUE(Settle({"--config", "/dev/null"}).has_value());
  EXPECT_EQ(options_.port, 8420);
}

// deploy/ballast.toml shows every key with its default, commented out.
TEST_F(SettingsTest, TheExampleShowsEveryDefault) {
  std::ifstream example(std::string(BALLAST_SOURCE_DIR) + "/deploy/ballast.toml");
  std::string text;
  for (std::string line; std::getline(example, line);) {
    if (line.starts_with("# ") && line.find(" = ") != std::string::npos) line.erase(0, 2);
    text += line + '\n';
  }
  const auto parsed = ParseConfig(text, "example");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  ASSERT_TRUE(Settle({"--config", "/dev/null"}).has_value());
  for (const EffectiveSetting& setting : options_.effective) {
    const auto entry =
        std::find_if(parsed->entries.begin(), parsed->entries.end(),
                     [&](const ConfigEntry& other) { return other.row->key() == setting.key; });
    ASSERT_NE(entry, parsed->entries.end()) << setting.key;
    EXPECT_EQ(entry->value, setting.value) << setting.key;
  }
}

// Every option that a file may set is applied through the same binding as its flag.
TEST_F(SettingsTest, EveryFileKeyIsDistinctAndNamed) {
  std::set<std::string> keys;
  for (const OptionRow& row : OptionRows()) {
    if (!row.in_file()) continue;
    EXPECT_TRUE(keys.insert(row.key()).second) << row.flags;
    EXPECT_EQ(row.key().find('-'), row.key().find_first_of("-,")) << row.flags;
  }
  EXPECT_GT(keys.size(), 15u);
}

}  // namespace
}  // namespace ballast
