#include "passes/Quantise/Calibrate.h"
#include "passes/Quantise/Parallel.h"
#include "passes/Quantise/Switches.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace tessera::quantise {

FloatModel::FloatModel(const Graph &g, std::vector<std::string> values,
                       const CompileFunction &c)
    : graph(g), compile(c) {
  std::set<std::string> inputs;
  for (auto &v : g.graph().input())
    inputs.insert(v.name());
  for (std::string &v : values)
    if (!inputs.count(v))
      outputs.push_back(std::move(v));
}

void FloatModel::run(const Sample &sample) {
  if (!runner)
    runner = compile(withOutputs(graph, outputs),
                     "the float model with all its values as outputs");
  for (auto &[name, value] : sample)
    runner->set(name, value);
  current = sample;
  views.clear();
  for (auto &[name, value] : current)
    views[name] = {value.type, value.dims, value.data.data()};
  std::vector<View> results = runner->run();
  for (size_t k = 0; k < outputs.size(); ++k)
    views[outputs[k]] = results[k];
}

const View *FloatModel::find(const std::string &value) const {
  auto it = views.find(value);
  return it == views.end() ? nullptr : &it->second;
}

std::vector<std::string> valuesOfInterest(const Graph &g,
                                          const std::vector<Unit> &units) {
  std::vector<std::string> values;
  std::set<std::string> seen;
  auto add = [&](const std::string &v) {
    if (!v.empty() && g.isFloat(v) && !g.tensor(v) && seen.insert(v).second)
      values.push_back(v);
  };
  for (const Unit &u : units)
    for (const Use &use : u.activations)
      add(g.node(use.node).input(use.input));
  for (int i = 0; i < g.nodeCount(); ++i)
    if (g.node(i).op_type() == "Concat")
      for (auto &v : g.node(i).input())
        add(v);
  for (auto &o : g.graph().output())
    add(o.name());
  return values;
}

namespace {

// "tessera ranges 2", the key, the number of finished samples, then three lines
// a value: name, distribution, peaks.
bool loadCache(const CalibrationOptions &options,
               const std::vector<std::string> &values, Ranges &ranges,
               Peaks &peaks, size_t &done) {
  std::ifstream file(options.cacheFile, std::ios::binary);
  std::string line, key;
  if (options.cacheFile.empty() || !std::getline(file, line) ||
      line != "tessera ranges 2" || !std::getline(file, key) ||
      key != options.key || !std::getline(file, line))
    return false;
  size_t count = std::strtoull(line.c_str(), nullptr, 10);
  Ranges read;
  Peaks high;
  std::string name, text, furthest;
  while (std::getline(file, name) && std::getline(file, text) &&
         std::getline(file, furthest)) {
    auto h = Histogram::load(text);
    std::vector<float> &p = high[name];
    const char *at = furthest.c_str();
    for (char *end; p.size() < count; at = end) {
      p.push_back(std::strtof(at, &end));
      if (end == at)
        return false;
    }
    if (!h)
      return false;
    read[name] = *h;
  }
  for (auto &v : values)
    if (!read.count(v))
      return false;
  ranges = std::move(read);
  peaks = std::move(high);
  done = count;
  return true;
}

void saveCache(const CalibrationOptions &options, const Ranges &ranges,
               const Peaks &peaks, size_t done) {
  if (options.cacheFile.empty())
    return;
  std::string pending = options.cacheFile + ".pending";
  std::ofstream file(pending, std::ios::binary);
  file << "tessera ranges 2\n" << options.key << "\n" << done << "\n";
  for (auto &[name, histogram] : ranges)
    if (name.find('\n') == std::string::npos) {
      file << name << "\n" << histogram.save() << "\n";
      for (float p : peaks.at(name)) {
        char text[32];
        std::snprintf(text, sizeof(text), "%a ", double(p));
        file << text;
      }
      file << "\n";
    }
  file.close();
  if (!file || std::rename(pending.c_str(), options.cacheFile.c_str()))
    throw Refusal("cannot write the ranges to '" + options.cacheFile + "'");
}

} // namespace

void measureWork(const Graph &g, std::vector<Unit> &units, const Sample &sample,
                 const CompileFunction &compile) {
  std::set<std::string> wanted;
  for (const Unit &u : units)
    if (u.kind == UnitKind::Mac && u.macs == 0)
      for (const std::string &v :
           {g.node(u.root).input(0), g.node(u.root).input(1),
            g.node(u.root).output(0)})
        if (!v.empty() && !g.tensor(v) && g.producer(v) >= 0)
          wanted.insert(v);
  if (wanted.empty())
    return;
  std::vector<std::string> values(wanted.begin(), wanted.end());
  auto runner = compile(withOutputs(g, values),
                        "the float model with its products as outputs");
  for (auto &[name, value] : sample)
    runner->set(name, value);
  std::vector<View> views = runner->run();
  auto shapeOf =
      [&](const std::string &v) -> std::optional<std::vector<int64_t>> {
    if (auto it = std::find(values.begin(), values.end(), v);
        it != values.end())
      return views[size_t(it - values.begin())].dims;
    if (auto it = sample.find(v); it != sample.end())
      return it->second.dims;
    return g.shape(v);
  };
  for (Unit &u : units)
    if (u.kind == UnitKind::Mac && u.macs == 0)
      u.macs = countMacs(g, u.root, shapeOf);
}

static float furthest(const View &v) {
  float most = 0;
  for (int64_t i = 0; i < v.count(); ++i)
    if (float x = std::fabs(v.floats()[i]); x > most && std::isfinite(x))
      most = x;
  return most;
}

std::vector<size_t> wildest(const Peaks &peaks,
                            const std::set<std::string> &values, size_t samples,
                            size_t count) {
  // How far on average over the values, each against its own largest.
  std::vector<std::pair<double, size_t>> order;
  for (size_t s = 0; s < samples; ++s)
    order.push_back({0, s});
  for (auto &v : values) {
    auto it = peaks.find(v);
    if (it == peaks.end() || it->second.size() < samples)
      continue;
    for (size_t s = 0; s < samples; ++s)
      order[s].first -= std::log2(std::max(it->second[s], 1e-30f));
  }
  std::sort(order.begin(), order.end());
  std::vector<size_t> out;
  for (size_t k = 0; k < std::min(count, samples); ++k)
    out.push_back(order[k].second);
  std::sort(out.begin(), out.end());
  return out;
}

Ranges calibrate(FloatModel &model, const std::vector<std::string> &wanted,
                 const SampleSource &samples, const CalibrationOptions &options,
                 Peaks &peaks) {
  Ranges ranges;
  size_t done = 0;
  if (loadCache(options, wanted, ranges, peaks, done) && done >= samples.count)
    return ranges;
  for (auto &v : wanted) {
    ranges[v];
    peaks[v].resize(samples.count);
  }
  for (size_t s = done; s < samples.count; ++s) {
    if (options.progress)
      options.progress("calibrating", s, samples.count);
    model.run(samples.get(s));
    inParallel(wanted.size(), [&](size_t k) {
      const View *v = model.find(wanted[k]);
      if (!v || v->type != TensorProto::FLOAT)
        return;
      ranges.at(wanted[k]).add(v->floats(), v->count());
      peaks.at(wanted[k])[s] = furthest(*v);
    });
    // Long calibrations can be stopped and taken up again.
    if (s + 1 == samples.count || (s + 1) % 64 == 0)
      saveCache(options, ranges, peaks, s + 1);
  }
  return ranges;
}

} // namespace tessera::quantise
