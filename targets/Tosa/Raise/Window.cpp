// Convolutions, pools and contractions. TOSA's images are channels last; the
// transposes that ONNX's forms ask for are views after layout assignment.
#include "targets/Tosa/Raise/Raiser.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

/// 16-bit integers as 256 * upper + lower, the lower ones without sign.
std::pair<Value, Value> halves(Raiser &r, Value x) {
  Builder &types = r.b.attrs();
  Type i32 = types.getI32Type();
  Value wide = r.b.cast(x, i32);
  Value lower = r.b.binary("Mod", wide, r.integer(i32, 256)); // of the divisor's sign
  Value upper = r.b.div(r.b.sub(wide, lower), r.integer(i32, 256));
  return {r.b.cast(upper, types.getI8Type()), r.b.cast(lower, types.getIntegerType(8, /*isSigned=*/false))};
}

SmallVector<int64_t> numbers(Operation *op, StringRef name) {
  return SmallVector<int64_t>(op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef());
}

/// [t, b, l, r] as ONNX's [t, l, b, r].
SmallVector<int64_t> onnxPads(ArrayRef<int64_t> pad) {
  SmallVector<int64_t> front, back;
  for (size_t i = 0; i < pad.size(); i += 2) {
    front.push_back(pad[i]);
    back.push_back(pad[i + 1]);
  }
  front.append(back);
  return front;
}

/// The weight in ONNX's order, [out, in per group, space...].
Value onnxWeight(Operation *op, Raiser &r) {
  Value w = op->getOperand(1);
  if (!isa<mlir::tosa::DepthwiseConv2DOp>(op))
    return r.get(w, channelsFirst(Raiser::rankOf(w)));
  ArrayRef<int64_t> s = Raiser::shapeOf(w); // [kh, kw, c, m]
  SmallVector<int64_t> dims{s[2] * s[3], 1, s[0], s[1]};
  if (auto t = r.constantOf(w)) {
    SmallVector<int64_t> from = onnx::rowMajorStrides(s);
    HostTensor u = t->strided({s[2], s[3], s[0], s[1]}, 0, {from[2], from[3], from[0], from[1]});
    return r.b.weight(u.reshaped(dims));
  }
  return r.b.reshape(r.get(w, {2, 3, 0, 1}), dims, Raiser::typeOf(w).clone(dims));
}

Value withBias(Value y, Value bias, Raiser &r, ArrayRef<int64_t> perm) {
  if (r.isZero(bias))
    return y;
  SmallVector<int64_t> dims(perm.size(), 1);
  dims[1] = Raiser::shapeOf(bias)[0];
  auto t = r.constantOf(bias);
  if (auto wide = r.wideConstantOf(bias)) {
    t = HostTensor(r.b.attrs().getI64Type(), {(int64_t)wide->size()});
    t->mutableData();
    for (auto [i, v] : llvm::enumerate(*wide))
      t->setInteger(i, v);
  }
  Value b = t ? r.b.weight(t->size() == dims[1] ? t->reshaped(dims) : *t)
              : r.b.reshape(r.get(bias), dims, Raiser::typeOf(bias).clone(dims));
  return r.b.add(y, b);
}

/// ConvInteger; of 16-bit integers one of the upper 8 bits and one of the lower,
/// which together are the 48-bit sum. Null if there is no such form.
Value integerConvolution(Raiser &r, Value x, Value w, int64_t zero, Type sum, ArrayRef<int64_t> dims,
                         ArrayRef<NamedAttribute> attrs, int64_t zeroWeight = 0) {
  Builder &types = r.b.attrs();
  Type element = Raiser::typeOf(x).getElementType(), i8 = types.getI8Type(), i32 = types.getI32Type();
  if (element == i8 && sum.isInteger(32))
    return r.b.op("ConvInteger", {x, w, r.integer(i8, zero), zeroWeight ? r.integer(i8, zeroWeight) : Value()},
                  RankedTensorType::get(dims, i32), attrs);
  if (!element.isInteger(16) || !sum.isInteger(48) || zero != 0 || zeroWeight != 0)
    return {};
  auto [upper, lower] = halves(r, x);
  auto half = [&](Value v) {
    Value y = r.b.op("ConvInteger", {v, w}, RankedTensorType::get(dims, i32), attrs);
    return r.b.cast(y, types.getI64Type());
  };
  return r.b.add(r.b.mul(half(upper), r.integer(types.getI64Type(), 256)), half(lower));
}

