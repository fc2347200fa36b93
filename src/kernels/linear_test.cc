// Tests of linear layers: the reference against a binary64 oracle, and every body of this CPU
// against the reference, bit for bit, over types, roundings, shapes, batches, threads and corners.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "kernels/linear_testing.h"

namespace ballast {
namespace {

using linear_testing::Corner;
using linear_testing::MakeInput;
using linear_testing::MakeMatrix;
using linear_testing::TestMatrix;

constexpr Corner kCorners[] = {Corner::kOrdinary, Corner::kLargest,      Corner::kSubnormal,
                               Corner::kZeros,    Corner::kExtremeCodes, Corner::kMixed};

std::vector<DType> AllTypes() {
  std::vector<DType> types;
  for (int i = 0; i < kDTypeCount; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

std::vector<ActRounding> ValidRoundings(DType type) {
  if (IsFloat(type)) return {ActRounding::kFloat};
  return {ActRounding::kInt8, ActRounding::kInt12, ActRounding::kInt16};
}

std::vector<Isa> OtherIsas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (IsaSupported(isa)) isas.push_back(isa);
  }
  return isas;
}

bool SameBits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

/// One fused call in every option: several weights, bias, residual that aliases y.
struct Call {
  std::vector<TestMatrix> weights;
  std::vector<float> bias;
  int64_t m = 1;
  std::vector<float> x;
  ActRounding rounding = ActRounding::kInt8;

