// Shapes of the operators of com.microsoft, which arrive as onnx.Custom.
#include "dialects/Onnx/Shapes/ShapeWindows.h"

using namespace mlir;
using namespace tessera::onnx;

TESSERA_SHAPE_RULES(SameAsInput, "com.microsoft.BiasAdd", "com.microsoft.BiasDropout",
                    "com.microsoft.BiasGelu", "com.microsoft.BiasSoftmax",
                    "com.microsoft.DequantizeBFP", "com.microsoft.FastGelu", "com.microsoft.Gelu",
                    "com.microsoft.GroupNorm", "com.microsoft.Inverse",
                    "com.microsoft.QLinearLeakyRelu", "com.microsoft.QLinearSigmoid",
                    "com.microsoft.QLinearSoftmax", "com.microsoft.QuickGelu",
                    "com.microsoft.RotaryEmbedding", "com.microsoft.Trilu", "tessera.Requantise") {
  s.setAll(s.dims(0));
}

// SkipLayerNormalization(input, skip, gamma, ...) -> output, mean, inv_std, sum
TESSERA_SHAPE_RULES(SkipNormalization, "com.microsoft.SkipLayerNormalization",
                    "com.microsoft.SkipSimplifiedLayerNormalization") {
  auto in = s.dims(0);
  SymDims stats(in);
  if (!stats.empty())
    stats.back() = s.c(1);
  s.set(0, in);
  s.set(1, stats);
  s.set(2, stats);
  s.set(3, in);
}

// EmbedLayerNormalization(ids, segment ids, word embedding, ...) -> output, mask index, sum
TESSERA_SHAPE_RULES(EmbedNormalization, "com.microsoft.EmbedLayerNormalization",
                    "com.microsoft.QEmbedLayerNormalization") {
  auto ids = s.dims(0);
  SymDims out(ids);
  out.push_back(s.dims(2)[1]);
  s.set(0, out);
  s.set(1, {ids[0]});
  s.set(2, out);
}

//===----------------------------------------------------------------------===//
// Quantised elementwise, joining, pooling
//===----------------------------------------------------------------------===//

// (A, A_scale, A_zero_point, B, B_scale, B_zero_point, C_scale, C_zero_point)
TESSERA_SHAPE_RULES(QLinearBinary, "com.microsoft.QLinearAdd", "com.microsoft.QLinearMul") {
  s.set(0, s.broadcast(s.dims(0), s.dims(3)));
}
TESSERA_SHAPE_RULES(QLinearWhere, "com.microsoft.QLinearWhere") {
  s.set(0, s.broadcast(s.broadcast(s.dims(0), s.dims(1)), s.dims(4)));
}

// (Y_scale, Y_zero_point, then tensor, scale, zero point of each)
TESSERA_SHAPE_RULES(QLinearConcat, "com.microsoft.QLinearConcat") {
  SymDims out(s.dims(2));
  int64_t axis = s.getAxis("axis", 0, out.size());
  for (unsigned i = 5; i < s.numInputs(); i += 3) {
    s.expectRank(i, out.size());
    for (auto [a, d] : llvm::enumerate(s.dims(i)))
      out[a] = static_cast<int64_t>(a) == axis ? s.ctx.add(out[a], d)
                                               : s.unify(out[a], d, "dimensions of the inputs");
  }
  s.set(0, out);
}

TESSERA_SHAPE_RULES(QLinearPool, "com.microsoft.QLinearAveragePool") {
  s.set(0, pooledDims(s, s.dims(0), s.getInt("channels_last") != 0));
}
TESSERA_SHAPE_RULES(NhwcPool, "com.microsoft.NhwcMaxPool") {
  s.set(0, pooledDims(s, s.dims(0), true));
}
TESSERA_SHAPE_RULES(QLinearGlobalPool, "com.microsoft.QLinearGlobalAveragePool") {
  SymDims out(s.dims(0));
  bool last = s.getInt("channels_last") != 0;
  for (size_t i = last ? 1 : 2; i + (last ? 1 : 0) < out.size(); ++i)
    out[i] = s.c(1);
  s.set(0, out);
}
TESSERA_SHAPE_RULES(NhwcConv, "com.microsoft.NhwcFusedConv") {
  s.set(0, convolvedDims(s, s.dims(0), s.dims(1), true));
}

