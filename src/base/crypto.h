// Role: what secrets need: random bytes, a keyed hash, and a comparison that tells nothing by its
// time. Adapts OpenSSL. Thread: pure functions.
#ifndef BALLAST_BASE_CRYPTO_H_
#define BALLAST_BASE_CRYPTO_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace ballast {

/// `size` bytes from the system's random number generator; fit for secrets.
std::string RandomBytes(size_t size);

/// HMAC-SHA256, 32 raw bytes.
std::string HmacSha256(std::string_view key, std::string_view text);

/// True if both are equal. The time depends on the lengths only.
bool EqualsConstantTime(std::string_view a, std::string_view b);

}  // namespace ballast

#endif  // BALLAST_BASE_CRYPTO_H_
