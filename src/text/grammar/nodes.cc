// What needs the whole graph: which nodes have a text at all, how deep the shallowest is, and the
// key automata, which must not lead to members without a value.
#include "text/grammar/nodes.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "text/grammar/limits.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_compiler.h"

namespace ballast::grammar {

int Bits::Count() const {
  int n = 0;
  for (const uint64_t w : words) n += std::popcount(w);
  return n;
}

Bits Bits::And(const Bits& o) const {
  Bits out;
  for (size_t i = 0; i < words.size(); ++i) out.words[i] = words[i] & o.words[i];
  return out;
}

Bits Bits::Minus(const Bits& o) const {
  Bits out;
  for (size_t i = 0; i < words.size(); ++i) out.words[i] = words[i] & ~o.words[i];
  return out;
}

namespace {

void AddHex(Nfa* nfa, int32_t from, int32_t to, std::string_view ranges) {
  for (size_t i = 0; i + 1 < ranges.size(); i += 2) {
    nfa->AddEdge(from, static_cast<uint8_t>(ranges[i]), static_cast<uint8_t>(ranges[i + 1]), to);
  }
}

constexpr std::string_view kAnyHex = "09afAF";

/// \uXXXX, where a high surrogate must be followed by a low one.
void AddUnicodeEscapes(Nfa* nfa, int32_t after_u, int32_t body) {
  const auto chain = [&](int32_t from, int32_t to, int digits) {
    for (int i = 0; i < digits; ++i) {
      const int32_t next = i + 1 == digits ? to : nfa->AddState();
      AddHex(nfa, from, next, kAnyHex);
      from = next;
    }
  };
  const int32_t plain = nfa->AddState(), d = nfa->AddState(), d_low = nfa->AddState();
  AddHex(nfa, after_u, plain, "09acACefEF");
  chain(plain, body, 3);
  AddHex(nfa, after_u, d, "ddDD");
  AddHex(nfa, d, d_low, "07");
  chain(d_low, body, 2);
  const int32_t high = nfa->AddState(), low = nfa->AddState(), low_u = nfa->AddState();
  const int32_t slash = nfa->AddState(), low_tail = nfa->AddState(), low_d = nfa->AddState();
  AddHex(nfa, d, high, "89abAB");
  chain(high, slash, 2);
  nfa->AddText(slash, "\\u", low_u);
  AddHex(nfa, low_u, low, "ddDD");
  AddHex(nfa, low, low_tail, "cfCF");
  chain(low_tail, body, 2);
  (void)low_d;
}

Dfa MakeJsonString() {
  Nfa nfa;
  const int32_t start = nfa.AddState(), body = nfa.AddState(), end = nfa.AddState();
  const int32_t escape = nfa.AddState(), after_u = nfa.AddState();
  nfa.Accept(end);
  nfa.AddEdge(start, '"', '"', body);
  nfa.AddEdge(body, '"', '"', end);
  const CodeSet raw = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0xD7FF}, {0xE000, 0x10FFFF}};
  AddCodes(&nfa, body, body, raw, Spelling::kUtf8);
  nfa.AddEdge(body, '\\', '\\', escape);
  for (const char c : std::string_view("\"\\/bfnrt")) {
    nfa.AddEdge(escape, static_cast<uint8_t>(c), static_cast<uint8_t>(c), body);
  }
  nfa.AddEdge(escape, 'u', 'u', after_u);
  AddUnicodeEscapes(&nfa, after_u, body);
  return Determinize(nfa, start, kMaxDfaStates).value();
}

int32_t DepthOf(const GrammarData& data, NodeId id) {
  return id == kNoNode ? kEndless : data.node(id).min_depth;
}

int32_t Plus1(int32_t depth) { return depth == kEndless ? kEndless : depth + 1; }

int32_t ArrayDepth(const GrammarData& data, const Node& n) {
  const ArrayTable& table = data.array(n);
  int32_t depth = 0;
  const auto prefix = static_cast<int64_t>(table.prefix.size());
  for (int64_t i = 0; i < std::min(n.min, prefix + 1); ++i) {
    const NodeId item = i < prefix ? table.prefix[static_cast<size_t>(i)] : table.items;
    depth = std::max(depth, DepthOf(data, item));
  }
  return Plus1(depth);
}

int32_t ObjectDepth(const GrammarData& data, const Node& n) {
  const ObjectTable& table = data.object(n);
  int32_t depth = 0, other = kEndless;
  std::vector<int32_t> optional;
  for (size_t i = 0; i < table.names.size(); ++i) {
    const int32_t d = DepthOf(data, table.values[i]);
    if (table.required.Test(i)) {
      depth = std::max(depth, d);
    } else if (d != kEndless) {
      optional.push_back(d);
    }
  }
  for (const NodeId id : table.others) other = std::min(other, DepthOf(data, id));
  // minProperties: the shallowest of what is optional fill up.
  std::sort(optional.begin(), optional.end());
  int64_t missing = n.min - table.required.Count();
  for (size_t i = 0; missing > 0; ++i, --missing) {
    const int32_t next = i < optional.size() ? std::min(optional[i], other) : other;
    depth = std::max(depth, next);
    if (depth == kEndless || i >= optional.size()) break;
  }
  return Plus1(depth);
}

