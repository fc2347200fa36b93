// Attention and KV records: every body against the reference bit for bit, the reference against a
// binary64 oracle, and the schedules (batch, rows, threads, cuts) against each other.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/kernels.h"
#include "kernels/table.h"

namespace ballast {
namespace {

enum class Size { kOrdinary, kHuge, kTiny, kEqual };

float Normal(Rng* rng) {
  float sum = 0;
  for (int i = 0; i < 4; ++i) sum += rng->Uniform();
  return (sum - 2.0f) * 1.7f;
}

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

/// 64-byte aligned bytes; fresh memory is filled with NaN patterns, as freed frames may be.
class Record {
 public:
  explicit Record(size_t bytes)
      : bytes_(bytes),
        data_(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)), &std::free) {
    std::memset(data_.get(), 0xFF, bytes);
  }
  std::byte* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  std::unique_ptr<std::byte, decltype(&std::free)> data_;
};

/// One sequence: KV of `tokens` tokens and a query for every one.
struct Sequence {
  AttentionShape shape;
  int64_t tokens = 0;
  std::vector<float> q, k, v;
  std::vector<Record> records;
  std::vector<std::byte*> pages;
  std::vector<KvDType> types;

  int64_t q_width() const { return int64_t{shape.heads} * shape.kv.head_dim; }
  int64_t kv_width() const { return int64_t{shape.kv.kv_heads} * shape.kv.head_dim; }

  AttentionTask Task(int64_t first, int32_t rows, float* out) const {
    AttentionTask task;
    task.q = q.data() + first * q_width();
    task.q_stride = task.out_stride = q_width();
    task.out = out;
    task.rows = rows;
    task.first_position = first;
    task.pages = pages.data();
    task.page_types = types.data();
    return task;
  }
};

void Fill(std::vector<float>* values, Size size, float factor, Rng* rng) {
  for (float& x : *values) {
    x = Normal(rng) * factor;
    if (size == Size::kHuge && rng->Below(8) == 0) x *= 60;
    if (size == Size::kTiny) x *= 1e-5f;
    if (size == Size::kEqual) x = 0.25f;
  }
}

/// @param kv8_percent share of full pages that are sealed, but never the last one.
Sequence MakeSequence(const Kernels& ref, const AttentionShape& shape, int64_t tokens, Size size,
                      uint64_t kv8_percent, uint64_t seed) {
  Rng rng(seed);
  Sequence s;
  s.shape = shape;
  s.tokens = tokens;
  s.q.resize(static_cast<size_t>(tokens * s.q_width()));
  s.k.resize(static_cast<size_t>(tokens * s.kv_width()));
  s.v.resize(s.k.size());
  Fill(&s.q, size, 1, &rng);
  Fill(&s.k, size, 1, &rng);
  Fill(&s.v, size, 1, &rng);
  const int64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
  for (int64_t page = 0; page < pages; ++page) {
    s.records.emplace_back(shape.kv.f16_record_bytes());
    s.pages.push_back(s.records.back().data());
    s.types.push_back(KvDType::kF16);
  }
  ref.WriteKv(s.k.data(), s.v.data(), s.kv_width(), tokens, 0, shape.kv, s.pages.data());
  for (int64_t page = 0; page < tokens / kPageTokens; ++page) {
    if (rng.Below(100) >= kv8_percent) continue;
    const size_t i = static_cast<size_t>(page);
    Record sealed(shape.kv.kv8_record_bytes());
    ref.SealKv8(s.pages[i], shape.kv, sealed.data());
    s.records[i] = std::move(sealed);
    s.pages[i] = s.records[i].data();
    s.types[i] = KvDType::kKv8;
  }
  return s;
}

std::vector<float> Attended(const Kernels& kernels, const Sequence& s, int64_t first,
                            int32_t rows) {
  std::vector<float> out(static_cast<size_t>(rows * s.q_width()), std::nanf(""));
  const AttentionTask task = s.Task(first, rows, out.data());
  kernels.Attention({&task, 1}, s.shape);
  return out;
}

/// True if the bits agree; reports the first difference.
::testing::AssertionResult SameBits(const std::vector<float>& want, const std::vector<float>& got) {
  if (want.size() != got.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::memcmp(&want[i], &got[i], 4) != 0) {
      return ::testing::AssertionFailure() << "at " << i << ": " << want[i] << " and " << got[i];
    }
  }
  return ::testing::AssertionSuccess();
}

AttentionShape Shape(int32_t heads, int32_t kv_heads, int32_t head_dim, int32_t window) {
  AttentionShape shape;
  shape.heads = heads;
  shape.kv = {kv_heads, head_dim};
  shape.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  shape.window = window;
  return shape;
}

