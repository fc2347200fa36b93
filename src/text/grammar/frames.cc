#include "text/grammar/frames.h"

#include "text/grammar/limits.h"

namespace ballast::grammar {

const Dfa& Stepper::Automaton(const Frame& frame) const {
  const Node& n = data_.node(frame.node);
  switch (frame.kind) {
    case FrameKind::kString:
      return JsonStringDfa();
    case FrameKind::kKey:
      return data_.object(n).keys;
    case FrameKind::kText:
      return data_.dispatch(n).text;
    default:
      return data_.leaf(n);
  }
}

bool Stepper::Same(const Frame& a, const Frame& b) const {
  const Frame *x = &a, *y = &b;
  for (;;) {
    if (x->node != y->node || x->kind != y->kind || x->depth != y->depth || x->state != y->state ||
        x->count != y->count || x->hash != y->hash || !(x->seen == y->seen)) {
      return false;
    }
    int32_t m = x->names, n = y->names;
    while (m != n) {
      if (m == kNoFrame || n == kNoFrame) return false;
      const SeenName& p = pool_.names[static_cast<size_t>(m)];
      const SeenName& q = pool_.names[static_cast<size_t>(n)];
      if (p.hash != q.hash) return false;
      m = p.previous;
      n = q.previous;
    }
    if (x->parent == y->parent) return true;
    if (x->parent == kNoFrame || y->parent == kNoFrame) return false;
    x = &pool_.frames[static_cast<size_t>(x->parent)];
    y = &pool_.frames[static_cast<size_t>(y->parent)];
  }
}

void Stepper::Add(const Frame& frame, Threads* out) {
  for (const Frame& other : out->tops) {
    if (Same(frame, other)) return;
  }
  // Dropping a reading makes the grammar narrower, never wrong.
  if (out->tops.size() < static_cast<size_t>(kMaxThreads)) out->tops.push_back(frame);
}

void Stepper::Settle(const Frame& leaf, const Dfa& dfa, Threads* out) {
  if (dfa.HasEdges(leaf.state)) Add(leaf, out);
  const int32_t label = dfa.label[static_cast<size_t>(leaf.state)];
  if (label != kNoLabel) Done(leaf.parent, label, out);
}

void Stepper::Enter(NodeId id, int32_t parent, int depth, Threads* out) {
  const Node& n = data_.node(id);
  if (n.min_depth == kEndless || depth + n.min_depth > kMaxNesting) return;
  Frame frame;
  frame.node = id;
  frame.parent = parent;
  frame.depth = static_cast<uint8_t>(depth);
  switch (n.kind) {
    case NodeKind::kLeaf:
      Settle(frame, data_.leaf(n), out);
      return;
    case NodeKind::kString:
      frame.kind = FrameKind::kString;
      Add(frame, out);
      return;
    case NodeKind::kArray:
      frame.kind = FrameKind::kArray;
      Add(frame, out);
      return;
    case NodeKind::kObject:
      frame.kind = FrameKind::kObject;
      Add(frame, out);
      return;
    case NodeKind::kChoice:
      for (const NodeId kid : n.kids) Enter(kid, parent, depth, out);
      return;
    case NodeKind::kSequence:
      frame.kind = FrameKind::kSequence;
      if (n.kids.empty()) {
        Done(parent, 0, out);
      } else {
        Enter(n.kids[0], Push(frame), depth, out);
      }
      return;
    case NodeKind::kDispatch:
      frame.kind = FrameKind::kDispatch;
      EnterText(frame, out);
      return;
  }
}

void Stepper::EnterText(const Frame& dispatch, Threads* out) {
  Frame below = dispatch;
  below.state = 0;
  Frame text;
  text.node = dispatch.node;
  text.kind = FrameKind::kText;
  text.depth = dispatch.depth;
  if (dispatch.count > 0) text.state = data_.dispatch(data_.node(dispatch.node)).after_part;
  text.parent = Push(below);
  Settle(text, Automaton(text), out);
}

void Stepper::Done(int32_t parent, int32_t label, Threads* out) {
  if (parent == kNoFrame) {
    out->complete = true;
    return;
  }
  Frame frame = pool_.frames[static_cast<size_t>(parent)];
  const Node& n = data_.node(frame.node);
  switch (frame.kind) {
    case FrameKind::kSequence:
      if (static_cast<size_t>(++frame.state) == n.kids.size()) {
        Done(frame.parent, 0, out);
      } else {
        const NodeId kid = n.kids[static_cast<size_t>(frame.state)];
        Enter(kid, Push(frame), frame.depth, out);
      }
      return;
    case FrameKind::kDispatch:
      if (frame.state == 1) {  // a part ended
        if (frame.count < data_.dispatch(n).max_rounds) {
          EnterText(frame, out);
        } else {
          Done(frame.parent, 0, out);
        }
      } else if (label == 0) {
        Done(frame.parent, 0, out);
      } else {
        frame.state = 1;
        ++frame.count;
        const NodeId kid = n.kids[static_cast<size_t>(label - 1)];
        Enter(kid, Push(frame), frame.depth, out);
      }
      return;
    default:
      Add(frame, out);
      return;
  }
}

void Stepper::Step(const Frame& top, uint8_t byte, Threads* out) {
  switch (top.kind) {
    case FrameKind::kLeaf:
    case FrameKind::kText: {
      const Dfa& dfa = Automaton(top);
      Frame next = top;
      next.state = dfa.Next(top.state, byte);
      if (next.state != kNoState) Settle(next, dfa, out);
      return;
    }
    case FrameKind::kString:
      StepString(top, byte, out);
      return;
    case FrameKind::kKey:
      StepKey(top, byte, out);
      return;
    case FrameKind::kArray:
      StepArray(top, byte, out);
      return;
    case FrameKind::kObject:
      StepObject(top, byte, out);
      return;
    case FrameKind::kSequence:
    case FrameKind::kDispatch:
      return;  // never on top
  }
}

void Stepper::StepString(Frame top, uint8_t byte, Threads* out) {
  const Node& n = data_.node(top.node);
  const Dfa& dfa = JsonStringDfa();
  if (top.state == JsonStringBody()) {
    if (byte == '"') {
      if (top.count < n.min) return;
    } else {
      // Counted where a character begins, so that none begins that may not end.
      if (n.max >= 0 && top.count >= n.max) return;
      if (top.count < kMaxCount) ++top.count;
    }
  }
  top.state = dfa.Next(top.state, byte);
  if (top.state != kNoState) Settle(top, dfa, out);
}

AllowedKeys Stepper::Allowed(const Frame& object) const {
  const Node& n = data_.node(object.node);
  const ObjectTable& table = data_.object(n);
  AllowedKeys out;
  if (n.max >= 0 && object.count >= n.max) return out;
  const Bits missing = table.required.Minus(object.seen);
  const bool room = n.max < 0 || n.max - object.count > missing.Count();
  out.properties = room ? table.usable.Minus(object.seen) : missing;
  out.others = room && !table.others.empty();
  if (object.depth + table.max_value_depth <= kMaxNesting) return out;
  // Near the depth limit each value counts.
  const auto fits = [&](NodeId id) {
    const int32_t depth = data_.node(id).min_depth;
    return depth != kEndless && object.depth + depth <= kMaxNesting;
  };
  for (size_t i = 0; i < table.names.size(); ++i) {
    if (out.properties.Test(i) && !fits(table.values[i])) out.properties.Clear(i);
  }
  bool any = false;
  for (const NodeId id : table.others) any = any || fits(id);
  out.others = out.others && any;
  return out;
}

bool Stepper::Closable(const Frame& object) const {
  const Node& n = data_.node(object.node);
  return object.count >= n.min && !data_.object(n).required.Minus(object.seen).Any();
}

void Stepper::EnterKey(const Frame& object, Threads* out) {
  if (!Allowed(object).Any()) return;
  Frame below = object;
  below.state = kAfterValue;
  Frame key;
  key.node = object.node;
  key.kind = FrameKind::kKey;
  key.depth = object.depth;
  key.parent = Push(below);
  Add(key, out);
}

void Stepper::StepObject(Frame top, uint8_t byte, Threads* out) {
  if (top.state == kBefore) {
    if (byte != '{') return;
    ++top.depth;
    top.state = kOpen;
    if (Closable(top)) Add(top, out);
    EnterKey(top, out);
    return;
  }
  if (byte == '}' && Closable(top)) Done(top.parent, 0, out);
  if (byte == ',' && top.state == kAfterValue) EnterKey(top, out);
}

bool Stepper::Contains(int32_t at, uint64_t hash) const {
  while (at != kNoFrame) {
    const SeenName& seen = pool_.names[static_cast<size_t>(at)];
    if (seen.hash == hash) return true;
    at = seen.previous;
  }
  return false;
}

void Stepper::StepKey(Frame top, uint8_t byte, Threads* out) {
  const ObjectTable& table = data_.object(data_.node(top.node));
  const int32_t next = table.keys.Next(top.state, byte);
  if (next == kNoState) return;
  const KeyState& to = table.states[static_cast<size_t>(next)];
  const AllowedKeys allowed = Allowed(pool_.frames[static_cast<size_t>(top.parent)]);
  if (!(allowed.others && to.open) && !to.properties.And(allowed.properties).Any()) return;
  if (to.closing) {
    // A name may not come twice, as long as there is another one to turn to.
    const bool endless = table.states[static_cast<size_t>(top.state)].endless;
    const int32_t names = pool_.frames[static_cast<size_t>(top.parent)].names;
    if (to.open && endless && Contains(names, top.hash)) return;
  } else if (!table.states[static_cast<size_t>(top.state)].closing) {
    top.hash = HashByte(top.hash, byte);
  }
  top.state = next;
  const int32_t label = table.keys.label[static_cast<size_t>(next)];
  if (label == kNoLabel) {
    Add(top, out);
  } else {
    KeyDone(top.parent, label, top.hash, out);
  }
}

void Stepper::KeyDone(int32_t parent, int32_t label, uint64_t hash, Threads* out) {
  Frame object = pool_.frames[static_cast<size_t>(parent)];
  const ObjectTable& table = data_.object(data_.node(object.node));
  const auto index = static_cast<size_t>(label);
  NodeId value = kNoNode;
  if (index < table.names.size()) {
    ++object.count;
    object.seen.Set(index);
    value = table.values[index];
  } else {
    value = table.others[index - table.names.size()];
    // A repeat, where StepKey had to let one pass, adds no member.
    if (!Contains(object.names, hash)) ++object.count;
    pool_.names.push_back({hash, object.names});
    object.names = static_cast<int32_t>(pool_.names.size()) - 1;
  }
  Enter(value, Push(object), object.depth, out);
}

bool Stepper::ItemAllowed(const Frame& array, NodeId* item) const {
  const Node& n = data_.node(array.node);
  if (n.max >= 0 && array.count >= n.max) return false;
  const ArrayTable& table = data_.array(n);
  const auto index = static_cast<size_t>(array.count);
  *item = index < table.prefix.size() ? table.prefix[index] : table.items;
  if (*item == kNoNode) return false;
  const int32_t depth = data_.node(*item).min_depth;
  return depth != kEndless && array.depth + depth <= kMaxNesting;
}

void Stepper::EnterArrayItem(Frame array, Threads* out) {
  NodeId item = kNoNode;
  if (!ItemAllowed(array, &item)) return;
  array.state = kAfterValue;
  if (array.count < kMaxCount) ++array.count;
  const int depth = array.depth;
  Enter(item, Push(array), depth, out);
}

void Stepper::StepArray(Frame top, uint8_t byte, Threads* out) {
  if (top.state == kBefore) {
    if (byte != '[') return;
    ++top.depth;
    top.state = kOpen;
    if (top.count >= data_.node(top.node).min) Add(top, out);
    EnterArrayItem(top, out);
    return;
  }
  if (byte == ']' && top.count >= data_.node(top.node).min) Done(top.parent, 0, out);
  if (byte == ',' && top.state == kAfterValue) EnterArrayItem(top, out);
}

}  // namespace ballast::grammar
