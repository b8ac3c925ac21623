#include "passes/Precision/ChoosePrecision.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/Precision/HalfRounding.h"
#include "targets/CostModel.h"

#include <algorithm>
#include <cstdio>

using namespace mlir;

namespace tessera {

using quantise::ModelProto;
using quantise::Refusal;

std::vector<size_t> PrecisionChoice::pareto() const {
  auto noiseOf = [&](size_t k) {
    return plans[k].verified.value_or(plans[k].noise);
  };
  std::vector<size_t> order, front;
  for (size_t k = 0; k < plans.size(); ++k)
    order.push_back(k);
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return std::pair(plans[a].cost, noiseOf(a)) <
           std::pair(plans[b].cost, noiseOf(b));
  });
  for (size_t k : order)
    if (front.empty() || noiseOf(k) < noiseOf(front.back()))
      front.push_back(k);
  return front;
}

bool computesInHalf(const TargetDescription &target,
                    const PlaceOptions &place) {
  return !place.strict &&
         llvm::any_of(llvm::drop_begin(target.units), [](const Unit &unit) {
           return unit.supports(Precision::F16);
         });
}

static std::string percentText(double share) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.3g%% (%.1f dB)", share * 100,
                decibelOfShare(share));
  return text;
}

namespace {

class Chooser {
public:
  Chooser(quantise::ChoiceContext &model, const ChooseOptions &options,
          PrecisionChoice &choice)
      : model(model), options(options), choice(choice),
        all(model.model.candidates().begin(), model.model.candidates().end()) {
    for (int u : all)
      if (model.units[u].pinned)
        forced.insert(u);
  }
  std::set<int> run();

private:
  static constexpr unsigned mostRounds = 8;
  static constexpr unsigned mostVerified = 6;

  void measureAlone();
  double measureHalf();
  size_t evaluate(const std::set<int> &on, const std::string &origin,
                  bool withoutHalf = false);
  JointSide place(ModelProto proto, PrecisionPlan &plan);
  void notePlacement(const Placement &placement, PrecisionPlan &plan);
  std::set<int> landed(const PrecisionPlan &plan) const;
  JointProblem joinBoth(const JointSide &floats, const JointSide &integers);
  void searchJointly(const JointSide &floats, const JointSide &integers);
  void searchIslands();
  bool verify(size_t at);
  bool within(double noise) const { return options.limit.keptBy(noise); }
  /// What a plan's noise will be when it is written, as far as is known.
  double expected(const PrecisionPlan &plan) const {
    return plan.verified.value_or(plan.noise * written);
  }
  std::vector<size_t> inOrderOfCost() const;
  size_t pick(std::vector<size_t> order);
  [[noreturn]] void refuse() const;
  void report(const std::string &what, size_t done, size_t count) const {
    if (options.progress)
      options.progress(what, done, count);
  }

  quantise::ChoiceContext &model;
  const ChooseOptions &options;
  PrecisionChoice &choice;
  std::set<int> all, forced;
  std::vector<PlacementDevice> devices;
  JointSide lastSide;
  /// Weights are rounded better when a model is written than in the
  /// measurements: noise of all integers as written over that measured.
  double written = 1;
};

} // namespace

void Chooser::measureAlone() {
  size_t done = 0;
  for (int u : all) {
    report("measuring units alone", done++, all.size());
    model.model.enableOnly({u});
    choice.alone[u] = worstShare(model.model.measure());
  }
}

/// Noise with all nodes in float16, if some device computes in it.
double Chooser::measureHalf() {
  if (!computesInHalf(*options.target, options.place))
    return 0;
  ModelProto proto = model.emit({}, false);
  roundAllToHalf(proto, model.graph);
  return worstShare(model.verify(proto));
}

void Chooser::notePlacement(const Placement &placement, PrecisionPlan &plan) {
  const partition::Solution &s = *placement.result.solution;
  plan.cost = s.cost;
  for (size_t j = 0; j < placement.nodes.size(); ++j) {
    unsigned device =
        unsigned(placement.problem.ops[j].options[s.choice[j]].device);
    for (const std::string &node : placement.nodes[j]) {
      plan.deviceOf[node] = device;
      if (device && placement.devices[device].precision == Precision::F16)
        plan.halfNodes.insert(node);
    }
  }
}

