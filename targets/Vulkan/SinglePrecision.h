// Formulas that the CPU computes in double, for GPUs that have none:
// trigonometry, the rest of the hyperbolic functions, powers, remainders.
#ifndef TESSERA_TARGETS_VULKAN_SINGLEPRECISION_H
#define TESSERA_TARGETS_VULKAN_SINGLEPRECISION_H

#include "targets/Vulkan/Emitter.h"

namespace tessera::vulkan {

/// The value of elementwise operator `op` by a formula in f32, or null if the
/// CPU's serves: it needs no double, or the GPU has it, or there is no other.
/// `operands` are as for cpu::emitElementwiseOp.
mlir::Value emitInSingle(mlir::Operation *op,
                         llvm::ArrayRef<mlir::Value> operands, Emitter &e);

/// cos and sin of 2 pi j / n, for 0 <= j < n <= 2^27: the angle is reduced in
/// integers.
std::pair<mlir::Value, mlir::Value> unitRoot(Emitter &e, Index j, int64_t n);

} // namespace tessera::vulkan
#endif
