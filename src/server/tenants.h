// Role: the keys file (docs/formats/keys-file.md): reads and writes it, makes keys, and finds the
// key that a client sent. Thread: KeysFile and its functions are values; KeyRing is for any thread,
// and Reload swaps the keys under running requests. Invariants: keys are known by their SHA-256
// only; a file that cannot be used leaves the old keys in force.
#ifndef BALLAST_SERVER_TENANTS_H_
#define BALLAST_SERVER_TENANTS_H_

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "server/identity.h"

namespace ballast {

struct KeyRecord {
  std::string id;
  std::string tenant;
  unsigned scopes = kScopeInference;
  std::string sha256;  // lower-case hex
  int64_t created_unix = 0;
};

struct KeysFile {
  std::map<std::string, Quotas> tenants;
  std::vector<KeyRecord> keys;
};

/// Errors: kInvalidArgument naming the member, its value and the limit.
Result<KeysFile> ParseKeysFile(std::string_view text);
std::string DumpKeysFile(const KeysFile& file);

/// Only the limits that there are, as the keys file has them.
Json QuotasJson(const Quotas& quotas);

/// Reads and checks a file. Errors: those of ReadPrivateFile and ParseKeysFile, naming the path.
Result<KeysFile> LoadKeysFile(const std::string& path);
/// Replaces the file. Errors: those of WritePrivateFile.
Status SaveKeysFile(const std::string& path, const KeysFile& file);

/// Names of scopes, comma-separated: "inference,metrics". Errors: kInvalidArgument.
Result<unsigned> ParseScopes(std::string_view text);
std::vector<std::string> ScopeNames(unsigned scopes);
/// Errors: kInvalidArgument with `what` and the rule.
Status CheckTenantName(std::string_view what, std::string_view name);

/// A key just made. `secret` is for its owner and kept nowhere.
struct NewKey {
  std::string secret;
  KeyRecord record;
};
NewKey MakeKey(const std::string& tenant, unsigned scopes);

class KeyRing {
 public:
  /// Errors: those of LoadKeysFile; kInvalidArgument for a file without keys.
  static Result<std::shared_ptr<KeyRing>> Load(const std::string& path);
  /// One key that may do everything, without a tenant's name. Errors: kInvalidArgument (shorter
  /// than 8 or longer than 512 characters, or not printable ASCII without spaces).
  static Result<std::shared_ptr<KeyRing>> Single(std::string_view secret);

  /// Who sent `secret`; nothing when it is no key. Compares with every key in constant time.
  std::optional<Identity> Find(std::string_view secret) const;
  /// Reads the file again; on an error the old keys stay. A file without keys lets nobody in.
  /// Nothing to do for a single key.
  Status Reload();
  /// Of the tenants that have keys now, ascending.
  std::vector<std::string> TenantNames() const;
  size_t size() const;

 private:
  struct Entry {
    std::string digest;  // of the secret, hex
    Identity identity;
  };
  using Entries = std::vector<Entry>;
  explicit KeyRing(std::string path, std::shared_ptr<const Entries> entries)
      : path_(std::move(path)), entries_(std::move(entries)) {}
  static Result<std::shared_ptr<const Entries>> ReadEntries(const std::string& path);
  std::shared_ptr<const Entries> entries() const;

  const std::string path_;  // empty: a single key
  mutable std::mutex mutex_;
  std::shared_ptr<const Entries> entries_;  // guarded by mutex_; what it points to is immutable
};

}  // namespace ballast

#endif  // BALLAST_SERVER_TENANTS_H_
