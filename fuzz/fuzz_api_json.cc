// Request bodies of the API: any bytes give checked values or a 4xx that names something.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/parse_request.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

template <class T>
void CheckOutcome(const ballast::ApiResult<T>& result) {
  if (result) return;
  Require(result.error().status == 400 && !result.error().message.empty());
  Require(result.error().message.size() < 4096);
  Require(!ballast::ErrorResponse(result.error()).body.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const ballast::ModelLimits limits{1000, 4096};
  for (const auto endpoint : {ballast::kChat, ballast::kCompletions}) {
    const auto result = ballast::ParseGeneration(body, endpoint, limits);
    CheckOutcome(result);
    if (!result) continue;
    const auto& sampling = result->generation.sampling;
    Require(sampling.temperature >= 0 && sampling.temperature <= 2);
    Require(sampling.top_p > 0 && sampling.top_p <= 1);
    Require(result->generation.stop.size() <= ballast::kMaxStops);
    for (const auto& [token, bias] : sampling.logit_bias) {
      Require(token >= 0 && token < limits.vocab && bias >= -100 && bias <= 100);
    }
    Require(endpoint == ballast::kChat ? !result->messages.empty() : !result->prompts.empty());
  }
  CheckOutcome(ballast::ParseTokenize(body));
  CheckOutcome(ballast::ParseDetokenize(body, limits));
  return 0;
}
