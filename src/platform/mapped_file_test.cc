// Mapped files that change under their reader.
#include "platform/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace ballast {
namespace {

constexpr size_t kSize = 5 * 4096 + 100;

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / "ballast-mapped-XXXXXX").string();
    const int fd = mkstemp(path_.data());
    ASSERT_GE(fd, 0);
    const std::string content(kSize, 'x');
    ASSERT_EQ(write(fd, content.data(), kSize), static_cast<ssize_t>(kSize));
    close(fd);
  }
  void TearDown() override { unlink(path_.c_str()); }
  std::string path_;
};

TEST_F(MappedFileTest, AnUnchangedFileIsIntact) {
  const auto file = MappedFile::Open(path_);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ((*file)->bytes()[kSize - 1], std::byte{'x'});
  EXPECT_TRUE((*file)->CheckIntact().has_value());
  ASSERT_EQ(unlink(path_.c_str()), 0);  // replaced by another file: the mapping keeps the old one
  EXPECT_TRUE((*file)->CheckIntact().has_value());
}

TEST_F(MappedFileTest, ACutFileReadsAsZerosAndIsReported) {
  const auto file = MappedFile::Open(path_);
  const auto other = MappedFile::Open(path_);
  ASSERT_TRUE(file.has_value() && other.has_value());
  ASSERT_EQ(truncate(path_.c_str(), 4096), 0);
  EXPECT_EQ((*file)->bytes()[0], std::byte{'x'});
  EXPECT_EQ((*file)->bytes()[3 * 4096 + 7], std::byte{0});
  EXPECT_EQ((*file)->bytes()[kSize - 1], std::byte{0});
  const Status status = (*file)->CheckIntact();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, Code::kUnavailable);
  EXPECT_NE(status.error().message.find("to 4096 bytes"), std::string::npos);
  // Grown back, the zeros that were read still count.
  ASSERT_EQ(truncate(path_.c_str(), kSize), 0);
  EXPECT_FALSE((*file)->CheckIntact().has_value());
}

TEST_F(MappedFileTest, AWrittenFileIsReported) {
  const auto file = MappedFile::Open(path_);
  ASSERT_TRUE(file.has_value());
  std::filesystem::last_write_time(
      path_, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_FALSE((*file)->CheckIntact().has_value());
}

TEST(BusErrorDeathTest, OtherMappingsStillEndTheProcess) {
  EXPECT_EXIT(
      {
        std::string path = (std::filesystem::temp_directory_path() / "ballast-bus-XXXXXX").string();
        const int fd = mkstemp(path.data());
        if (write(fd, path.data(), path.size()) > 0) {
          const auto file = MappedFile::Open(path);  // installs the handler
          raise(SIGBUS);
        }
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace ballast
