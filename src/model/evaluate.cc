// Role: see evaluate.h.
#include "model/evaluate.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/hash.h"
#include "base/units.h"
#include "memory/frame_arena.h"
#include "model/npy_writer.h"

namespace ballast {
namespace {

// Neighbours take other amounts of rows a step, so that rows meet in ever new compositions.
constexpr int64_t kNeighbourRows[] = {1, 17, 3, 40};

/// One timeline that is fed tokens.
struct Timeline {
  std::unique_ptr<KvSequence> kv;
  std::span<const TokenId> tokens;
  int64_t done = 0;
  int64_t rows_a_step = 1;

  int64_t left() const { return static_cast<int64_t>(tokens.size()) - done; }
};

/// Feeds hash, likelihood, file and observer from the logits of a step's rows.
class Collector final : public LogitSink {
 public:
  Collector(const Kernels& kernels, int64_t vocab, EvalObserver* observer)
      : kernels_(kernels), vocab_(vocab), observer_(observer) {}

  Status OpenNpy(const std::string& path, int64_t positions) {
    ASSIGN_OR_RETURN(npy_, NpyWriter::Create(path, positions, vocab_));
    return OkStatus();
  }

  /// The next step's rows: `timelines` sequences of `rows` rows each, from chunk position
  /// `position`.
  void StartStep(std::span<const TokenId> chunk, int64_t position, int64_t rows,
                 int32_t timelines) {
    chunk_ = chunk;
    position_ = position;
    rows_ = rows;
    timelines_ = timelines;
    step_hashes_.assign(static_cast<size_t>(rows), 0);
  }

  void Consume(int64_t first, int64_t rows, const float* logits) override {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = (first + i) % rows_;
      const bool first_sequence = first + i < rows_;
      const std::span<const float> values(logits + i * vocab_, static_cast<size_t>(vocab_));
      // Others are compared by a fast hash; a mismatch is a finding, not an attack.
      uint64_t* hash = &step_hashes_[static_cast<size_t>(row)];
      const uint64_t own = timelines_ > 1 ? Xxh3(std::as_bytes(values)) : 0;
      if (first_sequence) {
        *hash = own;
        Take(position_ + row, values);
      } else if (*hash != own) {
        batch_identical_ = false;
      }
    }
  }

  Result<EvalResult> Finish() {
    RETURN_IF_ERROR(std::exchange(status_, OkStatus()));
    if (npy_ != nullptr) RETURN_IF_ERROR(npy_->Finish());
    result_.nll_mean =
        result_.nll_sum / static_cast<double>(std::max<int64_t>(result_.predicted_tokens, 1));
    result_.perplexity = std::exp(result_.nll_mean);
    result_.logits_sha256 = sha_.FinishHex();
    result_.batch_identical = batch_identical_;
    return std::move(result_);
  }

 private:
  void Take(int64_t position, std::span<const float> values) {
    sha_.Update(std::as_bytes(values));
    if (npy_ != nullptr && status_.has_value()) status_ = npy_->Append(values);
    if (observer_ != nullptr) observer_->OnLogits(result_.positions, values);
    ++result_.positions;
    const auto next = static_cast<size_t>(position) + 1;
    if (next >= chunk_.size()) return;
    const Kernels::LogSumExp sum = kernels_.LogSum(values.data(), vocab_);
    const double logit = values[static_cast<size_t>(chunk_[next])];
    result_.nll_sum += static_cast<double>(sum.max) + static_cast<double>(sum.log_sum) - logit;
    ++result_.predicted_tokens;
  }

