#include "text/grammar/dfa.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/hash.h"

namespace ballast::grammar {

int32_t Dfa::Run(std::string_view text) const {
  if (empty()) return kNoState;
  int32_t state = 0;
  for (const char c : text) {
    state = Next(state, static_cast<uint8_t>(c));
    if (state == kNoState) return kNoState;
  }
  return state;
}

bool Dfa::Accepts(std::string_view text) const {
  const int32_t state = Run(text);
  return state != kNoState && label[static_cast<size_t>(state)] != kNoLabel;
}

int32_t Nfa::AddState() {
  edges_.emplace_back();
  empties_.emplace_back();
  labels_.push_back(kNoLabel);
  return size() - 1;
}

void Nfa::AddEdge(int32_t from, uint8_t lo, uint8_t hi, int32_t to) {
  edges_[static_cast<size_t>(from)].push_back({lo, hi, to});
}

void Nfa::AddEmpty(int32_t from, int32_t to, When when) {
  empties_[static_cast<size_t>(from)].push_back({when, to});
}

void Nfa::AddText(int32_t from, std::string_view text, int32_t to) {
  for (size_t i = 0; i < text.size(); ++i) {
    const int32_t next = i + 1 == text.size() ? to : AddState();
    AddEdge(from, static_cast<uint8_t>(text[i]), static_cast<uint8_t>(text[i]), next);
    from = next;
  }
  if (text.empty()) AddEmpty(from, to);
}

void Nfa::Accept(int32_t state, int32_t label) { labels_[static_cast<size_t>(state)] = label; }

int32_t Nfa::AddDfa(const Dfa& dfa, int32_t to) {
  if (dfa.empty()) return AddState();
  const int32_t base = size();
  for (int32_t s = 0; s < dfa.num_states(); ++s) AddState();
  for (int32_t s = 0; s < dfa.num_states(); ++s) {
    int first = 0;
    for (int byte = 1; byte <= 256; ++byte) {
      const int32_t target = dfa.Next(s, static_cast<uint8_t>(first));
      if (byte < 256 && dfa.Next(s, static_cast<uint8_t>(byte)) == target) continue;
      if (target != kNoState) {
        AddEdge(base + s, static_cast<uint8_t>(first), static_cast<uint8_t>(byte - 1),
                base + target);
      }
      first = byte;
    }
    if (dfa.label[static_cast<size_t>(s)] != kNoLabel) AddEmpty(base + s, to);
  }
  return base;
}

namespace {

/// Turns 256 booleans "a new column starts here" into the class map.
int32_t FillClasses(const std::array<bool, 257>& cut, std::array<uint8_t, 256>* classes) {
  int32_t column = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte > 0 && cut[static_cast<size_t>(byte)]) ++column;
    (*classes)[static_cast<size_t>(byte)] = static_cast<uint8_t>(column);
  }
  return column + 1;
}

struct VectorHash {
  size_t operator()(const std::vector<int32_t>& v) const {
    return static_cast<size_t>(Xxh3(std::as_bytes(std::span(v))));
  }
};

Error TooManyStates(int32_t max_states) {
  return ResourceExhausted("the automaton needs more than the limit of {} states", max_states);
}

}  // namespace

// About a second: a hostile expression has large sets in each of its many states.
constexpr size_t kMaxSubsetWork = 4'000'000;

class SubsetBuilder {
 public:
  SubsetBuilder(const Nfa& nfa, int32_t max_states) : nfa_(nfa), max_states_(max_states) {
    std::array<bool, 257> cut{};
    for (const auto& edges : nfa.edges_) {
      for (const Nfa::Edge& e : edges) {
        cut[e.lo] = true;
        cut[static_cast<size_t>(e.hi) + 1] = true;
      }
    }
    dfa_.num_classes = FillClasses(cut, &dfa_.classes);
    for (int byte = 255; byte >= 0; --byte) {
      first_byte_[dfa_.classes[static_cast<size_t>(byte)]] = static_cast<uint8_t>(byte);
    }
    mark_.assign(static_cast<size_t>(nfa.size()), false);
  }

