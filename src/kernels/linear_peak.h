// Role: measures what this machine could do at most, for the rooflines of `ballast bench` and of
// the benches: read bandwidth from memory, and integer products a second from registers. Thread:
// called by the owner of the pool; takes about a quarter of a second each.
#ifndef BALLAST_KERNELS_LINEAR_PEAK_H_
#define BALLAST_KERNELS_LINEAR_PEAK_H_

#include "base/result.h"
#include "platform/cpu.h"
#include "platform/thread_pool.h"

namespace ballast {

/// Bytes a second that the pool reads from 512 MiB on huge pages, best of several passes.
/// Errors: kResourceExhausted when the buffer cannot be had.
Result<double> MeasureReadBandwidth(ThreadPool& pool);

/// Integer operations (two a multiply-add) a second of the widest int8 product of `isa`, on all
/// threads of the pool, best of several passes. kRef: 0, it has none.
double MeasureInt8Peak(Isa isa, ThreadPool& pool);

}  // namespace ballast

#endif  // BALLAST_KERNELS_LINEAR_PEAK_H_
