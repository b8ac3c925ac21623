// Convolution windows as rows of packed A (OuterProduct.h): the product's
// reduction runs over taps and channels, as in the weights' panels.
#ifndef TESSERA_TARGETS_CPU_KERNELS_WINDOWROWS_H
#define TESSERA_TARGETS_CPU_KERNELS_WINDOWROWS_H

#include "targets/Cpu/Kernels/OuterProduct.h"
#include "targets/Cpu/Kernels/Window.h"

namespace tessera::cpu {

/// f32 input whose channels are contiguous.
struct WindowRows {
  const Window &window;
  const Placement &place;
  const TensorRef &input;
  int64_t channels;    ///< of a window
  mlir::Value base;    ///< pixel (0, ...) of the image and group
  mlir::Value padding; ///< `channels` zeros where windows may leave the input
  mlir::Value scratch; ///< windowRowsBytes()
};

/// Scratch bytes of a workgroup: packed rows, and where runs of channels do not
/// fill groups of four steps, the rows as they lie.
onnx::Sym windowRowsBytes(onnx::SymContext &ctx, int64_t taps, int64_t channels);
/// The same as a number of floats.
int64_t windowRowsFloats(int64_t taps, int64_t channels);

/// Packs the windows of output pixels [first, first + rows), counted through
/// all spatial axes, to `scratch`.
void packWindows(KernelEmitter &e, const WindowRows &r, mlir::Value first, mlir::Value rows);

} // namespace tessera::cpu
#endif
