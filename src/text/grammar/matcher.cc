#include "text/grammar/matcher.h"

#include <utility>
#include <vector>

#include "text/grammar/token_trie.h"

namespace ballast::grammar {

Matcher::Matcher(GrammarPtr grammar) : grammar_(std::move(grammar)) {
  Stepper(grammar_->data(), &pool_).Start(&threads_);
}

bool Matcher::Accept(std::string_view bytes) {
  if (ended_) return bytes.empty();
  const size_t frames = pool_.frames.size(), names = pool_.names.size();
  Stepper stepper(grammar_->data(), &pool_);
  Threads now = threads_, next;
  for (const char c : bytes) {
    next.Clear();
    for (const Frame& top : now.tops) stepper.Step(top, static_cast<uint8_t>(c), &next);
    std::swap(now, next);
    if (!now.alive()) {
      pool_.frames.resize(frames);
      pool_.names.resize(names);
      return false;
    }
  }
  threads_ = std::move(now);
  if (pool_.frames.size() + pool_.names.size() >= compact_at_) Compact();
  return true;
}

bool Matcher::AcceptToken(const TokenTrie& trie, TokenId token) {
  if (ended_) return false;
  if (trie.IsEnd(token)) {
    if (!threads_.complete) return false;
    ended_ = true;
    threads_.tops.clear();
    return true;
  }
  const std::string_view bytes = trie.Bytes(token);
  return !bytes.empty() && Accept(bytes);
}

std::string Matcher::ForcedBytes(size_t max_bytes) const {
  std::string out;
  Matcher probe = *this;
  while (out.size() < max_bytes && !probe.threads_.complete) {
    int only = -1;
    Stepper stepper(grammar_->data(), &probe.pool_);
    for (int byte = 0; byte < 256; ++byte) {
      Threads next;
      for (const Frame& top : probe.threads_.tops) {
        stepper.Step(top, static_cast<uint8_t>(byte), &next);
      }
      if (!next.alive()) continue;
      if (only >= 0) return out;
      only = byte;
    }
    if (only < 0) return out;
    out += static_cast<char>(only);
    if (!probe.Accept(std::string_view(out).substr(out.size() - 1))) return out;
  }
  return out;
}

/// Keeps only what the tops still refer to. Parents always lie below their children, so one pass
/// from the top marks and one from the bottom renumbers.
void Matcher::Compact() {
  std::vector<int32_t> frame_map(pool_.frames.size(), kNoFrame);
  std::vector<int32_t> name_map(pool_.names.size(), kNoFrame);
  const auto mark = [](std::vector<int32_t>* map, int32_t at) {
    if (at != kNoFrame) (*map)[static_cast<size_t>(at)] = 0;
  };
  for (const Frame& top : threads_.tops) {
    mark(&frame_map, top.parent);
    mark(&name_map, top.names);
  }
  for (size_t i = pool_.frames.size(); i-- > 0;) {
    if (frame_map[i] == kNoFrame) continue;
    mark(&frame_map, pool_.frames[i].parent);
    mark(&name_map, pool_.frames[i].names);
  }
  for (size_t i = pool_.names.size(); i-- > 0;) {
    if (name_map[i] != kNoFrame) mark(&name_map, pool_.names[i].previous);
  }
  const auto renumbered = [](const std::vector<int32_t>& map, int32_t at) {
    return at == kNoFrame ? kNoFrame : map[static_cast<size_t>(at)];
  };
  size_t kept = 0;
  for (size_t i = 0; i < pool_.names.size(); ++i) {
    if (name_map[i] == kNoFrame) continue;
    name_map[i] = static_cast<int32_t>(kept);
    pool_.names[kept] = pool_.names[i];
    pool_.names[kept].previous = renumbered(name_map, pool_.names[kept].previous);
    ++kept;
  }
  pool_.names.resize(kept);
  kept = 0;
  for (size_t i = 0; i < pool_.frames.size(); ++i) {
    if (frame_map[i] == kNoFrame) continue;
    frame_map[i] = static_cast<int32_t>(kept);
    Frame& frame = pool_.frames[kept++];
    frame = pool_.frames[i];
    frame.parent = renumbered(frame_map, frame.parent);
    frame.names = renumbered(name_map, frame.names);
  }
  pool_.frames.resize(kept);
  for (Frame& top : threads_.tops) {
    top.parent = renumbered(frame_map, top.parent);
    top.names = renumbered(name_map, top.names);
  }
  compact_at_ = 64 + 2 * (pool_.frames.size() + pool_.names.size());
}

}  // namespace ballast::grammar