LogicalResult raiseConvolution(Operation *op, Raiser &r) {
  Value in = op->getOperand(0), bias = op->getOperand(2), result = op->getResult(0);
  int64_t rank = Raiser::rankOf(in), group = isa<mlir::tosa::DepthwiseConv2DOp>(op) ? Raiser::shapeOf(in).back() : 1;
  Perm perm = channelsFirst(rank);
  Value x = r.get(in, perm), w = onnxWeight(op, r);
  SmallVector<int64_t> kernel(Raiser::shapeOf(w).drop_front(2));
  NamedAttribute attrs[] = {r.b.i("group", group), r.b.is("kernel_shape", kernel),
                            r.b.is("pads", onnxPads(numbers(op, "pad"))), r.b.is("strides", numbers(op, "stride")),
                            r.b.is("dilations", numbers(op, "dilation"))};
  RankedTensorType type = r.typeIn(result, perm);
  if (isa<FloatType>(Raiser::typeOf(x).getElementType())) {
    if (!r.isZero(op->getOperand(3)) || !r.isZero(op->getOperand(4)))
      return failure();
    Value b = r.isZero(bias) ? Value() : r.get(bias);
    r.set(result, r.b.op("Conv", {x, w, b}, type, attrs), perm);
    return success();
  }
  auto zeroX = r.scalarOf(op->getOperand(3)), zeroW = r.scalarOf(op->getOperand(4));
  if (!zeroX || !zeroW || rank != 4)
    return failure();
  Value y = integerConvolution(r, x, w, (int64_t)*zeroX, Raiser::typeOf(result).getElementType(), type.getShape(), attrs,
                               (int64_t)*zeroW);
  if (!y)
    return failure();
  r.set(result, withBias(y, bias, r, perm), perm);
  return success();
}

/// The image with stride - 1 integers that mean 0 behind each position, but for the last.
Value zeroInserted(Raiser &r, Value x, ArrayRef<int64_t> stride, int64_t zero) {
  RankedTensorType type = Raiser::typeOf(x);
  ArrayRef<int64_t> s = type.getShape();
  int64_t h = (s[2] - 1) * stride[0] + 1, w = (s[3] - 1) * stride[1] + 1;
  SmallVector<int64_t> apart{s[0], s[1], s[2], 1, s[3], 1}, filled{s[0], s[1], s[2], stride[0], s[3], stride[1]};
  SmallVector<int64_t> whole{s[0], s[1], s[2] * stride[0], s[3] * stride[1]};
  x = r.b.reshape(x, apart, type.clone(apart));
  x = r.b.op("Pad", {x, r.b.ints({0, 0, 0, 0, 0, 0, 0, 0, 0, stride[0] - 1, 0, stride[1] - 1}),
                     r.integer(type.getElementType(), zero)},
             type.clone(filled), {r.b.s("mode", "constant")});
  x = r.b.reshape(x, whole, type.clone(whole));
  return r.b.op("Slice", {x, r.b.ints({0, 0}), r.b.ints({h, w}), r.b.ints({2, 3})}, type.clone({s[0], s[1], h, w}));
}

/// As a convolution of what zeros are inserted in, with the weight turned around:
/// ONNX has no transposed convolution of integers.
LogicalResult raiseIntegerTransposeConv(Operation *op, Raiser &r) {
  Value in = op->getOperand(0), result = op->getResult(0);
  auto zeroX = r.scalarOf(op->getOperand(3)), zeroW = r.scalarOf(op->getOperand(4));
  auto w = r.constantOf(op->getOperand(1));
  if (!zeroX || !zeroW || *zeroW != 0 || !w)
    return failure();
  SmallVector<int64_t> pad = numbers(op, "out_pad"), stride = numbers(op, "stride");
  ArrayRef<int64_t> s = w->shape(); // [out, kh, kw, in]
  SmallVector<int64_t> pads(4), dims{s[0], s[3], s[1], s[2]}, from = onnx::rowMajorStrides(s);
  for (int i = 0; i < 2; ++i) {
    pads[i] = s[1 + i] - 1 + pad[2 * i];
    pads[2 + i] = s[1 + i] - 1 + pad[2 * i + 1];
    if (pads[i] < 0 || pads[2 + i] < 0)
      return failure();
  }
  HostTensor turned(w->element(), dims), plain = w->strided(dims, 0, {from[0], from[3], from[1], from[2]});
  turned.mutableData();
  for (int64_t i = 0, space = s[1] * s[2]; i < plain.size(); ++i)
    turned.setInteger(i / space * space + (space - 1 - i % space), plain.integer(i));
  Perm perm = channelsFirst(4);
  Value x = zeroInserted(r, r.get(in, perm), stride, (int64_t)*zeroX);
  NamedAttribute attrs[] = {r.b.i("group", 1), r.b.is("kernel_shape", {s[1], s[2]}), r.b.is("pads", pads),
                            r.b.is("strides", {1, 1}), r.b.is("dilations", {1, 1})};
  Value y = integerConvolution(r, x, r.b.weight(turned), (int64_t)*zeroX, Raiser::typeOf(result).getElementType(),
                               r.typeIn(result, perm).getShape(), attrs);
  if (!y)
    return failure();
  r.set(result, withBias(y, op->getOperand(2), r, perm), perm);
  return success();
}

