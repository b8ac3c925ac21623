#include "passes/Partition/HalfOps.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Canonicalise/OnnxBuilder.h"
#include "passes/Partition/OpKinds.h"
#include "llvm/Support/Format.h"

#include <cmath>

using namespace mlir;

namespace tessera {

/// The tensor's type with float16 in place of float32; null for all others.
static RankedTensorType halfOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.getElementType().isF32())
    return {};
  return tensor.clone(Float16Type::get(type.getContext()));
}

/// Scales must not be rounded: they say what integers stand for.
static bool isQuantiser(Operation *op) {
  return op->getName().stripDialect().contains("QuantizeLinear");
}

/// Whether an attribute says that the result is float32: by name, or since no
/// float operand does (a Cast of integers, a window, a filled tensor).
static bool namesFloat(Operation *op) {
  constexpr int64_t float32 = 1; // onnx.TensorProto.FLOAT
  if (llvm::none_of(op->getOperandTypes(),
                    [](Type type) { return bool(halfOf(type)); }))
    return true;
  return llvm::any_of(llvm::ArrayRef<StringRef>{"to", "dtype", "output_dtype"},
                      [&](StringRef name) {
                        return op->hasAttr(name) &&
                               onnx::getInt(op, name) == float32;
                      });
}

/// Whether the schema of `op` has float16 where it has the float32 value `v`.
static bool admitsHalf(Operation *op, Value v) {
  Type was = v.getType();
  ScopedDiagnosticHandler quiet(op->getContext(),
                                [](Diagnostic &) { return success(); });
  v.setType(halfOf(was));
  bool admits = succeeded(op->getName().verifyInvariants(op));
  v.setType(was);
  return admits;
}

namespace {
class HalfCopies {
public:
  HalfCopies(OpBuilder &b, llvm::function_ref<Value(Value)> inHalf,
             std::string &fault)
      : b(b), inHalf(inHalf), fault(fault) {}
  LogicalResult copy(Operation *op);
  Value of(Value v) const { return copies.lookup(v); }
  SmallVector<Operation *> all;

private:
  Value operandFor(Value v, bool half);
  Value constant(Value v);
  Value converted(Value v, Type element);

  OpBuilder &b;
  llvm::function_ref<Value(Value)> inHalf;
  std::string &fault;
  IRMapping copies;                     ///< of results
  llvm::DenseMap<Value, Value> rounded; ///< of constants
};
} // namespace

Value HalfCopies::converted(Value v, Type element) {
  if (onnx::elementType(v) == element)
    return v;
  Value cast = onnx::OnnxBuilder(b, v.getLoc()).cast(v, element);
  all.push_back(cast.getDefiningOp());
  return cast;
}

Value HalfCopies::constant(Value v) {
  Value &half = rounded[v];
  if (half)
    return half;
  auto value = onnx::constantOf(v);
  auto cast = value ? value->cast(b.getF16Type()) : std::nullopt;
  if (!cast) {
    fault = "a constant cannot be read as float16";
    return {};
  }
  for (int64_t i = 0; i < cast->size(); ++i)
    if (std::isinf(cast->real(i)) && !std::isinf(value->real(i))) {
      llvm::raw_string_ostream(fault)
          << "a constant holds " << llvm::format("%.7g", value->real(i))
          << ", and float16 ends at 65504";
      return {};
    }
  return half = onnx::OnnxBuilder(b, v.getLoc()).weight(*cast);
}

Value HalfCopies::operandFor(Value v, bool half) {
  if (!halfOf(v.getType()))
    return copies.lookupOrDefault(v);
  Value from = copies.lookupOrNull(v);
  if (!from && v.getDefiningOp() && isConstantOp(v.getDefiningOp()))
    return half ? constant(v) : v;
  if (!from)
    from = inHalf(v);
  return converted(from, half ? Type(b.getF16Type()) : Type(b.getF32Type()));
}

LogicalResult HalfCopies::copy(Operation *op) {
  bool keeps = isQuantiser(op);
  SmallVector<Value> operands;
  for (Value v : op->getOperands()) {
    operands.push_back(
        operandFor(v, halfOf(v.getType()) && !keeps && admitsHalf(op, v)));
    if (!operands.back())
      return failure();
  }
  Operation *copied = b.clone(*op);
  keeps |= namesFloat(op);
  for (auto [was, is] : llvm::zip(op->getResults(), copied->getResults()))
    if (halfOf(was.getType()) && !keeps && admitsHalf(op, was))
      is.setType(halfOf(was.getType()));
  copied->setOperands(operands);
  all.push_back(copied);
  for (auto [was, is] : llvm::zip(op->getResults(), copied->getResults()))
    copies.map(was, halfOf(was.getType()) ? converted(is, b.getF16Type()) : is);
  return success();
}

LogicalResult replaceInHalf(SmallVectorImpl<Operation *> &ops,
                            llvm::function_ref<Value(Value)> inHalf,
                            llvm::function_ref<Value(Value)> outOfHalf,
                            std::string &fault) {
  OpBuilder b(ops.front()->getBlock()->getTerminator());
  HalfCopies halves(b, inHalf, fault);
  for (Operation *op : ops)
    if (failed(halves.copy(op))) {
      for (Operation *copied : llvm::reverse(halves.all))
        copied->erase();
      return failure();
    }
  llvm::SmallPtrSet<Operation *, 16> members(ops.begin(), ops.end());
  for (Operation *op : ops)
    for (Value v : op->getResults()) {
      auto isOutside = [&](OpOperand &use) {
        return !members.contains(use.getOwner());
      };
      if (llvm::none_of(v.getUses(), isOutside))
        continue;
      Value half = halves.of(v);
      v.replaceUsesWithIf(halfOf(v.getType()) ? outOfHalf(half) : half,
                          isOutside);
    }
  for (Operation *op : llvm::reverse(ops))
    op->erase();
  ops.assign(halves.all.begin(), halves.all.end());
  return success();
}

} // namespace tessera
