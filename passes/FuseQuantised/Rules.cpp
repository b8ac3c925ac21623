#include "passes/FuseQuantised/Rules.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Canonicalise/Evaluate.h"
#include "targets/Cpu/KernelBuilder.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using tessera::onnx::HostTensor;
using tessera::onnx::OnnxBuilder;

namespace tessera {

std::optional<Quantised> readQuantised(OnnxBuilder &b, Value v) {
  if (!v)
    return std::nullopt;
  Operation *op = onnx::definedBy(v, "DequantizeLinear");
  std::optional<onnx::Dequantised> constant =
      op ? onnx::readDequantise(op) : onnx::dequantisedConstant(v);
  if (constant && constant->scale.element().isF32()) {
    Quantised q{b.weight(constant->integers),
                b.weight(constant->scale),
                {},
                constant->axis,
                constant->block};
    if (constant->zero)
      q.zero = b.weight(*constant->zero);
    return q;
  }
  if (!op || onnx::getInt(op, "block_size", 0) != 0 ||
      !onnx::elementType(v).isF32())
    return std::nullopt;
  Quantised q{onnx::operand(op, 0), onnx::operand(op, 1), onnx::operand(op, 2),
              -1, 0};
  RankedTensorType type = onnx::rankedType(q.integers),
                   scale = onnx::rankedType(q.scale);
  if (!type || !scale || !isa<IntegerType>(type.getElementType()) ||
      !scale.getElementType().isF32() || scale.getRank() > 1 ||
      (q.zero &&
       onnx::rankedType(q.zero) != scale.clone(type.getElementType())))
    return std::nullopt;
  if (scale.getRank() == 0 || scale.getDimSize(0) == 1)
    return q;
  auto axis = onnx::normaliseAxis(onnx::getInt(op, "axis", 1), type.getRank());
  if (!axis)
    return std::nullopt;
  q.axis = *axis;
  return q;
}

Value alongAxis(OnnxBuilder &b, Value parameter, int64_t axis, int64_t rank) {
  RankedTensorType type = onnx::rankedType(parameter);
  if (axis < 0)
    return type.getRank() == 0
               ? parameter
               : b.reshape(parameter, {},
                           RankedTensorType::get({}, type.getElementType()));
  SmallVector<int64_t> behind =
      llvm::to_vector(llvm::seq<int64_t>(1, rank - axis));
  return behind.empty() ? parameter : b.unsqueeze(parameter, behind);
}

/// The constants of `q` with a scale and a zero point for each element.
static HostTensor blockedReal(const HostTensor &integers,
                              const HostTensor &scale, const HostTensor *zero,
                              int64_t axis, int64_t block, Type f64) {
  HostTensor out(f64, integers.shape());
  out.mutableData();
  int64_t inner = onnx::elementCount(integers.shape().drop_front(axis + 1)),
          extent = integers.shape()[axis];
  int64_t blocks = (extent + block - 1) / block;
  for (int64_t i = 0; i < integers.size(); ++i) {
    int64_t a = i / inner % extent,
            k = ((i / inner / extent) * blocks + a / block) * inner + i % inner;
    double difference =
        double(integers.integer(i) - (zero ? zero->integer(k) : 0));
    out.setReal(i, difference * scale.real(k));
  }
  return out;
}

Value differencesOf(OnnxBuilder &b, const Quantised &q, Type element) {
  Value x = b.cast(q.integers, element);
  if (!q.zero || onnx::uniformConstant(q.zero) == 0.0)
    return x;
  Value zero =
      alongAxis(b, b.cast(q.zero, element), q.axis, q.type().getRank());
  return b.op("Sub", {x, zero}, x.getType());
}

Value realOf(OnnxBuilder &b, const Quantised &q) {
  Type f64 = b.attrs().getF64Type();
  if (q.block) {
    auto integers = onnx::constantOf(q.integers),
         scale = onnx::constantOf(q.scale), zero = onnx::constantOf(q.zero);
    if (!integers || !scale || (q.zero && !zero))
      return {};
    return b.weight(blockedReal(*integers, *scale, zero ? &*zero : nullptr,
                                q.axis, q.block, f64));
  }
  Value x = differencesOf(b, q, f64);
  Value scale = alongAxis(b, b.cast(q.scale, f64), q.axis, q.type().getRank());
  return b.op("Mul", {x, scale}, x.getType());
}

SmallVector<NamedAttribute> schemaAttributes(Operation *op) {
  SmallVector<NamedAttribute> attrs;
  for (NamedAttribute a : op->getAttrs())
    if (a.getName() != "operandSegmentSizes" &&
        a.getName() != "resultSegmentSizes")
      attrs.push_back(a);
  return attrs;
}

bool isElementwise(Operation *op) { return cpu::isElementwise(op); }

bool isServed(Operation *op) {
  cpu::Reasons reasons;
  if (cpu::isElementwise(op))
    return succeeded(cpu::matchElementwise(op, reasons));
  return cpu::findKernel(op, reasons) != nullptr;
}

bool isExactElementwise(Operation *op) {
  static const llvm::StringSet<> exact = {"Add",
                                          "Sub",
                                          "Mul",
                                          "Div",
                                          "Neg",
                                          "Abs",
                                          "Sign",
                                          "Min",
                                          "Max",
                                          "Relu",
                                          "Clip",
                                          "LeakyRelu",
                                          "PRelu",
                                          "Sqrt",
                                          "Reciprocal",
                                          "Floor",
                                          "Ceil",
                                          "Round",
                                          "Cast",
                                          "Where",
                                          "Identity",
                                          "Sum",
                                          "ThresholdedRelu",
                                          "QuantizeLinear",
                                          "DequantizeLinear",
                                          "Equal",
                                          "Greater",
                                          "Less",
                                          "GreaterOrEqual",
                                          "LessOrEqual",
                                          "And",
                                          "Or",
                                          "Xor",
                                          "Not",
                                          "IsNaN",
                                          "IsInf",
                                          "CastLike"};
  return exact.contains(op->getName().stripDialect());
}

void dropUnused(Operation *first, Operation *end) {
  SmallVector<Operation *> built;
  for (Operation *op = first; op != end; op = op->getNextNode())
    built.push_back(op);
  for (Operation *op : llvm::reverse(built))
    if (isOpTriviallyDead(op))
      op->erase();
}

} // namespace tessera
