// Role: the avx2 bodies of row operations. Thread: pure. Invariants: the reference's bits.
#include <immintrin.h>

#include "kernels/avx2/math.h"
#include "kernels/rows.h"
#include "kernels/target.h"

KERNEL_BEGIN(KERNEL_TARGET_AVX2)
namespace ballast {
namespace avx2 {
namespace {

#include "kernels/rows_body.inc"

}  // namespace
}  // namespace avx2

const RowTable kRowsAvx2 = {avx2::RmsNorm, avx2::Rope,  avx2::Gated,  avx2::AddTo,
                            avx2::Scale,   avx2::MaxOf, avx2::SumExp, avx2::FindAbove};

}  // namespace ballast
KERNEL_END
