#include "passes/Precision/JointProblem.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

namespace tessera {

using partition::Conversion;
using partition::Cost;
using partition::Option;

JointSide sideOf(const ModelProblem &model) {
  JointSide side;
  side.problem = model.problem;
  for (const PlacementGroup &group : model.groups) {
    side.nodes.emplace_back();
    for (mlir::Operation *op : group.ops)
      side.nodes.back().push_back(onnx::getNodeName(op).str());
  }
  return side;
}

namespace {

/// Members are numbered: float operators, then integer ones, then units.
class Joiner {
public:
  Joiner(const JointSide &floats, const JointSide &integers,
         const std::vector<PlacementDevice> &devices,
         const std::vector<JointUnit> &units, const JointOptions &options)
      : floats(floats), integers(integers), devices(devices), units(units),
        options(options),
        classes(unsigned(floats.problem.ops.size() +
                         integers.problem.ops.size() + units.size())) {}
  JointProblem run();

private:
  unsigned integerMember(size_t op) const {
    return unsigned(floats.problem.ops.size() + op);
  }
  unsigned unitMember(size_t unit) const {
    return integerMember(integers.problem.ops.size()) + unsigned(unit);
  }

  void joinByNodes();
  bool joinCycles();
  void numberClasses();
  void addStates();
  void addOperator(size_t at);
  void addBorder(partition::Op &op, const std::vector<size_t> &members) const;
  void addFloatOptions(partition::Op &op, const std::vector<size_t> &members,
                       std::vector<char> &kind);
  Cost wayOut(const partition::Op &op, int device) const;
  void addIntegerOptions(partition::Op &op, size_t at, std::vector<char> &kind);
  void applyPins(size_t at);
  Cost sensitivity(double noise) const;
  static std::optional<Cost> sumOn(const partition::Problem &problem,
                                   const std::vector<size_t> &members,
                                   int device);

