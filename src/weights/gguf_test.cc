#include "weights/gguf.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "base/rng.h"
#include "tools/make_model_lib.h"
#include "weights/test_files.h"

namespace ballast {
namespace {

constexpr uint32_t kMagic = 0x46554747;

// A small valid file; every member can be made wrong.
struct Recipe {
  uint32_t magic = kMagic;
  uint32_t version = 3;
  uint64_t tensors = 1;
  uint64_t keys = 1;
  std::string extra_keys;  // encoded, counted in `keys`
  std::string name = "w";
  uint32_t rank = 2;
  uint64_t dims[4] = {32, 2, 1, 1};
  uint32_t type = 8;  // Q8_0
  uint64_t offset = 0;
  std::string extra_tensors;
  size_t data = 128;
  size_t alignment = 32;

  std::string Build() const {
    ByteWriter out;
    out.U32(magic).U32(version).U64(tensors).U64(keys);
    out.Text("general.architecture").U32(8).Text("llama").Bytes(extra_keys);
    out.Text(name).U32(rank);
    for (uint32_t i = 0; i < rank && i < 4; ++i) out.U64(dims[i]);
    out.U32(type).U64(offset).Bytes(extra_tensors).Pad(alignment);
    return out.Bytes(std::string(data, '\1')).bytes();
  }
};

std::string Key(std::string_view name, uint32_t type, const ByteWriter& value) {
  return ByteWriter().Text(name).U32(type).Bytes(value.bytes()).bytes();
}

class GgufTest : public testing::Test {
 protected:
  Result<std::unique_ptr<GgufFile>> OpenBytes(std::string_view bytes) {
    WriteAll(path_, bytes);
    return GgufFile::Open(path_);
  }
  // A wrong field and a part of the message that must come of it.
  struct Case {
    std::string_view message;
    std::function<void(Recipe*)> spoil;
  };
  void ExpectRefusals(std::span<const Case> cases) {
    for (const Case& c : cases) {
      Recipe recipe;
      c.spoil(&recipe);
      const auto file = OpenBytes(recipe.Build());
      ASSERT_FALSE(file.has_value()) << "accepted: " << c.message;
      EXPECT_NE(file.error().message.find(c.message), std::string::npos)
          << "wanted \"" << c.message << "\", got \"" << file.error().message << "\"";
      EXPECT_NE(file.error().message.find(path_), std::string::npos) << file.error().message;
    }
  }

