// Strided copies: what most operators that only move data come down to.
#ifndef TESSERA_TARGETS_VULKAN_KERNELS_BOXES_H
#define TESSERA_TARGETS_VULKAN_KERNELS_BOXES_H

#include "targets/Vulkan/KernelBuilder.h"

namespace tessera::vulkan {

struct BoxAxis {
  int64_t size, to, from; ///< strides in elements
};
/// to[toBase + sum(i * axis.to)] = from[fromBase + sum(i * axis.from)].
struct Box {
  Buffer *to, *from;
  llvm::SmallVector<BoxAxis> axes;
  int64_t toBase = 0, fromBase = 0;
};
/// All boxes in one grid, one after the other.
void copyBoxes(Emitter &e, llvm::MutableArrayRef<Box> boxes);

/// Root attribute `name` as an axis of a tensor of that rank.
int64_t axisOf(mlir::Operation *root, llvm::StringRef name, int64_t fallback,
               int64_t rank);
/// The one integer of a root operand that is constant, `absent` without it, none
/// with a reason.
std::optional<int64_t> constantInt(tsr::DispatchOp op, Emitter &e,
                                   unsigned operand, int64_t absent);
/// Fails, with a reason, if something is fused behind the root.
mlir::LogicalResult requireAlone(tsr::DispatchOp op, Emitter &e);

} // namespace tessera::vulkan
#endif
