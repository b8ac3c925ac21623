// com.microsoft operators as ai.onnx operators, see Passes.td. Names, inputs and
// attributes are those of onnxruntime's documentation of its contrib operators.
#include "passes/Canonicalise/Passes.h"

#include "dialects/Onnx/IR/OpsCore.h"
#include "passes/Canonicalise/OnnxBuilder.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_DECOMPOSECONTRIB
#include "passes/Canonicalise/Passes.h.inc"

namespace {

// A custom operator as its documentation sees it.
class Contrib {
public:
  Contrib(CustomOp op, PatternRewriter &r) : op(op), b(r, op.getLoc()), r(r) {}

  Value in(unsigned i) {
    if (i >= op.getInputs().size())
      return {};
    Value v = op.getInputs()[i];
    return isa<NoneType>(v.getType()) ? Value() : v;
  }
  unsigned outputs() { return op->getNumResults(); }
  bool uses(unsigned i) { return i < outputs() && !op->getResult(i).use_empty(); }
  Type type(unsigned i = 0) { return op->getResult(i).getType(); }
  int64_t i(StringRef name, int64_t fallback) {
    auto a = op.getAttrs().getAs<IntegerAttr>(name);
    return a ? a.getInt() : fallback;
  }
  double f(StringRef name, double fallback) {
    auto a = op.getAttrs().getAs<FloatAttr>(name);
    return a ? a.getValueAsDouble() : fallback;
  }
  StringRef s(StringRef name, StringRef fallback = "") {
    auto a = op.getAttrs().getAs<StringAttr>(name);
    return a ? a.getValue() : fallback;
  }
  bool has(StringRef name) { return (bool)op.getAttrs().get(name); }
  /// Only attributes that the rewrite serves.
  bool onlyAttributes(std::initializer_list<StringRef> names) {
    return llvm::all_of(op.getAttrs(), [&](NamedAttribute a) {
      return llvm::is_contained(names, a.getName().getValue());
    });
  }
  /// The named attributes that are present.
  SmallVector<NamedAttribute> copy(std::initializer_list<StringRef> names) {
    SmallVector<NamedAttribute> out;
    for (StringRef n : names)
      if (Attribute a = op.getAttrs().get(n))
        out.push_back(r.getNamedAttr(n, a));
    return out;
  }
  LogicalResult replace(Value v) {
    if (!v)
      return failure();
    replaceRefining(r, op, SmallVector<Value>{v});
    return success();
  }
  LogicalResult replaceAll(ArrayRef<Value> values) {
    SmallVector<Value> padded(values);
    padded.resize(outputs());
    replaceRefining(r, op, padded);
    return success();
  }

