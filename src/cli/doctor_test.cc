#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>

#include "base/units.h"
#include "cli/doctor_checks.h"

namespace ballast {
namespace {

using ::testing::HasSubstr;

class DoctorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) / "doctor";
    std::filesystem::create_directories(root_ / "sys/kernel/mm/transparent_hugepage");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void SetHugePages(const std::string& text) {
    std::ofstream(root_ / "sys/kernel/mm/transparent_hugepage/enabled") << text;
  }
  std::filesystem::path root_;
};

TEST_F(DoctorTest, HugePages) {
  EXPECT_EQ(CheckHugePages(root_.string()).result, CheckResult::kWarn);
  SetHugePages("always [madvise] never\n");
  EXPECT_EQ(CheckHugePages(root_.string()).result, CheckResult::kOk);
  EXPECT_THAT(CheckHugePages(root_.string()).detail, HasSubstr("madvise"));
  SetHugePages("always madvise [never]\n");
  EXPECT_EQ(CheckHugePages(root_.string()).result, CheckResult::kWarn);
  EXPECT_THAT(CheckHugePages(root_.string()).advice, HasSubstr("echo madvise"));
  SetHugePages("]x[");
  EXPECT_EQ(CheckHugePages(root_.string()).result, CheckResult::kWarn);
}

TEST_F(DoctorTest, Memory) {
  Options options;
  options.model = (root_ / "m.gguf").string();
  std::ofstream(options.model) << "x";
  std::filesystem::resize_file(options.model, 600 << 20);  // sparse
  options.memory = "512MiB";
  EXPECT_EQ(CheckMemory(options).result, CheckResult::kFail);
  options.memory = "650MiB";
  EXPECT_THAT(CheckMemory(options).advice, HasSubstr("Little is left"));
  options.memory = "1000TiB";
  EXPECT_THAT(CheckMemory(options).advice, HasSubstr("more than what is free"));
  options.memory = "much";
  EXPECT_EQ(CheckMemory(options).result, CheckResult::kFail);
}

TEST_F(DoctorTest, Limits) {
  EXPECT_EQ(CheckLockedMemory(8 * kMiB, false).result, CheckResult::kOk);
  EXPECT_EQ(CheckLockedMemory(64 * kKiB, false).result, CheckResult::kWarn);
  EXPECT_EQ(CheckLockedMemory(64 * kKiB, true).result, CheckResult::kOk);
  EXPECT_EQ(CheckOpenFiles(1024, 1024).result, CheckResult::kWarn);
  EXPECT_EQ(CheckOpenFiles(4096, 1024).result, CheckResult::kOk);
}

TEST_F(DoctorTest, CacheFolder) {
  const Check fresh = CheckCacheFolder((root_ / "not/yet/there").string(), true);
  EXPECT_EQ(fresh.result, CheckResult::kOk) << fresh.detail;
  EXPECT_EQ(CheckCacheFolder("/proc/ballast", false).result, CheckResult::kFail);
  EXPECT_EQ(CheckCacheFolder("/proc/ballast", true).result, CheckResult::kWarn);
}

TEST_F(DoctorTest, StateFolder) {
  EXPECT_EQ(CheckStateFolder((root_ / "state").string()).result, CheckResult::kOk);
  EXPECT_EQ(CheckStateFolder("/proc/state").result, CheckResult::kWarn);
}

TEST_F(DoctorTest, Port) {
  EXPECT_EQ(CheckPort("127.0.0.1", 0).result, CheckResult::kOk);
  EXPECT_EQ(CheckPort("192.0.2.1", 0).result, CheckResult::kFail);  // an address of nobody
  EXPECT_EQ(CheckPort("no.such.host.invalid", 0).result, CheckResult::kFail);
}

TEST_F(DoctorTest, Model) {
  Options options;
  options.model = (root_ / "absent.gguf").string();
  EXPECT_EQ(CheckModelFile(options).result, CheckResult::kFail);
  std::ofstream(options.model) << "GGUF but not really";
  EXPECT_EQ(CheckModelFile(options).result, CheckResult::kFail);
  options.model = "no-such-model";
  EXPECT_EQ(CheckModelFile(options).result, CheckResult::kFail);
}

TEST_F(DoctorTest, Clock) {
  EXPECT_EQ(CheckClock(0, true).result, CheckResult::kFail);
  EXPECT_EQ(CheckClock(2'000'000'000, false).result, CheckResult::kWarn);
  EXPECT_EQ(CheckClock(2'000'000'000, true).result, CheckResult::kOk);
}

// Whatever is not right says what to do.
TEST_F(DoctorTest, AdviceComesWithTrouble) {
  for (const Check& check :
       {CheckCpu(), CheckIoUring(), CheckMemory({}), CheckHugePages("/nowhere"),
        CheckClock(0, false), CheckLockedMemory(0, false), CheckOpenFiles(0, 1)}) {
    EXPECT_EQ(check.advice.empty(), check.result == CheckResult::kOk) << check.name;
    EXPECT_FALSE(check.detail.empty()) << check.name;
  }
}

}  // namespace
}  // namespace ballast
