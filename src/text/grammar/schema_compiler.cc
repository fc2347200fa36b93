#include "text/grammar/schema_compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "text/grammar/limits.h"
#include "text/grammar/regex.h"

namespace ballast::grammar {
namespace {

void Insert(SchemaSet* set, SchemaId id) {
  const auto at = std::lower_bound(set->begin(), set->end(), id);
  if (at == set->end() || *at != id) set->insert(at, id);
}

SchemaSet Sorted(std::vector<SchemaId> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

Error SchemaCompiler::At(const SchemaSet& set, Error error) const {
  const std::string& path = set.empty() ? std::string() : loader_.flat(set.front()).path;
  return std::move(error).WithContext("the schema at '" + path + "'");
}

Result<NodeId> SchemaCompiler::NewNode(NodeKind kind) {
  if (data_.nodes.size() >= static_cast<size_t>(kMaxNodes)) {
    return ResourceExhausted("the schema compiles to more than the limit of {} nodes", kMaxNodes);
  }
  data_.nodes.emplace_back();
  data_.nodes.back().kind = kind;
  return static_cast<NodeId>(data_.nodes.size()) - 1;
}

/// A leaf, or kNoNode if it accepts nothing. Equal automata share a node.
Result<NodeId> SchemaCompiler::AddLeaf(Dfa dfa) {
  if (dfa.empty()) return kNoNode;
  const auto it = leaves_.find(dfa.fingerprint);
  if (it != leaves_.end()) return it->second;
  cells_ += static_cast<int64_t>(dfa.next.size());
  if (cells_ > kMaxTotalDfaCells) {
    return ResourceExhausted("the automata of the schema exceed the limit of {} cells",
                             kMaxTotalDfaCells);
  }
  ASSIGN_OR_RETURN(const NodeId id, NewNode(NodeKind::kLeaf));
  data_.nodes.back().index = static_cast<int32_t>(data_.leaves.size());
  leaves_[dfa.fingerprint] = id;
  data_.leaves.push_back(std::move(dfa));
  return id;
}

SchemaCompiler::Closure SchemaCompiler::Close(const SchemaSet& seed) const {
  Closure out;
  std::vector<SchemaId> work(seed.rbegin(), seed.rend());
  while (!work.empty()) {
    const SchemaId id = work.back();
    work.pop_back();
    if (std::binary_search(out.set.begin(), out.set.end(), id)) continue;
    Insert(&out.set, id);
    const FlatSchema& f = loader_.flat(id);
    if (f.Trivial()) {
      out.set.erase(std::lower_bound(out.set.begin(), out.set.end(), id));
      continue;
    }
    out.types &= f.types;
    out.never = out.never || f.never;
    work.insert(work.end(), f.all_of.rbegin(), f.all_of.rend());
  }
  for (const SchemaId id : out.set) {
    for (const SchemaGroup& group : loader_.flat(id).groups) out.groups.push_back(&group);
  }
  out.never = out.never || out.types == 0;
  return out;
}

Result<NodeId> SchemaCompiler::Compile(SchemaSet set) {
  set = Close(set).set;
  if (const auto it = compiled_.find(set); it != compiled_.end()) return it->second;
  if (++depth_ > kMaxSchemaDepth) {
    return At(set, ResourceExhausted("combined schemas nest deeper than {}", kMaxSchemaDepth));
  }
  ASSIGN_OR_RETURN(const NodeId id, NewNode(NodeKind::kChoice));
  compiled_[set] = id;
  const Closure closure = Close(set);
  std::vector<NodeId> kids;
  if (!closure.never) {
    const std::vector<Json>* values = nullptr;
    for (const SchemaId s : closure.set) {
      const auto& v = loader_.flat(s).values;
      if (v && (values == nullptr || v->size() < values->size())) values = &*v;
    }
    if (values != nullptr) {
      const std::vector<Json> copy = *values;
      RETURN_IF_ERROR(AddValues(closure.set, copy, &kids));
    } else {
      std::vector<SchemaGroup> pending;
      for (const SchemaGroup* group : closure.groups) pending.push_back(*group);
      std::vector<SchemaSet> sets;
      RETURN_IF_ERROR(Expand(closure, &pending, 0, &sets));
      for (const SchemaSet& s : sets) RETURN_IF_ERROR(AddAlternative(s, &kids));
    }
  }
  std::sort(kids.begin(), kids.end());
  kids.erase(std::unique(kids.begin(), kids.end()), kids.end());
  data_.nodes[static_cast<size_t>(id)].kids = std::move(kids);
  // From now on an empty choice is known to be empty.
  data_.nodes[static_cast<size_t>(id)].index = 1;
  --depth_;
  return id;
}

bool SchemaCompiler::KnownEmpty(NodeId id) const {
  if (id == kNoNode) return true;
  const Node& n = data_.node(id);
  return n.kind == NodeKind::kChoice && n.index == 1 && n.kids.empty();
}

/// Multiplies the groups out. `pending` grows as chosen options bring groups of their own.
Status SchemaCompiler::Expand(const Closure& closure, std::vector<SchemaGroup>* pending,
                              size_t next_group, std::vector<SchemaSet>* out) {
  if (closure.never) return OkStatus();
  if (pending->size() > static_cast<size_t>(kMaxGroups)) {
    return At(closure.set, ResourceExhausted("{} choices hold of one value, the limit is {}",
                                             pending->size(), kMaxGroups));
  }
  if (next_group == pending->size()) {
    if (std::find(out->begin(), out->end(), closure.set) == out->end()) {
      out->push_back(closure.set);
    }
    if (out->size() > static_cast<size_t>(kMaxAlternatives)) {
      return At(closure.set, ResourceExhausted("its choices multiply to more than {} alternatives",
                                               kMaxAlternatives));
    }
    return OkStatus();
  }
  const SchemaGroup group = (*pending)[next_group];
  ASSIGN_OR_RETURN(const std::vector<SchemaId> options, Options(group, closure.types));
  for (const SchemaId option : options) {
    SchemaSet seed = closure.set;
    Insert(&seed, option);
    Closure chosen = Close(seed);
    // What the option adds: groups of schemas that were not in the set before.
    const size_t before = pending->size();
    for (const SchemaId id : chosen.set) {
      if (std::binary_search(closure.set.begin(), closure.set.end(), id)) continue;
      for (const SchemaGroup& g : loader_.flat(id).groups) pending->push_back(g);
    }
    RETURN_IF_ERROR(Expand(chosen, pending, next_group + 1, out));
    pending->resize(before);
  }
  return OkStatus();
}

/// The options of a group as alternatives to be united. Exactly-one becomes any-of where no two
/// options can hold at once, and "this one and none of the others" elsewhere.
Result<std::vector<SchemaId>> SchemaCompiler::Options(const SchemaGroup& group, uint32_t types) {
  if (!group.exclusive || mode_ == Mode::kUpperBound) return group.options;
  // Remembered: new schemas at each visit would keep a recursive one from closing.
  const auto key = std::pair(group.options, types);
  if (const auto it = options_.find(key); it != options_.end()) return it->second;
  std::vector<SchemaId> out;
  for (size_t i = 0; i < group.options.size(); ++i) {
    FlatSchema only;
    only.path = group.path;
    only.all_of = {group.options[i]};
    for (size_t j = 0; j < group.options.size(); ++j) {
      if (i == j) continue;
      ASSIGN_OR_RETURN(const bool disjoint, Disjoint(group.options[i], group.options[j], types));
      if (disjoint) continue;
      auto opposite = loader_.Not(group.options[j]);
      if (!opposite) {
        Error error =
            Unimplemented("schema keyword 'oneOf' at '{}': options {} and {} may both hold, and {}",
                          group.path, std::min(i, j), std::max(i, j), opposite.error().message);
        error.reason = "oneOf";
        return error;
      }
      only.all_of.push_back(*opposite);
    }
    out.push_back(only.all_of.size() == 1 ? group.options[i] : loader_.Add(std::move(only)));
  }
  options_[key] = out;
  return out;
}

Result<bool> SchemaCompiler::Disjoint(SchemaId a, SchemaId b, uint32_t types) {
  if (a == b) return false;
  FlatSchema base;
  base.types = types;
  GrammarData scratch;
  SchemaCompiler compiler(&loader_, &scratch, Mode::kUpperBound);
  const auto node = compiler.Compile(Sorted({a, b, loader_.Add(std::move(base))}));
  if (!node) return false;  // too large to tell
  scratch.root = *node;
  RETURN_IF_ERROR(FinishNodes(&scratch));
  return scratch.node(scratch.root).min_depth == kEndless;
}

Status SchemaCompiler::AddAlternative(const SchemaSet& set, std::vector<NodeId>* kids) {
  if (const auto it = alternatives_.find(set); it != alternatives_.end()) {
    kids->insert(kids->end(), it->second.begin(), it->second.end());
    return OkStatus();
  }
  std::vector<NodeId> own;
  const Closure closure = Close(set);
  if (!closure.never) {
    const std::vector<Json>* values = nullptr;
    for (const SchemaId s : set) {
      const auto& v = loader_.flat(s).values;
      if (v && (values == nullptr || v->size() < values->size())) values = &*v;
    }
    if (values != nullptr) {
      const std::vector<Json> copy = *values;
      RETURN_IF_ERROR(AddValues(set, copy, &own));
    } else {
      RETURN_IF_ERROR(AddScalars(closure.types, &own));
      if ((closure.types & (kInteger | kFraction)) != 0) {
        RETURN_IF_ERROR(AddNumber(set, closure.types, &own));
      }
      if ((closure.types & kStringType) != 0) RETURN_IF_ERROR(AddString(set, &own));
      if ((closure.types & kArrayType) != 0) RETURN_IF_ERROR(AddArray(set, &own));
      if ((closure.types & kObjectType) != 0) RETURN_IF_ERROR(AddObject(set, &own));
    }
  }
  kids->insert(kids->end(), own.begin(), own.end());
  alternatives_.emplace(set, std::move(own));
  return OkStatus();
}

/// The members of an enum that satisfy everything else. Strings and other words share one leaf.
Status SchemaCompiler::AddValues(const SchemaSet& set, const std::vector<Json>& values,
                                 std::vector<NodeId>* kids) {
  Nfa words;
  const int32_t start = words.AddState(), end = words.AddState();
  words.Accept(end);
  for (const Json& value : values) {
    const bool fits = std::all_of(set.begin(), set.end(),
                                  [&](SchemaId id) { return loader_.Validate(id, value); });
    if (!fits) continue;
    if (value.is_string()) {
      words.AddText(start, '"' + JsonBody(value.get_ref<const std::string&>()) + '"', end);
      continue;
    }
    ASSIGN_OR_RETURN(const NodeId node, Constant(value));
    if (node != kNoNode) kids->push_back(node);
  }
  auto dfa = Determinize(words, start, kMaxDfaStates);
  if (!dfa) return At(set, dfa.error());
  ASSIGN_OR_RETURN(const NodeId leaf, AddLeaf(*std::move(dfa)));
  if (leaf != kNoNode) kids->push_back(leaf);
  return OkStatus();
}

/// A single value. Members of an object may come in any order, 1 may be spelled 1.0.
Result<NodeId> SchemaCompiler::Constant(const Json& value) {
  if (value.is_number()) {
    ASSIGN_OR_RETURN(const Decimal number, Decimal::From(value));
    NumberSpec spec;
    spec.lo = spec.hi = number;
    ASSIGN_OR_RETURN(Dfa dfa, NumberDfa(spec));
    return AddLeaf(std::move(dfa));
  }
  if (value.is_array()) {
    ArrayTable table;
    for (const Json& item : value) {
      ASSIGN_OR_RETURN(const NodeId node, Constant(item));
      if (node == kNoNode) return kNoNode;
      table.prefix.push_back(node);
    }
    ASSIGN_OR_RETURN(const NodeId id, NewNode(NodeKind::kArray));
    Node& n = data_.nodes.back();
    n.index = static_cast<int32_t>(data_.arrays.size());
    n.min = n.max = static_cast<int64_t>(value.size());
    data_.arrays.push_back(std::move(table));
    return id;
  }
  if (value.is_object()) {
    if (value.size() > static_cast<size_t>(kMaxProperties)) {
      return ResourceExhausted("a constant object has {} members, the limit is {}", value.size(),
                               kMaxProperties);
    }
    ObjectTable table;
    for (const auto& [key, member] : value.items()) {
      ASSIGN_OR_RETURN(const NodeId node, Constant(member));
      table.required.Set(table.names.size());
      table.names.push_back(key);
      table.values.push_back(node);
    }
    ASSIGN_OR_RETURN(const NodeId id, NewNode(NodeKind::kObject));
    Node& n = data_.nodes.back();
    n.index = static_cast<int32_t>(data_.objects.size());
    data_.objects.push_back(std::move(table));
    return id;
  }
  Nfa nfa;
  const int32_t start = nfa.AddState(), end = nfa.AddState();
  nfa.Accept(end);
  nfa.AddText(start,
              value.is_string() ? '"' + JsonBody(value.get_ref<const std::string&>()) + '"'
                                : DumpJson(value),
              end);
  ASSIGN_OR_RETURN(Dfa dfa, Determinize(nfa, start, kMaxDfaStates));
  return AddLeaf(std::move(dfa));
}

Status SchemaCompiler::AddScalars(uint32_t types, std::vector<NodeId>* kids) {
  Nfa nfa;
  const int32_t start = nfa.AddState(), end = nfa.AddState();
  nfa.Accept(end);
  if ((types & kNull) != 0) nfa.AddText(start, "null", end);
  if ((types & kBoolean) != 0) {
    nfa.AddText(start, "true", end);
    nfa.AddText(start, "false", end);
  }
  ASSIGN_OR_RETURN(Dfa dfa, Determinize(nfa, start, kMaxDfaStates));
  ASSIGN_OR_RETURN(const NodeId leaf, AddLeaf(std::move(dfa)));
  if (leaf != kNoNode) kids->push_back(leaf);
  return OkStatus();
}

Status SchemaCompiler::AddNumber(const SchemaSet& set, uint32_t types, std::vector<NodeId>* kids) {
  NumberSpec spec;
  spec.integer = (types & kFraction) == 0;
  spec.fraction = (types & kInteger) == 0;
  for (const SchemaId id : set) {
    const NumberSpec& n = loader_.flat(id).number;
    if (n.lo) {
      const auto order = spec.lo ? n.lo->Compare(*spec.lo) : std::strong_ordering::greater;
      if (order > 0 || (order == 0 && n.lo_open)) spec.lo = n.lo, spec.lo_open = n.lo_open;
    }
    if (n.hi) {
      const auto order = spec.hi ? n.hi->Compare(*spec.hi) : std::strong_ordering::less;
      if (order < 0 || (order == 0 && n.hi_open)) spec.hi = n.hi, spec.hi_open = n.hi_open;
    }
    if (!n.multiple) continue;
    if (spec.multiple) {
      auto lcm = LeastCommonMultiple(*spec.multiple, *n.multiple);
      if (!lcm) return At(set, lcm.error());
      spec.multiple = *std::move(lcm);
    } else {
      spec.multiple = n.multiple;
    }
  }
  auto dfa = NumberDfa(spec);
  if (!dfa) return At(set, dfa.error());
  ASSIGN_OR_RETURN(const NodeId leaf, AddLeaf(*std::move(dfa)));
  if (leaf != kNoNode) kids->push_back(leaf);
  return OkStatus();
}

namespace {

/// The texts of `body` (JSON spelling) that have min..max characters.
Result<Dfa> LimitLength(const Dfa& body, int64_t min, int64_t max) {
  const Dfa& any = AnyTextDfa(Spelling::kJson);
  struct State {
    int32_t body, any, count;
    auto operator<=>(const State&) const = default;
  };
  // Without an upper limit counting stops at the lower one.
  const auto cap = static_cast<int32_t>(max >= 0 ? max : min);
  Dfa out;
  out.num_classes = 256;
  for (size_t b = 0; b < 256; ++b) out.classes[b] = static_cast<uint8_t>(b);
  std::map<State, int32_t> ids;
  std::vector<State> states;
  const auto intern = [&](State s) {
    const auto [it, inserted] = ids.emplace(s, static_cast<int32_t>(states.size()));
    if (inserted) states.push_back(s);
    return it->second;
  };
  if (body.empty()) return Dfa{};
  intern({0, 0, 0});
  for (size_t i = 0; i < states.size(); ++i) {
    if (states.size() > static_cast<size_t>(kMaxDfaStates)) {
      return ResourceExhausted(
          "'pattern' or 'format' beside a length of {} needs more than {} states", cap,
          kMaxDfaStates);
    }
    const State s = states[i];
    const bool ends = body.label[static_cast<size_t>(s.body)] != kNoLabel && s.count >= min;
    out.label.push_back(ends ? 0 : kNoLabel);
    for (int b = 0; b < 256; ++b) {
      const auto byte = static_cast<uint8_t>(b);
      State to{body.Next(s.body, byte), any.Next(s.any, byte), s.count};
      const bool starts = s.any == 0;  // a character begins
      if (starts) to.count = max >= 0 ? s.count + 1 : std::min(s.count + 1, cap);
      const bool dead = to.body == kNoState || to.any == kNoState || (max >= 0 && to.count > cap);
      out.next.push_back(dead ? kNoState : intern(to));
    }
  }
  return Finish(std::move(out));
}

}  // namespace

Result<Dfa> SchemaCompiler::StringBody(const SchemaSet& set) {
  Dfa body = AnyTextDfa(Spelling::kJson);
  bool any = true;
  int64_t min = 0, max = -1;
  for (const SchemaId id : set) {
    const FlatSchema& f = loader_.flat(id);
    min = std::max(min, f.min_length);
    if (f.max_length >= 0) max = max < 0 ? f.max_length : std::min(max, f.max_length);
    for (const StringPattern& pattern : f.patterns) {
      if (any && !pattern.negated) {
        body = *pattern.dfa;
        any = false;
        continue;
      }
      any = false;
      auto next = pattern.negated ? Subtract(body, *pattern.dfa, kMaxDfaStates)
                                  : Intersect(body, *pattern.dfa, kMaxDfaStates);
      if (!next) return At({id}, next.error());
      body = *std::move(next);
    }
  }
  if (min > 0 || max >= 0) {
    auto limited = LimitLength(body, min, max);
    if (!limited) return At(set, limited.error());
    body = *std::move(limited);
  }
  return body;
}

Status SchemaCompiler::AddString(const SchemaSet& set, std::vector<NodeId>* kids) {
  int64_t min = 0, max = -1;
  bool patterned = false;
  for (const SchemaId id : set) {
    const FlatSchema& f = loader_.flat(id);
    min = std::max(min, f.min_length);
    if (f.max_length >= 0) max = max < 0 ? f.max_length : std::min(max, f.max_length);
    patterned = patterned || !f.patterns.empty();
  }
  if (max >= 0 && min > max) return OkStatus();
  if (!patterned) {
    NodeId& id = interned_.emplace(fmt::format("s{},{}", min, max), kNoNode).first->second;
    if (id == kNoNode) {
      ASSIGN_OR_RETURN(id, NewNode(NodeKind::kString));
      data_.nodes.back().min = min;
      data_.nodes.back().max = max;
    }
    kids->push_back(id);
    return OkStatus();
  }
  ASSIGN_OR_RETURN(Dfa quoted, QuotedString(set, min > 0 || max >= 0));
  ASSIGN_OR_RETURN(const NodeId leaf, AddLeaf(std::move(quoted)));
  if (leaf != kNoNode) kids->push_back(leaf);
  return OkStatus();
}

Result<Dfa> SchemaCompiler::QuotedString(const SchemaSet& set, bool counted) {
  const StringPattern* only = nullptr;
  size_t patterns = 0;
  for (const SchemaId id : set) {
    for (const StringPattern& pattern : loader_.flat(id).patterns) {
      only = &pattern;
      ++patterns;
    }
  }
  if (patterns == 1 && !counted && only->quoted) return *only->quoted;
  ASSIGN_OR_RETURN(const Dfa body, StringBody(set));
  return Quote(body);
}

Status SchemaCompiler::AddArray(const SchemaSet& set, std::vector<NodeId>* kids) {
  int64_t min = 0, max = -1;
  size_t prefix = 0;
  for (const SchemaId id : set) {
    const FlatSchema& f = loader_.flat(id);
    min = std::max(min, f.min_items);
    if (f.max_items >= 0) max = max < 0 ? f.max_items : std::min(max, f.max_items);
    prefix = std::max(prefix, f.prefix.size());
  }
  if (max >= 0 && min > max) return OkStatus();
  ArrayTable table;
  std::string key = fmt::format("a{},{}", min, max);
  for (size_t i = 0; i <= prefix; ++i) {
    std::vector<SchemaId> item;
    for (const SchemaId id : set) {
      const FlatSchema& f = loader_.flat(id);
      const SchemaId one = i < f.prefix.size() ? f.prefix[i] : f.items;
      if (one != kNoSchema) item.push_back(one);
    }
    const bool needed = max < 0 || static_cast<int64_t>(i) < max;
    NodeId node = kNoNode;
    if (needed) {
      ASSIGN_OR_RETURN(node, Compile(Sorted(std::move(item))));
      if (KnownEmpty(node) && min > static_cast<int64_t>(i)) return OkStatus();
    }
    key += fmt::format(",{}", node);
    if (i < prefix) {
      table.prefix.push_back(node);
    } else {
      table.items = node;
    }
  }
  NodeId& id = interned_.emplace(std::move(key), kNoNode).first->second;
  if (id == kNoNode) {
    ASSIGN_OR_RETURN(id, NewNode(NodeKind::kArray));
    Node& n = data_.nodes.back();
    n.index = static_cast<int32_t>(data_.arrays.size());
    n.min = min;
    n.max = max;
    data_.arrays.push_back(std::move(table));
  }
  kids->push_back(id);
  return OkStatus();
}

Status SchemaCompiler::AddObject(const SchemaSet& set, std::vector<NodeId>* kids) {
  int64_t min = 0, max = -1;
  ObjectTable table;
  std::map<std::string, size_t> index;
  const auto add = [&](const std::string& name) {
    const auto [it, inserted] = index.emplace(name, table.names.size());
    if (inserted) table.names.push_back(name);
    return it->second;
  };
  std::vector<size_t> required;
  for (const SchemaId id : set) {
    const FlatSchema& f = loader_.flat(id);
    min = std::max(min, f.min_properties);
    if (f.max_properties >= 0) max = max < 0 ? f.max_properties : std::min(max, f.max_properties);
    for (const auto& property : f.properties) add(property.first);
    for (const std::string& name : f.required) required.push_back(add(name));
  }
  if (table.names.size() > static_cast<size_t>(kMaxProperties)) {
    return At(set, ResourceExhausted("an object names {} properties, the limit is {}",
                                     table.names.size(), kMaxProperties));
  }
  for (const size_t i : required) table.required.Set(i);
  if (max >= 0 && (min > max || table.required.Count() > max)) return OkStatus();
  ASSIGN_OR_RETURN(const Dfa names, AllowedNames(set));
  table.values.assign(table.names.size(), kNoNode);
  // Required members first: where one has no value, the others need not be looked at.
  for (const bool wanted : {true, false}) {
    for (size_t i = 0; i < table.names.size(); ++i) {
      if (table.required.Test(i) != wanted) continue;
      std::vector<SchemaId> member;
      for (const SchemaId id : set) {
        const auto own = loader_.flat(id).Member(table.names[i]);
        member.insert(member.end(), own.begin(), own.end());
      }
      if (names.Accepts(JsonBody(table.names[i]))) {
        ASSIGN_OR_RETURN(table.values[i], Compile(Sorted(std::move(member))));
      }
      if (wanted && KnownEmpty(table.values[i])) return OkStatus();
    }
  }
  table.other_keys.push_back(names);
  RETURN_IF_ERROR(AddKeyClasses(set, &table));
  ASSIGN_OR_RETURN(const NodeId id, NewNode(NodeKind::kObject));
  Node& n = data_.nodes.back();
  n.index = static_cast<int32_t>(data_.objects.size());
  n.min = min;
  n.max = max;
  data_.objects.push_back(std::move(table));
  kids->push_back(id);
  return OkStatus();
}

/// Names that every propertyNames of the set allows, in the JSON spelling.
Result<Dfa> SchemaCompiler::AllowedNames(const SchemaSet& set) {
  Dfa names = AnyTextDfa(Spelling::kJson);
  for (const SchemaId id : set) {
    const SchemaId rule = loader_.flat(id).property_names;
    if (rule == kNoSchema) continue;
    // An enum of names is a plain list; everything else is read as a string schema.
    const Closure closure = Close({rule});
    if (closure.never || (closure.types & kStringType) == 0) return Dfa{};
    std::vector<SchemaGroup> pending;
    for (const SchemaGroup* group : closure.groups) pending.push_back(*group);
    std::vector<SchemaSet> sets;
    RETURN_IF_ERROR(Expand(closure, &pending, 0, &sets));
    Dfa any;
    for (const SchemaSet& s : sets) {
      ASSIGN_OR_RETURN(Dfa body, StringBody(s));
      for (const SchemaId each : s) {
        const FlatSchema& f = loader_.flat(each);
        if (!f.values) continue;
        Nfa nfa;
        const int32_t start = nfa.AddState(), end = nfa.AddState();
        nfa.Accept(end);
        for (const Json& v : *f.values) {
          if (v.is_string()) nfa.AddText(start, JsonBody(v.get_ref<const std::string&>()), end);
        }
        ASSIGN_OR_RETURN(const Dfa list, Determinize(nfa, start, kMaxDfaStates));
        ASSIGN_OR_RETURN(body, Intersect(body, list, kMaxDfaStates));
      }
      ASSIGN_OR_RETURN(any, Union(any, body, kMaxDfaStates));
    }
    auto both = Intersect(names, any, kMaxDfaStates);
    if (!both) return At({id}, both.error());
    names = *std::move(both);
  }
  return names;
}

/// Splits the names outside `properties` by the patterns they match; each class has one value.
/// Expects the allowed names in table->other_keys[0].
Status SchemaCompiler::AddKeyClasses(const SchemaSet& set, ObjectTable* table) {
  struct Class {
    Dfa names;
    std::vector<std::pair<SchemaId, size_t>> matched;  // schema, pattern index
  };
  Nfa named;
  const int32_t start = named.AddState(), end = named.AddState();
  named.Accept(end);
  for (const std::string& name : table->names) named.AddText(start, JsonBody(name), end);
  ASSIGN_OR_RETURN(const Dfa taken, Determinize(named, start, kMaxDfaStates));
  ASSIGN_OR_RETURN(Dfa rest, Subtract(table->other_keys[0], taken, kMaxDfaStates));
  table->other_keys.clear();
  std::vector<Class> classes;
  if (!rest.empty()) classes.push_back({std::move(rest), {}});
  for (const SchemaId id : set) {
    const auto& patterns = loader_.flat(id).pattern_properties;
    for (size_t p = 0; p < patterns.size(); ++p) {
      std::vector<Class> split;
      for (Class& c : classes) {
        ASSIGN_OR_RETURN(Dfa in, Intersect(c.names, *patterns[p].first.dfa, kMaxDfaStates));
        ASSIGN_OR_RETURN(Dfa out, Subtract(c.names, *patterns[p].first.dfa, kMaxDfaStates));
        if (!in.empty()) {
          split.push_back({std::move(in), c.matched});
          split.back().matched.emplace_back(id, p);
        }
        if (!out.empty()) split.push_back({std::move(out), std::move(c.matched)});
      }
      classes = std::move(split);
      if (classes.size() > static_cast<size_t>(kMaxKeyClasses)) {
        return At(set, ResourceExhausted("patternProperties sort names into more than {} classes",
                                         kMaxKeyClasses));
      }
    }
  }
  for (Class& c : classes) {
    std::vector<SchemaId> value;
    for (const SchemaId id : set) {
      const FlatSchema& f = loader_.flat(id);
      bool any = false;
      for (const auto& [schema, p] : c.matched) {
        if (schema != id) continue;
        value.push_back(f.pattern_properties[p].second);
        any = true;
      }
      if (!any && f.additional != kNoSchema) value.push_back(f.additional);
    }
    ASSIGN_OR_RETURN(const NodeId node, Compile(Sorted(std::move(value))));
    if (KnownEmpty(node)) continue;
    // A handful of names are named one by one, so that none of them can come twice.
    const size_t room = static_cast<size_t>(kMaxProperties) - table->names.size();
    if (const auto few = Enumerate(c.names, room)) {
      for (const std::string& body : *few) {
        ASSIGN_OR_RETURN(const Json name, ParseJson('"' + body + '"'));
        table->names.push_back(name.get<std::string>());
        table->values.push_back(node);
      }
      continue;
    }
    table->others.push_back(node);
    table->other_keys.push_back(std::move(c.names));
  }
  return OkStatus();
}

}  // namespace ballast::grammar
