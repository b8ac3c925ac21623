// ConvInteger and MatMulInteger: sums of 32 bits that leave the region as they
// are, for readers that are not quantised. Both sides compute them exactly.
#include "targets/Tosa/Lower/Quantised.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

/// The constant zero point at `position`, 0 where there is none; else a reason.
std::optional<int64_t> zeroOf(Operation *op, Lowerer &l, unsigned position) {
  Value v = onnx::getOptionalOperand(op, position);
  if (!v)
    return 0;
  auto zero = l.constantOf(v);
  int64_t n = zero ? zero->size() : 0, first = n ? zero->integer(0) : 0;
  for (int64_t i = 1; i < n; ++i)
    if (zero->integer(i) != first)
      n = 0;
  if (n == 0) {
    l.no() << "input '" << onnx::getOperandName(op, position)
           << "' is not one constant zero point";
    return std::nullopt;
  }
  return first;
}

struct Zeros {
  int64_t x, w;
};

/// Of operands of 8 bits; and whether int32 holds sums of `steps` products.
std::optional<Zeros> readZeros(Operation *op, Lowerer &l, int64_t steps) {
  for (unsigned i : {0u, 1u})
    if (Type t = Lowerer::typeOf(op->getOperand(i)).getElementType();
        !t.isSignlessInteger(8)) {
      l.no() << "input '" << onnx::getOperandName(op, i) << "' is "
             << onnx::getTypeName(t) << ", int8 is served";
      return std::nullopt;
    }
  auto x = zeroOf(op, l, 2), w = zeroOf(op, l, 3);
  if (!x || !w ||
      failed(checkSum(l, steps * (128 + std::abs(*x)) * (128 + std::abs(*w)),
                      l.b.getI32Type())))
    return std::nullopt;
  return Zeros{*x, *w};
}

Value noBias(Lowerer &l, int64_t channels) {
  return l.constant(HostTensor(l.b.getI32Type(), {channels}));
}

LogicalResult lowerConvInteger(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), w = op->getOperand(1),
        result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(in);
  if (rank != 3 && rank != 4)
    return l.no() << "input has rank " << rank << ", 3 and 4 are served";
  if (!l.constantOf(w))
    return l.no() << "weight is not constant";
  auto zeros =
      readZeros(op, l, onnx::elementCount(Lowerer::shapeOf(w).drop_front()));
  if (!zeros)
    return failure();
  auto weight = [&](ArrayRef<int64_t> perm) { return l.get(w, perm); };
  auto y = buildConvolution(op, l, l.get(in, channelsLast(rank)), zeros->x,
                            weight, noBias(l, Lowerer::shapeOf(result)[1]),
                            l.b.getI32Type(), zeros->w);
  if (failed(y))
    return failure();
  l.set(result, *y, channelsLast(rank));
  return success();
}

/// x [..., k] times a constant [k, n] is a convolution of one position, which
/// devices do better than a product.
Value byConvolution(Operation *op, Lowerer &l, const Zeros &zeros) {
  Value in = op->getOperand(0), result = op->getResult(0);
  int64_t k = Lowerer::shapeOf(in).back(), n = Lowerer::shapeOf(result).back();
  int64_t rows = Lowerer::typeOf(in).getNumElements() / k;
  Type i8 = l.b.getI8Type(), i32 = l.b.getI32Type();
  Value weight = l.reshape(l.get(op->getOperand(1), {1, 0}), {n, 1, 1, k});
  Value y = l.op("conv2d",
                 {l.reshape(l.get(in), {1, 1, rows, k}), weight, noBias(l, n),
                  l.zeroPoint(i8, zeros.x), l.zeroPoint(i8, zeros.w)},
                 RankedTensorType::get({1, 1, rows, n}, i32),
                 {l.ints("pad", {0, 0, 0, 0}), l.ints("stride", {1, 1}),
                  l.ints("dilation", {1, 1}),
                  l.attr("acc_type", TypeAttr::get(i32))});
  return l.reshape(y, Lowerer::shapeOf(result));
}

LogicalResult lowerMatMulInteger(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), other = op->getOperand(1),
        result = op->getResult(0);
  if (Lowerer::rankOf(result) < 2 || Lowerer::rankOf(in) < 2 ||
      Lowerer::rankOf(other) < 2)
    return l.no() << "of a vector";
  auto zeros = readZeros(op, l, Lowerer::shapeOf(in).back());
  if (!zeros)
    return failure();
  bool linear = l.constantOf(other) && Lowerer::rankOf(other) == 2;
  l.set(result, linear ? byConvolution(op, l, *zeros)
                       : buildProduct(op, l, l.get(other), zeros->x, zeros->w));
  return success();
}

RegisterLowering conv({"ConvInteger"}, Domain::Integer, Elements::Any,
                      {"auto_pad", "dilations", "group", "kernel_shape", "pads",
                       "strides"},
                      lowerConvInteger);
RegisterLowering products({"MatMulInteger"}, Domain::Integer, Elements::Any, {},
                          lowerMatMulInteger);

} // namespace
} // namespace tessera::tosa