  CustomOp op;
  OnnxBuilder b;
  PatternRewriter &r;
};


//===-- Fused activations --------------------------------------------------===//

bool knownActivation(StringRef name) {
  return llvm::is_contained({"", "Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"},
                            name);
}

// onnxruntime keeps the parameters of the activation in a list of floats.
Value activate(Contrib &c, Value v, StringRef name, ArrayRef<float> p) {
  OnnxBuilder &b = c.b;
  Type e = elementType(v);
  if (name.empty())
    return v;
  if (name == "LeakyRelu")
    return b.unary(name, v, {b.f("alpha", p.size() > 0 ? p[0] : 0.01)});
  if (name == "HardSigmoid")
    return b.unary(name, v, {b.f("alpha", p.size() > 0 ? p[0] : 0.2),
                             b.f("beta", p.size() > 1 ? p[1] : 0.5)});
  if (name == "Clip")
    return b.op("Clip", {v, p.size() > 0 ? b.scalar(e, p[0]) : Value(),
                         p.size() > 1 ? b.scalar(e, p[1]) : Value()},
                v.getType());
  return b.unary(name, v);
}

SmallVector<float> activationParams(Contrib &c) {
  if (auto a = c.op.getAttrs().getAs<DenseF32ArrayAttr>("activation_params"))
    return SmallVector<float>(a.asArrayRef());
  return {};
}

LogicalResult fusedConv(Contrib &c) {
  if (!knownActivation(c.s("activation")))
    return failure();
  Value v = c.b.op("Conv", {c.in(0), c.in(1), c.in(2)}, c.type(),
                   c.copy({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  if (c.in(3))
    v = c.b.add(v, c.in(3));
  return c.replace(activate(c, v, c.s("activation"), activationParams(c)));
}

LogicalResult fusedGemm(Contrib &c) {
  StringRef act = c.s("activation");
  if (!knownActivation(act))
    return failure();
  SmallVector<float> params;
  if (act == "LeakyRelu")
    params = {(float)c.f("activation_alpha", 0.01)};
  else if (act == "HardSigmoid")
    params = {(float)c.f("activation_alpha", 0.2), (float)c.f("activation_beta", 0.5)};
  else if (act == "Clip")
    return failure();
  Value v = c.b.op("Gemm", {c.in(0), c.in(1), c.in(2)}, c.type(),
                   c.copy({"alpha", "beta", "transA", "transB"}));
  return c.replace(activate(c, v, act, params));
}

Value swapLast(OnnxBuilder &b, Value v) {
  RankedTensorType t = rankedType(v);
  if (!t || t.getRank() < 2)
    return v;
  SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, t.getRank()));
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return b.transpose(v, perm);
}

LogicalResult fusedMatMul(Contrib &c) {
  if (!rankedType(c.in(0)) || !rankedType(c.in(1)) || c.i("transBatchA", 0) ||
      c.i("transBatchB", 0) || !c.s("activation").empty())
    return failure();
  Value a = c.i("transA", 0) ? swapLast(c.b, c.in(0)) : c.in(0);
  Value w = c.i("transB", 0) ? swapLast(c.b, c.in(1)) : c.in(1);
  Value v = c.b.matmul(a, w);
  double alpha = c.f("alpha", 1);
  if (alpha != 1)
    v = c.b.mul(v, c.b.scalar(elementType(v), alpha));
  return c.replace(v);
}

//===-- Activations --------------------------------------------------------===//

LogicalResult gelu(Contrib &c) {
  return c.replace(c.b.unary("Gelu", c.in(0), {c.b.s("approximate", "none")}));
}
LogicalResult biasGelu(Contrib &c) {
  return c.replace(c.b.unary("Gelu", c.b.add(c.in(0), c.in(1)), {c.b.s("approximate", "none")}));
}
LogicalResult fastGelu(Contrib &c) {
  Value x = c.in(1) ? c.b.add(c.in(0), c.in(1)) : c.in(0);
  return c.replace(c.b.unary("Gelu", x, {c.b.s("approximate", "tanh")}));
}
LogicalResult quickGelu(Contrib &c) {
  return c.replace(c.b.unary("Swish", c.in(0), {c.b.f("alpha", c.f("alpha", 1.702f))}));
}

//===-- Normalisation ------------------------------------------------------===//

// Input, skip, gamma, beta, bias; outputs y, mean, inverse deviation, sum.
LogicalResult skipLayerNorm(Contrib &c) {
  bool simplified = c.op.getOpType().contains("Simplified");
  if (c.uses(1) || c.uses(2) || !rankedType(c.in(0)))
    return failure();
  Value gamma = c.in(2), beta = simplified ? Value() : c.in(3), bias = c.in(simplified ? 3 : 4);
  Value sum = c.b.add(c.in(0), c.in(1));
  if (bias)
    sum = c.b.add(sum, bias);
  NamedAttribute axis = c.b.i("axis", -1);
  NamedAttribute epsilon = c.b.f("epsilon", c.f("epsilon", 1e-12));
  Value y = simplified
                ? c.b.op("RMSNormalization", {sum, gamma}, sum.getType(), {axis, epsilon})
                : c.b.op("LayerNormalization", {sum, gamma, beta}, sum.getType(), {axis, epsilon});
  return c.replaceAll({y, {}, {}, sum});
}

LogicalResult simplifiedLayerNorm(Contrib &c) {
  if (c.uses(1))
    return failure();
  return c.replaceAll({c.b.op("RMSNormalization", {c.in(0), c.in(1)}, c.in(0).getType(),
                              {c.b.i("axis", c.i("axis", -1)),
                               c.b.f("epsilon", c.f("epsilon", 1e-5)),
                               c.b.i("stash_type", c.i("stash_type", 1))})});
}

Value gatherRows(OnnxBuilder &b, Value table, Value ids) {
  RankedTensorType t = rankedType(table), k = rankedType(ids);
  SmallVector<int64_t> shape(k.getShape());
  shape.append(t.getShape().begin() + 1, t.getShape().end());
  return b.op("Gather", {table, ids}, t.clone(shape), {b.i("axis", 0)});
}

// input_ids, segment_ids, word, position, segment embeddings, gamma, beta,
// mask, position_ids; outputs y, mask_index, embedding sum.
LogicalResult embedLayerNorm(Contrib &c) {
  Value ids = c.in(0), word = c.in(2), position = c.in(3);
  if (c.uses(1) || !rankedType(ids) || !rankedType(word) || !rankedType(position) ||
      rankedType(ids).getRank() != 2 || c.i("mask_index_type", 0) != 0)
    return failure();
  Value sum = gatherRows(c.b, word, ids), places;
  if (c.in(8)) {
    places = gatherRows(c.b, position, c.in(8));
  } else { // the first rows of the table
    int64_t length = rankedType(ids).getDimSize(1);
    Value shape = c.b.op("Shape", {ids}, RankedTensorType::get({1}, c.r.getI64Type()),
                         {c.b.i("start", 1), c.b.i("end", 2)});
    RankedTensorType t = rankedType(position);
    places = c.b.op("Slice", {position, c.b.ints({0}), shape, c.b.ints({0})},
                    t.clone(ArrayRef<int64_t>{length, t.getDimSize(1)}));
  }
  sum = c.b.add(sum, places);
  if (c.in(4) && c.in(1))
    sum = c.b.add(sum, gatherRows(c.b, c.in(4), c.in(1)));
  Value y = c.b.op("LayerNormalization", {sum, c.in(5), c.in(6)}, sum.getType(),
                   {c.b.i("axis", -1), c.b.f("epsilon", c.f("epsilon", 1e-12))});
  return c.replaceAll({y, {}, sum});
}

//===-- Quantised ----------------------------------------------------------===//

Value dequantize(OnnxBuilder &b, Value x, Value scale, Value zero, int64_t axis = 1) {
  auto t = cast<ShapedType>(x.getType());
  return b.op("DequantizeLinear", {x, scale, zero}, t.clone(elementType(scale)),
              {b.i("axis", axis)});
}

Value quantize(OnnxBuilder &b, Value x, Value scale, Value zero, Type element) {
  return b.op("QuantizeLinear", {x, scale, zero},
              cast<ShapedType>(x.getType()).clone(element));
}

// A, scale, zero, B, scale, zero, C scale, C zero.
LogicalResult qlinearBinary(Contrib &c) {
  Value x = dequantize(c.b, c.in(0), c.in(1), c.in(2));
  Value y = dequantize(c.b, c.in(3), c.in(4), c.in(5));
  Value v = c.b.binary(c.op.getOpType() == "QLinearAdd" ? "Add" : "Mul", x, y);
  return c.replace(quantize(c.b, v, c.in(6), c.in(7), elementType(c.in(0))));
}

// X, scale, zero, Y scale, Y zero.
LogicalResult qlinearUnary(Contrib &c) {
  StringRef name = c.op.getOpType();
  name.consume_front("QLinear");
  Value x = dequantize(c.b, c.in(0), c.in(1), c.in(2)), y;
  if (name == "LeakyRelu") {
    y = c.b.unary(name, x, {c.b.f("alpha", c.f("alpha", 0.01))});
  } else if (name == "Sigmoid") {
    y = c.b.unary(name, x);
  } else if (name == "Softmax") { // opset 13: one axis; older: all from the axis on
    if (c.i("opset", 13) < 13)
      return failure();
    y = c.b.unary(name, x, {c.b.i("axis", c.i("axis", -1))});
  } else if (name == "GlobalAveragePool" || name == "AveragePool") {
    if (c.i("channels_last", 0))
      return failure();
    auto t = cast<ShapedType>(c.type()).clone(elementType(x));
    y = c.b.op(name, {x}, t, name == "AveragePool"
                                 ? c.copy({"auto_pad", "ceil_mode", "count_include_pad",
                                           "kernel_shape", "pads", "strides"})
                                 : SmallVector<NamedAttribute>());
  } else {
    return failure();
  }
  return c.replace(quantize(c.b, y, c.in(3), c.in(4), elementType(c.in(0))));
}

// Y scale, Y zero, then (X, scale, zero) for each.
LogicalResult qlinearConcat(Contrib &c) {
  SmallVector<Value> parts;
  for (unsigned i = 2; c.in(i); i += 3)
    parts.push_back(dequantize(c.b, c.in(i), c.in(i + 1), c.in(i + 2)));
  if (parts.empty())
    return failure();
  auto t = cast<ShapedType>(c.type()).clone(elementType(parts[0]));
  Value v = c.b.op("Concat", parts, t, {c.b.i("axis", c.i("axis", 0))});
  return c.replace(quantize(c.b, v, c.in(0), c.in(1), elementType(c.in(2))));
}

// C = alpha * (A * B + bias); bias is int32 of scale a_scale * b_scale.
LogicalResult qgemm(Contrib &c) {
  Value a = dequantize(c.b, c.in(0), c.in(1), c.in(2));
  Value w = dequantize(c.b, c.in(3), c.in(4), c.in(5), c.i("transB", 0) ? 0 : 1);
  Value bias;
  double alpha = c.f("alpha", 1);
  Value biasScale = c.b.mul(c.in(4), c.in(1));
  if (alpha != 1)
    biasScale = c.b.mul(biasScale, c.b.scalar(elementType(a), alpha));
  if (c.in(6))
    bias = c.b.op("DequantizeLinear", {c.in(6), biasScale},
                  cast<ShapedType>(c.in(6).getType()).clone(elementType(a)),
                  {c.b.i("axis", 0)});
  Value v = c.b.op("Gemm", {a, w, bias}, cast<ShapedType>(c.type()).clone(elementType(a)),
                   c.copy({"alpha", "transA", "transB"}));
  if (c.in(7))
    v = quantize(c.b, v, c.in(7), c.in(8), elementType(c.in(0)));
  return c.replace(v);
}

// Integers in QDQ form at the standard operators.
LogicalResult quantizeDequantize(Contrib &c) {
  bool q = c.op.getOpType() == "QuantizeLinear";
  Type e = elementType(c.op->getResult(0));
  if (!e || isa<NoneType>(c.type()))
    return failure();
  if (q && !c.in(2) && e != c.r.getIntegerType(8, false))
    return failure();
  return c.replace(c.b.op(c.op.getOpType(), {c.in(0), c.in(1), c.in(2)},
                          cast<ShapedType>(c.in(0).getType()).clone(e),
                          c.copy({"axis", "block_size"})));
}

Value matmulInteger(OnnxBuilder &b, Value x, Value w, Value xZero, Value wZero) {
  return b.op("MatMulInteger", {x, w, xZero, wZero},
              matmulType(x, w, b.attrs().getIntegerType(32)));
}

// A, B, A scale, B scale, A zero, B zero, bias.
LogicalResult matmulIntegerToFloat(Contrib &c) {
  if (!rankedType(c.in(0)) || !rankedType(c.in(1)))
    return failure();
  Value v = c.b.cast(matmulInteger(c.b, c.in(0), c.in(1), c.in(4), c.in(5)),
                     elementType(c.in(2)));
  v = c.b.mul(v, c.b.mul(c.in(2), c.in(3)));
  return c.replace(c.in(6) ? c.b.add(v, c.in(6)) : v);
}

struct DynamicallyQuantized {
  Value x, scale, zero;
};
DynamicallyQuantized dynamicQuantize(OnnxBuilder &b, Value x) {
  Type u8 = b.attrs().getIntegerType(8, false);
  Operation *q = b.create("DynamicQuantizeLinear", {x},
                          {cast<ShapedType>(x.getType()).clone(u8),
                           RankedTensorType::get({}, b.attrs().getF32Type()),
                           RankedTensorType::get({}, u8)});
  return {q->getResult(0), q->getResult(1), q->getResult(2)};
}

// A, B, B scale, B zero, bias.
LogicalResult dynamicQuantizeMatMul(Contrib &c) {
  if (!rankedType(c.in(0)) || !rankedType(c.in(1)))
    return failure();
  DynamicallyQuantized a = dynamicQuantize(c.b, c.in(0));
  Value v = c.b.cast(matmulInteger(c.b, a.x, c.in(1), a.zero, c.in(3)), c.r.getF32Type());
  v = c.b.mul(v, c.b.mul(c.in(2), a.scale));
  return c.replace(c.in(4) ? c.b.add(v, c.in(4)) : v);
}

// Weights of N columns in blocks along K: B [N, blocks, bytes], scales, zero
// points packed likewise.
LogicalResult matmulNBits(Contrib &c) {
  int64_t k = c.i("K", 0), n = c.i("N", 0), bits = c.i("bits", 4), block = c.i("block_size", 0);
  auto packed = constantOf(c.in(1)), scales = constantOf(c.in(2)), zeros = constantOf(c.in(3));
  if (!rankedType(c.in(0)) || !packed || !scales || (c.in(3) && !zeros) || c.in(4) ||
      (bits != 4 && bits != 8 && bits != 2) || block <= 0 || k <= 0 || n <= 0)
    return failure();
  int64_t blocks = llvm::divideCeil(k, block), perByte = 8 / bits;
  int64_t bytes = block / perByte, zeroBytes = llvm::divideCeil(blocks, perByte);
  if (packed->size() != n * blocks * bytes || scales->size() != n * blocks)
    return failure();
  bool packedZeros = zeros && !zeros->isFloat();
  if (zeros && zeros->size() != n * (packedZeros ? zeroBytes : blocks))
    return failure();
  int64_t mask = (1 << bits) - 1;
  auto element = [&](const HostTensor &t, int64_t row, int64_t i) {
    return ((uint8_t)t.data()[row + i / perByte] >> (i % perByte * bits)) & mask;
  };
  HostTensor w(scales->element(), {k, n});
  w.mutableData();
  for (int64_t col = 0; col < n; ++col)
    for (int64_t i = 0; i < k; ++i) {
      int64_t g = i / block;
      double zero = !zeros         ? (double)(1 << (bits - 1))
                    : packedZeros ? (double)element(*zeros, col * zeroBytes, g)
                                  : zeros->real(col * blocks + g);
      double q = element(*packed, (col * blocks + g) * bytes, i % block);
      w.setReal(i * n + col, (float)((float)(q - zero) * (float)scales->real(col * blocks + g)));
    }
  Value v = c.b.matmul(c.in(0), c.b.weight(w));
  return c.replace(c.in(5) ? c.b.add(v, c.in(5)) : v);
}

// X, W [d, input, 4h], R [d, h, 4h], B, lengths, h0, c0, P, then scale and zero
// point of W and of R, per direction or [d, 4h]. onnxruntime quantises X and the
// hidden state to 8 bits for each step; here they stay float: the difference is
// the noise of that quantisation.
LogicalResult dynamicQuantizeLstm(Contrib &c) {
  std::optional<HostTensor> weights[2];
  for (int k : {0, 1}) {
    auto w = constantOf(c.in(1 + k)), scale = constantOf(c.in(8 + 2 * k)),
         zero = constantOf(c.in(9 + 2 * k));
    if (!w || !scale || !zero || w->rank() != 3)
      return failure();
    int64_t d = w->shape()[0], in = w->shape()[1], gates = w->shape()[2];
    bool perColumn = scale->size() == d * gates && scale->size() != d;
    if (!(perColumn || scale->size() == d) || zero->size() != scale->size())
      return failure();
    HostTensor f(scale->element(), {d, gates, in}); // as LSTM wants it
    for (int64_t a = 0; a < d; ++a)
      for (int64_t i = 0; i < in; ++i)
        for (int64_t g = 0; g < gates; ++g) {
          int64_t s = perColumn ? a * gates + g : a;
          float v = (float)(w->integer((a * in + i) * gates + g) - zero->integer(s));
          f.setReal((a * gates + g) * in + i, v * (float)scale->real(s));
        }
    weights[k] = f;
  }
  SmallVector<Value> operands = {c.in(0), c.b.weight(*weights[0]), c.b.weight(*weights[1])};
  for (unsigned k = 3; k < 8; ++k)
    operands.push_back(c.in(k));
  SmallVector<NamedAttribute> attrs =
      c.copy({"activation_alpha", "activation_beta", "activations", "clip", "direction",
              "hidden_size", "input_forget"});
  // The custom operator keeps all its results in place; absent ones are unused.
  // The rank of the sequence may not be known yet; it is 3.
  RankedTensorType x = rankedType(c.in(0));
  int64_t length = x ? x.getDimSize(0) : ShapedType::kDynamic, batch = x ? x.getDimSize(1) : ShapedType::kDynamic;
  int64_t d = weights[1]->shape()[0], h = weights[1]->shape()[2];
  Type element = elementType(c.in(0));
  Type state = RankedTensorType::get({d, batch, h}, element);
  Type sequence = RankedTensorType::get({length, d, batch, h}, element);
  Operation *lstm = c.b.create("LSTM", operands, {sequence, state, state}, attrs);
  SmallVector<Value> results(lstm->getResults());
  results.resize(c.outputs());
  return c.replaceAll(results);
}

using Decompose = LogicalResult (*)(Contrib &);
struct Entry {
  StringRef name;
  Decompose decompose;
  unsigned inputs; // that must be present
  std::initializer_list<StringRef> attributes;
};
const Entry entries[] = {
    {"FusedConv", fusedConv, 2, {"activation", "activation_params", "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}},
    {"FusedGemm", fusedGemm, 2, {"activation", "activation_alpha", "activation_beta", "activation_gamma", "alpha", "beta", "transA", "transB"}},
    {"FusedMatMul", fusedMatMul, 2, {"alpha", "transA", "transB", "transBatchA", "transBatchB"}},
    {"Gelu", gelu, 1, {}},
    {"BiasGelu", biasGelu, 2, {}},
    {"FastGelu", fastGelu, 1, {}},
    {"QuickGelu", quickGelu, 1, {"alpha"}},
    {"SkipLayerNormalization", skipLayerNorm, 3, {"epsilon"}},
    {"SkipSimplifiedLayerNormalization", skipLayerNorm, 3, {"epsilon"}},
    {"SimplifiedLayerNormalization", simplifiedLayerNorm, 2, {"axis", "epsilon", "stash_type"}},
    {"EmbedLayerNormalization", embedLayerNorm, 4, {"epsilon", "mask_index_type"}},
    {"QLinearAdd", qlinearBinary, 7, {}},
    {"QLinearMul", qlinearBinary, 7, {}},
    {"QLinearSigmoid", qlinearUnary, 4, {}},
    {"QLinearLeakyRelu", qlinearUnary, 4, {"alpha"}},
    {"QLinearSoftmax", qlinearUnary, 4, {"axis", "opset"}},
    {"QLinearGlobalAveragePool", qlinearUnary, 4, {"channels_last"}},
    {"QLinearAveragePool", qlinearUnary, 4, {"auto_pad", "ceil_mode", "channels_last", "count_include_pad", "kernel_shape", "pads", "strides"}},
    {"QLinearConcat", qlinearConcat, 4, {"axis"}},
    {"QGemm", qgemm, 6, {"alpha", "transA", "transB"}},
    {"QuantizeLinear", quantizeDequantize, 2, {"axis", "block_size"}},
    {"DequantizeLinear", quantizeDequantize, 2, {"axis", "block_size"}},
    {"MatMulIntegerToFloat", matmulIntegerToFloat, 4, {}},
    {"DynamicQuantizeMatMul", dynamicQuantizeMatMul, 3, {}},
    {"MatMulNBits", matmulNBits, 3, {"K", "N", "bits", "block_size", "accuracy_level"}},
    {"DynamicQuantizeLSTM", dynamicQuantizeLstm, 12, {"activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "input_forget"}},
};

LogicalResult decompose(Operation *op, PatternRewriter &r) {
  auto custom = cast<CustomOp>(op);
  if (custom.getDomain() != "com.microsoft" &&
      !(custom.getDomain().empty() && custom.getOpType() == "SimplifiedLayerNormalization"))
    return failure();
  for (const Entry &e : entries) {
    if (e.name != custom.getOpType())
      continue;
    Contrib c(custom, r);
    unsigned present = 0;
    while (c.in(present) && present < e.inputs)
      ++present;
    // Zero points and the like may be absent; these entries look themselves.
    bool holes = StringRef(e.name).starts_with("Q") || e.name == "DynamicQuantizeLSTM" ||
                 e.name == "EmbedLayerNormalization";
    if (!c.onlyAttributes(e.attributes) || (!holes && present < e.inputs) || !c.in(0))
      return failure();
    return e.decompose(c);
  }
  return failure();
}

struct DecomposeContribPass : impl::DecomposeContribBase<DecomposeContribPass> {
  using DecomposeContribBase::DecomposeContribBase;
  void runOnOperation() override {
    RewritePatternSet p(&getContext());
    addRewrite(p, "Custom", decompose);
    if (failed(applyPatternsGreedily(getOperation(), std::move(p))))
      signalPassFailure();
  }
};

} // namespace

} // namespace tessera::onnx
