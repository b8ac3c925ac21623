#include "passes/Quantise/Prepare.h"
#include "compiler/Import/Model.h"
#include "onnx/version_converter/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tessera::quantise {

Tensor makeTensor(const std::vector<int64_t> &dims,
                  const std::vector<float> &values) {
  Tensor t;
  t.dims = dims;
  t.data.resize(values.size() * sizeof(float));
  std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}

// The loader moves large payloads aside; the model that is written has them
// inside.
static void attachPayloads(onnx_import::Model &model) {
  onnx_import::forEachTensor(
      model.proto, [&](TensorProto &t, const std::string &) {
        if (!t.external_data_size())
          return;
        std::vector<char> storage;
        std::shared_ptr<const void> owner;
        llvm::ArrayRef<char> bytes =
            onnx_import::tensorBytes(model, t, storage, owner);
        t.set_raw_data(bytes.data(), bytes.size());
        t.clear_external_data();
        t.set_data_location(TensorProto::DEFAULT);
      });
}

ModelProto loadOriginal(const std::string &path,
                        std::vector<std::string> *externalFiles) {
  onnx_import::Model model;
  model.path = path;
  size_t slash = path.rfind('/');
  model.folder = slash == std::string::npos ? "."
                 : slash == 0               ? "/"
                                            : path.substr(0, slash);
  try {
    onnx_import::loadModel(model, ImportOptions());
    onnx_import::sortModel(model.proto);
    onnx_import::checkModel(model);
    attachPayloads(model);
  } catch (const onnx_import::ImportError &e) {
    throw Refusal(e.what(), e.notes);
  }
  if (externalFiles) {
    llvm::sort(model.externalFiles);
    *externalFiles = std::move(model.externalFiles);
  }
  GraphProto &graph = *model.proto.mutable_graph();
  // Up to IR version 3 every initialiser had to be an input, from 4 on that
  // would make it overridable.
  if (model.proto.ir_version() < 4) {
    std::set<std::string> initialisers;
    for (auto &t : graph.initializer())
      initialisers.insert(t.name());
    google::protobuf::RepeatedPtrField<::onnx::ValueInfoProto> rest;
    for (auto &v : graph.input())
      if (!initialisers.count(v.name()))
        *rest.Add() = v;
    graph.mutable_input()->Swap(&rest);
    model.proto.set_ir_version(4);
  }
  // A node is named by name in reports, recipes and diagnostics.
  return std::move(model.proto);
}

int64_t raiseOpset(ModelProto &model) {
  int64_t have = opsetOf(model);
  if (have >= 13)
    return 0;
  try {
    model = ::onnx::version_conversion::ConvertVersion(model, 13);
  } catch (const std::exception &e) {
    throw Refusal("the model is of operator set " + std::to_string(have) +
                      ", where DequantizeLinear has no axis, and ONNX's "
                      "converter cannot bring it to 13: " +
                      e.what(),
                  {"export it anew with operator set 13 or later"});
  }
  model.set_ir_version(std::max<int64_t>(model.ir_version(), 7));
  onnx_import::sortModel(model);
  return have;
}

namespace {

/// What BatchNormalization multiplies and adds, a channel.
struct Affine {
  std::vector<float> factor, offset;
};

std::optional<Affine> affineOf(const Graph &g, int index) {
  const NodeProto &n = g.node(index);
  if (n.input_size() != 5 || g.attribute(index, "training_mode", int64_t(0)))
    return std::nullopt;
  std::optional<FloatTensor> p[4];
  for (int k = 0; k < 4; ++k)
    if (p[k] = g.floats(n.input(k + 1));
        !p[k] ||
        p[k]->values.size() != (k ? p[0]->values.size() : p[k]->values.size()))
      return std::nullopt;
  float epsilon = g.attribute(index, "epsilon", 1e-5f);
  Affine a;
  for (size_t c = 0; c < p[0]->values.size(); ++c) {
    double factor =
        p[0]->values[c] / std::sqrt(double(p[3]->values[c]) + epsilon);
    a.factor.push_back(float(factor));
    a.offset.push_back(float(p[1]->values[c] - p[2]->values[c] * factor));
  }
  return a;
}

/// Multiplies the output channels of a convolution's weights; false if they do
/// not fit.
bool scaleChannels(FloatTensor &w, const Affine &a, bool transposed,
                   int64_t group) {
  if (w.dims.size() < 3)
    return false;
  int64_t inner = elementsOf(w.dims) / w.dims[0] / w.dims[1],
          perGroup = w.dims[transposed ? 1 : 0];
  int64_t channels = transposed ? perGroup * group : perGroup;
  if (channels != int64_t(a.factor.size()))
    return false;
  for (int64_t i = 0; i < w.dims[0]; ++i)
    for (int64_t j = 0; j < w.dims[1]; ++j) {
      int64_t c = transposed ? i / (w.dims[0] / group) * perGroup + j : i;
      for (int64_t k = 0; k < inner; ++k)
        w.values[(i * w.dims[1] + j) * inner + k] *= a.factor[c];
    }
  return true;
}

} // namespace

