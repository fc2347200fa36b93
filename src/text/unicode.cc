#include "text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>

namespace ballast {
namespace {

uint8_t ByteAt(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

int Category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

Utf8Step DecodeUtf8(std::string_view text, size_t offset) {
  Utf8Step step;
  const uint8_t lead = ByteAt(text, offset);
  if (lead < 0x80) return {lead, 1, true, false};
  // The range of the second byte depends on the lead (Unicode Standard, table 3-7).
  uint32_t need = 0;
  uint32_t value = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    need = 1;
    value = lead & 0x1Fu;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    need = 2;
    value = lead & 0x0Fu;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    need = 3;
    value = lead & 0x07u;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return step;
  }
  for (uint32_t i = 1; i <= need; ++i) {
    if (offset + i >= text.size()) {
      step.length = i;
      step.truncated = true;
      return step;
    }
    const uint8_t byte = ByteAt(text, offset + i);
    if (byte < low || byte > high) {
      step.length = i;
      return step;
    }
    value = (value << 6) | (byte & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {value, need + 1, true, false};
}

bool IsValidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (ByteAt(text, i) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Step step = DecodeUtf8(text, i);
    if (!step.valid) return false;
    i += step.length;
  }
  return true;
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
    out->append(kReplacement);
    return;
  }
  auto put = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::string ReplaceInvalidUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size();) {
    const Utf8Step step = DecodeUtf8(bytes, i);
    out.append(step.valid ? bytes.substr(i, step.length) : kReplacement);
    i += step.length;
  }
  return out;
}

std::string TakeCompleteUtf8(std::string* pending) {
  std::string out;
  size_t i = 0;
  while (i < pending->size()) {
    const Utf8Step step = DecodeUtf8(*pending, i);
    if (step.truncated) break;
    out.append(step.valid ? std::string_view(*pending).substr(i, step.length) : kReplacement);
    i += step.length;
  }
  pending->erase(0, i);
  return out;
}

size_t Utf8Length(std::string_view text) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++count) i += DecodeUtf8(text, i).length;
  return count;
}

std::string NormalizeNfc(std::string_view text) {
  bool ascii = true;
  for (const char c : text) ascii = ascii && static_cast<uint8_t>(c) < 0x80;
  if (ascii) return std::string(text);
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (size < 0) return std::string(text);
  std::string out(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
  std::free(mapped);
  return out;
}

bool IsPythonSpace(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool IsAlpha(uint32_t code_point) {
  const int category = Category(code_point);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
bool IsDecimalDigit(uint32_t code_point) { return Category(code_point) == UTF8PROC_CATEGORY_ND; }
bool IsUpper(uint32_t code_point) { return Category(code_point) == UTF8PROC_CATEGORY_LU; }
bool IsLower(uint32_t code_point) { return Category(code_point) == UTF8PROC_CATEGORY_LL; }
uint32_t ToUpper(uint32_t code_point) {
  return static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code_point)));
}
uint32_t ToLower(uint32_t code_point) {
  return static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point)));
}

}  // namespace ballast