  std::vector<std::vector<float>> Run(Isa isa, int threads) const {
    return Run(isa, threads, x.data(), m);
  }
  std::vector<std::vector<float>> Run(Isa isa, int threads, const float* input,
                                      int64_t rows) const {
    ThreadPool pool(threads);
    const int64_t cols = weights[0].packed.cols;
    RoundedRows rounded;
    RoundRows(LinearTableFor(isa), pool, input, cols, rows, cols, rounding, &rounded);
    std::vector<std::vector<float>> y;
    for (const TestMatrix& w : weights) {
      // Values in y stand for the residual of the odd tasks; row 0 of x repeats, so that they
      // depend on the row's contents and not on its index.
      y.emplace_back(static_cast<size_t>(rows * (w.packed.rows + 3)), 0.25f);
    }
    std::vector<MatmulTask> tasks(weights.size());
    for (size_t i = 0; i < tasks.size(); ++i) {
      tasks[i].weight = &weights[i].packed;
      tasks[i].y = y[i].data();
      tasks[i].y_stride = weights[i].packed.rows + 3;
      if (i % 2 == 1) tasks[i].residual = y[i].data();
      if (i % 3 == 1) tasks[i].bias = bias.data();
    }
    MultiplyRows(LinearTableFor(isa), pool, tasks, rounded);
    return y;
  }
};

Call MakeCall(DType type, ActRounding rounding, int64_t m, int rows, int cols, int tasks,
              Corner weights, Corner input, Rng& rng) {
  Call call;
  call.m = m;
  call.rounding = rounding;
  for (int i = 0; i < tasks; ++i) {
    const int task_rows = i == 0 ? rows : 1 + static_cast<int>(rng.Below(40));
    call.weights.push_back(MakeMatrix(type, task_rows, cols, rng, weights));
  }
  call.bias.resize(static_cast<size_t>(rows + 64), 0.0f);
  for (float& b : call.bias) b = rng.Uniform();
  call.x = MakeInput(m, cols, rng, input);
  return call;
}

void ExpectEqual(const std::vector<std::vector<float>>& want,
                 const std::vector<std::vector<float>>& got, const std::string& what) {
  int shown = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    for (size_t j = 0; j < want[i].size(); ++j) {
      if (SameBits(want[i][j], got[i][j]) || ++shown > 4) continue;
      ADD_FAILURE() << what << " task " << i << " index " << j << ": " << want[i][j] << " ("
                    << std::bit_cast<uint32_t>(want[i][j]) << ") vs " << got[i][j] << " ("
                    << std::bit_cast<uint32_t>(got[i][j]) << ")";
    }
  }
}

std::string Describe(DType type, ActRounding rounding, int64_t m, int rows, int cols, Isa isa) {
  return fmt::format("{} {} rounding {} m {} rows {} cols {}", IsaName(isa), DTypeName(type),
                     static_cast<int>(rounding), m, rows, cols);
}

int RandomCols(DType type, Rng& rng) {
  if (IsFloat(type)) return 1 + static_cast<int>(rng.Below(300));
  if (Unit(type).columns == 256) return 256 * (1 + static_cast<int>(rng.Below(4)));
  return kGroup * (1 + static_cast<int>(rng.Below(40)));
}

// ---- The reference against binary64 ----

TEST(LinearRef, RoundingIsWithinHalfAStep) {
  Rng rng(1);
  ThreadPool pool(1);
  for (const ActRounding rounding :
       {ActRounding::kInt8, ActRounding::kInt12, ActRounding::kInt16}) {
    for (const int64_t cols : {32, 288, 576}) {
      const std::vector<float> x = MakeInput(19, cols, rng, Corner::kOrdinary);
      RoundedRows rounded;
      RoundRows(kLinearRef, pool, x.data(), cols, 19, cols, rounding, &rounded);
      const RoundedRows::Impl& impl = rounded.impl();
      const int radix = rounding == ActRounding::kInt12 ? 16 : 256;
      for (int64_t row = 0; row < 19; ++row) {
        const int64_t first = row / 16 * 16, t = row - first;
        const int n = impl.BlockRows(first);
        for (int64_t k = 0; k < impl.groups * kGroup; ++k) {
          const int64_t g = k / kGroup;
          const auto* codes = reinterpret_cast<const int8_t*>(impl.codes + first * impl.code_bytes +
                                                              (g * n + t) * impl.group_bytes());
          const int64_t scale_index = impl.wide() ? g / kBlockGroups : g;
          const double scale = impl.scale[first * impl.scales + scale_index * n + t];
          const double a = impl.wide() ? radix * codes[k % 32] + codes[32 + k % 32] : codes[k % 32];
          const double want = k < cols ? x[static_cast<size_t>(row * cols + k)] : 0.0;
          ASSERT_NEAR(want, scale * a, scale * 0.51) << "row " << row << " k " << k;
        }
      }
    }
  }
}

TEST(LinearRef, MatchesBinary64) {
  Rng rng(2);
  for (const DType type : AllTypes()) {
    for (const ActRounding rounding : ValidRoundings(type)) {
      const int rows = 37, cols = Unit(type).columns == 256 ? 512 : 480;
      const Call call =
          MakeCall(type, rounding, 3, rows, cols, 2, Corner::kOrdinary, Corner::kOrdinary, rng);
      const auto y = call.Run(Isa::kRef, 1);
      // int8 loses up to half a step of 1/127 an input, the wide ones 1/2039 and 1/32639.
      const double step = rounding == ActRounding::kInt8    ? 0.5 / 127
                          : rounding == ActRounding::kInt12 ? 0.5 / 2039
                          : rounding == ActRounding::kInt16 ? 0.5 / 32639
                                                            : 0;
      for (size_t i = 0; i < 2; ++i) {
        const TestMatrix& w = call.weights[i];
        for (int64_t m = 0; m < 3; ++m) {
          for (int r = 0; r < w.packed.rows; ++r) {
            double want =
                i == 1 ? static_cast<double>(call.bias[static_cast<size_t>(r)]) + 0.25 : 0;
            double weight_sum = 0, product_sum = 0;
            for (int k = 0; k < cols; ++k) {
              const double value = w.value[static_cast<size_t>(r * cols + k)];
              const double x = call.x[static_cast<size_t>(m * cols + k)];
              want += value * x;
              weight_sum += std::fabs(value);
              product_sum += std::fabs(value * x);
            }
            const double got = y[i][static_cast<size_t>(m * (w.packed.rows + 3) + r)];
            // Rounding errors are independent: far below their sum, far above a wrong code's.
            ASSERT_NEAR(want, got, 1e-6 + 1e-5 * product_sum + 0.2 * step * weight_sum)
                << Describe(type, rounding, 3, w.packed.rows, cols, Isa::kRef) << " r " << r;
          }
        }
      }
    }
  }
}

TEST(LinearRef, DequantizedRowIsTheWeight) {
  Rng rng(3);
  for (const DType type : AllTypes()) {
    const int cols = Unit(type).columns == 256 ? 512 : 96;
    const TestMatrix w = MakeMatrix(type, 21, cols, rng, Corner::kOrdinary);
    std::vector<float> row(static_cast<size_t>(cols));
    for (int r = 0; r < 21; ++r) {
      kLinearRef.dequantize_row(w.packed, r, row.data());
      for (int k = 0; k < cols; ++k) {
        const double want = w.value[static_cast<size_t>(r * cols + k)];
        ASSERT_FLOAT_EQ(static_cast<float>(want), row[static_cast<size_t>(k)])
            << DTypeName(type) << " r " << r << " k " << k;
      }
    }
  }
}

// ---- Every body against the reference ----

class LinearBodies : public testing::TestWithParam<DType> {};

TEST_P(LinearBodies, RoundsLikeTheReference) {
  Rng rng(10 + static_cast<uint64_t>(GetParam()));
  for (const ActRounding rounding : ValidRoundings(GetParam())) {
    for (const Corner corner : kCorners) {
      const int64_t rows = 1 + static_cast<int64_t>(rng.Below(40));
      const int64_t cols = RandomCols(GetParam(), rng);
      const std::vector<float> x = MakeInput(rows, cols, rng, corner);
      ThreadPool pool(2);
      RoundedRows want;
      RoundRows(kLinearRef, pool, x.data(), cols, rows, cols, rounding, &want);
      for (const Isa isa : OtherIsas()) {
        RoundedRows got;
        // Reuse of a larger buffer must not leave stale padding behind.
        const std::vector<float> noise = MakeInput(rows + 3, cols + 320, rng, Corner::kOrdinary);
        RoundRows(LinearTableFor(isa), pool, noise.data(), cols + 320, rows + 3, cols + 320,
                  rounding, &got);
        RoundRows(LinearTableFor(isa), pool, x.data(), cols, rows, cols, rounding, &got);
        const RoundedRows::Impl &a = want.impl(), &b = got.impl();
        EXPECT_EQ(0, std::memcmp(a.codes, b.codes, static_cast<size_t>(rows * a.code_bytes)));
        EXPECT_EQ(0, std::memcmp(a.scale, b.scale, static_cast<size_t>(rows * a.scales * 4)));
        if (rounding == ActRounding::kFloat) continue;
        EXPECT_EQ(0, std::memcmp(a.u, b.u, static_cast<size_t>(rows * a.groups * 4)));
        EXPECT_EQ(0, std::memcmp(a.parts, b.parts, static_cast<size_t>(rows * a.groups * 16)));
        EXPECT_EQ(0, std::memcmp(a.asum, b.asum, static_cast<size_t>(rows * a.groups * 4)));
      }
    }
  }
}

TEST_P(LinearBodies, EqualReferenceForEveryBatch) {
  const DType type = GetParam();
  Rng rng(100 + static_cast<uint64_t>(type));
  for (const ActRounding rounding : ValidRoundings(type)) {
    for (const int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100}) {
      const Corner weights = kCorners[rng.Below(6)], input = kCorners[rng.Below(6)];
      const int rows = 1 + static_cast<int>(rng.Below(70)), cols = RandomCols(type, rng);
      const Call call = MakeCall(type, rounding, m, rows, cols, 1 + static_cast<int>(rng.Below(3)),
                                 weights, input, rng);
      const auto want = call.Run(Isa::kRef, 2);
      for (const Isa isa : OtherIsas()) {
        const auto got = call.Run(isa, 1 + static_cast<int>(rng.Below(3)));
        ExpectEqual(want, got, Describe(type, rounding, m, rows, cols, isa));
      }
    }
  }
}

