// Values of operators over constants, by the numerics of the runtime.
//
// Evaluators register themselves by operator name; one that cannot give the
// exact run-time answer (an unsupported mode, an index out of range that the
// runtime will refuse, a rounding that depends on the machine) returns nullopt
// and the operator stays.
#ifndef TESSERA_PASSES_CANONICALISE_EVALUATE_H
#define TESSERA_PASSES_CANONICALISE_EVALUATE_H

#include "passes/Canonicalise/HostTensor.h"

#include "mlir/IR/Operation.h"

#include <initializer_list>

namespace tessera::onnx {

/// Constant operands by schema position (see OnnxUtils.h).
class ConstantOperands {
public:
  ConstantOperands(llvm::ArrayRef<std::optional<HostTensor>> values, int64_t byteLimit)
      : values(values), byteLimit(byteLimit) {}
  /// Null when the operand is absent.
  const HostTensor *operator[](unsigned position) const {
    return position < values.size() && values[position] ? &*values[position] : nullptr;
  }
  unsigned size() const { return values.size(); }
  /// Whether a result of this shape is within the limit. To be asked before
  /// anything is allocated.
  bool fits(mlir::Type element, llvm::ArrayRef<int64_t> shape) const;

private:
  llvm::ArrayRef<std::optional<HostTensor>> values;
  int64_t byteLimit;
};

using EvaluatedResults = std::optional<llvm::SmallVector<HostTensor, 1>>;
using Evaluator = EvaluatedResults (*)(mlir::Operation *, const ConstantOperands &);

struct RegisterEvaluator {
  RegisterEvaluator(std::initializer_list<llvm::StringRef> names, Evaluator evaluator);
};

/// Null when constants never go through this operator.
Evaluator findEvaluator(mlir::Operation *op);

/// The pass FoldConstants with its default options.
void foldConstants(mlir::Region &region);

/// The axis in [0, rank); nullopt when out of range.
std::optional<int64_t> normaliseAxis(int64_t axis, int64_t rank);

inline EvaluatedResults single(std::optional<HostTensor> t) {
  if (!t)
    return std::nullopt;
  llvm::SmallVector<HostTensor, 1> v;
  v.push_back(std::move(*t));
  return v;
}

} // namespace tessera::onnx
#endif
