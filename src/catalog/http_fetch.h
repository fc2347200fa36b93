// Role: one HTTP(S) download into a file, resuming what is there. libcurl's only user.
// Thread: blocking.
#ifndef BALLAST_CATALOG_HTTP_FETCH_H_
#define BALLAST_CATALOG_HTTP_FETCH_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace ballast {

struct HttpFetch {
  std::string url;
  std::string bearer_token;  // sent to the first host only
  int64_t dead_source_ms = 5000;
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
};

struct HttpFetchResult {
  /// SHA-256 the server promises for the file (Hugging Face's X-Linked-Etag), or empty.
  std::string promised_sha256;
};

/// Appends to `path` from its present size on (Range), or rewrites it when the server cannot
/// resume. Errors: kNotFound (404), kPermissionDenied (401, 403), kUnavailable (connection,
/// time-out, 5xx, cut).
Result<HttpFetchResult> FetchToFile(const HttpFetch& fetch, const std::string& path);

}  // namespace ballast

#endif  // BALLAST_CATALOG_HTTP_FETCH_H_
