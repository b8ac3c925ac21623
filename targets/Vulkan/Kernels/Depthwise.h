// Convolutions of one channel a group: each invocation has a quad of channels
// at some pixels in a row, which share what they load.
#ifndef TESSERA_TARGETS_VULKAN_KERNELS_DEPTHWISE_H
#define TESSERA_TARGETS_VULKAN_KERNELS_DEPTHWISE_H

#include "targets/Vulkan/Kernels/Windows.h"

namespace tessera::vulkan {

/// What the numbers are; values are quads.
struct DepthwiseMath {
  mlir::Value zero;
  /// What sums of channel quad `quad` begin with.
  llvm::function_ref<mlir::Value(Index quad)> begin;
  /// Entry `at` of the input, in quads; then of the weights as [taps][quads].
  llvm::function_ref<mlir::Value(Index at)> input, weight;
  llvm::function_ref<mlir::Value(mlir::Value x, mlir::Value w, mlir::Value sum)>
      add;
  llvm::function_ref<mlir::LogicalResult(mlir::Value sum, const Point &p)>
      store;
  /// Told all sums of an invocation before they are stored, if not null.
  llvm::function_ref<void(llvm::ArrayRef<mlir::Value> sums, Index quad)> finish;
};

/// Whether `t` is made of quads of channels.
bool hasChannelQuads(const Buffer &t);
mlir::LogicalResult emitDepthwise(Emitter &e, const Fusion &fusion,
                                  const Windows &s, const Buffer &x,
                                  const DepthwiseMath &math);

} // namespace tessera::vulkan
#endif
