// DequantizeLinear behind operators that only move elements: they move fewer
// bytes, and products find their integers.
//
//   BEFORE  Transpose(DequantizeLinear(x))
//   AFTER   DequantizeLinear(Transpose(x))
#include "passes/FuseQuantised/Rules.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

using namespace mlir;
using tessera::onnx::OnnxBuilder;

namespace tessera {

namespace {

bool same(Value a, Value b) {
  if (a == b)
    return true;
  auto p = onnx::constantOf(a), q = onnx::constantOf(b);
  return p && q && p->element() == q->element() && p->size() == q->size() &&
         StringRef(p->data(), p->byteSize()) ==
             StringRef(q->data(), q->byteSize());
}

/// A zero point that is not there is 0.
bool sameZero(Value a, Value b) {
  if (a && b)
    return same(a, b);
  Value one = a ? a : b;
  return !one || onnx::uniformConstant(one) == 0.0;
}

/// The DequantizeLinear of a whole tensor that defines `v`.
Operation *plainDequantise(Value v) {
  Operation *op = onnx::definedBy(v, "DequantizeLinear");
  if (!op || onnx::getInt(op, "block_size", 0) != 0)
    return nullptr;
  for (unsigned p : {1u, 2u}) {
    Value parameter = onnx::operand(op, p);
    RankedTensorType type =
        parameter ? onnx::rankedType(parameter) : RankedTensorType();
    if (parameter && (!type || type.getRank() > 1 || !type.hasStaticShape() ||
                      type.getNumElements() != 1))
      return nullptr;
  }
  return op;
}

bool positive(Value scale) {
  auto s = onnx::scalarConstant(scale);
  return s && *s > 0;
}

/// Not if the zero point would stand for NaN.
bool zeroStaysZero(Value scale) {
  auto s = onnx::scalarConstant(scale);
  return !s || std::isfinite(*s);
}

/// Number of leading operands that are data where `op` moves elements, else 0.
unsigned movedOperands(Operation *op) {
  StringRef name = op->getName().stripDialect();
  static const llvm::StringSet<> moves = {
      "Reshape",   "Flatten", "Squeeze",      "Unsqueeze",
      "Transpose", "Slice",   "DepthToSpace", "SpaceToDepth",
      "Identity",  "Gather",  "Split"};
  if (moves.contains(name))
    return 1;
  if ((name == "MaxPool" || name == "GlobalMaxPool") &&
      op->getNumResults() == 1)
    return 1;
  if (name == "Concat")
    return op->getNumOperands();
  if (name == "Pad" && onnx::getString(op, "mode", "constant") == "constant") {
    Value fill = onnx::operand(op, 2);
    return !fill || onnx::scalarConstant(fill) == 0.0;
  }
  return 0;
}

} // namespace

bool moveDequantise(Operation *op, IRRewriter &r) {
  unsigned data = movedOperands(op);
  if (!data)
    return false;
  Operation *first = plainDequantise(op->getOperand(0));
  if (!first)
    return false;
  Value scale = onnx::operand(first, 1), zero = onnx::operand(first, 2);
  Type element = onnx::elementType(onnx::operand(first, 0));
  StringRef name = op->getName().stripDialect();
  if ((name.ends_with("MaxPool") && !positive(scale)) ||
      (name == "Pad" && !zeroStaysZero(scale)))
    return false;
  SmallVector<Value> operands;
  for (unsigned p = 0; p < onnx::getNumOperandPositions(op); ++p) {
    Value v = onnx::operand(op, p);
    if (p < data) {
      Operation *dq = plainDequantise(v);
      if (!dq || onnx::elementType(onnx::operand(dq, 0)) != element ||
          !same(onnx::operand(dq, 1), scale) ||
          !sameZero(onnx::operand(dq, 2), zero) ||
          onnx::elementType(v) != onnx::elementType(op->getOperand(0)))
        return false;
      v = onnx::operand(dq, 0);
    }
    operands.push_back(v);
  }
  OnnxBuilder b(r, op->getLoc());
  if (name == "Pad") { // with what stands for 0
    operands.resize(std::max<size_t>(operands.size(), 3));
    if (zero)
      operands[2] = alongAxis(b, zero, -1, 0);
    else
      operands[2] = b.scalar(element, 0);
  }
  SmallVector<Type> types;
  for (Value v : op->getResults()) {
    RankedTensorType t = onnx::rankedType(v);
    if (!t)
      return false;
    types.push_back(t.clone(element));
  }
  Operation *moved = b.create(name, operands, types, schemaAttributes(op));
  if (!isServed(moved)) {
    moved->erase();
    return false;
  }
  SmallVector<Value> results;
  for (auto [v, old] : llvm::zip_equal(moved->getResults(), op->getResults()))
    results.push_back(
        b.op("DequantizeLinear", {v, scale, zero}, old.getType()));
  r.replaceOp(op, results);
  return true;
}

bool dropRequantise(Operation *op, IRRewriter &r) {
  if (!onnx::isOp(op, "QuantizeLinear"))
    return false;
  Operation *dq = plainDequantise(op->getOperand(0));
  Value x = dq ? onnx::operand(dq, 0) : Value();
  auto element =
      x ? dyn_cast<IntegerType>(onnx::elementType(x)) : IntegerType();
  // The error of the two roundings is far below one half while scales are
  // normal.
  auto scale = dq ? onnx::scalarConstant(onnx::operand(dq, 1)) : std::nullopt;
  if (!element || element.getWidth() > 16 ||
      element != onnx::elementType(op->getResult(0)) ||
      !onnx::elementType(dq->getResult(0)).isF32() || !scale ||
      !(*scale > 1e-30 && *scale < 1e30) ||
      !same(onnx::operand(op, 1), onnx::operand(dq, 1)) ||
      !sameZero(onnx::operand(op, 2), onnx::operand(dq, 2)) ||
      x.getType() != op->getResult(0).getType())
    return false;
  r.replaceOp(op, x);
  return true;
}

} // namespace tessera
