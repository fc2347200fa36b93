// Role: the avx512 bodies of row operations. Thread: pure. Invariants: the reference's bits.
#include <immintrin.h>

#include "kernels/avx512/math.h"
#include "kernels/rows.h"
#include "kernels/target.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX512)
namespace ballast {
namespace avx512 {
namespace {

#include "kernels/rows_body.inc"

}  // namespace
}  // namespace avx512

const RowTable kRowsAvx512 = {avx512::RmsNorm, avx512::Rope,  avx512::Gated,  avx512::AddTo,
                              avx512::Scale,   avx512::MaxOf, avx512::SumExp, avx512::FindAbove};

}  // namespace ballast
KERNEL_END
