// Role: bytes as text. Thread: pure functions.
#ifndef BALLAST_BASE_ENCODING_H_
#define BALLAST_BASE_ENCODING_H_

#include <string>
#include <string_view>

namespace ballast {

/// base64 with padding (RFC 4648 §4).
std::string Base64(std::string_view bytes);

/// base64url without padding (RFC 4648 §5).
std::string Base64Url(std::string_view bytes);

/// Lower-case hex.
std::string Hex(std::string_view bytes);

}  // namespace ballast

#endif  // BALLAST_BASE_ENCODING_H_
