// What the builder of convolutions (Convolution.cpp) and its nests
// (ConvolutionNest.cpp) both know of one.
#ifndef TESSERA_TARGETS_CPU_KERNELS_CONVOLUTION_H
#define TESSERA_TARGETS_CPU_KERNELS_CONVOLUTION_H

#include "targets/Cpu/Kernels/WindowRows.h"

namespace tessera::cpu::convolution {

/// Sizes that do not depend on the image.
struct Filters {
  int64_t groups, in, out; ///< channels per group
  int64_t taps;
  bool depthwise() const { return in == 1 && out == 1 && groups > 1; }
  int64_t steps() const { return taps * in; }
  int64_t panels() const { return (out + kPanel - 1) / kPanel; }
};

bool isInteger(mlir::Operation *root);
/// The type of an operand; null where it is absent.
mlir::RankedTensorType tensorType(mlir::Operation *root, unsigned position);
/// Reads what the convolution is, or says why it cannot be computed.
llvm::LogicalResult analyse(mlir::Operation *root, Window &w, Filters &f, Reasons &reasons);
/// Whether 8-bit products go by pairs (IntegerPairs.h): the weight and its zero
/// points are constant.
bool usesPairs(tsr::DispatchOp op);
/// Whether it is the depthwise nest of integers: a word holds one weight (IntegerPairs.h).
bool isDepthwiseInteger(tsr::DispatchOp op, const Filters &f);
/// Whether workgroups share out the columns of a product by pairs, each with its
/// own copy of the image: few pixels, many channels, whose weights would be read
/// by every share of the rows.
bool sharesColumns(tsr::DispatchOp op, const Filters &f);
/// Whether the input is first copied with its padding, channels last, to scratch
/// memory: few channels, whose taps would have to be told from padding one by
/// one, and not so much work that it should be shared out. On x86 (AArch64 has
/// tiles that gather windows).
bool copiesPadded(tsr::DispatchOp op, const Filters &f, Arch arch);
/// Whether the convolution can be a product of outer products: f32, channels
/// last, constant weights, and more than a few pixels and channels.
bool isOuterProduct(tsr::DispatchOp op);

/// Sizes of one image's padded copy: all that the windows cover, for each axis.
template <typename T, typename Add, typename Mul>
llvm::SmallVector<T> coveredSizes(const Window &w, llvm::ArrayRef<T> out, Add add, Mul mul) {
  llvm::SmallVector<T> sizes;
  for (unsigned a = 0; a < w.axes(); ++a) // (out - 1) * stride + reach
    sizes.push_back(add(mul(out[a], w.strides[a]), w.reach(a) - w.strides[a]));
  return sizes;
}

/// Emits the kernel of a convolution that `analyse` accepted.
llvm::LogicalResult emitNest(tsr::DispatchOp op, KernelEmitter &e, const Window &w, const Filters &f);

} // namespace tessera::cpu::convolution
#endif
