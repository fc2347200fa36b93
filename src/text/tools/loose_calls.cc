#include "text/tools/loose_calls.h"

#include <span>
#include <utility>

#include "base/json.h"
#include "text/grammar/matcher.h"

namespace ballast {

namespace {

constexpr std::string_view kFence = "```";
constexpr std::string_view kInfos[] = {"", "json", "tool_call", "xml"};

bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

}  // namespace

LooseCalls::LooseCalls(const ToolFormat& format, grammar::GrammarPtr grammar)
    : format_(format), grammar_(std::move(grammar)) {}

void LooseCalls::Push(std::string_view text, std::string* out) {
  for (const char c : text) PushByte(c, out);
}

// The opening as far as it is not blank: blanks are left out of tail_, too.
std::string_view LooseCalls::Opening() const {
  return format_.opening.substr(0, format_.opening.find('\n'));
}

void LooseCalls::Passed(char c) {
  at_start_ = at_start_ && IsBlank(c);
  line_start_ = c == '\n';
  if (IsBlank(c)) return;
  tail_ += c;
  if (tail_.size() > Opening().size()) tail_.erase(0, 1);
}

void LooseCalls::GiveUp(std::string* out) {
  *out += held_;
  for (const char c : held_) Passed(c);
  held_.clear();
  place_ = Place::kText;
}

// A first member "name" is what tells a call from other JSON without waiting for its end.
bool LooseCalls::Plausible() const {
  if (held_.size() > kMaxHeld) return false;
  constexpr std::string_view kBeginning = "{\"name\":\"";
  size_t matched = 0;
  for (size_t i = object_at_; i < held_.size() && matched < kBeginning.size(); ++i) {
    if (held_[i] == kBeginning[matched]) {
      ++matched;
    } else if (!IsBlank(held_[i]) || (matched > 1 && matched < 7)) {
      return false;
    }
  }
  return true;
}

bool LooseCalls::Accept(std::string* out) {
  const auto json = ParseJson(std::string_view(held_).substr(object_at_, object_end_ - object_at_),
                              kMaxJsonDepth, 1024);
  if (!json || !json->is_object() || json->size() != 2) return false;
  const auto name = json->find("name");
  auto arguments = json->find("arguments");
  if (arguments == json->end()) arguments = json->find("parameters");
  if (name == json->end() || !name->is_string()) return false;
  if (arguments == json->end() || !arguments->is_object()) return false;
  calls_.emplace_back(name->get<std::string>(), DumpJson(*arguments));
  // All calls so far together, so that there are no more of them than the request allows.
  grammar::Matcher matcher(grammar_);
  if (!matcher.Accept(WriteToolCalls(format_, calls_)) || !matcher.IsComplete()) {
    calls_.pop_back();
    return false;
  }
  *out += WriteToolCalls(format_, std::span(calls_).last(1));
  held_.erase(0, place_ == Place::kAfterObject && fenced_ ? held_.size() : object_end_);
  place_ = Place::kText;
  std::string rest = std::exchange(held_, {});
  line_start_ = at_start_ = true;  // another may follow
  Push(rest, out);
  return true;
}

void LooseCalls::PushObject(char c, std::string* out) {
  held_ += c;
  if (quoted_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      quoted_ = false;
    }
  } else if (c == '"') {
    quoted_ = true;
  } else if (c == '{') {
    ++depth_;
  } else if (c == '}' && --depth_ == 0) {
    object_end_ = held_.size();
    if (!fenced_) {
      if (!Accept(out)) GiveUp(out);
    } else {
      place_ = Place::kAfterObject;
    }
    return;
  }
  if (!Plausible()) GiveUp(out);
}

void LooseCalls::PushByte(char c, std::string* out) {
  switch (place_) {
    case Place::kText:
      fenced_ = c == '`';
      if ((at_start_ || line_start_) && (c == '{' || fenced_) && !AfterOpening()) {
        depth_ = 0;
        quoted_ = escaped_ = false;
        object_at_ = 0;
        place_ = fenced_ ? Place::kFence : Place::kObject;
        if (!fenced_) return PushObject(c, out);
        held_ += c;
        return;
      }
      out->push_back(c);
      Passed(c);
      return;
    case Place::kFence:
      held_ += c;
      if (!kFence.starts_with(held_)) return GiveUp(out);
      if (held_ == kFence) place_ = Place::kInfo;
      return;
    case Place::kInfo: {
      if (c == '{' && held_.find('\n') != std::string::npos) {
        object_at_ = held_.size();
        place_ = Place::kObject;
        return PushObject(c, out);
      }
      held_ += c;
      const std::string_view all = std::string_view(held_).substr(kFence.size());
      const size_t line = all.find('\n');
      bool fits = false;
      for (const std::string_view info : kInfos) {
        fits = fits || (line == std::string_view::npos ? info.starts_with(all)
                                                       : all.substr(0, line) == info);
      }
      if (!fits || (line != std::string_view::npos && !IsBlank(c)) || held_.size() > 64) {
        GiveUp(out);
      }
      return;
    }
    case Place::kObject:
      return PushObject(c, out);
    case Place::kAfterObject: {
      held_ += c;
      std::string_view after = std::string_view(held_).substr(object_end_);
      while (!after.empty() && IsBlank(after.front())) after.remove_prefix(1);
      if (!kFence.starts_with(after) || held_.size() > kMaxHeld) return GiveUp(out);
      if (after == kFence && !Accept(out)) GiveUp(out);
      return;
    }
  }
}

void LooseCalls::Finish(std::string* out) {
  if (place_ == Place::kAfterObject && Accept(out)) return;
  GiveUp(out);
}

}  // namespace ballast
