#include "catalog/http_fetch.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace ballast {

namespace {

struct Transfer {
  CURL* curl = nullptr;
  std::FILE* file = nullptr;
  const HttpFetch* fetch = nullptr;
  uint64_t start_bytes = 0;
  bool started = false;
  bool write_failed = false;
  std::string promised_sha256;
};

size_t OnBody(char* data, size_t size, size_t count, void* user) {
  auto* transfer = static_cast<Transfer*>(user);
  const size_t bytes = size * count;
  if (!transfer->started) {
    transfer->started = true;
    long status = 0;
    curl_easy_getinfo(transfer->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 400) return 0;
  }
  if (transfer->file == nullptr || std::fwrite(data, 1, bytes, transfer->file) != bytes) {
    transfer->write_failed = true;
    return 0;
  }
  return bytes;
}

size_t OnHeader(char* data, size_t size, size_t count, void* user) {
  auto* transfer = static_cast<Transfer*>(user);
  std::string line(data, size * count);
  std::transform(line.begin(), line.end(), line.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kName = "x-linked-etag:";
  if (line.starts_with(kName)) {
    std::string hex;
    for (const char c : line.substr(kName.size())) {
      if (std::isxdigit(static_cast<unsigned char>(c))) hex += c;
    }
    if (hex.size() == 64) transfer->promised_sha256 = hex;
  }
  return size * count;
}

int OnProgress(void* user, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
  auto* transfer = static_cast<Transfer*>(user);
  if (transfer->fetch->progress && total > 0) {
    transfer->fetch->progress(transfer->start_bytes + static_cast<uint64_t>(now),
                              transfer->start_bytes + static_cast<uint64_t>(total));
  }
  return 0;
}

Error HttpError(long status, const std::string& url) {
  const Code code = status == 404                    ? Code::kNotFound
                    : status == 401 || status == 403 ? Code::kPermissionDenied
                                                     : Code::kUnavailable;
  const char* hint = status == 401 || status == 403 ? " (set HF_TOKEN for gated repositories)" : "";
  return MakeError(code, "{} answered HTTP {}{}", url, status, hint);
}

void SetOptions(CURL* curl, const HttpFetch& fetch, Transfer* transfer, char* error_text) {
  curl_easy_setopt(curl, CURLOPT_URL, fetch.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 8L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_text);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(fetch.dead_source_ms));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME,
                   std::max(1L, static_cast<long>(fetch.dead_source_ms / 1000)));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, transfer);
  if (transfer->start_bytes > 0) {
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE,
                     static_cast<curl_off_t>(transfer->start_bytes));
  }
  if (!fetch.bearer_token.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, fetch.bearer_token.c_str());
  }
}

}  // namespace

Result<HttpFetchResult> FetchToFile(const HttpFetch& fetch, const std::string& path) {
  static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (global != CURLE_OK) return Unavailable("libcurl cannot start");
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (curl == nullptr) return Unavailable("libcurl cannot start");
  Transfer transfer;
  transfer.curl = curl.get();
  transfer.fetch = &fetch;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    transfer.start_bytes = std::filesystem::file_size(path, ignored);
  }
  transfer.file = std::fopen(path.c_str(), "ab");
  if (transfer.file == nullptr) return Unavailable("cannot write '{}'", path);
  char error_text[CURL_ERROR_SIZE] = {};
  SetOptions(curl.get(), fetch, &transfer, error_text);
  const CURLcode code = curl_easy_perform(curl.get());
  const bool closed = transfer.file != nullptr && std::fclose(transfer.file) == 0;
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (transfer.write_failed || !closed) {
    return ResourceExhausted("cannot write to '{}': is the disk full?", path);
  }
  // 416: what is on disk is already the whole file; the checksum decides.
  if (status == 416 && transfer.start_bytes > 0) {
    return HttpFetchResult{transfer.promised_sha256};
  }
  if (status >= 400) return HttpError(status, fetch.url);
  // The server cannot resume and would send the whole file: start over, which cannot recur.
  if (code == CURLE_RANGE_ERROR && transfer.start_bytes > 0) {
    std::filesystem::remove(path, ignored);
    return FetchToFile(fetch, path);
  }
  if (code != CURLE_OK) {
    return Unavailable("{}: {}", fetch.url,
                       error_text[0] != '\0' ? error_text : curl_easy_strerror(code));
  }
  return HttpFetchResult{transfer.promised_sha256};
}

}  // namespace ballast
