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

/// A run of segments of a block of rows for some KV heads.
struct Item {
  const AttentionTask* task;
  int32_t head_begin;
  int32_t head_end;
  int32_t row_begin;
  int32_t rows;
  int64_t segment_begin;
  int64_t segment_end;
  int64_t state;    // index in the state arrays of (M, l) [head][segment if partial][pair]
  int64_t partial;  // index in floats of the partial sums, likewise; −1: the state is in `out`
  int32_t wave;
  bool last;  // divides by l at the end

  int64_t segments() const { return segment_end - segment_begin; }
};

/// Everything of one Attention call; kept by the thread so that steps do not allocate.
struct Plan {
  std::vector<Item> items;
  std::vector<float> m, l, o;
  int64_t states = 0;
  int64_t partial_floats = 0;
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

/// Few rows: runs of segments side by side, each with all heads so that memory is read in order;
/// single heads when there are too few segments for all threads.
void PlanFewRows(const AttentionTask& task, const AttentionShape& shape, double target_ns,
                 int threads, Plan* plan) {
  const int32_t heads = shape.kv.kv_heads;
  const int64_t pairs = int64_t{task.rows} * (shape.heads / heads);
  const Span span = Segments(task, shape, 0, task.rows);
  const int32_t together = span.end - span.begin >= 4 * threads ? heads : 1;
  const double segment_ns = SegmentNs(shape.kv, pairs) * together;
  const int64_t step = static_cast<int64_t>(
      std::clamp(target_ns / segment_ns, 1.0, static_cast<double>(span.end - span.begin)));
  const bool partial = span.end - span.begin > step;
  for (int32_t head = 0; head < heads; head += together) {
    for (int64_t s = span.begin; s < span.end; s += step) {
      const int64_t end = std::min(span.end, s + step);
      const int64_t states = pairs * together * (partial ? end - s : 1);
      plan->items.push_back({&task, head, head + together, 0, task.rows, s, end, plan->states,
                             partial ? plan->partial_floats : -1, 0, !partial});
      plan->states += states;
      if (partial) plan->partial_floats += states * shape.kv.head_dim;
    }
  }
}

/// Many rows: blocks of rows one head at a time, in waves of segments.
void PlanManyRows(const AttentionTask& task, const AttentionShape& shape, int32_t block,
                  Plan* plan) {
  const int32_t group = shape.heads / shape.kv.kv_heads;
  // Later rows see more keys: they go first, so that the last items are short ones.
  for (int32_t row = (task.rows - 1) / block * block; row >= 0; row -= block) {
    const int32_t rows = std::min(block, task.rows - row);
    const Span span = Segments(task, shape, row, rows);
    const double segment_ns = SegmentNs(shape.kv, int64_t{rows} * group);
    const int64_t step = std::max<int64_t>(1, static_cast<int64_t>(kMaxWaveNs / segment_ns));
    for (int32_t head = 0; head < shape.kv.kv_heads; ++head) {
      int32_t wave = 0;
      for (int64_t s = span.begin; s < span.end; s += step, ++wave) {
        const int64_t end = std::min(span.end, s + step);
        plan->items.push_back(
            {&task, head, head + 1, row, rows, s, end, plan->states, -1, wave, end == span.end});
      }
      plan->states += int64_t{rows} * group;
    }
  }
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

/// Runs segments [begin, end) of one head of an item; `after` is what the thread reads next.
void RunHead(const AttentionTable& table, const AttentionShape& shape, const Item& item,
             int32_t head, int64_t begin, int64_t end, const std::byte* after, Plan* plan) {
  const AttentionTask& task = *item.task;
  const int32_t group = shape.heads / shape.kv.kv_heads, dim = shape.kv.head_dim;
  const float* q[kMaxItemPairs];
  float* o[kMaxItemPairs];
  int64_t first[kMaxItemPairs], last[kMaxItemPairs];
  AttentionJob job;
  job.pairs = item.rows * group;
  const bool partial = item.partial >= 0;
  const int64_t place = (head - item.head_begin) * (partial ? item.segments() : 1) +
                        (partial ? begin - item.segment_begin : 0);
  for (int32_t i = 0; i < job.pairs; ++i) {
    const int64_t row = item.row_begin + i / group;
    const int64_t column = (int64_t{head} * group + i % group) * dim;
    q[i] = task.q + row * task.q_stride + column;
    o[i] = partial ? plan->o.data() + item.partial + (place * job.pairs + i) * dim
                   : task.out + row * task.out_stride + column;
    last[i] = task.first_position + row;
    first[i] = FirstKey(last[i], shape.window);
  }
  job.kv = shape.kv;
  job.kv_head = head;
  job.pages = task.pages;
  job.page_types = task.page_types;
  job.scale = shape.scale;
  job.q = q;
  job.o = o;
  job.first = first;
  job.last = last;
  job.segment_begin = begin;
  job.segment_end = end;
  job.m = plan->m.data() + item.state + place * job.pairs;
  job.l = plan->l.data() + item.state + place * job.pairs;
  job.ml_step = partial ? job.pairs : 0;
  job.o_step = partial ? int64_t{job.pairs} * dim : 0;
  job.after = after;
  table.attend(job);
  if (item.last && end == item.segment_end) {
    for (int32_t i = 0; i < job.pairs; ++i) table.finish(o[i], job.l[i], dim);
  }
}

/// The first keys of a head in a segment, or null.
const std::byte* KeysOf(const Item& item, const AttentionShape& shape, int64_t segment,
                        int32_t head) {
  if (segment >= item.segment_end) return nullptr;
  const int64_t page = segment * kPagesPerSegment;
  const std::byte* record = item.task->pages[page];
  if (record == nullptr) return nullptr;
  if (item.task->page_types != nullptr && item.task->page_types[page] == KvDType::kKv8) {
    return reinterpret_cast<const std::byte*>(Kv8HeadAt(record, shape.kv, head).k);
  }
  return reinterpret_cast<const std::byte*>(F16KeysAt(record, shape.kv, head));
}

void RunItem(const AttentionTable& table, const AttentionShape& shape, const Item& item,
             Plan* plan) {
  if (item.rows > 1 && item.head_end - item.head_begin == 1) {  // computing, not reading, counts
    RunHead(table, shape, item, item.head_begin, item.segment_begin, item.segment_end, nullptr,
            plan);
    return;
  }
  for (int64_t segment = item.segment_begin; segment < item.segment_end; ++segment) {
    for (int32_t head = item.head_begin; head < item.head_end; ++head) {
      const bool same = head + 1 < item.head_end;
      const std::byte* after =
          KeysOf(item, shape, same ? segment : segment + 1, same ? head + 1 : item.head_begin);
      RunHead(table, shape, item, head, segment, segment + 1, after, plan);
    }
  }
}

/// Merges the partial states of pair i of one head over the items [begin, end) of a task.
void MergePair(const AttentionTable& table, const AttentionShape& shape, const Plan& plan,
               const Item* begin, const Item* end, int32_t head, int32_t i) {
  const AttentionTask& task = *begin->task;
  const int32_t group = shape.heads / shape.kv.kv_heads, dim = shape.kv.head_dim;
  const int64_t pairs = int64_t{begin->rows} * group;
  float* out = task.out + (begin->row_begin + i / group) * task.out_stride +
               (int64_t{head} * group + i % group) * dim;
  float m = kMinusInfinity, l = 0;
  for (const Item* item = begin; item != end; ++item) {
    if (head < item->head_begin || head >= item->head_end) continue;
    for (int64_t s = 0; s < item->segments(); ++s) {
      const int64_t state = ((head - item->head_begin) * item->segments() + s) * pairs + i;
      const size_t index = static_cast<size_t>(item->state + state);
      table.merge(&m, &l, out, plan.m[index], plan.l[index],
                  plan.o.data() + item->partial + state * dim, dim);
    }
  }
  table.finish(out, l, dim);
}

void MergePartials(ThreadPool& pool, const AttentionTable& table, const AttentionShape& shape,
                   const Plan& plan) {
  // The items of one task, which the plan laid side by side.
  std::vector<std::pair<const Item*, const Item*>> groups;
  const Item* const all_end = plan.items.data() + plan.items.size();
  for (const Item* item = plan.items.data(); item != all_end;) {
    const Item* end = item + 1;
    while (end != all_end && end->task == item->task && end->wave == item->wave) ++end;
    if (item->partial >= 0) groups.emplace_back(item, end);
    item = end;
  }
  const int32_t heads = shape.kv.kv_heads;
  const auto merge = [&](int64_t index, int) {
    const auto [begin, end] = groups[static_cast<size_t>(index / heads)];
    const int32_t head = static_cast<int32_t>(index % heads);
    const int32_t pairs = begin->rows * (shape.heads / heads);
    for (int32_t i = 0; i < pairs; ++i) MergePair(table, shape, plan, begin, end, head, i);
  };
  const int64_t count = static_cast<int64_t>(groups.size()) * heads;
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
  plan.states = plan.partial_floats = 0;
  const double total_ns = TotalNs(tasks, shape);
  const bool serial = pool_->size() == 1 || total_ns < kSerialNs;
  const double target_ns = serial
                               ? std::numeric_limits<float>::max()
                               : std::clamp(total_ns / (4 * pool_->size()), kMinItemNs, kMaxItemNs);
  for (const AttentionTask& task : tasks) {
    if (task.rows <= 0) continue;
    const int32_t block = BlockRows(task, shape.heads / shape.kv.kv_heads);
    if (task.rows <= block) {
      PlanFewRows(task, shape, target_ns, serial ? 1 : pool_->size(), &plan);
    } else {
      PlanManyRows(task, shape, block, &plan);
    }
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
