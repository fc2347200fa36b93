#include "server/tenant_salt.h"

#include <cstdlib>

#include "base/crypto.h"
#include "base/private_file.h"

namespace ballast {

namespace {

constexpr size_t kSecretBytes = 32;

}  // namespace

Result<TenantSalt> TenantSalt::LoadOrCreate(const std::string& folder) {
  const std::string path = folder + "/tenant-secret";
  auto secret = ReadPrivateFile(path, kSecretBytes);
  if (!secret && secret.error().code == Code::kNotFound) {
    RETURN_IF_ERROR(MakePrivateFolder(folder));
    const Status made = WritePrivateFile(path, RandomBytes(kSecretBytes), IfPresent::kKeep);
    // Somebody else may have been first: then theirs counts.
    if (!made && made.error().code != Code::kAlreadyExists) return made.error();
    secret = ReadPrivateFile(path, kSecretBytes);
  }
  if (!secret) return std::move(secret).error();
  if (secret->size() != kSecretBytes) {
    return InvalidArgument("'{}' has {} bytes, {} are expected; remove it to get a new one", path,
                           secret->size(), kSecretBytes);
  }
  return TenantSalt(*std::move(secret));
}

std::string TenantSalt::Of(std::string_view tenant) const { return HmacSha256(secret_, tenant); }

std::string DefaultStateFolder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') return std::string(state) + "/ballast";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.local/state/ballast";
  return "";
}

}  // namespace ballast
