// Base of the builders that move elements without looking at them.
#ifndef TESSERA_TARGETS_CPU_KERNELS_MOVEMENTKERNEL_H
#define TESSERA_TARGETS_CPU_KERNELS_MOVEMENTKERNEL_H

#include "targets/Cpu/Kernels/RootView.h"
#include "targets/Cpu/Kernels/StridedCopy.h"

namespace tessera::cpu {

class MovementKernel : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(mlir::Operation *) const override {
    return tsr::KernelClass::Movement;
  }
  llvm::LogicalResult match(mlir::Operation *root, Reasons &reasons) const final {
    if (!requireMovable(root, reasons))
      return llvm::failure();
    return matchMore(root, reasons);
  }
  virtual llvm::LogicalResult matchMore(mlir::Operation *, Reasons &) const {
    return llvm::success();
  }
};

} // namespace tessera::cpu
#endif
