// Role: drivers of attention and KV records: cuts the rows of many sequences into items for one
// fork-join. Thread: the engine thread; items run on the pool.
// Invariants: the cut decides only when a segment is computed; segments merge left to right
// whatever the cut. Few query rows over much context: items are runs of segments with a state each,
// merged after the join. Many query rows: items are blocks of rows that carry their state in `out`,
// in waves of a few segments so that no item keeps the others waiting.
#include "kernels/attention.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "base/check.h"
#include "kernels/table.h"

namespace ballast {

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int32_t kItemPairs = 128;     // pairs of an item when rows are many
constexpr int32_t kTilePairs = 14;      // what the AVX-512 bodies take at once
constexpr int32_t kMaxItemPairs = 256;  // bound of the arrays of an item
constexpr double kFlopsPerNs = 80;      // of one thread, for sizing only
constexpr double kBytesPerNs = 13;
constexpr double kMinItemNs = 12'000;
constexpr double kMaxItemNs = 100'000;
constexpr double kMaxWaveNs = 250'000;  // the pool takes a join of 700 µs for congestion
constexpr double kSerialNs = 8'000;

/// A run of segments of a block of rows of one KV head.
struct Item {
  const AttentionTask* task;
  int32_t kv_head;
  int32_t row_begin;
  int32_t rows;
  int64_t segment_begin;
  int64_t segment_end;
  int64_t state;    // index of the pairs' (M, l) in the state arrays
  int64_t partial;  // index of the partial states' o in floats; −1: the state is in `out`
  int32_t wave;
  bool last;  // divides by l at the end
};

/// Everything of one Attention call; kept by the thread so that steps do not allocate.
struct Plan {
  std::vector<Item> items;
  std::vector<float> m, l, o;
  int32_t waves = 0;
  int64_t states = 0;
  int64_t partial_floats = 0;
  double serial_ns = 0;
};

int64_t FirstKey(int64_t position, int32_t window) {
  return window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
}

double SegmentNs(const KvShape& kv, int64_t pairs) {
  const double values = double{kSegmentTokens} * kv.head_dim;
  return std::max(static_cast<double>(pairs) * values * 4 / kFlopsPerNs, values * 4 / kBytesPerNs);
}

struct Span {
  int64_t begin;
  int64_t end;
};
Span Segments(const AttentionTask& task, const AttentionShape& shape, int32_t row, int32_t rows) {
  const int64_t first = FirstKey(task.first_position + row, shape.window);
  const int64_t last = task.first_position + row + rows - 1;
  return {first / kSegmentTokens, last / kSegmentTokens + 1};
}

/// Rows of a task that one item takes together: whole tiles where that is possible.
int32_t BlockRows(const AttentionTask& task, int32_t group) {
  const int32_t most = std::max(1, kItemPairs / group);
  if (task.rows <= most) return task.rows;
  for (int32_t rows = most; rows > most / 2; --rows) {
    if (rows * group % kTilePairs == 0) return rows;
  }
  return most;
}

void PlanTask(const AttentionTask& task, const AttentionShape& shape, double target_ns,
              Plan* plan) {
  const int32_t group = shape.heads / shape.kv.kv_heads;
  const int32_t block = BlockRows(task, group);
  const bool split = task.rows <= block;  // few rows: segments may run side by side
  // Later rows see more keys: they go first, so that the last items are short ones.
  for (int32_t row = (task.rows - 1) / block * block; row >= 0; row -= block) {
    const int32_t rows = std::min(block, task.rows - row);
    const int64_t pairs = int64_t{rows} * group;
    const Span span = Segments(task, shape, row, rows);
    const double segment_ns = SegmentNs(shape.kv, pairs);
    const int64_t step =
        std::max<int64_t>(1, static_cast<int64_t>((split ? target_ns : kMaxWaveNs) / segment_ns));
    const bool partial = split && span.end - span.begin > step;
    for (int32_t head = 0; head < shape.kv.kv_heads; ++head) {
      int32_t wave = 0;
      for (int64_t s = span.begin; s < span.end; s += step) {
        const int64_t end = std::min(span.end, s + step);
        plan->items.push_back({&task, head, row, rows, s, end, plan->states,
                               partial ? plan->partial_floats : -1, partial ? 0 : wave,
                               end == span.end});
        if (partial) {
          plan->states += pairs * (end - s);
          plan->partial_floats += pairs * (end - s) * shape.kv.head_dim;
        } else {
          plan->waves = std::max(plan->waves, ++wave);
        }
      }
      if (!partial) plan->states += pairs;
    }
  }
  if (split) plan->waves = std::max(plan->waves, 1);
}

double TotalNs(std::span<const AttentionTask> tasks, const AttentionShape& shape) {
  double total = 0;
  const int32_t group = shape.heads / shape.kv.kv_heads;
  for (const AttentionTask& task : tasks) {
    const int32_t block = BlockRows(task, group);
    for (int32_t row = 0; row < task.rows; row += block) {
      const int32_t rows = std::min(block, task.rows - row);
      const Span span = Segments(task, shape, row, rows);
      total += static_cast<double>(span.end - span.begin) * shape.kv.kv_heads *
               SegmentNs(shape.kv, int64_t{rows} * group);
    }
  }
  return total;
}

/// Runs one item: fills the job's arrays, then the bodies do the rest.
void RunItem(const AttentionTable& table, const AttentionShape& shape, const Item& item,
             Plan* plan) {
  const AttentionTask& task = *item.task;
  const int32_t group = shape.heads / shape.kv.kv_heads, dim = shape.kv.head_dim;
  const float* q[kMaxItemPairs];
  float* o[kMaxItemPairs];
  int64_t first[kMaxItemPairs], last[kMaxItemPairs];
  AttentionJob job;
  job.pairs = item.rows * group;
  for (int32_t i = 0; i < job.pairs; ++i) {
    const int64_t row = item.row_begin + i / group;
    const int64_t column = (int64_t{item.kv_head} * group + i % group) * dim;
    q[i] = task.q + row * task.q_stride + column;
    o[i] = item.partial >= 0 ? plan->o.data() + item.partial + int64_t{i} * dim
                             : task.out + row * task.out_stride + column;
    last[i] = task.first_position + row;
    first[i] = FirstKey(last[i], shape.window);
  }
  job.kv = shape.kv;
  job.kv_head = item.kv_head;
  job.pages = task.pages;
  job.page_types = task.page_types;
  job.scale = shape.scale;
  job.q = q;
  job.o = o;
  job.first = first;
  job.last = last;
  job.segment_begin = item.segment_begin;
  job.segment_end = item.segment_end;
  job.m = plan->m.data() + item.state;
  job.l = plan->l.data() + item.state;
  job.ml_step = item.partial >= 0 ? job.pairs : 0;
  job.o_step = item.partial >= 0 ? int64_t{job.pairs} * dim : 0;
  table.attend(job);
  if (item.partial < 0 && item.last) {
    for (int32_t i = 0; i < job.pairs; ++i) table.finish(o[i], job.l[i], dim);
  }
}

/// Merges the partial states of pair i of the items [begin, end), which are one (task, KV head).
void MergePair(const AttentionTable& table, const AttentionShape& shape, const Plan& plan,
               const Item* begin, const Item* end, int32_t i) {
  const AttentionTask& task = *begin->task;
  const int32_t group = shape.heads / shape.kv.kv_heads, dim = shape.kv.head_dim;
  const int64_t pairs = int64_t{begin->rows} * group;
  const int64_t row = begin->row_begin + i / group;
  float* out =
      task.out + row * task.out_stride + (int64_t{begin->kv_head} * group + i % group) * dim;
  float m = kMinusInfinity, l = 0;
  for (const Item* item = begin; item != end; ++item) {
    for (int64_t s = 0; s < item->segment_end - item->segment_begin; ++s) {
      const size_t state = static_cast<size_t>(item->state + s * pairs + i);
      table.merge(&m, &l, out, plan.m[state], plan.l[state],
                  plan.o.data() + item->partial + (s * pairs + i) * dim, dim);
    }
  }
  table.finish(out, l, dim);
}

void MergePartials(ThreadPool& pool, const AttentionTable& table, const AttentionShape& shape,
                   const Plan& plan) {
  // Groups of items of one (task, KV head), which the plan laid side by side.
  std::vector<std::pair<const Item*, const Item*>> groups;
  const Item* const all_end = plan.items.data() + plan.items.size();
  for (const Item* item = plan.items.data(); item != all_end;) {
    const Item* end = item + 1;
    while (end != all_end && end->task == item->task && end->kv_head == item->kv_head) ++end;
    if (item->partial >= 0) groups.emplace_back(item, end);
    item = end;
  }
  const auto merge = [&](int64_t index, int) {
    const auto [begin, end] = groups[static_cast<size_t>(index)];
    const int32_t pairs = begin->rows * (shape.heads / shape.kv.kv_heads);
    for (int32_t i = 0; i < pairs; ++i) MergePair(table, shape, plan, begin, end, i);
  };
  const int64_t count = static_cast<int64_t>(groups.size());
  if (plan.partial_floats > 256 * 1024) {
    pool.ParallelFor(count, merge);
  } else {
    for (int64_t i = 0; i < count; ++i) merge(i, 0);
  }
}

struct FreeDeleter {
  void operator()(std::byte* p) const { std::free(p); }
};

}  // namespace

