// Keys, quotas and salts without a server.
#include "server/tenants.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/crypto.h"
#include "base/encoding.h"
#include "base/hash.h"
#include "base/private_file.h"
#include "server/quota.h"
#include "server/tenant_salt.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

class TenantsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("tenants-" + Hex(RandomBytes(6)));
    ASSERT_TRUE(MakePrivateFolder(folder_.string()).has_value());
    path_ = (folder_ / "keys.json").string();
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
  std::string path_;
};

TEST_F(TenantsTest, AKeyIsShownOnceAndKnownByItsHash) {
  const NewKey key = MakeKey("acme", kScopeInference | kScopeMetrics);
  EXPECT_TRUE(key.secret.starts_with("bal-"));
  EXPECT_EQ(key.secret.size(), 47u);
  EXPECT_EQ(key.record.sha256, Sha256Hex(key.secret));
  KeysFile file;
  file.tenants["acme"].requests_per_minute = 7;
  file.keys = {key.record, MakeKey("other", kScopeAdmin).record};
  ASSERT_TRUE(SaveKeysFile(path_, file).has_value());
  EXPECT_EQ(ReadPrivateFile(path_, 1 << 20)->find(key.secret.substr(4)), std::string::npos);
  const auto ring = KeyRing::Load(path_);
  ASSERT_TRUE(ring.has_value()) << ring.error().message;
  const auto found = (*ring)->Find(key.secret);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->tenant, "acme");
  EXPECT_EQ(found->key_id, key.record.id);
  EXPECT_EQ(found->scopes, kScopeInference | kScopeMetrics);
  EXPECT_EQ(found->quotas, file.tenants["acme"]);
  EXPECT_FALSE((*ring)->Find(key.secret + "x").has_value());
  EXPECT_FALSE((*ring)->Find(key.record.sha256).has_value());
  EXPECT_FALSE((*ring)->Find("").has_value());
  EXPECT_EQ((*ring)->TenantNames(), (std::vector<std::string>{"acme", "other"}));
}

TEST_F(TenantsTest, ReloadKeepsTheOldKeysWhenTheFileIsBad) {
  const NewKey first = MakeKey("a", kScopeInference);
  const NewKey second = MakeKey("b", kScopeInference);
  ASSERT_TRUE(SaveKeysFile(path_, {{}, {first.record}}).has_value());
  const auto ring = *KeyRing::Load(path_);
  ASSERT_TRUE(WritePrivateFile(path_, "{", IfPresent::kReplace).has_value());
  EXPECT_FALSE(ring->Reload().has_value());
  EXPECT_TRUE(ring->Find(first.secret).has_value());
  ASSERT_TRUE(SaveKeysFile(path_, {{}, {second.record}}).has_value());
  EXPECT_TRUE(ring->Reload().has_value());
  EXPECT_FALSE(ring->Find(first.secret).has_value());
  EXPECT_TRUE(ring->Find(second.secret).has_value());
  // All keys revoked: nobody comes in, which is no reason to let the old ones in.
  ASSERT_TRUE(SaveKeysFile(path_, {}).has_value());
  EXPECT_TRUE(ring->Reload().has_value());
  EXPECT_FALSE(ring->Find(second.secret).has_value());
  EXPECT_FALSE(KeyRing::Load(path_).has_value());
}

TEST(KeysFileTest, RoundTrips) {
  KeysFile file;
  file.tenants["a"] = {1, 2, 3};
  file.tenants["b"] = {};
  file.keys = {MakeKey("a", kScopeAll).record, MakeKey("c", kScopeInference).record};
  const auto read = ParseKeysFile(DumpKeysFile(file));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->tenants, file.tenants);
  ASSERT_EQ(read->keys.size(), 2u);
  EXPECT_EQ(read->keys[0].scopes, kScopeAll);
  EXPECT_EQ(DumpKeysFile(*read), DumpKeysFile(file));
}

