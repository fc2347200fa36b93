// Secrets: what they are made of and the files they lie in.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/crypto.h"
#include "base/encoding.h"
#include "base/private_file.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

TEST(CryptoTest, HmacOfRfc4231) {
  EXPECT_EQ(Hex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(CryptoTest, Base64UrlOfEveryLength) {
  EXPECT_EQ(Base64Url(""), "");
  EXPECT_EQ(Base64Url("f"), "Zg");
  EXPECT_EQ(Base64Url("fo"), "Zm8");
  EXPECT_EQ(Base64Url("foobar"), "Zm9vYmFy");
  EXPECT_EQ(Base64Url("\xFB\xFF"), "-_8");
  EXPECT_EQ(Base64Url(RandomBytes(32)).size(), 43u);
}

TEST(CryptoTest, RandomBytesDiffer) {
  EXPECT_EQ(RandomBytes(32).size(), 32u);
  EXPECT_NE(RandomBytes(32), RandomBytes(32));
}

TEST(CryptoTest, ComparesWhole) {
  EXPECT_TRUE(EqualsConstantTime("same", "same"));
  EXPECT_FALSE(EqualsConstantTime("same", "sam"));
  EXPECT_FALSE(EqualsConstantTime("same", "samf"));
  EXPECT_TRUE(EqualsConstantTime("", ""));
}

class PrivateFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("private-" + Hex(RandomBytes(6)));
    path_ = (folder_ / "a" / "secret").string();
    ASSERT_TRUE(MakePrivateFolder((folder_ / "a").string()).has_value());
  }
  void TearDown() override { fs::remove_all(folder_); }
  static unsigned Mode(const fs::path& path) {
    struct stat info{};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_mode & 07777;
  }
  fs::path folder_;
  std::string path_;
};

TEST_F(PrivateFileTest, WrittenForItsOwnerOnlyAndReplacedWhole) {
  EXPECT_EQ(Mode(folder_), 0700u);
  EXPECT_EQ(ReadPrivateFile(path_, 100).error().code, Code::kNotFound);
  ASSERT_TRUE(WritePrivateFile(path_, "one", IfPresent::kReplace).has_value());
  EXPECT_EQ(Mode(path_), 0600u);
  ASSERT_TRUE(WritePrivateFile(path_, "two", IfPresent::kReplace).has_value());
  EXPECT_EQ(ReadPrivateFile(path_, 100).value(), "two");
  const auto kept = WritePrivateFile(path_, "three", IfPresent::kKeep);
  ASSERT_FALSE(kept.has_value());
  EXPECT_EQ(kept.error().code, Code::kAlreadyExists);
  EXPECT_EQ(ReadPrivateFile(path_, 100).value(), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "a"), fs::directory_iterator()), 1);
}

TEST_F(PrivateFileTest, RefusesWhatOthersMayUse) {
  ASSERT_TRUE(WritePrivateFile(path_, "one", IfPresent::kReplace).has_value());
  for (const unsigned mode : {0640u, 0604u, 0620u, 0601u}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    const auto read = ReadPrivateFile(path_, 100);
    ASSERT_FALSE(read.has_value()) << mode;
    EXPECT_EQ(read.error().code, Code::kPermissionDenied);
    EXPECT_NE(read.error().message.find(fmt::format("{:04o}", mode)), std::string::npos);
  }
  ASSERT_EQ(chmod(path_.c_str(), 0400), 0);
  EXPECT_TRUE(ReadPrivateFile(path_, 100).has_value());
}

TEST_F(PrivateFileTest, RefusesFoldersPipesAndLargeFiles) {
  EXPECT_EQ(ReadPrivateFile(folder_.string(), 100).error().code, Code::kInvalidArgument);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(ReadPrivateFile(path_, 100).error().code, Code::kInvalidArgument);
  fs::remove(path_);
  ASSERT_TRUE(WritePrivateFile(path_, std::string(101, 'x'), IfPresent::kReplace).has_value());
  EXPECT_EQ(ReadPrivateFile(path_, 100).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(ReadPrivateFile(path_, 101).has_value());
}

TEST_F(PrivateFileTest, SaysWhatItCannotWrite) {
  const auto lost = WritePrivateFile((folder_ / "none" / "x").string(), "x", IfPresent::kReplace);
  ASSERT_FALSE(lost.has_value());
  EXPECT_NE(lost.error().message.find("none"), std::string::npos);
  ASSERT_TRUE(WritePrivateFile(path_, "x", IfPresent::kReplace).has_value());
  EXPECT_FALSE(MakePrivateFolder(path_ + "/below").has_value());
}

}  // namespace
}  // namespace ballast
