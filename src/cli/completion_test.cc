#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cli/option_shape.h"

namespace ballast {
namespace {

using ::testing::HasSubstr;

// A name as a whole word: "--port" is not in "--portal".
bool HasWord(const std::string& text, const std::string& word) {
  const auto inside = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-';
  };
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !inside(text[at - 1])) && (end == text.size() || !inside(text[end])))
      return true;
  }
  return false;
}

// What bash offers after a command: the one line of it.
std::string BashLine(const std::string& script, const CommandRow& command) {
  const std::string start = "\n    '" + command.full_name() + "') ";
  const size_t at = script.find(start);
  if (at == std::string::npos) return "";
  return script.substr(at, script.find('\n', at + 1) - at);
}

TEST(CompletionTest, BashOffersEveryCommandAndFlag) {
  const std::string script = CompletionScript("bash");
  for (const CommandRow& command : CommandRows()) {
    const std::string line = BashLine(script, command);
    ASSERT_FALSE(line.empty()) << command.full_name();
    for (const OptionShape& shape : ShapesOf(command)) {
      for (const auto& names : {shape.long_names, shape.short_names}) {
        for (const std::string& name : names) EXPECT_TRUE(HasWord(line, name)) << name;
      }
    }
  }
}

TEST(CompletionTest, ZshAndFishOfferEveryCommandAndFlag) {
  const std::string zsh = CompletionScript("zsh");
  const std::string fish = CompletionScript("fish");
  for (const CommandRow& command : CommandRows()) {
    const std::string name = command.name;
    EXPECT_THAT(zsh, HasSubstr("'" + name + ":"));
    const std::string indent = *command.group == '\0' ? "\n    " : "\n      ";
    const size_t start = zsh.find(indent + name + ")\n        _arguments");
    ASSERT_NE(start, std::string::npos) << name;
    const std::string part = zsh.substr(start, zsh.find(";;", start) - start);
    EXPECT_THAT(fish, HasSubstr(" -a " + name + " -d "));
    for (const OptionShape& shape : ShapesOf(command)) {
      for (const std::string& flag : shape.long_names) {
        EXPECT_THAT(part, HasSubstr("'*" + flag + "[")) << name;
        const std::string when =
            *command.group == '\0' ? "'__fish_seen_subcommand_from " + name + "; and not "
                                   : std::string("'__fish_seen_subcommand_from ") + command.group +
                                         "; and __fish_seen_subcommand_from " + name + "' ";
        bool offered = false;
        for (size_t at = fish.find(when); at != std::string::npos; at = fish.find(when, at + 1)) {
          offered |= HasWord(fish.substr(at, fish.find('\n', at) - at), "-l " + flag.substr(2));
        }
        EXPECT_TRUE(offered) << name << ' ' << flag;
      }
    }
  }
}

TEST(CompletionTest, ValuesAreKnownAndNoneIsStale) {
  std::set<std::string> keys;
  for (const OptionRow& row : OptionRows()) keys.insert(row.key());
  for (const std::string_view key : HintedKeys())
    EXPECT_TRUE(keys.contains(std::string(key))) << key;
  EXPECT_THAT(CompletionScript("bash"),
              HasSubstr("--isa) COMPREPLY=($(compgen -W 'ref avx2 avx512 amx'"));
}

TEST(ManualTest, HasEveryCommandFlagAndVariable) {
  const std::string page = ManualPage();
  const auto escaped = [](std::string text) {
    for (size_t at = 0; (at = text.find('-', at)) != std::string::npos; at += 2)
      text.insert(at, "\\");
    return text;
  };
  for (const CommandRow& command : CommandRows()) {
    EXPECT_THAT(page, HasSubstr(".B " + command.full_name() + "\n"));
    for (const OptionShape& shape : ShapesOf(command)) {
      for (const std::string& flag : shape.long_names) EXPECT_THAT(page, HasSubstr(escaped(flag)));
      if (shape.row->env != nullptr) EXPECT_THAT(page, HasSubstr(shape.row->env));
    }
  }
}

}  // namespace
}  // namespace ballast
