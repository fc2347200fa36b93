#include "server/request_registry.h"

#include <utility>

namespace ballast {

std::string_view LiveStateName(LiveState state) {
  switch (state) {
    case LiveState::kQueued:
      return "queued";
    case LiveState::kPrefill:
      return "prefill";
    case LiveState::kDecode:
      return "decode";
  }
  return "queued";
}

RequestRegistry::Registration& RequestRegistry::Registration::operator=(
    Registration&& other) noexcept {
  std::swap(registry_, other.registry_);
  std::swap(key_, other.key_);
  return *this;
}

RequestRegistry::Registration::~Registration() {
  if (registry_ == nullptr) return;
  const std::lock_guard lock(registry_->mutex_);
  registry_->entries_.erase(key_);
}

RequestRegistry::Registration RequestRegistry::Add(LiveRequest request,
                                                   std::weak_ptr<LiveCall> call) {
  const std::lock_guard lock(mutex_);
  const uint64_t key = next_key_++;
  entries_.emplace(key, Entry{std::move(request), std::move(call)});
  return Registration(shared_from_this(), key);
}

// The calls are asked, and let go of, without the mutex: the last holder of a call takes its entry
// out.
std::vector<RequestRegistry::Listed> RequestRegistry::List(const Sees& sees) {
  std::vector<Entry> entries;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, entry] : entries_) {
      if (sees(entry.request.tenant)) entries.push_back(entry);
    }
  }
  std::vector<Listed> listed;
  for (Entry& entry : entries) {
    const std::shared_ptr<LiveCall> call = entry.call.lock();
    if (call == nullptr) continue;
    const LiveProgress progress = call->Progress();
    if (!progress.over) listed.push_back({std::move(entry.request), progress});
  }
  return listed;
}

bool RequestRegistry::Cancel(std::string_view id, const Sees& sees) {
  std::shared_ptr<LiveCall> call;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, entry] : entries_) {
      if (entry.request.id == id && sees(entry.request.tenant)) call = entry.call.lock();
    }
  }
  if (call == nullptr) return false;
  ApiError why = FromError(
      MakeError(Code::kCancelled, "the request was cancelled through /v1/requests/{}", id));
  why.code = "cancelled";
  return call->Cancel(why);
}

}  // namespace ballast
