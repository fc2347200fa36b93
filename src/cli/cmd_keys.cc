// Role: `ballast keys`: makes, lists and revokes the keys of a server's tenants. Thread: main only.
#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "cli/commands.h"
#include "server/tenants.h"

namespace ballast {

namespace {

std::string ScopesText(unsigned scopes) {
  std::string text;
  for (const std::string& name : ScopeNames(scopes)) text += (text.empty() ? "" : ",") + name;
  return text;
}

Status NeedKeysFile(const Options& options) {
  if (!options.keys_file.empty()) return OkStatus();
  return InvalidArgument("--keys-file FILE (or BALLAST_KEYS_FILE) is needed");
}

}  // namespace

Status CommandKeysNew(const Options& options) {
  RETURN_IF_ERROR(NeedKeysFile(options));
  RETURN_IF_ERROR(CheckTenantName("--tenant", options.tenant));
  auto scopes = ParseScopes(options.scopes);
  if (!scopes) return std::move(scopes).error().WithContext("--scopes");
  KeysFile file;
  auto present = LoadKeysFile(options.keys_file);
  if (present) {
    file = *std::move(present);
  } else if (present.error().code != Code::kNotFound) {
    return std::move(present).error();
  }
  Quotas& quotas = file.tenants[options.tenant];
  if (options.requests_per_minute > 0) quotas.requests_per_minute = options.requests_per_minute;
  if (options.tokens_per_minute > 0) quotas.tokens_per_minute = options.tokens_per_minute;
  if (options.concurrent_requests > 0) quotas.concurrent_requests = options.concurrent_requests;
  const NewKey key = MakeKey(options.tenant, *scopes);
  file.keys.push_back(key.record);
  // What the server could not read must not be written.
  if (auto checked = ParseKeysFile(DumpKeysFile(file)); !checked) {
    return std::move(checked).error().WithContext(options.keys_file);
  }
  RETURN_IF_ERROR(SaveKeysFile(options.keys_file, file));
  if (options.json) {
    std::printf("%s\n", DumpJson(Json{{"key", key.secret},
                                      {"id", key.record.id},
                                      {"tenant", key.record.tenant},
                                      {"scopes", ScopeNames(*scopes)},
                                      {"quotas", QuotasJson(quotas)}})
                            .c_str());
  } else {
    std::printf("%s\n", key.secret.c_str());
    std::fprintf(stderr, "key %s of tenant %s (%s); it is shown only this once\n",
                 key.record.id.c_str(), options.tenant.c_str(), ScopesText(*scopes).c_str());
  }
  return OkStatus();
}

Status CommandKeysList(const Options& options) {
  RETURN_IF_ERROR(NeedKeysFile(options));
  ASSIGN_OR_RETURN(const KeysFile file, LoadKeysFile(options.keys_file));
  const auto quotas_of = [&](const std::string& tenant) {
    const auto found = file.tenants.find(tenant);
    return QuotasJson(found == file.tenants.end() ? Quotas() : found->second);
  };
  Json rows = Json::array();
  if (!options.json) std::printf("%-16s %-24s %-24s %s\n", "ID", "TENANT", "SCOPES", "QUOTAS");
  for (const KeyRecord& key : file.keys) {
    rows.push_back(Json{{"id", key.id},
                        {"tenant", key.tenant},
                        {"scopes", ScopeNames(key.scopes)},
                        {"created", key.created_unix},
                        {"quotas", quotas_of(key.tenant)}});
    if (options.json) continue;
    std::printf("%-16s %-24s %-24s %s\n", key.id.c_str(), key.tenant.c_str(),
                ScopesText(key.scopes).c_str(), DumpJson(quotas_of(key.tenant)).c_str());
  }
  if (options.json) std::printf("%s\n", DumpJson(Json{{"keys", rows}}).c_str());
  return OkStatus();
}

Status CommandKeysRevoke(const Options& options) {
  RETURN_IF_ERROR(NeedKeysFile(options));
  ASSIGN_OR_RETURN(KeysFile file, LoadKeysFile(options.keys_file));
  const auto removed =
      std::erase_if(file.keys, [&](const KeyRecord& key) { return key.id == options.key_id; });
  if (removed == 0) {
    return NotFound("{} has no key with the id '{}'", options.keys_file, options.key_id);
  }
  RETURN_IF_ERROR(SaveKeysFile(options.keys_file, file));
  if (options.json) {
    std::printf("%s\n", DumpJson(Json{{"revoked", options.key_id}}).c_str());
  } else {
    std::printf("revoked %s; a running server forgets it on SIGHUP\n", options.key_id.c_str());
  }
  return OkStatus();
}

}  // namespace ballast
