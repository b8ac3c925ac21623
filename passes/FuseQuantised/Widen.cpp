// Sums and functions of dequantised tensors in double, rounded once.
//
//   BEFORE  Softmax(DequantizeLinear(x))                    float32
//   AFTER   Cast(Softmax(Cast(x) * scale))                  double, then
//   float32
//
// Their float32 result would depend on the order of the sum and on how a
// function is approximated; the nearest float32 of the real result does not,
// but for the few cases that double cannot tell apart. Operators that sum take
// the numbers before DequantizeLinear rounds them, elementwise functions after.
#include "passes/FuseQuantised/Rules.h"
#include "targets/Cpu/KernelBuilder.h"

using namespace mlir;
using tessera::onnx::OnnxBuilder;

namespace tessera {

static bool sums(Operation *op) {
  cpu::Reasons reasons;
  const cpu::KernelBuilder *builder = cpu::findKernel(op, reasons);
  if (!builder)
    return false;
  switch (builder->kernelClass(op)) {
  case tsr::KernelClass::Pooling:
  case tsr::KernelClass::Reduction:
  case tsr::KernelClass::Normalisation:
  case tsr::KernelClass::Softmax:
    return true;
  default:
    return false;
  }
}

bool widen(Operation *op, IRRewriter &r) {
  if (op->getNumResults() != 1 ||
      !onnx::elementType(op->getResult(0)).isF32() ||
      !onnx::rankedType(op->getResult(0)))
    return false;
  bool elementwise = isElementwise(op);
  if (elementwise ? isExactElementwise(op) : !sums(op))
    return false;
  bool quantised = false;
  for (Value v : op->getOperands()) {
    bool known = onnx::definedBy(v, "DequantizeLinear");
    quantised |= known;
    if (!known && !onnx::getConstant(v) && isa<FloatType>(onnx::elementType(v)))
      return false;
  }
  if (!quantised)
    return false;
  OnnxBuilder b(r, op->getLoc());
  Operation *before = op->getPrevNode();
  Type f64 = r.getF64Type();
  SmallVector<Value> operands;
  for (unsigned p = 0; p < onnx::getNumOperandPositions(op); ++p) {
    Value v = onnx::operand(op, p);
    if (v && onnx::elementType(v).isF32()) {
      auto q = elementwise ? std::nullopt : readQuantised(b, v);
      Value real = q ? realOf(b, *q) : Value();
      v = real ? real : b.cast(v, f64);
    }
    operands.push_back(v);
  }
  auto type = onnx::rankedType(op->getResult(0));
  Value y = b.op(op->getName().stripDialect(), operands, type.clone(f64),
                 schemaAttributes(op));
  bool served = isServed(y.getDefiningOp());
  Block *block = op->getBlock();
  if (served) {
    y = b.cast(y, type.getElementType());
    r.replaceOp(op, y);
  }
  dropUnused(before ? before->getNextNode() : &block->front(),
             served ? y.getDefiningOp() : op);
  return served;
}

} // namespace tessera
