// Role: see golden_support.h.
#include "golden_support.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace ballast::golden {
namespace {

/// Reads fields in order; `ok` turns false at the first one that does not fit.
class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string Take(size_t size) {
    if (!ok_ || size > bytes_.size() - at_) {
      ok_ = false;
      return {};
    }
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  uint32_t U32() {
    const std::string raw = Take(4);
    uint32_t value = 0;
    if (ok_) std::memcpy(&value, raw.data(), 4);
    return value;
  }
  std::string Padded() {
    const uint32_t size = U32();
    std::string text = Take(size);
    Take((4 - size % 4) % 4);
    return text;
  }
  template <class T>
  std::vector<T> Array(size_t count) {
    const std::string raw = Take(count * sizeof(T));
    std::vector<T> values(ok_ ? count : 0);
    if (ok_) std::memcpy(values.data(), raw.data(), raw.size());
    return values;
  }
  bool done() const { return ok_ && at_ == bytes_.size(); }

 private:
  std::string bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

/// KL and top-1 of every position against the stored top tokens.
class GoldenObserver final : public EvalObserver {
 public:
  GoldenObserver(const Golden& gold, int64_t first, int64_t last)
      : gold_(gold), first_(first), last_(last) {}

  void OnLogits(int64_t position, std::span<const float> logits) override {
    if (position < first_ || position > last_) return;
    const float max = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
    const double log_sum = std::log(sum) + max;
    const auto top = static_cast<size_t>(gold_.top);
    const size_t base = static_cast<size_t>(position) * top;
    double kl = 0, named = 0;
    for (size_t i = 0; i < top; ++i) {
      const double reference = gold_.top_logprobs[base + i];
      const double own = logits[static_cast<size_t>(gold_.top_ids[base + i])] - log_sum;
      kl += std::exp(reference) * (reference - own);
      named += std::exp(own);
    }
    const double tail = gold_.tail[static_cast<size_t>(position)];
    if (tail > 0 && named < 1) kl += tail * std::log(tail / (1 - named));
    kls_.push_back(kl);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    if (best == gold_.top_ids[base]) ++same_;
    const TokenId next = gold_.tokens[static_cast<size_t>(position) + 1];
    nll_ += log_sum - logits[static_cast<size_t>(next)];
    reference_nll_ += gold_.nll[static_cast<size_t>(position)];
  }

  Closeness Finish() {
    Closeness result;
    const auto n = static_cast<double>(kls_.size());
    for (double kl : kls_) result.kl_mean += kl / n;
    std::sort(kls_.begin(), kls_.end());
    result.kl_p99 = kls_[static_cast<size_t>(0.99 * (n - 1))];
    result.top1 = same_ / n;
    result.perplexity = std::exp(nll_ / n);
    result.reference_perplexity = std::exp(reference_nll_ / n);
    return result;
  }

 private:
  const Golden& gold_;
  int64_t first_, last_;
  std::vector<double> kls_;
  double same_ = 0, nll_ = 0, reference_nll_ = 0;
};

}  // namespace

Result<Golden> ReadGolden(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("cannot open '{}'", path);
  Reader reader(std::string(std::istreambuf_iterator<char>(file), {}));
  if (reader.Take(8) != "BLGOLD01") return DataLoss("'{}': not a golden file", path);
  reader.Take(32);
  Golden gold;
  gold.model = reader.Padded();
  gold.text = reader.Padded();
  gold.vocab = static_cast<int32_t>(reader.U32());
  gold.positions = static_cast<int32_t>(reader.U32());
  gold.top = static_cast<int32_t>(reader.U32());
  const auto n = static_cast<size_t>(gold.positions), k = static_cast<size_t>(gold.top);
  gold.tokens = reader.Array<TokenId>(n + 1);
  gold.top_ids = reader.Array<int32_t>(n * k);
  gold.top_logprobs = reader.Array<float>(n * k);
  gold.nll = reader.Array<float>(n);
  gold.tail = reader.Array<float>(n);
  if (!reader.done()) return DataLoss("'{}': truncated or too long", path);
  return gold;
}

std::string GoldenDir() { return std::string(BALLAST_SOURCE_DIR) + "/tests/golden"; }

std::optional<std::string> FindModel(const std::string& name) {
  const char* home = std::getenv("BALLAST_HOME");
  const char* user = std::getenv("HOME");
  std::string path = home != nullptr   ? std::string(home)
                     : user != nullptr ? std::string(user) + "/.cache/ballast"
                                       : std::string(".");
  path += "/models/" + name + ".gguf";
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

Isa TestIsa() {
  if (const char* name = std::getenv("BALLAST_TEST_ISA"); name != nullptr) {
    auto isa = ParseIsa(name);
    if (isa.has_value() && IsaSupported(*isa)) return *isa;
  }
  return *BestIsa();
}

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas;
  for (Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (IsaSupported(isa)) isas.push_back(isa);
  }
  return isas;
}

Result<LoadedModel> Load(const std::string& path, Isa isa, int threads,
                         const ModelOptions& options) {
  LoadedModel loaded;
  loaded.options = options;
  loaded.pool = std::make_unique<ThreadPool>(threads);
  loaded.ledger = std::make_unique<Ledger>(0);
  ASSIGN_OR_RETURN(Kernels kernels, Kernels::Create(isa, *loaded.pool));
  loaded.kernels = std::make_unique<Kernels>(kernels);
  ASSIGN_OR_RETURN(loaded.model, LoadModel(path, options, *loaded.kernels, loaded.ledger.get()));
  return loaded;
}

Result<EvalResult> LoadedModel::Eval(std::span<const TokenId> tokens, EvalOptions eval,
                                     EvalObserver* observer) {
  eval.kv_dtype = options.kv_dtype;
  return Evaluate(*model, *kernels, ledger.get(), tokens, eval, observer);
}

Result<Closeness> CompareWithGolden(LoadedModel& loaded, const Golden& gold, int64_t first,
                                    int64_t last) {
  GoldenObserver observer(gold, first, last);
  EvalOptions eval;
  eval.context = gold.positions;
  const std::span<const TokenId> tokens(gold.tokens.data(), static_cast<size_t>(gold.positions));
  ASSIGN_OR_RETURN(EvalResult result, loaded.Eval(tokens, eval, &observer));
  if (result.positions <= last) return Internal("only {} positions", result.positions);
  return observer.Finish();
}

}  // namespace ballast::golden