TEST(Attention, BodiesGiveTheReferenceBitsOnRandomShapes) {
  ThreadPool one(1), two(2), three(3);
  ThreadPool* const pools[] = {&one, &two, &three};
  const Kernels ref = Make(Isa::kRef, one);
  Rng rng(1);
  for (int round = 0; round < 60; ++round) {
    const int32_t kv_heads = 1 + static_cast<int32_t>(rng.Below(3));
    const int32_t group = 1 + static_cast<int32_t>(rng.Below(9));
    const int32_t head_dim = 16 * (1 + static_cast<int32_t>(rng.Below(10)));
    const int32_t window = rng.Below(2) == 0 ? 0 : 1 + static_cast<int32_t>(rng.Below(600));
    const AttentionShape shape = Shape(kv_heads * group, kv_heads, head_dim, window);
    const int64_t tokens = 1 + static_cast<int64_t>(rng.Below(900));
    const auto size = static_cast<Size>(rng.Below(4));
    const uint64_t kv8 = rng.Below(3) * 50;
    const Sequence s = MakeSequence(ref, shape, tokens, size, kv8, rng.Next());
    const int32_t rows = 1 + static_cast<int32_t>(rng.Below(std::min<uint64_t>(
                                 static_cast<uint64_t>(tokens), rng.Below(2) == 0 ? 3 : 90)));
    const int64_t first = tokens - rows;
    const std::vector<float> want = Attended(ref, s, first, rows);
    for (const Isa isa : Bodies()) {
      const Kernels body = Make(isa, *pools[rng.Below(3)]);
      EXPECT_TRUE(SameBits(want, Attended(body, s, first, rows)))
          << IsaName(isa) << " heads " << shape.heads << "/" << kv_heads << " dim " << head_dim
          << " window " << window << " tokens " << tokens << " rows " << rows << " size "
          << static_cast<int>(size) << " kv8 " << kv8;
    }
  }
}

TEST(Attention, BodiesGiveTheReferenceBitsOnModelShapes) {
  ThreadPool one(1), two(2);
  const Kernels ref = Make(Isa::kRef, one);
  const AttentionShape shapes[] = {Shape(9, 3, 64, 0), Shape(14, 2, 64, 0), Shape(12, 2, 128, 0),
                                   Shape(4, 1, 256, 512), Shape(2, 2, 512, 0)};
  for (const AttentionShape& shape : shapes) {
    for (const uint64_t kv8 : {uint64_t{0}, uint64_t{100}}) {
      const Sequence s = MakeSequence(ref, shape, 700, Size::kOrdinary, kv8, 7);
      for (const int32_t rows : {1, 2, 60}) {
        const std::vector<float> want = Attended(ref, s, 700 - rows, rows);
        for (const Isa isa : Bodies()) {
          EXPECT_TRUE(SameBits(want, Attended(Make(isa, two), s, 700 - rows, rows)))
              << IsaName(isa) << " dim " << shape.kv.head_dim << " rows " << rows;
        }
      }
    }
  }
}

TEST(Attention, ARowDoesNotDependOnItsChunkBatchOrThreads) {
  ThreadPool one(1), three(3);
  for (const Isa isa : Bodies()) {
    const Kernels serial = Make(isa, one), parallel = Make(isa, three);
    for (const int32_t window : {0, 130}) {
      const AttentionShape shape = Shape(6, 2, 48, window);
      std::vector<Sequence> sequences;
      std::vector<std::vector<float>> want;
      for (uint64_t i = 0; i < 3; ++i) {
        sequences.push_back(MakeSequence(serial, shape, 400 + 450 * static_cast<int64_t>(i),
                                         Size::kOrdinary, 40, 20 + i));
        const Sequence& s = sequences.back();
        want.emplace_back();
        for (int64_t p = 0; p < s.tokens; ++p) {
          const std::vector<float> row = Attended(serial, s, p, 1);
          want.back().insert(want.back().end(), row.begin(), row.end());
        }
        EXPECT_TRUE(
            SameBits(want.back(), Attended(parallel, s, 0, static_cast<int32_t>(s.tokens))));
      }
      // Together, each in chunks of its own.
      Rng rng(5);
      std::vector<std::vector<float>> got;
      std::vector<AttentionTask> tasks;
      for (size_t i = 0; i < sequences.size(); ++i) got.emplace_back(want[i].size());
      for (size_t i = 0; i < sequences.size(); ++i) {
        const Sequence& s = sequences[i];
        for (int64_t p = 0; p < s.tokens;) {
          const int64_t rows = std::min<int64_t>(
              s.tokens - p, 1 + static_cast<int64_t>(rng.Below(i == 0 ? 3 : 200)));
          tasks.push_back(s.Task(p, static_cast<int32_t>(rows), got[i].data() + p * s.q_width()));
          p += rows;
        }
      }
      parallel.Attention(tasks, shape);
      for (size_t i = 0; i < sequences.size(); ++i) EXPECT_TRUE(SameBits(want[i], got[i])) << i;
    }
  }
}

