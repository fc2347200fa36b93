#include "text/grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "text/grammar/limits.h"
#include "text/grammar/nodes.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_compiler.h"
#include "text/grammar/schema_loader.h"
#include "text/unicode.h"

namespace ballast::grammar {
namespace {

size_t DfaBytes(const Dfa& dfa) {
  return sizeof(Dfa) + (dfa.next.capacity() + dfa.label.capacity()) * sizeof(int32_t);
}

size_t CountBytes(const GrammarData& data) {
  size_t bytes = sizeof(GrammarData) + data.nodes.capacity() * sizeof(Node);
  for (const Node& n : data.nodes) bytes += n.kids.capacity() * sizeof(NodeId);
  for (const Dfa& dfa : data.leaves) bytes += DfaBytes(dfa);
  for (const ArrayTable& a : data.arrays) {
    bytes += sizeof(ArrayTable) + a.prefix.capacity() * sizeof(NodeId);
  }
  for (const ObjectTable& o : data.objects) {
    bytes += sizeof(ObjectTable) + DfaBytes(o.keys) + o.states.capacity() * sizeof(KeyState);
    bytes += (o.values.capacity() + o.others.capacity()) * sizeof(NodeId);
    for (const std::string& name : o.names) bytes += sizeof(std::string) + name.capacity();
  }
  for (const DispatchTable& d : data.dispatches) bytes += DfaBytes(d.text);
  return bytes;
}

Error Unsatisfiable(std::string_view what) {
  Error error = InvalidArgument("{}: no text satisfies it", what);
  error.reason = "unsatisfiable";
  return error;
}

/// Free text can only stand where nothing follows it: what ends it would be a matter of guessing.
bool TextOnlyAtEnd(const GrammarData& data, NodeId id, bool at_end) {
  const Node& n = data.node(id);
  if (n.kind == NodeKind::kDispatch && !at_end) return false;
  if (n.kind != NodeKind::kDispatch && n.kind != NodeKind::kSequence &&
      n.kind != NodeKind::kChoice) {
    return true;
  }
  for (size_t i = 0; i < n.kids.size(); ++i) {
    const bool last =
        n.kind == NodeKind::kChoice || (n.kind == NodeKind::kSequence && i + 1 == n.kids.size());
    if (!TextOnlyAtEnd(data, n.kids[i], at_end && last)) return false;
  }
  return true;
}

GrammarBuilder::Part AddNode(GrammarData* data, Node node) {
  data->nodes.push_back(std::move(node));
  return static_cast<GrammarBuilder::Part>(data->nodes.size()) - 1;
}

GrammarBuilder::Part AddLeafNode(GrammarData* data, Dfa dfa) {
  Node node;
  node.kind = NodeKind::kLeaf;
  node.index = static_cast<int32_t>(data->leaves.size());
  data->leaves.push_back(std::move(dfa));
  return AddNode(data, std::move(node));
}

Result<Dfa> TextDfa(std::string_view text) {
  Nfa nfa;
  const int32_t start = nfa.AddState(), end = nfa.AddState();
  nfa.Accept(end);
  nfa.AddText(start, text, end);
  return Determinize(nfa, start, static_cast<int32_t>(kMaxLiteralBytes) + 8);
}

}  // namespace

Grammar::Grammar(std::unique_ptr<const GrammarData> data)
    : data_(std::move(data)), bytes_(CountBytes(*data_)) {}
Grammar::~Grammar() = default;

std::string SpecialTokenBytes(TokenId token) {
  std::string out = "\xFF";
  for (int shift = 0; shift < 32; shift += 8) {
    out += static_cast<char>(static_cast<uint32_t>(token) >> shift & 0xFF);
  }
  return out;
}

GrammarBuilder::GrammarBuilder() : data_(std::make_unique<GrammarData>()) {}
GrammarBuilder::~GrammarBuilder() = default;

Result<GrammarBuilder::Part> GrammarBuilder::Literal(std::string_view text) {
  if (text.size() > kMaxLiteralBytes) {
    return ResourceExhausted("a literal of {} bytes exceeds the limit of {}", text.size(),
                             kMaxLiteralBytes);
  }
  if (!IsValidUtf8(text)) return InvalidArgument("a literal is not valid UTF-8");
  if (text.empty()) return Sequence({});
  ASSIGN_OR_RETURN(Dfa dfa, TextDfa(text));
  return AddLeafNode(data_.get(), std::move(dfa));
}

Result<GrammarBuilder::Part> GrammarBuilder::SpecialToken(TokenId token) {
  ASSIGN_OR_RETURN(Dfa dfa, TextDfa(SpecialTokenBytes(token)));
  return AddLeafNode(data_.get(), std::move(dfa));
}

Result<GrammarBuilder::Part> GrammarBuilder::JsonSchema(const Json& schema) {
  SchemaLoader loader(schema);
  ASSIGN_OR_RETURN(const SchemaId root, loader.LoadRoot());
  SchemaCompiler compiler(&loader, data_.get());
  return compiler.Compile({root});
}

Result<GrammarBuilder::Part> GrammarBuilder::JsonObject() {
  return JsonSchema(Json{{"type", "object"}});
}

Result<GrammarBuilder::Part> GrammarBuilder::Regex(std::string_view pattern) {
  ASSIGN_OR_RETURN(Dfa dfa, CompileRegexDfa(pattern, Anchor::kWhole, Spelling::kUtf8));
  if (dfa.empty()) return Unsatisfiable("the expression");
  return AddLeafNode(data_.get(), std::move(dfa));
}

GrammarBuilder::Part GrammarBuilder::Sequence(std::vector<Part> parts) {
  Node node;
  node.kind = NodeKind::kSequence;
  node.kids = std::move(parts);
  return AddNode(data_.get(), std::move(node));
}

GrammarBuilder::Part GrammarBuilder::Choice(std::vector<Part> parts) {
  Node node;
  node.kind = NodeKind::kChoice;
  node.kids = std::move(parts);
  return AddNode(data_.get(), std::move(node));
}

namespace {

/// The state of free text that is not blank and in which no trigger has begun.
Result<int32_t> PlainTextState(const Dfa& text,
                               const std::vector<GrammarBuilder::Trigger>& triggers) {
  std::string begun;
  for (const GrammarBuilder::Trigger& t : triggers) begun += t.text;
  for (char c = '!'; c < 127; ++c) {
    if (begun.find(c) == std::string::npos) return text.Run(std::string_view(&c, 1));
  }
  return InvalidArgument("the triggers hold every printable character");
}

}  // namespace

Result<GrammarBuilder::Part> GrammarBuilder::TextWithTriggers(const std::vector<Trigger>& triggers,
                                                              int max_rounds, FreeText kind) {
  if (triggers.size() > static_cast<size_t>(kMaxTriggers) || max_rounds < 1) {
    return InvalidArgument("{} triggers and {} rounds: at most {} and at least 1 are possible",
                           triggers.size(), max_rounds, kMaxTriggers);
  }
  // Label 0 is "the text may end"; a completed trigger must win over it, so labels are swapped
  // after the subset construction, which prefers the lowest.
  Nfa nfa;
  const int32_t text = nfa.AddState();
  AddCodes(&nfa, text, text, AllCodes(), Spelling::kUtf8);
  int32_t first = text;
  if (kind == FreeText::kNotBlank) {
    const CodeSet blanks = NormaliseSet({{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}});
    first = nfa.AddState();
    AddCodes(&nfa, first, first, blanks, Spelling::kUtf8);
    AddCodes(&nfa, first, text, ComplementSet(blanks), Spelling::kUtf8);
  }
  const auto none = static_cast<int32_t>(triggers.size());
  nfa.Accept(text, none);
  Node node;
  node.kind = NodeKind::kDispatch;
  for (size_t i = 0; i < triggers.size(); ++i) {
    const Trigger& t = triggers[i];
    if (t.token < 0 && (t.text.empty() || t.text.size() > 256 || !IsValidUtf8(t.text))) {
      return InvalidArgument("trigger {} must be valid UTF-8 of 1 to 256 bytes", i);
    }
    const int32_t end = nfa.AddState();
    const std::string spelled = t.token < 0 ? t.text : SpecialTokenBytes(t.token);
    nfa.AddText(text, spelled, end);
    if (first != text) nfa.AddText(first, spelled, end);
    nfa.Accept(end, static_cast<int32_t>(i));
    node.kids.push_back(t.then);
  }
  ASSIGN_OR_RETURN(Dfa dfa, Determinize(nfa, first, kMaxDfaStates));
  const auto width = static_cast<size_t>(dfa.num_classes);
  for (size_t s = 0; s < dfa.label.size(); ++s) {
    int32_t& label = dfa.label[s];
    if (label == none) {
      label = 0;
    } else if (label != kNoLabel) {
      ++label;
      std::fill_n(dfa.next.begin() + static_cast<std::ptrdiff_t>(s * width), width, kNoState);
    }
  }
  node.index = static_cast<int32_t>(data_->dispatches.size());
  DispatchTable table{Finish(std::move(dfa)), max_rounds, 0};
  if (kind == FreeText::kNotBlank) {
    ASSIGN_OR_RETURN(table.after_part, PlainTextState(table.text, triggers));
  }
  data_->dispatches.push_back(std::move(table));
  return AddNode(data_.get(), std::move(node));
}

Result<GrammarPtr> GrammarBuilder::Build(Part root) {
  auto data = std::exchange(data_, std::make_unique<GrammarData>());
  data->root = root;
  RETURN_IF_ERROR(FinishNodes(data.get()));
  for (size_t i = 0; i < data->nodes.size(); ++i) {
    const Node& n = data->nodes[i];
    if (n.kind != NodeKind::kDispatch) continue;
    for (const NodeId kid : n.kids) {
      if (data->node(kid).min_depth > kMaxNesting) return Unsatisfiable("the part of a trigger");
    }
  }
  if (!TextOnlyAtEnd(*data, root, true)) {
    return InvalidArgument("free text with triggers must be the last part of a grammar");
  }
  if (data->node(root).min_depth > kMaxNesting) return Unsatisfiable("the schema");
  return std::make_shared<const Grammar>(std::move(data));
}

Result<GrammarPtr> CompileJsonSchema(const Json& schema) {
  GrammarBuilder builder;
  ASSIGN_OR_RETURN(const auto part, builder.JsonSchema(schema));
  return builder.Build(part);
}

Result<GrammarPtr> CompileJsonObject() {
  GrammarBuilder builder;
  ASSIGN_OR_RETURN(const auto part, builder.JsonObject());
  return builder.Build(part);
}

Result<GrammarPtr> CompileRegex(std::string_view pattern) {
  GrammarBuilder builder;
  ASSIGN_OR_RETURN(const auto part, builder.Regex(pattern));
  return builder.Build(part);
}

}  // namespace ballast::grammar
