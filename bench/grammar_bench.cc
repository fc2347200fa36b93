// Measures token masks: CPU µs a mask over whole generated texts, per schema kind and real
// vocabulary (the GGUF files of the default models, in ~/.cache/ballast/models or $BALLAST_MODELS).
// One iteration is one token: fill the mask, pick a token, accept it. `first_ms` is the worst
// single mask of a cold cache; `batch8_us` is what eight sequences add to a decode step.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "model/tokenizer_from_gguf.h"
#include "text/grammar/grammar.h"
#include "text/grammar/matcher.h"
#include "text/grammar/token_masker.h"
#include "text/grammar/token_trie.h"
#include "text/tokenizer.h"
#include "weights/source.h"

namespace ballast::grammar {
namespace {

struct Kind {
  const char* name;
  const char* schema;
};

constexpr Kind kKinds[] = {
    {"tool_arguments",
     R"({"type":"object","properties":{"city":{"type":"string"},"unit":{"enum":["celsius",
     "fahrenheit"]},"days":{"type":"integer","minimum":1,"maximum":14}},
     "required":["city","unit"],"additionalProperties":false})"},
    {"record", R"({"type":"object","properties":{"id":{"type":"string","format":"uuid"},
     "name":{"type":"string","minLength":1,"maxLength":80},"email":{"type":"string",
     "format":"email"},"created":{"type":"string","format":"date-time"},"score":{"type":"number",
     "minimum":0,"maximum":100},"tags":{"type":"array","items":{"type":"string","maxLength":20},
     "maxItems":5}},"required":["id","name","email","created","score","tags"],
     "additionalProperties":false})"},
    {"nested_arrays", R"({"type":"array","items":{"type":"array","items":{"type":"array",
     "items":{"type":"number"},"maxItems":4},"maxItems":4},"minItems":2,"maxItems":6})"},
    {"union", R"({"type":"array","minItems":3,"maxItems":8,"items":{"anyOf":[
     {"type":"object","properties":{"kind":{"const":"text"},"text":{"type":"string"}},
     "required":["kind","text"],"additionalProperties":false},
     {"type":"object","properties":{"kind":{"const":"image"},"url":{"type":"string",
     "format":"uri"}},"required":["kind","url"],"additionalProperties":false},
     {"type":"string"},{"type":"number"}]}})"},
    {"recursive", R"({"$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},
     "children":{"type":"array","items":{"$ref":"#/$defs/node"},"maxItems":3}},
     "required":["name"],"additionalProperties":false}},"$ref":"#/$defs/node"})"},
    {"pattern", R"({"type":"object","properties":{"code":{"type":"string",
     "pattern":"^[A-Z]{2,5}-[0-9]{4,8}(-[a-z]+)*$"},"note":{"type":"string","pattern":"ok"}},
     "required":["code","note"],"additionalProperties":false})"},
    {"map", R"({"type":"object","additionalProperties":{"type":"string"},"minProperties":3})"},
    {"json_object", R"({"type":"object"})"},
};

struct Vocabulary {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<TokenTrie> trie;
};

std::string ModelPath(const std::string& file) {
  const char* dir = std::getenv("BALLAST_MODELS");
  const char* home = std::getenv("HOME");
  return (dir != nullptr ? std::string(dir)
                         : std::string(home != nullptr ? home : "") + "/.cache/ballast/models") +
         "/" + file;
}

const Vocabulary* Load(const std::string& file) {
  static std::map<std::string, Vocabulary> loaded;
  Vocabulary& v = loaded[file];
  if (v.trie != nullptr) return &v;
  auto source = OpenWeights(ModelPath(file));
  if (!source) return nullptr;
  auto spec = TokenizerSpecFromSource(**source);
  if (!spec) return nullptr;
  auto tokenizer = Tokenizer::Create(*std::move(spec));
  if (!tokenizer) return nullptr;
  v.tokenizer = *std::move(tokenizer);
  v.trie = std::make_unique<TokenTrie>(TokenTrie::FromTokenizer(*v.tokenizer));
  return &v;
}

