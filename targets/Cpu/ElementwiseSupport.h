// What the operator tables of Elementwise*.cpp are made of.
#ifndef TESSERA_TARGETS_CPU_ELEMENTWISESUPPORT_H
#define TESSERA_TARGETS_CPU_ELEMENTWISESUPPORT_H

#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Convert.h"
#include "targets/Cpu/Expr.h"
#include "targets/Cpu/KernelBuilder.h"
#include "targets/Cpu/Math.h"

namespace tessera::cpu {

/// Element type of an operand or result; null when absent or no tensor.
inline mlir::Type elementOf(mlir::Value v) {
  auto t = v ? mlir::dyn_cast<mlir::ShapedType>(v.getType()) : mlir::ShapedType();
  return t ? t.getElementType() : mlir::Type();
}
inline mlir::Type operandElement(mlir::Operation *op, unsigned position) {
  return elementOf(onnx::getOptionalOperand(op, position));
}
inline mlir::Type resultElement(mlir::Operation *op) { return elementOf(onnx::getOptionalResult(op, 0)); }

// Sets of element types.
enum TypeSet : unsigned {
  Floats = 1,      ///< float16, bfloat16, float, double
  Ints = 2,        ///< int8 .. int64
  Uints = 4,       ///< uint8 .. uint64
  Bools = 8,
  SmallFloats = 16, ///< float8*, float4e2m1
  SmallInts = 32,  ///< (u)int4, (u)int2
  Integers = Ints | Uints,
  Numbers = Floats | Integers,
  Everything = Numbers | Bools | SmallFloats | SmallInts,
};
TypeSet typeSetOf(mlir::Type element); ///< 0 for types outside (strings, complex)

/// Adds a reason for each operand and result whose element type is not in `allowed`.
llvm::LogicalResult matchTypes(mlir::Operation *op, unsigned allowed, Reasons &reasons);

/// The emitter's view of one operator: operands as expressions, and how its
/// result is rounded.
struct Elementwise {
  mlir::Operation *op;
  llvm::ArrayRef<mlir::Value> operands;
  KernelEmitter &e;
  Expr operator[](unsigned i) const { return {e, operands[i]}; }
  bool has(unsigned i) const { return i < operands.size() && operands[i]; }
  mlir::Type element(unsigned i = 0) const { return operandElement(op, i); }
  mlir::Type result() const { return resultElement(op); }
  bool isUnsigned(unsigned i = 0) const { return KernelEmitter::isUnsigned(element(i)); }
  double attr(llvm::StringRef name) const { return onnx::getFloat(op, name); }
  /// Rounds a float result to its element type.
  mlir::Value round(Expr v) const { return v.isFloat() ? e.round(v, result()) : v.v; }
  /// Status `code` if `cond` holds in a lane that is on.
  void failIf(Expr cond, int32_t code) const { e.failIf(cond, code); }
};

using Formula = Expr (*)(const Elementwise &);

/// Operators whose operands and result come from one set of types.
struct ElementwiseTable {
  ElementwiseTable(std::initializer_list<llvm::StringRef> names, unsigned types, Formula formula);
};

/// Integer quotient or remainder by C's rules; division by zero fails the
/// kernel, the least number by -1 wraps.
Expr divideInts(const Elementwise &w, Expr a, Expr c, bool isUnsigned, bool remainder);

} // namespace tessera::cpu
#endif