std::byte* ThreadScratch(int slot, size_t bytes) {
  struct Slot {
    std::unique_ptr<std::byte, FreeDeleter> memory;
    size_t size = 0;
  };
  thread_local Slot slots[2];
  Slot& s = slots[slot];
  if (s.size < bytes) {
    s.size = (bytes + 4095) / 4096 * 4096;
    s.memory.reset();
    s.memory.reset(static_cast<std::byte*>(std::aligned_alloc(4096, s.size)));
    CHECK(s.memory != nullptr);
  }
  return s.memory.get();
}

const AttentionTable& AttentionTableFor(Isa isa) {
  switch (isa) {
    case Isa::kAmx:  // nothing of its own here
    case Isa::kAvx512:
      return kAttentionAvx512;
    case Isa::kAvx2:
      return kAttentionAvx2;
    case Isa::kRef:
      break;
  }
  return kAttentionRef;
}

void Kernels::Attention(std::span<const AttentionTask> tasks, const AttentionShape& shape) const {
  CHECK(shape.softcap == 0 && shape.kv.kv_heads > 0 && shape.heads % shape.kv.kv_heads == 0);
  CHECK(shape.heads / shape.kv.kv_heads <= kMaxItemPairs);
  CHECK(shape.kv.head_dim > 0 && shape.kv.head_dim % 16 == 0 && shape.kv.head_dim <= kMaxHeadDim);
  thread_local Plan plan;
  plan.items.clear();
  plan.waves = 0;
  plan.states = plan.partial_floats = 0;
  const double total_ns = TotalNs(tasks, shape);
  const bool serial = pool_->size() == 1 || total_ns < kSerialNs;
  const double target_ns = serial
                               ? std::numeric_limits<float>::max()
                               : std::clamp(total_ns / (4 * pool_->size()), kMinItemNs, kMaxItemNs);
  for (const AttentionTask& task : tasks) {
    if (task.rows > 0) PlanTask(task, shape, target_ns, &plan);
  }
  plan.m.assign(static_cast<size_t>(plan.states), kMinusInfinity);
  plan.l.resize(static_cast<size_t>(plan.states));
  plan.o.resize(static_cast<size_t>(plan.partial_floats));
  std::sort(plan.items.begin(), plan.items.end(), [](const Item& a, const Item& b) {
    return a.wave != b.wave ? a.wave < b.wave : a.state < b.state;
  });
  const AttentionTable& table = *table_->attention;
  for (size_t begin = 0; begin < plan.items.size();) {
    size_t end = begin;
    while (end < plan.items.size() && plan.items[end].wave == plan.items[begin].wave) ++end;
    Plan* const shared = &plan;  // a lambda would name each thread's own
    const auto run = [&, shared, begin](int64_t i, int) {
      RunItem(table, shape, shared->items[begin + static_cast<size_t>(i)], shared);
    };
    if (serial) {
      for (size_t i = begin; i < end; ++i) run(static_cast<int64_t>(i - begin), 0);
    } else {
      pool_->ParallelFor(static_cast<int64_t>(end - begin), run);
    }
    begin = end;
  }
  if (plan.partial_floats > 0) MergePartials(*pool_, table, shape, plan);
}

