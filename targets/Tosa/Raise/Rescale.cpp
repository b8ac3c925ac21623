// RESCALE, exactly: ((x - zero) * multiplier + rounding) >> shift, + zero, saturated.
//
// The product has at most 63 bits. An arithmetic shift of int64 is a logical
// one of the same bits with 2^62 added before and 2^(62 - shift) taken off after,
// which are operators that ONNX has.
#include "targets/Tosa/Raise/Raiser.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

/// Numbers that differ by channel, as a tensor that broadcasts over `perm`.
Value perChannel(Raiser &r, Type element, ArrayRef<int64_t> v, ArrayRef<int64_t> perm) {
  if (v.size() == 1)
    return r.integer(element, v[0]);
  SmallVector<int64_t> dims(perm.size(), 1);
  dims[inversePerm(perm).back()] = v.size();
  HostTensor t(element, dims);
  t.mutableData();
  for (size_t i = 0; i < v.size(); ++i)
    t.setInteger(i, v[i]);
  return r.b.weight(t);
}

/// Single and double rounding of the specification, as what is added.
Value rounding(Raiser &r, Value x, ArrayRef<int64_t> shifts, bool twice, ArrayRef<int64_t> perm) {
  Type i64 = r.b.attrs().getI64Type();
  SmallVector<int64_t> once, up, down;
  bool differs = false;
  for (int64_t s : shifts) {
    int64_t half = int64_t(1) << (s - 1), more = twice && s > 31 ? int64_t(1) << 30 : 0;
    once.push_back(half);
    up.push_back(half + more);
    down.push_back(half - more);
    differs |= more != 0;
  }
  if (!differs)
    return perChannel(r, i64, once, perm);
  Value sign = r.b.op("GreaterOrEqual", {x, r.integer(i64, 0)}, Raiser::typeOf(x).clone(r.b.attrs().getI1Type()));
  return r.b.op("Where", {sign, perChannel(r, i64, up, perm), perChannel(r, i64, down, perm)}, x.getType());
}

LogicalResult raiseRescale(Operation *op, Raiser &r) {
  auto rescale = cast<mlir::tosa::RescaleOp>(op);
  auto multiplier = r.constantOf(op->getOperand(1)), shift = r.constantOf(op->getOperand(2));
  auto zeroIn = r.scalarOf(op->getOperand(3)), zeroOut = r.scalarOf(op->getOperand(4));
  Type out = Raiser::typeOf(op->getResult(0)).getElementType(), in = Raiser::typeOf(op->getOperand(0)).getElementType();
  if (!multiplier || !shift || !zeroIn || !zeroOut || rescale.getInputUnsigned() || rescale.getOutputUnsigned() ||
      rescale.getRoundingMode() == mlir::tosa::RoundingMode::INEXACT_ROUND || in.getIntOrFloatBitWidth() > 48)
    return failure();
  SmallVector<int64_t> m = multiplier->integers(), s = shift->integers(), bias, unbias;
  for (int64_t v : s) {
    if (v < 2 || v > 62)
      return failure();
    unbias.push_back(int64_t(1) << (62 - v));
  }
  Perm perm = r.order(op->getOperand(0));
  Builder &types = r.b.attrs();
  Type i64 = types.getI64Type(), u64 = types.getIntegerType(64, /*isSigned=*/false);
  Value x = r.b.cast(r.get(op->getOperand(0), perm), i64);
  if (*zeroIn != 0)
    x = r.b.sub(x, r.integer(i64, (int64_t)*zeroIn));
  bool twice = rescale.getRoundingMode() == mlir::tosa::RoundingMode::DOUBLE_ROUND;
  Value round = rounding(r, x, s, twice, perm);
  Value sum = r.b.add(r.b.mul(x, perChannel(r, i64, m, perm)), round);
  Value bits = r.b.cast(r.b.add(sum, r.integer(i64, int64_t(1) << 62)), u64);
  Value shifted = r.b.op("BitShift", {bits, perChannel(r, u64, s, perm)}, bits.getType(), {r.b.s("direction", "RIGHT")});
  Value y = r.b.sub(r.b.cast(shifted, i64), perChannel(r, i64, unbias, perm));
  if (*zeroOut != 0)
    y = r.b.add(y, r.integer(i64, (int64_t)*zeroOut));
  unsigned width = out.getIntOrFloatBitWidth();
  int64_t top = (int64_t(1) << (width - 1)) - 1;
  y = r.b.op("Clip", {y, r.integer(i64, -top - 1), r.integer(i64, top)}, y.getType());
  r.set(op->getResult(0), r.b.cast(y, out), perm);
  return success();
}

RegisterRaise rescale({"rescale"}, raiseRescale);

} // namespace
} // namespace tessera::tosa
