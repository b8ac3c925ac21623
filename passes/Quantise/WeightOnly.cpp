#include "passes/Quantise/WeightOnly.h"
#include "compiler/Import/Model.h"
#include "passes/Quantise/Prepare.h"
#include "passes/Quantise/Splice.h"
#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <cmath>

namespace tessera::quantise {
namespace {

/// Pairs of 4-bit integers in bytes, the first in the low half; a row at a
/// time.
std::vector<uint8_t> packPairs(const std::vector<uint8_t> &values, size_t row) {
  std::vector<uint8_t> out;
  for (size_t from = 0; from < values.size(); from += row)
    for (size_t i = 0; i < row; i += 2)
      out.push_back(uint8_t(values[from + i] |
                            (i + 1 < row ? values[from + i + 1] : 0) << 4));
  return out;
}

class WeightRewriter {
public:
  explicit WeightRewriter(const Graph &g)
      : g(g), model(g.model()), names(*model.mutable_graph()) {}

  void replaceMatrix(const Unit &u, const BlockWeights &w) {
    if (g.opset() >= 21)
      replaceByBlocks(u, w);
    else
      replaceByMicrosoft(u, w);
  }

  void replaceChannels(const Unit &u, const WeightUse &use,
                       const QuantisedWeights &q) {
    std::string back = names.unique(use.name + "_dequantized"),
                integer = names.unique(use.name + "_quantized"),
                scale = names.unique(use.name + "_scale");
    TensorProto t = makePacked(integer, TensorProto::INT8, q.dims, q.values);
    *graph().add_initializer() = t;
    *graph().add_initializer() =
        makeFloats(scale, {int64_t(q.scales.size())}, q.scales);
    NodeProto n = makeNode("DequantizeLinear", {integer, scale}, back);
    addInt(n, "axis", use.axis);
    splice.before.push_back(n);
    splice.reads[use.use] = back;
  }

  void replaceByHalf(const WeightUse &use) {
    if (auto it = halves.find(use.name); it != halves.end()) {
      splice.reads[use.use] = it->second;
      return;
    }
    FloatTensor w = *g.floats(use.name);
    std::vector<uint8_t> bytes;
    for (float v : w.values) {
      llvm::APFloat f(v);
      bool lost;
      f.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven,
                &lost);
      uint64_t bits = f.bitcastToAPInt().getZExtValue();
      bytes.push_back(uint8_t(bits));
      bytes.push_back(uint8_t(bits >> 8));
    }
    std::string half = names.unique(use.name + "_f16"),
                back = names.unique(use.name + "_f32");
    *graph().add_initializer() =
        makePacked(half, TensorProto::FLOAT16, w.dims, bytes);
    NodeProto n = makeNode("Cast", {half}, back);
    addInt(n, "to", TensorProto::FLOAT);
    splice.before.push_back(n);
    splice.reads[use.use] = halves[use.name] = back;
  }

  ModelProto finish() {
    auto nodes = spliced(g, splice);
    graph().mutable_node()->Swap(&nodes);
    removeUnused(model);
    model.set_ir_version(
        std::max<int64_t>(model.ir_version(), g.opset() >= 21 ? 10 : 7));
    return std::move(model);
  }

private:
  GraphProto &graph() { return *model.mutable_graph(); }

  void replaceByMicrosoft(const Unit &u, const BlockWeights &w) {
    const NodeProto &old = g.node(u.root);
    const std::string &name = u.weights[0].name;
    std::string b = names.unique(name + "_blocks"),
                scale = names.unique(name + "_scales"),
                zero = names.unique(name + "_zero_points");
    bool four = w.options.bits == 4;
    std::vector<uint8_t> bytes =
        four ? packPairs(w.values, size_t(w.options.block)) : w.values;
    *graph().add_initializer() = makePacked(
        b, TensorProto::UINT8,
        {w.n, w.blocks, w.options.block * w.options.bits / 8}, bytes);
    *graph().add_initializer() = makeFloats(scale, {w.n, w.blocks}, w.scales);
    std::vector<std::string> inputs = {old.input(0), b, scale};
    if (!w.options.symmetric) {
      std::vector<uint8_t> zeros =
          four ? packPairs(w.zeros, size_t(w.blocks)) : w.zeros;
      *graph().add_initializer() =
          makePacked(zero, TensorProto::UINT8,
                     {w.n, four ? (w.blocks + 1) / 2 : w.blocks}, zeros);
      inputs.push_back(zero);
    }
    bool bias = old.op_type() == "Gemm" && old.input_size() > 2 &&
                !old.input(2).empty();
    std::string product =
        bias ? names.unique(old.output(0) + "_product") : old.output(0);
    NodeProto n = makeNode("MatMulNBits", inputs, product);
    n.set_name(old.name().empty() ? n.name() : old.name());
    n.set_domain("com.microsoft");
    addInt(n, "K", w.k);
    addInt(n, "N", w.n);
    addInt(n, "bits", w.options.bits);
    addInt(n, "block_size", w.options.block);
    splice.instead[u.root].push_back(n);
    if (bias)
      splice.instead[u.root].push_back(
          makeNode("Add", {product, old.input(2)}, old.output(0)));
    for (auto &import : model.opset_import())
      if (import.domain() == "com.microsoft")
        return;
    auto *import = model.add_opset_import();
    import->set_domain("com.microsoft");
    import->set_version(1);
  }

