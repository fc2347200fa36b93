// Role: reads GGUF files, versions 2 and 3, little endian (docs/formats/gguf-subset.md).
// Every number of the file is bounded before it is used; a file that opens has tensors that lie
// inside it, do not overlap and have whole blocks.
// Thread: immutable after Open. Source of the layout: the GGUF specification (ggml-org/ggml,
// docs/gguf.md).
#ifndef BALLAST_WEIGHTS_GGUF_H_
#define BALLAST_WEIGHTS_GGUF_H_

#include <memory>
#include <string>

#include "base/result.h"
#include "weights/source.h"

namespace ballast {

/// Limits on what we accept, beyond those that the file's own size sets.
inline constexpr uint64_t kGgufMaxTensors = uint64_t{1} << 17;
inline constexpr uint64_t kGgufMaxKeys = uint64_t{1} << 16;
inline constexpr uint64_t kGgufMaxKeyBytes = 65535;
inline constexpr uint64_t kGgufMaxTensorNameBytes = 64;
inline constexpr uint64_t kGgufMaxAlignment = uint64_t{1} << 16;

/// An open GGUF file. Metadata and the directory are checked and indexed; weights are only mapped.
class GgufFile : public WeightSource {
 public:
  /// Cost: one pass over the header (a few ms for 150,000 tokens and merges).
  /// Errors: those of MappedFile::Open; kInvalidArgument naming file, key or tensor, value and
  /// limit; kUnimplemented for versions, byte orders, splits and tensor types that we do not read.
  static Result<std::unique_ptr<GgufFile>> Open(const std::string& path);

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }

 private:
  friend class GgufParser;
  explicit GgufFile(std::string path) : WeightSource(std::move(path), WeightFormat::kGguf) {}

  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
};

}  // namespace ballast

#endif  // BALLAST_WEIGHTS_GGUF_H_
