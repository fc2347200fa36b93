// Role: finds stop strings in streamed text, across token borders.
// Invariants: text that might be the beginning of a stop string is held back until it is decided;
// no byte of a matched stop string is ever emitted; the result does not depend on how the text is
// cut into pieces. The stop string that is complete first wins, the longest if several end
// together. Thread: one owner.
#ifndef BALLAST_ENGINE_STOP_MATCHER_H_
#define BALLAST_ENGINE_STOP_MATCHER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ballast {

class StopMatcher {
 public:
  /// Errors: kInvalidArgument naming `stop` and the limit: too many, empty, too long, or beginning
  /// in the middle of a UTF-8 character.
  static Status Validate(const std::vector<std::string>& stop);

  StopMatcher() = default;
  /// REQUIRES: Validate(stop) succeeded.
  explicit StopMatcher(const std::vector<std::string>& stop);

  struct Piece {
    std::string text;                      // safe to emit now
    const std::string* matched = nullptr;  // the stop string; lives as long as the matcher
  };
  /// Adds text (whole UTF-8 characters). After a match further text is ignored.
  Piece Push(std::string_view text);
  /// The text still held back, when the stream ends without a match.
  std::string Flush();

 private:
  struct Automaton {
    std::string text;
    std::vector<uint16_t> fallback;  // length of the longest border of each prefix
    size_t state = 0;                // bytes of `text` matched so far
  };

  std::vector<Automaton> stops_;
  std::string held_;
  bool done_ = false;
};

}  // namespace ballast

#endif  // BALLAST_ENGINE_STOP_MATCHER_H_