int foldBatchNorms(ModelProto &model) {
  Graph g(model);
  GraphProto &graph = *model.mutable_graph();
  std::set<int> gone;
  int folded = 0;
  for (int i = 0; i < g.nodeCount(); ++i) {
    const NodeProto &bn = g.node(i);
    if (bn.op_type() != "BatchNormalization" || !bn.domain().empty())
      continue;
    int conv = g.producer(bn.input(0));
    if (conv < 0 || gone.count(conv) || g.uses(bn.input(0)).size() != 1 ||
        g.isOutput(bn.input(0)) || g.isCaptured(bn.input(0)))
      continue;
    const NodeProto &c = g.node(conv);
    bool transposed = c.op_type() == "ConvTranspose";
    if ((c.op_type() != "Conv" && !transposed) || !c.domain().empty())
      continue;
    auto weights = g.floats(c.input(1));
    auto affine = affineOf(g, i);
    bool biased = c.input_size() > 2 && !c.input(2).empty();
    auto bias = biased ? g.floats(c.input(2)) : std::nullopt;
    if (!weights || !affine || (biased && !bias) ||
        !scaleChannels(*weights, *affine, transposed,
                       g.attribute(conv, "group", int64_t(1))))
      continue;
    std::vector<float> offset = affine->offset;
    for (size_t k = 0; bias && k < offset.size(); ++k)
      offset[k] += bias->values[k] * affine->factor[k];
    NodeProto &target = *graph.mutable_node(conv);
    std::string stem = bn.output(0);
    *graph.add_initializer() =
        makeFloats(stem + "_folded_weight", weights->dims, weights->values);
    *graph.add_initializer() =
        makeFloats(stem + "_folded_bias", {int64_t(offset.size())}, offset);
    target.set_input(1, stem + "_folded_weight");
    if (target.input_size() > 2)
      target.set_input(2, stem + "_folded_bias");
    else
      target.add_input(stem + "_folded_bias");
    target.set_output(0, bn.output(0));
    gone.insert(i);
    ++folded;
  }
  google::protobuf::RepeatedPtrField<NodeProto> rest;
  for (int i = 0; i < graph.node_size(); ++i)
    if (!gone.count(i))
      rest.Add()->Swap(graph.mutable_node(i));
  graph.mutable_node()->Swap(&rest);
  return folded;
}

int foldWeights(ModelProto &model, const CompileFunction &compile) {
  static const std::set<std::string> products = {
      "Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN"};
  Graph g(model);
  std::vector<std::string> wanted;
  for (int i = 0; i < g.nodeCount(); ++i)
    if (products.count(g.node(i).op_type()) && g.node(i).domain().empty())
      for (auto &v : g.node(i).input())
        if (!v.empty() && g.isConstant(v) && !g.tensor(v) && g.isFloat(v) &&
            std::find(wanted.begin(), wanted.end(), v) == wanted.end())
          wanted.push_back(v);
  if (wanted.empty())
    return 0;
  ModelProto part = model;
  part.mutable_graph()->clear_output();
  part.mutable_graph()->clear_input();
  google::protobuf::RepeatedPtrField<NodeProto> kept;
  for (auto &n : model.graph().node())
    if (n.output_size() && g.isConstant(n.output(0)))
      *kept.Add() = n;
  part.mutable_graph()->mutable_node()->Swap(&kept);
  for (auto &v : wanted) {
    auto *o = part.mutable_graph()->add_output();
    o->set_name(v);
    o->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
  }
  auto runner = compile(part, "weights that nodes compute");
  std::vector<View> values = runner->run();
  for (size_t k = 0; k < wanted.size(); ++k) {
    std::vector<float> data(values[k].floats(),
                            values[k].floats() + values[k].count());
    *model.mutable_graph()->add_initializer() =
        makeFloats(wanted[k] + "_constant", values[k].dims, data);
  }
  for (auto &n : *model.mutable_graph()->mutable_node())
    if (products.count(n.op_type()))
      for (auto &v : *n.mutable_input())
        if (std::find(wanted.begin(), wanted.end(), v) != wanted.end())
          v += "_constant";
  return int(wanted.size());
}

std::vector<Sample> spread(const SampleSource &source, size_t most) {
  std::vector<Sample> out;
  size_t count = std::min(source.count, most);
  for (size_t i = 0; i < count; ++i)
    out.push_back(source.get(i * source.count / count));
  return out;
}

std::vector<Sample> othersThan(const SampleSource &source, size_t most) {
  size_t count = std::min(source.count, most);
  std::set<size_t> taken;
  for (size_t i = 0; i < count; ++i)
    taken.insert(i * source.count / count);
  std::vector<size_t> rest;
  for (size_t i = 0; i < source.count; ++i)
    if (!taken.count(i))
      rest.push_back(i);
  if (rest.empty())
    return spread(source, most);
  std::vector<Sample> out;
  count = std::min(rest.size(), most);
  for (size_t i = 0; i < count; ++i)
    out.push_back(source.get(rest[i * rest.size() / count]));
  return out;
}

/// Whether all samples have the shapes of the first.
static bool areAlike(const std::vector<Sample> &samples) {
  for (const Sample &s : samples)
    for (auto &[name, tensor] : samples[0])
      if (auto it = s.find(name);
          it == s.end() || it->second.dims != tensor.dims)
        return false;
  return true;
}

void fixInputs(ModelProto &model, const SampleSource &source) {
  std::vector<Sample> samples = spread(source, 64);
  if (!areAlike(samples))
    return;
  const Sample &sample = samples[0];
  for (auto &v : *model.mutable_graph()->mutable_input()) {
    auto it = sample.find(v.name());
    if (it == sample.end() || !v.type().has_tensor_type())
      continue;
    auto *shape = v.mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->clear_dim();
    for (int64_t d : it->second.dims)
      shape->add_dim()->set_dim_value(d);
  }
}

} // namespace tessera::quantise
