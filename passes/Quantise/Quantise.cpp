#include "passes/Quantise/Quantise.h"
#include "passes/Quantise/Exits.h"
#include "passes/Quantise/Lengths.h"
#include "passes/Quantise/Prepare.h"
#include "passes/Quantise/WeightOnly.h"

#include <algorithm>
#include <cmath>

namespace tessera::quantise {

static std::vector<double>
verifyAgainst(const std::vector<PartValues> &references,
              const ModelProto &emitted, const std::vector<Part> &parts,
              const std::vector<Sample> &samples,
              const CompileFunction &compile) {
  std::vector<std::string> outputs = valuesOf(parts);
  Graph after(emitted);
  auto runner = compile(withOutputs(after, outputs), "the quantised model");
  std::vector<std::vector<double>> each(parts.size());
  std::vector<bool> alive(parts.size(), false), lives(parts.size(), false);
  auto anyNonZero = [](const std::vector<float> &v) {
    return std::any_of(v.begin(), v.end(), [](float x) { return x != 0; });
  };
  for (size_t s = 0; s < samples.size(); ++s) {
    for (auto &[name, value] : samples[s])
      runner->set(name, value);
    PartValues got = readParts(parts, outputs, runner->run());
    for (size_t k = 0; k < parts.size(); ++k) {
      each[k].push_back(signalToNoise(references[s][k], got[k]));
      alive[k] = alive[k] || anyNonZero(references[s][k]);
      lives[k] = lives[k] || anyNonZero(got[k]);
    }
  }
  std::vector<double> out;
  for (size_t k = 0; k < parts.size(); ++k) {
    if (alive[k] && !lives[k])
      throw Refusal("output '" + parts[k].name +
                        "' of the quantised model is zero on all samples",
                    {"--coverage products or more islands may help"});
    out.push_back(median(each[k]));
  }
  return out;
}

static std::vector<PartValues>
referencesOf(FloatModel &model, const std::vector<Part> &parts,
             const std::vector<Sample> &samples) {
  std::vector<PartValues> out;
  for (const Sample &s : samples) {
    model.run(s);
    PartValues &values = out.emplace_back();
    for (const Part &p : parts)
      values.push_back(readPart(p, model.find(p.value)));
  }
  return out;
}

std::vector<double> verifyModel(const Graph &g, const ModelProto &emitted,
                                const std::vector<Part> &parts,
                                const std::vector<Sample> &samples,
                                const CompileFunction &compile) {
  FloatModel model(g, valuesOf(parts), compile);
  return verifyAgainst(referencesOf(model, parts, samples), emitted, parts,
                       samples, compile);
}

namespace {

/// How many samples a search may use: by the work of one run, not by the clock,
/// so that the result depends on model and data alone.
size_t searchSamples(double macs) {
  return macs > 0 ? size_t(std::clamp(3e9 / macs, 4.0, 16.0)) : 16;
}

/// Of samples that say whether a change is worth a closer look.
size_t fewSamples(double macs) {
  return macs > 0 ? size_t(std::clamp(1e9 / macs, 2.0, 4.0)) : 4;
}

void refuseEmpty(const std::vector<Unit> &units) {
  bool any = std::any_of(units.begin(), units.end(), [](const Unit &u) {
    return u.quantised && u.kind == UnitKind::Mac;
  });
  if (any)
    return;
  Refusal r("nothing to quantise: no product (Conv, ConvTranspose, MatMul, "
            "Gemm, LSTM, GRU, RNN) of the main graph has constant weights or "
            "activations of type float");
  r.notes.push_back("bodies of If, Loop and Scan, and models that are "
                    "quantised already, stay as they are");
  throw r;
}

class Pipeline {
public:
  Pipeline(ModelProto model, const SampleSource &s, const CompileFunction &c,
           const QuantiseOptions &o)
      : proto(std::move(model)), source(s), compile(c), options(o) {}

