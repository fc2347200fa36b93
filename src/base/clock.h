// Role: time behind an interface, so tests can move it. Thread: safe from any thread.
#ifndef BALLAST_BASE_CLOCK_H_
#define BALLAST_BASE_CLOCK_H_

#include <cstdint>
#include <string>

namespace ballast {

/// Monotonic and wall time.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Monotonic nanoseconds since an arbitrary start.
  virtual int64_t NowNs() const = 0;
  /// Seconds since the Unix epoch.
  virtual int64_t UnixSeconds() const = 0;
};

/// The operating system's clock; lives for the whole process.
const Clock& SystemClock();

/// "2026-01-31T12:00:00.123Z". @param unix_ms milliseconds since the Unix epoch.
std::string UtcTimestamp(int64_t unix_ms);

}  // namespace ballast

#endif  // BALLAST_BASE_CLOCK_H_
