// Role: runs a fuzz target once over every file of the corpus directories named on the command
// line, so that ordinary builds (any compiler, no libFuzzer) replay the corpus as a test.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

/// Returns the number of files run, or -1 if the directory or a file cannot be read.
int64_t Replay(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::recursive_directory_iterator files(directory, error);
  if (error) {
    std::fprintf(stderr, "cannot read corpus directory %s: %s\n", directory.c_str(),
                 error.message().c_str());
    return -1;
  }
  int64_t count = 0;
  for (const auto& entry : files) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    if (!in && !in.eof()) {
      std::fprintf(stderr, "cannot read %s\n", entry.path().c_str());
      return -1;
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ++count;
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_DIRECTORY...\n", argv[0]);
    return 2;
  }
  for (int i = 1; i < argc; ++i) {
    const int64_t count = Replay(argv[i]);
    if (count < 0) return 1;
    if (count == 0) {
      std::fprintf(stderr, "corpus directory %s holds no files\n", argv[i]);
      return 1;
    }
    std::printf("%lld inputs of %s\n", static_cast<long long>(count), argv[i]);
  }
  return 0;
}