  QuantiseResult
  run(const std::function<void(const std::vector<Hazard> &)> &lint) {
    if (!source.count)
      throw Refusal("no calibration samples");
    prepare();
    ModelProto plain = proto;
    std::set<std::string> idle;
    while (true) {
      if (rotates())
        result.rotations = rotateGated(proto, idle);
      std::set<std::string> more = quantiseProto(lint);
      if (more.empty())
        return std::move(result);
      idle.merge(more);
      proto = plain;
      result = fresh;
    }
  }

private:
  /// All phases behind the preparation; or the rotations that are not worth
  /// their place.
  std::set<std::string>
  quantiseProto(const std::function<void(const std::vector<Hazard> &)> &lint) {
    Graph g(proto);
    std::set<std::string> added = exits;
    for (const Rotation &r : result.rotations)
      added.insert(r.nodes.begin(), r.nodes.end());
    for (int i = 0; i < g.nodeCount(); ++i)
      result.nodes.push_back({g.nameOf(i), g.node(i).op_type(),
                              added.count(g.node(i).name()) != 0});
    result.decisions.units = findUnits(g);
    std::vector<Unit> &units = result.decisions.units;
    for (Unit &u : units)
      u.type = options.activations;
    measureWork(g, units, source.get(0), compile);
    for (const Unit &u : units)
      result.macs += u.macs;
    PolicyOptions policy{options.coverage, result.originalOpset};
    std::set<int> hazardous;
    result.hazards = findHazards(g, policy, hazardous);
    policy.transformer =
        isTransformer(g) ||
        std::any_of(result.hazards.begin(), result.hazards.end(),
                    [](const Hazard &h) {
                      return h.kind == "decomposed-normalisation";
                    });
    choose(g, units, hazardous, policy);
    for (auto &[exit, maker] : exitsOf(g, units, exits))
      units[exit].quantised = true;
    applyRecipe(options.recipe, g, units, methods);
    separateRotations(result.rotations, units);
    for (Hazard &h : separateOpen(g, open, units))
      result.hazards.push_back(h);
    refuseEmpty(units);
    std::vector<std::string> values = valuesOfInterest(g, units);
    FloatModel model(g, values, compile);
    floatModel = &model;
    Ranges ranges =
        calibrate(model, values, source, options.calibration, peaks);
    if (auto idle = idleRotations(result.rotations, ranges); !idle.empty())
      return idle;
    widenOpen(g, open, ranges);
    for (Hazard &h : findRangeHazards(g, units, ranges))
      result.hazards.push_back(h);
    lint(result.hazards);
    separateUnlike(g, units, ranges);
    result.parts = findParts(g, ranges);
    samples = spread(source, searchSamples(result.macs));
    references = referencesOf(model, result.parts, samples);
    settle(g, ranges);
    if (options.feedback)
      roundWithFeedback(g, model, source, options.progress, result.decisions);
    result.emitted = emit(g, result.decisions);
    result.verified = verify(result.emitted.model);
    if (corrects())
      correctBiases(g);
    if (options.layerErrors)
      result.errors = measureErrors(g, result.emitted.model, units,
                                    spread(source, 4), compile);
    if (options.latency)
      priceIslands(g, ranges);
    for (const Unit &u : units)
      result.integerMacs += u.quantised && u.kind == UnitKind::Mac ? u.macs : 0;
    return {};
  }

  /// Elements between products are float as well only where little but products
  /// is quantised.
  bool rotates() const {
    return options.rotate && options.activations != TensorProto::INT16 &&
           (options.coverage == Coverage::Products ||
            (options.coverage == Coverage::Auto &&
             isTransformer(Graph(proto))));
  }

  void prepare() {
    result.originalOpset = raiseOpset(proto);
    foldWeights(proto, compile);
    result.foldedNorms = foldBatchNorms(proto);
    removeUnused(proto);
    // Constant shapes are compiled better, and tell how much work a product is.
    declared = proto.graph().input();
    open = openProbabilities(Graph(proto));
    fixInputs(proto, source);
    fresh = result;
    // Where all but products is float there would be one behind each of them.
    if (options.exits && !isTransformer(Graph(proto)))
      exits = insertExits(proto, {options.coverage, result.originalOpset});
  }

  std::vector<double> verify(const ModelProto &emitted) const {
    return verifyAgainst(references, emitted, result.parts, samples, compile);
  }

  /// Asked, or cheap: two more models are compiled, which is little beside few
  /// units or long runs.
  bool corrects() const {
    double units = double(result.decisions.units.size());
    return options.biasCorrection.value_or(units <= 24 ||
                                           result.macs >= 4e6 * units);
  }

  static double worst(const std::vector<double> &v) {
    return v.empty() ? 200 : *std::min_element(v.begin(), v.end());
  }

  /// The decisions with corrected biases, as a model and its noise. Small gains
  /// on these samples are chance as often as not; `gains` says whether it is
  /// more. None if there is nothing to correct.
  struct Corrected {
    Decisions decisions;
    EmitResult emitted;
    std::vector<double> verified;
    bool gains = false;
  };
  std::optional<Corrected> corrected(const Graph &g, const Decisions &decisions,
                                     const ModelProto &emitted,
                                     const std::vector<double> &before) const {
    Corrected c{decisions, {}, {}};
    auto lost = meanErrors(g, emitted, decisions.units,
                           othersThan(source, samples.size()), compile);
    if (lost.empty())
      return std::nullopt;
    // On top of what rounded weights left to the biases.
    for (auto &[unit, means] : lost) {
      std::vector<float> &shift = c.decisions.biasShifts[unit];
      shift.resize(means.size(), 0);
      for (size_t k = 0; k < means.size(); ++k)
        shift[k] += means[k];
    }
    c.emitted = emit(g, c.decisions);
    c.verified = verify(c.emitted.model);
    double needed = options.biasCorrection ? 0 : 1;
    c.gains = worst(c.verified) > worst(before) + needed;
    return c;
  }

