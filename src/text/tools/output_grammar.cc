#include "text/tools/output_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace ballast {

namespace {

using grammar::GrammarBuilder;
using Part = GrammarBuilder::Part;
using Kind = ResponseFormat::Kind;

Error Within(const std::string& path, Error error) {
  error.message = path + ": " + error.message;
  return error;
}

/// An expression that describes exactly `text`.
std::string Quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

class Composer {
 public:
  explicit Composer(const OutputRules& rules) : rules_(rules), format_(*rules.tool_format) {}

  Result<grammar::GrammarPtr> Run() {
    ASSIGN_OR_RETURN(Part root, Reply());
    // Free text with calls covers the thoughts as well, so only what stands alone has to wait.
    const bool free = rules_.format.kind == Kind::kText && rules_.use != ToolUse::kRequired;
    if (rules_.thinking && !free) {
      ASSIGN_OR_RETURN(const Part gap, builder_.Regex("\\n{0,2}"));
      root = builder_.Sequence({gap, root});
      ASSIGN_OR_RETURN(root, builder_.TextWithTriggers({{"</think>", -1, root}}, 1));
    }
    return builder_.Build(root);
  }

 private:
  Result<Part> Reply() {
    if (rules_.use == ToolUse::kNone) return Format();
    ASSIGN_OR_RETURN(const Part call, AnyCall());
    ASSIGN_OR_RETURN(const Part block, RestOfBlock(call));
    if (rules_.use == ToolUse::kAuto && rules_.format.kind == Kind::kText) return FreeText(block);
    ASSIGN_OR_RETURN(const Part calls, OnlyCalls(block));
    if (rules_.use == ToolUse::kRequired) return calls;
    ASSIGN_OR_RETURN(const Part format, Format());
    return builder_.Choice({calls, format});
  }

  Result<Part> Format() {
    const ResponseFormat& format = rules_.format;
    Result<Part> part = 0;
    if (format.kind == Kind::kText) {
      part = builder_.TextWithTriggers({}, 1, GrammarBuilder::FreeText::kNotBlank);
    } else if (format.kind == Kind::kJsonSchema) {
      part = builder_.JsonSchema(format.schema);
    } else if (format.kind == Kind::kJsonObject) {
      part = builder_.JsonObject();
    } else if (format.kind == Kind::kRegex) {
      part = builder_.Regex(format.pattern);
    } else {
      std::string any;
      for (const std::string& choice : format.choices)
        (any += any.empty() ? "" : "|") += Quoted(choice);
      part = builder_.Regex(any);
    }
    if (!part) return Within(format.path, part.error());
    return part;
  }

  /// One of the tools, from its name to the end of its JSON. Names that begin alike share their
  /// beginning, so that few readings of a name are open at a time.
  Result<Part> AnyCall() {
    std::vector<Head> heads;
    for (const ToolSpec& tool : rules_.tools) {
      Result<Part> arguments = builder_.JsonSchema(tool.parameters);
      if (!arguments) {
        return Within(fmt::format("the parameters of the tool {:?}", tool.name), arguments.error());
      }
      ASSIGN_OR_RETURN(const Part tail, builder_.Literal(format_.after_arguments));
      heads.push_back({tool.name + std::string(format_.before_arguments),
                       builder_.Sequence({*arguments, tail})});
    }
    std::sort(heads.begin(), heads.end(),
              [](const Head& x, const Head& y) { return x.text < y.text; });
    return AnyHead(heads, 0);
  }

