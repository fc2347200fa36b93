// Role: hashes. XXH3 detects corruption; SHA-256 names content (models, logits, cache keys).
#ifndef BALLAST_BASE_HASH_H_
#define BALLAST_BASE_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ballast {

/// XXH3-64 of a byte range.
uint64_t Xxh3(std::span<const std::byte> bytes);

/// Incremental SHA-256. Thread: one owner.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text) { Update(std::as_bytes(std::span(text))); }
  /// The digest in lower-case hex (64 characters). The object must not be used afterwards.
  std::string FinishHex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// SHA-256 of `text` in lower-case hex.
std::string Sha256Hex(std::string_view text);

}  // namespace ballast

#endif  // BALLAST_BASE_HASH_H_
