// Role: how many prompt rows the next step may compute, from measured step times.
// Thread: the engine thread. Only a schedule: results never depend on it.
#ifndef BALLAST_ENGINE_CHUNK_SIZER_H_
#define BALLAST_ENGINE_CHUNK_SIZER_H_

#include <cstdint>

namespace ballast {

inline constexpr int64_t kChunkTokens = 16;  // chunks end at absolute multiples of this

class ChunkSizer {
 public:
  /// @param target_step_ms aim of a step while anything streams.
  /// @param max_step_ms aim while nothing streams; bounds how late a cancellation is seen.
  /// @param max_rows the model's limit for one step.
  ChunkSizer(double target_step_ms, double max_step_ms, int32_t max_rows)
      : target_step_ms_(target_step_ms), max_step_ms_(max_step_ms), max_rows_(max_rows) {}

  /// Prompt rows for a step that also decodes `decode_rows`: a multiple of 16, at least 16 unless
  /// the model's limit leaves no room.
  int32_t Rows(int32_t decode_rows) const;
  /// Reports a step's time.
  void Record(int32_t decode_rows, int32_t prefill_rows, double ms);

 private:
  double target_step_ms_;
  double max_step_ms_;
  int32_t max_rows_;
  double decode_ms_ = 0;   // of a step without prompt rows; 0: not measured
  double ms_per_row_ = 0;  // of a prompt row; 0: not measured
  int32_t largest_measured_ = 0;
};

}  // namespace ballast

#endif  // BALLAST_ENGINE_CHUNK_SIZER_H_