  Result<Dfa> Build(int32_t start) {
    Intern(Closure({start}, /*at_start=*/true, /*at_end=*/false));
    std::vector<std::vector<int32_t>> moves(static_cast<size_t>(dfa_.num_classes));
    for (size_t s = 0; s < sets_.size(); ++s) {
      if (static_cast<int32_t>(sets_.size()) > max_states_) return TooManyStates(max_states_);
      work_ += sets_[s].size();
      if (work_ > kMaxSubsetWork) {
        return ResourceExhausted("the automaton needs more than {} steps to build", kMaxSubsetWork);
      }
      for (auto& move : moves) move.clear();
      for (const int32_t n : sets_[s]) {
        for (const Nfa::Edge& e : nfa_.edges_[static_cast<size_t>(n)]) {
          for (int c = dfa_.classes[e.lo]; c <= dfa_.classes[e.hi]; ++c) {
            moves[static_cast<size_t>(c)].push_back(e.to);
          }
        }
      }
      for (size_t c = 0; c < moves.size(); ++c) {
        const int32_t to = moves[c].empty() ? kNoState : Intern(Closure(moves[c], false, false));
        dfa_.next[s * moves.size() + c] = to;
      }
    }
    return Finish(std::move(dfa_));
  }

 private:
  std::vector<int32_t> Closure(std::vector<int32_t> seeds, bool at_start, bool at_end) {
    std::vector<int32_t> out;
    while (!seeds.empty()) {
      const int32_t n = seeds.back();
      seeds.pop_back();
      if (mark_[static_cast<size_t>(n)]) continue;
      mark_[static_cast<size_t>(n)] = true;
      out.push_back(n);
      for (const Nfa::Empty& e : nfa_.empties_[static_cast<size_t>(n)]) {
        if (e.when == Nfa::When::kAlways || (e.when == Nfa::When::kAtStart && at_start) ||
            (e.when == Nfa::When::kAtEnd && at_end)) {
          seeds.push_back(e.to);
        }
      }
    }
    for (const int32_t n : out) mark_[static_cast<size_t>(n)] = false;
    std::sort(out.begin(), out.end());
    return out;
  }

  int32_t Intern(std::vector<int32_t> set) {
    const auto [it, inserted] = ids_.emplace(std::move(set), static_cast<int32_t>(sets_.size()));
    if (inserted) {
      sets_.push_back(it->first);
      // Only the first state is the start of the text, where ^ and $ may both hold.
      const auto ended = Closure(it->first, it->second == 0, /*at_end=*/true);
      int32_t label = kNoLabel;
      for (const int32_t n : ended) {
        const int32_t l = nfa_.labels_[static_cast<size_t>(n)];
        if (l != kNoLabel && (label == kNoLabel || l < label)) label = l;
      }
      dfa_.label.push_back(label);
      dfa_.next.resize(dfa_.next.size() + static_cast<size_t>(dfa_.num_classes), kNoState);
    }
    return it->second;
  }

  const Nfa& nfa_;
  int32_t max_states_;
  size_t work_ = 0;
  Dfa dfa_;
  std::array<uint8_t, 256> first_byte_{};
  std::vector<bool> mark_;
  std::unordered_map<std::vector<int32_t>, int32_t, VectorHash> ids_;
  std::vector<std::vector<int32_t>> sets_;
};

Result<Dfa> Determinize(const Nfa& nfa, int32_t start, int32_t max_states) {
  return SubsetBuilder(nfa, max_states).Build(start);
}

namespace {

Dfa Trim(const Dfa& dfa) {
  const size_t n = dfa.label.size(), width = static_cast<size_t>(dfa.num_classes);
  std::vector<std::vector<int32_t>> back(n);
  std::vector<int32_t> stack;
  for (size_t s = 0; s < n; ++s) {
    for (size_t c = 0; c < width; ++c) {
      const int32_t to = dfa.next[s * width + c];
      if (to != kNoState) back[static_cast<size_t>(to)].push_back(static_cast<int32_t>(s));
    }
    if (dfa.label[s] != kNoLabel) stack.push_back(static_cast<int32_t>(s));
  }
  std::vector<bool> live(n, false);
  while (!stack.empty()) {
    const auto s = static_cast<size_t>(stack.back());
    stack.pop_back();
    if (live[s]) continue;
    live[s] = true;
    stack.insert(stack.end(), back[s].begin(), back[s].end());
  }
  Dfa out;
  out.classes = dfa.classes;
  out.num_classes = dfa.num_classes;
  if (n == 0 || !live[0]) return out;
  std::vector<int32_t> renumber(n, kNoState), order{0};
  renumber[0] = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto s = static_cast<size_t>(order[i]);
    out.label.push_back(dfa.label[s]);
    for (size_t c = 0; c < width; ++c) {
      const int32_t to = dfa.next[s * width + c];
      if (to == kNoState || !live[static_cast<size_t>(to)]) {
        out.next.push_back(kNoState);
        continue;
      }
      if (renumber[static_cast<size_t>(to)] == kNoState) {
        renumber[static_cast<size_t>(to)] = static_cast<int32_t>(order.size());
        order.push_back(to);
      }
      out.next.push_back(renumber[static_cast<size_t>(to)]);
    }
  }
  return out;
}

