// Integer products for units that take signed bytes and constant zero points.
//
//   BEFORE  y = MatMulInteger(x : ui8, w, z, u)            z from the run
//   AFTER   s = Cast(Cast(x) - 128) : i8
//           y = MatMulInteger(s, w, -, u) - (z - 128) * sums
//
// where `sums` are those of the columns of w - u. A convolution pads with what
// stands for 0, which is not known before the run either: Pad does so before.
// What stays on the CPU gets its own form back: it has zero points for nothing.
#include "passes/FuseQuantised/Rules.h"

using namespace mlir;
using tessera::onnx::HostTensor;
using tessera::onnx::OnnxBuilder;

namespace tessera {

namespace {

/// On what takeOutZeroPoint made: the product, with the padding that it had,
/// and the subtraction behind it.
constexpr StringRef takenOut = "tsr.zero_point_taken_out";
constexpr int64_t half = 128;

bool isUnsignedByte(Value v) {
  return onnx::elementType(v).isUnsignedInteger(8);
}

/// One zero point for all, constant or not; absent: 0.
bool isSingle(Value zero) {
  RankedTensorType t = zero ? onnx::rankedType(zero) : RankedTensorType();
  return !zero || (t && t.hasStaticShape() && t.getNumElements() == 1);
}

/// The same numbers less 128 as signed bytes; signed ones as they are.
HostTensor signedBytes(const HostTensor &t, Builder &b) {
  HostTensor out(b.getI8Type(), t.shape());
  out.mutableData();
  int64_t off = t.element().isUnsignedInteger(8) ? half : 0;
  for (int64_t i = 0; i < t.size(); ++i)
    out.setInteger(i, t.integer(i) - off);
  return out;
}

/// Bytes of either kind as int32, less 128 where they have no sign.
Value wide(OnnxBuilder &b, Value v) {
  Type i32 = b.attrs().getI32Type();
  Value x = b.cast(v, i32);
  return isUnsignedByte(v) ? b.sub(x, b.scalar(i32, half)) : x;
}

/// What wide() made `v` of; null if it did not.
Value narrowed(Value v) {
  Operation *sub = onnx::definedBy(v, "Sub");
  if (sub && onnx::scalarConstant(sub->getOperand(1)) == double(half))
    v = sub->getOperand(0);
  Operation *cast = onnx::definedBy(v, "Cast");
  Value from = cast ? cast->getOperand(0) : Value();
  return from && isUnsignedByte(from) == !!sub ? from : Value();
}

SmallVector<int64_t> padsOf(Operation *op) { return onnx::getInts(op, "pads"); }

/// A convolution's pads as those of Pad, which has all axes.
SmallVector<int64_t> allAxes(ArrayRef<int64_t> pads) {
  SmallVector<int64_t> all;
  for (ArrayRef<int64_t> side :
       {pads.take_front(pads.size() / 2), pads.drop_front(pads.size() / 2)}) {
    all.append({0, 0});
    llvm::append_range(all, side);
  }
  return all;
}

bool isAnyPadded(ArrayRef<int64_t> pads) {
  return llvm::any_of(pads, [](int64_t p) { return p != 0; });
}

class Splitter {
public:
  Splitter(Operation *op, IRRewriter &r, SumsWanted wanted)
      : op(op), isConv(onnx::isOp(op, "ConvInteger")), b(r, op->getLoc()),
        wanted(wanted) {}
  /// The sums; null where nothing is to be done, or it cannot be.
  Value build();

private:
  bool isCandidate() const;
  Value padded(Value bytes, Value zero);
  Value columnSums(const HostTensor &w, int64_t zero);
  /// Null unless it is wanted.
  Value product(Value bytes, Value zero, Value w, int64_t zeroW, bool pads);

