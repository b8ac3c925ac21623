// The root of a dispatch as a loop kernel reads it: operands and results by
// their position in the operator's schema.
#ifndef TESSERA_TARGETS_CPU_KERNELS_ROOTVIEW_H
#define TESSERA_TARGETS_CPU_KERNELS_ROOTVIEW_H

#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/KernelBuilder.h"

namespace tessera::cpu {

class RootView {
public:
  RootView(tsr::DispatchOp op, KernelEmitter &e);

  tsr::DispatchOp op;
  KernelEmitter &e;
  mlir::Operation *root;
  Fusion fusion;

  /// Whether operand `pos` is given at all.
  bool has(unsigned pos) { return static_cast<bool>(onnx::getOptionalOperand(root, pos)); }
  /// Kernel tensor of operand `pos`; null if absent, embedded or fused.
  const TensorRef *in(unsigned pos);
  /// Constant embedded for operand `pos`, or null.
  mlir::ElementsAttr constant(unsigned pos);
  /// Kernel tensor of result `pos`; null if absent, unused or consumed by an epilogue.
  const TensorRef *out(unsigned pos = 0);
  /// Type of operand or result; null if absent.
  mlir::RankedTensorType inType(unsigned pos);
  mlir::RankedTensorType outType(unsigned pos = 0);
  /// Result 0 as a tensor to take sizes from, also when an epilogue follows.
  const TensorRef &resultShape();

  /// The i64 values of a 1-D (or 0-D) integer operand of `count` elements,
  /// embedded or read at run time.
  llvm::SmallVector<mlir::Value> ints(unsigned pos, unsigned count);
  /// One integer of operand `pos`, `fallback` if absent.
  mlir::Value scalarInt(unsigned pos, int64_t fallback);
  /// Static number of elements of operand `pos`, or none.
  std::optional<int64_t> count(unsigned pos);
  /// Element 0 of operand `pos` in its value type (embedded or loaded).
  mlir::Value scalar(unsigned pos);
  /// Loads operand `pos` at `p`, through the prologue if one is fused.
  mlir::FailureOr<mlir::Value> load(unsigned pos, const Point &p);
  /// Constant `attr` of element `i` as a value of the value type.
  mlir::Value constantElement(mlir::ElementsAttr attr, int64_t i);
};

/// Sizes of operand `pos`, also when it is computed by a prologue: per axis the
/// size of a tensor that is not broadcast there. None if they cannot be told.
std::optional<llvm::SmallVector<mlir::Value>> fusedDims(RootView &v, unsigned pos);
/// The axis along which most of the operand's data is contiguous: the last one
/// in memory order of its layout.
unsigned lastWideAxis(llvm::ArrayRef<mlir::Value> dims, RootView &v);

/// i64 from an integer value of any width.
mlir::Value toIndex(KernelEmitter &e, mlir::Value v, bool isUnsigned = false);
/// Index `v` of an axis of `dim`, negative ones counted from the end; records a
/// failure and clamps if it is out of range. `dim` may be 0 (then clamps to 0:
/// the caller must not access).
mlir::Value wrapIndex(KernelEmitter &e, mlir::Value v, mlir::Value dim);

// What match() functions ask.
mlir::RankedTensorType operandType(mlir::Operation *op, unsigned pos);
mlir::RankedTensorType resultType(mlir::Operation *op, unsigned pos);
mlir::Type operandElement(mlir::Operation *op, unsigned pos);
mlir::Type resultElement(mlir::Operation *op, unsigned pos);
/// All present operands and results are ranked tensors.
bool requireRanked(mlir::Operation *op, Reasons &reasons);
/// Element types a loop kernel can move: not strings.
bool requireMovable(mlir::Operation *op, Reasons &reasons);
/// Real numbers (float, int, bool), for arithmetic kernels.
bool requireNumeric(mlir::Operation *op, Reasons &reasons);
/// Operand `pos` (if present) has statically many elements.
bool requireStaticCount(mlir::Operation *op, unsigned pos, Reasons &reasons);

} // namespace tessera::cpu
#endif
