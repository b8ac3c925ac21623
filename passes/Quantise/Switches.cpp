#include "passes/Quantise/Switches.h"
#include "passes/Quantise/Emit.h"
#include "passes/Quantise/Splice.h"

#include <algorithm>
#include <cmath>

namespace tessera::quantise {

double quantile(std::vector<double> v, double share) {
  if (v.empty())
    return 0;
  std::sort(v.begin(), v.end());
  double at = share * double(v.size() - 1);
  size_t below = size_t(at), above = std::min(below + 1, v.size() - 1);
  return v[below] + (v[above] - v[below]) * (at - double(below));
}

double signalToNoise(const std::vector<float> &reference,
                     const std::vector<float> &got) {
  if (reference.size() != got.size())
    return -99;
  double signal = 0, noise = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    double d = double(reference[i]) - double(got[i]);
    signal += double(reference[i]) * reference[i];
    noise += d * d;
  }
  if (!std::isfinite(noise))
    return -99;
  if (noise == 0)
    return 200;
  return std::clamp(10 * std::log10(std::max(signal, 1e-30) / noise), -99.0,
                    200.0);
}

// -- Parts

static Part::Form formOf(const Graph &g, std::string value) {
  for (int depth = 0; depth < 16; ++depth) {
    int p = g.producer(value);
    if (p < 0)
      return Part::Plain;
    const NodeProto &n = g.node(p);
    bool exponential = n.op_type() == "Div" && g.producer(n.input(0)) >= 0 &&
                       g.node(g.producer(n.input(0))).op_type() == "Exp";
    if (n.op_type() == "Softmax" ||
        exponential) // the latter is a softmax written out
      return Part::Log;
    if (n.op_type() == "Sigmoid")
      return Part::Logit;
    if (!isMove(n))
      return Part::Plain;
    value = n.input(0);
  }
  return Part::Plain;
}

std::vector<Part> findParts(const Graph &g, const Ranges &ranges) {
  std::vector<Part> parts;
  std::function<void(const std::string &, const std::string &, int)> visit =
      [&](const std::string &name, const std::string &value, int depth) {
        std::vector<std::string> members = concatMembers(g, value);
        std::vector<const Histogram *> known;
        for (auto &m : members)
          if (auto it = ranges.find(m); it != ranges.end())
            known.push_back(&it->second);
        if (depth && known.size() == members.size() && areUnlike(known)) {
          for (size_t k = 0; k < members.size(); ++k)
            if (!known[k]->empty() &&
                known[k]->seen().high > known[k]->seen().low)
              visit(name + "[" + std::to_string(k) + "]", members[k],
                    depth - 1);
          return;
        }
        parts.push_back({name, value, Part::Plain});
        if (Part::Form form = formOf(g, value); form != Part::Plain)
          parts.push_back({name + (form == Part::Log ? " (log)" : " (logit)"),
                           value, form});
      };
  for (auto &o : g.graph().output())
    if (g.isFloat(o.name()) && !g.isConstant(o.name()))
      visit(o.name(), o.name(), 3);
  return parts;
}

static std::vector<float> inForm(Part::Form form, const View &v) {
  std::vector<float> x(v.floats(), v.floats() + v.count());
  if (form == Part::Plain)
    return x;
  for (float &p : x) {
    double q = std::clamp(double(p), 1e-4, 1 - 1e-4);
    p = float(form == Part::Log ? std::log(q) : std::log(q / (1 - q)));
  }
  if (form == Part::Log && !v.dims.empty() && v.dims.back() > 0) {
    size_t row = size_t(v.dims.back());
    for (size_t i = 0; i + row <= x.size(); i += row) {
      double mean = 0;
      for (size_t k = 0; k < row; ++k)
        mean += x[i + k];
      for (size_t k = 0; k < row; ++k)
        x[i + k] -= float(mean / double(row));
    }
  }
  return x;
}

std::vector<std::string> valuesOf(const std::vector<Part> &parts) {
  std::vector<std::string> values;
  for (const Part &p : parts)
    if (std::find(values.begin(), values.end(), p.value) == values.end())
      values.push_back(p.value);
  return values;
}

std::vector<float> readPart(const Part &p, const View *v) {
  return v && v->type == TensorProto::FLOAT ? inForm(p.form, *v)
                                            : std::vector<float>();
}