  struct Head {
    std::string text;  ///< the quote after the name keeps any from beginning another
    Part then;
  };
  /// One of `heads` (sorted), which agree in their first `done` bytes.
  Result<Part> AnyHead(std::span<const Head> heads, size_t done) {
    const std::string& first = heads.front().text;
    if (heads.size() == 1) {
      ASSIGN_OR_RETURN(const Part rest, builder_.Literal(first.substr(done)));
      return builder_.Sequence({rest, heads.front().then});
    }
    size_t common = done;
    while (first[common] == heads.back().text[common]) ++common;
    ASSIGN_OR_RETURN(const Part shared, builder_.Literal(first.substr(done, common - done)));
    std::vector<Part> parts;
    for (size_t begin = 0; begin < heads.size();) {
      size_t end = begin + 1;
      while (end < heads.size() && heads[end].text[common] == heads[begin].text[common]) ++end;
      ASSIGN_OR_RETURN(parts.emplace_back(), AnyHead(heads.subspan(begin, end - begin), common));
      begin = end;
    }
    return builder_.Sequence({shared, builder_.Choice(std::move(parts))});
  }

  bool many() const { return rules_.parallel && format_.parallel; }

  /// `part`, then up to `times` − 1 more of them with `separator` before each.
  Result<Part> Repeat(Part part, std::string_view separator, int times) {
    Part rest = builder_.Sequence({});
    ASSIGN_OR_RETURN(const Part between, builder_.Literal(separator));
    for (int i = 1; i < times; ++i) {
      const Part more = builder_.Sequence({between, part, rest});
      rest = builder_.Choice({builder_.Sequence({}), more});
    }
    return builder_.Sequence({part, rest});
  }

  /// What follows the opening of a block.
  Result<Part> RestOfBlock(Part call) {
    ASSIGN_OR_RETURN(const Part open, builder_.Literal(format_.block_open));
    ASSIGN_OR_RETURN(const Part name, builder_.Literal(format_.before_name));
    ASSIGN_OR_RETURN(const Part close, builder_.Literal(format_.closing));
    Part calls = builder_.Sequence({name, call});
    if (many() && !format_.separator.empty()) {
      ASSIGN_OR_RETURN(calls, Repeat(calls, format_.separator, kMaxParallelCalls));
    }
    return builder_.Sequence({open, calls, close});
  }

  Result<Part> OnlyCalls(Part block) {
    ASSIGN_OR_RETURN(const Part opening, builder_.Literal(format_.opening));
    const Part whole = builder_.Sequence({opening, block});
    const bool blocks = many() && format_.separator.empty();
    return Repeat(whole, format_.block_separator, blocks ? kMaxParallelCalls : 1);
  }

  Result<Part> FreeText(Part block) {
    std::vector<GrammarBuilder::Trigger> triggers{{std::string(format_.opening), -1, block}};
    if (rules_.control_opening) {
      ASSIGN_OR_RETURN(const Part opening, builder_.Literal(format_.opening));
      triggers.push_back({"", *rules_.control_opening, builder_.Sequence({opening, block})});
    }
    const bool blocks = many() && format_.separator.empty();
    // Small models like to end at once after a tool's result; an agent can do nothing with that.
    return builder_.TextWithTriggers(triggers, blocks ? kMaxParallelCalls : 1,
                                     GrammarBuilder::FreeText::kNotBlank);
  }

  const OutputRules& rules_;
  const ToolFormat& format_;
  GrammarBuilder builder_;
};

}  // namespace

std::string OutputKey(const OutputRules& rules) {
  Json key = Json::array();
  key.push_back(static_cast<int>(rules.format.kind));
  key.push_back(rules.format.schema);
  key.push_back(rules.format.pattern);
  key.push_back(rules.format.choices);
  key.push_back(static_cast<int>(rules.use));
  key.push_back(rules.parallel);
  key.push_back(rules.not_blank);
  key.push_back(rules.thinking);
  key.push_back(std::string(rules.tool_format->name));
  for (const ToolSpec& tool : rules.tools) {
    key.push_back(tool.name);
    key.push_back(tool.parameters);
  }
  return DumpJson(key);
}

Result<grammar::GrammarPtr> CompileOutput(const OutputRules& rules) {
  return Composer(rules).Run();
}

}  // namespace ballast