/// Attention of one row and head in binary64, over the stored (rounded) K and V.
std::vector<double> Oracle(const Sequence& s, int64_t position, int32_t head) {
  const int32_t dim = s.shape.kv.head_dim;
  const int64_t kv_head = head / (s.shape.heads / s.shape.kv.kv_heads);
  const int64_t first =
      s.shape.window > 0 ? std::max<int64_t>(0, position - s.shape.window + 1) : 0;
  std::vector<double> scores, out(static_cast<size_t>(dim), 0.0);
  double max = -1e300, sum = 0;
  for (int64_t j = first; j <= position; ++j) {
    double score = 0;
    for (int32_t d = 0; d < dim; ++d) {
      score +=
          static_cast<double>(s.q[static_cast<size_t>(position * s.q_width() + head * dim + d)]) *
          static_cast<double>(s.k[static_cast<size_t>(j * s.kv_width() + kv_head * dim + d)]);
    }
    scores.push_back(score * static_cast<double>(s.shape.scale));
    max = std::max(max, scores.back());
  }
  for (double& score : scores) sum += score = std::exp(score - max);
  for (int64_t j = first; j <= position; ++j) {
    for (int32_t d = 0; d < dim; ++d) {
      out[static_cast<size_t>(d)] +=
          scores[static_cast<size_t>(j - first)] / sum *
          static_cast<double>(s.v[static_cast<size_t>(j * s.kv_width() + kv_head * dim + d)]);
    }
  }
  return out;
}

TEST(Attention, ReferenceIsCloseToBinary64) {
  ThreadPool one(1);
  const Kernels ref = Make(Isa::kRef, one);
  struct Case {
    int32_t window;
    uint64_t kv8;
    double tolerance;
  };
  // f16 keys are off by 2^-12 of themselves, 8-bit codes by 1/510 of the page's range.
  for (const Case& c : {Case{0, 0, 2e-3}, Case{100, 0, 2e-3}, Case{0, 100, 3e-2}}) {
    const Sequence s = MakeSequence(ref, Shape(4, 2, 64, c.window), 600, Size::kOrdinary, c.kv8, 3);
    for (const int64_t p : {0, 63, 64, 255, 256, 599}) {
      const std::vector<float> row = Attended(ref, s, p, 1);
      for (int32_t head = 0; head < 4; ++head) {
        const std::vector<double> want = Oracle(s, p, head);
        for (size_t d = 0; d < want.size(); ++d) {
          EXPECT_NEAR(row[static_cast<size_t>(head) * 64 + d], want[d], c.tolerance)
              << "position " << p << " head " << head << " kv8 " << c.kv8;
        }
      }
    }
  }
}

TEST(Attention, ScoresFarApartAndEqualScores) {
  ThreadPool one(1);
  const Kernels ref = Make(Isa::kRef, one);
  AttentionShape shape = Shape(1, 1, 16, 0);
  shape.scale = 1.0f;
  Sequence s = MakeSequence(ref, shape, 300, Size::kEqual, 0, 1);
  // All keys equal: the mean of the values.
  for (size_t i = 0; i < s.v.size(); ++i) s.v[i] = static_cast<float>(i / 16 % 2);
  ref.WriteKv(s.k.data(), s.v.data(), 16, 300, 0, shape.kv, s.pages.data());
  for (const float x : Attended(ref, s, 299, 1)) EXPECT_EQ(x, 0.5f);
  // Scores −10,000 everywhere but +10,000 at key 100: its value alone.
  for (size_t i = 0; i < s.k.size(); ++i) s.k[i] = i / 16 == 100 ? 625.0f : -625.0f;
  for (size_t i = 0; i < s.v.size(); ++i) s.v[i] = static_cast<float>(i / 16);
  for (float& x : s.q) x = 1.0f;
  ref.WriteKv(s.k.data(), s.v.data(), 16, 300, 0, shape.kv, s.pages.data());
  for (const Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512}) {
    if (!IsaSupported(isa)) continue;
    for (const float x : Attended(Make(isa, one), s, 299, 1)) EXPECT_EQ(x, 100.0f);
    for (const float x : Attended(Make(isa, one), s, 50, 1)) EXPECT_EQ(x, 25.0f);
  }
}

