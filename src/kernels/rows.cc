// Role: drivers of the row operations: how rows are spread over the pool, and top-k's heap.
// Thread: the engine thread. Invariants: single rows run on the caller; a fork-join pays only above
// some 20 µs of work.
#include "kernels/rows.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/math.h"
#include "kernels/table.h"

namespace ballast {

namespace {

constexpr int64_t kSerialValues = 64 * 1024;  // below: on the caller
constexpr int64_t kTaskValues = 32 * 1024;    // values a task

/// Calls fn(row) for all rows, in parallel when there is enough work.
template <class Fn>
void ForRows(ThreadPool& pool, int64_t rows, int64_t values_per_row, Fn fn) {
  if (pool.size() == 1 || rows * values_per_row < kSerialValues) {
    for (int64_t row = 0; row < rows; ++row) fn(row);
    return;
  }
  const int64_t block = std::max<int64_t>(1, kTaskValues / std::max<int64_t>(1, values_per_row));
  pool.ParallelFor((rows + block - 1) / block, [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * block);
    for (int64_t row = task * block; row < end; ++row) fn(row);
  });
}

/// Calls fn(begin, n) over [0, n) in pieces.
template <class Fn>
void ForValues(ThreadPool& pool, int64_t n, Fn fn) {
  if (pool.size() == 1 || n < kSerialValues) return fn(0, n);
  pool.ParallelFor((n + kTaskValues - 1) / kTaskValues, [&](int64_t task, int) {
    const int64_t begin = task * kTaskValues;
    fn(begin, std::min(kTaskValues, n - begin));
  });
}

struct Candidate {
  float value;
  int32_t id;
};
/// True if a ranks before b. As a heap's order it puts the last-ranked candidate on top.
bool Before(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}

}  // namespace

const RowTable& RowTableFor(Isa isa) {
  switch (isa) {
    case Isa::kAmx:  // nothing of its own here
    case Isa::kAvx512:
      return kRowsAvx512;
    case Isa::kAvx2:
      return kRowsAvx2;
    case Isa::kRef:
      break;
  }
  return kRowsRef;
}

void Kernels::RmsNorm(const float* x, const float* w, float eps, int64_t rows, int64_t n,
                      float* y) const {
  const auto norm = table_->rows->rms_norm;
  ForRows(*pool_, rows, n, [=](int64_t row) { norm(x + row * n, w, eps, n, y + row * n); });
}

void Kernels::RmsNormHeads(float* x, int64_t stride, const float* w, float eps, int64_t rows,
                           int32_t heads, int32_t head_dim) const {
  const auto norm = table_->rows->rms_norm;
  ForRows(*pool_, rows, int64_t{heads} * head_dim, [=](int64_t row) {
    for (int32_t head = 0; head < heads; ++head) {
      float* p = x + row * stride + int64_t{head} * head_dim;
      norm(p, w, eps, head_dim, p);
    }
  });
}

void Kernels::Rope(float* x, int64_t stride, int64_t rows, int32_t heads, int32_t head_dim,
                   RopeKind kind, const RopeTable& table, const int64_t* positions) const {
  CHECK(table.rotary_dim() <= head_dim);
  const auto rope = table_->rows->rope;
  const int32_t rotary_dim = table.rotary_dim();
  for (int64_t row = 0; row < rows; ++row) table.Prepare(positions[row]);
  ForRows(*pool_, rows, int64_t{heads} * head_dim, [=, &table](int64_t row) {
    rope(x + row * stride, heads, head_dim, kind, rotary_dim, table.Row(positions[row]));
  });
}

void Kernels::GatedActivation(Activation act, const float* gate, const float* up, int64_t rows,
                              int64_t n, float* y) const {
  const auto gated = table_->rows->gated;
  ForValues(*pool_, rows * n, [=](int64_t begin, int64_t count) {
    gated(act, gate + begin, up + begin, count, y + begin);
  });
}

void Kernels::Add(const float* x, int64_t n, float* y) const {
  const auto add = table_->rows->add;
  ForValues(*pool_, n, [=](int64_t begin, int64_t count) { add(x + begin, count, y + begin); });
}

void Kernels::Scale(float factor, int64_t n, float* x) const {
  const auto scale = table_->rows->scale;
  ForValues(*pool_, n, [=](int64_t begin, int64_t count) { scale(factor, count, x + begin); });
}

Kernels::LogSumExp Kernels::LogSum(const float* x, int64_t n) const {
  CHECK(n > 0);
  const float max = table_->rows->max(x, n);
  const float sum = table_->rows->sum_exp(x, n, max);
  return {max, static_cast<float>(Log64(static_cast<double>(sum)))};
}

void Kernels::TopK(const float* x, int64_t n, int32_t k, int32_t* ids, float* values) const {
  CHECK(k >= 0 && k <= n);
  if (k == 0) return;
  std::vector<Candidate> heap(static_cast<size_t>(k));
  for (int32_t i = 0; i < k; ++i) heap[static_cast<size_t>(i)] = {x[i], i};
  std::make_heap(heap.begin(), heap.end(), Before);
  // Ascending scan: a value equal to the last-ranked one has a higher index and never replaces it.
  const auto find = table_->rows->find_above;
  for (int64_t i = find(x, k, n, heap.front().value); i < n;
       i = find(x, i + 1, n, heap.front().value)) {
    std::pop_heap(heap.begin(), heap.end(), Before);
    heap.back() = {x[i], static_cast<int32_t>(i)};
    std::push_heap(heap.begin(), heap.end(), Before);
  }
  std::sort_heap(heap.begin(), heap.end(), Before);
  for (int32_t i = 0; i < k; ++i) {
    ids[i] = heap[static_cast<size_t>(i)].id;
    values[i] = heap[static_cast<size_t>(i)].value;
  }
}

}  // namespace ballast
