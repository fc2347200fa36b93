// Row operations: every body against the reference bit for bit; the reference and the functions of
// math.h against libm, a sort and long double.
#include "kernels/rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/math.h"
#include "kernels/ref/math.h"

namespace ballast {
namespace {

Kernels Make(Isa isa, ThreadPool& pool) {
  auto kernels = Kernels::Create(isa, pool);
  CHECK(kernels.has_value());
  return *kernels;
}

std::vector<Isa> Bodies() {
  std::vector<Isa> bodies;
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (IsaSupported(isa)) bodies.push_back(isa);
  }
  return bodies;
}

std::vector<float> Values(int64_t n, float factor, Rng* rng) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& x : values) {
    x = (rng->Uniform() * 2 - 1) * factor;
    const uint64_t kind = rng->Below(64);
    if (kind == 0) x = 0.0f;
    if (kind == 1) x = -0.0f;
    if (kind == 2) x *= 1e-30f;
    if (kind == 3) x *= 100.0f;
  }
  return values;
}

#define EXPECT_SAME_BITS(a, b)            \
  EXPECT_TRUE((a).size() == (b).size() && \
              std::memcmp((a).data(), (b).data(), (a).size() * sizeof((a)[0])) == 0)

TEST(Rows, BodiesGiveTheReferenceBits) {
  ThreadPool one(1), two(2);
  const Kernels ref = Make(Isa::kRef, one);
  Rng rng(1);
  for (int round = 0; round < 60; ++round) {
    const int64_t rows = 1 + static_cast<int64_t>(rng.Below(round % 4 == 0 ? 150 : 4));
    const int64_t n = 1 + static_cast<int64_t>(rng.Below(1200));
    const float factor = round % 3 == 0 ? 1.0f : round % 3 == 1 ? 30.0f : 1e4f;
    const std::vector<float> x = Values(rows * n, factor, &rng), w = Values(n, 2, &rng);
    const std::vector<float> up = Values(rows * n, factor, &rng);
    for (const Isa isa : Bodies()) {
      SCOPED_TRACE(testing::Message() << IsaName(isa) << " rows " << rows << " n " << n);
      const Kernels body = Make(isa, two);
      std::vector<float> want(x.size()), got(x.size());
      ref.RmsNorm(x.data(), w.data(), 1e-5f, rows, n, want.data());
      body.RmsNorm(x.data(), w.data(), 1e-5f, rows, n, got.data());
      EXPECT_SAME_BITS(want, got);
      for (const Activation act : {Activation::kSilu, Activation::kGeluTanh}) {
        ref.GatedActivation(act, x.data(), up.data(), rows, n, want.data());
        body.GatedActivation(act, x.data(), up.data(), rows, n, got.data());
        EXPECT_SAME_BITS(want, got);
      }
      want = got = up;
      ref.Add(x.data(), rows * n, want.data());
      body.Add(x.data(), rows * n, got.data());
      ref.Scale(1.3f, rows * n, want.data());
      body.Scale(1.3f, rows * n, got.data());
      EXPECT_SAME_BITS(want, got);
      const Kernels::LogSumExp a = ref.LogSum(x.data(), rows * n);
      const Kernels::LogSumExp b = body.LogSum(x.data(), rows * n);
      EXPECT_EQ(a.max, b.max);
      EXPECT_EQ(a.log_sum, b.log_sum);
    }
  }
}

TEST(Rows, RotationAndHeadNormsGiveTheReferenceBits) {
  ThreadPool one(1), two(2);
  const Kernels ref = Make(Isa::kRef, one);
  Rng rng(2);
  for (int round = 0; round < 40; ++round) {
    const int32_t heads = 1 + static_cast<int32_t>(rng.Below(9));
    const int32_t head_dim = 16 * (1 + static_cast<int32_t>(rng.Below(16)));
    const int32_t rotary_dim =
        2 * (1 + static_cast<int32_t>(rng.Below(static_cast<uint64_t>(head_dim / 2))));
    const int64_t rows = 1 + static_cast<int64_t>(rng.Below(40));
    const int64_t stride = int64_t{heads} * head_dim + 16;
    const RopeTable table(rotary_dim, 10000.0, 1.0, {}, 512);
    std::vector<int64_t> positions(static_cast<size_t>(rows));
    for (int64_t& p : positions) p = static_cast<int64_t>(rng.Below(512));
    const std::vector<float> x = Values(rows * stride, 3, &rng), w = Values(head_dim, 2, &rng);
    for (const RopeKind kind : {RopeKind::kNeox, RopeKind::kNorm}) {
      for (const Isa isa : Bodies()) {
        const Kernels body = Make(isa, two);
        std::vector<float> want = x, got = x;
        ref.RmsNormHeads(want.data(), stride, w.data(), 1e-6f, rows, heads, head_dim);
        body.RmsNormHeads(got.data(), stride, w.data(), 1e-6f, rows, heads, head_dim);
        ref.Rope(want.data(), stride, rows, heads, head_dim, kind, table, positions.data());
        body.Rope(got.data(), stride, rows, heads, head_dim, kind, table, positions.data());
        EXPECT_SAME_BITS(want, got);
      }
    }
  }
}

