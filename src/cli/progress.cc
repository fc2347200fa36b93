#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "base/units.h"

namespace ballast {

namespace {
constexpr int64_t kRedrawNs = 100'000'000;
constexpr int kBarCells = 28;
}  // namespace

Progress::Progress(std::string title, ProgressMode mode)
    : title_(std::move(title)),
      terminal_(isatty(STDERR_FILENO) == 1),
      quiet_(mode == ProgressMode::kQuiet) {}

Progress::~Progress() { Finish(); }

void Progress::Update(uint64_t done_bytes, uint64_t total_bytes, const std::string& what) {
  if (quiet_) return;
  const int64_t now_ns = SystemClock().NowNs();
  const double share =
      total_bytes == 0
          ? 0
          : std::min(1.0, static_cast<double>(done_bytes) / static_cast<double>(total_bytes));
  if (!terminal_) {
    const std::string line =
        fmt::format("{}: {} {}0 %", title_, what, static_cast<int>(share * 10));
    if (line != last_plain_) std::fprintf(stderr, "%s\n", line.c_str());
    last_plain_ = line;
    return;
  }
  if (drawn_ && share < 1 && now_ns - last_draw_ns_ < kRedrawNs) return;
  last_draw_ns_ = now_ns;
  drawn_ = true;
  std::string bar;
  const int filled = static_cast<int>(share * kBarCells);
  for (int i = 0; i < kBarCells; ++i) bar += i < filled ? '#' : '-';
  std::fprintf(stderr, "\r\033[K%s [%s] %s of %s, %s", title_.c_str(), bar.c_str(),
               FormatBytes(done_bytes).c_str(),
               total_bytes == 0 ? "?" : FormatBytes(total_bytes).c_str(), what.c_str());
  std::fflush(stderr);
}

void Progress::Finish() {
  if (drawn_) std::fprintf(stderr, "\n");
  drawn_ = false;
}

}  // namespace ballast
