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

/// An empty module with a function `main`, in which `device`'s features may be
/// used.
mlir::OwningOpRef<mlir::spirv::ModuleOp> makeModule(mlir::MLIRContext *context,
                                                    const Device &device);
mlir::spirv::FuncOp mainOf(mlir::spirv::ModuleOp module);

/// What remains of scf, arith, math and vector becomes spirv; then the entry
/// point, the least capabilities, and the words. Sets `words` and `features`;
/// diagnoses what cannot be lowered.
mlir::LogicalResult lowerAndSerialise(mlir::spirv::ModuleOp module,
                                      Kernel &kernel);

} // namespace tessera::vulkan
#endif
