#include "http/connection.h"

#include <fmt/format.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>

namespace ballast {

namespace asio = boost::asio;

// What a reply needs of its connection, which it may outlive. The executor is a part of the core's
// io_context, so the core must be destroyed after it: it is declared before it.
struct Connection::Link {
  std::shared_ptr<Core> core;
  asio::ip::tcp::socket::executor_type executor;
  std::weak_ptr<Connection> connection;
};

Connection::Connection(std::shared_ptr<Core> core, asio::ip::tcp::socket socket,
                       Admission admission)
    : core_(std::move(core)),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      ticks_(socket_.get_executor()),
      admission_(admission),
      parser_(std::make_unique<RequestParser>(core_->limits)) {
  if (admission_ == Admission::kServe) core_->served.fetch_add(1);
  boost::system::error_code error;
  const auto endpoint = socket_.remote_endpoint(error);
  if (!error) peer_ = endpoint.address().to_string();
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
}

Connection::~Connection() {
  ReleaseBody();
  if (admission_ == Admission::kServe) core_->served.fetch_sub(1);
}

void Connection::Start() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->SetDeadline(self->admission_ == Admission::kServe ? self->core_->limits.header_timeout_ms
                                                            : 1000);
    self->Read();
  });
}

void Connection::Stop(bool wait_for_reply) {
  asio::post(socket_.get_executor(), [self = shared_from_this(), wait_for_reply] {
    if (wait_for_reply && self->phase_ == Phase::kAnswering) {
      self->stop_after_reply_ = true;
    } else {
      self->Close();
    }
  });
}

void Connection::Read() {
  if (phase_ == Phase::kClosed) return;
  socket_.async_read_some(asio::buffer(read_buffer_),
                          [self = shared_from_this()](boost::system::error_code error,
                                                      size_t size) { self->OnRead(error, size); });
}

void Connection::OnRead(boost::system::error_code error, size_t size) {
  if (phase_ == Phase::kClosed) return;
  if (error) {
    // The end of a client's stream counts as a hang-up: a client that wants its answer keeps both
    // directions open. A reply that is already complete is still flushed.
    if (phase_ == Phase::kAnswering && reply_ended_ && error == asio::error::eof) {
      close_after_reply_ = true;
      input_ended_ = true;
      return;
    }
    Close();
    return;
  }
  if (phase_ == Phase::kReading) {
    input_.append(read_buffer_.data(), size);
    ParseInput();
  } else if (phase_ == Phase::kAnswering) {
    if (input_.size() + size > core_->limits.pipeline_bytes) {
      Close();
      return;
    }
    input_.append(read_buffer_.data(), size);
  }
  Read();
}

void Connection::ParseInput() {
  while (phase_ == Phase::kReading && !input_.empty()) {
    if (!request_started_) {
      request_started_ = true;
      SetDeadline(core_->limits.header_timeout_ms);
    }
    const bool header_was_done = parser_->header_done();
    const size_t taken = parser_->Feed(input_);
    input_.erase(0, taken);
    if (parser_->error_status() != 0) {
      ReplyError(parser_->error_status(), parser_->error_message());
      return;
    }
    if (!header_was_done && parser_->header_done() && !parser_->done()) {
      SetDeadline(core_->limits.body_timeout_ms);
      in_body_ = true;
      if (parser_->expects_continue() && input_.empty()) {
        boost::system::error_code ignored;  // if it does not fit, the client sends on by itself
        socket_.write_some(asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n")),
                           ignored);
      }
    }
    if (parser_->done()) {
      Dispatch();
      return;
    }
    if (in_body_) ChargeBody(taken);
    if (taken == 0) return;
  }
}

void Connection::ChargeBody(size_t bytes) {
  charged_body_bytes_ += bytes;
  const size_t total = core_->body_bytes.fetch_add(bytes) + bytes;
  if (total > core_->limits.total_body_bytes) {
    ReplyError(503, fmt::format("request bodies in flight exceed the limit of {} bytes",
                                core_->limits.total_body_bytes));
  }
}

void Connection::ReleaseBody() {
  core_->body_bytes.fetch_sub(charged_body_bytes_);
  charged_body_bytes_ = 0;
}

void Connection::Dispatch() {
  if (admission_ == Admission::kRefuse) {
    ReplyError(503,
               fmt::format("too many connections; the limit is {}", core_->limits.max_connections));
    return;
  }
  ReplyShape shape;
  shape.keep_alive = parser_->keep_alive();
  shape.http_1_1 = parser_->http_1_1();
  HttpRequest request = parser_->Take();
  shape.head = request.method == "HEAD";
  request.peer = peer_;
  ReleaseBody();
  core_->requests.fetch_add(1);
  phase_ = Phase::kAnswering;
  reply_ended_ = false;
  SetDeadline(0);
  const auto link =
      std::make_shared<const Link>(Link{core_, socket_.get_executor(), weak_from_this()});
  reply_ = std::make_shared<ReplyQueue>(
      shape, core_->limits.queue_bytes,
      [link] {
        asio::post(link->executor, [weak = link->connection] {
          if (const auto self = weak.lock()) self->Pump();
        });
      },
      [link](int64_t interval_ms) {
        asio::post(link->executor, [weak = link->connection, interval_ms] {
          if (const auto self = weak.lock()) self->StartTicks(interval_ms);
        });
      });
  core_->handler->Handle(std::move(request), reply_);
}

