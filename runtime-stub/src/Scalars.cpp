// The integer program: sizes, dimensions, loop counters.
#include "runtime-stub/src/Instance.h"

namespace tsr {
namespace {

i64 add(i64 a, i64 b) {
  i64 r;
  return __builtin_add_overflow(a, b, &r) ? (a < 0 ? kMinI64 : kMaxI64) : r;
}
i64 sub(i64 a, i64 b) {
  i64 r;
  return __builtin_sub_overflow(a, b, &r) ? (a < 0 ? kMinI64 : kMaxI64) : r;
}
i64 mul(i64 a, i64 b) {
  i64 r;
  return __builtin_mul_overflow(a, b, &r)
             ? ((a < 0) != (b < 0) ? kMinI64 : kMaxI64)
             : r;
}
i64 truncDiv(i64 a, i64 b) { return a == kMinI64 && b == -1 ? kMaxI64 : a / b; }
i64 remainder(i64 a, i64 b) { return b == -1 ? 0 : a % b; }

i64 loadInt(const u8 *at, u32 elementType) {
  switch (elementType) {
  case 2:
  case 9:
    return load<u8>(at);
  case 3:
    return load<int8_t>(at);
  case 4:
    return load<u16>(at);
  case 5:
    return load<int16_t>(at);
  case 6:
    return load<i32>(at);
  case 12:
    return load<u32>(at);
  case 13: {
    u64 value = load<u64>(at);
    return value > u64(kMaxI64) ? kMaxI64 : i64(value);
  }
  default:
    return load<i64>(at);
  }
}

} // namespace

tsr_status_t runScalars(tsr_instance &instance, u32 begin, u32 end,
                        tsr_error_t *error) {
  i64 *r = instance.registers;
  const tsr_bundle &bundle = *instance.bundle;
  for (u32 i = begin; i < end; ++i) {
    const Scalar &s = bundle.scalars.at(i);
    i64 result = 0;
    switch (s.op) {
    case ScalarOp::Constant:
      result = s.imm;
      break;
    case ScalarOp::InputDim: {
      u32 axis = s.b;
      for (u32 k = 0; k < s.a; ++k)
        axis += bundle.inputs[k].vector<Dim>(field::kDims).count;
      result = instance.inputDims[axis];
      break;
    }
    case ScalarOp::Add:
      result = add(r[s.a], r[s.b]);
      break;
    case ScalarOp::Sub:
      result = sub(r[s.a], r[s.b]);
      break;
    case ScalarOp::Mul:
      result = mul(r[s.a], r[s.b]);
      break;
    case ScalarOp::FloorDiv:
    case ScalarOp::CeilDiv:
    case ScalarOp::TruncDiv:
    case ScalarOp::Mod: {
      i64 a = r[s.a], b = r[s.b];
      if (b == 0)
        return refuse(error, TSR_ERROR_VALUE,
                      "shape arithmetic, instruction %u|a division of %ld by "
                      "zero|a divisor that is not zero",
                      i, a);
      i64 quotient = truncDiv(a, b), rest = remainder(a, b);
      if (s.op == ScalarOp::TruncDiv)
        result = quotient;
      else if (s.op == ScalarOp::FloorDiv)
        result = rest && (rest < 0) != (b < 0) ? quotient - 1 : quotient;
      else if (s.op == ScalarOp::CeilDiv)
        result = rest && (rest < 0) == (b < 0) ? quotient + 1 : quotient;
      else
        result = rest && (rest < 0) != (b < 0) ? rest + b : rest;
      break;
    }
    case ScalarOp::Min:
      result = smaller(r[s.a], r[s.b]);
      break;
    case ScalarOp::Max:
      result = larger(r[s.a], r[s.b]);
      break;
    case ScalarOp::Equal:
      result = r[s.a] == r[s.b];
      break;
    case ScalarOp::Less:
      result = r[s.a] < r[s.b];
      break;
    case ScalarOp::Select:
      result = r[s.a] ? r[s.b] : r[s.c];
      break;
    case ScalarOp::LoadInt: {
      u8 *data = nullptr;
      u64 bytes = 0;
      u64 width = u64(elementBytes(i32(s.b), 1));
      if (!resolve(instance, s.a, data, bytes) ||
          !within(u64(s.imm) * width, width, bytes))
        return refuse(error, TSR_ERROR_VALUE,
                      "element %ld of buffer %u|%lu bytes|a buffer that has it",
                      s.imm, s.a, bytes);
      result = loadInt(data + u64(s.imm) * width, s.b);
      break;
    }
    case ScalarOp::kCount:
      break;
    }
    r[s.dst] = result;
  }
  return TSR_OK;
}

} // namespace tsr
