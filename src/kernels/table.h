// Role: the function tables that one ISA's bodies fill. Chosen once at start (Kernels::Create); a
// body an ISA does not have is taken from the next lower one.
#ifndef BALLAST_KERNELS_TABLE_H_
#define BALLAST_KERNELS_TABLE_H_

namespace ballast {

struct LinearTable;     // kernels/linear.h: rounding, GEMV, GEMM, row lookup
struct AttentionTable;  // kernels/attention.h: KV writing and sealing, attention of one work item
struct RowTable;        // kernels/rows.h: norms, RoPE, activations, log-sum, top-k

struct KernelTable {
  const LinearTable* linear = nullptr;
  const AttentionTable* attention = nullptr;
  const RowTable* rows = nullptr;
};

}  // namespace ballast

#endif  // BALLAST_KERNELS_TABLE_H_
