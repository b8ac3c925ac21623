// Quantised operators of the CPU as integers; the meaning is that of
// dialects/Onnx/Numerics.md, "Quantised graphs".
#ifndef TESSERA_PASSES_FUSEQUANTISED_FUSEQUANTISED_H
#define TESSERA_PASSES_FUSEQUANTISED_FUSEQUANTISED_H

#include "dialects/Tsr/IR/TsrDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera {

/// Rewrites what stayed on the CPU; segments are left alone. What no kernel
/// serves in its new form stays as it is.
void fuseQuantised(mlir::func::FuncOp func);
/// The same in a segment whose unit computes integer products as the CPU does:
/// what the CPU has in double stays in float32.
void fuseQuantised(tsr::SegmentOp segment);

/// Products with constant weights that no `served` unit computes as they are,
/// as the sums of integers that the CPU makes of them, so that a unit which has
/// nothing but integers may compute these: the floats are made behind it.
void exposeIntegerSums(mlir::func::FuncOp func,
                       llvm::function_ref<bool(mlir::Operation *)> served);

/// Registers `tsr-fuse-quantised` and `tsr-expose-integer-sums` for
/// tessera-opt.
void registerFuseQuantisedPasses();

} // namespace tessera
#endif