TEST(Rows, NormsRotationsAndActivationsAreWhatTheyAreCalled) {
  ThreadPool one(1);
  const Kernels ref = Make(Isa::kRef, one);
  Rng rng(3);
  const int64_t n = 96;
  std::vector<float> x(n), w(n), y(n);
  for (size_t i = 0; i < n; ++i) x[i] = rng.Uniform() * 4 - 2, w[i] = rng.Uniform();
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  ref.RmsNorm(x.data(), w.data(), 1e-5f, 1, n, y.data());
  for (size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(y[i], x[i] / std::sqrt(squares / n + 1e-5) * w[i], 1e-6);
  }
  ref.GatedActivation(Activation::kSilu, x.data(), w.data(), 1, n, y.data());
  for (size_t i = 0; i < n; ++i) EXPECT_NEAR(y[i], x[i] / (1 + std::exp(-x[i])) * w[i], 1e-6);
  ref.GatedActivation(Activation::kGeluTanh, x.data(), w.data(), 1, n, y.data());
  for (size_t i = 0; i < n; ++i) {
    const double v = static_cast<double>(x[i]);
    const double t = std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v));
    EXPECT_NEAR(y[i], 0.5 * v * (1 + t) * static_cast<double>(w[i]), 1e-6);
  }
  const RopeTable table(32, 10000.0, 2.0, {}, 100);
  const int64_t position = 77;
  for (const RopeKind kind : {RopeKind::kNeox, RopeKind::kNorm}) {
    std::vector<float> r = x;
    ref.Rope(r.data(), 96, 1, 2, 48, kind, table, &position);
    for (size_t head = 0; head < 2; ++head) {
      for (size_t i = 0; i < 16; ++i) {
        const size_t a = head * 48 + (kind == RopeKind::kNeox ? i : 2 * i);
        const size_t b = head * 48 + (kind == RopeKind::kNeox ? i + 16 : 2 * i + 1);
        const double angle = 77.0 / 2 * std::pow(10000.0, -static_cast<double>(i) / 16);
        EXPECT_NEAR(r[a], x[a] * std::cos(angle) - x[b] * std::sin(angle), 1e-6);
        EXPECT_NEAR(r[b], x[b] * std::cos(angle) + x[a] * std::sin(angle), 1e-6);
      }
      for (size_t i = 32; i < 48; ++i) EXPECT_EQ(r[head * 48 + i], x[head * 48 + i]);
    }
  }
}

TEST(Rows, TopKIsTheHeadOfASort) {
  ThreadPool one(1);
  Rng rng(4);
  std::vector<Isa> bodies = Bodies();
  bodies.push_back(Isa::kRef);
  for (int round = 0; round < 60; ++round) {
    const size_t n = 1 + rng.Below(3000);
    const int32_t k = round % 5 == 0 ? static_cast<int32_t>(n)
                                     : static_cast<int32_t>(rng.Below(std::min<size_t>(n, 60) + 1));
    std::vector<float> x(n);
    for (float& v : x) {
      v = round % 2 == 0 ? rng.Uniform() : static_cast<float>(rng.Below(20)) - 10;  // ties
      if (round % 3 == 0 && rng.Below(2) == 0) v = -INFINITY;
    }
    if (round % 7 == 0) std::sort(x.begin(), x.end());
    std::vector<int32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      const float u = x[static_cast<size_t>(a)], v = x[static_cast<size_t>(b)];
      return u > v || (u == v && a < b);
    });
    order.resize(static_cast<size_t>(k));
    for (const Isa isa : bodies) {
      std::vector<int32_t> ids(static_cast<size_t>(k));
      std::vector<float> values(static_cast<size_t>(k));
      Make(isa, one).TopK(x.data(), static_cast<int64_t>(n), k, ids.data(), values.data());
      ASSERT_EQ(ids, order) << IsaName(isa);
      for (size_t i = 0; i < order.size(); ++i) {
        ASSERT_EQ(values[i], x[static_cast<size_t>(order[i])]);
      }
    }
  }
}

