// Operators on 8-bit integers with scales and zero points. onnxruntime rounds
// once, from its own integer sums; these dequantise, compute, and quantise, or
// multiply integers exactly where the schema says so.
#include "compiler/Import/Contrib.h"

namespace tessera::onnx_import {

namespace {

Val real(Recipe &r, const Val &x, const Val &scale, const Val &zero) {
  return r.op("DequantizeLinear", {x, scale, zero});
}
Val real(Recipe &r, int i) {
  return real(r, r.in(i), r.need(i + 1), r.in(i + 2));
}

/// Back to the type of input `like`, which the zero point may not be there to
/// tell.
Val quantised(Recipe &r, const Val &x, int scale, int zero, int like) {
  r.need(scale);
  std::vector<AttributeProto> attributes;
  if (!r.has(zero))
    attributes.push_back(I("output_dtype", r.elementType(like)));
  return r.op("QuantizeLinear", {x, r.in(scale), r.in(zero)}, attributes);
}

void quantizeLinear(Recipe &r) {
  r.out(0, r.op("QuantizeLinear", {r.in(0), r.need(1), r.in(2)},
                {I("axis", r.integer("axis", 1))}));
}
void dequantizeLinear(Recipe &r) {
  r.out(0, r.op("DequantizeLinear", {r.in(0), r.need(1), r.in(2)},
                {I("axis", r.integer("axis", 1))}));
}

void binary(Recipe &r, const char *op) {
  r.out(0, quantised(r, r.op(op, {real(r, 0), real(r, 3)}), 6, 7, 0));
}
void qlinearAdd(Recipe &r) { binary(r, "Add"); }
void qlinearMul(Recipe &r) { binary(r, "Mul"); }

void qlinearSigmoid(Recipe &r) {
  r.out(0, quantised(r, r.op("Sigmoid", {real(r, 0)}), 3, 4, 0));
}
void qlinearLeakyRelu(Recipe &r) {
  r.out(0, quantised(r,
                     r.op("LeakyRelu", {real(r, 0)},
                          {F("alpha", r.number("alpha", 0.01f))}),
                     3, 4, 0));
}
// Up to operator set 12 over the axis and all after it, then over the axis.
void qlinearSoftmax(Recipe &r) {
  int64_t axis = r.integer("axis", -1);
  Val x = real(r, 0), y;
  if (r.integer("opset", 0) >= 13) {
    y = r.op("Softmax", {x}, {I("axis", axis)});
  } else {
    Val flat = r.op("Softmax", {r.op("Flatten", {x}, {I("axis", axis)})},
                    {I("axis", -1)});
    y = r.reshapeTo(flat, r.op("Shape", {x}));
  }
  r.out(0, quantised(r, y, 3, 4, 0));
}

/// An operator that wants channels behind the batch, on channels last.
template <typename Write>
Val channelsFirst(Recipe &r, const Val &x, bool last, Write write) {
  if (!last)
    return write(x);
  int n = r.rank(0);
  if (n < 3)
    throw Unsupported{"rank " + std::to_string(n) + " of input 0"};
  std::vector<int64_t> in = {0, n - 1}, out = {0};
  for (int k = 1; k + 1 < n; ++k) {
    in.push_back(k);
    out.push_back(k + 1);
  }
  out.push_back(1);
  return r.transpose(write(r.transpose(x, in)), out);
}
void qlinearGlobalAveragePool(Recipe &r) {
  Val y = channelsFirst(
      r, real(r, 0), r.integer("channels_last", 0),
      [&](const Val &x) { return r.op("GlobalAveragePool", {x}); });
  r.out(0, quantised(r, y, 3, 4, 0));
}
void qlinearAveragePool(Recipe &r) {
  // A window beyond the padding: onnxruntime divides by all of it, AveragePool
  // by what is padding.
  if (r.integer("ceil_mode", 0) && r.integer("count_include_pad", 0))
    throw Unsupported{
        "attribute 'ceil_mode' together with 'count_include_pad'"};
  Val y = channelsFirst(
      r, real(r, 0), r.integer("channels_last", 0), [&](const Val &x) {
        return r.op("AveragePool", {x},
                    r.copy({"auto_pad", "ceil_mode", "count_include_pad",
                            "kernel_shape", "pads", "strides"}));
      });
  r.out(0, quantised(r, y, 3, 4, 0));
}
void nhwcMaxPool(Recipe &r) {
  r.out(0, channelsFirst(r, r.in(0), true, [&](const Val &x) {
          return r.op("MaxPool", {x},
                      r.copy({"auto_pad", "ceil_mode", "dilations",
                              "kernel_shape", "pads", "strides"}));
        }));
}

void qlinearReduceMean(Recipe &r) {
  Val x = real(r, 0);
  Val y =
      r.reduce("ReduceMean", x, r.integers("axes"), r.integer("keepdims", 1));
  r.out(0, quantised(r, y, 3, 4, 0));
}
void qlinearWhere(Recipe &r) {
  r.out(0, quantised(r, r.where(r.in(0), real(r, 1), real(r, 4)), 7, 8, 1));
}
// Scale and zero point of the result, then tensor, scale, zero point of each.
void qlinearConcat(Recipe &r) {
  std::vector<Val> parts;
  for (int i = 2; i < r.inputs(); i += 3)
    parts.push_back(real(r, i));
  r.out(0, quantised(r, r.concat(parts, r.integer("axis", 0)), 0, 1, 2));
}

// x, scale, zero, w, scale, zero, y scale, zero, bias. Weights are as in Conv.
void qlinearConv(Recipe &r) {
  std::vector<Val> in;
  for (int i = 0; i < 9; ++i)
    in.push_back(r.in(i));
  r.out(0, channelsFirst(
               r, in[0], r.integer("channels_last", 0), [&](const Val &x) {
                 in[0] = x;
                 return r.op("QLinearConv", in,
                             r.copy({"auto_pad", "dilations", "group",
                                     "kernel_shape", "pads", "strides"}));
               }));
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

// A, scale, zero, B, scale, zero, C, y scale, y zero. Sums are exact; C is
// int32 of scale a * b.
void qgemm(Recipe &r) {
  Val a = r.in(0), b = r.need(3);
  if (r.integer("transA", 0))
    a = r.transpose(a, {1, 0});
  if (r.integer("transB", 0))
    b = r.transpose(b, {1, 0});
  Val y = matmulInteger(r, a, b, r.in(2), r.in(5));
  auto wide = [&](const Val &v) { return r.cast(v, TensorProto::DOUBLE); };
  y = r.has(6) ? r.add(wide(y), wide(r.in(6))) : wide(y);
  Val scale = r.mul(wide(r.need(1)), wide(r.need(4)));
  if (float alpha = r.number("alpha", 1); alpha != 1)
    scale = r.mul(scale, wide(r.floatScalar(alpha)));
  y = r.cast(r.mul(y, scale), TensorProto::FLOAT);
  r.out(0, r.has(7) ? quantised(r, y, 7, 8, 0) : y);
}

// A, B, A scale, B scale, A zero, B zero, bias.
void matMulIntegerToFloat(Recipe &r) {
  Val y = r.castLike(matmulInteger(r, r.in(0), r.need(1), r.in(4), r.in(5)),
                     r.need(2));
  r.out(0, r.addIf(r.mul(y, r.mul(r.in(2), r.need(3))), r.in(6)));
}
// A, B, B scale, B zero, bias.
void dynamicQuantizeMatMul(Recipe &r) {
  auto a = r.ops("DynamicQuantizeLinear", {r.in(0)}, 3);
  Val y = r.cast(matmulInteger(r, a[0], r.need(1), a[2], r.in(3)),
                 TensorProto::FLOAT);
  r.out(0, r.addIf(r.mul(y, r.mul(a[1], r.need(2))), r.in(4)));
}
void matMulInteger16(Recipe &r) {
  bool isSigned = r.elementType(0) == TensorProto::INT16 ||
                  r.elementType(1) == TensorProto::INT16;
  int type = isSigned ? TensorProto::INT32 : TensorProto::UINT32;
  r.out(0, r.matmul(r.cast(r.in(0), type), r.cast(r.in(1), type)));
}
// A, A zero, B, B zero.
void mulInteger(Recipe &r) {
  auto plain = [&](int i) {
    Val x = r.cast(r.in(i), TensorProto::INT32);
    return r.has(i + 1) ? r.sub(x, r.cast(r.in(i + 1), TensorProto::INT32)) : x;
  };
  r.need(2);
  r.out(0, r.mul(plain(0), plain(2)));
}
void reduceSumInteger(Recipe &r) {
  int type = r.elementType(0) == TensorProto::INT8 ? TensorProto::INT32
                                                   : TensorProto::UINT32;
  r.out(0, r.reduce("ReduceSum", r.cast(r.in(0), type), r.integers("axes"),
                    r.integer("keepdims", 1)));
}

// X, W [d, input, 4h], R [d, h, 4h], B, lengths, h0, c0, P, then scale and zero
// point of W and of R, [d] or [d, 4h]. onnxruntime quantises X and the hidden
// state to 8 bits for each step; here they stay float: the difference is the
// noise of that quantisation.
void dynamicQuantizeLstm(Recipe &r) {
  auto weights = [&](int data, int scale) {
    auto wide = [&](int i) { // [d] or [d, 4h] against [d, input, 4h]
      return r.rank(i) == 2 ? r.unsqueeze(r.in(i), {1})
                            : r.unsqueeze(r.need(i), {1, 2});
    };
    Val q = r.cast(r.need(data), TensorProto::FLOAT);
    if (r.has(scale + 1))
      q = r.sub(q, r.cast(wide(scale + 1), TensorProto::FLOAT));
    return r.transpose(r.mul(q, wide(scale)), {0, 2, 1});
  };
  auto y = r.ops("LSTM",
                 {r.in(0), weights(1, 8), weights(2, 10), r.in(3), r.in(4),
                  r.in(5), r.in(6), r.in(7)},
                 3,
                 r.copy({"activation_alpha", "activation_beta", "activations",
                         "clip", "direction", "hidden_size", "input_forget"}));
  for (int i = 0; i < 3; ++i)
    r.out(i, y[i]);
}

} // namespace

llvm::ArrayRef<ContribOperator> quantisedOperators() {
  constexpr int many = 1 << 20;
  static const std::vector<ContribOperator> list = {
      {"QuantizeLinear", quantizeLinear, 3, 1, {"axis"}},
      {"DequantizeLinear", dequantizeLinear, 3, 1, {"axis"}},
      {"QLinearAdd", qlinearAdd, 8, 1, {}},
      {"QLinearMul", qlinearMul, 8, 1, {}},
      {"QLinearSigmoid", qlinearSigmoid, 5, 1, {}},
      {"QLinearLeakyRelu", qlinearLeakyRelu, 5, 1, {"alpha"}},
      {"QLinearSoftmax", qlinearSoftmax, 5, 1, {"axis", "opset"}},
      {"QLinearGlobalAveragePool",
       qlinearGlobalAveragePool,
       5,
       1,
       {"channels_last"}},
      {"QLinearAveragePool",
       qlinearAveragePool,
       5,
       1,
       {"auto_pad", "ceil_mode", "channels_last", "count_include_pad",
        "kernel_shape", "pads", "strides"}},
      {"NhwcMaxPool",
       nhwcMaxPool,
       1,
       1,
       {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads",
        "strides"}},
      {"QLinearReduceMean", qlinearReduceMean, 5, 1, {"axes", "keepdims"}},
      {"QLinearWhere", qlinearWhere, 9, 1, {}},
      {"QLinearConcat", qlinearConcat, many, 1, {"axis"}},
      {"QLinearConv",
       qlinearConv,
       9,
       1,
       {"auto_pad", "channels_last", "dilations", "group", "kernel_shape",
        "pads", "strides"}},
      {"QGemm", qgemm, 9, 1, {"alpha", "transA", "transB"}},
      {"MatMulIntegerToFloat", matMulIntegerToFloat, 7, 1, {}},
      {"DynamicQuantizeMatMul", dynamicQuantizeMatMul, 5, 1, {}},
      {"MatMulInteger16", matMulInteger16, 2, 1, {}},
      {"MulInteger", mulInteger, 4, 1, {}},
      {"ReduceSumInteger", reduceSumInteger, 1, 1, {"axes", "keepdims"}},
      {"DynamicQuantizeLSTM",
       dynamicQuantizeLstm,
       12,
       3,
       {"activation_alpha", "activation_beta", "activations", "clip",
        "direction", "hidden_size", "input_forget"}},
  };
  return list;
}

} // namespace tessera::onnx_import
