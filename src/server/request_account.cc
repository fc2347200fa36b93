#include "server/request_account.h"

#include <cmath>
#include <utility>

#include "http/forwarding_exchange.h"

namespace ballast {

namespace {

class AccountedExchange final : public ForwardingExchange {
 public:
  AccountedExchange(std::shared_ptr<Exchange> to, std::shared_ptr<RequestAccount> account)
      : ForwardingExchange(std::move(to)), account_(std::move(account)) {}

  void Send(HttpResponse response) override {
    account_->End(response.status);
    to().Send(std::move(response));
  }
  void StartStream(HttpResponse response) override {
    status_ = response.status;
    to().StartStream(std::move(response));
  }
  void Finish() override {
    account_->End(status_);
    to().Finish();
  }

 private:
  const std::shared_ptr<RequestAccount> account_;
  std::atomic<int> status_{200};
};

}  // namespace

Json NameOrNull(const std::string& name) { return name.empty() ? Json(nullptr) : Json(name); }

RequestAccount::RequestAccount(std::shared_ptr<AccountBooks> books, Identity identity,
                               Request request)
    : books_(std::move(books)), identity_(std::move(identity)), request_(std::move(request)) {}

RequestAccount::~RequestAccount() { End(kClientLeft); }

ApiStatus RequestAccount::Enter() {
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(books_->quotas.Enter(identity_));
  entered_ = true;
  return {};
}

ApiStatus RequestAccount::Reserve(int64_t tokens) {
  const std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(reservation_, books_->quotas.Reserve(identity_, tokens));
  return {};
}

HttpHeaders RequestAccount::RateHeaders() { return books_->quotas.RateHeaders(identity_); }

void RequestAccount::AddUsage(int64_t prompt_tokens, int64_t completion_tokens) {
  const std::lock_guard lock(mutex_);
  if (ended_) {
    books_->quotas.Settle(identity_.tenant, {}, prompt_tokens, completion_tokens);
    return;
  }
  prompt_tokens_ += prompt_tokens;
  completion_tokens_ += completion_tokens;
}

void RequestAccount::End(int status) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true)) return;
  books_->quotas.Settle(identity_.tenant, reservation_.value_or(QuotaBook::Reservation()),
                        prompt_tokens_, completion_tokens_);
  if (entered_) books_->quotas.Leave(identity_.tenant);
  if (books_->audit == nullptr) return;
  const std::chrono::duration<double, std::milli> took =
      std::chrono::steady_clock::now() - arrived_;
  Json line;
  line["request_id"] = request_.id;
  line["tenant"] = NameOrNull(identity_.tenant);
  line["key"] = NameOrNull(identity_.key_id);
  line["method"] = request_.method;
  line["route"] = request_.route;
  line["status"] = status;
  line["prompt_tokens"] = prompt_tokens_;
  line["completion_tokens"] = completion_tokens_;
  line["duration_ms"] = std::floor(took.count() * 10) / 10;
  line["peer"] = request_.peer;
  books_->audit->Write("request", line);
}

std::shared_ptr<Exchange> Accounted(std::shared_ptr<Exchange> to,
                                    std::shared_ptr<RequestAccount> account) {
  return std::make_shared<AccountedExchange>(std::move(to), std::move(account));
}

}  // namespace ballast