  void correctBiases(const Graph &g) {
    auto other =
        corrected(g, result.decisions, result.emitted.model, result.verified);
    if (!other)
      return;
    if (other->gains || options.biasCorrection)
      result.corrected = {worst(result.verified), worst(other->verified)};
    if (!other->gains)
      return;
    result.decisions = std::move(other->decisions);
    result.emitted = std::move(other->emitted);
    result.verified = std::move(other->verified);
  }

  /// Accuracy and cost of each number of islands that the search tried.
  void priceIslands(const Graph &g, const Ranges &ranges) {
    Decisions d = result.decisions;
    for (const IslandStep &step : result.islands.tried)
      d.units[step.unit].quantised = true;
    const auto &before =
        result.islands.before.empty() ? result.verified : result.islands.before;
    double worst = *std::min_element(before.begin(), before.end());
    for (size_t k = 0; k <= result.islands.tried.size(); ++k) {
      if (options.progress)
        options.progress("pricing islands", k, result.islands.tried.size());
      if (k) {
        d.units[result.islands.tried[k - 1].unit].quantised = false;
        worst = result.islands.tried[k - 1].worst;
      }
      decideScales(g, ranges, result.ranges, options.percentile, methods, d);
      result.frontier.push_back({k, worst, options.latency(emit(g, d).model)});
    }
  }

  /// Scales by the best range method, then islands.
  void settle(const Graph &g, const Ranges &ranges) {
    Decisions &d = result.decisions;
    d.searchWeightError = options.searchWeightError;
    std::optional<RangeMethod> fixed =
        options.recipe.ranges ? options.recipe.ranges : options.ranges;
    result.ranges = fixed.value_or(RangeMethod::MinMax);
    decideScales(g, ranges, result.ranges, options.percentile, methods, d);
    if (fixed && options.islands.most == 0 && !options.choose)
      return;
    SwitchModel model(g, d, result.parts, compile, samples, references);
    if (!fixed && options.activations != TensorProto::INT16)
      addWild(g, model);
    if (!fixed)
      pickMethod(g, ranges, model);
    if (options.choose)
      return chooseOutside(g, ranges, model);
    IslandOptions islands = options.islands;
    islands.few = fewSamples(result.macs);
    // Who asks for 16 bits asks for accuracy: smaller gains count.
    if (options.activations == TensorProto::INT16)
      islands.leastGain /= 3;
    result.islands = findIslands(model, d.units, islands);
    for (const IslandStep &step : result.islands.steps) {
      d.units[step.unit].quantised = false;
      d.units[step.unit].reason = "float island";
    }
    if (!fixed)
      refineMethods(g, ranges, model);
    decideScales(g, ranges, result.ranges, options.percentile, methods, d);
  }

  /// Samples that clipping costs the most, if they are not in the search
  /// anyway.
  void addWild(const Graph &g, SwitchModel &model) {
    std::set<std::string> values;
    for (const PointKey &key : pointsOf(g, result.decisions.units))
      values.insert(key.value);
    std::set<size_t> taken;
    for (size_t i = 0; i < samples.size(); ++i)
      taken.insert(i * source.count / samples.size());
    std::vector<Sample> wild;
    for (size_t s :
         wildest(peaks, values, source.count, (samples.size() + 3) / 4))
      if (!taken.count(s))
        wild.push_back(source.get(s));
    auto outputs = referencesOf(*floatModel, result.parts, wild);
    model.addWild(std::move(wild), std::move(outputs));
  }

  /// The caller says which candidates are integers.
  void chooseOutside(const Graph &g, const Ranges &ranges, SwitchModel &model) {
    auto with = [&](const std::set<int> &on) {
      Decisions d = result.decisions;
      for (int u : model.candidates())
        d.units[u].quantised = on.count(u) != 0;
      decideScales(g, ranges, result.ranges, options.percentile, methods, d);
      return d;
    };
    ChoiceContext context{g,
                          exitsOf(g, result.decisions.units, exits),
                          result.decisions.units,
                          result.parts,
                          model,
                          {},
                          {},
                          corrects()};
    context.emit = [&](const std::set<int> &on, bool final) {
      Decisions d = with(on);
      if (final && options.feedback)
        roundWithFeedback(g, *floatModel, source, options.progress, d);
      ModelProto emitted = emit(g, d).model;
      if (final && corrects())
        if (auto other = corrected(g, d, emitted, verify(emitted));
            other && other->gains)
          emitted = std::move(other->emitted.model);
      *emitted.mutable_graph()->mutable_input() = declared;
      return emitted;
    };
    context.verify = [&](const ModelProto &emitted) { return verify(emitted); };
    result.decisions = with(options.choose(context));
    for (int u : model.candidates())
      if (Unit &unit = result.decisions.units[u]; !unit.quantised)
        unit.reason = "chosen with its device";
  }

