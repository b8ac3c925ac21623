// Weights of few bits. Packed bytes are, as they lie, tensors of narrow
// integers; only the rows of zero points are padded to whole bytes.
#include "compiler/Import/Contrib.h"
#include "llvm/Support/MathExtras.h"

namespace tessera::onnx_import {

namespace {

using T = TensorProto;

int narrowType(int64_t bits) {
  return bits == 2   ? T::UINT2
         : bits == 4 ? T::UINT4
         : bits == 8 ? T::UINT8
                     : T::UNDEFINED;
}

/// Bits of so many integers; nothing where that is more than any tensor has.
std::optional<int64_t> totalBits(const std::vector<int64_t> &dims,
                                 int64_t bits) {
  int64_t n = bits;
  for (int64_t d : dims)
    if (llvm::MulOverflow(n, d, n))
      return std::nullopt;
  return n;
}

// The packed bytes of a constant become a new initialiser of narrow integers.
class Repacking {
public:
  Repacking(Recipe &r, int64_t bits)
      : r(r), bits(bits), type(narrowType(bits)) {
    if (!type)
      throw Unsupported{"attribute 'bits' of " + std::to_string(bits)};
  }

  /// Input `i` as `dims` integers.
  Val bytes(int i, const std::vector<int64_t> &dims) {
    if (!r.call.node)
      return placeholder(dims);
    const T &packed = constant(i);
    if (totalBits(dims, bits) !=
        elementCount(packed, describe(*r.call.node)) * 8)
      fail(*r.call.node, "input 'B' does not have the size that N, K, bits and "
                         "block_size give");
    std::string name =
        r.call.node->input(i) + "/" + std::to_string(bits) + "bit";
    for (int64_t d : dims)
      name += "/" + std::to_string(d);
    auto [it, fresh] = r.call.made->try_emplace(name);
    if (fresh) {
      it->second = r.call.names->unique(name);
      T t = packed;
      add(t, it->second, dims);
    }
    return bind(i, it->second);
  }

  /// Input `i` with rows of `dims[1]` integers, each padded to whole bytes;
  /// where it is absent the middle of the range.
  Val zeroPoints(int i, const std::vector<int64_t> &dims) {
    if (!r.call.node)
      return placeholder(dims);
    int64_t rows = dims[0], columns = dims[1];
    std::string raw((size_t)((rows * columns * bits + 7) / 8), '\0');
    auto put = [&](int64_t at, unsigned value) {
      raw[at * bits / 8] |= (char)(value << (at * bits % 8));
    };
    if (!r.has(i)) {
      for (int64_t k = 0; k < rows * columns; ++k)
        put(k, 1u << (bits - 1));
    } else {
      std::vector<char> storage;
      std::shared_ptr<const void> owner;
      llvm::ArrayRef<char> given =
          tensorBytes(*r.call.model, constant(i), storage, owner);
      int64_t row = (columns * bits + 7) / 8;
      if ((int64_t)given.size() != rows * row)
        fail(*r.call.node, "input 'zero_points' does not have the size that N "
                           "and K give");
      for (int64_t a = 0; a < rows; ++a)
        for (int64_t c = 0; c < columns; ++c)
          put(a * columns + c,
              ((unsigned char)given[a * row + c * bits / 8] >> (c * bits % 8)) &
                  ((1u << bits) - 1));
    }
    T t;
    t.set_raw_data(raw);
    std::string name =
        r.call.names->unique(locationName(*r.call.node) + "/zero_points");
    add(t, name, dims);
    return bind(i, name);
  }

private:
  // For inference of types: something of that type.
  Val placeholder(const std::vector<int64_t> &dims) {
    return r.cast(r.op("ConstantOfShape", {r.ints(dims)}), type);
  }
  const T &constant(int i) {
    r.need(i);
    const T *t = r.call.constants[i];
    if (!t || t->data_type() != T::UINT8)
      throw Unsupported{"input " + std::to_string(i) +
                        " that is not a constant of uint8"};
    return *t;
  }
  GraphProto &graph() { return *r.call.model->proto.mutable_graph(); }
  void add(T &t, const std::string &name, const std::vector<int64_t> &dims) {
    t.set_name(name);
    t.set_data_type(type);
    t.clear_dims();
    for (int64_t d : dims)
      t.add_dims(d);
    graph().add_initializer()->Swap(&t);
  }
  // The call passes the new tensor in place of the old.
  Val bind(int i, const std::string &name) {
    NodeProto &node = *r.call.node;
    while (node.input_size() <= i)
      node.add_input("");
    node.set_input(i, name);
    return "i" + std::to_string(i);
  }

