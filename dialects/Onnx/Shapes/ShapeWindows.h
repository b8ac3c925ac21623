// Sizes of what convolutions and poolings slide over.
#ifndef TESSERA_DIALECTS_ONNX_SHAPES_SHAPEWINDOWS_H
#define TESSERA_DIALECTS_ONNX_SHAPES_SHAPEWINDOWS_H

#include "dialects/Onnx/Shapes/ShapeRules.h"

namespace tessera::onnx {

/// The window attributes of an operator, one entry a spatial axis.
struct Windows {
  llvm::SmallVector<int64_t> strides, dilations, padsBegin, padsEnd;
  llvm::StringRef autoPad;
  bool ceilMode;
  size_t rank() const { return strides.size(); }

  /// Attributes with ONNX's defaults.
  static Windows of(const OpShapes &s, size_t spatialRank);
  /// (kernel - 1) * dilation + 1
  Sym effectiveKernel(SymContext &ctx, size_t axis, Sym kernel) const;
  /// Number of windows along `axis` of an input `size` long.
  Sym count(SymContext &ctx, size_t axis, Sym size, Sym kernel) const;
};

/// attribute kernel_shape, or the trailing dimensions of the weights
SymDims kernelShape(const OpShapes &s, size_t spatialRank, llvm::ArrayRef<Sym> weights = {});

/// [N, C, ...] (or [N, ..., C]) with the windows of a pooling in place of the spatial axes.
SymDims pooledDims(OpShapes &s, llvm::ArrayRef<Sym> in, bool channelsLast = false);
/// The same for a convolution whose weights are [M, C / group, ...].
SymDims convolvedDims(OpShapes &s, llvm::ArrayRef<Sym> in, llvm::ArrayRef<Sym> weights,
                      bool channelsLast = false);

} // namespace tessera::onnx
#endif
