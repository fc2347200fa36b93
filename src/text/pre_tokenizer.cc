#include "text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

namespace ballast {
namespace {

constexpr size_t kMaxPatternBytes = 64 * 1024;
constexpr size_t kMaxStages = 8;
constexpr size_t kJitStackStart = 32 * 1024;
constexpr size_t kJitStackMax = 8 * 1024 * 1024;
constexpr uint32_t kMatchLimit = 10'000'000;

// clang-format off
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDigitsThenGpt2 =
    "\\p{N}\x1e"
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// PCRE2 10.42 has no class intersection: [X&&[^\p{Han}]] becomes (?!\p{Han})[X].
constexpr std::string_view kKimiK2 =
    R"(\p{Han}+|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseekV3 =
    "\\p{N}{1,3}\x1e[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+\x1e"
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// clang-format on

struct Named {
  std::string_view name;
  std::string_view pattern;
};
constexpr std::array kNamed = {
    Named{"gpt2", kGpt2},
    Named{"gpt-2", kGpt2},
    Named{"default", kGpt2},
    Named{"olmo", kGpt2},
    Named{"smollm", kDigitsThenGpt2},
    Named{"starcoder", kDigitsThenGpt2},
    Named{"refact", kDigitsThenGpt2},
    Named{"command-r", kDigitsThenGpt2},
    Named{"llama-bpe", kLlama3},
    Named{"llama3", kLlama3},
    Named{"dbrx", kLlama3},
    Named{"smaug-bpe", kLlama3},
    Named{"qwen2", kQwen2},
    Named{"stablelm2", kQwen2},
    Named{"deepseek-r1-qwen", kQwen2},
    Named{"gpt-4o", kO200k},
    Named{"llama4", kO200k},
    Named{"kimi-k2", kKimiK2},
    Named{"deepseek-v3", kDeepseekV3},
};

// PCRE2's \s under UCP also takes U+180E; the reference engines follow Unicode's White_Space.
// Writing the class out makes them agree whatever Unicode version either was built with.
constexpr std::string_view kSpaces =
    R"(\x{09}-\x{0d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

std::string SpellOutSpaces(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's') {
        out += in_class ? std::string(kSpaces) : "[" + std::string(kSpaces) + "]";
      } else if (next == 'S' && !in_class) {
        out += "[^" + std::string(kSpaces) + "]";
      } else {
        out += c;
        out += next;
      }
      continue;
    }
    if (c == '[' && !in_class) {
      in_class = true;
      out += c;
      // A bracket right after the opening is a literal.
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out += pattern[++i];
      continue;
    }
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct JitStackDeleter {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

}  // namespace

struct PreTokenizer::Stage {
  std::unique_ptr<pcre2_code, CodeDeleter> code;
  bool jit = false;

  static Result<Stage> Compile(std::string_view pattern) {
    if (pattern.empty() || pattern.size() > kMaxPatternBytes) {
      return InvalidArgument("pre-tokenizer pattern of {} bytes; the limit is 1 to {}",
                             pattern.size(), kMaxPatternBytes);
    }
    const std::string spelled = SpellOutSpaces(pattern);
    int code_number = 0;
    PCRE2_SIZE offset = 0;
    Stage stage;
    stage.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code_number,
                                   &offset, nullptr));
    if (stage.code == nullptr) {
      std::array<PCRE2_UCHAR, 256> text{};
      pcre2_get_error_message(code_number, text.data(), text.size());
      return InvalidArgument("pre-tokenizer pattern does not compile at offset {}: {} (pattern {})",
                             offset, reinterpret_cast<const char*>(text.data()), pattern);
    }
    stage.jit = pcre2_jit_compile(stage.code.get(), PCRE2_JIT_COMPLETE) == 0;
    return stage;
  }

  void Split(std::string_view text, pcre2_match_data* data, pcre2_match_context* context,
             std::vector<std::string_view>* pieces) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    size_t done = 0;
    size_t from = 0;
    while (from < text.size()) {
      const int rc = jit ? pcre2_jit_match(code.get(), subject, text.size(), from,
                                           PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data, context)
                         : pcre2_match(code.get(), subject, text.size(), from,
                                       PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data, context);
      // No match, or a limit was hit (only patterns from files can): the rest is one piece.
      if (rc < 0) break;
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data);
      // \K inside a lookaround can report a start behind its end; treat such a pattern as done.
      if (range[0] < done || range[1] <= range[0]) break;
      if (range[0] > done) pieces->push_back(text.substr(done, range[0] - done));
      pieces->push_back(text.substr(range[0], range[1] - range[0]));
      done = from = range[1];
    }
    if (done < text.size()) pieces->push_back(text.substr(done));
  }
};

PreTokenizer::PreTokenizer() = default;
PreTokenizer::~PreTokenizer() = default;

Result<std::unique_ptr<const PreTokenizer>> PreTokenizer::Create(std::string_view name) {
  constexpr std::string_view kPrefix = "regex:";
  std::string_view patterns;
  if (name.starts_with(kPrefix)) {
    patterns = name.substr(kPrefix.size());
  } else {
    std::string known;
    for (const Named& named : kNamed) {
      if (named.name == name) patterns = named.pattern;
      known += known.empty() ? "" : ", ";
      known += named.name;
    }
    if (patterns.empty()) {
      return Unimplemented("pre_tokenizer \"{}\" is not supported; known: {}", name, known);
    }
  }
  std::unique_ptr<PreTokenizer> result(new PreTokenizer());
  while (true) {
    const size_t end = patterns.find(kStageSeparator);
    ASSIGN_OR_RETURN(Stage stage, Stage::Compile(patterns.substr(0, end)));
    result->stages_.push_back(std::move(stage));
    if (end == std::string_view::npos) break;
    if (result->stages_.size() == kMaxStages) {
      return InvalidArgument("pre_tokenizer has more than {} stages", kMaxStages);
    }
    patterns.remove_prefix(end + 1);
  }
  return std::unique_ptr<const PreTokenizer>(std::move(result));
}

struct PreTokenizer::Scratch::State {
  std::unique_ptr<pcre2_match_data, MatchDataDeleter> data{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, MatchContextDeleter> context{
      pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, JitStackDeleter> stack{
      pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)};
  std::vector<std::string_view> current, next;

  State() {
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

PreTokenizer::Scratch::Scratch() = default;
PreTokenizer::Scratch::~Scratch() = default;

void PreTokenizer::Split(std::string_view text, Scratch* scratch,
                         std::vector<std::string_view>* pieces) const {
  if (text.empty()) return;
  if (scratch->state_ == nullptr) scratch->state_ = std::make_unique<Scratch::State>();
  Scratch::State& state = *scratch->state_;
  state.current.assign(1, text);
  for (size_t i = 0; i < stages_.size(); ++i) {
    state.next.clear();
    std::vector<std::string_view>* out = i + 1 == stages_.size() ? pieces : &state.next;
    for (const std::string_view piece : state.current) {
      stages_[i].Split(piece, state.data.get(), state.context.get(), out);
    }
    std::swap(state.current, state.next);
  }
}

}  // namespace ballast
