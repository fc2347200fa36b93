#include "engine/chunk_sizer.h"

#include <algorithm>

namespace ballast {

namespace {

// First guesses, before anything is measured: small enough for a slow model.
constexpr int32_t kFirstRowsStreaming = 32;
constexpr int32_t kFirstRowsIdle = 128;
// A row in a bigger chunk has never cost more than in a smaller one by this much; growing stepwise
// keeps one lucky measurement from producing one huge step.
constexpr int32_t kMaxGrowth = 4;

double Blend(double old_value, double value) {
  return old_value == 0 ? value : 0.5 * old_value + 0.5 * value;
}

}  // namespace

int32_t ChunkSizer::Rows(int32_t decode_rows) const {
  const bool streams = decode_rows > 0;
  const int32_t room = std::max(max_rows_ - decode_rows, 0);
  double rows = streams ? kFirstRowsStreaming : kFirstRowsIdle;
  if (ms_per_row_ > 0) {
    const double budget_ms = streams ? target_step_ms_ - decode_ms_ : max_step_ms_;
    rows = std::min(budget_ms / ms_per_row_, double{kMaxGrowth} * largest_measured_);
  }
  rows = std::clamp(rows, static_cast<double>(kChunkTokens), 1e6);
  constexpr int32_t kBorder = static_cast<int32_t>(kChunkTokens);
  const int32_t whole = static_cast<int32_t>(rows) / kBorder * kBorder;
  return std::min(whole, room / kBorder * kBorder);
}

void ChunkSizer::Record(int32_t decode_rows, int32_t prefill_rows, double ms) {
  if (prefill_rows == 0) {
    if (decode_rows > 0) decode_ms_ = Blend(decode_ms_, ms);
    return;
  }
  // A step's weights are read once for both kinds of rows, so the prompt rows cost at least a part.
  const double own_ms = decode_rows > 0 ? std::max(ms - decode_ms_, 0.1 * ms) : ms;
  // Rows grow dearer with depth, and a step that is too long is what a reader notices: a slow step
  // counts in full at once, a fast one by half.
  const double cost = std::max(own_ms, 1e-3) / prefill_rows;
  ms_per_row_ = std::max(cost, Blend(ms_per_row_, cost));
  largest_measured_ = std::max(largest_measured_, std::max(prefill_rows, 16));
}

}  // namespace ballast
