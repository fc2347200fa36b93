#include "weights/weight_store.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "tools/make_model_lib.h"
#include "weights/pack.h"
#include "weights/quant.h"
#include "weights/test_files.h"

namespace ballast {
namespace {

std::vector<WeightRequest> RequestAll(const WeightSource& source) {
  std::vector<WeightRequest> requests;
  for (const TensorInfo& tensor : source.tensors()) {
    requests.push_back({.name = std::string(tensor.name),
                        .rows = static_cast<int32_t>(tensor.rows()),
                        .cols = static_cast<int32_t>(tensor.cols()),
                        .kind = tensor.rank == 1 ? WeightKind::kVector : WeightKind::kMatrix});
  }
  return requests;
}

// Every element in the store equals the file's block read on its own.
void ExpectEqualToFile(const WeightSource& source, const WeightStore& store) {
  for (const TensorInfo& tensor : source.tensors()) {
    const auto rows = static_cast<int32_t>(tensor.rows());
    const auto cols = static_cast<int32_t>(tensor.cols());
    std::vector<float> expected(static_cast<size_t>(rows) * static_cast<size_t>(cols));
    DequantizeBlocks(tensor.type, source.TensorBytes(tensor).data(),
                     static_cast<int64_t>(expected.size()), expected.data());
    if (tensor.rank == 1) {
      const auto vector = store.Vector(tensor.name, cols);
      ASSERT_TRUE(vector.has_value()) << vector.error().message;
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ((*vector)[i], expected[i] + tensor.add) << tensor.name;
      }
      continue;
    }
    const auto matrix = store.Matrix(tensor.name, rows, cols);
    ASSERT_TRUE(matrix.has_value()) << matrix.error().message;
    EXPECT_EQ(matrix->type, tensor.type);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(matrix->data) % 64, 0u);
    for (int32_t row = 0; row < rows; ++row) {
      for (int32_t col = 0; col < cols; ++col) {
        ASSERT_EQ(PackedValue(*matrix, row, col),
                  expected[static_cast<size_t>(row) * static_cast<size_t>(cols) +
                           static_cast<size_t>(col)])
            << tensor.name << " " << row << ", " << col;
      }
    }
  }
}

class WeightStoreTest : public testing::Test {
 protected:
  std::unique_ptr<WeightSource> Open(const ModelRecipe& recipe) {
    const std::string path = dir_ / "model";
    const Status made = MakeModel(recipe, path);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    auto source = OpenWeights(path);
    EXPECT_TRUE(source.has_value()) << source.error().message;
    return source ? std::move(*source) : nullptr;
  }
  TempDir dir_;
  ThreadPool pool_{2};
};

TEST_F(WeightStoreTest, HoldsTheFilesValues) {
  for (const char* type : {"mixed", "Q4_K", "F32"}) {
    TempDir dir;
    ModelRecipe recipe{.type = type, .layers = 3};
    recipe.ffn = 768;
    const auto source = Open(recipe);
    ASSERT_NE(source, nullptr);
    Ledger ledger(0);
    auto store = WeightStore::Load(*source, RequestAll(*source), pool_, &ledger);
    ASSERT_TRUE(store.has_value()) << store.error().message;
    ExpectEqualToFile(*source, **store);
    EXPECT_EQ(ledger.used_bytes(MemoryOwner::kWeights), (*store)->resident_bytes());
    uint64_t logical = 0;
    for (const TensorInfo& tensor : source->tensors()) logical += tensor.bytes;
    EXPECT_EQ((*store)->logical_bytes(), logical);
    uint64_t by_type = 0;
    for (const WeightTypeShare& share : (*store)->types()) by_type += share.bytes;
    EXPECT_EQ(by_type, logical);
    EXPECT_GE((*store)->resident_bytes(), logical);
    store->reset();
    EXPECT_EQ(ledger.used_bytes(MemoryOwner::kWeights), 0u);
  }
}

TEST_F(WeightStoreTest, AFileCutShortWhileItIsReadIsAnError) {
  const auto source = Open({.type = "F32", .layers = 2});
  ASSERT_NE(source, nullptr);
  std::filesystem::resize_file(source->path(), source->file_bytes() / 2);
  Ledger ledger(0);
  const auto store = WeightStore::Load(*source, RequestAll(*source), pool_, &ledger);
  ASSERT_FALSE(store.has_value());
  EXPECT_EQ(store.error().code, Code::kUnavailable);
  EXPECT_NE(store.error().message.find("cut short"), std::string::npos);
  EXPECT_EQ(ledger.used_bytes(MemoryOwner::kWeights), 0u);
}

