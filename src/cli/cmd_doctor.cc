// Role: `ballast doctor`: whether serve would run well here. Thread: main.
#include <sys/resource.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/printable.h"
#include "catalog/catalog.h"
#include "cli/commands.h"
#include "cli/doctor_checks.h"
#include "server/tenant_salt.h"

namespace ballast {

namespace {

uint64_t HardLimit(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return 0;
  return limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max;
}

bool ClockIsSynchronised() {
  timex state{};
  const int result = adjtimex(&state);
  return result >= 0 && result != TIME_ERROR;
}

std::vector<Check> RunChecks(const Options& options) {
  const std::string name =
      options.model.empty() ? Catalog::Embedded().default_model() : options.model;
  const auto resolved = ResolveModel(Catalog::Embedded(), name);
  const bool present = resolved.has_value() && resolved->present;
  return {CheckCpu(),
          CheckMemory(options),
          CheckHugePages(""),
          CheckLockedMemory(HardLimit(RLIMIT_MEMLOCK), geteuid() == 0),
          CheckOpenFiles(HardLimit(RLIMIT_NOFILE), options.max_connections),
          CheckIoUring(),
          CheckCacheFolder(BallastHome(), present),
          CheckStateFolder(options.state_dir.empty() ? DefaultStateFolder() : options.state_dir),
          CheckModelFile(options),
          CheckPort(options.host, static_cast<uint16_t>(options.port)),
          CheckClock(SystemClock().UnixSeconds(), ClockIsSynchronised())};
}

void PrintChecks(const std::vector<Check>& checks) {
  for (const Check& check : checks) {
    std::printf("%-4s  %-14s %s\n", CheckResultName(check.result), check.name.c_str(),
                Printable(check.detail).c_str());
    if (!check.advice.empty()) std::printf("%22s→ %s\n", "", Printable(check.advice).c_str());
  }
}

}  // namespace

Status CommandDoctor(const Options& options) {
  const std::vector<Check> checks = RunChecks(options);
  auto worst = CheckResult::kOk;
  for (const Check& check : checks) worst = std::max(worst, check.result);
  if (options.json) {
    Json list = Json::array();
    for (const Check& check : checks) {
      Json item{{"name", check.name},
                {"result", CheckResultName(check.result)},
                {"detail", check.detail}};
      if (!check.advice.empty()) item["advice"] = check.advice;
      list.push_back(std::move(item));
    }
    const Json document{{"result", CheckResultName(worst)}, {"checks", std::move(list)}};
    std::printf("%s\n", DumpJson(document, 2).c_str());
  } else {
    PrintChecks(checks);
  }
  std::fflush(stdout);
  if (worst != CheckResult::kFail) return OkStatus();
  const auto failed = std::count_if(checks.begin(), checks.end(), [](const Check& check) {
    return check.result == CheckResult::kFail;
  });
  const Code code = checks.front().result == CheckResult::kFail ? Code::kUnimplemented
                                                                : Code::kFailedPrecondition;
  return MakeError(code, "{} of {} checks failed", failed, checks.size());
}

}  // namespace ballast
