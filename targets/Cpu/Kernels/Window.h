// Sliding windows: attributes that Conv, ConvTranspose and the pools share, and
// the nest of those that keep channels apart (depthwise convolution, pooling).
#ifndef TESSERA_TARGETS_CPU_KERNELS_WINDOW_H
#define TESSERA_TARGETS_CPU_KERNELS_WINDOW_H

#include "targets/Cpu/Kernels/RegisterTile.h"

namespace tessera::cpu {

/// Attributes with their defaults filled in, one entry a spatial axis.
struct Window {
  llvm::SmallVector<int64_t> kernel, strides, dilations;
  llvm::SmallVector<int64_t> padBegin, padEnd; ///< explicit ones; zero under auto_pad
  llvm::StringRef autoPad;
  bool ceil = false; ///< output sizes were rounded up
  unsigned axes() const { return kernel.size(); }
  /// Input positions that a window covers along `axis`.
  int64_t reach(unsigned axis) const { return (kernel[axis] - 1) * dilations[axis] + 1; }
};

/// Reads and checks the attributes of `root` whose kernel has the given
/// shape (-1: unknown, then kernel_shape must say).
llvm::LogicalResult readWindow(mlir::Operation *root, llvm::ArrayRef<int64_t> kernel, Window &window, Reasons &reasons);

/// Where the windows lie in the input, as values.
struct Placement {
  llvm::SmallVector<mlir::Value> padBegin;
  llvm::SmallVector<mlir::Value> in, out; ///< spatial sizes
  llvm::SmallVector<bool> padded;         ///< some window may leave the input
  bool anyPadded() const { return llvm::is_contained(padded, true); }
};
Placement place(KernelEmitter &e, const Window &window, const TensorRef &in, const TensorRef &out);

/// Taps [first, second) along `axis` that lie inside the input for windows starting at `start`.
std::pair<mlir::Value, mlir::Value> tapRange(KernelEmitter &e, const Window &window, unsigned axis, mlir::Value start,
                                             mlir::Value size);

/// Splits a flat index into one index a dimension.
llvm::SmallVector<mlir::Value> unflatten(KernelEmitter &e, mlir::Value index, llvm::ArrayRef<mlir::Value> dims);

/// A reduction over windows that keeps channels apart. The accumulators of
/// some outputs along the last axis and one vector of channels stay in registers.
struct ChannelWindows {
  const TensorRef *in = nullptr;
  mlir::Type accumulator;  ///< scalar type of the accumulators
  Lanes lanes;
  double padValue = 0;     ///< what is read outside the input; must not change a result
  bool lowest = false;     ///< instead: the least value of the type
  mlir::Value padElement;  ///< instead: an element of the input's value type
  bool perTapData = false; ///< tapData is used
  /// Accumulators' first value for channels from `channel` on.
  std::function<mlir::Value(mlir::Value channel, mlir::Value mask)> init;
  /// What combine gets for a tap (weights); `tap` is the flat number.
  std::function<mlir::Value(mlir::Value channel, mlir::Value tap)> tapData;
  std::function<mlir::Value(mlir::Value acc, mlir::Value value, mlir::Value data)> combine;
  /// Root's result from an accumulator at a point of the output.
  std::function<mlir::FailureOr<mlir::Value>(mlir::Value acc, const Point &p)> finish;
};
llvm::LogicalResult emitChannelWindows(KernelEmitter &e, tsr::DispatchOp op, Fusion &fusion, const Window &window,
                                       const ChannelWindows &spec);

/// Least value of a value type (-infinity for floats).
mlir::Value lowestOf(KernelEmitter &e, mlir::Type scalarOrVector, bool isUnsigned);

} // namespace tessera::cpu
#endif