TESSERA_SHAPE_RULES(QLinearReduce, "com.microsoft.QLinearReduceMean") {
  SymDims in(s.dims(0)), out;
  SmallVector<int64_t> axes = s.getInts("axes");
  SmallVector<bool> reduced(in.size(), axes.empty());
  for (int64_t a : axes)
    reduced[s.normaliseAxis(a, in.size())] = true;
  for (auto [d, r] : llvm::zip(in, reduced))
    if (!r)
      out.push_back(d);
    else if (s.getInt("keepdims", 1))
      out.push_back(s.c(1));
  s.set(0, out);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static void product(OpShapes &s, SymDims a, SymDims b, bool transA, bool transB) {
  if (a.empty() || b.empty())
    s.contradict("an operand of " + describe(s.op) + " is a scalar");
  if (transA && a.size() > 1)
    std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (transB && b.size() > 1)
    std::swap(b[b.size() - 1], b[b.size() - 2]);
  bool row = a.size() == 1, column = b.size() == 1;
  if (row)
    a.insert(a.begin(), s.c(1));
  if (column)
    b.push_back(s.c(1));
  s.unify(a.back(), b[b.size() - 2], "inner dimensions");
  SymDims out = s.broadcast(ArrayRef(a).drop_back(2), ArrayRef(b).drop_back(2));
  if (!row)
    out.push_back(a[a.size() - 2]);
  if (!column)
    out.push_back(b.back());
  s.set(0, out);
}

TESSERA_SHAPE_RULES(FusedMatMul, "com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul") {
  if (s.getInt("transBatchA") || s.getInt("transBatchB"))
    s.unknown("transposed batches of " + describe(s.op) + " are not followed");
  product(s, SymDims(s.dims(0)), SymDims(s.dims(1)), s.getInt("transA"), s.getInt("transB"));
}
TESSERA_SHAPE_RULES(QuantizedMatMul, "com.microsoft.DynamicQuantizeMatMul",
                    "com.microsoft.MatMulIntegerToFloat") {
  product(s, SymDims(s.dims(0)), SymDims(s.dims(1)), false, false);
}
TESSERA_SHAPE_RULES(QGemm, "com.microsoft.QGemm") {
  product(s, SymDims(s.dims(0)), SymDims(s.dims(3)), s.getInt("transA"), s.getInt("transB"));
}

// The weights are blocks of packed bits; K and N are attributes.
TESSERA_SHAPE_RULES(PackedMatMul, "com.microsoft.MatMulBnb4", "com.microsoft.MatMulNBits") {
  SymDims out(s.dims(0));
  if (out.empty())
    s.contradict("the input of " + describe(s.op) + " is a scalar");
  s.unify(out.back(), s.c(s.getInt("K")), "inner dimensions");
  out.back() = s.c(s.getInt("N"));
  s.set(0, out);
}

TESSERA_SHAPE_RULES(GatherBlockQuantized, "com.microsoft.GatherBlockQuantized") {
  SymDims data(s.dims(0));
  int64_t axis = s.getAxis("gather_axis", 0, data.size());
  if (auto type = dyn_cast<TensorType>(s.in(0).getType()))
    if (int64_t bits = s.getInt("bits", 4);
        type.getElementType().isIntOrFloat() && type.getElementType().getIntOrFloatBitWidth() == 8 && bits < 8)
      data.back() = s.ctx.mul(data.back(), s.c(8 / bits));
  SymDims out(ArrayRef(data).take_front(axis));
  llvm::append_range(out, s.dims(1));
  llvm::append_range(out, ArrayRef(data).drop_front(axis + 1));
  s.set(0, out);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

// input [batch, length, width], weights [width, 3 * hidden]; past and present
// are [2, batch, heads, length, size].
static void selfAttention(OpShapes &s, unsigned pastPosition) {
  auto in = s.dims(0), weights = s.dims(1);
  SmallVector<int64_t> sizes = s.getInts("qkv_hidden_sizes");
  Sym hidden = sizes.size() == 3 ? s.c(sizes[2]) : s.ctx.floorDiv(weights.back(), s.c(3));
  s.set(0, {in[0], in[1], hidden});
  Sym heads = s.c(s.getInt("num_heads", 1));
  Sym length = in[1];
  if (s.has(pastPosition))
    length = s.ctx.add(length, s.dims(pastPosition)[3]);
  s.set(1, {s.c(2), in[0], heads, length, s.ctx.floorDiv(hidden, heads)});
}
TESSERA_SHAPE_RULES(ContribAttention, "com.microsoft.Attention") { selfAttention(s, 4); }
TESSERA_SHAPE_RULES(QAttention, "com.microsoft.QAttention") { selfAttention(s, 8); }

// query [batch, length, width], or packed [batch, length, heads, 3, size]; key
// and value packed as one are [batch, length, heads, 2, size], or come from a
// cache [batch, heads, length, size].
TESSERA_SHAPE_RULES(MultiHeadAttention, "com.microsoft.MultiHeadAttention") {
  auto q = s.dims(0);
  Sym heads = s.c(s.getInt("num_heads", 1));
  Sym hidden, keys, size, valueSize;
  if (q.size() == 5) {
    hidden = s.ctx.mul(q[2], q[4]);
    keys = q[1];
    size = valueSize = q[4];
  } else {
    auto k = s.dims(1);
    size = s.ctx.floorDiv(q[2], heads);
    if (k.size() == 5) {
      keys = k[1];
      valueSize = k[4];
      hidden = s.ctx.mul(k[2], k[4]);
    } else {
      auto v = s.dims(2);
      keys = k.size() == 4 ? k[2] : k[1];
      hidden = v.size() == 4 ? s.ctx.mul(v[1], v[3]) : v[2];
      valueSize = s.ctx.floorDiv(hidden, heads);
    }
  }
  s.set(0, {q[0], q[1], hidden});
  Sym total = s.has(6) ? s.ctx.add(keys, s.dims(6)[2]) : keys;
  s.set(1, {q[0], heads, total, size});
  s.set(2, {q[0], heads, total, valueSize});
  s.set(3, {q[0], heads, q[1], total});
}

// (query, key, value, past_key, past_value, seqlens_k, total_sequence_length, ...)
TESSERA_SHAPE_RULES(GroupQueryAttention, "com.microsoft.GroupQueryAttention") {
  auto q = s.dims(0);
  Sym heads = s.c(s.getInt("num_heads", 1)), kvHeads = s.c(s.getInt("kv_num_heads", 1));
  bool packed = !s.has(1);
  Sym size = packed ? s.ctx.floorDiv(q[2], s.ctx.add(heads, s.ctx.mul(kvHeads, s.c(2))))
                    : s.ctx.floorDiv(q[2], heads);
  s.set(0, {q[0], q[1], packed ? s.ctx.mul(heads, size) : q[2]});
  if (!s.out(1))
    return;
  Sym total = s.scalar(6);
  if (s.has(3))
    total = s.ctx.max(total, s.dims(3)[2]);
  s.set(1, {q[0], kvHeads, total, size});
  s.set(2, {q[0], kvHeads, total, size});
}