  /// Another range method for what the noisiest units read, where it helps.
  void refineMethods(const Graph &g, const Ranges &ranges, SwitchModel &model) {
    Decisions &d = result.decisions;
    std::vector<std::pair<double, int>> noisy;
    std::set<int> on;
    for (int u : model.candidates())
      if (d.units[u].quantised)
        on.insert(u);
    for (auto &[unit, parts] : result.islands.solo)
      if (on.count(unit))
        noisy.push_back({*std::min_element(parts.begin(), parts.end()), unit});
    std::sort(noisy.begin(), noisy.end());
    noisy.resize(std::min<size_t>(noisy.size(), 8));
    size_t few = fewSamples(result.macs);
    std::set<std::map<PointKey, Params>> tried;
    model.enableOnly(on);
    double best = noisy.empty() ? 0 : model.robustWorst(),
           bestOfFew = noisy.empty() ? 0 : model.robustWorst(few);
    for (size_t k = 0; k < noisy.size(); ++k) {
      if (options.progress)
        options.progress("refining ranges", k, noisy.size());
      const Unit &u = d.units[noisy[k].second];
      for (RangeMethod m :
           {RangeMethod::MinMax, RangeMethod::Percentile, RangeMethod::Mse}) {
        auto before = methods;
        for (const Use &use : u.activations)
          methods.emplace(g.node(use.node).input(use.input), m);
        if (m == result.ranges || methods == before)
          continue;
        Decisions trial = candidatesOf(model);
        decideScales(g, ranges, result.ranges, options.percentile, methods,
                     trial);
        if (!tried.insert(trial.points).second) {
          methods = before;
          continue;
        }
        model.rescale(trial);
        double ofFew = model.robustWorst(few),
               now = ofFew > bestOfFew ? model.robustWorst(SIZE_MAX, best + 0.1)
                                       : -1000;
        if (now > best + 0.1) {
          best = now;
          bestOfFew = ofFew;
        } else {
          methods = before;
        }
      }
    }
  }

  /// The decisions with all candidates of the switchable model quantised: its
  /// points.
  Decisions candidatesOf(const SwitchModel &model) const {
    Decisions all;
    all.units = result.decisions.units;
    for (int u : model.candidates())
      all.units[u].quantised = true;
    return all;
  }

  void pickMethod(const Graph &g, const Ranges &ranges, SwitchModel &model) {
    Decisions best = result.decisions;
    std::set<std::map<PointKey, Params>> tried;
    double worst = -1000, least = worst;
    for (RangeMethod m : {RangeMethod::MinMax, RangeMethod::Percentile,
                          RangeMethod::Mse, RangeMethod::Between}) {
      Decisions d = result.decisions;
      decideScales(g, ranges, m, options.percentile, methods, d);
      if (!tried.insert(d.points).second)
        continue;
      model.rescale(d);
      double w = model.robustWorst(SIZE_MAX, worst);
      // Another than min-max must earn it.
      if (m == RangeMethod::MinMax)
        least = w + 0.1;
      if (w > worst && (m == RangeMethod::MinMax || w > least)) {
        worst = w;
        best = d;
        result.ranges = m;
      }
    }
    model.rescale(best);
    result.decisions.points = best.points;
  }

  ModelProto proto;
  const SampleSource &source;
  const CompileFunction &compile;
  const QuantiseOptions &options;
  std::set<std::string> open;       ///< probabilities over axes of open length
  FloatModel *floatModel = nullptr; ///< while run() works
  std::vector<Sample> samples;
  std::vector<PartValues> references;         ///< of the float model, by sample
  std::map<std::string, RangeMethod> methods; ///< by value, from the recipe
  google::protobuf::RepeatedPtrField<::onnx::ValueInfoProto> declared;
  std::set<std::string> exits; ///< names of inserted nodes
  Peaks peaks;
  QuantiseResult result, fresh; ///< the second: as it is after the preparation

public:
  /// The inputs as the model declares them.
  const auto &declaredInputs() const { return declared; }
};

} // namespace

QuantiseResult
quantise(ModelProto original, const SampleSource &samples,
         const CompileFunction &compile, const QuantiseOptions &options,
         const std::function<void(const std::vector<Hazard> &)> &lint) {
  Pipeline pipeline(std::move(original), samples, compile, options);
  QuantiseResult result = pipeline.run(lint);
  *result.emitted.model.mutable_graph()->mutable_input() =
      pipeline.declaredInputs();
  return result;
}

} // namespace tessera::quantise