/// The phases up to the placement, as a compile runs them.
JointSide Chooser::place(ModelProto proto, PrecisionPlan &plan) {
  std::string errors;
  ScopedDiagnosticHandler handler(options.context, [&](Diagnostic &d) {
    if (d.getSeverity() == DiagnosticSeverity::Error)
      errors += (errors.empty() ? "" : "; ") + d.str();
    return success(); // the compile that follows says the rest again
  });
  auto refuse = [&]() -> Refusal {
    return Refusal("a plan cannot be made: " + errors);
  };
  auto module = options.frontEnd(std::move(proto));
  if (failed(module))
    throw refuse();
  auto func = (*module)->lookupSymbol<func::FuncOp>("main");
  PlaceOptions place = options.place;
  place.strict |= plan.withoutHalf;
  auto problem =
      buildProblem(func, *options.target,
                   {place.strict, place.pins, place.vendors, place.measured});
  if (failed(problem))
    throw refuse();
  auto placement = choosePlacement(func, *options.target, *problem, place);
  if (failed(placement))
    throw refuse();
  notePlacement(*placement, plan);
  devices = problem->devices;
  return sideOf(*problem);
}

/// A choice's plan and its noise; one that was looked at before is found again.
size_t Chooser::evaluate(const std::set<int> &on, const std::string &origin,
                         bool withoutHalf) {
  for (size_t k = 0; k < choice.plans.size(); ++k)
    if (choice.plans[k].integers == on &&
        choice.plans[k].withoutHalf == withoutHalf)
      return k;
  PrecisionPlan plan;
  plan.origin = origin;
  plan.integers = on;
  plan.withoutHalf = withoutHalf;
  lastSide = place(model.emit(on, false), plan);
  if (!on.empty()) {
    model.model.enableOnly(on);
    plan.noise = worstShare(model.model.measure());
  }
  choice.plans.push_back(std::move(plan));
  return choice.plans.size() - 1;
}

/// Candidates that a plan puts on an accelerator.
std::set<int> Chooser::landed(const PrecisionPlan &plan) const {
  std::set<int> on = forced;
  for (int u : all) {
    auto it = plan.deviceOf.find(model.graph.nameOf(model.units[u].root));
    if (it != plan.deviceOf.end() && it->second)
      on.insert(u);
  }
  return on;
}

JointProblem Chooser::joinBoth(const JointSide &floats,
                               const JointSide &integers) {
  std::vector<JointUnit> units(model.units.size());
  for (int u : all) {
    units[u].noise = choice.alone.at(u);
    if (auto exit = model.exits.find(u); exit != model.exits.end()) {
      units[u].exitOf = exit->second;
      continue;
    }
    for (int node : model.units[u].nodes)
      units[u].nodes.push_back(model.graph.nameOf(node));
    units[u].forced = forced.count(u) != 0;
  }
  JointOptions joint;
  joint.limit = options.limit.noise;
  joint.halfNoise = choice.halfNoise;
  LinearCost quantise = conversionCost(*options.target, 0, 4, 1);
  joint.quantise = {quantise.fixedNs, quantise.ps};
  for (const std::string &pin : options.place.pins) {
    auto [node, unit] = StringRef(pin).rsplit('=');
    if (std::optional<unsigned> found = options.target->findUnit(unit))
      joint.pins.push_back({node.str(), *found});
  }
  return joinProblems(floats, integers, devices, units, joint);
}

void Chooser::searchJointly(const JointSide &floats,
                            const JointSide &integers) {
  JointProblem joint = joinBoth(floats, integers);
  joint.problem.budget.reset();
  auto answer = [&](const std::string &origin) -> std::optional<size_t> {
    partition::SolverResult result =
        partition::solve(joint.problem, joint.allowed);
    if (!result.solution)
      return std::nullopt;
    return evaluate(joint.integersOf(*result.solution), origin);
  };
  auto free = answer("joint, without a limit");
  if (!free || within(expected(choice.plans[*free])))
    return;
  double low = 0, high = 0, factor = 1;
  for (; choice.rounds < mostRounds && (high == 0 || high - low > 0.05 * high);
       ++choice.rounds) {
    report("choosing precisions and devices", choice.rounds, mostRounds);
    joint.allow(options.limit.noise * factor);
    auto found =
        answer("joint, budget " + percentText(options.limit.noise * factor));
    bool good = found && within(expected(choice.plans[*found]));
    (good || !found ? low : high) = factor;
    factor = high > 0 ? (low + high) / 2 : factor * 2;
  }
}

