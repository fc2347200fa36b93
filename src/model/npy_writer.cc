// Role: see npy_writer.h.
#include "model/npy_writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace ballast {

Result<std::unique_ptr<NpyWriter>> NpyWriter::Create(const std::string& path, int64_t rows,
                                                     int64_t cols) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    return MakeError(Code::kUnknown, "cannot create '{}': {}", path, std::strerror(errno));
  }
  std::unique_ptr<NpyWriter> writer(new NpyWriter(path, file, rows * cols));
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  // Magic (6), version (2), header length (2), header with a newline: a multiple of 64 bytes.
  constexpr size_t kPrefix = 10;
  while ((kPrefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  const char prefix[kPrefix] = {'\x93',
                                'N',
                                'U',
                                'M',
                                'P',
                                'Y',
                                1,
                                0,
                                static_cast<char>(header.size() & 0xFF),
                                static_cast<char>(header.size() >> 8)};
  if (std::fwrite(prefix, 1, kPrefix, file) != kPrefix ||
      std::fwrite(header.data(), 1, header.size(), file) != header.size()) {
    return MakeError(Code::kUnknown, "cannot write '{}': {}", path, std::strerror(errno));
  }
  return writer;
}

NpyWriter::~NpyWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

Status NpyWriter::Append(std::span<const float> values) {
  missing_ -= static_cast<int64_t>(values.size());
  if (missing_ < 0) return Internal("'{}': more values than announced", path_);
  if (std::fwrite(values.data(), sizeof(float), values.size(), file_) != values.size()) {
    return MakeError(Code::kUnknown, "cannot write '{}': {}", path_, std::strerror(errno));
  }
  return OkStatus();
}

Status NpyWriter::Finish() {
  std::FILE* file = std::exchange(file_, nullptr);
  if (std::fclose(file) != 0) {
    return MakeError(Code::kUnknown, "cannot write '{}': {}", path_, std::strerror(errno));
  }
  if (missing_ != 0) return Internal("'{}': {} values are missing", path_, missing_);
  return OkStatus();
}

}  // namespace ballast
