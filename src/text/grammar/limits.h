// Role: every bound of the grammar engine in one place. Exceeding one is an error that names the
// JSON pointer, the keyword, the value and the limit; none of them is reached by ordinary schemas.
#ifndef BALLAST_TEXT_GRAMMAR_LIMITS_H_
#define BALLAST_TEXT_GRAMMAR_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace ballast::grammar {

inline constexpr int kMaxSchemaDepth = 300;  ///< of schemas within and referring to schemas
inline constexpr int kMaxGroups = 200;       ///< anyOf and oneOf that hold of one value
inline constexpr int64_t kMaxPatternStates = 100'000;  ///< of all patterns of a schema
inline constexpr int kMaxNodes = 6'000;                ///< of the compiled grammar
inline constexpr int kMaxAlternatives = 256;           ///< of one value after anyOf × anyOf
inline constexpr int kMaxProperties = 256;             ///< named in one object
inline constexpr int kMaxKeyClasses = 32;              ///< sets of patternProperties met by a name
inline constexpr int kMaxEnumValues = 4'096;           ///< of one enum
inline constexpr int64_t kMaxCount = 1'000'000;        ///< minItems, maxLength and the like
inline constexpr int kMaxRegexBytes = 65'536;          ///< of one expression
inline constexpr int kMaxRegexDepth = 40;              ///< groups within groups
inline constexpr int kMaxRegexRepeat = 1'000;          ///< {m,n}
inline constexpr int kMaxNfaStates = 200'000;          ///< of one expression, repeats unrolled
inline constexpr int32_t kMaxDfaStates = 20'000;       ///< of one leaf
inline constexpr int64_t kMaxTotalDfaCells = 8'000'000;  ///< int32 cells of one grammar (32 MB)
inline constexpr int kMaxIntegerDigits = 64;             ///< before the point
inline constexpr int kMaxFractionDigits = 32;            ///< after the point
inline constexpr int kMaxMultiple = 1'024;               ///< multipleOf without its trailing zeros
inline constexpr int kMaxMultipleDigits = 15;  ///< digits before the point beside multipleOf
inline constexpr int kMaxNesting = 64;         ///< arrays and objects of the text
inline constexpr int kMaxThreads = 64;         ///< readings of an ambiguous text kept at once
inline constexpr int kMaxTriggers = 64;
inline constexpr size_t kMaxLiteralBytes = 65'536;

}  // namespace ballast::grammar

#endif  // BALLAST_TEXT_GRAMMAR_LIMITS_H_
