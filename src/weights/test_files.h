// Role: for tests: a directory that goes away, whole files in and out, and GGUF files built field
// by field so that each can be wrong on its own. Thread: one test.
#ifndef BALLAST_WEIGHTS_TEST_FILES_H_
#define BALLAST_WEIGHTS_TEST_FILES_H_

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace ballast {

class TempDir {
 public:
  TempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "ballast-weights-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Replaces the file. Removed first: truncating one in place makes some file systems flush it.
inline void WriteAll(const std::string& path, std::string_view bytes) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Little-endian fields in sequence.
class ByteWriter {
 public:
  template <class T>
  ByteWriter& Raw(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    bytes_.append(bytes, sizeof(T));
    return *this;
  }
  ByteWriter& U32(uint32_t value) { return Raw(value); }
  ByteWriter& U64(uint64_t value) { return Raw(value); }
  ByteWriter& Text(std::string_view text) {
    U64(text.size());
    bytes_ += text;
    return *this;
  }
  ByteWriter& Bytes(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  ByteWriter& Pad(size_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_.push_back('\0');
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace ballast

#endif  // BALLAST_WEIGHTS_TEST_FILES_H_