TEST_P(LinearBodies, EqualReferenceInEveryCorner) {
  const DType type = GetParam();
  Rng rng(200 + static_cast<uint64_t>(type));
  for (const ActRounding rounding : ValidRoundings(type)) {
    for (const Corner weights : kCorners) {
      for (const Corner input : kCorners) {
        const int64_t m = std::vector<int64_t>{1, 3, 16, 20}[rng.Below(4)];
        const int rows = 1 + static_cast<int>(rng.Below(33)), cols = RandomCols(type, rng);
        const Call call = MakeCall(type, rounding, m, rows, cols, 2, weights, input, rng);
        const auto want = call.Run(Isa::kRef, 1);
        for (const Isa isa : OtherIsas()) {
          ExpectEqual(want, call.Run(isa, 2), Describe(type, rounding, m, rows, cols, isa));
        }
      }
    }
  }
}

TEST_P(LinearBodies, EqualReferenceForWideShapes) {
  const DType type = GetParam();
  Rng rng(300 + static_cast<uint64_t>(type));
  for (const ActRounding rounding : ValidRoundings(type)) {
    for (const int cols : {1536, 8960}) {
      const int64_t m = cols == 1536 ? 33 : 2;
      const Call call =
          MakeCall(type, rounding, m, 40, cols, 1, Corner::kOrdinary, Corner::kMixed, rng);
      const auto want = call.Run(Isa::kRef, 2);
      for (const Isa isa : OtherIsas()) {
        ExpectEqual(want, call.Run(isa, 2), Describe(type, rounding, m, 40, cols, isa));
      }
    }
  }
}

