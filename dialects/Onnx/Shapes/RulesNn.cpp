// Shapes of the operators of ONNX's nn category.
#include "dialects/Onnx/Shapes/ShapeWindows.h"

using namespace mlir;
using namespace tessera::onnx;

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

TESSERA_SHAPE_RULES(Conv, "Conv", "ConvInteger", "DeformConv", "com.microsoft.FusedConv") {
  s.set(0, convolvedDims(s, s.dims(0), s.dims(1)));
}
TESSERA_SHAPE_RULES(QLinearConv, "QLinearConv", "com.microsoft.QLinearConv") {
  s.set(0, convolvedDims(s, s.dims(0), s.dims(3), s.getInt("channels_last") != 0));
}

TESSERA_SHAPE_RULE(ConvTranspose) {
  auto in = s.dims(0), weights = s.dims(1);
  if (in.size() < 3 || weights.size() != in.size())
    s.contradict("input and weights of " + describe(s.op) + " have ranks " + Twine(in.size()) +
                 " and " + Twine(weights.size()));
  size_t rank = in.size() - 2;
  s.unify(in[1], weights[0], "input channels");
  Windows w = Windows::of(s, rank);
  SymDims kernel = kernelShape(s, rank, weights.drop_front(2));
  SmallVector<int64_t> extra = s.getInts("output_padding"), wanted = s.getInts("output_shape");
  if (extra.empty())
    extra.assign(rank, 0);
  SymDims out{in[0], s.ctx.mul(weights[1], s.c(s.getInt("group", 1)))};
  if (!wanted.empty() && wanted.size() != rank && wanted.size() != rank + 2)
    s.contradict("output_shape of " + describe(s.op) + " has " + Twine(wanted.size()) +
                 " entries for " + Twine(rank) + " spatial axes");
  for (size_t i = 0; i < rank; ++i) {
    Sym stride = s.c(w.strides[i]), size = in[2 + i];
    if (!wanted.empty()) {
      out.push_back(s.c(wanted[wanted.size() - rank + i]));
      continue;
    }
    if (w.autoPad == "SAME_UPPER" || w.autoPad == "SAME_LOWER") {
      out.push_back(s.ctx.mul(size, stride));
      continue;
    }
    Sym full = s.ctx.add(s.ctx.mul(s.ctx.sub(size, s.c(1)), stride),
                         s.ctx.add(w.effectiveKernel(s.ctx, i, kernel[i]), s.c(extra[i])));
    int64_t pads = w.autoPad == "VALID" ? 0 : w.padsBegin[i] + w.padsEnd[i];
    out.push_back(s.ctx.sub(full, s.c(pads)));
  }
  s.set(0, out);
}