TEST_F(WeightStoreTest, ThreadsDoNotChangeAByte) {
  const auto source = Open({.architecture = "qwen2", .type = "mixed"});
  ASSERT_NE(source, nullptr);
  const auto requests = RequestAll(*source);
  ThreadPool one(1), four(4);
  auto a = WeightStore::Load(*source, requests, one, nullptr);
  auto b = WeightStore::Load(*source, requests, four, nullptr);
  ASSERT_TRUE(a.has_value() && b.has_value());
  for (const WeightRequest& r : requests) {
    if (r.kind == WeightKind::kVector) continue;
    const PackedMatrix x = (*a)->Matrix(r.name, r.rows, r.cols).value();
    const PackedMatrix y = (*b)->Matrix(r.name, r.rows, r.cols).value();
    EXPECT_EQ(std::memcmp(x.data, y.data, x.bytes()), 0) << r.name;
  }
}

TEST_F(WeightStoreTest, ChecksRequestsBeforeItAllocates) {
  const auto source = Open({.type = "Q8_0"});
  ASSERT_NE(source, nullptr);
  struct Case {
    std::string message;
    WeightRequest request;
  };
  const Case cases[] = {
      {"tensor 'blk.0.nothing' is missing", {.name = "blk.0.nothing", .rows = 1, .cols = 1}},
      {"'token_embd.weight' has shape [512, 256], expected [513, 256]",
       {.name = "token_embd.weight", .rows = 513, .cols = 256}},
      {"'output_norm.weight' has shape [1, 256], expected [255]",
       {.name = "output_norm.weight", .cols = 255, .kind = WeightKind::kVector}},
      {"'output.weight' has type Q8_0, expected F32, F16 or BF16",
       {.name = "output.weight", .cols = 256, .kind = WeightKind::kVector}},
  };
  Ledger ledger(uint64_t{1} << 40);
  for (const Case& c : cases) {
    const auto store = WeightStore::Load(*source, std::span(&c.request, 1), pool_, &ledger);
    ASSERT_FALSE(store.has_value()) << c.message;
    EXPECT_NE(store.error().message.find(c.message), std::string::npos) << store.error().message;
    EXPECT_NE(store.error().message.find(source->path()), std::string::npos);
  }
  EXPECT_EQ(ledger.total_bytes(), 0u);
}

TEST_F(WeightStoreTest, KeepsToTheBudget) {
  const auto source = Open({.type = "Q8_0"});
  ASSERT_NE(source, nullptr);
  const auto requests = RequestAll(*source);
  Ledger small(uint64_t{2} << 20);
  small.Charge(MemoryOwner::kKv, 1);
  const auto refused = WeightStore::Load(*source, requests, pool_, &small);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(small.total_bytes(), 1u);
  Ledger fitting(uint64_t{64} << 20);
  EXPECT_TRUE(WeightStore::Load(*source, requests, pool_, &fitting).has_value());
}

TEST_F(WeightStoreTest, OptionalTensorsAndWrongLookups) {
  const auto source = Open({.architecture = "qwen2", .type = "F16"});
  ASSERT_NE(source, nullptr);
  const WeightRequest requests[] = {
      {.name = "output.weight", .rows = 512, .cols = 256, .presence = Presence::kOptional},
      {.name = "blk.0.attn_q.bias",
       .cols = 256,
       .kind = WeightKind::kVector,
       .presence = Presence::kOptional},
      {.name = "blk.0.attn_q.weight", .rows = 256, .cols = 256},
  };
  auto store = WeightStore::Load(*source, requests, pool_, nullptr);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  EXPECT_FALSE((*store)->Has("output.weight"));
  EXPECT_TRUE((*store)->Has("blk.0.attn_q.bias"));
  EXPECT_EQ((*store)->Matrix("output.weight", 512, 256).error().code, Code::kNotFound);
  EXPECT_EQ((*store)->Matrix("blk.0.attn_q.bias", 1, 256).error().code, Code::kNotFound);
  EXPECT_NE((*store)
                ->Matrix("blk.0.attn_q.weight", 256, 128)
                .error()
                .message.find("has shape [256, 256], expected [256, 128]"),
            std::string::npos);
  EXPECT_NE((*store)->Vector("blk.0.attn_q.bias", 8).error().message.find("expected 8"),
            std::string::npos);
  const WeightRequest twice[] = {requests[2], requests[2]};
  EXPECT_EQ(WeightStore::Load(*source, twice, pool_, nullptr).error().code, Code::kInternal);
}

}  // namespace
}  // namespace ballast