  Operation *op;
  bool isConv;
  OnnxBuilder b;
  SumsWanted wanted;
};

bool Splitter::isCandidate() const {
  Value x = op->getOperand(0), zero = onnx::operand(op, 2);
  Value w = op->getOperand(1), zeroW = onnx::operand(op, 3);
  RankedTensorType type = onnx::rankedType(x), weights = onnx::rankedType(w);
  StringRef padding = onnx::getString(op, "auto_pad", "NOTSET");
  return type && type.hasStaticShape() && type.getElementType().isInteger(8) &&
         weights && onnx::getConstant(w) && isSingle(zero) && isSingle(zeroW) &&
         (!zeroW || onnx::getConstant(zeroW)) &&
         (isConv ? padding == "NOTSET" && type.getRank() >= 3
                 : weights.getRank() == 2 && type.getRank() >= 2);
}

/// Sums of w - zero over all that is multiplied with one number, in the shape
/// in which they broadcast.
Value Splitter::columnSums(const HostTensor &w, int64_t zero) {
  int64_t rank = w.rank(), channels = w.shape()[isConv ? 0 : 1];
  SmallVector<int64_t> dims{channels};
  dims.append(isConv ? rank - 2 : 0, 1);
  HostTensor sums(b.attrs().getI32Type(), dims);
  sums.mutableData();
  int64_t steps = w.size() / std::max<int64_t>(channels, 1);
  for (int64_t i = 0; i < w.size(); ++i) {
    int64_t c = isConv ? i / steps : i % channels;
    sums.setInteger(c, sums.integer(c) + w.integer(i) - zero);
  }
  return b.weight(sums);
}

/// An image with its border of what stands for 0, in the convolution's place.
Value Splitter::padded(Value bytes, Value zero) {
  SmallVector<int64_t> all = allAxes(padsOf(op));
  RankedTensorType type = onnx::rankedType(bytes);
  SmallVector<int64_t> dims(type.getShape());
  for (auto [a, extent] : llvm::enumerate(dims))
    extent += all[a] + all[dims.size() + a];
  return b.op("Pad", {bytes, b.ints(all), zero}, type.clone(dims),
              {b.s("mode", "constant")});
}

Value Splitter::product(Value bytes, Value zero, Value w, int64_t zeroW,
                        bool pads) {
  SmallVector<NamedAttribute> attributes = schemaAttributes(op);
  if (!pads)
    llvm::erase_if(attributes,
                   [](NamedAttribute a) { return a.getName() == "pads"; });
  attributes.push_back(b.attrs().getNamedAttr(
      takenOut, b.attrs().getDenseI64ArrayAttr(padsOf(op))));
  Value u = zeroW ? b.scalar(b.attrs().getI8Type(), zeroW) : Value();
  Value y = b.op(op->getName().stripDialect(), {bytes, w, zero, u},
                 op->getResult(0).getType(), attributes);
  return wanted(y.getDefiningOp()) ? y : Value();
}

Value Splitter::build() {
  if (!isCandidate())
    return {};
  Type i8 = b.attrs().getI8Type();
  Value x = op->getOperand(0), zero = onnx::operand(op, 2);
  HostTensor w = *onnx::constantOf(op->getOperand(1));
  auto known = zero ? onnx::constantOf(zero) : std::nullopt;
  bool fixed = !zero || known;
  if (fixed && !isUnsignedByte(x) && !w.isUnsigned())
    return {};
  auto u = onnx::constantOf(onnx::operand(op, 3));
  int64_t zeroW = (u ? u->integer(0) : 0) - (w.isUnsigned() ? half : 0);
  w = signedBytes(w, b.attrs());
  Value bytes = isUnsignedByte(x) ? b.cast(wide(b, x), i8) : x;
  if (fixed) {
    int64_t z =
        (known ? known->integer(0) : 0) - (isUnsignedByte(x) ? half : 0);
    return product(bytes, z ? b.scalar(i8, z) : Value(), b.weight(w), zeroW,
                   /*pads=*/true);
  }
  if (onnx::rankedType(zero).getRank() > 0)
    zero = alongAxis(b, zero, -1, 0);
  Value z = wide(b, zero);
  if (isAnyPadded(padsOf(op)))
    bytes = padded(bytes, isUnsignedByte(zero) ? b.cast(z, i8) : zero);
  Value y = product(bytes, {}, b.weight(w), zeroW, /*pads=*/false);
  if (!y)
    return {};
  Value less = b.mul(columnSums(w, zeroW), z);
  return b.op("Sub", {y, less}, y.getType(),
              {b.attrs().getNamedAttr(takenOut, b.attrs().getUnitAttr())});
}

} // namespace

bool takeOutZeroPoint(Operation *op, IRRewriter &r, SumsWanted wanted) {
  if (!onnx::isIntegerSum(op))
    return false;
  Operation *before = op->getPrevNode();
  Block *block = op->getBlock();
  Value y = Splitter(op, r, wanted).build();
  if (y)
    r.replaceOp(op, y);
  else
    dropUnused(before ? before->getNextNode() : &block->front(), op);
  return static_cast<bool>(y);
}

bool putZeroPointBack(Operation *op, IRRewriter &r) {
  auto pads = op->getAttrOfType<DenseI64ArrayAttr>(takenOut);
  if (!pads || !op->hasOneUse())
    return false;
  OnnxBuilder b(r, op->getLoc());
  Operation *last = op, *sub = *op->getUsers().begin();
  Value x = op->getOperand(0), zero = onnx::operand(op, 2);
  bool isPadApart = isAnyPadded(pads) && !op->hasAttr("pads");
  if (isPadApart) {
    Operation *pad = onnx::definedBy(x, "Pad");
    auto borders = pad ? onnx::constantOf(onnx::operand(pad, 1)) : std::nullopt;
    if (!borders || borders->integers() != allAxes(pads))
      return false;
    x = pad->getOperand(0);
  }
  Operation *cast = onnx::definedBy(x, "Cast");
  Value bytes = cast ? narrowed(cast->getOperand(0)) : Value();
  bool wasUnsigned = bytes && isUnsignedByte(bytes);
  x = wasUnsigned ? bytes : x;
  if (sub->hasAttr(takenOut) && sub->getOperand(0) == op->getResult(0)) {
    Operation *less = onnx::definedBy(sub->getOperand(1), "Mul");
    zero = less ? narrowed(less->getOperand(1)) : Value();
    if (!zero || isUnsignedByte(zero) != wasUnsigned)
      return false;
    last = sub;
  } else if (isPadApart) {
    return false;
  } else if (wasUnsigned) {
    zero = b.scalar(onnx::elementType(x),
                    onnx::scalarConstant(zero).value_or(0) + half);
  }
  SmallVector<NamedAttribute> attributes = schemaAttributes(op);
  llvm::erase_if(attributes, [](NamedAttribute a) {
    return a.getName() == takenOut || a.getName() == "pads";
  });
  if (!pads.empty())
    attributes.push_back(b.is("pads", pads.asArrayRef()));
  r.setInsertionPoint(last);
  Value y = b.op(op->getName().stripDialect(),
                 {x, op->getOperand(1), zero, onnx::operand(op, 3)},
                 last->getResult(0).getType(), attributes);
  r.replaceOp(last, y);
  if (last != op)
    r.eraseOp(op);
  return true;
}

} // namespace tessera
