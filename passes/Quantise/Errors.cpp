#include "passes/Quantise/Errors.h"
#include "compiler/Import/Model.h"
#include "passes/Quantise/Switches.h"

#include <algorithm>
#include <cmath>

namespace tessera::quantise {

ModelProto isolateUnits(const Graph &g, const ModelProto &emitted,
                        const std::vector<Unit> &units,
                        std::map<std::string, std::string> &copies) {
  std::map<std::string, int> unitOf; // by what a quantised unit's nodes make
  for (size_t u = 0; u < units.size(); ++u)
    if (units[u].quantised)
      for (int node : units[u].nodes)
        for (auto &o : g.node(node).output())
          unitOf[o] = int(u);
  ModelProto model = emitted;
  GraphProto &graph = *model.mutable_graph();
  std::set<std::string> have;
  for (auto &t : graph.initializer())
    have.insert(t.name());
  for (auto &t : g.graph().initializer())
    if (!have.count(t.name()))
      *graph.add_initializer() = t;
  onnx_import::NameSet names(graph);
  google::protobuf::RepeatedPtrField<NodeProto> nodes;
  for (auto &n : g.graph().node())
    if (n.op_type() == "Constant")
      *nodes.Add() = n;
  for (const NodeProto &n : emitted.graph().node()) {
    int old = n.output_size() ? g.producer(n.output(0)) : -1;
    if (n.op_type() == "Constant" && old >= 0)
      continue;
    if (old < 0) {
      *nodes.Add() = n;
      continue;
    }
    *nodes.Add() = g.node(old);
    auto unit = unitOf.find(n.output(0));
    if (unit == unitOf.end())
      continue;
    NodeProto &copy = *nodes.Add();
    copy = n;
    copy.set_name(n.name() + "_isolated");
    for (auto &v : *copy.mutable_input())
      if (auto it = copies.find(v);
          it != copies.end() && unitOf.at(v) == unit->second)
        v = it->second;
    for (auto &v : *copy.mutable_output())
      if (!v.empty()) {
        std::string wanted = names.unique(v + "_isolated");
        copies[v] = wanted;
        v = wanted;
      }
  }
  graph.mutable_node()->Swap(&nodes);
  return model;
}

namespace {

class ErrorSum {
public:
  void add(const View &want, const View &got) {
    if (want.type != TensorProto::FLOAT || got.type != TensorProto::FLOAT ||
        want.count() != got.count())
      return;
    for (int64_t i = 0; i < want.count(); ++i) {
      double a = want.floats()[i], b = got.floats()[i], d = a - b;
      signal += a * a;
      other += b * b;
      product += a * b;
      noise += d * d;
      largest = std::max(largest, std::fabs(d));
    }
  }

  ErrorFigures figures() const {
    double snr = !std::isfinite(noise) ? -99
                 : noise == 0
                     ? 200
                     : 10 * std::log10(std::max(signal, 1e-30) / noise);
    return {std::clamp(snr, -99.0, 200.0),
            signal * other > 0 ? product / std::sqrt(signal * other)
            : noise == 0       ? 1.0
                               : 0.0,
            largest};
  }

private:
  double signal = 0, other = 0, product = 0, noise = 0, largest = 0;
};

void feed(Runner &runner, const Sample &sample) {
  for (auto &[name, value] : sample)
    runner.set(name, value);
}

} // namespace

std::map<int, UnitErrors> measureErrors(const Graph &g,
                                        const ModelProto &emitted,
                                        const std::vector<Unit> &units,
                                        const std::vector<Sample> &samples,
                                        const CompileFunction &compile) {
  std::map<std::string, std::string> copies;
  Graph isolated(isolateUnits(g, emitted, units, copies)), after(emitted);
  std::vector<int> measured;
  std::vector<std::string> values, both;
  for (size_t u = 0; u < units.size(); ++u)
    if (units[u].quantised && g.isFloat(units[u].output) &&
        copies.count(units[u].output)) {
      measured.push_back(int(u));
      values.push_back(units[u].output);
    }
  if (values.empty())
    return {};
  both = values;
  for (auto &v : values)
    both.push_back(copies.at(v));
  auto alone = compile(withOutputs(isolated, both),
                       "a model with each unit quantised by itself"),
       together = compile(withOutputs(after, values),
                          "the quantised model with all its units as outputs");
  std::vector<ErrorSum> own(values.size()), all(values.size());
  for (const Sample &s : samples) {
    feed(*alone, s);
    feed(*together, s);
    std::vector<View> want = alone->run(), got = together->run();
    for (size_t k = 0; k < values.size(); ++k) {
      own[k].add(want[k], want[values.size() + k]);
      all[k].add(want[k], got[k]);
    }
  }
  std::map<int, UnitErrors> out;
  for (size_t k = 0; k < values.size(); ++k)
    out[measured[k]] = {own[k].figures(), all[k].figures()};
  return out;
}

std::map<int, std::vector<float>> meanErrors(const Graph &g,
                                             const ModelProto &emitted,
                                             const std::vector<Unit> &units,
                                             const std::vector<Sample> &samples,
                                             const CompileFunction &compile) {
  std::map<std::string, std::string> copies;
  Graph isolated(isolateUnits(g, emitted, units, copies));
  std::vector<int> measured;
  std::vector<std::string> wanted;
  for (size_t u = 0; u < units.size(); ++u) {
    const std::string &v = g.node(units[u].root).output(0);
    if (units[u].quantised && units[u].bias && copies.count(v)) {
      measured.push_back(int(u));
      wanted.push_back(v);
      wanted.push_back(copies.at(v));
    }
  }
  std::map<int, std::vector<float>> out;
  if (wanted.empty())
    return out;
  auto runner = compile(withOutputs(isolated, wanted),
                        "a model with each unit quantised by itself");
  std::map<int, std::vector<double>> sums;
  std::map<int, double> counts;
  for (const Sample &s : samples) {
    feed(*runner, s);
    std::vector<View> views = runner->run();
    for (size_t k = 0; k < measured.size(); ++k) {
      const View &want = views[2 * k], &got = views[2 * k + 1];
      // Conv and ConvTranspose: [N, C, ...]; Gemm: [N, C].
      if (want.dims.size() < 2 || want.dims != got.dims || !want.count())
        continue;
      int64_t channels = want.dims[1],
              inner = want.count() / want.dims[0] / channels;
      std::vector<double> &sum = sums[measured[k]];
      sum.resize(size_t(channels));
      for (int64_t i = 0; i < want.count(); ++i)
        sum[i / inner % channels] +=
            double(want.floats()[i]) - double(got.floats()[i]);
      counts[measured[k]] += double(want.dims[0] * inner);
    }
  }
  for (auto &[unit, sum] : sums)
    for (double s : sum)
      out[unit].push_back(float(s / counts[unit]));
  return out;
}

} // namespace tessera::quantise
