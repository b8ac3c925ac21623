// Rules of a target description, evaluated on an operator.
//
// A rule that fails says what it found and what the limit is, and all that fail
// are said. Types must be refined (onnx::ShapeAnalysis::run does so): a
// dimension that the types do not tell is not static.
#ifndef TESSERA_TARGETS_RULES_H
#define TESSERA_TARGETS_RULES_H

#include "mlir/IR/Operation.h"
#include "targets/Target.h"

namespace tessera {

/// What one constraint finds on one operator.
struct Findings {
  std::string label; ///< "kernel", "dimension 3 of 'X'"
  llvm::SmallVector<double, 4> numbers;
  llvm::SmallVector<std::string, 1> words;
  llvm::SmallVector<std::string, 1> faults; ///< what kept the subject from being found
};

/// Evaluates a constraint's subject. Nothing found and no fault: the subject is
/// absent, and the constraint holds.
Findings findSubject(const Constraint &constraint, mlir::Operation *op, Precision precision);

/// Whether all precisions of the units beside the CPU are of integers.
bool hasOnlyIntegers(const TargetDescription &target);

/// Whether an operand is known when the bundle is made. At int8 that includes a
/// constant behind a DequantizeLinear.
bool isConstantOperand(mlir::Value value, Precision precision);

/// Adds what the constraint has against `op`.
void checkConstraint(const Constraint &constraint, mlir::Operation *op, Precision precision,
                     llvm::SmallVectorImpl<std::string> &reasons);

/// The entry that decides on `op`, or null: first of its name that serves the
/// precision and whose `when` holds.
const OpRule *findRule(const Unit &unit, mlir::Operation *op, Precision precision);

/// All constraints of the unit that `op` breaks when its tensors are stored in
/// `precision`; empty if it may be placed there. On a unit of backend "cpu" the
/// kernels decide, not rules: always empty.
///
/// At f16 a float32 tensor counts as one that is stored in half the bits. At
/// int8 every tensor must be of 8 bits, or float between a DequantizeLinear and
/// a QuantizeLinear; but MatMulInteger and ConvInteger have their int32 sums.
llvm::SmallVector<std::string> failingRules(const TargetDescription &target, unsigned unit, mlir::Operation *op,
                                            Precision precision);

} // namespace tessera
#endif
