// Operators of com.microsoft, written in operators of ONNX. Each becomes a call
// of a function made for it, in ONNX's text form, which Inline.cpp expands. What
// a recipe does not cover (an input or attribute outside it) leaves the node as
// it is, and the reason as a warning.
#include "compiler/Import/Model.h"
#include "llvm/Support/MathExtras.h"
#include "onnx/defs/parser.h"

#include <sstream>

namespace tessera::onnx_import {

namespace {

using T = TensorProto;

// Why a node stays as it is.
struct Unsupported {
  std::string why;
};

class Recipe {
public:
  Recipe(Model &model, NodeProto &node) : model(model), node(node) {}

  // The text of the function, inputs i0.. and outputs o0.. Empty: no recipe.
  std::string text() {
    const std::string &op = node.op_type();
    if (op == "Gelu")
      return wrap(1, "o0 = Gelu (i0)");
    if (op == "FastGelu")
      return wrap(2, has(1) ? "s = Add (i0, i1)\n o0 = Gelu <approximate = \"tanh\"> (s)"
                            : "o0 = Gelu <approximate = \"tanh\"> (i0)");
    if (op == "BiasGelu")
      return wrap(2, "s = Add (i0, i1)\n o0 = Gelu (s)");
    if (op == "QuickGelu")
      return wrap(1, constant("a", number("alpha", 1.702f), "i0") +
                         "t = Mul (i0, a)\n g = Sigmoid (t)\n o0 = Mul (i0, g)");
    if (op == "FusedMatMul" || op == "TransposeMatMul")
      return fusedMatMul();
    if (op == "FusedConv")
      return fusedConv();
    if (op == "SimplifiedLayerNormalization")
      return simplifiedLayerNormalization();
    if (op == "SkipLayerNormalization" || op == "SkipSimplifiedLayerNormalization")
      return skipLayerNormalization(op == "SkipSimplifiedLayerNormalization");
    if (op == "QuantizeLinear" || op == "DequantizeLinear")
      return wrap(3, "o0 = " + op + " <axis = " + std::to_string(integer("axis", 1)) + "> (i0, i1, i2)");
    if (op == "QLinearAdd" || op == "QLinearMul")
      return wrap(8, "a = DequantizeLinear (i0, i1, i2)\n b = DequantizeLinear (i3, i4, i5)\n"
                     "c = " + op.substr(7) + " (a, b)\n o0 = QuantizeLinear (c, i6, i7)");
    if (op == "QLinearSigmoid" || op == "QLinearLeakyRelu" || op == "QLinearGlobalAveragePool" ||
        op == "QLinearSoftmax")
      return qlinearUnary(op.substr(7));
    if (op == "QLinearConcat")
      return qlinearConcat();
    if (op == "MatMulIntegerToFloat")
      return matMulIntegerToFloat();
    if (op == "DynamicQuantizeMatMul")
      return dynamicQuantizeMatMul();
    if (op == "MatMulNBits")
      return matMulNBits();
    if (op == "MultiHeadAttention")
      return multiHeadAttention();
    if (op == "GroupQueryAttention")
      return groupQueryAttention();
    return "";
  }

private:
  //===--------------------------------------------------------------------===//
  // Reading the node
  //===--------------------------------------------------------------------===//

  bool has(int i) const { return i < node.input_size() && !node.input(i).empty(); }
  bool wants(int i) const { return i < node.output_size() && !node.output(i).empty(); }
  // No schema has checked these operators, so the kind of an attribute is checked here.
  const AttributeProto *find(const std::string &name, AttributeProto::AttributeType type) const {
    for (auto &a : node.attribute()) {
      if (a.name() != name)
        continue;
      if (a.type() != type)
        fail(node, "attribute '" + name + "' is of type " +
                       AttributeProto::AttributeType_Name(a.type()) + ", expected " +
                       AttributeProto::AttributeType_Name(type));
      return &a;
    }
    return nullptr;
  }
  int64_t integer(const std::string &name, int64_t fallback) const {
    const AttributeProto *a = find(name, AttributeProto::INT);
    return a ? a->i() : fallback;
  }
  float number(const std::string &name, float fallback) const {
    const AttributeProto *a = find(name, AttributeProto::FLOAT);
    return a ? a->f() : fallback;
  }
  std::string word(const std::string &name, const std::string &fallback) const {
    const AttributeProto *a = find(name, AttributeProto::STRING);
    return a ? a->s() : fallback;
  }
  void refuseInput(int i, const char *name) const {
    if (has(i))
      throw Unsupported{"input '" + std::string(name) + "'"};
  }
  void refuseOutput(int i) const {
    if (wants(i))
      throw Unsupported{"output '" + node.output(i) + "'"};
  }
  void refuseAttribute(const std::string &name, int64_t allowed) const {
    if (integer(name, allowed) != allowed)
      throw Unsupported{"attribute '" + name + "' of " + std::to_string(integer(name, allowed))};
  }

