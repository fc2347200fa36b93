#include "engine/testing/fake_model.h"

#include <algorithm>
#include <cstring>

#include "base/rng.h"

namespace ballast::testing {

namespace {

// Where a row's token is kept: at the start of its V row.
size_t RowOffset(const KvShape& shape, int64_t position) {
  return shape.f16_half_bytes() +
         static_cast<size_t>(position % kPageTokens) * static_cast<size_t>(shape.head_dim) * 2;
}

int32_t Tagged(TokenId token, int32_t layer, int64_t position) {
  return static_cast<int32_t>(
      Mix64(static_cast<uint64_t>(position) * 64 + static_cast<uint64_t>(layer)) ^
      static_cast<uint64_t>(token));
}

}  // namespace

FakeModel::FakeModel(FakeModelOptions options) : options_(std::move(options)) {
  config_.architecture = "fake";
  config_.name = "fake";
  config_.layers = options_.layers;
  config_.hidden = 16;
  config_.heads = config_.kv_heads = 1;
  config_.head_dim = options_.head_dim;
  config_.vocab = options_.vocab;
  config_.context = options_.context;
}

KvLayers FakeModel::kv_layers() const {
  KvLayers layers(static_cast<size_t>(options_.layers), KvLayer{{1, options_.head_dim}, 0});
  layers.back().window = options_.window;
  return layers;
}

void FakeModel::WriteRow(const SequenceSlice& slice, int64_t position, TokenId token) {
  const KvShape shape{1, options_.head_dim};
  for (int32_t layer = 0; layer < options_.layers; ++layer) {
    std::byte* record = slice.kv->Records(layer)[position / kPageTokens];
    Check(record != nullptr);
    if (record == nullptr) continue;
    const int32_t value = Tagged(token, layer, position);
    std::memcpy(record + RowOffset(shape, position), &value, sizeof(value));
  }
}

std::vector<TokenId> FakeModel::ReadBack(const SequenceSlice& slice, int64_t tokens) {
  const KvShape shape{1, options_.head_dim};
  std::vector<TokenId> result(static_cast<size_t>(tokens));
  for (int32_t layer = 0; layer < options_.layers; ++layer) {
    const bool slides = layer == options_.layers - 1 && options_.window > 0;
    const int64_t first = slides ? std::max<int64_t>(tokens - options_.window, 0) : 0;
    for (int64_t position = first; position < tokens; ++position) {
      const std::byte* record = slice.kv->Records(layer)[position / kPageTokens];
      Check(record != nullptr);
      if (record == nullptr) continue;
      int32_t value = 0;
      std::memcpy(&value, record + RowOffset(shape, position), sizeof(value));
      const TokenId token = value ^ Tagged(0, layer, position);
      TokenId& known = result[static_cast<size_t>(position)];
      if (layer > 0) Check(known == token);
      known = token;
    }
  }
  return result;
}

void FakeModel::LogitsAfter(const std::vector<TokenId>& tokens, std::vector<float>* logits) {
  uint64_t hash = 17;
  for (const TokenId token : tokens) hash = Mix64(hash ^ static_cast<uint64_t>(token));
  for (size_t t = 0; t < logits->size(); ++t) {
    (*logits)[t] = 8.0f * UniformOpen(CounterHash(hash, t, 0)) - 4.0f;
  }
}

std::vector<float> FakeModel::HiddenAfter(const std::vector<TokenId>& tokens) {
  std::vector<float> hidden(16);
  LogitsAfter(tokens, &hidden);
  return hidden;
}

void FakeModel::CollectHidden(const StepBatch& batch, const SequenceSlice& slice,
                              std::vector<float>* out) {
  for (const int32_t row : batch.hidden_rows) {
    if (row < slice.first_row || row >= slice.first_row + slice.rows) continue;
    const auto hidden = HiddenAfter(ReadBack(slice, slice.position + row - slice.first_row + 1));
    out->insert(out->end(), hidden.begin(), hidden.end());
  }
}

void FakeModel::Forward(const StepBatch& batch, float* logits) {
  if (options_.on_step) options_.on_step(batch);
  Check(static_cast<int64_t>(batch.tokens.size()) <= options_.max_step_rows);
  StepRecord record;
  std::vector<float> row_logits(static_cast<size_t>(options_.vocab));
  std::vector<float> hidden;
  size_t next_logit = 0;
  int32_t next_row = 0;
  for (const SequenceSlice& slice : batch.slices) {
    record.push_back({slice.kv, slice.position, slice.rows});
    Check(slice.first_row == next_row && slice.rows > 0);
    Check(slice.position == slice.kv->committed_tokens());
    Check(slice.position + slice.rows <= slice.kv->reserved_tokens());
    next_row += slice.rows;
    for (int32_t i = 0; i < slice.rows; ++i) {
      WriteRow(slice, slice.position + i,
               batch.tokens[static_cast<size_t>(slice.first_row) + static_cast<size_t>(i)]);
    }
    CollectHidden(batch, slice, &hidden);
    const bool embedded =
        std::binary_search(batch.hidden_rows.begin(), batch.hidden_rows.end(), next_row - 1);
    const bool wanted =
        next_logit < batch.logit_rows.size() && batch.logit_rows[next_logit] == next_row - 1;
    // A chunk that is not the prompt's last ends at a multiple of 16.
    Check(wanted || embedded || (slice.position + slice.rows) % 16 == 0);
    if (!wanted) continue;
    LogitsAfter(ReadBack(slice, slice.position + slice.rows), &row_logits);
    std::copy(row_logits.begin(), row_logits.end(), logits + next_logit * row_logits.size());
    ++next_logit;
  }
  Check(next_logit == batch.logit_rows.size());
  Check(hidden.size() == batch.hidden_rows.size() * 16);
  if (!batch.hidden_rows.empty()) batch.hidden_sink->Consume(hidden.data());
  Check(static_cast<size_t>(next_row) == batch.tokens.size());
  if (options_.clock != nullptr) {
    options_.clock->Advance(options_.step_ms +
                            options_.row_ms * static_cast<double>(batch.tokens.size()));
  }
  std::lock_guard lock(mutex_);
  history_.push_back(std::move(record));
}

void FakeModel::Forward(const StepBatch& batch, LogitSink& sink) {
  const int64_t rows = static_cast<int64_t>(batch.logit_rows.size());
  std::vector<float> logits(static_cast<size_t>(rows) * static_cast<size_t>(options_.vocab));
  Forward(batch, logits.data());
  for (int64_t first = 0; first < rows; first += kLogitBlockRows) {
    sink.Consume(first, std::min(kLogitBlockRows, rows - first),
                 logits.data() + first * options_.vocab);
  }
}

std::vector<FakeModel::StepRecord> FakeModel::history() const {
  std::lock_guard lock(mutex_);
  return history_;
}

}  // namespace ballast::testing
