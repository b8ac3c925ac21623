// Sliding windows of static size: where they lie, and loops over their taps.
#ifndef TESSERA_TARGETS_VULKAN_KERNELS_WINDOWS_H
#define TESSERA_TARGETS_VULKAN_KERNELS_WINDOWS_H

#include "targets/Cpu/Kernels/Window.h"
#include "targets/Vulkan/KernelBuilder.h"

namespace tessera::vulkan {

struct Windows {
  cpu::Window w;
  llvm::SmallVector<int64_t> in, out, padBegin; ///< spatial sizes
  llvm::SmallVector<bool> padded; ///< some window leaves the input there
  bool anyPadded() const { return llvm::is_contained(padded, true); }

  /// Reads the root's attributes; tensors have the spatial axes from 2 on.
  static mlir::FailureOr<Windows>
  read(mlir::Operation *root, llvm::ArrayRef<int64_t> kernel, const Buffer &in,
       llvm::ArrayRef<int64_t> outDims, Reasons &reasons);
  /// First input position, which may be outside, of the window at `at`.
  llvm::SmallVector<Index> starts(Emitter &e, llvm::ArrayRef<Index> at) const;
  /// Whether tap `tap` of the window that begins at `starts` lies inside; null:
  /// always.
  mlir::Value inside(Emitter &e, llvm::ArrayRef<Index> starts,
                     llvm::ArrayRef<Index> tap) const;
  /// The taps along `axis` of a window that begins at `start` that are inside;
  /// null bounds if they have gaps between them.
  std::optional<std::pair<Index, Index>> reach(Emitter &e, Index start,
                                               unsigned axis) const;
  /// The results along an axis in strips of `wide`, the last moved back to end
  /// with the axis: how many, and where one begins.
  int64_t strips(unsigned axis, int64_t wide) const {
    return (out[axis] + wide - 1) / wide;
  }
  Index stripStart(Emitter &e, unsigned axis, int64_t wide, Index strip) const;
  /// Whether `distance` past the start of some strip's first window is outside.
  bool leaves(unsigned axis, int64_t wide, int64_t distance) const;
};

/// Loops over the taps, all of them or those within `bounds`; `body` gets one
/// index an axis.
using TapBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(
    llvm::ArrayRef<Index> tap, mlir::ValueRange)>;
using TapBounds =
    llvm::function_ref<std::optional<std::pair<Index, Index>>(unsigned axis)>;
llvm::SmallVector<mlir::Value> forTaps(Emitter &e,
                                       llvm::ArrayRef<int64_t> kernel,
                                       mlir::ValueRange init, TapBody body,
                                       TapBounds bounds = {});

} // namespace tessera::vulkan
#endif
