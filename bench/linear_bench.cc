// Linear layers on this machine: decode in GB/s of packed weights over a working set far beyond the
// caches, prefill in GOP/s, rounding in µs a row; per type, rounding, ISA, batch and threads.
// Compare with the two peaks that the first entries print.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "kernels/linear.h"
#include "kernels/linear_peak.h"
#include "kernels/linear_testing.h"

namespace ballast {
namespace {

ThreadPool& Pool(int threads) {
  static std::map<int, std::unique_ptr<ThreadPool>> pools;
  auto& pool = pools[threads];
  if (pool == nullptr) pool = std::make_unique<ThreadPool>(threads);
  return *pool;
}

/// Copies of one random matrix end to end in huge pages.
class WeightSet {
 public:
  WeightSet(DType type, int rows, int cols, size_t total_bytes) {
    Rng rng(1);
    const auto one =
        linear_testing::MakeMatrix(type, rows, cols, rng, linear_testing::Corner::kOrdinary);
    const size_t bytes = one.packed.bytes();
    const size_t count = std::max<size_t>(1, total_bytes / bytes);
    memory_ = std::move(HugeBuffer::Allocate(count * bytes + 4096).value());
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(memory_.data() + i * bytes, one.packed.data, bytes);
      matrices_.push_back(one.packed);
      matrices_.back().data = memory_.data() + i * bytes;
    }
  }
  const std::vector<PackedMatrix>& matrices() const { return matrices_; }

 private:
  HugeBuffer memory_;
  std::vector<PackedMatrix> matrices_;
};

struct Case {
  Isa isa;
  DType type;
  ActRounding rounding;
  int m, rows, cols, threads;
  size_t total_bytes;
};

void RunCase(benchmark::State& state, const Case& c) {
  const WeightSet weights(c.type, c.rows, c.cols, c.total_bytes);
  Rng rng(2);
  const std::vector<float> x =
      linear_testing::MakeInput(c.m, c.cols, rng, linear_testing::Corner::kOrdinary);
  std::vector<float> y(static_cast<size_t>(c.m) * static_cast<size_t>(c.rows));
  ThreadPool& pool = Pool(c.threads);
  const LinearTable& table = LinearTableFor(c.isa);
  RoundedRows rounded;
  RoundRows(table, pool, x.data(), c.cols, c.m, c.cols, c.rounding, &rounded);
  for (auto _ : state) {
    for (const PackedMatrix& w : weights.matrices()) {
      MatmulTask task;
      task.weight = &w;
      task.y = y.data();
      task.y_stride = c.rows;
      MultiplyRows(table, pool, {&task, 1}, rounded);
    }
  }
  const auto count = static_cast<double>(weights.matrices().size());
  const double bytes = static_cast<double>(weights.matrices()[0].bytes()) * count;
  const double operations = 2.0 * c.m * c.rows * c.cols * count;
  state.counters["GB/s"] =
      benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GOP/s"] =
      benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void RunRounding(benchmark::State& state, Isa isa, ActRounding rounding, int m, int cols) {
  Rng rng(3);
  const std::vector<float> x =
      linear_testing::MakeInput(m, cols, rng, linear_testing::Corner::kOrdinary);
  RoundedRows rounded;
  for (auto _ : state) {
    RoundRows(LinearTableFor(isa), Pool(1), x.data(), cols, m, cols, rounding, &rounded);
  }
  state.counters["us/row"] = benchmark::Counter(
      1e-6 * m, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

std::string Name(const char* what, const Case& c) {
  return fmt::format("{}/{}/{}/r{}/m{}/{}x{}/t{}", what, IsaName(c.isa), DTypeName(c.type),
                     static_cast<int>(c.rounding), c.m, c.rows, c.cols, c.threads);
}

void Register(const char* what, const Case& c) {
  benchmark::RegisterBenchmark(Name(what, c).c_str(),
                               [c](benchmark::State& state) { RunCase(state, c); })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

std::vector<ActRounding> Roundings(DType type) {
  if (IsFloat(type)) return {ActRounding::kFloat};
  if (type == DType::kQ4_0 || type == DType::kQ4_1) {
    return {ActRounding::kInt8, ActRounding::kInt12, ActRounding::kInt16};
  }
  return {ActRounding::kInt8, ActRounding::kInt16};
}

void RegisterPeaks() {
  for (const int threads : {1, 2}) {
    benchmark::RegisterBenchmark(fmt::format("peak/read/t{}", threads).c_str(),
                                 [threads](benchmark::State& state) {
                                   double best = 0;
                                   for (auto _ : state) {
                                     best = std::max(
                                         best, MeasureReadBandwidth(Pool(threads)).value_or(0.0));
                                   }
                                   state.counters["GB/s"] = best * 1e-9;
                                 })
        ->Iterations(3);
    for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
      if (!IsaSupported(isa)) continue;
      benchmark::RegisterBenchmark(fmt::format("peak/int8/{}/t{}", IsaName(isa), threads).c_str(),
                                   [isa, threads](benchmark::State& state) {
                                     double best = 0;
                                     for (auto _ : state)
                                       best = std::max(best, MeasureInt8Peak(isa, Pool(threads)));
                                     state.counters["GOP/s"] = best * 1e-9;
                                   })
          ->Iterations(3);
    }
  }
}

void RegisterAll() {
  RegisterPeaks();
  for (const Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (!IsaSupported(isa)) continue;
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto type = static_cast<DType>(i);
      for (const ActRounding rounding : Roundings(type)) {
        for (const int threads : {1, 2}) {
          for (const int m : {1, 2, 4, 8, 16}) {
            Register("decode", {isa, type, rounding, m, 4096, 1536, threads, size_t{640} << 20});
          }
          // The same from L2: what the instructions alone cost.
          Register("cached", {isa, type, rounding, 8, 512, 1536, threads, 1});
          for (const int m : {1, 8}) {
            Register("layer", {isa, type, rounding, m, 1536, 768, threads, size_t{640} << 20});
          }
          for (const int m : {16, 64, 512}) {
            Register("prefill", {isa, type, rounding, m, 576, 1536, threads, 8 << 20});
          }
          Register("prefill", {isa, type, rounding, 512, 1536, 768, threads, 8 << 20});
          Register("prefill", {isa, type, rounding, 512, 1536, 8960, threads, 32 << 20});
        }
      }
    }
    for (const ActRounding rounding :
         {ActRounding::kInt8, ActRounding::kInt12, ActRounding::kInt16}) {
      for (const int m : {1, 16}) {
        benchmark::RegisterBenchmark(
            fmt::format("round/{}/r{}/m{}", IsaName(isa), static_cast<int>(rounding), m).c_str(),
            [=](benchmark::State& state) { RunRounding(state, isa, rounding, m, 1536); });
      }
    }
  }
}

}  // namespace
}  // namespace ballast

int main(int argc, char** argv) {
  ballast::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
