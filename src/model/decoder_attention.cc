// Role: KV writing, sealing and attention of one layer of the decoder (decoder.h).
// kv8: a query sees f16 keys in its own page and rounded ones in earlier pages, whatever the chunk.
// So the rows of a step are split at page borders; pages that fill up before the slice's last page
// are written to scratch, rounded, and then read in both forms.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "model/decoder.h"

namespace ballast {
namespace {

int64_t PageOf(int64_t position) { return position / kPageTokens; }
int64_t LastPage(const SequenceSlice& slice) { return PageOf(slice.position + slice.rows - 1); }

}  // namespace

void Decoder::AddRuns(int32_t slice, const SequenceSlice& s, int32_t first, int32_t rows,
                      int64_t out_row, std::vector<RowRun>* runs) const {
  if (options_.kv_dtype == KvDType::kF16) {
    runs->push_back({slice, first, rows, out_row});
    return;
  }
  while (rows > 0) {
    const int64_t position = s.position + first;
    const auto left_in_page = static_cast<int32_t>((PageOf(position) + 1) * kPageTokens - position);
    const int32_t take = std::min(rows, left_in_page);
    runs->push_back({slice, first, take, out_row});
    first += take;
    rows -= take;
    out_row += take;
  }
}

void Decoder::PlanRows(const StepBatch& batch) {
  positions_.clear();
  all_runs_.clear();
  wanted_runs_.clear();
  wanted_rows_.clear();
  std::set_union(batch.logit_rows.begin(), batch.logit_rows.end(), batch.hidden_rows.begin(),
                 batch.hidden_rows.end(), std::back_inserter(wanted_rows_));
  size_t next = 0;  // in wanted_rows_
  for (size_t i = 0; i < batch.slices.size(); ++i) {
    const SequenceSlice& s = batch.slices[i];
    const auto slice = static_cast<int32_t>(i);
    CHECK(s.rows > 0 && s.first_row == static_cast<int32_t>(positions_.size()));
    CHECK(s.position >= 0 && s.position + s.rows <= spec_.config.context);
    CHECK(s.position + s.rows <= s.kv->reserved_tokens());
    for (int32_t r = 0; r < s.rows; ++r) positions_.push_back(s.position + r);
    ChargeRope(s.position + s.rows);
    AddRuns(slice, s, 0, s.rows, s.first_row, &all_runs_);
    const int32_t end = s.first_row + s.rows;
    while (next < wanted_rows_.size() && wanted_rows_[next] < end) {
      const size_t begin = next++;
      const int32_t first = wanted_rows_[begin];
      CHECK(first >= s.first_row);
      while (next < wanted_rows_.size() && wanted_rows_[next] < end &&
             wanted_rows_[next] == wanted_rows_[next - 1] + 1) {
        ++next;
      }
      AddRuns(slice, s, first - s.first_row, static_cast<int32_t>(next - begin),
              static_cast<int64_t>(begin), &wanted_runs_);
    }
  }
  CHECK(positions_.size() == batch.tokens.size() && next == wanted_rows_.size());
}

AttentionShape Decoder::ShapeOf(int32_t layer) const {
  AttentionShape shape;
  shape.heads = spec_.config.heads;
  shape.kv = KvShape{spec_.config.kv_heads, spec_.config.head_dim};
  shape.scale = spec_.config.attention_scale;
  shape.window = weights_.layers[static_cast<size_t>(layer)].window;
  return shape;
}

AttentionTask Decoder::TaskOf(const SequenceSlice& slice, const RowRun& run) const {
  AttentionTask task;
  task.q = qkv_ + (slice.first_row + run.first) * qkv_cols_;
  task.q_stride = qkv_cols_;
  task.out = h_ + run.out_row * attention_cols_;
  task.out_stride = attention_cols_;
  task.rows = run.rows;
  task.first_position = slice.position + run.first;
  return task;
}

void Decoder::Attend(int32_t layer, const StepBatch& batch, std::span<const RowRun> runs) {
  if (options_.kv_dtype == KvDType::kF16) {
    AttendF16(layer, batch, runs);
  } else {
    AttendKv8(layer, batch, runs);
  }
}

void Decoder::AttendF16(int32_t layer, const StepBatch& batch, std::span<const RowRun> runs) {
  const AttentionShape shape = ShapeOf(layer);
  for (const SequenceSlice& slice : batch.slices) {
    const float* k = qkv_ + slice.first_row * qkv_cols_ + attention_cols_;
    const float* v = k + int64_t{shape.kv.kv_heads} * shape.kv.head_dim;
    kernels_.WriteKv(k, v, qkv_cols_, slice.rows, slice.position, shape.kv,
                     slice.kv->Records(layer));
  }
  tasks_.clear();
  for (const RowRun& run : runs) {
    const SequenceSlice& slice = batch.slices[static_cast<size_t>(run.slice)];
    AttentionTask task = TaskOf(slice, run);
    task.pages = slice.kv->Records(layer);
    tasks_.push_back(task);
  }
  if (!tasks_.empty()) kernels_.Attention(tasks_, shape);
}

void Decoder::AttendKv8(int32_t layer, const StepBatch& batch, std::span<const RowRun> runs) {
  const AttentionShape shape = ShapeOf(layer);
  size_t next_run = 0;
  for (size_t first = 0; first < batch.slices.size();) {
    // As many slices as the scratch holds; decode rows need none of it.
    const size_t end = WriteKv8Group(layer, batch, first);
    SealPending(layer);
    const size_t first_run = next_run;
    size_t entries = 0;
    for (; next_run < runs.size() && static_cast<size_t>(runs[next_run].slice) < end; ++next_run) {
      const RowRun& run = runs[next_run];
      const SequenceSlice& slice = batch.slices[static_cast<size_t>(run.slice)];
      entries += static_cast<size_t>(PageOf(slice.position + run.first)) + 1;
    }
    // Sized before any pointer into them is taken.
    if (read_pages_.size() < entries) {
      read_pages_.resize(entries);
      read_types_.resize(entries);
    }
    tasks_.clear();
    size_t used = 0;
    for (const RowRun& run : runs.subspan(first_run, next_run - first_run)) {
      const SequenceSlice& slice = batch.slices[static_cast<size_t>(run.slice)];
      tasks_.push_back(TaskOf(slice, run));
      SetKv8Pages(layer, slice, run, &tasks_.back(), &used);
    }
    if (!tasks_.empty()) kernels_.Attention(tasks_, shape);
    SealFilled(layer, batch.slices.subspan(first, end - first));
    first = end;
  }
}

size_t Decoder::WriteKv8Group(int32_t layer, const StepBatch& batch, size_t first_slice) {
  const KvShape shape{spec_.config.kv_heads, spec_.config.head_dim};
  seals_.clear();
  size_t scratch_used = 0;
  size_t i = first_slice;
  for (; i < batch.slices.size(); ++i) {
    const SequenceSlice& slice = batch.slices[i];
    const auto extra = static_cast<size_t>(LastPage(slice) - PageOf(slice.position));
    if (scratch_used + extra > seal_scratch_records_) break;
    std::byte* const* pages = WriteKv8Slice(layer, slice, &scratch_used);
    const float* k = qkv_ + slice.first_row * qkv_cols_ + attention_cols_;
    const float* v = k + int64_t{shape.kv_heads} * shape.head_dim;
    kernels_.WriteKv(k, v, qkv_cols_, slice.rows, slice.position, shape, pages);
  }
  CHECK(i > first_slice);  // the scratch holds the largest slice
  return i;
}

/// The f16 records to write the slice into; pages before its last one are put on the list of seals.
std::byte* const* Decoder::WriteKv8Slice(int32_t layer, const SequenceSlice& slice,
                                         size_t* scratch_used) {
  KvSequence* kv = slice.kv;
  const int64_t first = PageOf(slice.position), last = LastPage(slice);
  if (first == last) {
    kv->OpenRecord(layer, last);
    return kv->Records(layer);
  }
  const size_t record_bytes = ShapeOf(layer).kv.f16_record_bytes();
  write_pages_.resize(static_cast<size_t>(last) + 1);
  for (int64_t page = first; page < last; ++page) {
    std::byte* record = seal_scratch_.data() + (*scratch_used)++ * record_bytes;
    if (page == first && slice.position % kPageTokens != 0) {
      // The page's earlier rows lie in the open record, which the last page needs.
      std::memcpy(record, kv->OpenRecord(layer, page), record_bytes);
    }
    write_pages_[static_cast<size_t>(page)] = record;
    seals_.push_back({kv, page, record, kv->BeginSeal(layer, page)});
  }
  write_pages_[static_cast<size_t>(last)] = kv->OpenRecord(layer, last);
  return write_pages_.data();
}

void Decoder::SealPending(int32_t layer) {
  if (seals_.empty()) return;
  const KvShape shape = ShapeOf(layer).kv;
  const auto seal = [&](int64_t i, int) {
    const Seal& s = seals_[static_cast<size_t>(i)];
    kernels_.SealKv8(s.from, shape, s.to);
  };
  if (seals_.size() == 1) {
    seal(0, 0);
  } else {
    kernels_.pool().ParallelFor(static_cast<int64_t>(seals_.size()), seal);
  }
  for (const Seal& s : seals_) s.kv->FinishSeal(layer, s.page);
}

void Decoder::SetKv8Pages(int32_t layer, const SequenceSlice& slice, const RowRun& run,
                          AttentionTask* task, size_t* used) {
  const int64_t page = PageOf(slice.position + run.first);
  std::byte* const* records = slice.kv->Records(layer);
  const KvDType* types = slice.kv->RecordTypes(layer);
  if (page == LastPage(slice)) {
    // Its own page is the open record, all before are sealed: the sequence's lists as they are.
    task->pages = records;
    task->page_types = types;
    return;
  }
  const auto count = static_cast<size_t>(page) + 1;
  const std::byte** pages = read_pages_.data() + *used;
  KvDType* page_types = read_types_.data() + *used;
  *used += count;
  std::copy(records, records + count, pages);
  std::copy(types, types + count, page_types);
  for (const Seal& s : seals_) {
    if (s.kv == slice.kv && s.page == page) pages[page] = s.from;
  }
  page_types[page] = KvDType::kF16;
  task->pages = pages;
  task->page_types = page_types;
}

/// Rounds the last page of every slice that has just filled it.
void Decoder::SealFilled(int32_t layer, std::span<const SequenceSlice> slices) {
  seals_.clear();
  for (const SequenceSlice& slice : slices) {
    if ((slice.position + slice.rows) % kPageTokens != 0) continue;
    const int64_t page = LastPage(slice);
    seals_.push_back(
        {slice.kv, page, slice.kv->Records(layer)[page], slice.kv->BeginSeal(layer, page)});
  }
  SealPending(layer);
}

}  // namespace ballast
