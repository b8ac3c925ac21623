// Arithmetic, comparison, logic and selection. One formula an operator, over
// value types (KernelEmitter.h): float results are rounded to the element type
// once, at the end; integers wrap.
#include "targets/Cpu/ElementwiseSupport.h"

using namespace mlir;

namespace tessera::cpu {

TypeSet typeSetOf(Type t) {
  if (!t)
    return TypeSet(0);
  if (t.isF16() || t.isBF16() || t.isF32() || t.isF64())
    return Floats;
  if (isa<FloatType>(t)) // float6*: the conversions know them, loads and stores do not
    return isConvertible(t) && 8 % KernelEmitter::storageBits(t) == 0 ? SmallFloats : TypeSet(0);
  auto i = dyn_cast<IntegerType>(t);
  if (!i || i.getWidth() > 64)
    return TypeSet(0);
  if (i.getWidth() == 1)
    return Bools;
  if (i.getWidth() < 8)
    return SmallInts;
  return i.isUnsigned() ? Uints : Ints;
}

LogicalResult matchTypes(Operation *op, unsigned allowed, Reasons &reasons) {
  bool ok = true;
  auto check = [&](Value v, const Twine &what) {
    Type t = elementOf(v);
    if (typeSetOf(t) & allowed)
      return;
    ok = false;
    std::string name = t ? onnx::getTypeName(t) : onnx::getTypeName(v.getType());
    reasons.no() << what.str() << " of type " << name << " is not computed by " << op->getName().getStringRef().str();
  };
  for (auto [i, v] : llvm::enumerate(op->getOperands()))
    check(v, "operand " + Twine(i));
  for (auto [i, v] : llvm::enumerate(op->getResults()))
    check(v, "result " + Twine(i));
  return success(ok);
}

/// Operands must broadcast to the result as numpy has it; not every operator's
/// shape inference sees to that (PRelu).
static LogicalResult matchBroadcast(Operation *op, Reasons &reasons) {
  auto result = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  LogicalResult ok = success();
  for (auto [i, v] : llvm::enumerate(op->getOperands())) {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    if (!type || !result)
      continue;
    bool fits = type.getRank() <= result.getRank();
    for (int64_t k = 1; fits && k <= type.getRank(); ++k) {
      int64_t d = type.getDimSize(type.getRank() - k), r = result.getDimSize(result.getRank() - k);
      fits = d == 1 || d == r || ShapedType::isDynamic(d) || ShapedType::isDynamic(r);
    }
    if (!fits)
      ok = reasons.no() << "operand " << i << " of " << onnx::getTypeName(type) << " does not broadcast to "
                        << onnx::getTypeName(result);
  }
  return ok;
}

ElementwiseTable::ElementwiseTable(std::initializer_list<StringRef> names, unsigned types, Formula formula) {
  RegisterElementwise(
      names,
      [types](Operation *op, Reasons &reasons) {
        LogicalResult known = matchTypes(op, types, reasons), fits = matchBroadcast(op, reasons);
        return success(succeeded(known) && succeeded(fits));
      },
      [formula](Operation *op, ArrayRef<Value> operands, KernelEmitter &e) -> FailureOr<Value> {
        Elementwise w{op, operands, e};
        return w.round(formula(w));
      });
}

// --- arithmetic ------------------------------------------------------------------

Expr divideInts(const Elementwise &w, Expr a, Expr c, bool isUnsigned, bool remainder) {
  KernelEmitter &e = w.e;
  Expr zero = c == 0;
  w.failIf(zero, TSR_KERNEL_DIVISION_BY_ZERO);
  if (isUnsigned) {
    Expr d = select(zero, 1, c);
    if (remainder)
      return {e, arith::RemUIOp::create(e.b, e.loc, a.v, d.v)};
    return {e, arith::DivUIOp::create(e.b, e.loc, a.v, d.v)};
  }
  Expr minusOne = c == -1;
  Expr d = select(zero | minusOne, 1, c);
  if (remainder) // of a division by 1 or -1: 0
    return {e, arith::RemSIOp::create(e.b, e.loc, a.v, d.v)};
  Expr q = a / d;
  return select(minusOne, -a, q);
}

static Expr div(const Elementwise &w) {
  if (w[0].isFloat())
    return w[0] / w[1];
  return divideInts(w, w[0], w[1], w.isUnsigned(), false);
}

/// fmod=1: C's remainder. Else the sign follows the divisor, for floats also
/// that of a zero.
static Expr mod(const Elementwise &w) {
  bool follow = !onnx::getInt(w.op, "fmod");
  if (w[0].isFloat()) {
    Expr r(w.e, math::fmod(w.e, w[0], w[1]));
    if (!follow)
      return r;
    Expr other = (bitsOf(r) ^ bitsOf(w[1])) < 0;
    return select(r == 0.0, copysign(r, w[1]), select(other, r + w[1], r));
  }
  Expr r = divideInts(w, w[0], w[1], w.isUnsigned(), true);
  if (w.isUnsigned() || !follow)
    return r;
  Expr other = (r != 0) & ((r ^ w[1]) < 0);
  return select(other, r + w[1], r);
}

/// Wrapping power by squaring; negative exponents as 1 / x^n truncated, and
/// 0 to a negative exponent is the greatest integer (1 / 0 = inf, saturated).
static Expr powInts(const Elementwise &w, Expr x, Expr y, bool exponentUnsigned) {
  KernelEmitter &e = w.e;
  Expr one = x.ki(1);
  auto r = e.whileLoop(
      ValueRange{one.v, x.v, y.v},
      [&](ValueRange c) -> Value {
        Expr n(e, c[2]);
        Value more = exponentUnsigned ? n != 0 : n > 0;
        if (isa<VectorType>(more.getType()))
          more = vector::ReductionOp::create(e.b, e.loc, vector::CombiningKind::OR, more);
        return more;
      },
      [&](ValueRange c) {
        Expr p(e, c[0]), s(e, c[1]), n(e, c[2]);
        Expr on = (n & 1) != 0;
        if (!exponentUnsigned)
          on = on & (n > 0);
        Expr next = exponentUnsigned ? shrU(n, 1) : select(n > 0, shrS(n, 1), n);
        return SmallVector<Value>{select(on, p * s, p), s * s, next};
      });
  Expr p(e, r[0]);
  if (exponentUnsigned)
    return p;
  Expr parity = select((y & 1) != 0, y.ki(-1), y.ki(1));
  parity = intType(parity, x.width(), false);
  int64_t max = static_cast<int64_t>(~0ull >> (65 - x.width()));
  Expr inverse = select(x == 0, max, select(x == 1, 1, select(x == -1, parity, x.ki(0))));
  return select(y < 0, inverse, p);
}

static Expr pow(const Elementwise &w) {
  KernelEmitter &e = w.e;
  Type base = w.element(0);
  Expr x = w[0], y = w[1];
  bool baseFloat = x.isFloat(), exponentFloat = y.isFloat();
  if (!baseFloat && !exponentFloat) {
    // The exponent in the width of the wider of both; the base in its own.
    unsigned width = std::max(x.width(), y.width());
    Expr n = intType(y, width, w.isUnsigned(1));
    Expr b = intType(x, width, false);
    Expr p = powInts(w, b, n, w.isUnsigned(1));
    Expr max = x.ki(static_cast<int64_t>(~0ull >> (65 - x.width())));
    if (width == x.width())
      return p;
    Expr narrow = intType(p, x.width(), false);
    return w.isUnsigned(1) ? narrow : select((x == 0) & (y < 0), max, narrow);
  }
  if (!baseFloat) { // in double, as numpy has it
    Expr p(e, math::pow(e, fromInt(x, e.f64(), w.isUnsigned(0)), toF64(y)));
    return {e, e.cast(p, e.f64(), base)};
  }
  if (!exponentFloat) {
    if (auto c = KernelEmitter::constantOf(y))
      return {e, math::pow(e, x, e.floatConst(x.type(), static_cast<double>(*c)))};
    bool exact = y.width() <= 16; // f32 holds it
    Type t = x.isF64() || !exact ? e.f64() : e.f32();
    Expr xe = t.isF64() ? toF64(x) : x;
    Expr p(e, math::pow(e, xe, fromInt(y, t, w.isUnsigned(1))));
    return x.isF64() ? p : toF32(p);
  }
  if (x.isF64() == y.isF64())
    return {e, math::pow(e, x, y)};
  Expr p(e, math::pow(e, toF64(x), toF64(y)));
  return x.isF64() ? p : toF32(p);
}

static Expr extreme(const Elementwise &w, bool max) {
  KernelEmitter &e = w.e;
  Expr r = w[0];
  for (unsigned i = 1; i < w.operands.size(); ++i) {
    Expr c = w[i];
    if (r.isFloat())
      r = {e, max ? e.maxF(r, c) : e.minF(r, c)};
    else if (w.isUnsigned())
      r = {e, max ? Value(arith::MaxUIOp::create(e.b, e.loc, r.v, c.v)) : Value(arith::MinUIOp::create(e.b, e.loc, r.v, c.v))};
    else
      r = {e, max ? Value(arith::MaxSIOp::create(e.b, e.loc, r.v, c.v)) : Value(arith::MinSIOp::create(e.b, e.loc, r.v, c.v))};
  }
  return r;
}

/// Left to right; each step rounded as a chain of Add would be.
static Expr sum(const Elementwise &w) {
  Expr r = w[0];
  for (unsigned i = 1; i < w.operands.size(); ++i)
    r = {w.e, w.e.round(r + w[i], w.result())};
  return r;
}

static Expr sign(const Elementwise &w) {
  Expr x = w[0];
  if (x.isFloat())
    return select(x > 0.0, 1.0, select(x < 0.0, -1.0, select(x == 0.0, 0.0, x)));
  if (w.isUnsigned())
    return select(x == 0, x, x.ki(1));
  return select(x > 0, 1, select(x < 0, x.ki(-1), x.ki(0)));
}

static Expr absolute(const Elementwise &w) {
  Expr x = w[0];
  if (x.isFloat())
    return abs(x);
  return w.isUnsigned() ? x : select(x < 0, -x, x);
}

static ElementwiseTable arithmetic[] = {
    {{"onnx.Add"}, Numbers, [](const Elementwise &w) { return w[0] + w[1]; }},
    {{"onnx.Sub"}, Numbers, [](const Elementwise &w) { return w[0] - w[1]; }},
    {{"onnx.Mul"}, Numbers, [](const Elementwise &w) { return w[0] * w[1]; }},
    {{"onnx.Div"}, Numbers, div},
    {{"onnx.Mod"}, Numbers, mod},
    {{"onnx.Pow"}, Numbers, pow},
    {{"onnx.Max"}, Numbers, [](const Elementwise &w) { return extreme(w, true); }},
    {{"onnx.Min"}, Numbers, [](const Elementwise &w) { return extreme(w, false); }},
    {{"onnx.Sum"}, Floats, sum},
    {{"onnx.Mean"}, Floats,
     [](const Elementwise &w) { return sum(w) / static_cast<double>(w.operands.size()); }},
    {{"onnx.Abs"}, Numbers, absolute},
    {{"onnx.Neg"}, Floats | Ints, [](const Elementwise &w) { return -w[0]; }},
    {{"onnx.Sign"}, Numbers, sign},
    {{"onnx.Floor"}, Floats, [](const Elementwise &w) { return floor(w[0]); }},
    {{"onnx.Ceil"}, Floats, [](const Elementwise &w) { return ceil(w[0]); }},
    {{"onnx.Round"}, Floats, [](const Elementwise &w) { return roundEven(w[0]); }},
    {{"onnx.Sqrt"}, Floats, [](const Elementwise &w) { return sqrt(w[0]); }},
    {{"onnx.Reciprocal"}, Floats, [](const Elementwise &w) { return w[0].k(1) / w[0]; }},
};

// --- elementary functions -----------------------------------------------------------

#define TESSERA_UNARY(name, fn)                                                                    \
  {{"onnx." name}, Floats, [](const Elementwise &w) { return Expr(w.e, math::fn(w.e, w[0])); }}
static ElementwiseTable functions[] = {
    TESSERA_UNARY("Exp", exp),     TESSERA_UNARY("Log", log),     TESSERA_UNARY("Sin", sin),
    TESSERA_UNARY("Cos", cos),     TESSERA_UNARY("Tan", tan),     TESSERA_UNARY("Asin", asin),
    TESSERA_UNARY("Acos", acos),   TESSERA_UNARY("Atan", atan),   TESSERA_UNARY("Sinh", sinh),
    TESSERA_UNARY("Cosh", cosh),   TESSERA_UNARY("Asinh", asinh), TESSERA_UNARY("Acosh", acosh),
    TESSERA_UNARY("Atanh", atanh), TESSERA_UNARY("Erf", erf),
};
#undef TESSERA_UNARY

// --- logic and bits -------------------------------------------------------------------

/// Counts at or beyond the width (negative ones too) push everything out.
static Expr bitShift(const Elementwise &w) {
  Expr x = w[0], n = w[1];
  int64_t width = x.width();
  Expr inside = ltU(n, width);
  Expr count = select(inside, n, 0);
  if (onnx::getString(w.op, "direction") == "LEFT")
    return select(inside, shl(x, count), 0);
  if (w.isUnsigned())
    return select(inside, shrU(x, count), 0);
  return shrS(x, select(inside, n, width - 1));
}

static ElementwiseTable logic[] = {
    {{"onnx.And"}, Bools, [](const Elementwise &w) { return w[0] & w[1]; }},
    {{"onnx.Or"}, Bools, [](const Elementwise &w) { return w[0] | w[1]; }},
    {{"onnx.Xor"}, Bools, [](const Elementwise &w) { return w[0] ^ w[1]; }},
    {{"onnx.Not"}, Bools, [](const Elementwise &w) { return ~w[0]; }},
    {{"onnx.BitwiseAnd"}, Integers, [](const Elementwise &w) { return w[0] & w[1]; }},
    {{"onnx.BitwiseOr"}, Integers, [](const Elementwise &w) { return w[0] | w[1]; }},
    {{"onnx.BitwiseXor"}, Integers, [](const Elementwise &w) { return w[0] ^ w[1]; }},
    {{"onnx.BitwiseNot"}, Integers, [](const Elementwise &w) { return ~w[0]; }},
};

static RegisterElementwise shift(
    {"onnx.BitShift"},
    [](Operation *op, Reasons &reasons) -> LogicalResult {
      LogicalResult types = matchTypes(op, Integers, reasons);
      StringRef direction = onnx::getString(op, "direction");
      if (direction != "LEFT" && direction != "RIGHT")
        return reasons.no() << "BitShift direction '" << direction.str() << "'";
      return types;
    },
    [](Operation *op, ArrayRef<Value> operands, KernelEmitter &e) -> FailureOr<Value> {
      return bitShift({op, operands, e}).v;
    });

// --- comparison and selection ----------------------------------------------------------

static Expr compare(const Elementwise &w, arith::CmpFPredicate f, arith::CmpIPredicate s, arith::CmpIPredicate u) {
  return detail::compare(f, w.isUnsigned() ? u : s, w[0], w[1]);
}

#define TESSERA_COMPARE(name, f, s, u)                                                             \
  {{"onnx." name}, Numbers | Bools, [](const Elementwise &w) {                                     \
     return compare(w, arith::CmpFPredicate::f, arith::CmpIPredicate::s, arith::CmpIPredicate::u); \
   }}
static ElementwiseTable comparisons[] = {
    TESSERA_COMPARE("Equal", OEQ, eq, eq),
    TESSERA_COMPARE("Greater", OGT, sgt, ugt),
    TESSERA_COMPARE("Less", OLT, slt, ult),
    TESSERA_COMPARE("GreaterOrEqual", OGE, sge, uge),
    TESSERA_COMPARE("LessOrEqual", OLE, sle, ule),
    {{"onnx.Where"}, Everything, [](const Elementwise &w) { return select(w[0], w[1], w[2]); }},
    {{"onnx.Identity"}, Everything, [](const Elementwise &w) { return w[0]; }},
};
#undef TESSERA_COMPARE

static RegisterElementwise isInf(
    {"onnx.IsInf"},
    [](Operation *op, Reasons &reasons) { return matchTypes(op, Floats | SmallFloats | Bools, reasons); },
    [](Operation *op, ArrayRef<Value> operands, KernelEmitter &e) -> FailureOr<Value> {
      Expr x(e, operands[0]);
      constexpr double inf = std::numeric_limits<double>::infinity();
      bool negative = onnx::getInt(op, "detect_negative", 1), positive = onnx::getInt(op, "detect_positive", 1);
      if (negative && positive)
        return (abs(x) == inf).v;
      if (!negative && !positive)
        return e.intConst(x.shaped(e.i1()), 0);
      return (x == (positive ? inf : -inf)).v;
    });

static ElementwiseTable isNanTable(
    {"onnx.IsNaN"}, Floats | SmallFloats | Bools, [](const Elementwise &w) { return isNan(w[0]); });

} // namespace tessera::cpu
