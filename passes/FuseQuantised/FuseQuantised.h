// Quantised operators of the CPU as integers; the meaning is that of
// dialects/Onnx/Numerics.md, "Quantised graphs".
#ifndef TESSERA_PASSES_FUSEQUANTISED_FUSEQUANTISED_H
#define TESSERA_PASSES_FUSEQUANTISED_FUSEQUANTISED_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera {

/// Rewrites what stayed on the CPU; segments are left alone. What no kernel
/// serves in its new form stays as it is.
void fuseQuantised(mlir::func::FuncOp func);

/// Registers `tsr-fuse-quantised` for tessera-opt.
void registerFuseQuantisedPasses();

} // namespace tessera
#endif