  const Kernels& kernels_;
  int64_t vocab_;
  EvalObserver* observer_;
  std::unique_ptr<NpyWriter> npy_;
  std::span<const TokenId> chunk_;
  int64_t position_ = 0;
  int64_t rows_ = 0;
  int32_t timelines_ = 1;
  std::vector<uint64_t> step_hashes_;
  bool batch_identical_ = true;
  Sha256 sha_;
  Status status_ = OkStatus();
  EvalResult result_;
};

Status CheckOptions(const Model& model, std::span<const TokenId> tokens,
                    const EvalOptions& options) {
  const auto check = [](std::string_view name, int64_t value, int64_t min, int64_t max) -> Status {
    if (value >= min && value <= max) return OkStatus();
    return InvalidArgument("eval: {} is {}; it must be in [{}, {}]", name, value, min, max);
  };
  RETURN_IF_ERROR(check("context", options.context, 1, model.config().context));
  RETURN_IF_ERROR(check("chunks", options.chunks, 0, int64_t{1} << 32));
  RETURN_IF_ERROR(check("prefill-chunk", options.prefill_chunk, 1, int64_t{1} << 30));
  RETURN_IF_ERROR(check("batch", options.batch, 1, model.max_step_rows()));
  if (tokens.empty()) return InvalidArgument("eval: the text has no tokens");
  if (options.neighbours.size() > 64) {
    return InvalidArgument("eval: {} neighbours; at most 64", options.neighbours.size());
  }
  const auto check_ids = [&](std::span<const TokenId> ids) -> Status {
    for (TokenId token : ids) {
      if (token < 0 || token >= model.config().vocab) {
        return InvalidArgument("eval: token {} is outside of the vocabulary [0, {})", token,
                               model.config().vocab);
      }
    }
    return OkStatus();
  };
  for (const auto& neighbour : options.neighbours) {
    const auto length = static_cast<int64_t>(neighbour.size());
    RETURN_IF_ERROR(check("neighbour's length", length, 1, model.config().context));
    RETURN_IF_ERROR(check_ids(neighbour));
  }
  return check_ids(tokens);
}

class Evaluator {
 public:
  Evaluator(Model& model, KvCache& cache, const EvalOptions& options, Collector& collector)
      : model_(model), cache_(cache), options_(options), collector_(collector) {}

  Status RunChunk(std::span<const TokenId> chunk) {
    const int64_t rows_a_step = RowsAStep();
    std::vector<Timeline> mains, neighbours;
    for (int32_t b = 0; b < options_.batch; ++b) {
      mains.push_back({cache_.NewSequence(), chunk, 0, rows_a_step});
    }
    for (size_t i = 0; i < options_.neighbours.size(); ++i) {
      neighbours.push_back({cache_.NewSequence(), options_.neighbours[i], 0,
                            kNeighbourRows[i % std::size(kNeighbourRows)]});
    }
    while (mains[0].left() > 0) RETURN_IF_ERROR(Step(chunk, mains, neighbours));
    return OkStatus();
  }

 private:
  /// Rows of one main sequence a step, so that all sequences of the batch fit a step.
  int64_t RowsAStep() const {
    int64_t others = 0;
    for (size_t i = 0; i < options_.neighbours.size(); ++i) {
      others += kNeighbourRows[i % std::size(kNeighbourRows)];
    }
    const int64_t room = std::max<int64_t>(1, (model_.max_step_rows() - others) / options_.batch);
    return options_.mode == EvalMode::kDecode ? 1 : std::min(options_.prefill_chunk, room);
  }

  Status AddSlice(Timeline& timeline, bool wanted) {
    const int64_t room = model_.max_step_rows() - static_cast<int64_t>(tokens_.size());
    const int64_t rows = std::min({timeline.left(), timeline.rows_a_step, room});
    if (rows <= 0) return OkStatus();
    RETURN_IF_ERROR(timeline.kv->Reserve(timeline.done + rows));
    const auto first_row = static_cast<int32_t>(tokens_.size());
    slices_.push_back({timeline.kv.get(), timeline.done, first_row, static_cast<int32_t>(rows)});
    for (int64_t i = 0; i < rows; ++i) {
      tokens_.push_back(timeline.tokens[static_cast<size_t>(timeline.done + i)]);
      if (wanted) logit_rows_.push_back(first_row + static_cast<int32_t>(i));
    }
    timeline.done += rows;
    return OkStatus();
  }

