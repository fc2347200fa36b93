// Sets of code points and how they are spelled in bytes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "text/grammar/limits.h"
#include "text/grammar/regex.h"
#include "text/unicode.h"

namespace ballast::grammar {

CodeSet NormaliseSet(CodeSet set) {
  std::sort(set.begin(), set.end(), [](CodeRange a, CodeRange b) { return a.lo < b.lo; });
  CodeSet merged;
  for (const CodeRange r : set) {
    if (!merged.empty() && r.lo <= merged.back().hi + 1) {
      merged.back().hi = std::max(merged.back().hi, r.hi);
    } else {
      merged.push_back(r);
    }
  }
  CodeSet out;
  for (CodeRange r : merged) {
    r.hi = std::min(r.hi, 0x10FFFFu);
    if (r.lo > r.hi) continue;
    if (r.lo < 0xD800) out.push_back({r.lo, std::min(r.hi, 0xD7FFu)});
    if (r.hi > 0xDFFF) out.push_back({std::max(r.lo, 0xE000u), r.hi});
  }
  return out;
}

CodeSet ComplementSet(const CodeSet& set) {
  CodeSet out;
  uint32_t next = 0;
  for (const CodeRange r : set) {
    if (r.lo > next) out.push_back({next, r.lo - 1});
    next = r.hi + 1;
  }
  if (next <= 0x10FFFF) out.push_back({next, 0x10FFFF});
  return NormaliseSet(std::move(out));
}

const CodeSet& AllCodes() {
  static const CodeSet kAll = ComplementSet({});
  return kAll;
}

namespace {

struct Utf8 {
  std::array<uint8_t, 4> bytes{};
  size_t size = 0;
};

Utf8 Encode(uint32_t code) {
  std::string text;
  AppendUtf8(code, &text);
  Utf8 out;
  out.size = text.size();
  for (size_t i = 0; i < text.size(); ++i) out.bytes[i] = static_cast<uint8_t>(text[i]);
  return out;
}

/// Adds the sequences between `lo` and `hi`, of equal length, that differ from byte `i` on.
void AddBetween(Nfa* nfa, int32_t from, int32_t to, const Utf8& lo, const Utf8& hi, size_t i) {
  if (i + 1 == lo.size) {
    nfa->AddEdge(from, lo.bytes[i], hi.bytes[i], to);
    return;
  }
  if (lo.bytes[i] == hi.bytes[i]) {
    const int32_t mid = nfa->AddState();
    nfa->AddEdge(from, lo.bytes[i], lo.bytes[i], mid);
    AddBetween(nfa, mid, to, lo, hi, i + 1);
    return;
  }
  Utf8 lowest = lo, highest = hi;
  for (size_t k = i + 1; k < lo.size; ++k) lowest.bytes[k] = 0x80, highest.bytes[k] = 0xBF;
  uint8_t first = lo.bytes[i], last = hi.bytes[i];
  const bool low_whole = std::equal(lo.bytes.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                    lo.bytes.begin() + static_cast<std::ptrdiff_t>(lo.size),
                                    lowest.bytes.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  const bool high_whole = std::equal(hi.bytes.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                     hi.bytes.begin() + static_cast<std::ptrdiff_t>(hi.size),
                                     highest.bytes.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  if (!low_whole) {
    const int32_t mid = nfa->AddState();
    nfa->AddEdge(from, first, first, mid);
    AddBetween(nfa, mid, to, lo, highest, i + 1);
    ++first;
  }
  if (!high_whole) {
    const int32_t mid = nfa->AddState();
    nfa->AddEdge(from, last, last, mid);
    AddBetween(nfa, mid, to, lowest, hi, i + 1);
    --last;
  }
  if (first > last) return;
  int32_t state = nfa->AddState();
  nfa->AddEdge(from, first, last, state);
  for (size_t k = i + 1; k < lo.size; ++k) {
    const int32_t next = k + 1 == lo.size ? to : nfa->AddState();
    nfa->AddEdge(state, 0x80, 0xBF, next);
    state = next;
  }
}

void AddUtf8(Nfa* nfa, int32_t from, int32_t to, CodeRange range) {
  constexpr uint32_t kLast[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
  for (const uint32_t last : kLast) {
    if (range.lo > last || range.lo > range.hi) continue;
    const uint32_t hi = std::min(range.hi, last);
    AddBetween(nfa, from, to, Encode(range.lo), Encode(hi), 0);
    range.lo = hi + 1;
  }
}

std::string JsonEscape(uint32_t code) {
  switch (code) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\u{:04x}", code);
  }
}

bool NeedsEscape(uint32_t code) { return code < 0x20 || code == '"' || code == '\\'; }

}  // namespace

void AddCodes(Nfa* nfa, int32_t from, int32_t to, const CodeSet& set, Spelling spelling) {
  for (CodeRange range : set) {
    if (spelling == Spelling::kUtf8) {
      AddUtf8(nfa, from, to, range);
      continue;
    }
    while (range.lo <= range.hi && range.lo <= '\\') {
      if (NeedsEscape(range.lo)) {
        nfa->AddText(from, JsonEscape(range.lo), to);
        ++range.lo;
        continue;
      }
      const uint32_t stop = range.lo < '"' ? '"' - 1 : '\\' - 1;
      const uint32_t hi = std::min(range.hi, stop);
      AddUtf8(nfa, from, to, {range.lo, hi});
      range.lo = hi + 1;
    }
    if (range.lo <= range.hi) AddUtf8(nfa, from, to, range);
  }
}

std::string JsonBody(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (NeedsEscape(byte)) {
      out += JsonEscape(byte);
    } else {
      out += c;
    }
  }
  return out;
}

const Dfa& AnyTextDfa(Spelling spelling) {
  static const auto kMake = [](Spelling s) {
    Nfa nfa;
    const int32_t state = nfa.AddState();
    AddCodes(&nfa, state, state, AllCodes(), s);
    nfa.Accept(state);
    return Determinize(nfa, state, kMaxDfaStates).value();
  };
  static const Dfa kUtf8 = kMake(Spelling::kUtf8);
  static const Dfa kJson = kMake(Spelling::kJson);
  return spelling == Spelling::kUtf8 ? kUtf8 : kJson;
}

}  // namespace ballast::grammar