PartValues readParts(const std::vector<Part> &parts,
                     const std::vector<std::string> &outputs,
                     const std::vector<View> &views) {
  PartValues out;
  for (const Part &p : parts) {
    size_t k = size_t(std::find(outputs.begin(), outputs.end(), p.value) -
                      outputs.begin());
    out.push_back(readPart(p, k < views.size() ? &views[k] : nullptr));
  }
  return out;
}

ModelProto withOutputs(const Graph &g, const std::vector<std::string> &wanted) {
  ModelProto m = g.model();
  m.mutable_graph()->clear_output();
  m.mutable_graph()->clear_value_info();
  for (auto &v : wanted) {
    auto *o = m.mutable_graph()->add_output();
    o->set_name(v);
    o->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
  }
  return m;
}

// -- The model

namespace {

const char *kScales = "tessera.scales", *kEnables = "tessera.enables";

void addInput(GraphProto &graph, const std::string &name, int32_t type,
              const std::vector<int64_t> &dims) {
  auto *v = graph.add_input();
  v->set_name(name);
  auto *t = v->mutable_type()->mutable_tensor_type();
  t->set_elem_type(type);
  for (int64_t d : dims)
    t->mutable_shape()->add_dim()->set_dim_value(d);
}

/// input -> its elements as values of one element each.
std::vector<std::string> addElements(GraphProto &graph, Splice &splice,
                                     const std::string &input, size_t count) {
  std::string sizes = input + ".sizes";
  *graph.add_initializer() =
      makePacked(sizes, TensorProto::INT64, {int64_t(count)},
                 std::vector<int64_t>(count, 1));
  NodeProto split = makeNode("Split", {input, sizes}, input + ".0");
  for (size_t i = 1; i < count; ++i)
    split.add_output(input + "." + std::to_string(i));
  splice.before.push_back(split);
  return {split.output().begin(), split.output().end()};
}

} // namespace

SwitchModel::SwitchModel(const Graph &g, const Decisions &d,
                         const std::vector<Part> &p,
                         const CompileFunction &compile,
                         const std::vector<Sample> &s,
                         const std::vector<PartValues> &r)
    : graph(g), decisions(d), parts(p), outputs(valuesOf(p)), samples(s),
      references(r) {
  for (size_t i = 0; i < d.units.size(); ++i)
    if (d.units[i].quantised) {
      slot[int(i)] = int(order.size());
      order.push_back(int(i));
    }
  for (auto &[key, params] : d.points)
    pointSlot.emplace(key, int(pointSlot.size()) * 3);
  enables.assign(order.size(), 1);
  build();
  runner = compile(model, "a model whose quantisation is switched by inputs");
  rescale(d);
  for (int unit : order)
    setWeights(unit);
}

void SwitchModel::build() {
  model = withOutputs(graph, outputs);
  GraphProto &out = *model.mutable_graph();
  size_t scaleCount = std::max<size_t>(pointSlot.size() * 3, 1),
         enableCount = std::max<size_t>(order.size(), 1);
  addInput(out, kScales, TensorProto::FLOAT, {int64_t(scaleCount)});
  addInput(out, kEnables, TensorProto::BOOL, {int64_t(enableCount)});
  Splice splice;
  std::vector<std::string> scale =
                               addElements(out, splice, kScales, scaleCount),
                           enable =
                               addElements(out, splice, kEnables, enableCount);
  for (auto &[key, at] : pointSlot) {
    std::string stem = "tessera.point" + std::to_string(at);
    std::vector<NodeProto> &list = splice.after[key.value];
    list.push_back(makeNode("Div", {key.value, scale[at]}, stem + ".d"));
    list.push_back(makeNode("Round", {stem + ".d"}, stem + ".r"));
    list.push_back(makeNode("Max", {stem + ".r", scale[at + 1]}, stem + ".l"));
    list.push_back(makeNode("Min", {stem + ".l", scale[at + 2]}, stem + ".h"));
    list.push_back(makeNode("Mul", {stem + ".h", scale[at]}, stem));
  }
  for (int unit : order) {
    const Unit &u = decisions.units[unit];
    std::string name = "tessera.unit" + std::to_string(unit);
    std::set<std::string> made;
    for (const Use &use : u.activations) {
      const std::string &v = graph.node(use.node).input(use.input);
      std::string at = std::to_string(pointSlot.at({v, u.type})),
                  read = name + "." + at;
      splice.reads[use] = read;
      if (made.insert(read).second)
        splice.after[v].push_back(makeNode(
            "Where", {enable[slot[unit]], "tessera.point" + at, v}, read));
    }
    for (const WeightUse &w : u.weights) {
      std::string input = name + ".weight" + std::to_string(w.use.input);
      addInput(out, input, TensorProto::FLOAT, graph.floats(w.name)->dims);
      splice.reads[w.use] = input;
    }
  }
  auto nodes = spliced(graph, splice);
  out.mutable_node()->Swap(&nodes);
  removeUnused(model); // the weights
}

