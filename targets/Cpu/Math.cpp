// What needs no approximation: single instructions, and the exact remainder.
#include "targets/Cpu/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "targets/Cpu/MathParts.h"

using namespace mlir;

namespace tessera::cpu::math {

Expr perLane(ArrayRef<Expr> args, Type resultScalar, llvm::function_ref<Value(ArrayRef<Value>)> fn) {
  KernelEmitter &e = *args[0].e;
  SmallVector<Value> scalars;
  auto vec = dyn_cast<VectorType>(args[0].type());
  if (!vec) {
    for (const Expr &a : args)
      scalars.push_back(a);
    return {e, fn(scalars)};
  }
  auto type = vec.clone(resultScalar);
  Value start = isa<FloatType>(resultScalar) ? e.floatConst(type, 0) : e.intConst(type, 0);
  Value lanes = e.laneCount({static_cast<unsigned>(vec.getDimSize(0)), vec.isScalable()});
  SmallVector<Value> r =
      e.forLoop(e.idx(0), lanes, e.idx(1), ValueRange{start}, [&](Value i, ValueRange carried) {
        Value at = arith::IndexCastOp::create(e.b, e.loc, e.b.getIndexType(), i);
        scalars.clear();
        for (const Expr &a : args)
          scalars.push_back(vector::ExtractOp::create(e.b, e.loc, a.v, OpFoldResult(at)));
        Value y = fn(scalars);
        return SmallVector<Value>{vector::InsertOp::create(e.b, e.loc, y, carried[0], OpFoldResult(at))};
      });
  return {e, r[0]};
}

/// Long division of the mantissas, 11 bits of the quotient a step, in i64.
static Value remainderOf(KernelEmitter &e, Value xv, Value yv) {
  Expr x(e, xv), y(e, yv);
  Expr xb = bitsOf(x) & INT64_MAX, yb = bitsOf(y) & INT64_MAX;
  auto mantissa = [](Expr b) {
    Expr m = b & 0xfffffffffffffll;
    return select(shrU(b, 52) == 0, m, m | 0x10000000000000ll);
  };
  auto exponent = [](Expr b) {
    Expr k = shrU(b, 52);
    return select(k == 0, 1, k);
  };
  Expr my = mantissa(yb), ey = exponent(yb);
  my = select(my == 0, 1, my);
  auto rem = [&](Expr a) { return Expr(e, arith::RemUIOp::create(e.b, e.loc, a.v, my.v)); };
  Expr r0 = rem(mantissa(xb)), d0 = exponent(xb) - ey;
  SmallVector<Value> out = e.whileLoop(
      ValueRange{r0.v, d0.v}, [&](ValueRange c) -> Value { return Expr(e, c[1]) > 0; },
      [&](ValueRange c) {
        Expr r(e, c[0]), d(e, c[1]);
        Expr step = select(d < 11, d, d.ki(11));
        return SmallVector<Value>{rem(shl(r, step)), d - step};
      });
  // r 2^(ey - 1075), exact in two factors.
  Expr k = ey - 1075, k1 = shrS(k, 1), k2 = k - k1;
  auto power = [](Expr n) { return floatOf(shl(n + 1023, 52)); };
  Expr r = fromInt(Expr(e, out[0]), e.f64(), true) * power(k1) * power(k2);
  r = copysign(r, x);
  r = select(abs(x) < abs(y), x, r);
  Expr bad = isNan(x) | isNan(y) | (abs(x) == kInf) | (y == 0.0);
  return select(bad, kNan, r);
}

Value fmod(KernelEmitter &e, Value x, Value y) {
  Expr a(e, x), c(e, y);
  bool single = !a.isF64();
  Expr r = perLane({toF64(a), toF64(c)}, e.f64(),
                   [&](ArrayRef<Value> v) { return remainderOf(e, v[0], v[1]); });
  return single ? toF32(r) : r;
}

Value sqrt(KernelEmitter &e, Value x) { return cpu::sqrt(Expr(e, x)); }
Value abs(KernelEmitter &e, Value x) { return cpu::abs(Expr(e, x)); }
Value floor(KernelEmitter &e, Value x) { return cpu::floor(Expr(e, x)); }
Value ceil(KernelEmitter &e, Value x) { return cpu::ceil(Expr(e, x)); }
Value trunc(KernelEmitter &e, Value x) { return truncF(Expr(e, x)); }
Value roundEven(KernelEmitter &e, Value x) { return cpu::roundEven(Expr(e, x)); }
Value copysign(KernelEmitter &e, Value x, Value sign) { return cpu::copysign(Expr(e, x), Expr(e, sign)); }
Value isNan(KernelEmitter &e, Value x) { return cpu::isNan(Expr(e, x)); }
Value isInf(KernelEmitter &e, Value x) { return cpu::abs(Expr(e, x)) == kInf; }

} // namespace tessera::cpu::math