TEST(KeysFileTest, NamesWhatIsWrong) {
  const std::string hash(64, 'a');
  const auto key = [&](const std::string& members) {
    return R"({"version":1,"keys":[{)" + members + "}]}";
  };
  const std::string id = R"("id":"k","tenant":"t","scopes":["inference"],"sha256":")" + hash + '"';
  const struct {
    std::string text;
    const char* wanted;
  } cases[] = {
      {"[]", "expected an object"},
      {"{}", "version"},
      {R"({"version":2,"keys":[]})", "version: 2"},
      {R"({"version":1,"version":1,"keys":[]})", "version"},
      {R"({"version":1,"keys":{}})", "keys: expected an array"},
      {R"({"version":1,"keys":[],"quotas":{}})", "\"quotas\""},
      {R"({"version":1,"keys":[],"tenants":{"a b":{}}})", "\"a b\""},
      {R"({"version":1,"keys":[],"tenants":{"a":{"request_per_minute":1}}})", "request_per_minute"},
      {R"({"version":1,"keys":[],"tenants":{"a":{"requests_per_minute":0}}})",
       "tenants.a.requests_per_minute: 0"},
      {R"({"version":1,"keys":[],"tenants":{"a":{"tokens_per_minute":18446744073709551615}}})",
       "tokens_per_minute"},
      {key(""), "keys[0].id"},
      {key(R"("id":"k","tenant":"t","scopes":["inference"],"sha256":"AA")"), "keys[0].sha256"},
      {key(R"("id":"k","tenant":"t","scopes":[],"sha256":")" + hash + '"'), "keys[0].scopes"},
      {key(R"("id":"k","tenant":"t","scopes":["root"],"sha256":")" + hash + '"'), "\"root\""},
      {key(R"("id":"k","tenant":"","scopes":["admin"],"sha256":")" + hash + '"'), "keys[0].tenant"},
      {R"({"version":1,"keys":[{)" + id + "},{" + id + "}]}", "keys[1].id"},
  };
  ASSERT_TRUE(ParseKeysFile(key(id)).has_value());
  for (const auto& [text, wanted] : cases) {
    const auto read = ParseKeysFile(text);
    ASSERT_FALSE(read.has_value()) << text;
    EXPECT_NE(read.error().message.find(wanted), std::string::npos)
        << text << " → " << read.error().message;
  }
}

TEST(KeyRingTest, OneKeyMayDoEverything) {
  EXPECT_FALSE(KeyRing::Single("short").has_value());
  EXPECT_FALSE(KeyRing::Single("has a space in it").has_value());
  EXPECT_FALSE(KeyRing::Single(std::string(513, 'x')).has_value());
  const auto ring = *KeyRing::Single("sk-test-1234");
  const auto found = ring->Find("sk-test-1234");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->tenant, "");
  EXPECT_TRUE(found->may(kScopeAdmin));
  EXPECT_TRUE(ring->Reload().has_value());
}

TEST_F(TenantsTest, TheSecretIsMadeOnceAndKept) {
  const std::string folder = (folder_ / "state" / "ballast").string();
  std::vector<std::string> salts(8);
  std::vector<std::thread> threads;
  for (std::string& salt : salts) {
    threads.emplace_back([&] { salt = TenantSalt::LoadOrCreate(folder)->Of("acme"); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& salt : salts) EXPECT_EQ(Hex(salt), Hex(salts[0]));
  EXPECT_EQ(salts[0].size(), 32u);
  const std::string secret = *ReadPrivateFile(folder + "/tenant-secret", 32);
  EXPECT_EQ(salts[0], HmacSha256(secret, "acme"));
  EXPECT_NE(TenantSalt(secret).Of("acme"), TenantSalt(secret).Of("acm"));
  ASSERT_EQ(chmod((folder + "/tenant-secret").c_str(), 0640), 0);
  EXPECT_EQ(TenantSalt::LoadOrCreate(folder).error().code, Code::kPermissionDenied);
  ASSERT_TRUE(
      WritePrivateFile(folder + "/tenant-secret", "short", IfPresent::kReplace).has_value());
  EXPECT_EQ(TenantSalt::LoadOrCreate(folder).error().code, Code::kInvalidArgument);
}

Identity Of(const std::string& tenant, Quotas quotas = {}) {
  Identity identity;
  identity.tenant = tenant;
  identity.quotas = quotas;
  return identity;
}

class ManualClock final : public Clock {
 public:
  int64_t NowNs() const override { return seconds * 1'000'000'000; }
  int64_t UnixSeconds() const override { return seconds; }
  int64_t seconds = 1000;
};

TEST(MinuteWindowTest, HoldsExactlyTheLastMinute) {
  MinuteWindow window;
  window.Add(100, 100, 5);
  window.Add(130, 130, 7);
  EXPECT_EQ(window.Sum(160), 12);
  EXPECT_EQ(window.SecondsUntil(160, 7), 1);
  EXPECT_EQ(window.SecondsUntil(160, 0), 31);
  EXPECT_EQ(window.Sum(161), 7);
  window.Add(161, 130, -3);  // given back where it was taken
  EXPECT_EQ(window.Sum(190), 4);
  EXPECT_EQ(window.Sum(191), 0);
  window.Add(300, 130, -4);  // has left already
  EXPECT_EQ(window.Sum(300), 0);
  EXPECT_EQ(window.Sum(100000), 0);
}

TEST(QuotaBookTest, RefusesWhatIsOverAndSaysWhen) {
  ManualClock clock;
  QuotaBook book(clock);
  const Identity identity = Of("a", {2, {}, {}});
  EXPECT_TRUE(book.Enter(identity).has_value());
  clock.seconds += 10;
  EXPECT_TRUE(book.Enter(identity).has_value());
  const auto refused = book.Enter(identity);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().status, 429);
  EXPECT_EQ(refused.error().code, "rate_limit_exceeded");
  EXPECT_EQ(refused.error().retry_after_s, 51);
  EXPECT_NE(refused.error().message.find("requests_per_minute of 2"), std::string::npos);
  EXPECT_TRUE(book.Enter(Of("b", identity.quotas)).has_value());
  clock.seconds += 51;
  EXPECT_TRUE(book.Enter(identity).has_value());
  EXPECT_FALSE(book.Enter(identity).has_value());
  const auto totals = book.Totals();
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].requests, 3);
  EXPECT_EQ(totals[0].refused, 2);
  EXPECT_EQ(totals[0].running, 3);
}

TEST(QuotaBookTest, TokensAreSetAsideAndGivenBack) {
  ManualClock clock;
  QuotaBook book(clock);
  const Identity identity = Of("a", {{}, 100, {}});
  EXPECT_EQ(book.Reserve(identity, 101).error().status, 400);
  const auto held = book.Reserve(identity, 80);
  ASSERT_TRUE(held.has_value());
  EXPECT_EQ(book.Reserve(identity, 21).error().status, 429);
  clock.seconds += 5;
  book.Settle("a", *held, 10, 20);
  EXPECT_TRUE(book.Reserve(identity, 70).has_value());
  EXPECT_EQ(book.Reserve(identity, 1).error().retry_after_s, 56);
  // More than was set aside counts too.
  clock.seconds += 200;
  book.Settle("a", *book.Reserve(identity, 10), 10, 90);
  EXPECT_FALSE(book.Reserve(identity, 1).has_value());
}

TEST(QuotaBookTest, ConcurrentRequestsAreCountedExactly) {
  QuotaBook book;
  const Identity identity = Of("a", {{}, {}, 3});
  std::atomic<int> in{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([&] { in += book.Enter(identity).has_value() ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(in.load(), 3);
  book.Leave("a");
  EXPECT_TRUE(book.Enter(identity).has_value());
  EXPECT_EQ(book.Enter(identity).error().status, 429);
}

}  // namespace
}  // namespace ballast
