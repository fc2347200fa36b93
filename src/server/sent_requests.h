// Role: what a call remembers of the requests it has sent to the engine, so that none outlives it.
// Thread: guarded by the call's mutex, CancelAll excepted.
#ifndef BALLAST_SERVER_SENT_REQUESTS_H_
#define BALLAST_SERVER_SENT_REQUESTS_H_

#include <vector>

#include "engine/client.h"
#include "server/api_error.h"

namespace ballast {

/// One request; calls derive what they collect for it.
struct SentRequest {
  RequestId id;
  bool submitted = false;
  bool finished = false;
};

/// The ids of those that may still run.
template <class Requests>
std::vector<RequestId> Unfinished(const Requests& requests) {
  std::vector<RequestId> ids;
  for (const SentRequest& request : requests) {
    if (request.submitted && !request.finished) ids.push_back(request.id);
  }
  return ids;
}

/// Never under the call's mutex: the engine may report the end at once.
inline void CancelAll(EngineClient& engine, const std::vector<RequestId>& ids) {
  for (const RequestId id : ids) engine.Cancel(id);
}

/// Why the engine ended a request before its time.
inline ApiError EndedEarly(FinishReason reason) {
  if (reason == FinishReason::kDeadline) {
    return FromError(MakeError(Code::kDeadlineExceeded,
                               "the request did not finish within the server's time limit"));
  }
  return FromError(Unavailable("the request was cancelled because the server is stopping"));
}

}  // namespace ballast

#endif  // BALLAST_SERVER_SENT_REQUESTS_H_
