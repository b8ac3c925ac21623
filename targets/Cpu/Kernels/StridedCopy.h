// Copies of boxes between strided tensors: what all movement operators are made
// of.
//
// The element is raw storage of 8, 16, 32 or 64 bits. Axes are merged where
// both sides are contiguous, then
//   contiguous -> contiguous    rows as vectors
//   broadcast  -> contiguous    fills
//   one contiguous axis each    128-bit blocks transposed in registers
//   else                        scalar loops.
#ifndef TESSERA_TARGETS_CPU_KERNELS_STRIDEDCOPY_H
#define TESSERA_TARGETS_CPU_KERNELS_STRIDEDCOPY_H

#include "targets/Cpu/KernelEmitter.h"

namespace tessera::cpu {

struct CopyAxis {
  mlir::Value dim;
  mlir::Value dst, src; ///< strides in elements
};

/// Copies the box; `bits` is 8, 16, 32 or 64.
void stridedCopy(KernelEmitter &e, unsigned bits, mlir::Value dstPtr, mlir::Value srcPtr,
                 llvm::ArrayRef<CopyAxis> axes);
/// Fills a box (`src` strides unused) with raw integer `value` of `bits`.
void stridedFill(KernelEmitter &e, unsigned bits, mlir::Value dstPtr,
                 llvm::ArrayRef<CopyAxis> axes, mlir::Value value);
/// Copies `n` contiguous elements.
void copyRow(KernelEmitter &e, unsigned bits, mlir::Value dst, mlir::Value src, mlir::Value n);
/// Stores `n` copies of raw `value`.
void fillRow(KernelEmitter &e, unsigned bits, mlir::Value dst, mlir::Value n, mlir::Value value);

/// A box copy between tensors of one element type, starting at element offsets.
/// Any element type: sub-byte ones go element by element, complex ones as pairs.
void copyBox(KernelEmitter &e, const TensorRef &dst, mlir::Value dstOffset, const TensorRef &src,
             mlir::Value srcOffset, llvm::ArrayRef<CopyAxis> axes);
/// Fills a box with `value` (of the value type; null: zero bits). Not complex unless zero.
void fillBox(KernelEmitter &e, const TensorRef &dst, mlir::Value dstOffset,
             llvm::ArrayRef<CopyAxis> axes, mlir::Value value);
/// Moves one element unchanged.
void moveElement(KernelEmitter &e, const TensorRef &dst, mlir::Value dstOffset,
                 const TensorRef &src, mlir::Value srcOffset);
/// Whole of `src` to `dst` (equal logical sizes).
void copyTensor(KernelEmitter &e, const TensorRef &dst, const TensorRef &src);

/// Whether two i64 values are known to be equal, looking through arithmetic.
bool sameValue(mlir::Value a, mlir::Value b);
/// Whether outer == dim * inner is known: the axis of stride `outer` continues
/// the one of `dim` and stride `inner`.
bool isProduct(mlir::Value outer, mlir::Value dim, mlir::Value inner);

} // namespace tessera::cpu
#endif