TEST(Rows, LogSumIsCloseToLongDouble) {
  ThreadPool one(1);
  const Kernels ref = Make(Isa::kRef, one);
  Rng rng(5);
  for (const float factor : {0.0f, 1.0f, 30.0f, 1000.0f}) {
    for (const int64_t n : {1, 17, 50000}) {
      std::vector<float> x = Values(n, factor, &rng);
      if (n > 20) x[13] = -INFINITY;  // a forbidden token
      const Kernels::LogSumExp got = ref.LogSum(x.data(), n);
      const float max = *std::max_element(x.begin(), x.end());
      long double sum = 0;
      for (const float v : x) sum += std::exp(static_cast<long double>(v - max));
      EXPECT_EQ(got.max, max);
      EXPECT_NEAR(got.log_sum, static_cast<double>(std::log(sum)), 3e-6) << factor << " " << n;
    }
  }
}

TEST(Math, ExpIsWithinTwoUlp) {
  double worst = 0;
  for (int64_t i = 0; i <= 2'000'000; ++i) {
    const float x =
        static_cast<float>(-87.3365 + (87.3365 + 88.3762) * static_cast<double>(i) / 2e6);
    const float got = ref::Exp(x);
    if (x < kExpLowest) {
      EXPECT_EQ(got, 0.0f);
      continue;
    }
    const long double want = std::exp(static_cast<long double>(x));
    const float near = static_cast<float>(want);
    const long double ulp = static_cast<long double>(std::nextafter(near, INFINITY) - near);
    worst =
        std::max(worst, static_cast<double>(std::fabs(static_cast<long double>(got) - want) / ulp));
  }
  EXPECT_LT(worst, 2.0);
  EXPECT_GT(worst, 0.4);  // else the comparison itself is broken
  EXPECT_EQ(ref::Exp(0.0f), 1.0f);
  EXPECT_EQ(ref::Exp(-0.0f), 1.0f);
  EXPECT_EQ(ref::Exp(-1e30f), 0.0f);
  EXPECT_EQ(ref::Exp(-INFINITY), 0.0f);
  EXPECT_EQ(ref::Exp(1e30f), ref::Exp(kExpHighest));
  EXPECT_EQ(ref::Exp(kExpLowest),
            static_cast<float>(std::exp(static_cast<long double>(kExpLowest))));
}

TEST(Math, SinAndCosAreCloseToLongDouble) {
  Rng rng(6);
  for (int i = 0; i < 200'000; ++i) {
    const double range = i % 4 == 0 ? 1.0 : i % 4 == 1 ? 100.0 : 1e6;
    double x = static_cast<double>(rng.Next() >> 11) * 0x1p-53 * range;
    if (i % 16 == 3) x = static_cast<double>(rng.Below(600'000)) * M_PI_2;  // near the zeros
    const SinCos got = SinCos64(x);
    EXPECT_NEAR(got.sin, static_cast<double>(std::sin(static_cast<long double>(x))), 3e-16);
    EXPECT_NEAR(got.cos, static_cast<double>(std::cos(static_cast<long double>(x))), 3e-16);
  }
}

TEST(Math, LogExpAndPowAreCloseToLongDouble) {
  Rng rng(7);
  for (int i = 0; i < 20'000; ++i) {
    const double u = static_cast<double>(rng.Next() >> 11) * 0x1p-53;
    const double x = std::exp(u * 60 - 30), y = u * 200 - 100;
    const long double log = std::log(static_cast<long double>(x));
    EXPECT_NEAR(Log64(x), static_cast<double>(log),
                4e-16 * std::max(1.0, std::fabs(static_cast<double>(log))));
    const long double exp = std::exp(static_cast<long double>(y));
    EXPECT_NEAR(Exp64(y) / static_cast<double>(exp), 1.0, 1e-15);
    const double theta = i % 2 == 0 ? 10000.0 : 1000000.0;
    EXPECT_NEAR(Pow64(theta, -u) / std::pow(theta, -u), 1.0, 4e-15);
  }
  EXPECT_EQ(Log64(1.0), 0.0);
  EXPECT_EQ(Pow64(10000.0, 0.0), 1.0);
}

}  // namespace
}  // namespace ballast
