// Role: JSON numbers as text. Decimals compare exactly, and a range of numbers becomes an
// automaton that accepts precisely the plain decimal spellings of its members.
// Thread: pure functions.
#ifndef BALLAST_TEXT_GRAMMAR_NUMBER_H_
#define BALLAST_TEXT_GRAMMAR_NUMBER_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "text/grammar/dfa.h"

namespace ballast::grammar {

/// ± 0.digits × 10^point, digits without leading or trailing zeros; zero has no digits.
struct Decimal {
  bool negative = false;
  std::string digits;
  int64_t point = 0;

  /// Errors: kInvalidArgument if `text` is not a JSON number, kOutOfRange beyond 10^±1000.
  static Result<Decimal> Parse(std::string_view text);
  /// The shortest spelling that the JSON library prints for `number`.
  static Result<Decimal> From(const Json& number);

  bool zero() const { return digits.empty(); }
  bool IsInteger() const { return static_cast<int64_t>(digits.size()) <= point || zero(); }
  /// The digit that counts 10^exponent.
  int DigitAt(int64_t exponent) const;
  std::strong_ordering CompareMagnitude(const Decimal& other) const;
  std::strong_ordering Compare(const Decimal& other) const;
};

/// Which numbers; everything given must hold.
struct NumberSpec {
  bool integer = false;   ///< without a fraction other than zeros
  bool fraction = false;  ///< with a fraction other than zeros
  std::optional<Decimal> lo, hi;
  bool lo_open = false, hi_open = false;  ///< exclusive
  std::optional<Decimal> multiple;        ///< greater than zero

  bool plain() const { return !integer && !fraction && !lo && !hi && !multiple; }
  /// Whether `value` satisfies all of it.
  bool Contains(const Decimal& value) const;
};

/// The automaton of `spec`: at most kMaxIntegerDigits before and kMaxFractionDigits after the
/// point; an exponent of at most two digits only if the spec is plain. Empty if nothing fits.
/// Errors: kUnimplemented if `multiple` is beyond kMaxMultiple.
Result<Dfa> NumberDfa(const NumberSpec& spec);

/// The least multiple of both; kUnimplemented beyond kMaxMultiple.
Result<Decimal> LeastCommonMultiple(const Decimal& a, const Decimal& b);

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_NUMBER_H_