  Recipe &r;
  int64_t bits;
  int type;
};

// A, B [N, blocks, bytes], scales, zero points, g_idx, bias. Rows of K integers
// have a scale and a zero point (packed, or real) a block; with g_idx the group
// of an integer is said for each.
void matMulNBits(Recipe &r) {
  int64_t n = r.positive("N"), k = r.positive("K"),
          block = r.positive("block_size");
  r.onlyValue("weight_prepacked", 0);
  Repacking packed(r, r.integer("bits", 4));
  int64_t blocks = (k + block - 1) / block;
  Val q = packed.bytes(1, {n, blocks * block});
  Val scales = r.reshape(r.need(2), {n, blocks});
  if (r.has(4))
    r.refuseInput(
        3, "zero_points together with g_idx"); // onnxruntime leaves them aside
  bool realZeros = r.has(3) && r.elementType(3) != T::UINT8;
  Val zeros = realZeros ? r.reshape(r.in(3), {n, blocks})
                        : packed.zeroPoints(3, {n, blocks});
  auto firstColumns = [&](const Val &w) {
    return blocks * block == k ? w : r.slice(w, 1, 0, k);
  };
  Val w;
  if (!realZeros && !r.has(4)) {
    w = firstColumns(r.op("DequantizeLinear", {q, scales, zeros},
                          {I("axis", 1), I("block_size", block)}));
  } else {
    Val group = r.has(4) ? r.slice(r.in(4), 0, 0, k)
                         : r.div(r.count(r.ints({k})), r.intScalar(block));
    auto ofEach = [&](const Val &v) {
      return r.op("Gather", {v, group}, {I("axis", 1)});
    };
    Val offset = r.sub(firstColumns(r.castLike(q, scales)),
                       ofEach(r.castLike(zeros, scales)));
    w = r.mul(offset, ofEach(scales));
  }
  r.out(0, r.addIf(r.matmul(r.in(0), r.transpose(w, {1, 0})), r.in(5)));
}

// A, B [N * K / 2], one scale for block_size integers of the flat weights. The
// codes are those of bitsandbytes; the first of two lies in the upper half.
void matMulBnb4(Recipe &r) {
  static const std::vector<float> fp4 = {0.0f,         5.208333333e-03f,
                                         0.66666667f,  1.0f,
                                         0.33333333f,  0.5f,
                                         0.16666667f,  0.25f,
                                         -0.0f,        -5.208333333e-03f,
                                         -0.66666667f, -1.0f,
                                         -0.33333333f, -0.5f,
                                         -0.16666667f, -0.25f};
  static const std::vector<float> nf4 = {-1.0f,
                                         -0.6961928009986877f,
                                         -0.5250730514526367f,
                                         -0.39491748809814453f,
                                         -0.28444138169288635f,
                                         -0.18477343022823334f,
                                         -0.09105003625154495f,
                                         0.0f,
                                         0.07958029955625534f,
                                         0.16093020141124725f,
                                         0.24611230194568634f,
                                         0.33791524171829224f,
                                         0.44070982933044434f,
                                         0.5626170039176941f,
                                         0.7229568362236023f,
                                         1.0f};
  int64_t n = r.positive("N"), k = r.positive("K"),
          block = r.positive("block_size");
  int64_t kind = r.integer("quant_type", -1);
  if (kind != 0 && kind != 1)
    throw Unsupported{"attribute 'quant_type' of " + std::to_string(kind)};
  r.onlyValue("training_mode", 0);
  r.onlyValue(
      "transB",
      1); // onnxruntime's result for the other is not that of its schema
  Val bytes = r.need(1), absmax = r.need(2);
  Val upper = r.op("BitShift", {bytes, r.castLike(r.intScalar(4), bytes)},
                   {S("direction", "RIGHT")});
  Val lower = r.op("BitwiseAnd", {bytes, r.castLike(r.intScalar(15), bytes)});
  Val codes = r.reshape(
      r.concat({r.unsqueeze(upper, {1}), r.unsqueeze(lower, {1})}, 1), {-1});
  codes = r.cast(r.slice(codes, 0, 0, n * k), T::INT64);
  Val w =
      r.op("Gather", {r.castLike(r.floatList(kind ? nf4 : fp4), absmax), codes},
           {I("axis", 0)});
  Val group = r.op("Div", {r.count(r.ints({n * k})), r.intScalar(block)});
  w = r.reshape(r.mul(w, r.op("Gather", {absmax, group}, {I("axis", 0)})),
                {n, k});
  r.out(0, r.matmul(r.in(0), r.transpose(w, {1, 0})));
}

/// The integers of `bits` bits in the bytes of the last axis, the low ones
/// first.
Val unpacked(Recipe &r, const Val &bytes, int64_t bits, int rank) {
  if (bits == 8)
    return bytes;
  std::vector<Val> parts;
  for (int64_t at = 0; at < 8; at += bits) {
    Val shifted = r.op("BitShift", {bytes, r.castLike(r.intScalar(at), bytes)},
                       {S("direction", "RIGHT")});
    Val low = r.op("BitwiseAnd",
                   {shifted, r.castLike(r.intScalar((1 << bits) - 1), bytes)});
    parts.push_back(r.unsqueeze(low, {rank}));
  }
  std::vector<int64_t> shape(rank, 0);
  shape.back() = -1;
  return r.reshape(r.concat(parts, rank), shape);
}

// data, indices, scales, zero points. What is gathered is unpacked and
// dequantised, not the table; an index out of range gives zeros.
void gatherBlockQuantized(Recipe &r) {
  int n = r.rank(0), type = r.elementType(0), extra = r.rank(1) - 1;
  int64_t gather = r.integer("gather_axis", 0),
          along = r.integer("quantize_axis", 1);
  int64_t block = r.find("block_size", AttributeProto::INT)
                      ? r.positive("block_size")
                      : 128;
  gather += gather < 0 ? n : 0;
  along += along < 0 ? n : 0;
  if (gather < 0 || gather >= n || along < 0 || along >= n)
    throw Unsupported{"an axis of input 'data' that it does not have"};
  if (gather == along)
    throw Unsupported{"attribute 'gather_axis' equal to 'quantize_axis'"};
  int64_t bits = r.integer("bits", 4);
  bool packed = type == T::UINT8;
  if (packed ? !narrowType(bits) || gather == n - 1
             : type != T::INT4 && type != T::UINT4)
    throw Unsupported{"the element type of input 'data' with 'bits' of " +
                      std::to_string(bits)};
  if (!packed)
    r.onlyValue("bits", 4);
  Val indices = r.cast(r.need(1), T::INT64),
      size = r.squeeze(r.dim(r.in(0), gather), {0});
  Val valid =
      r.op("And", {r.op("Less", {indices, size}),
                   r.op("GreaterOrEqual", {indices, r.op("Neg", {size})})});
  indices = r.where(valid, indices, r.intScalar(0));
  auto pick = [&](const Val &v) {
    return r.op("Gather", {v, indices}, {I("axis", gather)});
  };
  auto integers = [&](int i) { // Gather has no narrow types
    return packed ? unpacked(r, pick(r.in(i)), bits, n + extra)
                  : pick(r.cast(r.in(i), type == T::INT4 ? T::INT8 : T::UINT8));
  };
  Val data = integers(0), scales = pick(r.need(2)), zeros;
  if (r.has(3)) {
    zeros = integers(3);
    if (packed) // rows are padded to whole bytes
      zeros = r.slice(zeros, n + extra - 1, r.ints({0}),
                      r.dim(scales, n + extra - 1));
  } else if (packed) {
    zeros = r.op("Expand", {r.castLike(r.intScalar(1 << (bits - 1)), data),
                            r.op("Shape", {scales})});
  }
  Val y = r.op("DequantizeLinear", {data, scales, zeros},
               {I("axis", along > gather ? along + extra : along),
                I("block_size", block)});
  std::vector<int64_t> behind; // the axes of data behind the gathered one
  for (int64_t i = gather + 1; i < n; ++i)
    behind.push_back(i - n);
  if (!behind.empty())
    valid = r.unsqueeze(valid, behind);
  r.out(0, r.where(valid, y, r.scalarLike(0, y)));
}

} // namespace

llvm::ArrayRef<ContribOperator> packedOperators() {
  static const std::vector<ContribOperator> list = {
      {"MatMulNBits",
       matMulNBits,
       6,
       1,
       {"K", "N", "accuracy_level", "bits", "block_size", "weight_prepacked"}},
      {"MatMulBnb4",
       matMulBnb4,
       3,
       1,
       {"K", "N", "block_size", "quant_type", "training_mode", "transB"}},
      {"GatherBlockQuantized",
       gatherBlockQuantized,
       4,
       1,
       {"bits", "block_size", "gather_axis", "quantize_axis"}},
  };
  return list;
}

} // namespace tessera::onnx_import
