// onnx operators to one function of TOSA 1.0 operators.
//
// The verdict of the audit and the lowering are the same code: canLower() runs
// the lowering and drops its result. Whatever a lowering does not understand
// (an attribute, an element type, a mode, an operand that would have to be
// constant) it refuses by name, and collects every reason that it finds.
#ifndef TESSERA_TARGETS_TOSA_LOWERING_H
#define TESSERA_TARGETS_TOSA_LOWERING_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "targets/Cpu/KernelBuilder.h"
#include "targets/Target.h"

namespace tessera::tosa {

using cpu::Reasons;

// Precision F32 and F16: every float tensor of the region has that element type
// on the device; sums accumulate in float32 either way. Int8 and Int16: the region is
// quantised, each float tensor in it is some integer tensor's meaning
// (DequantizeLinear opens it, QuantizeLinear closes it) and none crosses the
// border.

/// What crosses the border of a region. Constants do not: they become part of it.
struct Border {
  llvm::SmallVector<mlir::Value> inputs;  ///< in order of first use
  llvm::SmallVector<mlir::Value> outputs; ///< in order of definition
};
/// `ops` of one block in order; a value is an output if anything outside reads it.
Border findBorder(llvm::ArrayRef<mlir::Operation *> ops);

/// The element type that a border tensor has on the device: float32 becomes
/// float16 under F16, the int64 result of ArgMax becomes int32, others stay.
/// The caller converts by Cast on its own side.
mlir::Type deviceElement(mlir::Type element, Precision precision);

/// A module with one function `main` over tosa operators: its parameters and
/// results are the border's values in order, with deviceElement() types. `ops`
/// must be in order and of one block; constants among them are skipped.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> lowerToTosa(llvm::ArrayRef<mlir::Operation *> ops,
                                                               const Border &border, Precision precision,
                                                               Reasons &reasons);

/// Whether `ops` lower, by lowering them; bytes of large constants are not converted.
llvm::LogicalResult canLower(llvm::ArrayRef<mlir::Operation *> ops, Precision precision, Reasons &reasons);

/// The same, and whether `device` has nothing against any operator of the result
/// (one operator, what keeps it from the device). With `contents` the constants
/// have their values, which takes time.
using DeviceCheck = llvm::function_ref<llvm::SmallVector<std::string>(mlir::Operation *)>;
llvm::LogicalResult canLower(llvm::ArrayRef<mlir::Operation *> ops, Precision precision, DeviceCheck device,
                             bool contents, Reasons &reasons);

} // namespace tessera::tosa
#endif
