#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/client.h"

namespace ballast {

Status StopMatcher::Validate(const std::vector<std::string>& stop) {
  if (stop.size() > kMaxStops) {
    return InvalidArgument("stop: {} strings, at most {} are allowed", stop.size(), kMaxStops);
  }
  for (size_t i = 0; i < stop.size(); ++i) {
    if (stop[i].empty()) return InvalidArgument("stop[{}]: the string is empty", i);
    if (stop[i].size() > kMaxStopBytes) {
      return InvalidArgument("stop[{}]: {} bytes, at most {} are allowed", i, stop[i].size(),
                             kMaxStopBytes);
    }
    if ((static_cast<unsigned char>(stop[i][0]) & 0xC0u) == 0x80u) {
      return InvalidArgument("stop[{}]: not valid UTF-8", i);
    }
  }
  return OkStatus();
}

StopMatcher::StopMatcher(const std::vector<std::string>& stop) {
  CHECK(Validate(stop).has_value());
  for (const std::string& text : stop) {
    Automaton automaton{text, std::vector<uint16_t>(text.size(), 0), 0};
    for (size_t i = 1, k = 0; i < text.size(); ++i) {
      while (k > 0 && text[i] != text[k]) k = automaton.fallback[k - 1];
      if (text[i] == text[k]) ++k;
      automaton.fallback[i] = static_cast<uint16_t>(k);
    }
    stops_.push_back(std::move(automaton));
  }
}

StopMatcher::Piece StopMatcher::Push(std::string_view text) {
  Piece piece;
  if (done_) return piece;
  if (stops_.empty()) {
    piece.text = text;
    return piece;
  }
  size_t longest = 0;
  for (const char byte : text) {
    held_.push_back(byte);
    longest = 0;
    for (Automaton& stop : stops_) {
      size_t k = stop.state;
      while (k > 0 && stop.text[k] != byte) k = stop.fallback[k - 1];
      if (stop.text[k] == byte) ++k;
      stop.state = k;
      longest = std::max(longest, k);
      const bool complete = k == stop.text.size();
      if (complete && (piece.matched == nullptr || k > piece.matched->size())) {
        piece.matched = &stop.text;
      }
    }
    if (piece.matched != nullptr) {
      done_ = true;
      held_.resize(held_.size() - piece.matched->size());
      piece.text = std::exchange(held_, {});
      return piece;
    }
  }
  if (text.empty()) return piece;
  piece.text = held_.substr(0, held_.size() - longest);
  held_.erase(0, held_.size() - longest);
  return piece;
}

std::string StopMatcher::Flush() { return std::exchange(held_, {}); }

}  // namespace ballast