/// TOSA's padding of the result: negative cuts, positive adds.
LogicalResult raiseTransposeConv(Operation *op, Raiser &r) {
  Value in = op->getOperand(0), bias = op->getOperand(2), result = op->getResult(0);
  if (!isa<FloatType>(Raiser::typeOf(in).getElementType()))
    return raiseIntegerTransposeConv(op, r);
  SmallVector<int64_t> pad = numbers(op, "out_pad"), stride = numbers(op, "stride"), pads(4), extra(2);
  for (int i = 0; i < 2; ++i) {
    int64_t before = pad[2 * i], after = pad[2 * i + 1];
    if (before > 0 || after >= stride[i])
      return failure(); // ONNX's output_padding is less than the stride
    pads[i] = -before;
    pads[2 + i] = after < 0 ? -after : 0;
    extra[i] = after > 0 ? after : 0;
  }
  Perm perm = channelsFirst(4);
  Value w = r.get(op->getOperand(1), {3, 0, 1, 2});
  Value y = r.b.op("ConvTranspose", {r.get(in, perm), w, r.isZero(bias) ? Value() : r.get(bias)},
                   r.typeIn(result, perm),
                   {r.b.is("kernel_shape", Raiser::shapeOf(w).drop_front(2)), r.b.is("pads", pads),
                    r.b.is("strides", stride), r.b.is("output_padding", extra)});
  r.set(result, y, perm);
  return success();
}

LogicalResult raisePool(Operation *op, Raiser &r) {
  Value in = op->getOperand(0), result = op->getResult(0);
  bool average = isa<mlir::tosa::AvgPool2dOp>(op);
  if (average && (!isa<FloatType>(Raiser::typeOf(in).getElementType()) || !r.isZero(op->getOperand(1)) ||
                  !r.isZero(op->getOperand(2))))
    return failure();
  if (auto a = op->getAttrOfType<mlir::tosa::NanPropagationModeAttr>("nan_mode"))
    if (a.getValue() != mlir::tosa::NanPropagationMode::PROPAGATE)
      return failure();
  Perm perm = channelsFirst(4);
  Value x = r.get(in, perm);
  SmallVector<int64_t> kernel = numbers(op, "kernel"), pad = numbers(op, "pad");
  RankedTensorType type = r.typeIn(result, perm);
  bool wide = Raiser::typeOf(x).getElementType().isInteger(16);
  if (wide) { // ONNX has no such pool; float32 has all of these integers
    x = r.b.cast(x, r.b.attrs().getF32Type());
    type = type.clone(r.b.attrs().getF32Type());
  }
  bool whole = kernel == SmallVector<int64_t>(Raiser::shapeOf(in).slice(1, 2)) &&
               llvm::all_of(pad, [](int64_t p) { return p == 0; }) &&
               isa<FloatType>(Raiser::typeOf(x).getElementType());
  Value y = whole ? r.b.op(average ? "GlobalAveragePool" : "GlobalMaxPool", {x}, type)
                  : r.b.op(average ? "AveragePool" : "MaxPool", {x}, type,
                           {r.b.is("kernel_shape", kernel), r.b.is("pads", onnxPads(pad)),
                            r.b.is("strides", numbers(op, "stride"))});
  r.set(result, wide ? r.b.cast(y, Raiser::typeOf(result).getElementType()) : y, perm);
  return success();
}

