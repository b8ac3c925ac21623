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

  void replaceByHalf(const WeightUse &use, WeightForm form) {
    bool half = form == WeightForm::Half;
    auto [it, fresh] = halves.try_emplace({use.name, half});
    if (fresh)
      it->second = addHalf(use, half);
    splice.reads[use.use] = it->second;
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

  std::string addHalf(const WeightUse &use, bool half) {
    FloatTensor w = *g.floats(use.name);
    std::vector<uint8_t> bytes;
    for (float v : w.values) {
      llvm::APFloat f(v);
      bool lost;
      auto status =
          f.convert(half ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
                    llvm::APFloat::rmNearestTiesToEven, &lost);
      if (status & llvm::APFloat::opOverflow)
        throw Refusal("weight '" + use.name + "' holds " + std::to_string(v) +
                          ", which is beyond " +
                          (half ? "float16" : "bfloat16"),
                      {"--scheme bf16 has the range of float; a recipe keeps "
                       "single nodes float"});
      uint64_t bits = f.bitcastToAPInt().getZExtValue();
      bytes.push_back(uint8_t(bits));
      bytes.push_back(uint8_t(bits >> 8));
    }
    std::string narrow = names.unique(use.name + (half ? "_f16" : "_bf16")),
                back = names.unique(use.name + "_f32");
    *graph().add_initializer() =
        makePacked(narrow, half ? TensorProto::FLOAT16 : TensorProto::BFLOAT16,
                   w.dims, bytes);
    NodeProto n = makeNode("Cast", {narrow}, back);
    addInt(n, "to", TensorProto::FLOAT);
    splice.before.push_back(n);
    return back;
  }

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
  std::map<std::pair<std::string, bool>, std::string> halves;
};

} // namespace

namespace {

int bitsOf(WeightForm form) { return form == WeightForm::Int4 ? 4 : 8; }
bool isInteger(WeightForm form) {
  return form == WeightForm::Int4 || form == WeightForm::Int8;
}
int32_t typeOf(WeightForm form) {
  switch (form) {
  case WeightForm::Int4:
    return TensorProto::INT4;
  case WeightForm::Int8:
    return TensorProto::INT8;
  case WeightForm::Half:
    return TensorProto::FLOAT16;
  case WeightForm::Bfloat:
    break;
  }
  return TensorProto::BFLOAT16;
}

/// By unit: matrix products whose weights become blocks of integers.
std::map<int, BlockWeights>
roundBlocks(const Graph &g, const std::vector<Unit> &units,
            const std::vector<std::optional<WeightForm>> &forms,
            const SampleSource &source, const CompileFunction &compile,
            const WeightOnlyOptions &options) {
  std::map<int, std::vector<Matrix>> matrices; // by bits
  std::vector<Matrix> all;
  for (size_t i = 0; i < units.size(); ++i)
    if (forms[i] && isInteger(*forms[i]))
      if (auto m = matrixOf(g, units[i], int(i))) {
        all.push_back(*m);
        matrices[bitsOf(*forms[i])].push_back(std::move(*m));
      }
  std::map<Rows, HalfMoments> moments;
  if (options.feedback) {
    std::set<std::string> inputs;
    for (const Matrix &m : all)
      inputs.insert(m.input.value);
    FloatModel model(g, {inputs.begin(), inputs.end()}, compile);
    moments = measureMoments(model, all, source, options.calibration.progress);
  }
  std::map<int, BlockWeights> out;
  for (auto &[bits, some] : matrices)
    for (auto &[unit, rounded] :
         roundMatrices(some, moments, {bits, options.block, options.symmetric},
                       options.calibration.progress))
      out[unit] = std::move(rounded.weights);
  return out;
}

void replaceWeights(WeightRewriter &rewriter, const Graph &g, const Unit &u,
                    WeightForm form, const BlockWeights *blocks) {
  if (blocks) {
    rewriter.replaceMatrix(u, *blocks);
    return;
  }
  // Convolutions have int8 with a scale a channel, also where matrices have 4
  // bits.
  for (const WeightUse &w : u.weights)
    if (isInteger(form))
      rewriter.replaceChannels(
          u, w, quantiseWeights(*g.floats(w.name), w.axis, true));
    else
      rewriter.replaceByHalf(w, form);
}

} // namespace

WeightOnlyResult quantiseWeightsOnly(ModelProto proto,
                                     const SampleSource &source,
                                     const CompileFunction &compile,
                                     const WeightOnlyOptions &options) {
  WeightOnlyResult result;
  result.originalOpset = raiseOpset(proto);
  foldWeights(proto, compile);
  if (isInteger(options.form))
    foldBatchNorms(proto);
  removeUnused(proto);
  auto declared = proto.graph().input();
  fixInputs(proto, source);
  Graph g(proto);
  std::vector<Unit> &units = result.units = findUnits(g);
  std::vector<std::optional<WeightForm>> forms(units.size(), options.form);
  applyWeightRecipe(options.recipe, g, units, forms);
  std::map<int, BlockWeights> blocks =
      roundBlocks(g, units, forms, source, compile, options);
  WeightRewriter rewriter(g);
  for (size_t i = 0; i < units.size(); ++i) {
    Unit &u = units[i];
    result.macs += u.macs;
    u.quantised = !u.weights.empty() && forms[i];
    if (!u.quantised) {
      u.reason = u.weights.empty() ? "no constant weights" : "recipe";
      continue;
    }
    auto it = blocks.find(int(i));
    bool inBlocks = it != blocks.end();
    u.type =
        typeOf(*forms[i] == WeightForm::Int4 && !inBlocks ? WeightForm::Int8
                                                          : *forms[i]);
    result.covered += u.macs;
    result.weights += int(u.weights.size());
    replaceWeights(rewriter, g, u, *forms[i], inBlocks ? &it->second : nullptr);
  }
  if (!result.weights)
    throw Refusal("nothing to quantise: no product of the main graph has "
                  "constant weights of type float");
  result.model = rewriter.finish();
  result.parts = findParts(g, {});
  std::vector<Sample> samples = spread(source, 8);
  result.verified =
      verifyModel(g, result.model, result.parts, samples, compile);
  if (options.onDevices) {
    ModelProto placed = result.model;
    options.onDevices(placed, g);
    result.onDevices = verifyModel(g, placed, result.parts, samples, compile);
  }
  if (options.layerErrors)
    result.errors =
        measureErrors(g, result.model, units, spread(source, 4), compile);
  *result.model.mutable_graph()->mutable_input() = declared;
  return result;
}

QuantiseResult forReport(const WeightOnlyResult &r) {
  QuantiseResult out;
  out.decisions.units = r.units;
  out.parts = r.parts;
  out.verified = r.verified;
  out.errors = r.errors;
  out.originalOpset = r.originalOpset;
  out.macs = r.macs;
  out.integerMacs = r.covered;
  return out;
}

} // namespace tessera::quantise
