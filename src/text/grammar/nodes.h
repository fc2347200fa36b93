// Role: the compiled grammar: a graph of nodes. Leaves are automata over bytes; arrays, objects,
// sequences, choices and dispatches say what follows what. JSON text is compact.
// Thread: immutable once a Grammar holds it.
#ifndef BALLAST_TEXT_GRAMMAR_NODES_H_
#define BALLAST_TEXT_GRAMMAR_NODES_H_

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "text/grammar/dfa.h"

namespace ballast::grammar {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;
inline constexpr int32_t kEndless = std::numeric_limits<int32_t>::max();

/// Up to 256 properties of an object.
struct Bits {
  std::array<uint64_t, 4> words{};
  void Set(size_t i) { words[i / 64] |= uint64_t{1} << (i % 64); }
  void Clear(size_t i) { words[i / 64] &= ~(uint64_t{1} << (i % 64)); }
  bool Test(size_t i) const { return (words[i / 64] >> (i % 64) & 1) != 0; }
  bool Any() const { return (words[0] | words[1] | words[2] | words[3]) != 0; }
  int Count() const;
  Bits And(const Bits& o) const;
  Bits Minus(const Bits& o) const;
  friend bool operator==(const Bits&, const Bits&) = default;
};

enum class NodeKind : uint8_t {
  kLeaf,      ///< one automaton
  kString,    ///< a JSON string of min..max characters, any spelling
  kArray,     ///< '[' items ']'
  kObject,    ///< '{' members '}'
  kChoice,    ///< any of the kids
  kSequence,  ///< the kids one after another
  kDispatch,  ///< free text; a trigger starts its kid, after which text goes on
};

struct Node {
  NodeKind kind = NodeKind::kChoice;
  int32_t index = 0;             ///< kLeaf: automaton; kArray, kObject, kDispatch: its table
  int64_t min = 0, max = -1;     ///< kString, kArray, kObject: counts; −1: no limit
  std::vector<NodeId> kids;      ///< kChoice, kSequence; kDispatch: one a trigger
  int32_t min_depth = kEndless;  ///< brackets that the shallowest text nests; kEndless: no text
};

struct ArrayTable {
  std::vector<NodeId> prefix;
  NodeId items = kNoNode;
};

/// What a state of a key automaton can still become.
struct KeyState {
  Bits properties;       ///< named properties within reach
  bool open = false;     ///< a name outside `properties` is within reach
  bool closing = false;  ///< the closing quote was read
  bool endless = false;  ///< infinitely many names are within reach
};

struct ObjectTable {
  std::vector<std::string> names;
  std::vector<NodeId> values;  ///< of each name
  Bits required;
  Bits usable;                  ///< names that some value fits
  std::vector<NodeId> others;   ///< values of the classes of other names
  std::vector<Dfa> other_keys;  ///< [classes] their names, JSON spelling without quotes
  Dfa keys;                     ///< `"name":`; labels: names first, then classes
  std::vector<KeyState> states;
  int32_t max_value_depth = 0;  ///< of all usable values: deeper than this never matters
};

struct DispatchTable {
  Dfa text;  ///< label 0: the text may end here; i + 1: trigger i was completed
  int32_t max_rounds = 1;
  int32_t after_part = 0;  ///< state of `text` after a part; 0 is where the whole text begins
};

struct GrammarData {
  std::vector<Node> nodes;
  std::vector<Dfa> leaves;
  std::vector<ArrayTable> arrays;
  std::vector<ObjectTable> objects;
  std::vector<DispatchTable> dispatches;
  NodeId root = kNoNode;

  const Node& node(NodeId id) const { return nodes[static_cast<size_t>(id)]; }
  const Dfa& leaf(const Node& n) const { return leaves[static_cast<size_t>(n.index)]; }
  const ArrayTable& array(const Node& n) const { return arrays[static_cast<size_t>(n.index)]; }
  const ObjectTable& object(const Node& n) const { return objects[static_cast<size_t>(n.index)]; }
  const DispatchTable& dispatch(const Node& n) const {
    return dispatches[static_cast<size_t>(n.index)];
  }
};

/// Any JSON string with its quotes, every escape allowed. State kStringBody is inside.
const Dfa& JsonStringDfa();
int32_t JsonStringBody();

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_NODES_H_
