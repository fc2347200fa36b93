// Role: streams float32 rows into a .npy file (NumPy format 1.0), so that logits larger than memory
// can be saved. Thread: one owner.
#ifndef BALLAST_MODEL_NPY_WRITER_H_
#define BALLAST_MODEL_NPY_WRITER_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace ballast {

class NpyWriter {
 public:
  /// Starts a C-order float32 array [rows, cols]. Errors: kUnknown naming the file.
  static Result<std::unique_ptr<NpyWriter>> Create(const std::string& path, int64_t rows,
                                                   int64_t cols);
  ~NpyWriter();
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  /// Appends values. Errors: kUnknown when the disk refuses; kInternal beyond the announced size.
  Status Append(std::span<const float> values);
  /// Closes the file. Errors: kInternal if fewer values came than announced.
  Status Finish();

 private:
  NpyWriter(std::string path, std::FILE* file, int64_t values)
      : path_(std::move(path)), file_(file), missing_(values) {}

  std::string path_;
  std::FILE* file_;
  int64_t missing_;
};

}  // namespace ballast

#endif  // BALLAST_MODEL_NPY_WRITER_H_
