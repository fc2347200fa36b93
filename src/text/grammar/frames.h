// Role: the running automaton: stacks of frames that share their lower parts in a pool, and the
// step over one byte. Empty moves are done eagerly, so each top frame waits for a byte.
// Thread: one owner of a pool. Between calls a pool only grows; a caller may cut it back to an
// earlier size once nothing above that size is referred to.
#ifndef BALLAST_TEXT_GRAMMAR_FRAMES_H_
#define BALLAST_TEXT_GRAMMAR_FRAMES_H_

#include <cstdint>
#include <vector>

#include "text/grammar/nodes.h"

namespace ballast::grammar {

inline constexpr int32_t kNoFrame = -1;

enum class FrameKind : uint8_t {
  kLeaf,
  kString,
  kKey,   ///< reads `"name":` for the object frame below it
  kText,  ///< free text for the dispatch frame below it
  kArray,
  kObject,
  kSequence,
  kDispatch,
};

/// Phases of arrays and objects.
enum Phase : int32_t {
  kBefore,      ///< expects the opening bracket
  kOpen,        ///< just opened: expects the closing bracket (an item has a frame of its own)
  kAfterValue,  ///< expects a comma or the closing bracket
};

struct Frame {
  NodeId node = kNoNode;
  FrameKind kind = FrameKind::kLeaf;
  uint8_t depth = 0;  ///< brackets open around this frame, its own included once open
  int32_t state = 0;  ///< of the automaton; a Phase; the kid of a sequence
  int32_t count = 0;  ///< characters, items, members or rounds so far
  int32_t parent = kNoFrame;
  int32_t names = kNoFrame;  ///< kObject: list of other names seen
  uint64_t hash = 0;         ///< kKey: of the name so far
  Bits seen;                 ///< kObject: named properties seen
};

struct SeenName {
  uint64_t hash;
  int32_t previous;
};

struct Pool {
  std::vector<Frame> frames;
  std::vector<SeenName> names;
};

/// The readings of a text that are still possible.
struct Threads {
  std::vector<Frame> tops;
  bool complete = false;  ///< the text may end here
  bool alive() const { return complete || !tops.empty(); }
  void Clear() {
    tops.clear();
    complete = false;
  }
};

/// Which members an object may still take.
struct AllowedKeys {
  Bits properties;
  bool others = false;
  bool Any() const { return others || properties.Any(); }
};

class Stepper {
 public:
  Stepper(const GrammarData& data, Pool* pool) : data_(data), pool_(*pool) {}

  void Start(Threads* out) { Enter(data_.root, kNoFrame, 0, out); }
  /// Adds to `out` what `top` becomes after `byte`; nothing if it cannot take it.
  void Step(const Frame& top, uint8_t byte, Threads* out);
  /// The frame above `parent` ended, with the label of its automaton.
  void Done(int32_t parent, int32_t label, Threads* out);
  /// A key of the object `parent` ended.
  void KeyDone(int32_t parent, int32_t label, uint64_t hash, Threads* out);

  AllowedKeys Allowed(const Frame& object) const;
  /// The automaton of a kLeaf, kString, kKey or kText frame.
  const Dfa& Automaton(const Frame& frame) const;

  static uint64_t HashByte(uint64_t hash, uint8_t byte) {
    return (hash ^ byte) * 0x9E3779B97F4A7C15u + (hash >> 29);
  }

 private:
  void Enter(NodeId id, int32_t parent, int depth, Threads* out);
  void EnterText(const Frame& dispatch, Threads* out);
  void EnterArrayItem(Frame array, Threads* out);
  void EnterKey(const Frame& object, Threads* out);
  void Settle(const Frame& leaf, const Dfa& dfa, Threads* out);
  void StepString(Frame top, uint8_t byte, Threads* out);
  void StepKey(Frame top, uint8_t byte, Threads* out);
  void StepArray(Frame top, uint8_t byte, Threads* out);
  void StepObject(Frame top, uint8_t byte, Threads* out);
  bool ItemAllowed(const Frame& array, NodeId* item) const;
  /// Whether the list of names that starts at `at` has `hash`.
  bool Contains(int32_t at, uint64_t hash) const;
  bool Closable(const Frame& object) const;
  bool Same(const Frame& a, const Frame& b) const;
  void Add(const Frame& frame, Threads* out);
  int32_t Push(const Frame& frame) {
    pool_.frames.push_back(frame);
    return static_cast<int32_t>(pool_.frames.size()) - 1;
  }

  const GrammarData& data_;
  Pool& pool_;
};

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_FRAMES_H_