/// Without a choice of device: as few float units as the limit asks for.
void Chooser::searchIslands() {
  quantise::IslandOptions islands;
  islands.floatMacs = 1;
  islands.leastGain = 0;
  islands.enough = options.limit.decibel();
  islands.progress = options.progress;
  auto found = quantise::findIslands(model.model, model.units, islands);
  for (auto &[unit, parts] : found.solo)
    choice.alone[unit] = worstShare(parts);
  std::set<int> on = all;
  evaluate(on, "all integers");
  for (const quantise::IslandStep &step : found.steps) {
    on.erase(step.unit);
    evaluate(on, std::to_string(all.size() - on.size()) + " float");
  }
  evaluate(forced, "all float");
}

bool Chooser::verify(size_t at) {
  PrecisionPlan &plan = choice.plans[at];
  if (plan.verified)
    return within(*plan.verified);
  try {
    ModelProto proto = model.emit(plan.integers, true);
    roundToHalf(proto, model.graph, plan.halfNodes);
    plan.verified = worstShare(model.verify(proto));
  } catch (const Refusal &) { // an output came out dead
    plan.verified = 1;
  }
  return within(*plan.verified);
}

std::vector<size_t> Chooser::inOrderOfCost() const {
  std::vector<size_t> order;
  for (size_t k = 0; k < choice.plans.size(); ++k)
    order.push_back(k);
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return std::pair(choice.plans[a].cost, choice.plans[a].noise) <
           std::pair(choice.plans[b].cost, choice.plans[b].noise);
  });
  return order;
}

/// The first of `order` that keeps the limit when it is really run.
size_t Chooser::pick(std::vector<size_t> order) {
  // How far what is expected may be off; corrected biases gain up to 3 dB.
  const double slack = model.corrects ? 2 : 1.25;
  unsigned tried = 0;
  for (size_t k : order) {
    const PrecisionPlan &plan = choice.plans[k];
    if (!plan.verified) {
      if (expected(plan) > options.limit.noise * slack || tried == mostVerified)
        continue;
      report("verifying plans", tried++, mostVerified);
    }
    if (verify(k))
      return k;
  }
  // What is left: float as far as a recipe lets it be, and no float16.
  size_t last =
      evaluate(forced, "float on the CPU or in float32", /*withoutHalf=*/true);
  if (verify(last))
    return last;
  refuse();
}

void Chooser::refuse() const {
  double least = 1e30;
  for (const PrecisionPlan &plan : choice.plans)
    least = std::min(least, plan.verified.value_or(plan.noise));
  std::vector<std::pair<double, int>> costly;
  for (auto &[unit, noise] : choice.alone)
    if (forced.count(unit))
      costly.push_back({-noise, unit});
  std::sort(costly.begin(), costly.end());
  costly.resize(std::min<size_t>(costly.size(), 5));
  std::vector<std::string> notes;
  for (auto &[noise, unit] : costly)
    notes.push_back("'" + model.units[unit].name + "' alone costs " +
                    percentText(-noise) + "; the recipe keeps it in integers");
  throw LimitBreached("no plan keeps --accuracy-drop " + options.limit.text +
                          ": the least noise found is " + percentText(least) +
                          " of the worst output's power, the limit is " +
                          percentText(options.limit.noise),
                      notes);
}

std::set<int> Chooser::run() {
  choice.limit = options.limit;
  choice.onlyCpu = options.target->units.size() < 2;
  std::vector<size_t> order;
  if (choice.onlyCpu) {
    searchIslands();
    for (size_t k = 0; k < choice.plans.size(); ++k)
      order.push_back(k);
  } else {
    measureAlone();
    choice.halfNoise = measureHalf();
    PrecisionPlan
        floats; // not a plan of its own where a recipe forces integers
    JointSide floatSide = place(model.emit({}, false), floats);
    evaluate(all, model.exits.empty() ? "all integers"
                                      : "all integers, float readers too");
    JointSide integerSide = lastSide;
    std::set<int> inner = all;
    for (auto &[exit, maker] : model.exits)
      inner.erase(exit);
    size_t integers = evaluate(inner, "all integers");
    verify(integers);
    if (const PrecisionPlan &plan = choice.plans[integers]; plan.noise > 0)
      written = std::clamp(*plan.verified / plan.noise, 0.1, 1.0);
    evaluate(forced, "all float");
    evaluate(landed(floats), "placed, then quantised");
    searchJointly(floatSide, integerSide);
    order = inOrderOfCost();
  }
  choice.chosen = pick(std::move(order));
  return choice.plan().integers;
}

std::set<int> choosePrecision(quantise::ChoiceContext &model,
                              const ChooseOptions &options,
                              PrecisionChoice &choice) {
  return Chooser(model, options, choice).run();
}

} // namespace tessera