  void replaceByBlocks(const Unit &u, const BlockWeights &w) {
    const NodeProto &old = g.node(u.root);
    const std::string &name = u.weights[0].name;
    bool transposed =
        old.op_type() == "Gemm" && g.attribute(u.root, "transB", int64_t(0));
    bool four = w.options.bits == 4;
    int64_t rows = transposed ? w.n : w.k, columns = transposed ? w.k : w.n,
            padded = w.blocks * w.options.block;
    std::vector<uint8_t> values, zeros;
    std::vector<float> scales;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        values.push_back(
            w.values[transposed ? r * padded + c : c * padded + r]);
    for (int64_t r = 0; r < (transposed ? w.n : w.blocks); ++r)
      for (int64_t c = 0; c < (transposed ? w.blocks : w.n); ++c) {
        int64_t at = transposed ? r * w.blocks + c : c * w.blocks + r;
        scales.push_back(w.scales[at]);
        zeros.push_back(w.zeros[at]);
      }
    std::vector<int64_t> shape = transposed
                                     ? std::vector<int64_t>{w.n, w.blocks}
                                     : std::vector<int64_t>{w.blocks, w.n};
    std::string integer = names.unique(name + "_quantized"),
                scale = names.unique(name + "_scale"),
                zero = names.unique(name + "_zero_point"),
                back = names.unique(name + "_dequantized");
    int32_t type = four ? TensorProto::UINT4 : TensorProto::UINT8;
    *graph().add_initializer() =
        makePacked(integer, type, {rows, columns},
                   four ? packPairs(values, values.size()) : values);
    *graph().add_initializer() = makeFloats(scale, shape, scales);
    *graph().add_initializer() = makePacked(
        zero, type, shape, four ? packPairs(zeros, zeros.size()) : zeros);
    NodeProto n = makeNode("DequantizeLinear", {integer, scale, zero}, back);
    addInt(n, "axis", transposed ? 1 : 0);
    addInt(n, "block_size", w.options.block);
    splice.before.push_back(n);
    splice.reads[u.weights[0].use] = back;
  }

  const Graph &g;
  ModelProto model;
  onnx_import::NameSet names;
  Splice splice;
  std::map<std::string, std::string> halves;
};

} // namespace

WeightOnlyResult quantiseWeightsOnly(ModelProto proto,
                                     const SampleSource &source,
                                     const CompileFunction &compile,
                                     const WeightOnlyOptions &options) {
  WeightOnlyResult result;
  result.originalOpset = raiseOpset(proto);
  foldWeights(proto, compile);
  if (options.form != WeightOnlyOptions::Half)
    foldBatchNorms(proto);
  removeUnused(proto);
  auto declared = proto.graph().input();
  Sample first = source.get(0);
  if (source.count == 1 || source.get(source.count - 1).begin()->second.dims ==
                               first.begin()->second.dims)
    fixInputs(proto, first);
  Graph g(proto);
  std::vector<Unit> units = findUnits(g);
  WeightRewriter rewriter(g);
  std::vector<Matrix> matrices;
  for (size_t i = 0; i < units.size(); ++i) {
    result.macs += units[i].macs;
    if (options.form != WeightOnlyOptions::Half)
      if (auto m = matrixOf(g, units[i], int(i)))
        matrices.push_back(std::move(*m));
  }
  std::map<std::string, HalfMoments> moments;
  if (options.feedback)
    moments = measureMoments(g, matrices, source, compile,
                             options.calibration.progress);
  std::map<int, BlockWeights> rounded =
      roundMatrices(matrices, moments,
                    {options.form == WeightOnlyOptions::Int4 ? 4 : 8,
                     options.block, options.symmetric},
                    options.calibration.progress);
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit &u = units[i];
    if (u.weights.empty())
      continue;
    result.covered += u.macs;
    result.weights += int(u.weights.size());
    if (auto it = rounded.find(int(i)); it != rounded.end()) {
      rewriter.replaceMatrix(u, it->second);
      continue;
    }
    for (const WeightUse &w : u.weights) {
      if (options.form == WeightOnlyOptions::Half)
        rewriter.replaceByHalf(w);
      else
        rewriter.replaceChannels(
            u, w, quantiseWeights(*g.floats(w.name), w.axis, true));
    }
  }
  if (!result.weights)
    throw Refusal("nothing to quantise: no product of the main graph has "
                  "constant weights of type float");
  result.model = rewriter.finish();
  result.parts = findParts(g, {});
  std::vector<Sample> samples;
  for (size_t i = 0; i < std::min<size_t>(source.count, 8); ++i)
    samples.push_back(
        source.get(i * source.count / std::min<size_t>(source.count, 8)));
  result.verified =
      verifyModel(g, result.model, result.parts, samples, compile);
  *result.model.mutable_graph()->mutable_input() = declared;
  return result;
}

} // namespace tessera::quantise
