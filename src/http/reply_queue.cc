#include "http/reply_queue.h"

#include <fmt/format.h>

#include <ctime>

namespace ballast {

namespace {

std::string HttpDate() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[parts.tm_wday], parts.tm_mday,
                     kMonths[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour, parts.tm_min,
                     parts.tm_sec);
}

void AppendHeader(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value) {
    if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) out.push_back(c);
  }
  out.append("\r\n");
}

}  // namespace

std::string FormatHead(const HttpResponse& response, const ReplyShape& shape, bool streamed) {
  std::string out =
      fmt::format("HTTP/1.1 {} {}\r\n", response.status, ReasonPhrase(response.status));
  AppendHeader(out, "Date", HttpDate());
  AppendHeader(out, "Server", "ballast");
  if (!response.content_type.empty()) AppendHeader(out, "Content-Type", response.content_type);
  for (const auto& [name, value] : response.headers) AppendHeader(out, name, value);
  if (!streamed) {
    if (response.status != 204 && response.status != 304) {
      AppendHeader(out, "Content-Length", std::to_string(response.body.size()));
    }
  } else if (shape.http_1_1) {
    AppendHeader(out, "Transfer-Encoding", "chunked");
  }
  const bool keep_alive = shape.keep_alive && (!streamed || shape.http_1_1);
  AppendHeader(out, "Connection", keep_alive ? "keep-alive" : "close");
  out.append("\r\n");
  return out;
}

void ReplyQueue::Append(std::string_view bytes) {
  if (bytes.empty() || shape_.head) return;
  if (!shape_.http_1_1) {
    pending_.append(bytes);
    return;
  }
  pending_.append(fmt::format("{:x}\r\n", bytes.size()));
  pending_.append(bytes).append("\r\n");
}

void ReplyQueue::Wake() {
  if (woken_) return;
  woken_ = true;
  wake_();
}

void ReplyQueue::Send(HttpResponse response) {
  std::function<void()> dead_tick, dead_closed;  // destroyed outside the mutex
  const std::lock_guard lock(mutex_);
  if (state_ != State::kNew) return;
  pending_ = FormatHead(response, shape_, /*streamed=*/false);
  if (!shape_.head && response.status != 204 && response.status != 304) {
    pending_.append(response.body);
  }
  state_ = State::kEnded;
  dead_tick.swap(on_tick_);
  dead_closed.swap(on_closed_);
  Wake();
}

void ReplyQueue::StartStream(HttpResponse response) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kNew) return;
  state_ = State::kStreaming;
  pending_ = FormatHead(response, shape_, /*streamed=*/true);
  Append(response.body);
  Wake();
}

bool ReplyQueue::Write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kStreaming || overflow_) return false;
  if (pending_.size() + unsent_bytes_ + bytes.size() > limit_bytes_) {
    overflow_ = true;
  } else {
    Append(bytes);
  }
  Wake();
  return !overflow_;
}

void ReplyQueue::Finish() {
  std::function<void()> dead_tick, dead_closed;
  const std::lock_guard lock(mutex_);
  if (state_ != State::kStreaming) return;
  if (shape_.http_1_1 && !shape_.head) pending_.append("0\r\n\r\n");
  state_ = State::kEnded;
  dead_tick.swap(on_tick_);
  dead_closed.swap(on_closed_);
  Wake();
}

void ReplyQueue::OnClosed(std::function<void()> fn) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded) return;
    if (state_ != State::kClosed) {
      on_closed_ = std::move(fn);
      return;
    }
  }
  fn();
}

void ReplyQueue::Every(int64_t interval_ms, std::function<void()> fn) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kEnded || state_ == State::kClosed) return;
  on_tick_ = std::move(fn);
  start_ticks_(interval_ms);
}

bool ReplyQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kClosed;
}

ReplyQueue::Output ReplyQueue::Take() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  Output output;
  output.bytes.swap(pending_);
  unsent_bytes_ = output.bytes.size();
  output.ended = state_ == State::kEnded;
  output.overflow = overflow_;
  return output;
}

bool ReplyQueue::Sent(size_t unsent_bytes) {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  unsent_bytes_ = unsent_bytes;
  return overflow_;
}

void ReplyQueue::Close() {
  std::function<void()> on_closed, dead_tick;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded || state_ == State::kClosed) return;
    state_ = State::kClosed;
    pending_ = {};
    on_closed.swap(on_closed_);
    dead_tick.swap(on_tick_);
  }
  if (on_closed) on_closed();
}

void ReplyQueue::Tick() {
  std::function<void()> on_tick;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kEnded || state_ == State::kClosed) return;
    on_tick = on_tick_;
  }
  if (on_tick) on_tick();
}

}  // namespace ballast
