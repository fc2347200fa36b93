#include "server/tenants.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/encoding.h"
#include "base/hash.h"
#include "base/private_file.h"

namespace ballast {

namespace {

constexpr size_t kMaxFileBytes = 16u << 20;
constexpr size_t kMaxEntries = 10'000;
constexpr size_t kMaxNameBytes = 64;
constexpr int64_t kVersion = 1;
constexpr size_t kKeyBytes = 32;

struct ScopeName {
  unsigned scope;
  std::string_view name;
};
constexpr ScopeName kScopes[] = {
    {kScopeInference, "inference"}, {kScopeMetrics, "metrics"}, {kScopeAdmin, "admin"}};

struct QuotaName {
  const char* name;
  std::optional<int64_t> Quotas::* field;
  int64_t limit;
};
constexpr QuotaName kQuotas[] = {
    {"requests_per_minute", &Quotas::requests_per_minute, 1'000'000'000},
    {"tokens_per_minute", &Quotas::tokens_per_minute, 1'000'000'000'000},
    {"concurrent_requests", &Quotas::concurrent_requests, 1'000'000}};

bool IsHex64(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Status CheckMembers(const Json& object, const std::string& where,
                    std::initializer_list<std::string_view> known) {
  if (!object.is_object()) return InvalidArgument("{}: expected an object", where);
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return InvalidArgument("{}: unknown member {:?}", where, name.substr(0, 100));
    }
  }
  return OkStatus();
}

Result<std::string> TextMember(const Json& object, const std::string& where, const char* name) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_string()) {
    return InvalidArgument("{}.{}: expected a string", where, name);
  }
  return it->get<std::string>();
}

// Unsigned numbers above 2^63 do not fit either.
Result<int64_t> NumberIn(const Json& value, const std::string& where, int64_t low, int64_t high) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  if (!fits || value.get<int64_t>() < low || value.get<int64_t>() > high) {
    return InvalidArgument("{}: {} is not a whole number in [{}, {}]", where,
                           DumpJson(value).substr(0, 100), low, high);
  }
  return value.get<int64_t>();
}

Result<Quotas> ParseQuotas(const Json& json, const std::string& where) {
  RETURN_IF_ERROR(CheckMembers(json, where, {kQuotas[0].name, kQuotas[1].name, kQuotas[2].name}));
  Quotas quotas;
  for (const QuotaName& quota : kQuotas) {
    const auto it = json.find(quota.name);
    if (it == json.end()) continue;
    ASSIGN_OR_RETURN(quotas.*quota.field,
                     NumberIn(*it, fmt::format("{}.{}", where, quota.name), 1, quota.limit));
  }
  return quotas;
}

Result<KeyRecord> ParseKey(const Json& json, const std::string& where) {
  RETURN_IF_ERROR(CheckMembers(json, where, {"id", "tenant", "scopes", "sha256", "created"}));
  KeyRecord key;
  ASSIGN_OR_RETURN(key.id, TextMember(json, where, "id"));
  RETURN_IF_ERROR(CheckTenantName(where + ".id", key.id));
  ASSIGN_OR_RETURN(key.tenant, TextMember(json, where, "tenant"));
  RETURN_IF_ERROR(CheckTenantName(where + ".tenant", key.tenant));
  ASSIGN_OR_RETURN(key.sha256, TextMember(json, where, "sha256"));
  if (!IsHex64(key.sha256)) {
    return InvalidArgument("{}.sha256: expected 64 lower-case hex digits", where);
  }
  const auto scopes = json.find("scopes");
  if (scopes == json.end() || !scopes->is_array() || scopes->empty()) {
    return InvalidArgument("{}.scopes: expected an array of at least one scope", where);
  }
  key.scopes = kScopeNone;
  for (const Json& scope : *scopes) {
    if (!scope.is_string()) return InvalidArgument("{}.scopes: expected strings", where);
    auto parsed = ParseScopes(scope.get<std::string>());
    if (!parsed) return std::move(parsed).error().WithContext(where + ".scopes");
    key.scopes |= *parsed;
  }
  if (const auto created = json.find("created"); created != json.end()) {
    ASSIGN_OR_RETURN(key.created_unix, NumberIn(*created, where + ".created", 0, int64_t{1} << 40));
  }
  return key;
}

}  // namespace

Status CheckTenantName(std::string_view what, std::string_view name) {
  const bool fits = !name.empty() && name.size() <= kMaxNameBytes &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
                    });
  if (fits) return OkStatus();
  return InvalidArgument("{}: {:?} is not 1 to {} characters of A-Z a-z 0-9 . _ -", what,
                         name.substr(0, 100), kMaxNameBytes);
}

