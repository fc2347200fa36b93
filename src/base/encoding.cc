#include "base/encoding.h"

#include <cstdint>

namespace ballast {

namespace {

// The digits of both kinds, but for the last two.
#define BALLAST_BASE62 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

std::string InDigits(std::string_view bytes, const char* digits) {
  std::string text;
  text.reserve(bytes.size() * 4 / 3 + 4);
  uint32_t bits = 0;
  int pending = 0;  // bits not yet written
  for (const char c : bytes) {
    bits = (bits << 8) | static_cast<unsigned char>(c);
    for (pending += 8; pending >= 6; pending -= 6) text += digits[(bits >> (pending - 6)) & 63];
  }
  if (pending > 0) text += digits[(bits << (6 - pending)) & 63];
  return text;
}

}  // namespace

std::string Base64(std::string_view bytes) {
  std::string text = InDigits(bytes, BALLAST_BASE62 "+/");
  while (text.size() % 4 != 0) text += '=';
  return text;
}

std::string Base64Url(std::string_view bytes) { return InDigits(bytes, BALLAST_BASE62 "-_"); }

std::string Hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

}  // namespace ballast
