#include "kernels/kernels.h"

#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/rows.h"
#include "kernels/table.h"

namespace ballast {

Result<Kernels> Kernels::Create(Isa isa, ThreadPool& pool) {
  if (!IsaSupported(isa)) {
    return Unimplemented("isa {} is not supported by this CPU ({})", IsaName(isa), CpuName());
  }
  static const KernelTable tables[] = {
      {&LinearTableFor(Isa::kRef), &AttentionTableFor(Isa::kRef), &RowTableFor(Isa::kRef)},
      {&LinearTableFor(Isa::kAvx2), &AttentionTableFor(Isa::kAvx2), &RowTableFor(Isa::kAvx2)},
      {&LinearTableFor(Isa::kAvx512), &AttentionTableFor(Isa::kAvx512), &RowTableFor(Isa::kAvx512)},
      {&LinearTableFor(Isa::kAmx), &AttentionTableFor(Isa::kAmx), &RowTableFor(Isa::kAmx)},
  };
  return Kernels(isa, &tables[static_cast<int>(isa)], &pool);
}

}  // namespace ballast
