#include "passes/Quantise/Decisions.h"
#include "passes/Quantise/Parallel.h"

#include <algorithm>
#include <cmath>

namespace tessera::quantise {

ActivationType activationType(int32_t type) {
  switch (type) {
  case TensorProto::UINT8:
    return {TensorProto::UINT8, 0, 255, false};
  case TensorProto::INT16:
    return {TensorProto::INT16, -32768, 32767, true};
  default:
    return {TensorProto::INT8, -128, 127, false};
  }
}

std::set<PointKey> pointsOf(const Graph &g, const std::vector<Unit> &units) {
  std::set<PointKey> keys;
  for (const Unit &u : units)
    if (u.quantised)
      for (const Use &use : u.activations)
        keys.insert({g.node(use.node).input(use.input), u.type});
  return keys;
}

void decideScales(const Graph &g, const Ranges &ranges, RangeMethod method,
                  double share,
                  const std::map<std::string, RangeMethod> &methods,
                  Decisions &d) {
  std::map<std::string, std::string> groups = scaleGroups(g, d.units);
  std::map<std::string, Histogram> merged; // of groups of more than one
  std::map<std::string, std::vector<const Histogram *>> shared;
  std::map<std::string, RangeMethod> asked;
  auto groupOf = [&](const std::string &v) {
    auto it = groups.find(v);
    return it == groups.end() ? v : it->second;
  };
  std::set<PointKey> keys = pointsOf(g, d.units);
  std::set<std::string> values;
  for (auto &key : keys)
    values.insert(key.value);
  for (auto &v : values) {
    auto &members = shared[groupOf(v)];
    if (auto it = ranges.find(v); it != ranges.end())
      members.push_back(&it->second);
    if (auto it = methods.find(v); it != methods.end())
      asked[groupOf(v)] = it->second;
  }
  for (auto &[group, members] : shared) {
    if (members.size() == 1)
      continue;
    Histogram &all = merged[group];
    for (const Histogram *h : members)
      all.merge(*h);
    members = {&all};
  }
  d.points.clear();
  std::map<std::string, std::map<int32_t, Params>> params; // by group and type
  for (auto &key : keys)
    params[groupOf(key.value)][key.type];
  std::vector<decltype(params)::value_type *> work;
  for (auto &entry : params)
    work.push_back(&entry);
  inParallel(work.size(), [&](size_t i) {
    auto &[group, types] = *work[i];
    auto it = asked.find(group);
    for (auto &[type, into] : types) {
      ActivationType a = activationType(type);
      into = paramsFor(
          shared.at(group)[0]->range(it == asked.end() ? method : it->second,
                                     a.levels(), a.symmetric, share),
          a);
    }
  });
  for (auto &key : keys)
    d.points[key] = params.at(groupOf(key.value)).at(key.type);
}

// The scale of an int32 bias is that of the products. Where a channel's weights
// are so small that its bias would not fit, its weights get a wider scale: they
// are then below what the bias resolves.
static std::vector<float> leastScales(const Graph &g, const Unit &u,
                                      const Decisions &d) {
  if (!u.bias || u.activations.size() != 1)
    return {};
  auto bias = g.floats(g.node(u.bias->node).input(u.bias->input));
  auto point = d.points.find(
      {g.node(u.activations[0].node).input(u.activations[0].input), u.type});
  if (!bias || point == d.points.end())
    return {};
  std::vector<float> least;
  for (float b : bias->values)
    least.push_back(float(std::fabs(double(b)) / double(point->second.scale) /
                          double(1 << 30)));
  return least;
}

std::map<WeightUse, QuantisedWeights>
quantiseUnitWeights(const Graph &g, const Unit &u, const Decisions &d) {
  std::map<WeightUse, QuantisedWeights> out;
  for (const WeightUse &w : u.weights) {
    if (auto it = d.rounded.find(w); it != d.rounded.end()) {
      out[w] = it->second;
      continue;
    }
    FloatTensor values = *g.floats(w.name);
    std::vector<float> least = leastScales(g, u, d);
    // The groups of a ConvTranspose share the scales along its weights' axis.
    size_t channels = size_t(values.dims[w.axis]);
    if (channels && g.node(u.root).op_type() == "ConvTranspose")
      for (; least.size() > channels; least.pop_back()) {
        float &same = least[(least.size() - 1) % channels];
        same = std::max(same, least.back());
      }
    if (least.size() != channels)
      least.clear();
    out[w] = quantiseWeights(values, w.axis, d.searchWeightError, least);
  }
  return out;
}

} // namespace tessera::quantise
