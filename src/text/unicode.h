// Role: UTF-8 and Unicode helpers for tokenizers and templates (adapter of utf8proc).
// Thread: pure functions.
#ifndef BALLAST_TEXT_UNICODE_H_
#define BALLAST_TEXT_UNICODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ballast {

/// One step of decoding. `length` bytes were looked at (>= 1); `valid` tells whether they are a
/// character, else they are one "maximal subpart" that a decoder replaces by a single U+FFFD.
/// `truncated`: the text ends inside a sequence that more bytes could complete.
struct Utf8Step {
  uint32_t code_point = 0xFFFD;
  uint32_t length = 1;
  bool valid = false;
  bool truncated = false;
};

/// Decodes at text[offset]; offset < text.size().
Utf8Step DecodeUtf8(std::string_view text, size_t offset);

bool IsValidUtf8(std::string_view text);

/// Appends the UTF-8 of a scalar value; anything else appends U+FFFD.
void AppendUtf8(uint32_t code_point, std::string* out);

/// Replaces every ill-formed sequence by U+FFFD, as Python's bytes.decode(errors="replace").
std::string ReplaceInvalidUtf8(std::string_view bytes);

/// Moves the decided characters of `*pending` to the result, with ill-formed sequences replaced;
/// what a further byte could still complete stays pending.
std::string TakeCompleteUtf8(std::string* pending);

/// Number of characters (ill-formed subparts count one each).
size_t Utf8Length(std::string_view text);

/// Normalization Form C. Invalid UTF-8 is returned unchanged.
std::string NormalizeNfc(std::string_view text);

/// Unicode White_Space plus U+001C..U+001F: what Python's str.isspace and str.strip take.
bool IsPythonSpace(uint32_t code_point);

bool IsAlpha(uint32_t code_point);
bool IsDecimalDigit(uint32_t code_point);
bool IsUpper(uint32_t code_point);
bool IsLower(uint32_t code_point);
uint32_t ToUpper(uint32_t code_point);
uint32_t ToLower(uint32_t code_point);

}  // namespace ballast

#endif  // BALLAST_TEXT_UNICODE_H_