int32_t NodeDepth(const GrammarData& data, const Node& n) {
  switch (n.kind) {
    case NodeKind::kLeaf:
      return data.leaf(n).empty() ? kEndless : 0;
    case NodeKind::kString:
      return 0;
    case NodeKind::kArray:
      return ArrayDepth(data, n);
    case NodeKind::kObject:
      return ObjectDepth(data, n);
    case NodeKind::kChoice: {
      int32_t depth = kEndless;
      for (const NodeId kid : n.kids) depth = std::min(depth, DepthOf(data, kid));
      return depth;
    }
    case NodeKind::kSequence: {
      int32_t depth = 0;
      for (const NodeId kid : n.kids) depth = std::max(depth, DepthOf(data, kid));
      return depth;
    }
    case NodeKind::kDispatch:
      return 0;
  }
  return kEndless;
}

/// Reachability of labels from every state of a key automaton.
std::vector<KeyState> KeyStates(const Dfa& keys, size_t num_names) {
  const auto n = static_cast<size_t>(keys.num_states());
  std::vector<KeyState> out(n);
  const std::vector<bool> endless = InfiniteStates(keys);
  bool changed = true;
  const auto merge = [&](KeyState* to, const KeyState& from) {
    Bits joined = to->properties;
    for (size_t w = 0; w < 4; ++w) joined.words[w] |= from.properties.words[w];
    const bool open = to->open || from.open;
    changed = changed || !(joined == to->properties) || open != to->open;
    to->properties = joined;
    to->open = open;
  };
  for (size_t s = 0; s < n; ++s) {
    out[s].endless = endless[s];
    if (keys.label[s] == kNoLabel) continue;
    const auto label = static_cast<size_t>(keys.label[s]);
    if (label < num_names) {
      out[s].properties.Set(label);
    } else {
      out[s].open = true;
    }
  }
  while (changed) {
    changed = false;
    for (size_t s = n; s-- > 0;) {
      for (int32_t c = 0; c < keys.num_classes; ++c) {
        const int32_t to =
            keys.next[s * static_cast<size_t>(keys.num_classes) + static_cast<size_t>(c)];
        if (to == kNoState) continue;
        merge(&out[s], out[static_cast<size_t>(to)]);
        if (keys.label[static_cast<size_t>(to)] != kNoLabel) out[s].closing = true;
      }
    }
  }
  return out;
}

Status FinishObject(const GrammarData& data, Node* n, ObjectTable* table) {
  Nfa nfa;
  const int32_t start = nfa.AddState(), quote = nfa.AddState();
  nfa.AddEdge(start, '"', '"', quote);
  const auto closing = [&](int32_t label) {
    const int32_t from = nfa.AddState(), end = nfa.AddState();
    nfa.AddText(from, "\":", end);
    nfa.Accept(end, label);
    return from;
  };
  table->max_value_depth = 0;
  const auto depth = [&](NodeId id) {
    const int32_t d = DepthOf(data, id);
    if (d != kEndless) table->max_value_depth = std::max(table->max_value_depth, d);
    return d;
  };
  int64_t usable = 0;
  for (size_t i = 0; i < table->names.size(); ++i) {
    if (depth(table->values[i]) == kEndless) continue;
    table->usable.Set(i);
    ++usable;
    nfa.AddText(quote, JsonBody(table->names[i]), closing(static_cast<int32_t>(i)));
  }
  for (size_t c = 0; c < table->others.size(); ++c) {
    if (depth(table->others[c]) == kEndless) continue;
    const auto label = static_cast<int32_t>(table->names.size() + c);
    nfa.AddEmpty(quote, nfa.AddDfa(table->other_keys[c], closing(label)));
  }
  ASSIGN_OR_RETURN(table->keys, Determinize(nfa, start, kMaxDfaStates));
  table->other_keys.clear();
  table->states = KeyStates(table->keys, table->names.size());
  const bool open = !table->states.empty() && table->states[0].open;
  if (!open && (n->max < 0 || n->max > usable)) n->max = usable;
  return OkStatus();
}

}  // namespace

const Dfa& JsonStringDfa() {
  static const Dfa kDfa = MakeJsonString();
  return kDfa;
}

int32_t JsonStringBody() {
  static const int32_t kBody = JsonStringDfa().Next(0, '"');
  return kBody;
}

Status FinishNodes(GrammarData* data) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (Node& n : data->nodes) {
      const int32_t depth = NodeDepth(*data, n);
      changed = changed || depth < n.min_depth;
      n.min_depth = depth;
    }
  }
  for (Node& n : data->nodes) {
    auto& kids = n.kids;
    if (n.kind == NodeKind::kChoice) {
      kids.erase(std::remove_if(kids.begin(), kids.end(),
                                [&](NodeId kid) { return DepthOf(*data, kid) == kEndless; }),
                 kids.end());
    }
    if (n.kind == NodeKind::kArray) {
      // Items end before the first that has no value.
      const ArrayTable& table = data->array(n);
      int64_t limit = 0;
      const auto prefix = static_cast<int64_t>(table.prefix.size());
      while (limit < prefix &&
             DepthOf(*data, table.prefix[static_cast<size_t>(limit)]) != kEndless) {
        ++limit;
      }
      const bool endless = limit == prefix && DepthOf(*data, table.items) != kEndless;
      if (!endless && (n.max < 0 || n.max > limit)) n.max = limit;
    }
    if (n.kind == NodeKind::kObject && n.min_depth != kEndless) {
      RETURN_IF_ERROR(FinishObject(*data, &n, &data->objects[static_cast<size_t>(n.index)]));
    }
  }
  return OkStatus();
}

}  // namespace ballast::grammar
