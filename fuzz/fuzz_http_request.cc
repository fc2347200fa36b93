// Bytes of a connection, cut at places that the first byte picks: the parser takes them within its
// limits and ends with a request or a status that names a reason, wherever they were cut.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/request_parser.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

struct Outcome {
  int status = 0;
  bool done = false;
  std::string path;
  std::string body;
};

Outcome ParseIn(std::string_view bytes, size_t step) {
  ballast::HttpLimits limits;
  limits.header_bytes = 512;
  limits.body_bytes = 1024;
  ballast::RequestParser parser(limits);
  std::string pending;
  while (!parser.done() && parser.error_status() == 0 && !bytes.empty()) {
    const size_t count = std::min(step, bytes.size());
    pending += bytes.substr(0, count);
    bytes.remove_prefix(count);
    pending.erase(0, parser.Feed(pending));
  }
  Outcome outcome;
  outcome.status = parser.error_status();
  outcome.done = parser.done();
  Require(outcome.status == 0 || !parser.error_message().empty());
  Require(outcome.status == 0 || outcome.status == 400 || outcome.status == 413 ||
          outcome.status == 431);
  if (outcome.status == 0 && outcome.done) {
    ballast::HttpRequest request = parser.Take();
    Require(request.body.size() <= limits.body_bytes);
    outcome.path = request.path;
    outcome.body = request.body;
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = ParseIn(bytes, size);
  const Outcome cut = ParseIn(bytes, size_t{data[0]} + 1);
  if (whole.done && cut.done && whole.status == 0 && cut.status == 0) {
    Require(whole.path == cut.path && whole.body == cut.body);
  }
  return 0;
}
