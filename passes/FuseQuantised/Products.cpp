// Products of quantised operands by exact integer sums.
//
//   BEFORE  y = Conv(DQ(x, xs, xz), DQ(w, ws, wz), bias)               float32
//   AFTER   c = ConvInteger(x, w, xz, wz)                              int32
//           y = Cast(Cast(c) * (xs * ws) + bias)                       double,
//           then float32
//
// Whatever the integers are summed in must hold every sum: int32 where the
// kernels multiply 8-bit numbers, else float32 or double, in which integers up
// to 2^24 and 2^53 are exact in any order. Scales that change along the sum
// cannot be taken out of it: then the real numbers themselves are multiplied,
// in double.
#include "passes/FuseQuantised/Rules.h"

#include <cmath>

using namespace mlir;
using tessera::onnx::OnnxBuilder;

namespace tessera {

namespace {

enum class Kind { Conv, ConvTranspose, MatMul, Gemm };

std::optional<Kind> kindOf(Operation *op) {
  return llvm::StringSwitch<std::optional<Kind>>(op->getName().getStringRef())
      .Case("onnx.Conv", Kind::Conv)
      .Case("onnx.ConvTranspose", Kind::ConvTranspose)
      .Case("onnx.MatMul", Kind::MatMul)
      .Case("onnx.Gemm", Kind::Gemm)
      .Default(std::nullopt);
}

/// Greatest value of |integers - zero|.
double greatest(const Quantised &q) {
  auto type = cast<IntegerType>(q.type().getElementType());
  double range = std::ldexp(1.0, type.getWidth()),
         low = type.isUnsigned() ? 0 : -range / 2, high = low + range - 1;
  if (!q.zero)
    return std::max(-low, high);
  auto zero = onnx::constantOf(q.zero);
  double most = 0;
  for (int64_t i = 0; i < (zero ? zero->size() : 0); ++i)
    most = std::max({most, double(zero->integer(i)) - low,
                     high - double(zero->integer(i))});
  return zero ? most : range - 1;
}

class Product {
public:
  Product(Operation *op, Kind kind, IRRewriter &r)
      : op(op), kind(kind), b(r, op->getLoc()),
        type(onnx::rankedType(op->getResult(0))) {}

  /// float32, or null. `wanted`: null unless it is computed by a ConvInteger or
  /// MatMulInteger that is.
  Value build(SumsWanted wanted = {});

private:
  bool scalesFactor() const;
  std::optional<double> steps() const;
  std::optional<double> bound() const;
  void orientGemm();
  Quantised transposed(Quantised q);
  Value real(const Quantised &q, StringRef transpose);
  Value scaled(Value sums);
  Value withBias(Value y);
  Value integerSums();
  Value floatSums(Value x, Value w);
  Value served(Value v) { return isServed(v.getDefiningOp()) ? v : Value(); }
  StringRef floatName() const {
    return kind == Kind::Conv            ? "Conv"
           : kind == Kind::ConvTranspose ? "ConvTranspose"
                                         : "MatMul";
  }
  SmallVector<NamedAttribute> attributes() const {
    return kind == Kind::Gemm ? SmallVector<NamedAttribute>()
                              : schemaAttributes(op);
  }