/// Columns that agree in every state become one. They are numbered by their lowest byte, so that
/// equal automata end up equal in memory.
Dfa MergeColumns(const Dfa& dfa) {
  const size_t n = dfa.label.size(), width = static_cast<size_t>(dfa.num_classes);
  std::map<std::vector<int32_t>, int32_t> columns;
  std::vector<int32_t> to_new(width, -1);
  std::vector<size_t> keep;
  Dfa out;
  for (size_t b = 0; b < 256; ++b) {
    const size_t c = dfa.classes[b];
    if (to_new[c] < 0) {
      std::vector<int32_t> column(n);
      for (size_t s = 0; s < n; ++s) column[s] = dfa.next[s * width + c];
      const auto [it, inserted] =
          columns.emplace(std::move(column), static_cast<int32_t>(columns.size()));
      to_new[c] = it->second;
      if (inserted) keep.push_back(c);
    }
    out.classes[b] = static_cast<uint8_t>(to_new[c]);
  }
  out.label = dfa.label;
  out.num_classes = static_cast<int32_t>(keep.size());
  out.next.reserve(n * keep.size());
  for (size_t s = 0; s < n; ++s) {
    for (const size_t c : keep) out.next.push_back(dfa.next[s * width + c]);
  }
  return out;
}

// Moore's refinement costs states × rounds. Automata that count far need as many rounds as they
// have states; they have little to merge and are left as they are.
constexpr size_t kMinimiseBudget = 3'000'000;

Dfa Minimise(Dfa dfa) {
  const size_t n = dfa.label.size(), width = static_cast<size_t>(dfa.num_classes);
  std::vector<int32_t> block(dfa.label);
  size_t blocks = 0;
  for (size_t rounds = 1;; ++rounds) {
    if (rounds * n > kMinimiseBudget) return dfa;
    std::unordered_map<std::vector<int32_t>, int32_t, VectorHash> ids;
    std::vector<int32_t> refined(n), signature;
    for (size_t s = 0; s < n; ++s) {
      signature.assign(1, block[s]);
      for (size_t c = 0; c < width; ++c) {
        const int32_t to = dfa.next[s * width + c];
        signature.push_back(to == kNoState ? -2 : block[static_cast<size_t>(to)]);
      }
      refined[s] = ids.emplace(signature, static_cast<int32_t>(ids.size())).first->second;
    }
    block = std::move(refined);
    if (ids.size() == blocks) break;
    blocks = ids.size();
  }
  Dfa out;
  out.classes = dfa.classes;
  out.num_classes = dfa.num_classes;
  out.label.assign(blocks, kNoLabel);
  out.next.assign(blocks * width, kNoState);
  for (size_t s = 0; s < n; ++s) {
    const auto b = static_cast<size_t>(block[s]);
    out.label[b] = dfa.label[s];
    for (size_t c = 0; c < width; ++c) {
      const int32_t to = dfa.next[s * width + c];
      out.next[b * width + c] = to == kNoState ? kNoState : block[static_cast<size_t>(to)];
    }
  }
  return out;
}

void SetDerived(Dfa* dfa) {
  const auto width = static_cast<std::ptrdiff_t>(dfa->num_classes);
  dfa->more.clear();
  for (auto row = dfa->next.begin(); row != dfa->next.end(); row += width) {
    dfa->more.push_back(
        std::any_of(row, row + width, [](int32_t to) { return to != kNoState; }) ? 1 : 0);
  }
  const uint64_t parts[3] = {Xxh3(std::as_bytes(std::span(dfa->classes))),
                             Xxh3(std::as_bytes(std::span(dfa->next))),
                             Xxh3(std::as_bytes(std::span(dfa->label)))};
  dfa->fingerprint = Xxh3(std::as_bytes(std::span(parts)));
}

}  // namespace

Dfa Finish(Dfa dfa) {
  Dfa out = MergeColumns(Trim(dfa));
  if (!out.empty()) out = Trim(MergeColumns(Minimise(std::move(out))));
  SetDerived(&out);
  return out;
}

