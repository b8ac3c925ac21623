#include "targets/Cpu/Kernels/Combine.h"

using namespace mlir;

namespace tessera::cpu {

Value addI(KernelEmitter &e, Value a, Value b) {
  return arith::AddIOp::create(e.b, e.loc, a, b);
}

Value cmpI(KernelEmitter &e, arith::CmpIPredicate p, Value a, Value b) {
  return arith::CmpIOp::create(e.b, e.loc, p, a, b);
}

Value combine(KernelEmitter &e, Combine kind, Type element, Value a, Value b) {
  Type scalar = KernelEmitter::scalarType(a.getType());
  bool isFloat = isa<FloatType>(scalar), isBool = scalar.isInteger(1);
  bool isUnsigned = KernelEmitter::isUnsigned(element);
  switch (kind) {
  case Combine::Replace:
    return b;
  case Combine::Add:
    if (isFloat)
      return e.addF(a, b);
    if (isBool)
      return arith::OrIOp::create(e.b, e.loc, a, b);
    return addI(e, a, b);
  case Combine::Mul:
    if (isFloat)
      return e.mulF(a, b);
    if (isBool)
      return arith::AndIOp::create(e.b, e.loc, a, b);
    return arith::MulIOp::create(e.b, e.loc, a, b);
  case Combine::Max:
    if (isFloat)
      return e.maxF(a, b);
    if (isBool)
      return arith::OrIOp::create(e.b, e.loc, a, b);
    if (isUnsigned)
      return arith::MaxUIOp::create(e.b, e.loc, a, b);
    return arith::MaxSIOp::create(e.b, e.loc, a, b);
  case Combine::Min:
    if (isFloat)
      return e.minF(a, b);
    if (isBool)
      return arith::AndIOp::create(e.b, e.loc, a, b);
    if (isUnsigned)
      return arith::MinUIOp::create(e.b, e.loc, a, b);
    return arith::MinSIOp::create(e.b, e.loc, a, b);
  }
  return {};
}

Value identityOf(KernelEmitter &e, Combine kind, Type element) {
  Type value = KernelEmitter::valueType(element);
  if (isa<FloatType>(value)) {
    double infinity = std::numeric_limits<double>::infinity();
    switch (kind) {
    case Combine::Mul: return e.floatConst(value, 1);
    case Combine::Max: return e.floatConst(value, -infinity);
    case Combine::Min: return e.floatConst(value, infinity);
    default: return e.floatConst(value, 0);
    }
  }
  auto type = cast<IntegerType>(value);
  unsigned bits = cast<IntegerType>(element).getWidth();
  bool isUnsigned = KernelEmitter::isUnsigned(element) || bits == 1;
  switch (kind) {
  case Combine::Mul: return e.intConst(type, 1);
  case Combine::Max:
    return e.intConst(type, isUnsigned ? 0 : -(int64_t(1) << (bits - 1)));
  case Combine::Min:
    if (isUnsigned)
      return e.intConst(type, bits == 1 ? 1 : static_cast<int64_t>(~uint64_t(0) >> (64 - bits)));
    return e.intConst(type, static_cast<int64_t>((uint64_t(1) << (bits - 1)) - 1));
  default: return e.intConst(type, 0);
  }
}

Cell::Cell(KernelEmitter &e, Value initial) : e(e), type(initial.getType()), ptr(e.allocaBytes(64)) {
  set(initial);
}
Value Cell::get() {
  if (type.isInteger(1)) {
    Value byte = e.rawLoad(e.i8(), ptr);
    return cmpI(e, arith::CmpIPredicate::ne, byte, e.intConst(e.i8(), 0));
  }
  return e.rawLoad(type, ptr);
}
void Cell::set(Value v) {
  if (type.isInteger(1))
    v = arith::ExtUIOp::create(e.b, e.loc, e.i8(), v);
  e.rawStore(v, ptr);
}

Value isNonZero(KernelEmitter &e, Value v) {
  Type scalar = KernelEmitter::scalarType(v.getType());
  if (isa<FloatType>(scalar))
    return e.cmpF(arith::CmpFPredicate::UNE, v, e.floatConst(v.getType(), 0));
  if (scalar.isInteger(1))
    return v;
  return cmpI(e, arith::CmpIPredicate::ne, v, e.intConst(v.getType(), 0));
}

} // namespace tessera::cpu
