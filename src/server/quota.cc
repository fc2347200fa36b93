#include "server/quota.h"

#include <algorithm>

namespace ballast {

void MinuteWindow::Advance(int64_t now_s) {
  if (now_s <= last_s_) return;
  const int64_t steps = std::min(now_s - last_s_, kSeconds);
  for (int64_t i = 0; i < steps; ++i) {
    int64_t& leaving = amounts_[static_cast<size_t>((now_s - i) % kSeconds)];
    sum_ -= leaving;
    leaving = 0;
  }
  last_s_ = now_s;
}

void MinuteWindow::Add(int64_t now_s, int64_t second, int64_t amount) {
  Advance(now_s);
  if (second <= last_s_ - kSeconds || second > last_s_ || second < 0) return;
  amounts_[static_cast<size_t>(second % kSeconds)] += amount;
  sum_ += amount;
}

int64_t MinuteWindow::Sum(int64_t now_s) {
  Advance(now_s);
  return sum_;
}

int64_t MinuteWindow::SecondsUntil(int64_t now_s, int64_t limit) {
  Advance(now_s);
  int64_t left = sum_;
  for (int64_t wait = 0; wait < kSeconds; ++wait) {
    if (left <= limit) return wait;
    // After one more second the oldest has left.
    left -= amounts_[static_cast<size_t>((last_s_ + 1 + wait) % kSeconds)];
  }
  return kSeconds;
}

ApiError QuotaBook::Refuse(Tenant& tenant, const char* quota, int64_t limit, std::string_view what,
                           int64_t retry_s) {
  ++tenant.totals.refused;
  ApiError error;
  error.status = 429;
  error.type = "rate_limit_error";
  error.code = "rate_limit_exceeded";
  error.retry_after_s = static_cast<int>(std::max<int64_t>(retry_s, 1));
  error.message = fmt::format("over the quota {} of {}: {}; try again in {} s", quota, limit, what,
                              error.retry_after_s);
  return error;
}

ApiStatus QuotaBook::Enter(const Identity& identity) {
  const std::lock_guard lock(mutex_);
  Tenant& tenant = tenants_[identity.tenant];
  const Quotas& quotas = identity.quotas;
  if (quotas.concurrent_requests && tenant.totals.running >= *quotas.concurrent_requests) {
    return Refuse(tenant, "concurrent_requests", *quotas.concurrent_requests,
                  fmt::format("{} requests are running", tenant.totals.running), 1);
  }
  const int64_t now = NowSeconds();
  if (const auto limit = quotas.requests_per_minute) {
    const int64_t sum = tenant.requests.Sum(now);
    if (sum >= *limit) {
      return Refuse(tenant, "requests_per_minute", *limit,
                    fmt::format("{} requests in the last 60 s", sum),
                    tenant.requests.SecondsUntil(now, *limit - 1));
    }
  }
  tenant.requests.Add(now, now, 1);
  ++tenant.totals.requests;
  ++tenant.totals.running;
  return {};
}

void QuotaBook::Leave(const std::string& name) {
  const std::lock_guard lock(mutex_);
  --tenants_[name].totals.running;
}

ApiResult<QuotaBook::Reservation> QuotaBook::Reserve(const Identity& identity, int64_t tokens) {
  const std::lock_guard lock(mutex_);
  Tenant& tenant = tenants_[identity.tenant];
  const int64_t now = NowSeconds();
  if (const auto limit = identity.quotas.tokens_per_minute) {
    if (tokens > *limit) {
      ++tenant.totals.refused;
      ApiError error;
      error.code = "tokens_over_quota";
      error.message = fmt::format(
          "the request may use {} tokens (prompt and max_tokens), which is over the quota "
          "tokens_per_minute of {} by itself",
          tokens, *limit);
      return error;
    }
    const int64_t sum = tenant.tokens.Sum(now);
    if (sum + tokens > *limit) {
      return Refuse(
          tenant, "tokens_per_minute", *limit,
          fmt::format("{} tokens in the last 60 s, and the request may use {}", sum, tokens),
          tenant.tokens.SecondsUntil(now, *limit - tokens));
    }
  }
  tenant.tokens.Add(now, now, tokens);
  return Reservation{now, tokens};
}

void QuotaBook::Settle(const std::string& name, Reservation reservation, int64_t prompt_tokens,
                       int64_t completion_tokens) {
  const std::lock_guard lock(mutex_);
  Tenant& tenant = tenants_[name];
  const int64_t now = NowSeconds();
  const int64_t used = prompt_tokens + completion_tokens;
  if (used < reservation.tokens) {
    tenant.tokens.Add(now, reservation.second, used - reservation.tokens);
  } else {
    tenant.tokens.Add(now, now, used - reservation.tokens);
  }
  tenant.totals.prompt_tokens += prompt_tokens;
  tenant.totals.completion_tokens += completion_tokens;
}

HttpHeaders QuotaBook::RateHeaders(const Identity& identity) {
  HttpHeaders headers;
  const Quotas& quotas = identity.quotas;
  if (!quotas.requests_per_minute && !quotas.tokens_per_minute) return headers;
  const std::lock_guard lock(mutex_);
  Tenant& tenant = tenants_[identity.tenant];
  const int64_t now = NowSeconds();
  const auto add = [&](const char* kind, MinuteWindow& window, int64_t limit) {
    const int64_t left = std::max<int64_t>(limit - window.Sum(now), 0);
    headers.emplace_back(fmt::format("x-ratelimit-limit-{}", kind), std::to_string(limit));
    headers.emplace_back(fmt::format("x-ratelimit-remaining-{}", kind), std::to_string(left));
    headers.emplace_back(fmt::format("x-ratelimit-reset-{}", kind),
                         fmt::format("{}s", window.SecondsUntil(now, 0)));
  };
  if (quotas.requests_per_minute) add("requests", tenant.requests, *quotas.requests_per_minute);
  if (quotas.tokens_per_minute) add("tokens", tenant.tokens, *quotas.tokens_per_minute);
  return headers;
}

std::vector<TenantTotals> QuotaBook::Totals() const {
  const std::lock_guard lock(mutex_);
  std::vector<TenantTotals> all;
  for (const auto& [name, tenant] : tenants_) {
    all.push_back(tenant.totals);
    all.back().tenant = name;
  }
  return all;
}

}  // namespace ballast