Result<Dfa> Product(const Dfa& a, const Dfa& b, const CombineLabels& combine, int32_t max_states) {
  Dfa out;
  std::array<bool, 257> cut{};
  for (size_t byte = 1; byte < 256; ++byte) {
    cut[byte] = a.classes[byte] != a.classes[byte - 1] || b.classes[byte] != b.classes[byte - 1];
  }
  out.num_classes = FillClasses(cut, &out.classes);
  std::vector<uint8_t> sample(static_cast<size_t>(out.num_classes));
  for (size_t byte = 0; byte < 256; ++byte) sample[out.classes[byte]] = static_cast<uint8_t>(byte);

  std::unordered_map<int64_t, int32_t> ids;
  std::vector<std::pair<int32_t, int32_t>> states;
  const auto intern = [&](int32_t x, int32_t y) {
    const int64_t key = (static_cast<int64_t>(x) << 32) | static_cast<uint32_t>(y);
    const auto [it, inserted] = ids.emplace(key, static_cast<int32_t>(states.size()));
    if (inserted) {
      states.emplace_back(x, y);
      out.label.push_back(combine(x < 0 ? kNoLabel : a.label[static_cast<size_t>(x)],
                                  y < 0 ? kNoLabel : b.label[static_cast<size_t>(y)]));
    }
    return it->second;
  };
  intern(a.empty() ? kNoState : 0, b.empty() ? kNoState : 0);
  for (size_t s = 0; s < states.size(); ++s) {
    if (static_cast<int32_t>(states.size()) > max_states) return TooManyStates(max_states);
    const auto [x, y] = states[s];
    for (const uint8_t byte : sample) {
      const int32_t nx = x < 0 ? kNoState : a.Next(x, byte);
      const int32_t ny = y < 0 ? kNoState : b.Next(y, byte);
      out.next.push_back(nx < 0 && ny < 0 ? kNoState : intern(nx, ny));
    }
  }
  return Finish(std::move(out));
}

Result<Dfa> Intersect(const Dfa& a, const Dfa& b, int32_t max_states) {
  return Product(
      a, b, [](int32_t x, int32_t y) { return y == kNoLabel ? kNoLabel : x; }, max_states);
}

Result<Dfa> Subtract(const Dfa& a, const Dfa& b, int32_t max_states) {
  return Product(
      a, b, [](int32_t x, int32_t y) { return y == kNoLabel ? x : kNoLabel; }, max_states);
}

Result<Dfa> Union(const Dfa& a, const Dfa& b, int32_t max_states) {
  return Product(a, b, [](int32_t x, int32_t y) { return x == kNoLabel ? y : x; }, max_states);
}

std::optional<std::vector<std::string>> Enumerate(const Dfa& dfa, size_t limit) {
  std::vector<std::string> out;
  if (dfa.empty()) return out;
  if (InfiniteStates(dfa)[0]) return std::nullopt;
  std::vector<std::pair<int32_t, std::string>> stack{{0, ""}};
  // A trimmed automaton has no dead ends: each prefix on the stack leads to a text of its own.
  while (!stack.empty()) {
    const auto [state, text] = std::move(stack.back());
    stack.pop_back();
    if (dfa.label[static_cast<size_t>(state)] != kNoLabel) out.push_back(text);
    if (out.size() + stack.size() > limit || text.size() > 256) return std::nullopt;
    for (int byte = 255; byte >= 0; --byte) {
      const int32_t to = dfa.Next(state, static_cast<uint8_t>(byte));
      if (to != kNoState) stack.emplace_back(to, text + static_cast<char>(byte));
    }
  }
  return out;
}

std::vector<bool> InfiniteStates(const Dfa& dfa) {
  // A trimmed automaton accepts infinitely many texts from every state that reaches a cycle:
  // peel off states without edges until only those remain.
  const size_t n = dfa.label.size(), width = static_cast<size_t>(dfa.num_classes);
  std::vector<int32_t> degree(n, 0), stack;
  std::vector<std::vector<int32_t>> back(n);
  for (size_t s = 0; s < n; ++s) {
    for (size_t c = 0; c < width; ++c) {
      const int32_t to = dfa.next[s * width + c];
      if (to == kNoState) continue;
      ++degree[s];
      back[static_cast<size_t>(to)].push_back(static_cast<int32_t>(s));
    }
    if (degree[s] == 0) stack.push_back(static_cast<int32_t>(s));
  }
  std::vector<bool> infinite(n, true);
  while (!stack.empty()) {
    const auto s = static_cast<size_t>(stack.back());
    stack.pop_back();
    infinite[s] = false;
    for (const int32_t from : back[s]) {
      if (--degree[static_cast<size_t>(from)] == 0) stack.push_back(from);
    }
  }
  return infinite;
}

}  // namespace ballast::grammar