  TempDir dir_;
  std::string path_ = dir_ / "model.gguf";
};

TEST_F(GgufTest, ReadsTheSmallFile) {
  for (const uint32_t version : {2u, 3u}) {
    Recipe recipe;
    recipe.version = version;
    auto file = OpenBytes(recipe.Build());
    ASSERT_TRUE(file.has_value()) << file.error().message;
    EXPECT_EQ((*file)->version(), version);
    EXPECT_EQ((*file)->architecture(), "llama");
    EXPECT_EQ((*file)->rope_layout(), RopeLayout::kNorm);
    ASSERT_EQ((*file)->tensors().size(), 1u);
    const TensorInfo& tensor = (*file)->tensors()[0];
    EXPECT_EQ(tensor.type, DType::kQ8_0);
    EXPECT_EQ(tensor.rows(), 2);
    EXPECT_EQ(tensor.cols(), 32);
    EXPECT_EQ((*file)->TensorBytes(tensor).size(), 68u);
    EXPECT_EQ((*file)->TensorBytes(tensor)[0], std::byte{1});
    EXPECT_EQ((*file)->FindTensor("x"), nullptr);
    EXPECT_EQ((*file)->RequireTensor("x").error().code, Code::kNotFound);
  }
}

TEST_F(GgufTest, RefusesEachWrongHeaderField) {
  const std::string twice = Key("general.architecture", 8, ByteWriter().Text("x"));
  const auto key = [](Recipe* r, const std::string& bytes) {
    r->extra_keys = bytes;
    r->keys = 2;
  };
  const Case cases[] = {
      {"not a GGUF file", [](Recipe* r) { r->magic = 1; }},
      {"version 1 is not supported", [](Recipe* r) { r->version = 1; }},
      {"version 4 is not supported", [](Recipe* r) { r->version = 4; }},
      {"big-endian", [](Recipe* r) { r->version = 0x03000000; }},
      {"tensors announced, over the limit", [](Recipe* r) { r->tensors = 1000; }},
      {"tensors announced, over the limit", [](Recipe* r) { r->tensors = ~uint64_t{0}; }},
      {"metadata keys announced", [](Recipe* r) { r->keys = uint64_t{1} << 40; }},
      {"'general.architecture' appears twice", [&](Recipe* r) { key(r, twice); }},
      {"has type 13", [&](Recipe* r) { key(r, Key("k", 13, ByteWriter())); }},
      {"key 1 is empty", [&](Recipe* r) { key(r, Key("", 4, ByteWriter().U32(1))); }},
      {"bool of value 2", [&](Recipe* r) { key(r, Key("k", 7, ByteWriter().Raw(uint8_t{2}))); }},
      {"array of arrays",
       [&](Recipe* r) { key(r, Key("k", 9, ByteWriter().U32(9).U64(1).U32(4).U64(0))); }},
      {"elements of type 99", [&](Recipe* r) { key(r, Key("k", 9, ByteWriter().U32(99).U64(1))); }},
      {"18446744073709551615 elements",
       [&](Recipe* r) { key(r, Key("k", 9, ByteWriter().U32(4).U64(~uint64_t{0}))); }},
      {"string 1 of metadata key 'k'",
       [&](Recipe* r) {
         key(r, Key("k", 9, ByteWriter().U32(8).U64(2).Text("a").U64(uint64_t{1} << 60)));
       }},
      {"over the limit", [&](Recipe* r) { key(r, Key("k", 8, ByteWriter().U64(~uint64_t{0}))); }},
      {"general.alignment is 24",
       [&](Recipe* r) { key(r, Key("general.alignment", 4, ByteWriter().U32(24))); }},
      {"general.alignment is 0",
       [&](Recipe* r) { key(r, Key("general.alignment", 4, ByteWriter().U32(0))); }},
      {"'general.alignment' has type string",
       [&](Recipe* r) { key(r, Key("general.alignment", 8, ByteWriter().Text("32"))); }},
      {"split files",
       [&](Recipe* r) { key(r, Key("split.count", 2, ByteWriter().Raw(uint16_t{3}))); }},
  };
  ExpectRefusals(cases);
}

TEST_F(GgufTest, RefusesEachWrongTensorField) {
  const auto tensor = [](std::string_view name, uint64_t offset) {
    return ByteWriter().Text(name).U32(1).U64(8).U32(0).U64(offset).bytes();
  };
  const Case cases[] = {
      {"65 bytes, over the limit of 64", [](Recipe* r) { r->name = std::string(65, 'n'); }},
      {"tensor 0 has no name", [](Recipe* r) { r->name = ""; }},
      {"has 0 dimensions", [](Recipe* r) { r->rank = 0; }},
      {"has 5 dimensions", [](Recipe* r) { r->rank = 5; }},
      {"dimension 1 of size 0", [](Recipe* r) { r->dims[1] = 0; }},
      {"must be in [1, 2147483647]", [](Recipe* r) { r->dims[0] = uint64_t{1} << 31; }},
      {"needs more bytes than the file's",
       [](Recipe* r) {
         r->rank = 4;
         for (uint64_t& dim : r->dims) dim = (uint64_t{1} << 31) - 32;
       }},
      {"Q8_0 needs a multiple of 32", [](Recipe* r) { r->dims[0] = 33; }},
      {"has type Q2_K, which is not supported (supported: F32, F16, BF16",
       [](Recipe* r) { r->type = 10; }},
      {"has type number 4711", [](Recipe* r) { r->type = 4711; }},
      {"not a multiple of the alignment", [](Recipe* r) { r->offset = 8; }},
      {"spans bytes 64 to 132 of the data, which has 128", [](Recipe* r) { r->offset = 64; }},
      {"spans bytes", [](Recipe* r) { r->offset = ~uint64_t{31}; }},
      {"of the data, which has 0", [](Recipe* r) { r->data = 0; }},
      {"'w' appears twice",
       [&](Recipe* r) {
         r->tensors = 2;
         r->extra_tensors = tensor("w", 96);
       }},
      {"tensors 'w' and 'v' overlap",
       [&](Recipe* r) {
         r->tensors = 2;
         r->extra_tensors = tensor("v", 64);
       }},
  };
  ExpectRefusals(cases);
}

TEST_F(GgufTest, RefusesEveryTruncation) {
  Recipe recipe;
  recipe.keys = 3;
  recipe.extra_keys = Key("list", 9, ByteWriter().U32(8).U64(2).Text("ab").Text("c")) +
                      Key("n", 9, ByteWriter().U32(5).U64(3).U32(1).U32(2).U32(3));
  const std::string whole = recipe.Build();
  ASSERT_TRUE(OpenBytes(whole).has_value());
  // The tensor ends 60 bytes before the file does.
  for (size_t size = 0; size < whole.size() - 60; ++size) {
    EXPECT_FALSE(OpenBytes(whole.substr(0, size)).has_value()) << size;
  }
}

// Whatever the header says after a flip, opening it and touching all that it lists stays in bounds
// (the sanitizer builds are the judge) and errors come back as errors.
TEST_F(GgufTest, SurvivesBitFlips) {
  ModelRecipe model;
  model.layers = 1;
  model.vocab = 270;
  model.hidden = 32;
  model.heads = 1;
  model.kv_heads = 1;
  model.head_dim = 32;
  ASSERT_TRUE(MakeModel(model, path_).has_value());
  const std::string whole = ReadAll(path_);
  auto original = GgufFile::Open(path_);
  ASSERT_TRUE(original.has_value());
  const size_t header = (*original)->tensors()[0].offset;
  Rng rng(3);
  int refused = 0;
  for (int i = 0; i < 600; ++i) {
    std::string bytes = whole;
    for (uint64_t flips = 1 + rng.Below(3); flips > 0; --flips) {
      bytes[rng.Below(header)] ^= static_cast<char>(1 << rng.Below(8));
    }
    const auto file = OpenBytes(bytes);
    if (!file) {
      ++refused;
      EXPECT_FALSE(file.error().message.empty());
      continue;
    }
    unsigned sum = 0;
    for (const TensorInfo& tensor : (*file)->tensors()) {
      const auto data = (*file)->TensorBytes(tensor);
      sum += static_cast<unsigned>(data.front()) + static_cast<unsigned>(data.back());
    }
    for (const auto& [key, value] : (*file)->metadata().entries()) {
      (void)(*file)->metadata().GetStringArray(key);
      (void)(*file)->metadata().GetF32Array(key);
      (void)(*file)->metadata().GetI32Array(key);
    }
    EXPECT_LT(sum, 1u << 30);
  }
  EXPECT_GT(refused, 60);
}

TEST_F(GgufTest, TypedMetadata) {
  Recipe recipe;
  recipe.keys = 8;
  recipe.extra_keys =
      Key("u8", 0, ByteWriter().Raw(uint8_t{200})) + Key("i16", 3, ByteWriter().Raw(int16_t{-7})) +
      Key("u64", 10, ByteWriter().U64(~uint64_t{0})) + Key("f32", 6, ByteWriter().Raw(1.5f)) +
      Key("nan", 12, ByteWriter().Raw(__builtin_nan(""))) +
      Key("yes", 7, ByteWriter().Raw(uint8_t{1})) +
      Key("names", 9, ByteWriter().U32(8).U64(2).Text("ab").Text(""));
  auto file = OpenBytes(recipe.Build());
  ASSERT_TRUE(file.has_value()) << file.error().message;
  const Metadata& m = (*file)->metadata();
  EXPECT_EQ(m.GetU64("u8").value(), 200u);
  EXPECT_EQ(m.GetI64("i16").value(), -7);
  EXPECT_EQ(m.GetF64("i16").value(), -7);
  EXPECT_EQ(m.GetU64("u64").value(), ~uint64_t{0});
  EXPECT_EQ(m.GetF64("f32").value(), 1.5);
  EXPECT_TRUE(m.GetBool("yes").value());
  const auto names = m.GetStringArray("names");
  ASSERT_TRUE(names.has_value());
  EXPECT_EQ(*names, (std::vector<std::string_view>{"ab", ""}));
  EXPECT_EQ(m.GetI64InOr("absent", 1, 9, 5).value(), 5);
  struct Case {
    std::string message;
    Error error;
  };
  const Case cases[] = {
      {"key 'absent' is missing", m.GetString("absent").error()},
      {"is -7, must not be negative", m.GetU64("i16").error()},
      {"over the limit", m.GetI64("u64").error()},
      {"must be in [1, 100]", m.GetI64In("u8", 1, 100).error()},
      {"must be in [1, 100]", m.GetI64InOr("u8", 1, 100, 5).error()},
      {"is not finite", m.GetF64("nan").error()},
      {"has type f32, expected a string", m.GetString("f32").error()},
      {"has type f32, expected an integer", m.GetU64("f32").error()},
      {"has type u8, expected a bool", m.GetBoolOr("u8", false).error()},
      {"is an array of string, expected floats", m.GetF32Array("names").error()},
      {"is an array of string, expected an integer", m.GetU64("names").error()},
      {"has type u8, expected an array", m.GetBoolArray("u8").error()},
  };
  for (const Case& c : cases) {
    EXPECT_NE(c.error.message.find(c.message), std::string::npos) << c.error.message;
    EXPECT_NE(c.error.message.find(path_), std::string::npos) << c.error.message;
  }
}

TEST_F(GgufTest, NotAFile) {
  EXPECT_EQ(GgufFile::Open(dir_ / "none").error().code, Code::kNotFound);
  EXPECT_FALSE(GgufFile::Open(dir_.path()).has_value());
  EXPECT_FALSE(OpenBytes("").has_value());
}

TEST(GgufReal, OpensSmolLm2WhereItIsCached) {
  const char* home = std::getenv("BALLAST_HOME");
  const char* user = std::getenv("HOME");
  const std::string root = home != nullptr   ? std::string(home)
                           : user != nullptr ? std::string(user) + "/.cache/ballast"
                                             : std::string("/nowhere");
  const std::string path = root + "/models/smollm2-135m-instruct.gguf";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not there (ballast pull smollm2-135m-instruct)";
  auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ((*file)->architecture(), "llama");
  EXPECT_EQ((*file)->metadata().GetU64("llama.block_count").value(), 30u);
  EXPECT_EQ((*file)->metadata().GetStringArray("tokenizer.ggml.tokens").value().size(), 49152u);
  EXPECT_EQ((*file)->tensors().size(), 272u);
  const TensorInfo* embedding = (*file)->FindTensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_EQ(embedding->type, DType::kQ8_0);
  EXPECT_EQ(embedding->rows(), 49152);
  EXPECT_EQ(embedding->cols(), 576);
}

}  // namespace
}  // namespace ballast
