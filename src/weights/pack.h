// Role: rewrites a file's blocks into packed panels (docs/formats/packed-panels.md): lossless,
// codes and scales are only moved. Thread: pure; panels of one matrix may be packed by several
// threads at once.
#ifndef BALLAST_WEIGHTS_PACK_H_
#define BALLAST_WEIGHTS_PACK_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "tensor/packed.h"

namespace ballast {

/// Bytes of one row of `cols` elements in a file. Errors: kInvalidArgument when cols is not a
/// multiple of the type's block.
Result<size_t> FileRowBytes(DType type, int64_t cols);

/// Packs panels [panel_begin, panel_end) of `out`.
/// @param file_bytes the whole matrix as the file stores it, [out.rows, out.cols].
/// @param dst the matrix's first byte (64-byte aligned, out.bytes() long); out.data is not used.
/// REQUIRES: file_bytes.size() == out.rows · FileRowBytes(type, cols); 0 ≤ begin ≤ end ≤ panels().
/// Cost: memory speed, about 6 GB/s a thread.
void PackPanels(const PackedMatrix& out, std::span<const std::byte> file_bytes, int32_t panel_begin,
                int32_t panel_end, std::byte* dst);

/// All panels on the calling thread; returns the matrix over dst, which must hold its bytes().
/// Errors: kInvalidArgument for a shape or a size that does not fit, naming both numbers.
Result<PackedMatrix> PackMatrix(DType type, int32_t rows, int32_t cols,
                                std::span<const std::byte> file_bytes, std::byte* dst);

/// Reference reading of one element of a packed matrix, by the format document's formula.
/// Slow: for tests.
float PackedValue(const PackedMatrix& matrix, int32_t row, int32_t col);

}  // namespace ballast

#endif  // BALLAST_WEIGHTS_PACK_H_