TEST(KvRecords, BodiesWriteAndSealTheReferenceBytes) {
  ThreadPool one(1), two(2);
  const Kernels ref = Make(Isa::kRef, one);
  Rng rng(9);
  for (int round = 0; round < 30; ++round) {
    const KvShape shape{1 + static_cast<int32_t>(rng.Below(3)),
                        16 * (1 + static_cast<int32_t>(rng.Below(16)))};
    const int64_t width = int64_t{shape.kv_heads} * shape.head_dim;
    const int64_t first = static_cast<int64_t>(rng.Below(130));
    const int64_t rows = 1 + static_cast<int64_t>(rng.Below(round % 2 == 0 ? 4 : 200));
    std::vector<float> k(static_cast<size_t>(rows * width)), v(k.size());
    const auto size = static_cast<Size>(rng.Below(4));
    const float factor = rng.Below(4) == 0 ? 1e5f : 1.0f;  // beyond f16: saturates
    Fill(&k, size, factor, &rng);
    Fill(&v, size, factor, &rng);
    for (const Isa isa : Bodies()) {
      const Kernels body = Make(isa, two);
      std::vector<Record> want, got;
      std::vector<std::byte*> want_pages, got_pages;
      for (int i = 0; i < 6; ++i) {
        want.emplace_back(shape.f16_record_bytes());
        got.emplace_back(shape.f16_record_bytes());
        std::memset(want.back().data(), 0, want.back().bytes());
        std::memset(got.back().data(), 0, got.back().bytes());
        want_pages.push_back(want.back().data());
        got_pages.push_back(got.back().data());
      }
      ref.WriteKv(k.data(), v.data(), width, rows, first, shape, want_pages.data());
      body.WriteKv(k.data(), v.data(), width, rows, first, shape, got_pages.data());
      for (size_t i = 0; i < 6; ++i) {
        ASSERT_EQ(std::memcmp(want[i].data(), got[i].data(), want[i].bytes()), 0)
            << IsaName(isa) << " page " << i << " first " << first << " rows " << rows;
        Record want8(shape.kv8_record_bytes()), got8(shape.kv8_record_bytes());
        ref.SealKv8(want[i].data(), shape, want8.data());
        body.SealKv8(want[i].data(), shape, got8.data());
        ASSERT_EQ(std::memcmp(want8.data(), got8.data(), want8.bytes()), 0) << IsaName(isa);
      }
    }
  }
}

TEST(KvRecords, SealedCodesAreWithinHalfAStep) {
  ThreadPool one(1);
  const Kernels ref = Make(Isa::kRef, one);
  const KvShape shape{2, 32};
  Rng rng(4);
  std::vector<float> k(64 * 64), v(k.size());
  Fill(&k, Size::kOrdinary, 3, &rng);
  Fill(&v, Size::kOrdinary, 3, &rng);
  Record page(shape.f16_record_bytes()), sealed(shape.kv8_record_bytes());
  std::byte* pages[] = {page.data()};
  ref.WriteKv(k.data(), v.data(), 64, 64, 0, shape, pages);
  ref.SealKv8(page.data(), shape, sealed.data());
  for (int32_t head = 0; head < 2; ++head) {
    const Kv8Head h = Kv8HeadAt(sealed.data(), shape, head);
    for (int j = 0; j < 64; ++j) {
      for (int d = 0; d < 32; ++d) {
        const size_t at = static_cast<size_t>(j * 64 + head * 32 + d);
        const float key =
            h.k_offset[d] + h.k_scale[d] * h.k[((j / 16 * 8 + d / 4) * 16 + j % 16) * 4 + d % 4];
        EXPECT_NEAR(key, k[at], 0.51f * h.k_scale[d] + 0.004f);
        EXPECT_NEAR(h.v_scale[j] * h.v[j * 32 + d], v[at], 0.51f * h.v_scale[j] + 0.004f);
      }
    }
  }
}

TEST(Kernels, CreateNamesTheIsaItCannotRun) {
  ThreadPool one(1);
  for (const Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    const auto kernels = Kernels::Create(isa, one);
    ASSERT_EQ(kernels.has_value(), IsaSupported(isa));
    if (kernels.has_value()) {
      EXPECT_EQ(kernels->isa(), isa);
    } else {
      EXPECT_EQ(kernels.error().code, Code::kUnimplemented);
      EXPECT_NE(kernels.error().message.find(IsaName(isa)), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ballast