  Status Step(std::span<const TokenId> chunk, std::vector<Timeline>& mains,
              std::vector<Timeline>& neighbours) {
    tokens_.clear();
    slices_.clear();
    logit_rows_.clear();
    const int64_t position = mains[0].done;
    for (Timeline& main : mains) RETURN_IF_ERROR(AddSlice(main, true));
    for (Timeline& neighbour : neighbours) RETURN_IF_ERROR(AddSlice(neighbour, false));
    collector_.StartStep(chunk, position, mains[0].done - position, options_.batch);
    model_.Forward({tokens_, slices_, logit_rows_}, collector_);
    for (const SequenceSlice& slice : slices_) slice.kv->Commit(slice.position + slice.rows);
    return OkStatus();
  }

  Model& model_;
  KvCache& cache_;
  const EvalOptions& options_;
  Collector& collector_;
  std::vector<TokenId> tokens_;
  std::vector<SequenceSlice> slices_;
  std::vector<int32_t> logit_rows_;
};

/// Frames for all sequences of a chunk, all layers at full length.
uint64_t KvBudget(const Model& model, const EvalOptions& options, int64_t context) {
  uint64_t page_bytes = 0;
  for (const KvLayer& layer : model.kv_layers()) {
    // kv8 needs at most an f16 and a kv8 record for the page being written.
    page_bytes += RoundUp(layer.shape.f16_record_bytes(), size_t{64});
  }
  uint64_t pages = 0;
  const auto add = [&](int64_t tokens) {
    pages += static_cast<uint64_t>(CeilDiv(tokens, int64_t{kPageTokens})) + 1;
  };
  for (int32_t b = 0; b < options.batch; ++b) add(context);
  for (const auto& neighbour : options.neighbours) add(static_cast<int64_t>(neighbour.size()));
  // Records do not fill a frame exactly: a quarter more, and a frame a record size.
  return pages * page_bytes * 5 / 4 + 8 * kFrameBytes;
}

}  // namespace

Result<EvalMode> ParseEvalMode(std::string_view name) {
  if (name == "prefill") return EvalMode::kPrefill;
  if (name == "decode") return EvalMode::kDecode;
  return InvalidArgument("mode \"{}\" is not known; use prefill or decode", name);
}

Result<EvalResult> Evaluate(Model& model, const Kernels& kernels, Ledger* ledger,
                            std::span<const TokenId> tokens, const EvalOptions& options,
                            EvalObserver* observer) {
  RETURN_IF_ERROR(CheckOptions(model, tokens, options));
  const auto total = static_cast<int64_t>(tokens.size());
  const int64_t context = std::min(options.context, total);
  const int64_t whole = total / context;
  if (options.chunks > whole) {
    return InvalidArgument("eval: chunks is {}; the text has {} tokens, {} chunks of {}",
                           options.chunks, total, whole, context);
  }
  const int64_t chunks = options.chunks > 0 ? options.chunks : whole;

  ASSIGN_OR_RETURN(std::unique_ptr<FrameArena> arena,
                   FrameArena::Create(KvBudget(model, options, context), ledger));
  ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache,
                   KvCache::Create(model.kv_layers(), options.kv_dtype, arena.get()));
  Collector collector(kernels, model.config().vocab, observer);
  if (!options.save_logits.empty()) {
    RETURN_IF_ERROR(collector.OpenNpy(options.save_logits, chunks * context));
  }
  Evaluator evaluator(model, *cache, options, collector);
  for (int64_t i = 0; i < chunks; ++i) {
    RETURN_IF_ERROR(evaluator.RunChunk(
        tokens.subspan(static_cast<size_t>(i * context), static_cast<size_t>(context))));
  }
  return collector.Finish();
}

}  // namespace ballast
