// JSON Schema and instance, separated by a NUL byte. A schema compiles or is refused with a
// message; what compiles agrees with the direct evaluation of the schema on the instance (compact
// spelling), byte by byte and token by token, and is never stuck.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/grammar/grammar.h"
#include "text/grammar/limits.h"
#include "text/grammar/matcher.h"
#include "text/grammar/regex.h"
#include "text/grammar/schema_loader.h"
#include "text/grammar/token_masker.h"
#include "text/grammar/token_trie.h"
#include "text/unicode.h"

namespace {

namespace g = ballast::grammar;

void Require(bool condition) {
  if (!condition) std::abort();
}

const g::TokenTrie& Bytes() {
  static const g::TokenTrie kTrie = [] {
    std::vector<g::TokenTrie::Entry> entries;
    for (int b = 0; b < 256; ++b) entries.emplace_back(std::string(1, static_cast<char>(b)), b);
    entries.emplace_back("\",\"", 257);
    entries.emplace_back("\":", 258);
    entries.emplace_back("}}", 259);
    return g::TokenTrie(std::move(entries), {256}, 260);
  }();
  return kTrie;
}

/// Numbers that the automaton spells otherwise (exponents, more digits than its limits) and keys
/// given twice lie outside what is compared.
bool Comparable(const ballast::Json& value) {
  if (value.is_number()) {
    const std::string text = ballast::DumpJson(value);
    return text.find('e') == std::string::npos && text.size() < 30;
  }
  if (value.is_string()) return ballast::IsValidUtf8(value.get_ref<const std::string&>());
  if (value.is_structured()) {
    for (const auto& [key, member] : value.items()) {
      if (!Comparable(member) || !ballast::IsValidUtf8(key)) return false;
    }
  }
  return true;
}

/// The mask of each step holds exactly the byte tokens that fit.
void CheckMasks(const g::GrammarPtr& grammar, std::string_view text) {
  g::TokenMasker masker(Bytes());
  g::Matcher matcher(grammar);
  std::vector<uint64_t> mask(masker.mask_words());
  for (size_t i = 0; i <= text.size() && i < 64; ++i) {
    masker.Fill(&matcher, mask);
    bool any = false;
    for (const uint64_t word : mask) any = any || word != 0;
    Require(any);
    if (i == text.size()) break;
    const auto byte = static_cast<uint8_t>(text[i]);
    const bool allowed = (mask[byte / 64] >> (byte % 64) & 1) != 0;
    Require(matcher.AcceptToken(Bytes(), byte) == allowed);
    if (!allowed) break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t split = std::min(input.find('\0'), input.size());
  const auto schema = ballast::ParseJson(input.substr(0, split), ballast::kMaxJsonDepth, 4096);
  if (!schema) {
    const auto regex = g::CompileRegex(input.substr(0, split));
    if (!regex) Require(!regex.error().message.empty());
    return 0;
  }
  const auto grammar = g::CompileJsonSchema(*schema);
  if (!grammar) {
    Require(!grammar.error().message.empty());
    return 0;
  }
  if (split >= input.size()) return 0;
  const auto value = ballast::ParseJson(input.substr(split + 1), g::kMaxNesting, 256);
  if (!value) {
    CheckMasks(*grammar, input.substr(split + 1));
    return 0;
  }
  const std::string text = ballast::DumpJson(*value);
  CheckMasks(*grammar, text);
  if (!Comparable(*value)) return 0;
  g::SchemaLoader loader(*schema);
  const auto root = loader.LoadRoot();
  Require(root.has_value());
  g::Matcher matcher(*grammar);
  const bool accepted = matcher.Accept(text) && matcher.IsComplete();
  Require(accepted == loader.Validate(*root, *value));
  return 0;
}
