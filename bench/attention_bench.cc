// Measures attention, KV records and row operations on the best ISA (or BALLAST_ISA=avx2 …), beside
// the machine's own FMA peak, so that shares of the peak survive a busy machine. Use:
// attention_bench --benchmark_filter=Prefill; the first argument is always the thread count.
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "kernels/kernels.h"
#include "kernels/target.h"
#include "platform/huge_buffer.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX512)
namespace ballast {
namespace {
/// 16 chains of zmm FMA: returns flops done.
double BurnFma512(int64_t rounds) {
  __m512 acc[16];
  for (int i = 0; i < 16; ++i) acc[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (int64_t r = 0; r < rounds; ++r) {
    for (int i = 0; i < 16; ++i) acc[i] = _mm512_fmadd_ps(acc[i], a, b);
  }
  for (int i = 0; i < 16; ++i) benchmark::DoNotOptimize(acc[i]);
  return static_cast<double>(rounds) * 16 * 16 * 2;
}
}  // namespace
}  // namespace ballast
KERNEL_END

namespace ballast {
namespace {

Isa BenchIsa() {
  const char* name = std::getenv("BALLAST_ISA");
  return name != nullptr ? ParseIsa(name).value() : BestIsa().value();
}

struct Shape {
  int32_t heads, kv_heads, head_dim, window;
};
constexpr Shape kShapes[] = {{9, 3, 64, 0}, {14, 2, 64, 0}, {12, 2, 128, 0}, {4, 1, 256, 512}};

/// `sequences` sequences with `tokens` tokens of random KV each.
class Fixture {
 public:
  Fixture(int threads, const Shape& shape, int64_t tokens, int64_t rows, int sequences, bool kv8)
      : pool_(threads), kernels_(Kernels::Create(BenchIsa(), pool_).value()), rows_(rows) {
    shape_.heads = shape.heads;
    shape_.kv = {shape.kv_heads, shape.head_dim};
    shape_.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
    shape_.window = shape.window;
    const int64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
    const size_t bytes = kv8 ? shape_.kv.kv8_record_bytes() : shape_.kv.f16_record_bytes();
    kv_ = HugeBuffer::Allocate(bytes * static_cast<size_t>(pages) * static_cast<size_t>(sequences))
              .value();
    FillKv(kv8, bytes, pages * sequences);
    const int64_t width = int64_t{shape.heads} * shape.head_dim;
    q_.resize(static_cast<size_t>(width * rows * sequences));
    out_.resize(q_.size());
    Rng rng(2);
    for (float& x : q_) x = rng.Uniform() * 2 - 1;
    types_.assign(static_cast<size_t>(pages), kv8 ? KvDType::kKv8 : KvDType::kF16);
    for (int64_t i = 0; i < pages * sequences; ++i) {
      pages_.push_back(kv_.data() + static_cast<size_t>(i) * bytes);
    }
    for (int s = 0; s < sequences; ++s) {
      AttentionTask task;
      task.q = q_.data() + s * rows * width;
      task.out = out_.data() + s * rows * width;
      task.q_stride = task.out_stride = width;
      task.rows = static_cast<int32_t>(rows);
      task.first_position = tokens - rows;
      task.pages = pages_.data() + s * pages;
      task.page_types = types_.data();
      tasks_.push_back(task);
    }
  }

  void Run() { kernels_.Attention(tasks_, shape_); }

  /// Keys seen by all rows of a sequence.
  double Keys() const {
    double keys = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t seen = tasks_[0].first_position + row + 1;
      keys +=
          static_cast<double>(shape_.window > 0 ? std::min<int64_t>(seen, shape_.window) : seen);
    }
    return keys;
  }