  Operation *op;
  Kind kind;
  OnnxBuilder b;
  RankedTensorType type;
  Quantised x, w;
};

/// But for blocks, whose scales have two axes.
Quantised Product::transposed(Quantised q) {
  if (q.block)
    return q;
  if (auto t = onnx::constantOf(q.integers)) {
    int64_t rows = t->shape()[0], columns = t->shape()[1];
    q.integers = b.weight(t->strided({columns, rows}, 0, {1, columns}));
  } else {
    q.integers = b.transpose(q.integers, {1, 0});
  }
  if (q.axis >= 0)
    q.axis = 1 - q.axis;
  return q;
}

/// Operands as MatMul has them.
void Product::orientGemm() {
  if (kind != Kind::Gemm)
    return;
  if (onnx::getInt(op, "transA", 0))
    x = transposed(x);
  if (onnx::getInt(op, "transB", 0))
    w = transposed(w);
}

/// An operand that is oriented already, but for blocks; null as realOf is.
Value Product::real(const Quantised &q, StringRef transpose) {
  Value v = realOf(b, q);
  bool turn = kind == Kind::Gemm && q.block && onnx::getInt(op, transpose, 0);
  return v && turn ? b.transpose(v, {1, 0}) : v;
}

/// Whether scales and zero points are the same all along each sum.
bool Product::scalesFactor() const {
  if (x.block || w.block)
    return false;
  switch (kind) {
  case Kind::Conv:
    return x.axis < 0 && w.axis <= 0;
  case Kind::ConvTranspose:
    return x.axis < 0 &&
           (w.axis < 0 || (w.axis == 1 && onnx::getInt(op, "group", 1) == 1));
  case Kind::MatMul:
  case Kind::Gemm:
    return (x.axis < 0 || x.axis == x.type().getRank() - 2) &&
           (w.axis < 0 ||
            (w.type().getRank() >= 2 && w.axis == w.type().getRank() - 1));
  }
  llvm_unreachable("every product has a kind");
}

/// Terms of a sum.
std::optional<double> Product::steps() const {
  if (kind == Kind::MatMul || kind == Kind::Gemm) {
    int64_t k = x.type().getShape().back(),
            other = w.type().getDimSize(
                std::max<int64_t>(w.type().getRank() - 2, 0));
    if (k < 0 && other < 0)
      return std::nullopt;
    return std::max(k, other);
  }
  if (!w.type().hasStaticShape())
    return std::nullopt;
  double all = w.type().getNumElements();
  int64_t outputs = kind == Kind::Conv
                        ? w.type().getDimSize(0)
                        : w.type().getDimSize(1) * onnx::getInt(op, "group", 1);
  return outputs ? all / outputs : 0;
}

/// What no sum of integers exceeds.
std::optional<double> Product::bound() const {
  auto n = steps();
  if (!n)
    return std::nullopt;
  return *n * greatest(x) * greatest(w);
}

Value Product::integerSums() {
  auto narrow = [&](Quantised &q) { // 4 bits and less: kernels read bytes
    auto element = cast<IntegerType>(q.type().getElementType());
    if (element.getWidth() >= 8)
      return;
    Type byte =
        IntegerType::get(b.attrs().getContext(), 8, element.getSignedness());
    q.integers = b.cast(q.integers, byte);
    if (q.zero)
      q.zero = b.cast(q.zero, byte);
  };
  narrow(x);
  narrow(w);
  if (x.bits() != 8 || w.bits() != 8)
    return {};
  auto zero = [&](const Quantised &q) {
    if (!q.zero || onnx::uniformConstant(q.zero) == 0.0)
      return Value();
    return q.axis < 0 ? alongAxis(b, q.zero, -1, 0) : q.zero;
  };
  StringRef name = kind == Kind::Conv ? "ConvInteger" : "MatMulInteger";
  Value y = b.op(name, {x.integers, w.integers, zero(x), zero(w)},
                 type.clone(b.attrs().getI32Type()), attributes());
  return served(y);
}

/// The product of float tensors of one type, without bias.
Value Product::floatSums(Value x, Value w) {
  SmallVector<Value> operands{x, w};
  if (kind != Kind::MatMul && kind != Kind::Gemm)
    operands.push_back({});
  return served(b.op(floatName(), operands, type.clone(onnx::elementType(x)),
                     attributes()));
}

/// Sums of integers times the scales, in double.
Value Product::scaled(Value sums) {
  Type f64 = b.attrs().getF64Type();
  int64_t rank = type.getRank();
  auto scale = [&](const Quantised &q, int64_t axis) { // `axis` of the result
    Value s = b.cast(q.scale, f64);
    return alongAxis(b, s, q.axis < 0 ? -1 : axis, rank);
  };
  bool channels = kind == Kind::Conv || kind == Kind::ConvTranspose;
  Value factor = b.mul(scale(x, rank - (w.type().getRank() == 1 ? 1 : 2)),
                       scale(w, channels ? 1 : rank - 1));
  if (double alpha = kind == Kind::Gemm ? onnx::getFloat(op, "alpha", 1) : 1;
      alpha != 1)
    factor = b.mul(factor, b.scalar(f64, alpha));
  Value wide = b.cast(sums, f64);
  return b.op("Mul", {wide, factor}, wide.getType());
}

Value Product::withBias(Value y) {
  Value bias = kind == Kind::MatMul ? Value() : onnx::operand(op, 2);
  if (!bias)
    return y;
  Type f64 = b.attrs().getF64Type();
  auto q = readQuantised(b, bias);
  Value real = q ? realOf(b, *q) : Value();
  if (!real)
    real = b.cast(bias, f64);
  if (kind != Kind::Gemm)
    real = alongAxis(b, real, 1, type.getRank());
  else if (double beta = onnx::getFloat(op, "beta", 1); beta != 1)
    real = b.mul(real, b.scalar(f64, beta));
  return b.op("Add", {y, real}, y.getType());
}

Value Product::build(SumsWanted wanted) {
  auto left = readQuantised(b, onnx::operand(op, 0)),
       right = readQuantised(b, onnx::operand(op, 1));
  if (!left || !right || !type || !type.getElementType().isF32() ||
      left->bits() > 16 || right->bits() > 16)
    return {};
  x = *left, w = *right;
  if (kind != Kind::Gemm && kind != Kind::MatMul && w.type().getRank() < 3)
    return {};
  if (kind == Kind::MatMul &&
      (x.type().getRank() == 0 || w.type().getRank() == 0))
    return {};
  orientGemm();
  Type f32 = b.attrs().getF32Type(), f64 = b.attrs().getF64Type();
  Value y;
  if (scalesFactor()) {
    auto most = bound();
    auto floats = [&](Type t) {
      return floatSums(differencesOf(b, x, t), differencesOf(b, w, t));
    };
    // The kernels that multiply bytes fast need constant weights.
    bool pairs = static_cast<bool>(onnx::getConstant(w.integers));
    bool small = most && *most <= std::ldexp(1.0, 24);
    Value sums;
    if (kind != Kind::ConvTranspose && most && *most < std::ldexp(1.0, 31) &&
        (wanted || pairs || !small))
      sums = integerSums();
    if (sums && wanted && !wanted(sums.getDefiningOp()))
      return {};
    if (!sums && small && !wanted)
      sums = floats(f32);
    if (!sums && !wanted)
      sums = floats(f64);
    if (sums)
      y = scaled(sums);
  } else if (!wanted) {
    Value a = real(x, "transA"), c = real(w, "transB");
    if (!a || !c)
      return {};
    y = floatSums(a, c);
    if (double alpha = kind == Kind::Gemm ? onnx::getFloat(op, "alpha", 1) : 1;
        y && alpha != 1)
      y = b.mul(y, b.scalar(f64, alpha));
  }
  return y ? b.cast(withBias(y), f32) : Value();
}

} // namespace

static bool replaceProduct(Operation *op, IRRewriter &r, SumsWanted wanted) {
  auto kind = kindOf(op);
  if (!kind)
    return false;
  Operation *before = op->getPrevNode();
  Value y = Product(op, *kind, r).build(wanted);
  Block *block = op->getBlock();
  if (y)
    r.replaceOp(op, y);
  Operation *first = before ? before->getNextNode() : &block->front();
  dropUnused(first, y ? y.getDefiningOp() : op);
  return static_cast<bool>(y);
}

bool fuseProduct(Operation *op, IRRewriter &r) {
  return replaceProduct(op, r, {});
}

bool exposeSums(Operation *op, IRRewriter &r, SumsWanted wanted) {
  return replaceProduct(op, r, wanted);
}

} // namespace tessera
