// Cast, BitCast and the quantisers. The conversions themselves are Convert.cpp's.
#include "targets/Cpu/ElementwiseSupport.h"
#include "onnx/onnx_pb.h"

#include <limits>

using namespace mlir;

namespace tessera::cpu {

// --- casts ------------------------------------------------------------------------

static std::optional<E8M0Round> e8m0Mode(Operation *op) {
  return llvm::StringSwitch<std::optional<E8M0Round>>(onnx::getString(op, "round_mode", "up"))
      .Case("up", E8M0Round::Up)
      .Case("down", E8M0Round::Down)
      .Case("nearest", E8M0Round::Nearest)
      .Default(std::nullopt);
}

static RegisterElementwise castOp(
    {"onnx.Cast"},
    [](Operation *op, Reasons &reasons) -> LogicalResult {
      LogicalResult ok = matchTypes(op, Everything, reasons);
      if (isa<Float8E8M0FNUType>(resultElement(op)) && !e8m0Mode(op))
        ok = reasons.no() << "Cast round_mode '" << onnx::getString(op, "round_mode").str() << "'";
      return ok;
    },
    [](Operation *op, ArrayRef<Value> operands, KernelEmitter &e) -> FailureOr<Value> {
      Type from = operandElement(op, 0), to = resultElement(op);
      bool saturate = onnx::getInt(op, "saturate", 1);
      if (!isa<Float8E8M0FNUType>(to))
        return e.cast(operands[0], from, to, saturate);
      Value v = e.cast(operands[0], from, e.f32());
      return roundE8M0(e, v, *e8m0Mode(op), saturate);
    });

static RegisterElementwise bitCast(
    {"onnx.BitCast"},
    [](Operation *op, Reasons &reasons) -> LogicalResult {
      LogicalResult ok = matchTypes(op, Everything, reasons);
      unsigned from = KernelEmitter::storageBits(operandElement(op, 0));
      unsigned to = KernelEmitter::storageBits(resultElement(op));
      if (from != to)
        return reasons.no() << "BitCast from " << from << " to " << to << " bits";
      return ok;
    },
    [](Operation *op, ArrayRef<Value> operands, KernelEmitter &e) -> FailureOr<Value> {
      Type from = operandElement(op, 0), to = resultElement(op);
      Expr raw(e, narrowStorage(e, operands[0], from));
      if (raw.isFloat())
        raw = bitsOf(raw);
      if (unsigned bits = KernelEmitter::storageBits(from); bits < 8)
        raw = raw & ((1 << bits) - 1);
      if (to.isF32() || to.isF64())
        return floatOf(raw).v;
      return widenStorage(e, raw, to);
    });

// --- quantisers ---------------------------------------------------------------------

/// Type the division is done in: the attribute, else what numpy promotes data
/// and scale to (integers follow the scale).
static Type precisionOf(Operation *op) {
  MLIRContext *ctx = op->getContext();
  switch (onnx::getInt(op, "precision", 0)) {
  case ::onnx::TensorProto_DataType_FLOAT:
    return Float32Type::get(ctx);
  case ::onnx::TensorProto_DataType_FLOAT16:
    return Float16Type::get(ctx);
  case ::onnx::TensorProto_DataType_BFLOAT16:
    return BFloat16Type::get(ctx);
  case 0: {
    Type x = operandElement(op, 0), scale = operandElement(op, 1);
    if (x == scale || isa<IntegerType>(x))
      return typeSetOf(scale) == Floats ? scale : Type(Float32Type::get(ctx));
    return Float32Type::get(ctx);
  }
  default:
    return {};
  }
}

static LogicalResult matchQuantizer(Operation *op, Reasons &reasons) {
  LogicalResult ok = matchTypes(op, Everything, reasons);
  auto x = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  auto scale = dyn_cast<RankedTensorType>(op->getOperand(1).getType());
  if (!x || !scale)
    return reasons.no() << "operand without rank";
  if (operandElement(op, 0).isF64() || operandElement(op, 1).isF64() || resultElement(op).isF64())
    ok = reasons.no() << "quantisation in double";
  int64_t block = onnx::getInt(op, "block_size", 0);
  if (block < 0)
    ok = reasons.no() << "block_size " << block;
  if (block > 0 && scale.getRank() != x.getRank())
    ok = reasons.no() << "scale of rank " << scale.getRank() << " for blocks of a tensor of rank " << x.getRank();
  bool one = scale.getRank() == 0 || (scale.hasStaticShape() && scale.getNumElements() == 1);
  if (block == 0 && !one && scale.getRank() != 1)
    ok = reasons.no() << "scale of rank " << scale.getRank() << " without block_size";
  if (Value zero = onnx::getOptionalOperand(op, 2)) {
    auto type = cast<ShapedType>(zero.getType());
    bool both = one && type.hasStaticShape() && type.getNumElements() == 1; // [] and [1] are alike
    if (!both && type.getShape() != scale.getShape())
      ok = reasons.no() << "scale and zero point of different shapes";
  }
  return ok;
}

/// Least and greatest value of an integer type.
static std::pair<double, double> rangeOf(Type t) {
  unsigned bits = t.getIntOrFloatBitWidth();
  if (t.isUnsignedInteger())
    return {0, std::ldexp(1.0, bits) - 1};
  return {-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1};
}

/// saturate(round_half_even(x / scale) + zero_point); NaN gives the zero point.
static FailureOr<Value> quantize(Operation *op, ArrayRef<Value> operands, KernelEmitter &e) {
  Elementwise w{op, operands, e};
  Type to = w.result(), precision = precisionOf(op);
  auto convert = [&](unsigned i) {
    Value v = operands[i];
    Type from = w.element(i);
    if (isa<IntegerType>(from))
      v = e.cast(v, from, precision);
    return Expr(e, e.round(v, precision));
  };
  Expr y(e, e.round(convert(0) / convert(1), precision));
  if (auto i = dyn_cast<IntegerType>(to)) {
    auto [low, high] = rangeOf(to);
    Expr r = roundEven(y);
    Expr zero = r.k(0);
    if (w.has(2))
      zero = fromInt(w[2], e.f32(), w.isUnsigned(2));
    r = select(isNan(r), zero, r + zero);
    r = maxSecond(r.k(low), minSecond(r.k(high), r));
    Expr q(e, arith::FPToSIOp::create(e.b, e.loc, r.shaped(e.i32()), r.v));
    return intType(q, std::max(8u, i.getWidth()), false).v;
  }
  if (w.has(2))
    y = y + w[2];
  return e.cast(y, e.f32(), to, onnx::getInt(op, "saturate", 1));
}

static FailureOr<Value> dequantize(Operation *op, ArrayRef<Value> operands, KernelEmitter &e) {
  Elementwise w{op, operands, e};
  Type from = w.element(0);
  Expr x = w[0];
  if (isa<IntegerType>(from)) {
    bool isUnsigned = w.isUnsigned(0);
    // Differences of up to 16 bits fit i32 and convert exactly.
    if (x.width() < 32 && w.has(2))
      x = fromInt(intType(x, 32, isUnsigned) - intType(w[2], 32, isUnsigned), e.f32(), false);
    else {
      x = fromInt(x, e.f32(), isUnsigned);
      if (w.has(2))
        x = x - fromInt(w[2], e.f32(), isUnsigned);
    }
  } else if (w.has(2)) {
    x = x - w[2];
  }
  return e.round(x * w[1], w.result());
}

static RegisterElementwise quantizer(
    {"onnx.QuantizeLinear"},
    [](Operation *op, Reasons &reasons) -> LogicalResult {
      LogicalResult ok = matchQuantizer(op, reasons);
      if (!precisionOf(op))
        ok = reasons.no() << "QuantizeLinear precision " << onnx::getInt(op, "precision", 0);
      unsigned bits = resultElement(op).getIntOrFloatBitWidth();
      if (bits > 16 || !(typeSetOf(resultElement(op)) & (Integers | SmallInts | SmallFloats)))
        ok = reasons.no() << "QuantizeLinear to " << onnx::getTypeName(resultElement(op));
      return ok;
    },
    quantize);

static RegisterElementwise dequantizer({"onnx.DequantizeLinear"}, matchQuantizer, dequantize);

} // namespace tessera::cpu
