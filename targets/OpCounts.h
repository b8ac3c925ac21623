// Work of one onnx operator: multiplications, elements of functions that take a
// pass of their own, and what is read only in part. The only place that knows
// an operator's arithmetic; CostModel.h turns counts into time.
#ifndef TESSERA_TARGETS_OPCOUNTS_H
#define TESSERA_TARGETS_OPCOUNTS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/SmallVector.h"

#include <functional>

namespace tessera {

namespace onnx {
class ShapeAnalysis;
}

/// Sizes of tensors as numbers. An open dimension counts as the least value its
/// bounds allow, or as 1 where they allow 0; `assumed` says that this happened.
class Sizes {
public:
  /// By types alone: every open dimension counts as 1.
  Sizes() = default;
  /// By expressions over the inputs' dimensions. `shapes` must outlive this.
  explicit Sizes(onnx::ShapeAnalysis &shapes);

  llvm::SmallVector<int64_t, 6> of(mlir::Value v) const;
  int64_t elements(mlir::Value v) const;
  mutable bool assumed = false;

private:
  std::function<std::optional<int64_t>(mlir::Value, unsigned)> dimension;
};

enum class WorkKind {
  Dense,     ///< convolution
  Depthwise, ///< convolution with one input channel a group
  Matmul,    ///< both operands computed
  Linear,    ///< product with constant weights; recurrent cells
  Vector,    ///< elementwise, pooling, reduction, normalisation: bytes over a rate
  Movement,  ///< nothing but bytes
  View,      ///< the operand's bytes under another shape
};

struct OpWork {
  WorkKind kind = WorkKind::Vector;
  int64_t macs = 0;
  int64_t macsPadded = 0;  ///< with channels rounded up to the granule
  int64_t lutElements = 0; ///< evaluations of transcendental functions
  bool readsPart = false;  ///< reads as much of operand 0 as it writes
};

/// Never fails: an operator it does not know counts as Vector.
OpWork countWork(mlir::Operation *op, const Sizes &sizes, int64_t channelGranule);

} // namespace tessera
#endif
