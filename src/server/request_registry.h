// Role: the generating calls that are open now, so that they can be listed and cancelled. Knows
// counts and states, never a word of a prompt or reply. Thread: any. Invariants: a call is never
// kept alive by being listed; no call's method runs with the registry's mutex held.
#ifndef BALLAST_SERVER_REQUEST_REGISTRY_H_
#define BALLAST_SERVER_REQUEST_REGISTRY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"

namespace ballast {

/// How far a call is. Of several choices the furthest one counts.
enum class LiveState { kQueued, kPrefill, kDecode };
std::string_view LiveStateName(LiveState state);

struct LiveProgress {
  LiveState state = LiveState::kQueued;
  int64_t prompt_tokens = 0;  // all prompts of the call
  int64_t prompt_done = 0;    // of them, computed or found cached
  int64_t generated_tokens = 0;
  bool over = false;  // answered, failed or left: no longer listed
};

/// A call that can be watched and cancelled.
class LiveCall {
 public:
  virtual ~LiveCall() = default;
  virtual LiveProgress Progress() = 0;
  /// Ends the call with `why` for its client. False when it was over already.
  virtual bool Cancel(const ApiError& why) = 0;
};

/// What stays the same while a call runs.
struct LiveRequest {
  std::string id;          // unique in this process
  std::string request_id;  // x-request-id
  std::string tenant;      // empty: no tenants
  std::string route;
  std::string model;
  bool stream = false;
  int64_t choices = 1;
  int64_t max_tokens = 0;  // 0: until the context is full
  std::chrono::steady_clock::time_point arrived = std::chrono::steady_clock::now();
};

class RequestRegistry : public std::enable_shared_from_this<RequestRegistry> {
 public:
  /// Takes its entry out of the list when it dies.
  class Registration {
   public:
    Registration() = default;
    Registration(std::shared_ptr<RequestRegistry> registry, uint64_t key)
        : registry_(std::move(registry)), key_(key) {}
    Registration(Registration&& other) noexcept = default;
    Registration& operator=(Registration&& other) noexcept;
    ~Registration();

   private:
    std::shared_ptr<RequestRegistry> registry_;
    uint64_t key_ = 0;
  };
  struct Listed {
    LiveRequest request;
    LiveProgress progress;
  };
  /// Whether the caller may know of a tenant's requests.
  using Sees = std::function<bool(const std::string& tenant)>;

  [[nodiscard]] Registration Add(LiveRequest request, std::weak_ptr<LiveCall> call);
  /// In order of arrival.
  std::vector<Listed> List(const Sees& sees);
  /// False where there is no such request, or the caller may not know of it.
  bool Cancel(std::string_view id, const Sees& sees);

 private:
  struct Entry {
    LiveRequest request;
    std::weak_ptr<LiveCall> call;
  };

  std::mutex mutex_;
  uint64_t next_key_ = 0;
  std::map<uint64_t, Entry> entries_;
};

}  // namespace ballast

#endif  // BALLAST_SERVER_REQUEST_REGISTRY_H_