/// A stand-in for a model: it likes short words, and after 12 tokens of a string it closes it.
TokenId Pick(const std::vector<uint64_t>& mask, const TokenTrie& trie, Rng* rng, int run) {
  const auto allowed = [&](TokenId t) {
    return (mask[static_cast<size_t>(t) / 64] >> (t % 64) & 1) != 0;
  };
  if (run % 12 == 11) {
    for (TokenId t = 0; t < trie.vocab_size(); ++t) {
      const auto bytes = trie.Bytes(t);
      if (bytes.size() == 1 && bytes[0] == '"' && allowed(t)) return t;
    }
  }
  for (int i = 0; i < 64; ++i) {
    const auto t = static_cast<TokenId>(rng->Below(static_cast<uint64_t>(trie.vocab_size())));
    if (allowed(t) && !trie.IsEnd(t)) return t;
  }
  TokenId found = -1;
  uint64_t seen = 0;
  for (TokenId t = 0; t < trie.vocab_size(); ++t) {
    if (allowed(t) && rng->Below(++seen) == 0) found = t;
  }
  return found;
}

/// CPU time of this thread: other work on the machine does not count.
double CpuMicros() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

void BM_Mask(benchmark::State& state, const Kind& kind, const std::string& file) {
  const Vocabulary* vocabulary = Load(file);
  if (vocabulary == nullptr) {
    state.SkipWithError("the model file is not there");
    return;
  }
  const TokenTrie& trie = *vocabulary->trie;
  const auto grammar = CompileJsonSchema(ParseJson(kind.schema).value()).value();
  TokenMasker masker(trie);
  masker.Prewarm();
  std::vector<uint64_t> mask(masker.mask_words());
  Rng rng(1);
  auto matcher = std::make_unique<Matcher>(grammar);
  double worst = 0, total = 0, accept = 0, cold = 0;
  int64_t tokens = 0;
  int run = 0;
  for (auto _ : state) {
    const double start = CpuMicros();
    masker.Fill(matcher.get(), mask);
    const double middle = CpuMicros();
    const TokenId token = Pick(mask, trie, &rng, run++);
    const double picked = CpuMicros();
    if (token < 0 || trie.IsEnd(token) || !matcher->AcceptToken(trie, token) || run > 300) {
      matcher = std::make_unique<Matcher>(grammar);
      run = 0;
    }
    const double end = CpuMicros();
    const double fill = middle - start;
    const double step = end - picked;
    state.SetIterationTime((fill + step) * 1e-6);
    worst = std::max(worst, fill);
    if (tokens < 100) cold += fill;
    total += fill;
    accept += step;
    ++tokens;
  }
  const auto n = static_cast<double>(tokens);
  state.counters["mask_us"] = total / n;
  state.counters["accept_us"] = accept / n;
  state.counters["first100_us"] = cold / 100;
  state.counters["worst_ms"] = worst / 1000;
  state.counters["batch8_us"] = 8 * (total + accept) / n;
  state.counters["cache_KiB"] = static_cast<double>(masker.cached_bytes()) / 1024;
}

void BM_CompileSchema(benchmark::State& state, const Kind& kind) {
  const Json schema = ParseJson(kind.schema).value();
  for (auto _ : state) benchmark::DoNotOptimize(CompileJsonSchema(schema));
}

}  // namespace
}  // namespace ballast::grammar

int main(int argc, char** argv) {
  using ballast::grammar::kKinds;
  for (const auto& kind : kKinds) {
    benchmark::RegisterBenchmark(
        (std::string("compile/") + kind.name).c_str(),
        [&kind](benchmark::State& s) { ballast::grammar::BM_CompileSchema(s, kind); })
        ->Unit(benchmark::kMicrosecond);
  }
  constexpr std::pair<const char*, const char*> kModels[] = {
      {"smollm2", "smollm2-135m-instruct.gguf"},
      {"qwen2.5", "qwen2.5-coder-0.5b-instruct.gguf"},
      {"gemma3", "gemma-3-270m.gguf"}};
  for (const auto& [name, file] : kModels) {
    for (const auto& kind : kKinds) {
      benchmark::RegisterBenchmark((std::string("mask/") + name + "/" + kind.name).c_str(),
                                   [&kind, path = std::string(file)](benchmark::State& s) {
                                     ballast::grammar::BM_Mask(s, kind, path);
                                   })
          ->Unit(benchmark::kMicrosecond)
          ->UseManualTime()
          ->Iterations(5000);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
