// GGUF files: any bytes open or are refused with a message; what opens can be read, packed and
// turned into a vocabulary without leaving the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "model/tokenizer_from_gguf.h"
#include "platform/thread_pool.h"
#include "weights/gguf.h"
#include "weights/weight_store.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void ReadMetadata(const ballast::Metadata& metadata) {
  for (const auto& [key, value] : metadata.entries()) {
    (void)metadata.GetString(key);
    (void)metadata.GetU64(key);
    (void)metadata.GetI64(key);
    (void)metadata.GetF64(key);
    (void)metadata.GetBool(key);
    (void)metadata.GetF32Array(key);
    (void)metadata.GetI32Array(key);
    (void)metadata.GetBoolArray(key);
    const auto strings = metadata.GetStringArray(key);
    if (strings) Require(strings->size() == value.count);
  }
}

// Panels pad rows to 16, so a file of many one-row tensors grows; keep the fuzzer's memory flat.
constexpr uint64_t kMaxPackedBytes = 16 << 20;

void PackAll(const ballast::WeightSource& source) {
  std::vector<ballast::WeightRequest> requests;
  uint64_t packed = 0;
  for (const ballast::TensorInfo& tensor : source.tensors()) {
    const auto data = source.TensorBytes(tensor);
    Require(data.size() == tensor.bytes && !data.empty());
    if (tensor.rows() > INT32_MAX) continue;
    const ballast::PackedMatrix shape{.type = tensor.type,
                                      .rows = static_cast<int32_t>(tensor.rows()),
                                      .cols = static_cast<int32_t>(tensor.cols())};
    packed += shape.bytes();
    if (packed > kMaxPackedBytes) break;
    const bool vector = tensor.rank == 1 && ballast::IsFloat(tensor.type);
    requests.push_back(
        {.name = std::string(tensor.name),
         .rows = shape.rows,
         .cols = shape.cols,
         .kind = vector ? ballast::WeightKind::kVector : ballast::WeightKind::kMatrix});
  }
  static ballast::ThreadPool pool(1);
  const auto store = ballast::WeightStore::Load(source, requests, pool, nullptr);
  Require(store.has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A file in memory; its path goes through /proc as any other.
  static const int fd = memfd_create("fuzz_gguf", MFD_CLOEXEC);
  Require(fd >= 0 && ftruncate(fd, static_cast<off_t>(size)) == 0);
  Require(pwrite(fd, data, size, 0) == static_cast<ssize_t>(size));
  const auto file = ballast::GgufFile::Open("/proc/self/fd/" + std::to_string(fd));
  if (!file) {
    Require(!file.error().message.empty() && file.error().message.size() < 4096);
    return 0;
  }
  ReadMetadata((*file)->metadata());
  PackAll(**file);
  const auto spec = ballast::TokenizerSpecFromGguf(**file);
  if (spec) {
    Require(spec->types.empty() || spec->types.size() == spec->tokens.size());
    for (const auto& id : {spec->bos, spec->eos, spec->eot, spec->unk, spec->pad}) {
      Require(!id || (*id >= 0 && static_cast<size_t>(*id) < spec->tokens.size()));
    }
  }
  return 0;
}
