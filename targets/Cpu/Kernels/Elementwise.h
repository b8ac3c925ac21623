// The rootless kernel and what others share with it.
#ifndef TESSERA_TARGETS_CPU_KERNELS_ELEMENTWISE_H
#define TESSERA_TARGETS_CPU_KERNELS_ELEMENTWISE_H

#include "targets/Cpu/KernelBuilder.h"

namespace tessera::cpu {

/// Serves every dispatch without a root.
const KernelBuilder &elementwiseKernel();
/// Logical axes in memory order, outermost first.
llvm::SmallVector<unsigned> storageOrder(unsigned rank, tsr::Layout layout);
/// Element width that chooses the lanes of a fused chain: 32 as soon as a
/// 32-bit value takes part, else the widest value.
unsigned laneBits(tsr::DispatchOp op);
/// The number that `attr` holds, as a value of `type` (the value type of its
/// elements, or lanes of it); null if it holds several.
mlir::Value oneNumber(mlir::ElementsAttr attr, mlir::Type type, KernelEmitter &e);

} // namespace tessera::cpu
#endif