TESSERA_SHAPE_RULE(Col2Im) {
  auto in = s.dims(0);
  s.expectRank(0, 3);
  SymDims block = s.ints(2);
  SymDims out{in[0], s.ctx.floorDiv(in[1], s.ctx.product(block))};
  llvm::append_range(out, s.ints(1));
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(Col2Im, 1u << 1, 1u << 2, "Col2Im");

TESSERA_SHAPE_RULE(CausalConvWithState) {
  auto in = s.dims(0), weights = s.dims(1);
  s.set(0, in);
  s.set(1, {in[0], in[1], s.ctx.sub(weights[2], s.c(1))});
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

TESSERA_SHAPE_RULES(Pool, "AveragePool", "LpPool", "MaxPool") {
  s.setAll(pooledDims(s, s.dims(0)));
}

TESSERA_SHAPE_RULES(GlobalPool, "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool") {
  SymDims out(s.dims(0));
  for (size_t i = 2; i < out.size(); ++i)
    out[i] = s.c(1);
  s.set(0, out);
}

TESSERA_SHAPE_RULE(MaxUnpool) {
  if (s.has(2)) {
    SymDims out = s.ints(2);
    s.set(0, out);
    return;
  }
  auto in = s.dims(0);
  size_t rank = in.size() - 2;
  Windows w = Windows::of(s, rank);
  SymDims kernel = kernelShape(s, rank), out{in[0], in[1]};
  for (size_t i = 0; i < rank; ++i)
    out.push_back(s.ctx.add(
        s.ctx.mul(s.ctx.sub(in[2 + i], s.c(1)), s.c(w.strides[i])),
        s.ctx.sub(kernel[i], s.c(w.padsBegin[i] + w.padsEnd[i]))));
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(MaxUnpool, 1u << 2, 0, "MaxUnpool");

TESSERA_SHAPE_RULE(MaxRoiPool) {
  auto in = s.dims(0);
  SymDims out{s.dims(1)[0], in[1]};
  for (int64_t v : s.getInts("pooled_shape"))
    out.push_back(s.c(v));
  s.set(0, out);
}

//===----------------------------------------------------------------------===//
// Normalisation and elementwise
//===----------------------------------------------------------------------===//

TESSERA_SHAPE_RULES(SameAsInput, "GroupNormalization", "InstanceNormalization", "LRN",
                    "LpNormalization", "MeanVarianceNormalization", "RMSNormalization",
                    "RotaryEmbedding", "Shrink") {
  s.set(0, s.dims(0));
}

TESSERA_SHAPE_RULE(BatchNormalization) {
  s.set(0, s.dims(0));
  for (unsigned i : {1u, 2u})
    if (s.out(i))
      s.set(i, s.dims(i + 2));
}

TESSERA_SHAPE_RULES(LayerNormalization, "LayerNormalization", "com.microsoft.LayerNormalization",
                    "com.microsoft.SimplifiedLayerNormalization",
                    "SimplifiedLayerNormalization") {
  auto in = s.dims(0);
  s.set(0, in);
  SymDims stats(in);
  for (size_t i = s.getAxis("axis", -1, in.size()); i < stats.size(); ++i)
    stats[i] = s.c(1);
  s.set(1, stats);
  s.set(2, stats);
}

TESSERA_SHAPE_RULE(Dropout) { s.setAll(s.dims(0)); }

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

// Q is [batch, heads, length, size] or [batch, length, heads * size].
TESSERA_SHAPE_RULE(Attention) {
  auto q = s.dims(0), k = s.dims(1), v = s.dims(2);
  bool packed = q.size() == 3;
  Sym qHeads = packed ? s.c(s.getInt("q_num_heads")) : q[1];
  Sym kvHeads = packed ? s.c(s.getInt("kv_num_heads")) : k[1];
  if (packed && (qHeads->isConstant(0) || kvHeads->isConstant(0)))
    s.contradict(describe(s.op) + " has packed inputs but no q_num_heads or kv_num_heads");
  Sym queries = packed ? q[1] : q[2], keys = packed ? k[1] : k[2];
  Sym keySize = packed ? s.ctx.floorDiv(k[2], kvHeads) : k[3];
  Sym valueSize = packed ? s.ctx.floorDiv(v[2], kvHeads) : v[3];
  Sym total = s.has(4) ? s.ctx.add(s.dims(4)[2], keys) : keys;
  if (packed)
    s.set(0, {q[0], queries, s.ctx.mul(qHeads, valueSize)});
  else
    s.set(0, {q[0], qHeads, queries, valueSize});
  s.set(1, {k[0], kvHeads, total, keySize});
  s.set(2, {k[0], kvHeads, total, valueSize});
  s.set(3, {q[0], qHeads, queries, total});
}

TESSERA_SHAPE_RULE(LinearAttention) {
  auto q = s.dims(0), k = s.dims(1), v = s.dims(2);
  Sym qHeads = s.c(s.getInt("q_num_heads", 1)), kvHeads = s.c(s.getInt("kv_num_heads", 1));
  Sym keySize = s.ctx.floorDiv(k[2], kvHeads), valueSize = s.ctx.floorDiv(v[2], kvHeads);
  s.set(0, {q[0], q[1], s.ctx.mul(qHeads, valueSize)});
  s.set(1, {q[0], kvHeads, keySize, valueSize});
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

TESSERA_SHAPE_RULE(TfIdfVectorizer) {
  int64_t highest = -1;
  for (int64_t i : s.getInts("ngram_indexes"))
    highest = std::max(highest, i);
  SymDims out(s.dims(0));
  if (out.empty())
    out.push_back(s.c(highest + 1));
  else
    out.back() = s.c(highest + 1);
  s.set(0, out);
}
