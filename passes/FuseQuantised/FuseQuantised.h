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

/// Products with constant weights that are not `served` as they are, but as
/// sums of integers, as these sums, which the CPU would make of them: so a unit
/// that has nothing but integers computes them, and the floats are made behind
/// it. `served` is asked about operators that may not stay.
void exposeIntegerSums(mlir::func::FuncOp func,
                       llvm::function_ref<bool(mlir::Operation *)> served);

/// Registers `tsr-fuse-quantised` and `tsr-expose-integer-sums` for
/// tessera-opt.
void registerFuseQuantisedPasses();

} // namespace tessera
#endif
