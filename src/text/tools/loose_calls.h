// Role: calls of models that leave out their format's tags: a bare JSON object at the start of a
// line, or one in a ``` block of its own. It counts as a call only if it names a tool and its
// arguments fit that tool's schema; everything else stays the text that it is.
// Thread: one owner.
#ifndef BALLAST_TEXT_TOOLS_LOOSE_CALLS_H_
#define BALLAST_TEXT_TOOLS_LOOSE_CALLS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/tools/tool_format.h"

namespace ballast {

/// Rewrites loose calls into the format's own spelling; passes on all else unchanged.
class LooseCalls {
 public:
  /// @param grammar of the request: what it takes as a whole reply is a valid call.
  LooseCalls(const ToolFormat& format, grammar::GrammarPtr grammar);

  /// Adds to `out` what is decided. Holds back at most kMaxHeld bytes of what may become a call.
  void Push(std::string_view text, std::string* out);
  void Finish(std::string* out);

  static constexpr size_t kMaxHeld = 64 * 1024;

 private:
  enum class Place { kText, kFence, kInfo, kObject, kAfterObject };
  void PushByte(char c, std::string* out);
  void PushObject(char c, std::string* out);
  /// False as soon as what is held cannot become a call.
  bool Plausible() const;
  void GiveUp(std::string* out);
  std::string_view Opening() const;
  /// Whether a call in the format's own spelling follows.
  bool AfterOpening() const { return tail_ == Opening(); }
  /// Notes a character that stays as it is.
  void Passed(char c);
  bool Accept(std::string* out);

  const ToolFormat& format_;
  grammar::GrammarPtr grammar_;
  std::vector<std::pair<std::string, std::string>> calls_;  // accepted so far
  Place place_ = Place::kText;
  std::string held_;
  size_t object_at_ = 0, object_end_ = 0;  // in held_
  int depth_ = 0;
  bool quoted_ = false, escaped_ = false;
  bool fenced_ = false;
  bool at_start_ = true, line_start_ = true;
  std::string tail_;  // the last characters that are not blank, as many as the opening has
};

}  // namespace ballast

#endif  // BALLAST_TEXT_TOOLS_LOOSE_CALLS_H_
