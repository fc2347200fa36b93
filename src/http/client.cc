#include "http/client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

namespace ballast {

namespace {

constexpr size_t kMaxReplyBytes = size_t{1} << 30;

Result<size_t> ParseSize(std::string_view text, int base) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || value > kMaxReplyBytes) {
    return InvalidArgument("the reply has the bad length {:?}", text);
  }
  return value;
}

}  // namespace

std::string_view HttpReply::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (EqualsIgnoreCase(key, name)) return value;
  }
  return {};
}

Result<HttpClient> HttpClient::Connect(const std::string& host, int port, int64_t timeout_ms) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return InvalidArgument("{:?} is not an IPv4 address", host);
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Unavailable("socket: {}", std::strerror(errno));
  HttpClient client(fd, timeout_ms);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Unavailable("cannot connect to {} port {}: {}", host, port, std::strerror(errno));
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  client.host_ = fmt::format("{}:{}", host, port);
  return client;
}

HttpClient::HttpClient(HttpClient&& other) noexcept { *this = std::move(other); }

HttpClient& HttpClient::operator=(HttpClient&& other) noexcept {
  if (this == &other) return *this;
  Close();
  fd_ = std::exchange(other.fd_, -1);
  timeout_ms_ = other.timeout_ms_;
  host_ = std::move(other.host_);
  buffer_ = std::move(other.buffer_);
  sse_ = std::move(other.sse_);
  stream_ended_ = other.stream_ended_;
  return *this;
}

HttpClient::~HttpClient() { Close(); }

void HttpClient::Close(CloseMode mode) {
  if (fd_ < 0) return;
  if (mode == CloseMode::kReset) {
    const linger option{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &option, sizeof option);
  }
  close(fd_);
  fd_ = -1;
}

void HttpClient::ShrinkReceiveBuffer() {
  const int bytes = 2048;
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

Status HttpClient::SendRaw(std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd waiter{fd_, POLLOUT, 0};
    if (poll(&waiter, 1, static_cast<int>(timeout_ms_)) <= 0) {
      return MakeError(Code::kDeadlineExceeded, "nothing could be sent within {} ms", timeout_ms_);
    }
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return Unavailable("send: {}", std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return OkStatus();
}

Status HttpClient::SendRequest(std::string_view method, std::string_view target,
                               std::string_view body, const HttpHeaders& headers) {
  std::string out = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", method, target, host_);
  if (!body.empty()) {
    out += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  }
  for (const auto& [name, value] : headers) out += fmt::format("{}: {}\r\n", name, value);
  out.append("\r\n").append(body);
  return SendRaw(out);
}

Status HttpClient::Receive() {
  pollfd waiter{fd_, POLLIN, 0};
  if (poll(&waiter, 1, static_cast<int>(timeout_ms_)) <= 0) {
    return MakeError(Code::kDeadlineExceeded, "nothing arrived within {} ms", timeout_ms_);
  }
  char bytes[16 * 1024];
  const ssize_t got = recv(fd_, bytes, sizeof bytes, 0);
  if (got < 0) return Unavailable("recv: {}", std::strerror(errno));
  if (got == 0) return MakeError(Code::kOutOfRange, "the server closed the connection");
  if (buffer_.size() > kMaxReplyBytes) return InvalidArgument("the reply is too large");
  buffer_.append(bytes, static_cast<size_t>(got));
  return OkStatus();
}

Result<std::string> HttpClient::ReadLine() {
  size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos) RETURN_IF_ERROR(Receive());
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

Status HttpClient::ReadExactly(size_t size, std::string& out) {
  while (buffer_.size() < size) RETURN_IF_ERROR(Receive());
  out.append(buffer_, 0, size);
  buffer_.erase(0, size);
  return OkStatus();
}

Result<std::string> HttpClient::ReadChunk() {
  ASSIGN_OR_RETURN(const std::string line, ReadLine());
  ASSIGN_OR_RETURN(const size_t size, ParseSize(line, 16));
  std::string chunk;
  RETURN_IF_ERROR(ReadExactly(size, chunk));
  ASSIGN_OR_RETURN(const std::string empty, ReadLine());
  if (!empty.empty()) return InvalidArgument("a chunk is not followed by a line end");
  return chunk;
}

Result<HttpReply> HttpClient::ReadHead() {
  sse_.clear();
  stream_ended_ = false;
  HttpReply reply;
  do {
    reply = {};
    ASSIGN_OR_RETURN(const std::string status_line, ReadLine());
    if (status_line.size() < 12 || !status_line.starts_with("HTTP/1.")) {
      return InvalidArgument("bad status line {:?}", status_line);
    }
    ASSIGN_OR_RETURN(const size_t status,
                     ParseSize(std::string_view(status_line).substr(9, 3), 10));
    reply.status = static_cast<int>(status);
    while (true) {
      ASSIGN_OR_RETURN(const std::string line, ReadLine());
      if (line.empty()) break;
      const size_t colon = line.find(':');
      if (colon == std::string::npos) return InvalidArgument("bad header line {:?}", line);
      size_t value = colon + 1;
      while (value < line.size() && line[value] == ' ') ++value;
      reply.headers.emplace_back(line.substr(0, colon), line.substr(value));
    }
  } while (reply.status == 100);
  return reply;
}

Result<HttpReply> HttpClient::ReadReply(bool head) {
  ASSIGN_OR_RETURN(HttpReply reply, ReadHead());
  if (head || reply.status == 204 || reply.status == 304) return reply;
  if (EqualsIgnoreCase(reply.Header("Transfer-Encoding"), "chunked")) {
    while (true) {
      ASSIGN_OR_RETURN(const std::string chunk, ReadChunk());
      if (chunk.empty()) return reply;
      reply.body += chunk;
    }
  }
  if (!reply.Header("Content-Length").empty()) {
    ASSIGN_OR_RETURN(const size_t size, ParseSize(reply.Header("Content-Length"), 10));
    RETURN_IF_ERROR(ReadExactly(size, reply.body));
    return reply;
  }
  while (true) {
    Status more = Receive();
    if (!more && more.error().code == Code::kOutOfRange) break;
    RETURN_IF_ERROR(std::move(more));
  }
  reply.body = std::exchange(buffer_, {});
  return reply;
}

Result<HttpReply> HttpClient::Do(std::string_view method, std::string_view target,
                                 std::string_view body, const HttpHeaders& headers) {
  RETURN_IF_ERROR(SendRequest(method, target, body, headers));
  return ReadReply(method == "HEAD");
}

Result<std::string> HttpClient::ReadSse() {
  size_t end;
  while ((end = sse_.find("\n\n")) == std::string::npos) {
    if (stream_ended_) return MakeError(Code::kOutOfRange, "the stream has ended");
    ASSIGN_OR_RETURN(const std::string chunk, ReadChunk());
    if (chunk.empty()) stream_ended_ = true;
    sse_ += chunk;
  }
  std::string block = sse_.substr(0, end);
  sse_.erase(0, end + 2);
  return block;
}

bool HttpClient::AwaitClose() {
  while (true) {
    const Status more = Receive();
    if (!more) return more.error().code != Code::kDeadlineExceeded;
    buffer_.clear();
  }
}

}  // namespace ballast
