// Role: an exchange around another one: what a class does not override goes on to it. Base of those
// that watch a reply or give it another shape. Thread: as Exchange.
#ifndef BALLAST_HTTP_FORWARDING_EXCHANGE_H_
#define BALLAST_HTTP_FORWARDING_EXCHANGE_H_

#include <memory>
#include <utility>

#include "http/server.h"

namespace ballast {

class ForwardingExchange : public Exchange {
 public:
  explicit ForwardingExchange(std::shared_ptr<Exchange> to) : to_(std::move(to)) {}

  void Send(HttpResponse response) override { to_->Send(std::move(response)); }
  void StartStream(HttpResponse response) override { to_->StartStream(std::move(response)); }
  bool Write(std::string_view bytes) override { return to_->Write(bytes); }
  void Finish() override { to_->Finish(); }
  void OnClosed(std::function<void()> fn) override { to_->OnClosed(std::move(fn)); }
  void Every(int64_t interval_ms, std::function<void()> fn) override {
    to_->Every(interval_ms, std::move(fn));
  }
  bool closed() const override { return to_->closed(); }

 protected:
  Exchange& to() const { return *to_; }

 private:
  const std::shared_ptr<Exchange> to_;
};

}  // namespace ballast

#endif  // BALLAST_HTTP_FORWARDING_EXCHANGE_H_
