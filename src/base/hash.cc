#include "base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/encoding.h"

namespace ballast {

uint64_t Xxh3(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::FinishHex() {
  std::array<unsigned char, 32> digest{};
  unsigned int size = 0;
  CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1 && size == digest.size());
  return Hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string Sha256Hex(std::string_view text) {
  Sha256 hash;
  hash.Update(text);
  return hash.FinishHex();
}

}  // namespace ballast
