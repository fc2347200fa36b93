// Role: drivers of linear layers: memory of rounded inputs, the rounding policy, and how a call is
// cut into pieces for the pool. No arithmetic here.
#include "kernels/linear.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/rows.h"
#include "kernels/table.h"

namespace ballast {

namespace {

constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// A piece of decode reads about this many bytes (20 µs of one core's bandwidth): long against the
// pool's 1 µs, short against a join that waits for the last piece.
constexpr int64_t kPieceBytes = 256 << 10;
// A piece of prefill does about this many multiply-adds (also tens of µs).
constexpr int64_t kPieceProducts = 64 << 20;

// Bodies may read whole tiles of 16 rows where a block has fewer, and ignore what they get.
constexpr int64_t kSlackBytes = 4096;

/// How one task of a call is cut.
struct Cut {
  int32_t panels = 0;  // of the matrix
  int64_t piece_rows = kTileRows;
  int32_t piece_panels = 1;
  int64_t row_pieces = 1;
  int64_t panel_pieces() const { return (panels + piece_panels - 1) / piece_panels; }
  int64_t pieces() const { return panel_pieces() * row_pieces; }
};

/// Panels a piece, at most `most`, such that the pieces spread evenly over the threads.
int32_t EvenPanels(int32_t panels, int64_t most, int threads) {
  int32_t best = 1;
  int64_t best_cost = INT64_MAX;
  for (auto p = static_cast<int32_t>(std::clamp<int64_t>(most, 1, panels)); 2 * p > most; --p) {
    const int64_t pieces = (panels + p - 1) / p;
    const int64_t cost = (pieces + threads - 1) / threads * p;
    if (cost < best_cost) {
      best = p;
      best_cost = cost;
    }
    if (p == 1) break;
  }
  return best;
}

Cut CutTask(const PackedMatrix& w, const RoundedRows::Impl& x, int threads) {
  Cut cut;
  cut.panels = w.panels();
  cut.row_pieces = (x.rows + kMaxPieceRows - 1) / kMaxPieceRows;
  cut.piece_rows = RoundUp((x.rows + cut.row_pieces - 1) / cut.row_pieces, kTileRows);
  const int64_t by_bytes = kPieceBytes / static_cast<int64_t>(w.panel_bytes());
  const int64_t products = std::min<int64_t>(x.rows, cut.piece_rows) * kPanelRows * w.cols;
  const int64_t by_work = kPieceProducts / products;
  // At least four pieces a thread, so that the last one is short.
  const int64_t by_threads = cut.panels / (4 * threads);
  const int64_t most =
      std::clamp<int64_t>(std::min({by_bytes, by_work, by_threads}), 1, cut.panels);
  cut.piece_panels = EvenPanels(cut.panels, most, threads);
  return cut;
}

}  // namespace

ActRounding ChooseRounding(DType weight, MatmulRole role, Activations setting) {
  if (IsFloat(weight)) return ActRounding::kFloat;
  if (setting == Activations::kPrecise) return ActRounding::kInt16;
  if (weight == DType::kQ4_0 || weight == DType::kQ4_1) return ActRounding::kInt12;
  const bool sensitive = role == MatmulRole::kQkv || role == MatmulRole::kHead;
  return sensitive ? ActRounding::kInt16 : ActRounding::kInt8;
}

RoundedRows::RoundedRows() : impl_(std::make_unique<Impl>()) {}
RoundedRows::~RoundedRows() = default;
RoundedRows::RoundedRows(RoundedRows&&) noexcept = default;
RoundedRows& RoundedRows::operator=(RoundedRows&&) noexcept = default;

void RoundedRows::Impl::Resize(int64_t new_rows, int64_t new_cols, ActRounding new_rounding) {
  rows = new_rows;
  cols = new_cols;
  rounding = new_rounding;
  groups = RoundUp(cols, kGroup * kBlockGroups) / kGroup;
  if (rounding == ActRounding::kFloat) {
    code_bytes = cols * static_cast<int64_t>(sizeof(float));
    scales = 0;
  } else {
    code_bytes = groups * group_bytes();
    scales = wide() ? groups / kBlockGroups : groups;
  }
  const int64_t sums = rounding == ActRounding::kFloat ? 0 : groups;
  const int64_t codes_size = RoundUp(rows * code_bytes, 64);
  const int64_t scale_size = RoundUp(rows * scales * 4, 64);
  const int64_t sums_size = RoundUp(rows * sums * 4, 64);
  const auto needed = static_cast<size_t>(codes_size + scale_size + 6 * sums_size + kSlackBytes);
  if (needed > memory.size()) {
    auto grown = HugeBuffer::Allocate(needed);
    CHECK(grown.has_value());
    memory = std::move(*grown);
  }
  codes = memory.data();
  scale = reinterpret_cast<float*>(codes + codes_size);
  u = reinterpret_cast<float*>(codes + codes_size + scale_size);
  asum = reinterpret_cast<int32_t*>(codes + codes_size + scale_size + sums_size);
  parts = reinterpret_cast<int32_t*>(codes + codes_size + scale_size + 2 * sums_size);
}

const LinearTable& LinearTableFor(Isa isa) {
  switch (isa) {
    case Isa::kAmx:
      return kLinearAmx;
    case Isa::kAvx512:
      return kLinearAvx512;
    case Isa::kAvx2:
      return kLinearAvx2;
    case Isa::kRef:
      break;
  }
  return kLinearRef;
}

namespace {

/// Rows a task: whole blocks of 16, since the rows of a block share lines in every array; within a
/// block only when there is no other.
int64_t RowsPerTask(int64_t rows, int64_t cols, int threads) {
  constexpr int64_t kSerialValues = 8192;  // about 3 µs: not worth a fork
  if (rows > kTileRows) return kTileRows;
  return rows * cols <= kSerialValues ? rows : (rows + threads - 1) / threads;
}

/// Calls prepare(begin, end) and rounds the same rows on the same thread, block by block.
template <class Prepare>
void PrepareAndRound(const LinearTable& table, ThreadPool& pool, const float* x, int64_t stride,
                     int64_t rows, int64_t cols, ActRounding rounding, RoundedRows* out,
                     const Prepare& prepare) {
  DCHECK(rows >= 0 && cols > 0 && (rounding == ActRounding::kFloat || cols % kGroup == 0));
  if (rows == 0) return;
  RoundedRows::Impl& impl = out->impl();
  impl.Resize(rows, cols, rounding);
  const auto round = table.round;
  const int64_t step = RowsPerTask(rows, cols, pool.size());
  pool.ParallelFor((rows + step - 1) / step, [&](int64_t task, int) {
    const int64_t begin = task * step, end = std::min(rows, begin + step);
    prepare(begin, end);
    round(x, stride, begin, end, &impl);
  });
}

}  // namespace

void RoundRows(const LinearTable& table, ThreadPool& pool, const float* x, int64_t stride,
               int64_t rows, int64_t cols, ActRounding rounding, RoundedRows* out) {
  if (rows == 0) out->impl().Resize(0, cols, rounding);
  PrepareAndRound(table, pool, x, stride, rows, cols, rounding, out, [](int64_t, int64_t) {});
}

void MultiplyRows(const LinearTable& table, ThreadPool& pool, std::span<const MatmulTask> tasks,
                  const RoundedRows& x) {
  const RoundedRows::Impl& impl = x.impl();
  if (impl.rows == 0) return;
  int64_t pieces = 0;
  for (const MatmulTask& task : tasks) {
    CHECK(task.weight->cols == impl.cols && RoundingValid(task.weight->type, impl.rounding));
    pieces += CutTask(*task.weight, impl, pool.size()).pieces();
  }
  const auto multiply = table.multiply;
  pool.ParallelFor(pieces, [&](int64_t index, int) {
    for (const MatmulTask& task : tasks) {
      const Cut cut = CutTask(*task.weight, impl, pool.size());
      if (index >= cut.pieces()) {
        index -= cut.pieces();
        continue;
      }
      LinearPiece piece;
      piece.weight = task.weight;
      piece.x = &impl;
      piece.panel_begin = static_cast<int32_t>(index % cut.panel_pieces()) * cut.piece_panels;
      piece.panel_end = std::min(cut.panels, piece.panel_begin + cut.piece_panels);
      piece.row_begin = index / cut.panel_pieces() * cut.piece_rows;
      piece.row_end = std::min(impl.rows, piece.row_begin + cut.piece_rows);
      piece.bias = task.bias;
      piece.residual = task.residual;
      piece.y = task.y;
      piece.y_stride = task.y_stride;
      multiply(piece);
      return;
    }
  });
}

void Kernels::Round(const float* x, int64_t stride, int64_t rows, int64_t cols,
                    ActRounding rounding, RoundedRows* out) const {
  RoundRows(*table_->linear, *pool_, x, stride, rows, cols, rounding, out);
}

void Kernels::RmsNormRound(const float* x, const float* w, float eps, int64_t rows, int64_t n,
                           float* y, ActRounding rounding, RoundedRows* out) const {
  const auto norm = table_->rows->rms_norm;
  PrepareAndRound(*table_->linear, *pool_, y, n, rows, n, rounding, out,
                  [=](int64_t begin, int64_t end) {
                    for (int64_t row = begin; row < end; ++row) {
                      norm(x + row * n, w, eps, n, y + row * n);
                    }
                  });
}

void Kernels::GatedRound(Activation act, const float* gate, const float* up, int64_t rows,
                         int64_t n, float* y, ActRounding rounding, RoundedRows* out) const {
  const auto gated = table_->rows->gated;
  PrepareAndRound(*table_->linear, *pool_, y, n, rows, n, rounding, out,
                  [=](int64_t begin, int64_t end) {
                    gated(act, gate + begin * n, up + begin * n, (end - begin) * n, y + begin * n);
                  });
}

void Kernels::Matmul(std::span<const MatmulTask> tasks, const RoundedRows& x) const {
  MultiplyRows(*table_->linear, *pool_, tasks, x);
}

void Kernels::DequantizeRow(const PackedMatrix& w, int32_t row, float* out) const {
  DCHECK(row >= 0 && row < w.rows);
  table_->linear->dequantize_row(w, row, out);
}

}  // namespace ballast
