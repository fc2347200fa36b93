// The subset against Jinja2's own output (testdata/make_jinja_snippets.py), its limits, and trust.
#include "text/jinja/template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/json.h"

namespace ballast::jinja {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

using Variables = std::vector<std::pair<std::string, Value>>;

Result<std::string> Render(std::string_view source, const Variables& variables = {},
                           const Limits& limits = {}) {
  ASSIGN_OR_RETURN(const Template parsed, Template::Parse(source));
  ASSIGN_OR_RETURN(Text text, parsed.Render(variables, SystemClock(), limits));
  return text.bytes;
}

TEST(JinjaSnippets, PrintWhatJinja2Prints) {
  auto document = ParseJson(ReadFile(BALLAST_SOURCE_DIR "/src/text/testdata/jinja_snippets.json"));
  ASSERT_TRUE(document.has_value()) << document.error().message;
  Variables variables;
  for (const auto& [name, value] : (*document)["variables"].items()) {
    variables.emplace_back(name, Value::FromJson(value));
  }
  size_t cases = 0;
  for (const Json& item : (*document)["cases"]) {
    const std::string source = item["template"];
    const Result<std::string> got = Render(source, variables);
    ++cases;
    if (item.contains("error")) {
      EXPECT_FALSE(got.has_value()) << source << "\nprinted: " << got.value_or("");
    } else if (!got.has_value()) {
      ADD_FAILURE() << source << "\nfailed: " << got.error().message;
    } else {
      EXPECT_EQ(*got, item["expected"].get<std::string>()) << source;
    }
  }
  EXPECT_GE(cases, 200u);
}

TEST(JinjaErrors, NameTheLine) {
  const auto syntax = Render("a\nb\n{{ 1 + }}");
  ASSERT_FALSE(syntax.has_value());
  EXPECT_NE(syntax.error().message.find("line 3"), std::string::npos) << syntax.error().message;
  const auto runtime = Render("{% set x = 1 %}\n\n{{ x.a.b }}");
  ASSERT_FALSE(runtime.has_value());
  EXPECT_NE(runtime.error().message.find("line 3"), std::string::npos) << runtime.error().message;
  const auto raised =
      Render("{% if true %}\n{{ raise_exception('roles must alternate') }}{% endif %}");
  ASSERT_FALSE(raised.has_value());
  EXPECT_EQ(raised.error().code, Code::kInvalidArgument);
  EXPECT_NE(raised.error().message.find("line 2: roles must alternate"), std::string::npos);
  const auto unsupported = Render("{% include 'x' %}");
  ASSERT_FALSE(unsupported.has_value());
  EXPECT_EQ(unsupported.error().code, Code::kUnimplemented);
}

TEST(JinjaLimits, StepsOutputAndNesting) {
  const auto steps =
      Render("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}");
  ASSERT_FALSE(steps.has_value());
  EXPECT_EQ(steps.error().code, Code::kResourceExhausted);
  const auto output =
      Render("{% set x = 'a' * 1000000 %}{% for i in range(90) %}{{ x }}{% endfor %}");
  ASSERT_FALSE(output.has_value());
  EXPECT_EQ(output.error().code, Code::kResourceExhausted);
  const auto doubling = Render(
      "{% set n = namespace(l=[1]) %}{% for i in range(60) %}{% set n.l = n.l + n.l %}"
      "{% endfor %}");
  ASSERT_FALSE(doubling.has_value());
  EXPECT_EQ(doubling.error().code, Code::kResourceExhausted);
  const auto recursion = Render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  ASSERT_FALSE(recursion.has_value());
  EXPECT_EQ(recursion.error().code, Code::kResourceExhausted);
  EXPECT_FALSE(Render("{{ 'a' * 100000000000 }}").has_value());
  EXPECT_FALSE(Render(std::string((size_t{1} << 20) + 1, 'x')).has_value());
  for (const char* part : {"(", "[", "{1:", "-", "not ", "1+", "x if y else ", "a.b|f|"}) {
    std::string source = "{{ ";
    for (int i = 0; i < 20'000; ++i) source += part;
    EXPECT_FALSE(Render(source + "1 }}").has_value()) << part;
  }
  std::string sum = "{{ 1";
  for (int i = 0; i < 1000; ++i) sum += " + 1";
  EXPECT_FALSE(Render(sum + " }}").has_value());
  std::string blocks;
  for (int i = 0; i < 10'000; ++i) blocks += "{% if true %}";
  EXPECT_FALSE(Render(blocks).has_value());
}

TEST(JinjaLimits, DeeplyNestedValuesAreReleasedAndRefused) {
  const char* nest =
      "{% set n = namespace(l=[]) %}{% for i in range(50000) %}{% set n.l = [n.l] %}{% endfor %}";
  EXPECT_TRUE(Render(nest).has_value());
  EXPECT_FALSE(Render(std::string(nest) + "{{ n.l }}").has_value());
  EXPECT_FALSE(Render(std::string(nest) + "{{ n.l | tojson }}").has_value());
  EXPECT_FALSE(Render(std::string(nest) + "{{ n.l == [n.l] }}").has_value());
}

TEST(JinjaLists, AppendCopiesSoThatNoListHoldsItself) {
  const auto got = Render(
      "{% set a = [1] %}{% set _ = a.append(a) %}{% set _ = a.append(2) %}{{ a }}{{ a[1] }}");
  ASSERT_TRUE(got.has_value()) << got.error().message;
  EXPECT_EQ(*got, "[1, [1], 2][1]");
  EXPECT_FALSE(Render("{% set n = namespace() %}{% set n.n = n %}").has_value());
  EXPECT_FALSE(Render("{% macro m() %}{% endmacro %}{{ [m] }}").has_value());
}

/// The trusted parts of the output in [], the untrusted in <>.
std::string Marked(std::string_view source, const Json& user) {
  const auto parsed = Template::Parse(source);
  if (!parsed.has_value()) return parsed.error().message;
  const auto text = parsed->Render({{"u", Value::FromJson(user)}}, SystemClock());
  if (!text.has_value()) return text.error().message;
  std::string out;
  size_t start = 0;
  for (const Text::Run& run : text->runs) {
    const std::string part = text->bytes.substr(start, run.end - start);
    out += run.trusted ? "[" + part + "]" : "<" + part + ">";
    start = run.end;
  }
  return out;
}

TEST(JinjaTrust, FollowsBytesThroughOperations) {
  const Json user = "ab cd";
  EXPECT_EQ(Marked("x{{ u }}y", user), "[x]<ab cd>[y]");
  EXPECT_EQ(Marked("{{ 'q' + u + 'r' }}", user), "[q]<ab cd>[r]");
  EXPECT_EQ(Marked("{{ ('q' ~ u ~ 'r')[1:4] }}", user), "<ab >");
  EXPECT_EQ(Marked("{{ ('q' ~ u ~ 'r')[::-1] }}", user), "[r]<dc ba>[q]");
  EXPECT_EQ(Marked("{{ ('<' ~ u ~ '>') | upper }}", user), "[<]<AB CD>[>]");
  EXPECT_EQ(Marked("{{ u.split(' ') | join('|') }}", user), "<ab>[|]<cd>");
  EXPECT_EQ(Marked("{{ u | replace(' ', '_') }}", user), "<ab>[_]<cd>");
  EXPECT_EQ(Marked("{{ 'a_b' | replace('_', u) }}", user), "[a]<ab cd>[b]");
  EXPECT_EQ(Marked("{{ u | tojson }}", user), "<\"ab cd\">");
  EXPECT_EQ(Marked("{{ {'k': 'v'} | tojson }}", user), "[{\"k\": \"v\"}]");
  EXPECT_EQ(Marked("{{ [u] }}", user), "<['ab cd']>");
  EXPECT_EQ(Marked("{{ '%s!' % u }}", user), "<ab cd>[!]");
  EXPECT_EQ(Marked("{% set x %}a{{ u }}{% endset %}{{ x }}", user), "[a]<ab cd>");
  EXPECT_EQ(Marked("{% macro m(x) %}({{ x }}){% endmacro %}{{ m(u) }}", user), "[(]<ab cd>[)]");
  EXPECT_EQ(Marked("{{ u | indent(2, true) }}", user), "[  ]<ab cd>");
  EXPECT_EQ(Marked("{{ u | default('d') }}{{ u.strip('a') }}", user), "<ab cdb cd>");
  EXPECT_EQ(Marked("{{ {'ab cd': 'chosen'}[u] }}", user), "[chosen]");
  EXPECT_EQ(Marked("{{ u + 1 }}", 41), "<42>");
  EXPECT_EQ(Marked("{% for k, v in u.items() %}{{ k }}{% endfor %}", {{"key", 1}}), "<key>");
  EXPECT_EQ(Marked("{{ u | int }}", "7"), "<7>");
}

}  // namespace
}  // namespace ballast::jinja
