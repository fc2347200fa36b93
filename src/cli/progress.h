// Role: a one-line progress bar on a terminal, plain lines elsewhere, nothing with --json.
// Thread: main only.
#ifndef BALLAST_CLI_PROGRESS_H_
#define BALLAST_CLI_PROGRESS_H_

#include <cstdint>
#include <string>

namespace ballast {

enum class ProgressMode { kAuto, kQuiet };

class Progress {
 public:
  Progress(std::string title, ProgressMode mode);
  ~Progress();
  /// total 0 means unknown. Redraws at most ten times a second; without a terminal, once a tenth.
  void Update(uint64_t done_bytes, uint64_t total_bytes, const std::string& what);
  /// Ends the line.
  void Finish();

 private:
  std::string title_;
  bool terminal_;
  bool quiet_;
  bool drawn_ = false;
  int64_t last_draw_ns_ = 0;
  std::string last_plain_;
};

}  // namespace ballast

#endif  // BALLAST_CLI_PROGRESS_H_
