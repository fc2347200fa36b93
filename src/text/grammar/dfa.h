// Role: deterministic automata over bytes, the leaves of every grammar, and the non-deterministic
// ones they are made from. A Dfa is trimmed: every state can still reach an accepting one.
// Thread: values; a finished Dfa is immutable. Sizes are bounded by the caller's `max_states`.
#ifndef BALLAST_TEXT_GRAMMAR_DFA_H_
#define BALLAST_TEXT_GRAMMAR_DFA_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ballast::grammar {

inline constexpr int32_t kNoState = -1;
inline constexpr int32_t kNoLabel = -1;

/// A complete set of transitions. State 0 is the start; an empty automaton has no states and
/// accepts nothing. `label` says what an accepting state stands for (which key, which trigger).
struct Dfa {
  std::array<uint8_t, 256> classes{};  ///< [byte] → column
  int32_t num_classes = 1;
  std::vector<int32_t> next;   ///< [states × num_classes], kNoState where the text is refused
  std::vector<int32_t> label;  ///< [states], kNoLabel where the text may not end
  std::vector<uint8_t> more;   ///< [states], 1 where the text may go on
  uint64_t fingerprint = 0;    ///< Equal automata have equal fingerprints.

  int32_t num_states() const { return static_cast<int32_t>(label.size()); }
  bool empty() const { return label.empty(); }
  int32_t Next(int32_t state, uint8_t byte) const {
    return next[static_cast<size_t>(state * num_classes + classes[byte])];
  }
  /// The state after `text`, or kNoState.
  int32_t Run(std::string_view text) const;
  /// Whether `text` as a whole is accepted.
  bool Accepts(std::string_view text) const;
  bool HasEdges(int32_t state) const { return more[static_cast<size_t>(state)] != 0; }
};

/// An automaton with byte-range edges and conditional empty edges.
class Nfa {
 public:
  enum class When : uint8_t { kAlways, kAtStart, kAtEnd };
  struct Edge {
    uint8_t lo, hi;
    int32_t to;
  };
  struct Empty {
    When when;
    int32_t to;
  };

  int32_t AddState();
  void AddEdge(int32_t from, uint8_t lo, uint8_t hi, int32_t to);
  void AddEmpty(int32_t from, int32_t to, When when = When::kAlways);
  /// A chain of states that spells `text`.
  void AddText(int32_t from, std::string_view text, int32_t to);
  /// Of several labels met in one state the lowest wins.
  void Accept(int32_t state, int32_t label = 0);
  /// Adds a copy of `dfa`; its accepting states lead to `to`. Returns its start (or a dead state).
  int32_t AddDfa(const Dfa& dfa, int32_t to);

  int32_t size() const { return static_cast<int32_t>(labels_.size()); }

 private:
  friend class SubsetBuilder;
  std::vector<std::vector<Edge>> edges_;
  std::vector<std::vector<Empty>> empties_;
  std::vector<int32_t> labels_;
};

/// Subset construction, trimmed and minimised. Errors: kResourceExhausted beyond `max_states`.
Result<Dfa> Determinize(const Nfa& nfa, int32_t start, int32_t max_states);

/// Label of a pair of labels (kNoLabel: that side does not accept). kNoLabel refuses.
using CombineLabels = std::function<int32_t(int32_t, int32_t)>;
/// The product of two automata. Errors: kResourceExhausted beyond `max_states`.
Result<Dfa> Product(const Dfa& a, const Dfa& b, const CombineLabels& combine, int32_t max_states);
Result<Dfa> Intersect(const Dfa& a, const Dfa& b, int32_t max_states);
/// What `a` accepts and `b` does not.
Result<Dfa> Subtract(const Dfa& a, const Dfa& b, int32_t max_states);
/// What either accepts; the label of `a` wins.
Result<Dfa> Union(const Dfa& a, const Dfa& b, int32_t max_states);

/// Removes states that cannot be reached or cannot accept, merges equal ones, sets the
/// fingerprint.
Dfa Finish(Dfa dfa);

/// All texts of `dfa`, in order, if there are at most `limit` and their total length is modest.
std::optional<std::vector<std::string>> Enumerate(const Dfa& dfa, size_t limit);

/// [states] whether infinitely many texts are accepted from there.
std::vector<bool> InfiniteStates(const Dfa& dfa);

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_DFA_H_