  //===--------------------------------------------------------------------===//
  // Writing the function
  //===--------------------------------------------------------------------===//

  static std::string literal(float value) {
    std::ostringstream out;
    out.precision(9);
    out << std::showpoint << value;
    return out.str();
  }
  // A scalar of the type of `like`.
  static std::string constant(const std::string &name, float value, const std::string &like) {
    return name + "_f = Constant <value_float = " + literal(value) + "> ()\n" + name +
           " = CastLike (" + name + "_f, " + like + ")\n";
  }
  static std::string ints(const std::string &name, const std::vector<int64_t> &values) {
    std::string list;
    for (int64_t v : values)
      list += (list.empty() ? "" : ", ") + std::to_string(v);
    return name + " = Constant <value_ints = [" + list + "]> ()\n";
  }
  std::string wrap(int inputs, const std::string &body, int outputs = 1) const {
    if (node.input_size() > inputs)
      throw Unsupported{"input " + std::to_string(inputs)};
    if (node.output_size() > outputs)
      throw Unsupported{"output " + std::to_string(outputs)};
    std::string text = "<domain: \"com.microsoft\", opset_import: [\"\" : " +
                       std::to_string(newestVersion("")) + "]>\n" + node.op_type() + " (";
    for (int i = 0; i < inputs; ++i)
      text += (i ? ", i" : "i") + std::to_string(i);
    text += ") => (";
    for (int i = 0; i < outputs; ++i)
      text += (i ? ", o" : "o") + std::to_string(i);
    return text + ") {\n" + body + "\n}";
  }

  std::string fusedMatMul() {
    refuseAttribute("transBatchA", 0);
    refuseAttribute("transBatchB", 0);
    std::string body, a = "i0", b = "i1";
    for (auto [name, value] : {std::pair("transA", &a), std::pair("transB", &b)})
      if (integer(name, 0)) {
        std::string transposed = *value + "_t";
        body += transposed + " = Einsum <equation = \"...ij->...ji\"> (" + *value + ")\n";
        *value = transposed;
      }
    float alpha = number("alpha", 1);
    if (alpha == 1)
      return wrap(2, body + "o0 = MatMul (" + a + ", " + b + ")");
    return wrap(2, body + "m = MatMul (" + a + ", " + b + ")\n" + constant("alpha", alpha, "m") +
                       "o0 = Mul (m, alpha)");
  }

  static std::string intList(const AttributeProto &a) {
    std::string list;
    for (int64_t v : a.ints())
      list += (list.empty() ? "" : ", ") + std::to_string(v);
    return "[" + list + "]";
  }

  std::string activation(const std::string &from, const std::string &to) {
    std::string name = word("activation", "");
    const AttributeProto *parameters = find("activation_params", AttributeProto::FLOATS);
    auto parameter = [&](int i, float fallback) {
      return parameters && i < parameters->floats_size() ? parameters->floats(i) : fallback;
    };
    if (name.empty())
      return to + " = Identity (" + from + ")";
    if (name == "Relu" || name == "Tanh" || name == "Sigmoid")
      return to + " = " + name + " (" + from + ")";
    if (name == "LeakyRelu")
      return to + " = LeakyRelu <alpha = " + literal(parameter(0, 0.01f)) + "> (" + from + ")";
    if (name == "HardSigmoid")
      return to + " = HardSigmoid <alpha = " + literal(parameter(0, 0.2f)) +
             ", beta = " + literal(parameter(1, 0.5f)) + "> (" + from + ")";
    if (name == "Clip")
      return constant("low", parameter(0, -3.4028235e38f), from) +
             constant("high", parameter(1, 3.4028235e38f), from) + to + " = Clip (" + from +
             ", low, high)";
    throw Unsupported{"activation '" + name + "'"};
  }

