#include "text/grammar/number.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "text/grammar/limits.h"

namespace ballast::grammar {

Result<Decimal> Decimal::Parse(std::string_view text) {
  Decimal out;
  size_t i = 0;
  const auto digit = [&] { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  if (i < text.size() && text[i] == '-') out.negative = true, ++i;
  const size_t first = i;
  while (digit()) out.digits += text[i++];
  out.point = static_cast<int64_t>(i - first);
  bool good = i > first;
  if (i < text.size() && text[i] == '.') {
    const size_t fraction = ++i;
    while (digit()) out.digits += text[i++];
    good = good && i > fraction;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    const bool down = i < text.size() && text[i] == '-';
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    const size_t exponent = i;
    int64_t value = 0;
    while (digit()) value = std::min<int64_t>(value * 10 + (text[i++] - '0'), 100'000);
    good = good && i > exponent;
    out.point += down ? -value : value;
  }
  if (!good || i != text.size()) return InvalidArgument("'{}' is not a number", text.substr(0, 80));
  const size_t zeros = std::min(out.digits.find_first_not_of('0'), out.digits.size());
  out.digits.erase(0, zeros);
  out.point -= static_cast<int64_t>(zeros);
  while (!out.digits.empty() && out.digits.back() == '0') out.digits.pop_back();
  if (out.digits.empty()) return Decimal{};
  if (out.point > 1000 || out.point < -1000) {
    return MakeError(Code::kOutOfRange, "{} is beyond 10^±1000", text.substr(0, 80));
  }
  return out;
}

Result<Decimal> Decimal::From(const Json& number) { return Parse(DumpJson(number)); }

int Decimal::DigitAt(int64_t exponent) const {
  const int64_t index = point - 1 - exponent;
  if (index < 0 || index >= static_cast<int64_t>(digits.size())) return 0;
  return digits[static_cast<size_t>(index)] - '0';
}

std::strong_ordering Decimal::CompareMagnitude(const Decimal& other) const {
  if (zero() || other.zero()) return !zero() <=> !other.zero();
  if (point != other.point) return point <=> other.point;
  return digits.compare(other.digits) <=> 0;
}

std::strong_ordering Decimal::Compare(const Decimal& other) const {
  if (negative != other.negative) {
    return negative ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  return negative ? other.CompareMagnitude(*this) : CompareMagnitude(other);
}

namespace {

/// multiple = value × 10^-scale, value without trailing zeros where scale > 0.
struct Multiple {
  int64_t value = 0;
  int scale = 0;
};

Result<Multiple> Scaled(const Decimal& multiple) {
  Multiple out;
  out.scale = static_cast<int>(
      std::max<int64_t>(0, static_cast<int64_t>(multiple.digits.size()) - multiple.point));
  int64_t zeros =
      std::max<int64_t>(0, multiple.point - static_cast<int64_t>(multiple.digits.size()));
  for (const char c : multiple.digits) {
    out.value = out.value * 10 + (c - '0');
    if (out.value > kMaxMultiple) break;
  }
  while (zeros-- > 0 && out.value <= kMaxMultiple) out.value *= 10;
  if (out.value > kMaxMultiple || out.scale > kMaxFractionDigits) {
    return Unimplemented("more than {} steps to a unit or {} decimal places are not supported",
                         kMaxMultiple, kMaxFractionDigits);
  }
  return out;
}

/// Where a reader of a number stands. Both comparisons are of magnitudes with the bound that
/// matters on this side of zero: −1 less so far, 0 equal, 1 greater.
struct State {
  enum Phase : int8_t { kSign, kFirst, kZero, kInteger, kPoint, kFraction, kE, kESign, kExponent };
  Phase phase = kSign;
  bool negative = false;
  int8_t low = 0, high = 0;
  int16_t place = 0;  ///< digits read in this phase
  bool nonzero = false;
  int32_t rest = 0;  ///< value modulo the multiple
  auto Key() const { return std::tuple(phase, negative, low, high, place, nonzero, rest); }
  bool operator<(const State& o) const { return Key() < o.Key(); }
};

/// A bound on the magnitude; absent: none.
struct Bound {
  std::optional<Decimal> at;
  bool open = false;
};

class NumberReader {
 public:
  NumberReader(const NumberSpec& spec, std::optional<Multiple> multiple)
      : spec_(spec), multiple_(multiple) {
    max_integer_ = multiple ? kMaxMultipleDigits : kMaxIntegerDigits;
  }

  Result<Dfa> Build() {
    Dfa out;
    static constexpr std::string_view kColumns = "0123456789-+.eE";
    out.num_classes = static_cast<int32_t>(kColumns.size()) + 1;
    for (size_t i = 0; i < kColumns.size(); ++i) {
      out.classes[static_cast<uint8_t>(kColumns[i])] = static_cast<uint8_t>(i + 1);
    }
    std::map<State, int32_t> ids{{State{}, 0}};
    std::vector<State> states{State{}};
    for (size_t s = 0; s < states.size(); ++s) {
      if (states.size() > 400'000) return ResourceExhausted("the range of numbers is too large");
      const State from = states[s];
      out.label.push_back(Accepting(from) ? 0 : kNoLabel);
      out.next.push_back(kNoState);
      for (const char c : kColumns) {
        const auto to = Step(from, c);
        if (!to) {
          out.next.push_back(kNoState);
          continue;
        }
        const auto [it, inserted] = ids.emplace(*to, static_cast<int32_t>(states.size()));
        if (inserted) states.push_back(*to);
        out.next.push_back(it->second);
      }
    }
    return Finish(std::move(out));
  }

 private:
  /// The bounds of the magnitude, given the sign. A bound on the other side of zero is either no
  /// bound or excludes this side; Excluded() handles the latter.
  Bound LowerOf(bool negative) const {
    if (negative) {
      // Below zero; −0 is not below zero.
      if (!spec_.hi || (!spec_.hi->negative && !spec_.hi->zero())) return {};
      return Bound{spec_.hi, spec_.hi_open};
    }
    return spec_.lo && !spec_.lo->negative ? Bound{spec_.lo, spec_.lo_open} : Bound{};
  }
  Bound UpperOf(bool negative) const {
    if (negative) {
      if (!spec_.lo) return {};
      return spec_.lo->negative ? Bound{spec_.lo, spec_.lo_open} : Bound{Decimal{}, spec_.lo_open};
    }
    if (!spec_.hi) return {};
    return spec_.hi->negative ? Bound{Decimal{}, true} : Bound{spec_.hi, spec_.hi_open};
  }
  /// −0 is zero, so a negative sign is still possible when the range starts at zero.
  bool Excluded(bool negative) const {
    const Decimal zero;
    if (!negative || !spec_.lo) return false;
    return spec_.lo->Compare(zero) > 0;
  }

  static int8_t Sign(int x) { return static_cast<int8_t>(x < 0 ? -1 : x > 0 ? 1 : 0); }

  /// Before the point the lengths decide; digits only decide between equal lengths.
  static int8_t AfterInteger(const Bound& bound, int8_t so_far, int digits, bool nonzero) {
    if (!bound.at) return 0;
    const int64_t length = nonzero ? digits : 0;
    const int64_t bound_length = std::max<int64_t>(0, bound.at->point);
    return length != bound_length ? Sign(static_cast<int>(length - bound_length)) : so_far;
  }

  static int8_t CompareDigit(const Bound& bound, int8_t so_far, int digit, int64_t exponent) {
    if (!bound.at || so_far != 0) return so_far;
    return Sign(digit - bound.at->DigitAt(exponent));
  }

  State Digit(State s, int digit) const {
    const Bound low = LowerOf(s.negative), high = UpperOf(s.negative);
    if (s.phase == State::kFraction) {
      s.low = CompareDigit(low, s.low, digit, -s.place - 1);
      s.high = CompareDigit(high, s.high, digit, -s.place - 1);
    } else {
      // The i-th digit is compared as if the number had as many digits as the bound.
      const auto compare = [&](const Bound& b, int8_t so_far) {
        const int64_t exponent = b.at ? std::max<int64_t>(0, b.at->point) - 1 - s.place : 0;
        return exponent < 0 ? so_far : CompareDigit(b, so_far, digit, exponent);
      };
      s.low = compare(low, s.low);
      s.high = compare(high, s.high);
    }
    if (multiple_ && (s.phase != State::kFraction || s.place < multiple_->scale)) {
      s.rest = static_cast<int32_t>((s.rest * int64_t{10} + digit) % multiple_->value);
    }
    if (s.phase != State::kFraction) s.nonzero = s.nonzero || digit != 0;
    if (s.phase == State::kFraction && spec_.fraction) s.nonzero = s.nonzero || digit != 0;
    ++s.place;
    return s;
  }

  std::optional<State> StepInteger(State s, char c) const {
    const bool digit = c >= '0' && c <= '9';
    if (digit) {
      if (s.phase == State::kZero || s.place >= max_integer_) return std::nullopt;
      const bool first = s.phase != State::kInteger;
      s.phase = first && c == '0' ? State::kZero : State::kInteger;
      return Digit(s, c - '0');
    }
    if (s.phase == State::kSign || s.phase == State::kFirst) {
      if (c != '-' || s.phase == State::kFirst || Excluded(true)) return std::nullopt;
      s.negative = true;
      s.phase = State::kFirst;
      return s;
    }
    if (c == '.') {
      s = EndInteger(s);
      s.phase = State::kPoint;
      return s;
    }
    return StepExponent(s, c);
  }

  State EndInteger(State s) const {
    s.low = AfterInteger(LowerOf(s.negative), s.low, s.place, s.nonzero);
    s.high = AfterInteger(UpperOf(s.negative), s.high, s.place, s.nonzero);
    s.place = 0;
    s.nonzero = false;
    return s;
  }

  std::optional<State> StepExponent(State s, char c) const {
    if (!spec_.plain()) return std::nullopt;
    if ((c | 0x20) == 'e' && s.phase < State::kE) {
      State out;
      out.phase = State::kE;
      return out;
    }
    if ((c == '+' || c == '-') && s.phase == State::kE) {
      s.phase = State::kESign;
      return s;
    }
    return std::nullopt;
  }

  std::optional<State> Step(State s, char c) const {
    const bool digit = c >= '0' && c <= '9';
    switch (s.phase) {
      case State::kSign:
      case State::kFirst:
      case State::kZero:
      case State::kInteger:
        return StepInteger(s, c);
      case State::kPoint:
      case State::kFraction: {
        if (!digit) return s.phase == State::kFraction ? StepExponent(s, c) : std::nullopt;
        if (s.place >= kMaxFractionDigits) return std::nullopt;
        const bool whole = spec_.integer || (multiple_ && s.place >= multiple_->scale);
        if (whole && c != '0') return std::nullopt;
        s.phase = State::kFraction;
        return Digit(s, c - '0');
      }
      case State::kE:
      case State::kESign:
      case State::kExponent:
        if (!digit) return StepExponent(s, c);
        if (s.phase != State::kExponent) s.place = 0;
        if (s.place >= 2) return std::nullopt;
        s.phase = State::kExponent;
        ++s.place;
        return s;
    }
    return std::nullopt;
  }

  /// The comparison at the end of the text: digits of the bound that were not read are zeros here.
  static int Final(const Bound& bound, int8_t so_far, int fraction_digits) {
    if (so_far != 0) return so_far;
    const auto& d = *bound.at;
    const int64_t lowest = d.point - static_cast<int64_t>(d.digits.size());
    return !d.zero() && lowest < -fraction_digits ? -1 : 0;
  }

  bool Accepting(State s) const {
    if (s.phase == State::kExponent) return true;
    if (s.phase != State::kZero && s.phase != State::kInteger && s.phase != State::kFraction) {
      return false;
    }
    if (s.phase != State::kFraction) s = EndInteger(s);
    if (spec_.fraction && !s.nonzero) return false;
    const Bound low = LowerOf(s.negative), high = UpperOf(s.negative);
    if (low.at) {
      const int c = Final(low, s.low, s.place);
      if (c < 0 || (c == 0 && low.open)) return false;
    }
    if (high.at) {
      const int c = Final(high, s.high, s.place);
      if (c > 0 || (c == 0 && high.open)) return false;
    }
    if (!multiple_) return true;
    int64_t rest = s.rest;
    for (int i = s.place; i < multiple_->scale; ++i) rest = rest * 10 % multiple_->value;
    return rest == 0;
  }

  const NumberSpec& spec_;
  std::optional<Multiple> multiple_;
  int max_integer_;
};

}  // namespace

bool NumberSpec::Contains(const Decimal& value) const {
  if (integer && !value.IsInteger()) return false;
  if (fraction && value.IsInteger()) return false;
  if (lo) {
    const auto c = value.Compare(*lo);
    if (c < 0 || (c == 0 && lo_open)) return false;
  }
  if (hi) {
    const auto c = value.Compare(*hi);
    if (c > 0 || (c == 0 && hi_open)) return false;
  }
  if (!multiple || value.zero()) return true;
  // value × 10^k modulo multiple × 10^k, for a k that makes both integers.
  const auto scaled = Scaled(*multiple);
  if (!scaled) return false;
  const int64_t lowest = value.point - static_cast<int64_t>(value.digits.size());
  if (lowest < -scaled->scale) return false;
  int64_t rest = 0;
  for (const char c : value.digits) rest = (rest * 10 + (c - '0')) % scaled->value;
  for (int64_t i = lowest; i > -scaled->scale; --i) rest = rest * 10 % scaled->value;
  return rest == 0;
}

Result<Dfa> NumberDfa(const NumberSpec& spec) {
  std::optional<Multiple> multiple;
  if (spec.multiple) {
    ASSIGN_OR_RETURN(multiple, Scaled(*spec.multiple));
  }
  ASSIGN_OR_RETURN(Dfa dfa, NumberReader(spec, multiple).Build());
  if (dfa.num_states() > kMaxDfaStates) {
    return ResourceExhausted("the range of numbers needs {} states, the limit is {}",
                             dfa.num_states(), kMaxDfaStates);
  }
  return dfa;
}

Result<Decimal> LeastCommonMultiple(const Decimal& a, const Decimal& b) {
  ASSIGN_OR_RETURN(const Multiple x, Scaled(a));
  ASSIGN_OR_RETURN(const Multiple y, Scaled(b));
  const int scale = std::max(x.scale, y.scale);
  int64_t p = x.value, q = y.value;
  for (int i = x.scale; i < scale && p <= kMaxMultiple; ++i) p *= 10;
  for (int i = y.scale; i < scale && q <= kMaxMultiple; ++i) q *= 10;
  if (p > kMaxMultiple || q > kMaxMultiple) {
    return Unimplemented("the steps of two multipleOf together exceed {}", kMaxMultiple);
  }
  return Decimal::Parse(std::to_string(std::lcm(p, q)) + "e-" + std::to_string(scale));
}

}  // namespace ballast::grammar