/// A single second matrix serves all rows, so that a constant one is packed.
Value product(Raiser &r, StringRef name, Value x, Value y, ArrayRef<Value> zeros, Type element) {
  ArrayRef<int64_t> p = Raiser::shapeOf(x), q = Raiser::shapeOf(y);
  SmallVector<Value> operands{x, y};
  operands.append(zeros.begin(), zeros.end());
  return r.b.op(name, operands, RankedTensorType::get({p[0], p[1], q[2]}, element));
}

Value flat(Raiser &r, Value x) {
  ArrayRef<int64_t> s = Raiser::shapeOf(x);
  return r.b.reshape(x, {s[1], s[2]}, Raiser::typeOf(x).clone({s[1], s[2]}));
}

/// Four products of halves make the 48-bit sums.
LogicalResult raiseWideMatMul(Operation *op, Raiser &r) {
  if (!r.isZero(op->getOperand(2)) || !r.isZero(op->getOperand(3)))
    return failure();
  Builder &types = r.b.attrs();
  Type i64 = types.getI64Type();
  auto [xu, xl] = halves(r, r.get(op->getOperand(0)));
  auto [yu, yl] = halves(r, r.get(op->getOperand(1)));
  auto part = [&](Value x, Value y) { return r.b.cast(product(r, "MatMulInteger", x, y, {}, types.getI32Type()), i64); };
  Value middle = r.b.add(part(xu, yl), part(xl, yu));
  Value z = r.b.add(r.b.mul(part(xu, yu), r.integer(i64, 65536)), r.b.mul(middle, r.integer(i64, 256)));
  r.set(op->getResult(0), r.b.add(z, part(xl, yl)));
  return success();
}

LogicalResult raiseMatMul(Operation *op, Raiser &r) {
  Value result = op->getResult(0), x = r.get(op->getOperand(0)), y;
  Type in = Raiser::typeOf(x).getElementType(), out = Raiser::typeOf(result).getElementType();
  if (in.isInteger(16))
    return raiseWideMatMul(op, r);
  auto constant = r.constantOf(op->getOperand(1));
  bool single = Raiser::shapeOf(x)[0] == 1;
  if (constant && single)
    y = r.b.weight(constant->reshaped({constant->shape()[1], constant->shape()[2]}));
  else
    y = r.get(op->getOperand(1));
  // float16 in and out, float32 between: what a MatMul of float16 does here.
  Operation *store = in.isF16() && result.hasOneUse() ? *result.user_begin() : nullptr;
  bool fused = store && isa<mlir::tosa::CastOp>(store) && Raiser::typeOf(store->getResult(0)).getElementType() == in;
  SmallVector<Value> zeros;
  StringRef name = "MatMul";
  if (in.isInteger(8)) {
    name = "MatMulInteger";
    for (unsigned i : {2u, 3u}) {
      auto zero = r.scalarOf(op->getOperand(i));
      if (!zero)
        return failure();
      zeros.push_back(r.integer(in, (int64_t)*zero));
    }
  } else if (!isa<FloatType>(in) || !r.isZero(op->getOperand(2)) || !r.isZero(op->getOperand(3))) {
    return failure();
  } else if (!fused && in != out) {
    x = r.b.cast(x, out);
    y = r.b.cast(y, out);
  }
  Type element = fused ? in : out;
  RankedTensorType type = Raiser::typeOf(result).clone(element);
  Value z;
  if (constant && single) {
    SmallVector<Value> operands{flat(r, x), y};
    operands.append(zeros);
    auto dims = type.getShape();
    z = r.b.op(name, operands, type.clone(dims.drop_front()));
    z = r.b.reshape(z, dims, type);
  } else {
    z = product(r, name, x, y, zeros, element);
  }
  r.set(result, z); // the cast that stores it finds its own type
  return success();
}

RegisterRaise convolutions({"conv2d", "conv3d", "depthwise_conv2d"}, raiseConvolution);
RegisterRaise transposeConv({"transpose_conv2d"}, raiseTransposeConv);
RegisterRaise pools({"avg_pool2d", "max_pool2d"}, raisePool);
RegisterRaise matMul({"matmul"}, raiseMatMul);

} // namespace
} // namespace tessera::tosa