  const JointSide &floats, &integers;
  const std::vector<PlacementDevice> &devices;
  const std::vector<JointUnit> &units;
  const JointOptions &options;
  llvm::IntEqClasses classes;
  std::vector<int> classOf;                      ///< per float operator
  std::vector<std::vector<size_t>> floatMembers; ///< per class, likewise below
  std::vector<std::vector<size_t>> integerMembers;
  JointProblem joint;
};

} // namespace

void Joiner::joinByNodes() {
  llvm::StringMap<unsigned> memberOf;
  auto note = [&](const std::vector<std::string> &names, unsigned member) {
    for (const std::string &name : names)
      if (auto [it, fresh] = memberOf.try_emplace(name, member); !fresh)
        classes.join(it->second, member);
  };
  for (auto [j, names] : llvm::enumerate(floats.nodes))
    note(names, unsigned(j));
  for (auto [u, unit] : llvm::enumerate(units))
    note(unit.nodes, unitMember(u));
  // Nodes that are in the integer model alone quantise; they tell nothing.
  for (auto [j, names] : llvm::enumerate(integers.nodes))
    for (const std::string &name : names)
      if (auto it = memberOf.find(name); it != memberOf.end())
        classes.join(it->second, integerMember(j));
}

void Joiner::numberClasses() {
  classes.compress();
  classOf.clear();
  std::vector<int> number(classes.getNumClasses(), -1);
  floatMembers.clear();
  for (size_t j = 0; j < floats.problem.ops.size(); ++j) {
    int &n = number[classes[unsigned(j)]];
    if (n < 0) {
      n = int(floatMembers.size());
      floatMembers.emplace_back();
    }
    floatMembers[n].push_back(j);
    classOf.push_back(n);
  }
  integerMembers.assign(floatMembers.size(), {});
  joint.units.assign(floatMembers.size(), {});
  for (size_t j = 0; j < integers.problem.ops.size(); ++j)
    if (int n = number[classes[integerMember(j)]];
        n >= 0 && !integers.nodes[j].empty())
      integerMembers[n].push_back(j);
  joint.exits.assign(floatMembers.size(), {});
  for (size_t u = 0; u < units.size(); ++u) {
    int exitOf = units[u].exitOf;
    if (int n = number[classes[unitMember(exitOf < 0 ? u : size_t(exitOf))]];
        n >= 0)
      (exitOf < 0 ? joint.units : joint.exits)[n].insert(int(u));
  }
}

/// Classes that lie on cycles, or between some, become one. True if there were
/// any.
bool Joiner::joinCycles() {
  size_t n = floatMembers.size();
  std::vector<std::set<int>> after(n), before(n);
  std::vector<int> writer(floats.problem.elements.size(), -1);
  for (size_t j = 0; j < floats.problem.ops.size(); ++j)
    for (int t : floats.problem.ops[j].outputs)
      writer[t] = classOf[j];
  for (size_t j = 0; j < floats.problem.ops.size(); ++j)
    for (int t : floats.problem.ops[j].inputs)
      if (int from = writer[t]; from >= 0 && from != classOf[j]) {
        after[from].insert(classOf[j]);
        before[classOf[j]].insert(from);
      }
  std::vector<char> gone(n, 0);
  auto peel = [&](const std::vector<std::set<int>> &behind) {
    bool any = false;
    for (size_t k = 0; k < n; ++k)
      if (!gone[k] &&
          llvm::all_of(behind[k], [&](int b) { return gone[b] != 0; }))
        any = gone[k] = 1;
    return any;
  };
  while (peel(before)) {
  }
  while (peel(after)) {
  }
  std::optional<unsigned> first;
  std::vector<std::pair<unsigned, unsigned>> pairs;
  for (size_t k = 0; k < n; ++k)
    if (!gone[k]) {
      unsigned member = unsigned(floatMembers[k].front());
      if (first)
        pairs.push_back({*first, member});
      else
        first = member;
    }
  classes.uncompress();
  for (auto [a, b] : pairs)
    classes.join(a, b);
  return !pairs.empty();
}

void Joiner::addStates() {
  partition::Problem &p = joint.problem;
  p.unit = floats.problem.unit;
  p.devices = floats.problem.devices;
  p.states = floats.problem.states;
  p.states.push_back("integers");
  p.elements = floats.problem.elements;
  size_t n = devices.size(), q = n;
  auto isInteger = [&](size_t s) {
    return s == q || (s > 0 && devices[s].precision == Precision::Int8);
  };
  auto add = [](std::optional<Conversion> a,
                std::optional<Conversion> b) -> std::optional<Conversion> {
    if (!a || !b)
      return std::nullopt;
    return Conversion{a->fixed + b->fixed, a->psPerElement + b->psPerElement};
  };
  const auto &given = floats.problem.conversions;
  // Between an integer state and the CPU's memory: the bytes alone.
  auto move = [&](size_t from, size_t to) {
    return given[from == q ? 0 : from][to == q ? 0 : to];
  };
  p.conversions.assign(n + 1, std::vector<std::optional<Conversion>>(n + 1));
  for (size_t a = 0; a <= n; ++a)
    for (size_t b = 0; b <= n; ++b) {
      auto &c = p.conversions[a][b];
      if (a == b)
        c = Conversion{};
      else if (isInteger(a) == isInteger(b))
        c = move(a, b);
      else if (isInteger(b))
        c = add(add(given[a][0], options.quantise), move(q, b));
    }
}

Cost Joiner::sensitivity(double noise) const {
  double wanted = std::ceil(noise / joint.noisePerSensitivity);
  // Beyond the budget is beyond it; the sum stays representable.
  return Cost(std::min(wanted, double(partition::maxSensitivity) /
                                   double(floatMembers.size() + 1) / 2));
}

void Joiner::addBorder(partition::Op &op,
                       const std::vector<size_t> &members) const {
  std::set<int> made, known, inside(members.begin(), members.end());
  for (size_t j : members)
    made.insert(floats.problem.ops[j].outputs.begin(),
                floats.problem.ops[j].outputs.end());
  for (size_t j : members)
    for (int t : floats.problem.ops[j].inputs)
      if (!made.count(t) && known.insert(t).second)
        op.inputs.push_back(t);
  std::set<int> read;
  for (size_t j = 0; j < floats.problem.ops.size(); ++j)
    if (!inside.count(int(j)))
      read.insert(floats.problem.ops[j].inputs.begin(),
                  floats.problem.ops[j].inputs.end());
  for (int t : made)
    if (read.count(t))
      op.outputs.push_back(t);
}

std::optional<Cost> Joiner::sumOn(const partition::Problem &problem,
                                  const std::vector<size_t> &members,
                                  int device) {
  Cost sum = 0;
  for (size_t j : members) {
    auto it = llvm::find_if(problem.ops[j].options, [&](const Option &o) {
      return o.device == device;
    });
    if (it == problem.ops[j].options.end())
      return std::nullopt;
    sum += it->cost;
  }
  return sum;
}

void Joiner::addFloatOptions(partition::Op &op,
                             const std::vector<size_t> &members,
                             std::vector<char> &kind) {
  double half =
      options.halfNoise / double(std::max<size_t>(floatMembers.size(), 1));
  for (int d = 0; d < int(devices.size()); ++d) {
    bool integers = d && devices[d].precision == Precision::Int8;
    std::optional<Cost> cost =
        integers ? std::nullopt : sumOn(floats.problem, members, d);
    if (!cost)
      continue;
    bool rounds = d && devices[d].precision == Precision::F16;
    op.options.push_back({d, d, d, *cost, rounds ? sensitivity(half) : 0});
    kind.push_back(0);
  }
}

/// What it takes to make floats on the CPU of what a device wrote as integers.
Cost Joiner::wayOut(const partition::Op &op, int device) const {
  Cost sum = 0;
  for (int t : op.outputs) {
    Cost ps = options.quantise.psPerElement;
    sum += options.quantise.fixed;
    if (const auto &copy = floats.problem.conversions[device][0]) {
      sum += copy->fixed;
      ps += copy->psPerElement;
    }
    sum += (floats.problem.elements[t] * ps + 999) / 1000;
  }
  return sum;
}

void Joiner::addIntegerOptions(partition::Op &op, size_t at,
                               std::vector<char> &kind) {
  if (joint.units[at].empty() || integerMembers[at].empty())
    return;
  double noise = 0, exitNoise = 0;
  for (int u : joint.units[at])
    noise += units[u].noise;
  for (int u : joint.exits[at])
    exitNoise += units[u].noise;
  int q = int(devices.size());
  auto add = [&](int device, int input, int output, Cost cost, char form) {
    double all =
        noise + (form == JointProblem::IntegerWithExits ? exitNoise : 0);
    op.options.push_back({device, input, output, cost, sensitivity(all)});
    kind.push_back(form);
  };
  for (int d = 0; d < int(devices.size()); ++d) {
    if (d && devices[d].precision != Precision::Int8)
      continue;
    std::optional<Cost> cost = sumOn(integers.problem, integerMembers[at], d);
    if (!cost)
      continue;
    add(d, d ? d : q, d ? d : q, *cost, JointProblem::Integer);
    if (!d)
      add(0, q, 0, *cost, JointProblem::Integer);
    else if (!joint.exits[at].empty())
      add(d, d, 0, *cost + wayOut(op, d), JointProblem::IntegerWithExits);
  }
}

void Joiner::applyPins(size_t at) {
  std::vector<char> &marks = joint.allowed[at];
  auto restrict = [&](auto &&keep) {
    std::vector<char> left = marks;
    for (size_t x = 0; x < left.size(); ++x)
      left[x] &= keep(x);
    if (llvm::any_of(left, [](char c) { return c != 0; }))
      marks = left;
  };
  if (llvm::any_of(joint.units[at], [&](int u) { return units[u].forced; }))
    restrict([&](size_t x) { return joint.integer[at][x] != 0; });
  for (const auto &[node, unit] : options.pins)
    for (size_t j : floatMembers[at])
      if (llvm::is_contained(floats.nodes[j], node))
        restrict([&, u = unit](size_t x) {
          return devices[joint.problem.ops[at].options[x].device].unit == u;
        });
}

void Joiner::addOperator(size_t at) {
  const std::vector<size_t> &members = floatMembers[at];
  partition::Op op;
  op.name = floats.problem.ops[members.front()].name;
  addBorder(op, members);
  std::vector<char> kind;
  addFloatOptions(op, members, kind);
  addIntegerOptions(op, at, kind);
  joint.allowed.push_back(std::vector<char>(op.options.size(), 1));
  joint.problem.ops.push_back(std::move(op));
  joint.integer.push_back(std::move(kind));
  applyPins(at);
}

JointProblem Joiner::run() {
  joinByNodes();
  numberClasses();
  while (joinCycles())
    numberClasses();
  numberClasses();
  // Fine enough to tell units apart, coarse enough for the sum of all.
  double steps = std::min(65536.0, double(partition::maxSensitivity) / 4 /
                                       double(floatMembers.size() + 1));
  joint.noisePerSensitivity = std::max(options.limit, 1e-20) / steps;
  addStates();
  for (size_t at = 0; at < floatMembers.size(); ++at)
    addOperator(at);
  joint.allow(options.limit);
  return std::move(joint);
}

std::set<int>
JointProblem::integersOf(const partition::Solution &solution) const {
  std::set<int> on;
  for (size_t j = 0; j < problem.ops.size(); ++j)
    switch (integer[j][solution.choice[j]]) {
    case IntegerWithExits:
      on.insert(exits[j].begin(), exits[j].end());
      [[fallthrough]];
    case Integer:
      on.insert(units[j].begin(), units[j].end());
      break;
    default:
      break;
    }
  return on;
}

void JointProblem::allow(double noise) {
  Cost most = 0; // no answer's sum is above
  for (const partition::Op &op : problem.ops) {
    Cost largest = 0;
    for (const Option &o : op.options)
      largest = std::max(largest, o.sensitivity);
    most += largest;
  }
  problem.budget =
      Cost(std::min(std::floor(noise / noisePerSensitivity), double(most)));
}

JointProblem joinProblems(const JointSide &floats, const JointSide &integers,
                          const std::vector<PlacementDevice> &devices,
                          const std::vector<JointUnit> &units,
                          const JointOptions &options) {
  return Joiner(floats, integers, devices, units, options).run();
}

} // namespace tessera