TEST_P(LinearBodies, RowDoesNotDependOnItsBatch) {
  const DType type = GetParam();
  Rng rng(400 + static_cast<uint64_t>(type));
  std::vector<Isa> isas = OtherIsas();
  isas.push_back(Isa::kRef);
  for (const ActRounding rounding : ValidRoundings(type)) {
    const int rows = 35, cols = RandomCols(type, rng);
    const Call call =
        MakeCall(type, rounding, 45, rows, cols, 3, Corner::kOrdinary, Corner::kMixed, rng);
    for (const Isa isa : isas) {
      const auto whole = call.Run(isa, 3);
      for (int64_t begin = 0; begin < call.m;) {
        const int64_t n =
            std::min<int64_t>(call.m - begin, 1 + static_cast<int64_t>(rng.Below(20)));
        const auto part = call.Run(isa, 2, call.x.data() + begin * cols, n);
        for (size_t i = 0; i < part.size(); ++i) {
          const auto stride = static_cast<size_t>(call.weights[i].packed.rows + 3);
          const std::vector<float> want(
              whole[i].begin() + static_cast<int64_t>(stride) * begin,
              whole[i].begin() + static_cast<int64_t>(stride) * (begin + n));
          ExpectEqual({want}, {part[i]}, Describe(type, rounding, n, rows, cols, isa));
        }
        begin += n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LinearBodies, testing::ValuesIn(AllTypes()),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST(LinearPolicy, FollowsTheDocument) {
  using enum ActRounding;
  EXPECT_EQ(kFloat, ChooseRounding(DType::kBF16, MatmulRole::kHead, Activations::kPrecise));
  EXPECT_EQ(kInt12, ChooseRounding(DType::kQ4_1, MatmulRole::kQkv, Activations::kDefault));
  EXPECT_EQ(kInt12, ChooseRounding(DType::kQ4_0, MatmulRole::kDown, Activations::kDefault));
  EXPECT_EQ(kInt16, ChooseRounding(DType::kQ8_0, MatmulRole::kHead, Activations::kDefault));
  EXPECT_EQ(kInt16, ChooseRounding(DType::kQ6_K, MatmulRole::kQkv, Activations::kDefault));
  EXPECT_EQ(kInt8, ChooseRounding(DType::kQ4_K, MatmulRole::kGateUp, Activations::kDefault));
  EXPECT_EQ(kInt16, ChooseRounding(DType::kQ4_1, MatmulRole::kDown, Activations::kPrecise));
}

}  // namespace
}  // namespace ballast
