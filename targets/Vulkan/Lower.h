// From a builder's spirv.module to words.
#ifndef TESSERA_TARGETS_VULKAN_LOWER_H
#define TESSERA_TARGETS_VULKAN_LOWER_H

#include "mlir/IR/OwningOpRef.h"
#include "targets/Vulkan/Compile.h"

namespace mlir::spirv {
class ModuleOp;
class FuncOp;
} // namespace mlir::spirv

namespace tessera::vulkan {

/// An empty module with a function `main`.
mlir::OwningOpRef<mlir::spirv::ModuleOp> makeModule(mlir::MLIRContext *context);
mlir::spirv::FuncOp mainOf(mlir::spirv::ModuleOp module);

/// What remains of scf, arith, math and vector becomes spirv; then the entry
/// point, the least capabilities, and the words. Sets `words` and `features`;
/// diagnoses what cannot be lowered for `device`.
mlir::LogicalResult lowerAndSerialise(mlir::spirv::ModuleOp module,
                                      const Device &device, Kernel &kernel);

} // namespace tessera::vulkan
#endif
