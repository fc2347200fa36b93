// Role: Python's string operations over texts that carry trust. Positions are characters, as in
// Python, while storage is UTF-8.
// Thread: pure functions.
#ifndef BALLAST_TEXT_JINJA_TEXT_OPS_H_
#define BALLAST_TEXT_JINJA_TEXT_OPS_H_

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace ballast::jinja {

Text Substring(const Text& text, size_t begin, size_t end);

enum class Side { kLeft, kRight, kBoth };
/// str.strip and its kin; without `characters`, white space.
Text Strip(const Text& text, Side side, std::optional<std::string_view> characters);

/// str.split / rsplit; without separator by runs of white space. `limit` < 0: no limit.
/// Throws Failure for an empty separator.
std::vector<Value> Split(const Text& text, std::optional<std::string_view> separator, int64_t limit,
                         bool from_right);
/// str.splitlines(keepends).
std::vector<Value> SplitLines(const Text& text, bool keep_ends);

/// str.replace; `limit` < 0: all.
Text Replace(const Text& text, std::string_view from, const Text& to, int64_t limit);

enum class Case { kUpper, kLower, kCapitalize, kTitle, kPythonTitle };
/// kTitle is Jinja's filter (words split at white space and -({[<), kPythonTitle str.title.
Text MapCase(const Text& text, Case mode);

/// Number of characters.
size_t Length(const Text& text);
/// Its characters as strings.
std::vector<Value> Characters(const Text& text);
/// text[start:stop:step] with Python's rules; absent parts by nullopt. `step` is not 0.
Text SliceText(const Text& text, std::optional<int64_t> start, std::optional<int64_t> stop,
               int64_t step);
/// The indices that a Python slice of `length` items visits.
std::vector<size_t> SliceIndices(size_t length, std::optional<int64_t> start,
                                 std::optional<int64_t> stop, int64_t step);

/// str.find in characters, or -1.
int64_t Find(const Text& text, std::string_view needle, bool from_right);

/// The filter `indent`.
Text Indent(const Text& text, const Text& indention, bool first, bool blank);

}  // namespace ballast::jinja

#endif  // BALLAST_TEXT_JINJA_TEXT_OPS_H_
