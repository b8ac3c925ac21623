// Fusions that onnxruntime's optimiser and the exporters write: activations,
// products, convolutions, normalisations, embeddings.
#include "compiler/Import/Contrib.h"

namespace tessera::onnx_import {

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

static float parameter(llvm::ArrayRef<float> list, size_t i, float fallback) {
  return i < list.size() ? list[i] : fallback;
}

Val activate(Recipe &r, const Val &x, const std::string &name,
             llvm::ArrayRef<float> p) {
  if (name.empty())
    return x;
  for (const char *plain : {"Relu", "Tanh", "Sigmoid", "Softplus", "Softsign"})
    if (name == plain)
      return r.op(plain, {x});
  if (name == "LeakyRelu" || name == "Elu" || name == "ThresholdedRelu")
    return r.op(name.c_str(), {x},
                {F("alpha", parameter(p, 0, name == "LeakyRelu" ? 0.01f : 1))});
  if (name == "HardSigmoid")
    return r.op(
        "HardSigmoid", {x},
        {F("alpha", parameter(p, 0, 0.2f)), F("beta", parameter(p, 1, 0.5f))});
  if (name == "ScaledTanh")
    return r.mul(r.scalarLike(parameter(p, 0, 1), x),
                 r.op("Tanh", {r.mul(r.scalarLike(parameter(p, 1, 1), x), x)}));
  if (name == "ParametricSoftplus")
    return r.mul(
        r.scalarLike(parameter(p, 0, 1), x),
        r.op("Softplus", {r.mul(r.scalarLike(parameter(p, 1, 1), x), x)}));
  if (name == "Clip")
    return r.op("Clip", {x, p.size() > 0 ? r.scalarLike(p[0], x) : Val(),
                         p.size() > 1 ? r.scalarLike(p[1], x) : Val()});
  throw Unsupported{"activation '" + name + "'"};
}

namespace {

Val gelu(Recipe &r, const Val &x, bool tanh = false) {
  return r.op("Gelu", {x}, {S("approximate", tanh ? "tanh" : "none")});
}
void plainGelu(Recipe &r) { r.out(0, gelu(r, r.in(0))); }
void biasGelu(Recipe &r) { r.out(0, gelu(r, r.add(r.in(0), r.need(1)))); }
void fastGelu(Recipe &r) { r.out(0, gelu(r, r.addIf(r.in(0), r.in(1)), true)); }
void quickGelu(Recipe &r) {
  Val x = r.in(0);
  r.out(0,
        r.mul(x, r.op("Sigmoid",
                      {r.mul(x, r.scalarLike(r.number("alpha", 1.702f), x))})));
}
void biasSplitGelu(Recipe &r) { // the left half times Gelu of the right
  auto half = r.ops("Split", {r.add(r.in(0), r.need(1))}, 2,
                    {I("axis", -1), I("num_outputs", 2)});
  r.out(0, r.mul(half[0], gelu(r, half[1])));
}
void scaledSilu(Recipe &r) {
  Val x = r.in(0);
  Val scale =
      r.has(1) ? r.castLike(r.in(1), x) : r.scalarLike(r.number("alpha", 1), x);
  Val z = r.mul(x, scale);
  r.out(0, r.mul(z, r.op("Sigmoid", {z})));
}
void biasAdd(Recipe &r) {
  r.out(0, r.add(r.add(r.in(0), r.need(1)), r.need(2)));
}

// As in inference: nothing is dropped.
Val dropout(Recipe &r, const Val &y, int training) {
  r.refuseInput(training, "training_mode");
  r.refuseOutput(1, "mask");
  return y;
}
void biasDropout(Recipe &r) {
  r.out(0, dropout(r, r.addIf(r.add(r.in(0), r.need(1)), r.in(2)), 4));
}
void bitmaskDropout(Recipe &r) { r.out(0, dropout(r, r.in(0), 2)); }

// softmax(data + bias) over the axis and all after it; the bias is repeated
// along what comes before the axis, from the left or (inner) from the right.
void biasSoftmax(Recipe &r) {
  int rank = r.rank(0), biasRank = r.rank(1);
  int64_t axis = r.integer("axis", 1);
  if (axis < 0)
    axis += rank;
  if (biasRank != rank && r.integer("is_inner_broadcast", 0))
    throw Unsupported{
        "attribute 'is_inner_broadcast' of 1 with a bias of rank " +
        std::to_string(biasRank)};
  Val sum = r.add(r.in(0), r.in(1));
  Val flat = r.op("Softmax", {r.op("Flatten", {sum}, {I("axis", axis)})},
                  {I("axis", -1)});
  r.out(0, r.reshapeTo(flat, r.op("Shape", {sum})));
}

//===----------------------------------------------------------------------===//
// Products and convolutions
//===----------------------------------------------------------------------===//

// transBatch moves the first axis behind the others but the last: [K, B.., N]
// stands for matrices [B.., K, N]. Its transpose is of what results.
Val operandOfMatMul(Recipe &r, int i, bool transpose, bool batch) {
  if (!batch)
    return transpose ? r.swapLast(r.in(i)) : r.in(i);
  int n = r.rank(i);
  if (n < 2)
    throw Unsupported{"transposed batches of rank " + std::to_string(n)};
  std::vector<int64_t> perm;
  for (int k = 1; k + 1 < n; ++k)
    perm.push_back(k);
  perm.push_back(0);
  perm.push_back(n - 1);
  if (transpose)
    std::swap(perm[n - 1], perm[n - 2]);
  return r.transpose(r.in(i), perm);
}
Val fusedProduct(Recipe &r) {
  r.need(1);
  Val a = operandOfMatMul(r, 0, r.integer("transA", 0),
                          r.integer("transBatchA", 0));
  Val b = operandOfMatMul(r, 1, r.integer("transB", 0),
                          r.integer("transBatchB", 0));
  Val y = r.matmul(a, b);
  float alpha = r.number("alpha", 1);
  return alpha == 1 ? y : r.mul(y, r.scalarLike(alpha, y));
}
void fusedMatMul(Recipe &r) { r.out(0, fusedProduct(r)); }

std::vector<float> activationParameters(Recipe &r) {
  std::vector<float> p;
  for (const char *name :
       {"activation_alpha", "activation_beta", "activation_gamma"})
    if (r.find(name, AttributeProto::FLOAT))
      p.push_back(r.number(name, 0));
    else
      break;
  if (r.find("activation_gamma", AttributeProto::FLOAT) &&
      r.word("activation", "") != "")
    throw Unsupported{"attribute 'activation_gamma'"};
  return p;
}
void fusedMatMulActivation(Recipe &r) {
  r.out(0, activate(r, fusedProduct(r), r.word("activation", ""),
                    activationParameters(r)));
}
void fusedGemm(Recipe &r) {
  if (r.word("activation", "") == "Clip")
    throw Unsupported{"activation 'Clip'"};
  Val y = r.op("Gemm", {r.in(0), r.need(1), r.in(2)},
               r.copy({"alpha", "beta", "transA", "transB"}));
  r.out(0, activate(r, y, r.word("activation", ""), activationParameters(r)));
}
void gemmFastGelu(Recipe &r) {
  r.out(0, gelu(r, r.addIf(r.matmul(r.in(0), r.need(1)), r.in(2)), true));
}

void fusedConv(Recipe &r) {
  Val y = r.op("Conv", {r.in(0), r.need(1), r.in(2)},
               r.copy({"auto_pad", "dilations", "group", "kernel_shape", "pads",
                       "strides"}));
  r.out(0, activate(r, r.addIf(y, r.in(3)), r.word("activation", ""),
                    r.numbers("activation_params")));
}

Val moveChannels(Recipe &r, const Val &x, int rank, bool last) {
  if (rank < 3)
    throw Unsupported{"rank " + std::to_string(rank) + " of input 0"};
  std::vector<int64_t> perm = {0};
  if (!last)
    perm.push_back(rank - 1);
  for (int k = 1; k + 1 < rank; ++k)
    perm.push_back(last ? k + 1 : k);
  if (last)
    perm.push_back(1);
  return r.transpose(x, perm);
}
// Channels last; the weights as in Conv.
void nhwcFusedConv(Recipe &r) {
  int n = r.rank(0);
  Val y = r.op("Conv", {moveChannels(r, r.in(0), n, false), r.need(1), r.in(2)},
               r.copy({"auto_pad", "dilations", "group", "kernel_shape", "pads",
                       "strides"}));
  y = r.addIf(moveChannels(r, y, n, true), r.in(3));
  r.out(0, activate(r, y, r.word("activation", ""),
                    r.numbers("activation_params")));
}

// Padding of a transposed convolution cuts off the edges of its full result.
void convTransposeWithDynamicPads(Recipe &r) {
  if (std::string pad = r.word("auto_pad", "NOTSET"); pad != "NOTSET")
    throw Unsupported{"attribute 'auto_pad' of '" + pad + "'"};
  Val y = r.op("ConvTranspose", {r.in(0), r.need(1), r.in(3)},
               r.copy({"dilations", "group", "kernel_shape", "output_padding",
                       "strides"}));
  if (r.has(2)) {
    int n = r.rank(0) - 2;
    if (n < 1)
      throw Unsupported{"rank " + std::to_string(n + 2) + " of input 0"};
    Val pads = r.in(2);
    std::vector<int64_t> axes;
    for (int k = 0; k < n; ++k)
      axes.push_back(k + 2);
    Val from = r.slice(pads, 0, 0, n);
    Val to = r.sub(r.dims(y, 2, n + 2), r.slice(pads, 0, n, 2 * n));
    y = r.op("Slice", {y, from, to, r.ints(axes)});
  }
  r.out(0, y);
}

//===----------------------------------------------------------------------===//
// Normalisation
//===----------------------------------------------------------------------===//

/// 1 / deviation of the last axis (from zero, or from the mean, which is a
/// result then), in float.
void deviation(Recipe &r, const Val &x, float epsilon, int mean, int result) {
  Val f = r.cast(x, TensorProto::FLOAT);
  if (mean >= 0) {
    Val m = r.reduce("ReduceMean", f, {-1}, true);
    r.out(mean, m);
    f = r.sub(f, m);
  }
  Val square = r.reduce("ReduceMean", r.mul(f, f), {-1}, true);
  r.out(result, r.op("Reciprocal",
                     {r.op("Sqrt", {r.add(square, r.floatScalar(epsilon))})}));
}

// input, skip, gamma, beta, bias; results y, mean, 1 / deviation, sum.
void skipNormalization(Recipe &r, bool simplified) {
  Val sum = r.addIf(r.add(r.in(0), r.need(1)), r.in(simplified ? 3 : 4));
  float epsilon = r.number("epsilon", 1e-12f);
  if (simplified)
    r.refuseOutput(1, "mean"); // there is none
  Val gamma = r.need(2);
  std::vector<AttributeProto> attributes = {
      I("axis", -1), F("epsilon", epsilon), I("stash_type", 1)};
  r.out(0, simplified
               ? r.op("RMSNormalization", {sum, gamma}, attributes)
               : r.op("LayerNormalization", {sum, gamma, r.in(3)}, attributes));
  if (r.wants(1) || r.wants(2))
    deviation(r, sum, epsilon, simplified ? -1 : 1, 2);
  r.out(3, sum);
}
void skipLayerNormalization(Recipe &r) { skipNormalization(r, false); }
void skipSimplifiedLayerNormalization(Recipe &r) { skipNormalization(r, true); }

void simplifiedLayerNormalization(Recipe &r) {
  int64_t axis = r.integer("axis", -1);
  float epsilon = r.number("epsilon", 1e-5f);
  if (r.wants(1) && axis != -1)
    throw Unsupported{"output 'inv_std_var' with attribute 'axis' of " +
                      std::to_string(axis)};
  r.out(0, r.op("RMSNormalization", {r.in(0), r.need(1)},
                {I("axis", axis), F("epsilon", epsilon),
                 I("stash_type", r.integer("stash_type", 1))}));
  if (r.wants(1))
    deviation(r, r.in(0), epsilon, -1, 1);
}

// X * rsqrt(mean(X^2)) * scale * activation(gate), in float, by groups of as
// many channels as the scale has.
void gatedRmsNorm(Recipe &r) {
  std::string name = r.word("activation", "silu");
  if (name != "silu" && name != "swish" && name != "sigmoid")
    throw Unsupported{"activation '" + name + "'"};
  Val x = r.cast(r.in(0), TensorProto::FLOAT),
      gate = r.cast(r.need(2), TensorProto::FLOAT);
  Val scale = r.cast(r.need(1), TensorProto::FLOAT);
  Val rows = r.reshapeTo(x, r.concat({r.ints({-1}), r.dim(scale, 0)}, 0));
  Val y = r.op("RMSNormalization", {rows, scale},
               {I("axis", -1), F("epsilon", r.number("epsilon", 1e-5f)),
                I("stash_type", 1)});
  Val open = r.op("Sigmoid", {gate});
  y = r.mul(r.reshapeTo(y, r.op("Shape", {x})),
            name == "sigmoid" ? open : r.mul(gate, open));
  r.out(0, r.castLike(y, r.in(0)));
}
void gatedAdd(Recipe &r) {
  r.refuseInput(3, "gate_weight");
  r.out(0, r.add(r.in(0), r.mul(r.need(1), r.need(2))));
}

// Statistics and the affine part in float, whatever the types of both are.
void groupNorm(Recipe &r, const Val &sum) {
  bool last = r.integer("channels_last", 1);
  int64_t activation = r.integer("activation", 0);
  if (activation != 0 && activation != 1)
    r.onlyValue("activation", 1);
  int n = r.rank(0);
  Val x =
      r.cast(last ? moveChannels(r, sum, n, false) : sum, TensorProto::FLOAT);
  Val y = r.op("GroupNormalization",
               {x, r.cast(r.need(1), TensorProto::FLOAT),
                r.cast(r.need(2), TensorProto::FLOAT)},
               {I("num_groups", r.positive("groups")),
                F("epsilon", r.number("epsilon", 1e-5f)), I("stash_type", 1)});
  if (activation)
    y = r.mul(y, r.op("Sigmoid", {y}));
  r.out(0, r.castLike(last ? moveChannels(r, y, n, true) : y, r.in(0)));
}
void plainGroupNorm(Recipe &r) { groupNorm(r, r.in(0)); }
void skipGroupNorm(Recipe &r) {
  bool last = r.integer("channels_last", 1);
  int n = r.rank(0), skipRank = r.rank(3);
  Val skip = r.need(3), bias = r.in(4);
  std::vector<int64_t> spatial;
  for (int k = 2; k < n; ++k)
    spatial.push_back(last ? k - 1 : k);
  if (skipRank == 2)
    skip = r.unsqueeze(skip, spatial);
  else if (skipRank != n)
    throw Unsupported{"rank " + std::to_string(skipRank) + " of input 'skip'"};
  if (!bias.empty() && !last) {
    for (int64_t &a : spatial)
      --a;
    bias = r.unsqueeze(bias, spatial);
  }
  Val sum = r.addIf(r.add(r.in(0), skip), bias);
  r.out(1, sum);
  groupNorm(r, sum);
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

struct Embedding {
  Val words, positions, segments, gamma, beta, ids, segmentIds, mask,
      positionIds;
};
void embed(Recipe &r, const Embedding &e) {
  Val sum = r.op("Gather", {e.words, e.ids}, {I("axis", 0)});
  Val places =
      e.positionIds.empty()
          ? r.slice(e.positions, 0, r.ints({0}), r.dim(e.ids, 1))
          : r.op("Gather", {e.positions, e.positionIds}, {I("axis", 0)});
  sum = r.add(sum, places);
  if (!e.segmentIds.empty() && !e.segments.empty())
    sum =
        r.add(sum, r.op("Gather", {e.segments, e.segmentIds}, {I("axis", 0)}));
  r.out(0, r.op("LayerNormalization", {sum, e.gamma, e.beta},
                {I("axis", -1), F("epsilon", r.number("epsilon", 1e-12f)),
                 I("stash_type", 1)}));
  if (r.wants(1)) { // the number of ones in each row
    Val one = r.castLike(r.intScalar(1), e.ids);
    Val ones = e.mask.empty() ? r.mul(e.ids, r.castLike(r.intScalar(0), e.ids))
                              : r.castLike(r.op("Equal", {e.mask, one}), e.ids);
    r.out(1, r.reduce("ReduceSum", ones, {1}, false));
  }
  r.out(2, sum);
}
void embedLayerNormalization(Recipe &r) {
  r.need(2), r.need(3), r.need(5), r.need(6);
  embed(r, {r.in(2), r.in(3), r.in(4), r.in(5), r.in(6), r.in(0), r.in(1),
            r.in(7), r.in(8)});
}
void qEmbedLayerNormalization(Recipe &r) {
  auto real = [&](int data, int scale, int zero) {
    return r.has(data) ? r.op("DequantizeLinear",
                              {r.in(data), r.need(scale), r.need(zero)})
                       : Val();
  };
  embed(r, {real(2, 8, 13), real(3, 9, 14), real(4, 10, 15), real(5, 11, 16),
            real(6, 12, 17), r.in(0), r.in(1), r.in(7), Val()});
}

} // namespace

llvm::ArrayRef<ContribOperator> fusedOperators() {
  static const std::vector<ContribOperator> list = {
      {"Gelu", plainGelu, 1, 1, {}},
      {"BiasGelu", biasGelu, 2, 1, {}},
      {"FastGelu", fastGelu, 2, 1, {}},
      {"QuickGelu", quickGelu, 1, 1, {"alpha"}},
      {"BiasSplitGelu", biasSplitGelu, 2, 1, {}},
      {"ScaledSiLU", scaledSilu, 2, 1, {"alpha"}},
      {"BiasAdd", biasAdd, 3, 1, {}},
      {"BiasDropout", biasDropout, 5, 2, {"seed"}},
      {"BitmaskDropout", bitmaskDropout, 3, 2, {"seed"}},
      {"BiasSoftmax", biasSoftmax, 2, 1, {"axis", "is_inner_broadcast"}},
      {"FusedMatMul",
       fusedMatMul,
       2,
       1,
       {"alpha", "transA", "transB", "transBatchA", "transBatchB"}},
      {"TransposeMatMul", fusedMatMul, 2, 1, {"alpha", "transA", "transB"}},
      {"FusedMatMulActivation",
       fusedMatMulActivation,
       2,
       1,
       {"alpha", "transA", "transB", "transBatchA", "transBatchB", "activation",
        "activation_alpha", "activation_beta", "activation_gamma"}},
      {"FusedGemm",
       fusedGemm,
       3,
       1,
       {"alpha", "beta", "transA", "transB", "activation", "activation_alpha",
        "activation_beta", "activation_gamma"}},
      {"GemmFastGelu", gemmFastGelu, 3, 1, {}},
      {"FusedConv",
       fusedConv,
       4,
       1,
       {"activation", "activation_params", "auto_pad", "dilations", "group",
        "kernel_shape", "pads", "strides"}},
      {"NhwcFusedConv",
       nhwcFusedConv,
       4,
       1,
       {"activation", "activation_params", "auto_pad", "dilations", "group",
        "kernel_shape", "pads", "strides"}},
      {"ConvTransposeWithDynamicPads",
       convTransposeWithDynamicPads,
       4,
       1,
       {"auto_pad", "dilations", "group", "kernel_shape", "output_padding",
        "strides"}},
      {"SkipLayerNormalization", skipLayerNormalization, 5, 4, {"epsilon"}},
      {"SkipSimplifiedLayerNormalization",
       skipSimplifiedLayerNormalization,
       4,
       4,
       {"epsilon"}},
      {"SimplifiedLayerNormalization",
       simplifiedLayerNormalization,
       2,
       2,
       {"axis", "epsilon", "stash_type"}},
      {"GatedRMSNorm", gatedRmsNorm, 3, 1, {"activation", "epsilon"}},
      {"GatedAdd", gatedAdd, 4, 1, {}},
      {"GroupNorm",
       plainGroupNorm,
       3,
       1,
       {"activation", "channels_last", "epsilon", "groups"}},
      {"SkipGroupNorm",
       skipGroupNorm,
       5,
       2,
       {"activation", "channels_last", "epsilon", "groups"}},
      {"EmbedLayerNormalization",
       embedLayerNormalization,
       9,
       3,
       {"epsilon", "mask_index_type"}},
      {"QEmbedLayerNormalization",
       qEmbedLayerNormalization,
       18,
       2,
       {"epsilon", "mask_index_type"}},
  };
  return list;
}

} // namespace tessera::onnx_import