 private:
  void FillKv(bool kv8, size_t bytes, int64_t pages) {
    const int64_t width = int64_t{shape_.kv.kv_heads} * shape_.kv.head_dim;
    std::vector<float> k(static_cast<size_t>(width * kPageTokens)), v(k.size());
    const HugeBuffer f16 = HugeBuffer::Allocate(shape_.kv.f16_record_bytes()).value();
    Rng rng(1);
    for (int64_t page = 0; page < pages; ++page) {
      std::byte* record = kv_.data() + static_cast<size_t>(page) * bytes;
      if (page >= 8) {
        std::memcpy(record, kv_.data() + static_cast<size_t>(page % 8) * bytes, bytes);
        continue;
      }
      for (float& x : k) x = rng.Uniform() * 2 - 1;
      for (float& x : v) x = rng.Uniform() * 2 - 1;
      std::byte* target = kv8 ? f16.data() : record;
      kernels_.WriteKv(k.data(), v.data(), width, kPageTokens, 0, shape_.kv, &target);
      if (kv8) kernels_.SealKv8(f16.data(), shape_.kv, record);
    }
  }

  ThreadPool pool_;
  Kernels kernels_;
  int64_t rows_;
  AttentionShape shape_;
  HugeBuffer kv_;
  std::vector<float> q_, out_;
  std::vector<std::byte*> pages_;
  std::vector<KvDType> types_;
  std::vector<AttentionTask> tasks_;
};

void FmaPeak(benchmark::State& state) {
  if (!IsaSupported(Isa::kAvx512)) return state.SkipWithError("needs AVX-512");
  double flops = 0;
  for (auto _ : state) flops += BurnFma512(20000);
  state.counters["GFLOP/s"] = benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsRate);
}
BENCHMARK(FmaPeak);

/// threads, shape, rows, depth before them, kv8.
void Prefill(benchmark::State& state) {
  const Shape& shape = kShapes[state.range(1)];
  const int64_t rows = state.range(2), tokens = rows + state.range(3);
  Fixture fixture(static_cast<int>(state.range(0)), shape, tokens, rows, 1, state.range(4) != 0);
  double keys = 0;
  for (auto _ : state) {
    fixture.Run();
    keys += fixture.Keys();
  }
  const double scores = keys * shape.heads;
  state.counters["GFLOP/s"] =
      benchmark::Counter(scores * shape.head_dim * 4e-9, benchmark::Counter::kIsRate);
  state.counters["ns/score"] =
      benchmark::Counter(scores * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(Prefill)
    ->ArgsProduct({{1, 2}, {0, 1, 2, 3}, {512}, {0, 1536}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

/// threads, shape, depth, sequences, kv8.
void Decode(benchmark::State& state) {
  const Shape& shape = kShapes[state.range(1)];
  const int sequences = static_cast<int>(state.range(3));
  const bool kv8 = state.range(4) != 0;
  Fixture fixture(static_cast<int>(state.range(0)), shape, state.range(2), 1, sequences, kv8);
  double keys = 0;
  for (auto _ : state) {
    fixture.Run();
    keys += fixture.Keys() * sequences;
  }
  const double bytes = keys * shape.kv_heads * shape.head_dim * 2 * (kv8 ? 1 : 2);
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsRate);
  state.counters["Gkeys/s"] = benchmark::Counter(keys * 1e-9, benchmark::Counter::kIsRate);
}
BENCHMARK(Decode)
    ->ArgsProduct({{1, 2}, {0, 1, 2, 3}, {4096}, {1, 32}, {0, 1}})
    ->Args({1, 1, 32768, 1, 0})
    ->Args({1, 1, 32768, 1, 1})
    ->Args({2, 1, 300, 1, 0})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

/// rows, n.
void Gated(benchmark::State& state) {
  ThreadPool pool(1);
  const Kernels kernels = Kernels::Create(BenchIsa(), pool).value();
  const int64_t n = state.range(0) * state.range(1);
  std::vector<float> gate(static_cast<size_t>(n), 0.5f), up(gate.size(), 0.25f), y(gate.size());
  for (auto _ : state) {
    kernels.GatedActivation(Activation::kSilu, gate.data(), up.data(), state.range(0),
                            state.range(1), y.data());
  }
}
BENCHMARK(Gated)->Args({1, 1536})->Args({1, 8960});

void Norm(benchmark::State& state) {
  ThreadPool pool(1);
  const Kernels kernels = Kernels::Create(BenchIsa(), pool).value();
  const int64_t n = state.range(0);
  std::vector<float> x(static_cast<size_t>(n), 0.5f), w(x.size(), 0.25f), y(x.size());
  for (auto _ : state) kernels.RmsNorm(x.data(), w.data(), 1e-5f, 1, n, y.data());
}
BENCHMARK(Norm)->Arg(576)->Arg(1536);

/// What a sampler does over a vocabulary: top 40 and log-sum.
void Sample(benchmark::State& state) {
  ThreadPool pool(1);
  const Kernels kernels = Kernels::Create(BenchIsa(), pool).value();
  std::vector<float> x(static_cast<size_t>(state.range(0)));
  Rng rng(1);
  for (float& v : x) v = rng.Uniform() * 20;
  int32_t ids[40];
  float values[40], sum = 0;
  for (auto _ : state) {
    kernels.TopK(x.data(), state.range(0), 40, ids, values);
    sum += kernels.LogSum(x.data(), state.range(0)).log_sum;
  }
  benchmark::DoNotOptimize(sum);
}
BENCHMARK(Sample)->Arg(49152)->Arg(151936);

/// shape, rows: K and V of `rows` tokens into their records.
void WriteKv(benchmark::State& state) {
  ThreadPool pool(1);
  const Kernels kernels = Kernels::Create(BenchIsa(), pool).value();
  const Shape& shape = kShapes[state.range(0)];
  const KvShape kv{shape.kv_heads, shape.head_dim};
  const int64_t rows = state.range(1), width = int64_t{kv.kv_heads} * kv.head_dim;
  std::vector<float> k(static_cast<size_t>(rows * width), 0.5f), v(k.size(), 0.25f);
  const int64_t count = (rows + kPageTokens - 1) / kPageTokens;
  const HugeBuffer records =
      HugeBuffer::Allocate(static_cast<size_t>(count) * kv.f16_record_bytes()).value();
  std::vector<std::byte*> pages;
  for (int64_t i = 0; i < count; ++i) {
    pages.push_back(records.data() + static_cast<size_t>(i) * kv.f16_record_bytes());
  }
  for (auto _ : state) kernels.WriteKv(k.data(), v.data(), width, rows, 0, kv, pages.data());
}
BENCHMARK(WriteKv)->Args({0, 1})->Args({0, 512})->Args({2, 512});

void SealKv8(benchmark::State& state) {
  ThreadPool pool(1);
  const Kernels kernels = Kernels::Create(BenchIsa(), pool).value();
  const KvShape kv{kShapes[state.range(0)].kv_heads, kShapes[state.range(0)].head_dim};
  const HugeBuffer f16 = HugeBuffer::Allocate(kv.f16_record_bytes()).value();
  const HugeBuffer kv8 = HugeBuffer::Allocate(kv.kv8_record_bytes()).value();
  Rng rng(1);
  std::vector<float> k(static_cast<size_t>(kv.kv_heads * kv.head_dim * kPageTokens));
  for (float& x : k) x = rng.Uniform();
  std::byte* page = f16.data();
  kernels.WriteKv(k.data(), k.data(), kv.kv_heads * kv.head_dim, kPageTokens, 0, kv, &page);
  for (auto _ : state) kernels.SealKv8(f16.data(), kv, kv8.data());
}
BENCHMARK(SealKv8)->Arg(0)->Arg(2);

void MakeRopeTable(benchmark::State& state) {
  for (auto _ : state) {
    const RopeTable table(64, 10000.0, 1.0, {}, state.range(0));
    benchmark::DoNotOptimize(table.Row(1));
  }
}
BENCHMARK(MakeRopeTable)->Arg(8192)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace ballast

BENCHMARK_MAIN();
