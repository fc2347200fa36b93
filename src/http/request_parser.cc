#include "http/request_parser.h"

#include <fmt/format.h>

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <limits>

namespace ballast {

namespace beast_http = boost::beast::http;

struct RequestParser::State {
  beast_http::request_parser<beast_http::string_body> parser;
};

RequestParser::RequestParser(const HttpLimits& limits)
    : state_(std::make_unique<State>()), limits_(limits) {
  const size_t header_limit =
      std::min<size_t>(limits.header_bytes, std::numeric_limits<uint32_t>::max());
  state_->parser.header_limit(static_cast<uint32_t>(header_limit));
  state_->parser.body_limit(limits.body_bytes);
  state_->parser.eager(true);
}

RequestParser::~RequestParser() = default;

void RequestParser::Fail(int status, std::string message) {
  error_status_ = status;
  error_message_ = std::move(message);
}

size_t RequestParser::Feed(std::string_view data) {
  size_t taken = 0;
  while (taken < data.size() && !done() && error_status_ == 0) {
    boost::system::error_code error;
    const size_t used = state_->parser.put(
        boost::asio::const_buffer(data.data() + taken, data.size() - taken), error);
    taken += used;
    if (error == beast_http::error::need_more) break;
    if (error == beast_http::error::body_limit) {
      Fail(413, fmt::format("the request body is larger than the limit of {} bytes",
                            limits_.body_bytes));
    } else if (error == beast_http::error::header_limit) {
      Fail(431, fmt::format("the request headers are larger than the limit of {} bytes",
                            limits_.header_bytes));
    } else if (error) {
      Fail(400, fmt::format("malformed HTTP request: {}", error.message()));
    } else if (used == 0) {
      break;
    }
  }
  return taken;
}

bool RequestParser::header_done() const { return state_->parser.is_header_done(); }
bool RequestParser::done() const { return state_->parser.is_done(); }

bool RequestParser::expects_continue() const {
  const auto& message = state_->parser.get();
  return EqualsIgnoreCase(std::string_view(message[beast_http::field::expect].data(),
                                           message[beast_http::field::expect].size()),
                          "100-continue");
}

bool RequestParser::keep_alive() const { return state_->parser.get().keep_alive(); }
bool RequestParser::http_1_1() const { return state_->parser.get().version() >= 11; }

std::string RequestParser::path() const {
  const auto target = state_->parser.get().target();
  return PercentDecode(std::string_view(target.data(), target.size()).substr(0, target.find('?')));
}

HttpRequest RequestParser::Take() {
  auto message = state_->parser.release();
  HttpRequest request;
  const auto method = message.method_string();
  request.method.assign(method.data(), method.size());
  const auto target = message.target();
  std::string_view view(target.data(), target.size());
  const size_t mark = view.find('?');
  request.path = PercentDecode(view.substr(0, mark));
  if (mark != std::string_view::npos) request.query = std::string(view.substr(mark + 1));
  for (const auto& field : message) {
    const auto name = field.name_string();
    const auto value = field.value();
    request.headers.emplace_back(std::string(name.data(), name.size()),
                                 std::string(value.data(), value.size()));
  }
  request.body = std::move(message.body());
  return request;
}

}  // namespace ballast