void Kernels::WriteKv(const float* k, const float* v, int64_t stride, int64_t rows,
                      int64_t first_position, const KvShape& shape, std::byte* const* pages) const {
  const auto write = table_->attention->write_kv;
  if (rows <= 0) return;
  const int64_t first_page = first_position / kPageTokens;
  const int64_t last_page = (first_position + rows - 1) / kPageTokens;
  const auto run = [=, &shape](int64_t index, int) {
    const int64_t page = first_page + index;
    const int64_t begin = std::max(first_position, page * kPageTokens);
    const int64_t end = std::min(first_position + rows, (page + 1) * kPageTokens);
    const int64_t row = begin - first_position;
    write(k + row * stride, v + row * stride, stride, static_cast<int32_t>(end - begin),
          static_cast<int32_t>(begin - page * kPageTokens), shape, pages[page]);
  };
  const int64_t count = last_page - first_page + 1;
  if (rows * shape.kv_heads * shape.head_dim < 32 * 1024) {
    for (int64_t i = 0; i < count; ++i) run(i, 0);
  } else {
    pool_->ParallelFor(count, run);
  }
}

void Kernels::SealKv8(const std::byte* f16_record, const KvShape& shape,
                      std::byte* kv8_record) const {
  table_->attention->seal_kv8(f16_record, shape, kv8_record);
}

}  // namespace ballast