void SwitchModel::rescale(const Decisions &d) {
  decisions.points = d.points;
  scales.assign(std::max<size_t>(pointSlot.size() * 3, 1), 1);
  for (auto &[key, at] : pointSlot) {
    Params p = decisions.points.at(key);
    ActivationType type = activationType(key.type);
    scales[at] = p.scale;
    scales[at + 1] = float(type.low - p.zero);
    scales[at + 2] = float(type.high - p.zero);
  }
  runner->set(kScales, makeTensor({int64_t(scales.size())}, scales));
}

void SwitchModel::setWeights(int unit) {
  const Unit &u = decisions.units[unit];
  bool on = enables[slot[unit]];
  auto &kept = rounded[unit];
  if (on && kept.empty())
    for (auto &[use, q] : quantiseUnitWeights(graph, u, decisions)) {
      FloatTensor t = dequantise(q);
      kept.push_back(makeTensor(t.dims, t.values));
    }
  std::set<WeightUse> uses(u.weights.begin(), u.weights.end());
  size_t k = 0;
  for (const WeightUse &w : uses) {
    FloatTensor t;
    if (!on)
      t = *graph.floats(w.name);
    runner->set("tessera.unit" + std::to_string(unit) + ".weight" +
                    std::to_string(w.use.input),
                on ? kept[k++] : makeTensor(t.dims, t.values));
  }
}

void SwitchModel::enable(int unit, bool on) {
  uint8_t &now = enables[slot.at(unit)];
  if (now == uint8_t(on))
    return;
  now = on;
  setWeights(unit);
}

void SwitchModel::enableOnly(const std::set<int> &units) {
  for (int unit : order)
    enable(unit, units.count(unit) != 0);
}

PartValues SwitchModel::runOn(const Sample &sample) {
  Tensor flags;
  flags.type = TensorProto::BOOL;
  flags.data = enables;
  if (flags.data.empty())
    flags.data.push_back(0);
  flags.dims = {int64_t(flags.data.size())};
  runner->set(kEnables, flags);
  for (auto &[name, value] : sample)
    runner->set(name, value);
  return readParts(parts, outputs, runner->run());
}

void SwitchModel::addWild(std::vector<Sample> s, std::vector<PartValues> r) {
  wild = std::move(s);
  wildReferences = std::move(r);
}

void SwitchModel::measureOn(const Sample &sample, const PartValues &reference,
                            std::vector<std::vector<double>> &each) {
  PartValues got = runOn(sample);
  for (size_t k = 0; k < parts.size(); ++k)
    each[k].push_back(signalToNoise(reference[k], got[k]));
}

std::vector<std::vector<double>> SwitchModel::measureEach(size_t most) {
  std::vector<std::vector<double>> each(parts.size());
  size_t count = std::min(most, samples.size());
  for (size_t i = 0; i < count; ++i) {
    size_t s = i * samples.size() / count;
    measureOn(samples[s], references[s], each);
  }
  return each;
}

std::vector<double> SwitchModel::measure(size_t most) {
  std::vector<double> out;
  for (auto &v : measureEach(most))
    out.push_back(median(v));
  return out;
}

double SwitchModel::robustWorst(size_t most, double needed) {
  auto each = measureEach(most), all = each;
  auto worst = [&] {
    double least = 200;
    for (size_t k = 0; k < each.size(); ++k)
      // A wild sample that does well hides none of the others.
      least =
          std::min(least, (median(each[k]) + std::min(quantile(each[k], 0.1),
                                                      quantile(all[k], 0.1))) /
                              2);
    return least;
  };
  if (double tame = worst(); most < samples.size() || tame <= needed)
    return tame;
  for (size_t s = 0; s < wild.size(); ++s)
    measureOn(wild[s], wildReferences[s], all);
  return worst();
}

} // namespace tessera::quantise