  // What goes into the text of the function is a word that we know.
  std::string padding() const {
    std::string value = word("auto_pad", "NOTSET");
    for (const char *known : {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"})
      if (value == known)
        return value;
    throw Unsupported{"auto_pad of another value"};
  }

  std::string fusedConv() {
    std::string attributes;
    auto add = [&](const std::string &name, const std::string &value) {
      attributes += (attributes.empty() ? "<" : ", ") + name + " = " + value;
    };
    for (auto &a : node.attribute()) {
      const std::string &name = a.name();
      if (name == "activation" || name == "activation_params")
        continue;
      if (name == "dilations" || name == "kernel_shape" || name == "pads" || name == "strides")
        add(name, intList(*find(name, AttributeProto::INTS)));
      else if (name == "group")
        add(name, std::to_string(integer(name, 1)));
      else if (name == "auto_pad")
        add(name, "\"" + padding() + "\"");
      else
        throw Unsupported{"attribute '" + name + "'"};
    }
    std::string body = "c = Conv " + attributes + (attributes.empty() ? "" : "> ") + "(i0, i1, i2)\n";
    body += has(3) ? "s = Add (c, i3)\n" : "s = Identity (c)\n";
    return wrap(4, body + activation("s", "o0"));
  }

  std::string simplifiedLayerNormalization() {
    refuseOutput(1);
    return wrap(2, "o0 = RMSNormalization <axis = " + std::to_string(integer("axis", -1)) +
                       ", epsilon = " + literal(number("epsilon", 1e-5f)) +
                       ", stash_type = " + std::to_string(integer("stash_type", 1)) + "> (i0, i1)");
  }

  std::string skipLayerNormalization(bool simplified) {
    refuseOutput(1);
    refuseOutput(2);
    int bias = simplified ? 3 : 4;
    std::string body = "s = Add (i0, i1)\n";
    body += has(bias) ? "x = Add (s, i" + std::to_string(bias) + ")\n" : "x = Identity (s)\n";
    std::string epsilon = literal(number("epsilon", simplified ? 1e-6f : 1e-12f));
    body += simplified ? "o0 = RMSNormalization <epsilon = " + epsilon + "> (x, i2)\n"
                       : "o0 = LayerNormalization <epsilon = " + epsilon + "> (x, i2, i3)\n";
    return wrap(bias + 1, body + "o3 = Identity (x)\n o1 = Identity (x)\n o2 = Identity (x)", 4);
  }

  std::string qlinearUnary(const std::string &op) {
    std::string attributes;
    if (op == "LeakyRelu")
      attributes = "<alpha = " + literal(number("alpha", 0.01f)) + ">";
    if (op == "Softmax") {
      if (integer("opset", 13) < 13)
        throw Unsupported{"softmax of operator set " + std::to_string(integer("opset", 13))};
      attributes = "<axis = " + std::to_string(integer("axis", -1)) + ">";
    }
    if (op == "GlobalAveragePool")
      refuseAttribute("channels_last", 0);
    return wrap(5, "x = DequantizeLinear (i0, i1, i2)\n y = " + op + " " + attributes +
                       " (x)\n o0 = QuantizeLinear (y, i3, i4)");
  }

  std::string qlinearConcat() {
    std::string body, list;
    for (int i = 2; i + 2 < node.input_size(); i += 3) {
      std::string n = std::to_string(i);
      body += "x" + n + " = DequantizeLinear (i" + n + ", i" + std::to_string(i + 1) + ", i" +
              std::to_string(i + 2) + ")\n";
      list += (list.empty() ? "x" : ", x") + n;
    }
    return wrap(node.input_size(), body + "y = Concat <axis = " + std::to_string(integer("axis", 0)) +
                                       "> (" + list + ")\n o0 = QuantizeLinear (y, i0, i1)");
  }

  std::string matMulIntegerToFloat() { // A, B, a_scale, b_scale, a_zero, b_zero, bias
    std::string body = "m = MatMulInteger (i0, i1, i4, i5)\n f = CastLike (m, i2)\n"
                       "s = Mul (i2, i3)\n y = Mul (f, s)\n";
    return wrap(7, body + (has(6) ? "o0 = Add (y, i6)" : "o0 = Identity (y)"));
  }

  std::string dynamicQuantizeMatMul() { // A, B, b_scale, b_zero, bias
    std::string body = "q, qs, qz = DynamicQuantizeLinear (i0)\n"
                       "m = MatMulInteger (q, i1, qz, i3)\n f = CastLike (m, i2)\n"
                       "s = Mul (qs, i2)\n y = Mul (f, s)\n";
    return wrap(5, body + (has(4) ? "o0 = Add (y, i4)" : "o0 = Identity (y)"));
  }

  //===--------------------------------------------------------------------===//
  // MatMulNBits
  //===--------------------------------------------------------------------===//

  TensorProto *initializer(const std::string &name) {
    for (TensorProto &t : *model.proto.mutable_graph()->mutable_initializer())
      if (t.name() == name)
        return &t;
    return nullptr;
  }

  // The packed weights are, byte for byte, a tensor of narrow integers with rows
  // of whole blocks; only zero points are padded for each row.
  //   B [N, blocks, bytes] -> [N, blocks * block_size], DequantizeLinear by blocks,
  //   the first K columns, transposed
  std::string matMulNBits() {
    int64_t n = integer("N", 0), k = integer("K", 0), bits = integer("bits", 4);
    int64_t block = integer("block_size", 0);
    refuseInput(4, "g_idx");
    int type = bits == 4 ? T::UINT4 : bits == 8 ? T::UINT8 : bits == 2 ? T::UINT2 : 0;
    constexpr int64_t kMost = int64_t(1) << 31;
    if (!type || n <= 0 || k <= 0 || block <= 0 || k > kMost || n > kMost || block > kMost)
      throw Unsupported{"bits " + std::to_string(bits) + " and block_size " + std::to_string(block)};
    int64_t blocks = (k + block - 1) / block;
    TensorProto *packed = has(1) ? initializer(node.input(1)) : nullptr;
    if (!packed || packed->data_type() != T::UINT8)
      throw Unsupported{"weights that are not a constant of uint8"};
    int64_t expected;
    if (llvm::MulOverflow(n * blocks, block * bits, expected) || expected % 8 ||
        elementCount(*packed, describe(node)) != expected / 8)
      fail(node, "input 'B' does not have the size that N, K, bits and block_size give");
    std::string name = node.input(1) + "/packed";
    if (!initializer(name)) {
      TensorProto weights = *packed;
      weights.set_name(name);
      weights.set_data_type(type);
      weights.clear_dims();
      weights.add_dims(n);
      weights.add_dims(blocks * block);
      *model.proto.mutable_graph()->add_initializer() = std::move(weights);
    }
    std::string zeros = zeroPoints(n, blocks, bits, type);
    // The call passes the new tensors in place of the old.
    node.set_input(1, name);
    while (node.input_size() < 4)
      node.add_input("");
    node.set_input(3, zeros);
    std::string body = ints("by_block", {n, blocks}) + "s = Reshape (i2, by_block)\n";
    body += "z = Reshape (i3, by_block)\n";
    body += "d = DequantizeLinear <axis = 1, block_size = " + std::to_string(block) + "> (i1, s, z)\n";
    if (blocks * block != k)
      body += ints("zero", {0}) + ints("k", {k}) + ints("one", {1}) + "w = Slice (d, zero, k, one)\n";
    else
      body += "w = Identity (d)\n";
    body += "t = Transpose <perm = [1, 0]> (w)\n y = MatMul (i0, t)\n";
    body += has(5) ? "o0 = Add (y, i5)" : "o0 = Identity (y)";
    return wrap(6, body);
  }

  std::string zeroPoints(int64_t n, int64_t blocks, int64_t bits, int type) {
    TensorProto zeros;
    zeros.set_data_type(type);
    zeros.add_dims(n * blocks);
    std::string raw((size_t)((n * blocks * bits + 7) / 8), '\0');
    auto put = [&](int64_t i, unsigned value) {
      raw[i * bits / 8] |= (char)(value << (i * bits % 8));
    };
    std::string name = locationName(node) + "/zero_points";
    if (!has(3)) {
      for (int64_t i = 0; i < n * blocks; ++i)
        put(i, 1u << (bits - 1));
    } else {
      TensorProto *given = initializer(node.input(3));
      if (!given || given->data_type() != T::UINT8)
        throw Unsupported{"zero points that are not a constant of uint8"};
      std::vector<char> storage;
      std::shared_ptr<const void> owner;
      llvm::ArrayRef<char> bytes = tensorBytes(model, *given, storage, owner);
      int64_t row = (blocks * bits + 7) / 8;
      if ((int64_t)bytes.size() != n * row)
        fail(node, "input 'zero_points' does not have the size that N and K give");
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = 0; c < blocks; ++c) {
          unsigned char byte = bytes[r * row + c * bits / 8];
          put(r * blocks + c, (byte >> (c * bits % 8)) & ((1u << bits) - 1));
        }
    }
    while (initializer(name))
      name += "_";
    zeros.set_name(name);
    zeros.set_raw_data(raw);
    *model.proto.mutable_graph()->add_initializer() = std::move(zeros);
    return name;
  }

  //===--------------------------------------------------------------------===//
  // Attention
  //===--------------------------------------------------------------------===//

  std::string scaleAndCap() const {
    std::string text;
    if (const AttributeProto *scale = find("scale", AttributeProto::FLOAT); scale && scale->f() != 0)
      text += ", scale = " + literal(scale->f());
    if (number("softcap", 0) != 0)
      text += ", softcap = " + literal(number("softcap", 0));
    return text;
  }

  // query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value
  std::string multiHeadAttention() {
    refuseInput(3, "bias");
    refuseInput(4, "key_padding_mask");
    for (int i = 8; i < node.input_size(); ++i)
      refuseInput(i, "of a shared cache");
    refuseOutput(3);
    if (!has(1) || !has(2))
      throw Unsupported{"packed query, key and value"};
    std::string heads = std::to_string(integer("num_heads", 0));
    std::string causal = std::to_string(integer("unidirectional", 0));
    return wrap(8, "o0, o1, o2 = Attention <q_num_heads = " + heads + ", kv_num_heads = " + heads +
                       ", is_causal = " + causal + scaleAndCap() + "> (i0, i1, i2, i5, i6, i7)", 3);
  }

  // query, key, value, past_key, past_value, seqlens_k, total_sequence_length,
  // cos_cache, sin_cache. Row b of the batch has seen seqlens_k[b] + 1 - S
  // tokens; the new ones follow there, whatever length the cache has.
  std::string groupQueryAttention() {
    int64_t heads = integer("num_heads", 0), kvHeads = integer("kv_num_heads", 0);
    if (!has(1) || !has(2))
      throw Unsupported{"packed query, key and value"};
    for (int i = 9; i < node.input_size(); ++i)
      refuseInput(i, "beyond sin_cache");
    refuseAttribute("smooth_softmax", 0);
    refuseAttribute("kv_cache_bit_width", 0);
    refuseOutput(3);
    int64_t window = integer("local_window_size", -1);
    std::string body =
        ints("q_shape", {0, 0, heads, -1}) + ints("kv_shape", {0, 0, kvHeads, -1}) +
        ints("flat", {0, 0, -1}) + ints("zero", {0}) + ints("one", {1}) + ints("minus_one", {-1}) +
        ints("first", {0}) + ints("second", {1}) + ints("third", {2}) +
        "zero_s = Constant <value_int = 0> ()\n one_s = Constant <value_int = 1> ()\n"
        "q4 = Reshape (i0, q_shape)\n q_in = Transpose <perm = [0, 2, 1, 3]> (q4)\n"
        "k4 = Reshape (i1, kv_shape)\n k_in = Transpose <perm = [0, 2, 1, 3]> (k4)\n"
        "v4 = Reshape (i2, kv_shape)\n v = Transpose <perm = [0, 2, 1, 3]> (v4)\n"
        // S new tokens, and how many came before them, [B, 1]
        "s1 = Shape <start = 1, end = 2> (i0)\n s = Squeeze (s1)\n"
        "seen_all = Cast <to = 7> (i5)\n seen_flat = Reshape (seen_all, minus_one)\n"
        "seen_1 = Add (seen_flat, one)\n new_from = Sub (seen_1, s1)\n"
        // A prompt may be shorter than its row: it begins at 0 all the same.
        "before_flat = Max (new_from, zero)\n"
        "before = Unsqueeze (before_flat, second)\n"
        "steps = Range (zero_s, s, one_s)\n steps_row = Unsqueeze (steps, first)\n"
        "position = Add (before, steps_row)\n";
    if (integer("do_rotary", 0)) {
      if (!has(7) || !has(8))
        throw Unsupported{"do_rotary without caches"};
      std::string attributes =
          "<interleaved = " + std::to_string(integer("rotary_interleaved", 0)) + ">";
      body += "q = RotaryEmbedding " + attributes + " (q_in, i7, i8, position)\n"
              "k = RotaryEmbedding " + attributes + " (k_in, i7, i8, position)\n";
    } else {
      body += "q = Identity (q_in)\n k = Identity (k_in)\n";
    }
    if (has(3) != has(4))
      throw Unsupported{"only one of past_key and past_value"};
    std::string past = has(3) ? "p1 = Shape <start = 2, end = 3> (i3)\n"
                                "k_all = Concat <axis = 2> (i3, k)\n v_all = Concat <axis = 2> (i4, v)\n"
                              : "p1 = Identity (zero)\n k_all = Identity (k)\n v_all = Identity (v)\n";
    body += past +
            // T slots: slot t holds past t, or new token t - before
            "total_0 = Cast <to = 7> (i6)\n total_1 = Reshape (total_0, minus_one)\n"
            "t1 = Max (p1, total_1)\n t = Squeeze (t1)\n"
            "slots = Range (zero_s, t, one_s)\n slots_row = Unsqueeze (slots, first)\n"
            "is_past = Less (slots_row, before)\n"
            "offset = Sub (slots_row, before)\n moved = Add (offset, p1)\n"
            "end = Add (p1, s1)\n last_1 = Sub (end, one)\n last = Squeeze (last_1)\n"
            "new_at = Clip (moved, zero_s, last)\n"
            "slot_at = Clip (slots_row, zero_s, last)\n"
            "at = Where (is_past, slot_at, new_at)\n"
            // GatherElements with the index spread over heads and channels
            "axes_14 = Concat <axis = 0> (second, minus_one)\n at_4 = Unsqueeze (at, axes_14)\n"
            "b_h = Shape <start = 0, end = 2> (k)\n d_k = Shape <start = 3, end = 4> (k)\n"
            "d_v = Shape <start = 3, end = 4> (v)\n"
            "k_size = Concat <axis = 0> (b_h, t1, d_k)\n v_size = Concat <axis = 0> (b_h, t1, d_v)\n"
            "k_at = Expand (at_4, k_size)\n v_at = Expand (at_4, v_size)\n"
            "o1 = GatherElements <axis = 2> (k_all, k_at)\n"
            "o2 = GatherElements <axis = 2> (v_all, v_at)\n"
            // Token at position p sees slots up to p, at most `window` of them
            "position_c = Unsqueeze (position, third)\n"
            "slots_3 = Unsqueeze (slots_row, first)\n"
            "past_or_now = LessOrEqual (slots_3, position_c)\n";
    if (window > 0)
      body += ints("window", {window}) +
              "edge = Sub (position_c, window)\n inside = Greater (slots_3, edge)\n"
              "seen = And (past_or_now, inside)\n";
    else
      body += "seen = Identity (past_or_now)\n";
    std::string scale = scaleAndCap();
    if (!scale.empty())
      scale = " <" + scale.substr(2) + ">";
    body += "mask = Unsqueeze (seen, second)\n y4 = Attention" + scale + " (q, o1, o2, mask)\n"
            "y_t = Transpose <perm = [0, 2, 1, 3]> (y4)\n o0 = Reshape (y_t, flat)";
    return wrap(9, body, 3);
  }

  Model &model;
  NodeProto &node;
};

} // namespace

void lowerContrib(Model &model) {
  int count = 0;
  auto lower = [&](NodeList &nodes) {
    for (NodeProto &node : nodes) {
      if (node.domain() != "com.microsoft" || !node.overload().empty())
        continue;
      std::string text;
      NodeProto before = node;
      try {
        text = Recipe(model, node).text();
      } catch (const Unsupported &reason) {
        node = before;
        model.warnings.push_back(describe(node) + ": kept as it is, for " + reason.why +
                                 " is not supported");
      }
      if (text.empty())
        continue;
      FunctionProto function;
      ::onnx::OnnxParser parser(text);
      auto status = parser.Parse(function);
      if (!status.IsOK())
        throw ImportError(describe(node) + ": " + status.ErrorMessage(), locationName(node));
      function.set_overload("tessera." + std::to_string(count++));
      node.set_overload(function.overload());
      node.clear_attribute();
      *model.proto.add_functions() = std::move(function);
    }
  };
  // Functions of the model itself take precedence over operators.
  for (const FunctionProto &f : model.proto.functions())
    if (f.domain() == "com.microsoft")
      return;
  forEachGraph(*model.proto.mutable_graph(), [&](GraphProto &g) { lower(*g.mutable_node()); });
  int functions = model.proto.functions_size() - count;
  for (int i = 0; i < functions; ++i)
    lower(*model.proto.mutable_functions(i)->mutable_node());
}

} // namespace tessera::onnx_import