Result<unsigned> ParseScopes(std::string_view text) {
  unsigned scopes = kScopeNone;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    const auto* known = std::find_if(std::begin(kScopes), std::end(kScopes),
                                     [&](const ScopeName& scope) { return scope.name == word; });
    if (known == std::end(kScopes)) {
      return InvalidArgument("the scope {:?} is unknown (inference, metrics or admin)",
                             word.substr(0, 100));
    }
    scopes |= known->scope;
    if (comma == std::string_view::npos) return scopes;
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::string> ScopeNames(unsigned scopes) {
  std::vector<std::string> names;
  for (const ScopeName& scope : kScopes) {
    if ((scopes & scope.scope) != 0) names.emplace_back(scope.name);
  }
  return names;
}

Result<KeysFile> ParseKeysFile(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, ParseJsonUniqueKeys(text, 8, static_cast<int>(kMaxEntries)));
  RETURN_IF_ERROR(CheckMembers(json, "the keys file", {"version", "tenants", "keys"}));
  const auto version = json.find("version");
  if (version == json.end()) return InvalidArgument("version: missing; expected {}", kVersion);
  RETURN_IF_ERROR(NumberIn(*version, "version", kVersion, kVersion));
  KeysFile file;
  if (const auto tenants = json.find("tenants"); tenants != json.end()) {
    if (!tenants->is_object()) return InvalidArgument("tenants: expected an object");
    for (const auto& [name, quotas] : tenants->items()) {
      RETURN_IF_ERROR(CheckTenantName("tenants", name));
      ASSIGN_OR_RETURN(file.tenants[name], ParseQuotas(quotas, "tenants." + name));
    }
  }
  const auto keys = json.find("keys");
  if (keys == json.end() || !keys->is_array()) return InvalidArgument("keys: expected an array");
  if (keys->size() > kMaxEntries) {
    return InvalidArgument("keys: {} entries, the limit is {}", keys->size(), kMaxEntries);
  }
  std::set<std::string> seen;
  for (size_t i = 0; i < keys->size(); ++i) {
    const std::string where = fmt::format("keys[{}]", i);
    ASSIGN_OR_RETURN(KeyRecord key, ParseKey((*keys)[i], where));
    if (!seen.insert("id " + key.id).second) {
      return InvalidArgument("{}.id: {:?} is there twice", where, key.id);
    }
    if (!seen.insert("sha256 " + key.sha256).second) {
      return InvalidArgument("{}.sha256: the key is there twice", where);
    }
    file.keys.push_back(std::move(key));
  }
  return file;
}

Json QuotasJson(const Quotas& quotas) {
  Json json = Json::object();
  for (const QuotaName& quota : kQuotas) {
    if (const auto& limit = quotas.*quota.field) json[quota.name] = *limit;
  }
  return json;
}

std::string DumpKeysFile(const KeysFile& file) {
  Json json;
  json["version"] = kVersion;
  json["tenants"] = Json::object();
  for (const auto& [name, quotas] : file.tenants) {
    json["tenants"][name] = QuotasJson(quotas);
  }
  json["keys"] = Json::array();
  for (const KeyRecord& key : file.keys) {
    json["keys"].push_back(Json{{"id", key.id},
                                {"tenant", key.tenant},
                                {"scopes", ScopeNames(key.scopes)},
                                {"sha256", key.sha256},
                                {"created", key.created_unix}});
  }
  return DumpJson(json, 2) + "\n";
}

Result<KeysFile> LoadKeysFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadPrivateFile(path, kMaxFileBytes));
  auto file = ParseKeysFile(text);
  if (!file) return std::move(file).error().WithContext(path);
  return file;
}

Status SaveKeysFile(const std::string& path, const KeysFile& file) {
  return WritePrivateFile(path, DumpKeysFile(file), IfPresent::kReplace);
}

NewKey MakeKey(const std::string& tenant, unsigned scopes) {
  NewKey key;
  key.secret = "bal-" + Base64Url(RandomBytes(kKeyBytes));
  key.record = {"k-" + Hex(RandomBytes(6)), tenant, scopes, Sha256Hex(key.secret),
                SystemClock().UnixSeconds()};
  return key;
}

Result<std::shared_ptr<const KeyRing::Entries>> KeyRing::ReadEntries(const std::string& path) {
  ASSIGN_OR_RETURN(const KeysFile file, LoadKeysFile(path));
  auto entries = std::make_shared<Entries>();
  for (const KeyRecord& key : file.keys) {
    const auto quotas = file.tenants.find(key.tenant);
    entries->push_back({key.sha256,
                        {key.tenant, key.id, key.scopes,
                         quotas == file.tenants.end() ? Quotas() : quotas->second}});
  }
  return std::shared_ptr<const Entries>(std::move(entries));
}

Result<std::shared_ptr<KeyRing>> KeyRing::Load(const std::string& path) {
  ASSIGN_OR_RETURN(auto entries, ReadEntries(path));
  if (entries->empty()) {
    return InvalidArgument("{}: no keys; make one with `ballast keys new`", path);
  }
  return std::shared_ptr<KeyRing>(new KeyRing(path, std::move(entries)));
}

Result<std::shared_ptr<KeyRing>> KeyRing::Single(std::string_view secret) {
  constexpr size_t kShortest = 8;
  constexpr size_t kLongest = 512;
  const bool printable =
      std::all_of(secret.begin(), secret.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (!printable || secret.size() < kShortest || secret.size() > kLongest) {
    return InvalidArgument("the key has {} characters; {} to {} printable ones without spaces fit",
                           secret.size(), kShortest, kLongest);
  }
  auto entries = std::make_shared<Entries>();
  entries->push_back({Sha256Hex(secret), {"", "api-key", kScopeAll, {}}});
  return std::shared_ptr<KeyRing>(new KeyRing("", std::move(entries)));
}

std::shared_ptr<const KeyRing::Entries> KeyRing::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

std::optional<Identity> KeyRing::Find(std::string_view secret) const {
  const std::string digest = Sha256Hex(secret);
  const auto all = entries();
  const Entry* found = nullptr;
  for (const Entry& entry : *all) {
    if (EqualsConstantTime(entry.digest, digest)) found = &entry;
  }
  if (found == nullptr) return std::nullopt;
  return found->identity;
}

Status KeyRing::Reload() {
  if (path_.empty()) return OkStatus();
  ASSIGN_OR_RETURN(auto read, ReadEntries(path_));
  const std::lock_guard lock(mutex_);
  entries_ = std::move(read);
  return OkStatus();
}

std::vector<std::string> KeyRing::TenantNames() const {
  std::set<std::string> names;
  for (const Entry& entry : *entries()) names.insert(entry.identity.tenant);
  return {names.begin(), names.end()};
}

size_t KeyRing::size() const { return entries()->size(); }

}  // namespace ballast
