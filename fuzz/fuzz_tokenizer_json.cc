// tokenizer.json (and, after a NUL byte, tokenizer_config.json): any bytes give a vocabulary that
// Create accepts or refuses with a message, and that encodes text without a control token.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/tokenizer.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t nul = input.find('\0');
  const std::string_view config =
      nul == std::string_view::npos ? std::string_view() : input.substr(nul + 1);
  auto spec = ballast::ParseTokenizerJson(input.substr(0, nul), config);
  if (!spec) {
    Require(!spec.error().message.empty() && spec.error().message.size() < 4096);
    return 0;
  }
  auto tokenizer = ballast::Tokenizer::Create(std::move(*spec));
  if (!tokenizer) {
    Require(!tokenizer.error().message.empty());
    return 0;
  }
  for (const char* text : {"", "ab ab\n\n  12 é<|im_end|>\xFF", "▁▁ <tool> 日本"}) {
    for (const ballast::TokenId token : (*tokenizer)->Encode(text)) {
      Require(token >= 0 && token < (*tokenizer)->vocab_size());
      Require(!(*tokenizer)->IsControl(token) ||
              (*tokenizer)->type(token) == ballast::TokenType::kUnknown);
    }
  }
  return 0;
}
