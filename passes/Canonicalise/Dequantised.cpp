#include "passes/Canonicalise/Dequantised.h"

#include "dialects/Onnx/IR/OpsCore.h"
#include "passes/Canonicalise/Evaluate.h"
#include "passes/Canonicalise/OnnxBuilder.h"

using namespace mlir;

namespace tessera::onnx {

static constexpr StringLiteral kNote = "tessera.dequantised";

bool isIntegerSum(Operation *op) {
  return op && (isOp(op, "MatMulInteger") || isOp(op, "ConvInteger"));
}

std::optional<Dequantised> readDequantise(Operation *op) {
  auto integers = constantOf(operand(op, 0)),
       scale = constantOf(operand(op, 1));
  if (!integers || !scale || !integers->isInteger() || integers->isBool() ||
      (!scale->element().isF32() && !scale->element().isF16()) ||
      elementType(op->getResult(0)) != scale->element())
    return std::nullopt;
  Dequantised d{*integers, *scale, {}, -1, getInt(op, "block_size", 0)};
  if (Value zero = operand(op, 2)) {
    d.zero = constantOf(zero);
    if (!d.zero || d.zero->size() != d.scale.size() ||
        d.zero->element() != integers->element())
      return std::nullopt;
  }
  if (scale->size() == 1 && scale->rank() <= 1) {
    d.block = 0;
    return d;
  }
  auto axis = normaliseAxis(getInt(op, "axis", 1), integers->rank());
  if (!axis)
    return std::nullopt;
  d.axis = *axis;
  return d;
}

void noteDequantised(Value weight, const Dequantised &from) {
  MLIRContext *ctx = weight.getContext();
  Builder b(ctx);
  SmallVector<NamedAttribute> fields{
      b.getNamedAttr("axis", b.getI64IntegerAttr(from.axis)),
      b.getNamedAttr("block", b.getI64IntegerAttr(from.block)),
      b.getNamedAttr("integers", from.integers.attribute()),
      b.getNamedAttr("scale", from.scale.attribute())};
  if (from.zero)
    fields.push_back(b.getNamedAttr("zero", from.zero->attribute()));
  weight.getDefiningOp()->setAttr(kNote, b.getDictionaryAttr(fields));
}

static DictionaryAttr noteOf(Value v) {
  auto weight = v ? v.getDefiningOp<WeightOp>() : WeightOp();
  return weight ? weight->getAttrOfType<DictionaryAttr>(kNote)
                : DictionaryAttr();
}

std::optional<DequantisedForm> dequantisedForm(Value v) {
  DictionaryAttr note = noteOf(v);
  auto integers = note ? dyn_cast_or_null<ElementsAttr>(note.get("integers"))
                       : ElementsAttr();
  if (!integers)
    return std::nullopt;
  return DequantisedForm{integers.getElementType(),
                         cast<IntegerAttr>(note.get("block")).getInt()};
}

std::optional<Dequantised> dequantisedConstant(Value v) {
  DictionaryAttr note = noteOf(v);
  if (!note)
    return std::nullopt;
  auto read = [&](StringRef name) -> std::optional<HostTensor> {
    auto attr = dyn_cast_or_null<ElementsAttr>(note.get(name));
    return attr ? HostTensor::read(attr) : std::nullopt;
  };
  auto number = [&](StringRef name) {
    return cast<IntegerAttr>(note.get(name)).getInt();
  };
  auto integers = read("integers"), scale = read("scale");
  if (!integers || !scale ||
      integers->shape() != cast<ShapedType>(v.getType()).getShape())
    return std::nullopt;
  return Dequantised{*integers, *scale, read("zero"), number("axis"),
                     number("block")};
}

/// Whether a Slice leaves the end of axis `d.axis` out and nothing else, so
/// that blocks begin where they did and all of them are left.
static bool cutsLastBlock(ArrayRef<std::optional<HostTensor>> operands,
                          const Dequantised &d, ArrayRef<int64_t> sliced) {
  auto one = [&](unsigned p, int64_t absent) -> std::optional<int64_t> {
    if (p >= operands.size() || !operands[p])
      return absent;
    return operands[p]->size() == 1 ? std::optional(operands[p]->integer(0))
                                    : std::nullopt;
  };
  auto axis = one(3, 0), step = one(4, 1);
  if (d.block == 0 || one(1, -1) != 0 || !axis || step != 1 ||
      normaliseAxis(*axis, sliced.size()) != d.axis)
    return false;
  return (sliced[d.axis] + d.block - 1) / d.block == d.scale.shape()[d.axis];
}

void keepDequantised(Operation *from, Value weight) {
  auto d = dequantisedConstant(operand(from, 0));
  bool transposes = isOp(from, "Transpose"), slices = isOp(from, "Slice");
  if (!d || (!transposes && !slices && !isOp(from, "Reshape") &&
             !isOp(from, "Flatten") && !isOp(from, "Squeeze") &&
             !isOp(from, "Unsqueeze") && !isOp(from, "Identity")))
    return;
  SmallVector<std::optional<HostTensor>> values(getNumOperandPositions(from));
  for (unsigned p = 0; p < values.size(); ++p)
    values[p] = constantOf(operand(from, p));
  Evaluator evaluate = findEvaluator(from);
  auto move = [&](HostTensor &t) {
    values[0] = t;
    EvaluatedResults moved =
        evaluate ? evaluate(from, ConstantOperands(values, INT64_MAX))
                 : std::nullopt;
    if (moved)
      t = moved->front();
    return moved.has_value();
  };
  if (!move(d->integers))
    return;
  if (slices && d->axis >= 0 && !cutsLastBlock(values, *d, d->integers.shape()))
    return;
  if (d->axis >= 0 && !slices && !isOp(from, "Identity")) {
    SmallVector<int64_t> perm = getInts(from, "perm");
    if (!transposes ||
        (d->block && (!move(d->scale) || (d->zero && !move(*d->zero)))))
      return; // the scales of blocks have the axes of the integers
    if (perm.empty())
      d->axis = d->integers.rank() - 1 - d->axis;
    else
      d->axis = llvm::find(perm, d->axis) - perm.begin();
  }
  noteDequantised(weight, *d);
}

} // namespace tessera::onnx