void Connection::ReplyError(int status, const std::string& message) {
  ReleaseBody();
  if (phase_ != Phase::kReading) return;
  ReplyShape shape;
  shape.keep_alive = false;
  HttpResponse response = core_->handler->TransportError(status, message, parser_->path());
  output_ = FormatHead(response, shape, /*streamed=*/false) + response.body;
  output_sent_ = 0;
  phase_ = Phase::kAnswering;
  reply_ = nullptr;
  reply_ended_ = true;
  close_after_reply_ = true;
  input_ = {};
  WriteSome();
}

// While a write is pending its buffer must not move, so new bytes stay in the queue until it is
// through.
void Connection::Pump() {
  if (phase_ != Phase::kAnswering || !reply_) return;
  if (writing_) {
    if (reply_->Sent(output_.size() - output_sent_)) DropSlow();
    return;
  }
  ReplyQueue::Output more = reply_->Take();
  if (more.overflow) {
    DropSlow();
    return;
  }
  output_ = std::move(more.bytes);
  output_sent_ = 0;
  if (more.ended) {
    reply_ended_ = true;
    if (!reply_->keep_alive()) close_after_reply_ = true;
  }
  WriteSome();
}

void Connection::DropSlow() {
  core_->slow_dropped.fetch_add(1);
  Close();
}

void Connection::WriteSome() {
  if (output_sent_ == output_.size()) {
    output_.clear();
    output_sent_ = 0;
    SetDeadline(0);
    if (reply_ended_) EndReply();
    return;
  }
  writing_ = true;
  SetDeadline(core_->limits.write_stall_ms);
  socket_.async_write_some(
      asio::buffer(output_.data() + output_sent_, output_.size() - output_sent_),
      [self = shared_from_this()](boost::system::error_code error, size_t size) {
        self->OnWritten(error, size);
      });
}

void Connection::OnWritten(boost::system::error_code error, size_t size) {
  writing_ = false;
  if (phase_ == Phase::kClosed) return;
  if (error) {
    Close();
    return;
  }
  output_sent_ += size;
  if (output_sent_ == output_.size() && reply_ && !reply_ended_) {
    output_.clear();
    output_sent_ = 0;
    reply_->Sent(0);
    Pump();
    return;
  }
  WriteSome();
}

void Connection::EndReply() {
  reply_ = nullptr;
  reply_ended_ = false;
  ticks_.cancel();
  if (stop_after_reply_ || core_->stopping.load()) {
    Close();
    return;
  }
  if (close_after_reply_) {
    Linger();
    return;
  }
  phase_ = Phase::kReading;
  request_started_ = false;
  in_body_ = false;
  parser_ = std::make_unique<RequestParser>(core_->limits);
  SetDeadline(core_->limits.idle_timeout_ms);
  ParseInput();
}

// A close with unread input makes the kernel send a reset, which can overtake the reply. So the
// sending side ends first, and what the client still sends is read and thrown away for a moment.
void Connection::Linger() {
  if (input_ended_) {
    Close();
    return;
  }
  phase_ = Phase::kLingering;
  boost::system::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  SetDeadline(core_->limits.linger_ms);
}

void Connection::Close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  boost::system::error_code ignored;
  timer_.cancel();
  ticks_.cancel();
  socket_.close(ignored);
  ReleaseBody();
  if (reply_) {
    if (!reply_ended_) core_->hangups.fetch_add(1);
    reply_->Close();
    reply_ = nullptr;
  }
  const std::lock_guard lock(core_->mutex);
  core_->connections.erase(shared_from_this());
}

// The deadline moves with every write; the timer is only re-armed when it would fire too late.
void Connection::SetDeadline(int64_t ms) {
  deadline_ =
      ms == 0 ? Time::max() : std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
  if (deadline_ < armed_) ArmTimer();
}

void Connection::ArmTimer() {
  if (phase_ == Phase::kClosed || deadline_ == Time::max()) {
    armed_ = Time::max();
    return;
  }
  armed_ = deadline_;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (error || self->phase_ == Phase::kClosed) return;
    if (std::chrono::steady_clock::now() >= self->deadline_) {
      self->OnDeadline();
    } else {
      self->ArmTimer();
    }
  });
}

void Connection::OnDeadline() {
  deadline_ = Time::max();
  armed_ = Time::max();
  switch (phase_) {
    case Phase::kAnswering:  // a write made no progress
      DropSlow();
      return;
    case Phase::kReading:
      if (!request_started_) {
        Close();
        return;
      }
      core_->timeouts.fetch_add(1);
      ReplyError(408, in_body_ ? fmt::format("the request body did not arrive within {} ms",
                                             core_->limits.body_timeout_ms)
                               : fmt::format("the request headers did not arrive within {} ms",
                                             core_->limits.header_timeout_ms));
      return;
    case Phase::kLingering:
    case Phase::kClosed:
      Close();
      return;
  }
}

void Connection::StartTicks(int64_t interval_ms) {
  if (phase_ != Phase::kAnswering) return;
  tick_interval_ = std::chrono::milliseconds(interval_ms);
  ArmTicks();
}

void Connection::ArmTicks() {
  ticks_.expires_after(tick_interval_);
  ticks_.async_wait([self = shared_from_this(), reply = reply_](boost::system::error_code error) {
    if (error || self->phase_ != Phase::kAnswering || self->reply_ != reply || !reply) return;
    if (self->reply_ended_) return;
    reply->Tick();
    if (self->phase_ == Phase::kAnswering && self->reply_ == reply) self->ArmTicks();
  });
}

}  // namespace ballast
