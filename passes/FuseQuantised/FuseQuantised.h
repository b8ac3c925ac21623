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

/// Registers `tsr-fuse-quantised` for tessera-opt.
void registerFuseQuantisedPasses();

} // namespace tessera
#endif
