// What is checked, in this order: the problem's shape; one option for each
// operator; a segment exactly for operators of devices with segments; one device
// a segment; a conversion for each copy; segments connected; no cycle between
// segments; the budget; and that cost, sensitivity, bound and status are what
// the solution says. The lower bound itself cannot be checked from here.
#include "passes/PartitionCheck/Check.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <vector>

namespace tessera::partitioncheck {

namespace {

using Json = nlohmann::json;

struct ProblemFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct SolutionFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Placement {
  int64_t device, reads, writes, cost, sensitivity;
};

struct Node {
  std::string label;
  std::set<int64_t> in, out;
  std::vector<Placement> placements;
};

struct Instance {
  std::vector<int64_t> launch;
  std::vector<bool> grouped; ///< per device: has segments
  int64_t states = 0;
  Json conversions;
  std::vector<int64_t> elements;
  std::vector<Node> nodes;
  std::map<int64_t, size_t> writer; ///< per tensor that a node writes
  bool limited = false;
  int64_t budget = 0;
};

/// Sums that do not wrap.
void add(int64_t &sum, int64_t x) {
  if (__builtin_add_overflow(sum, x, &sum))
    throw ProblemFault("costs overflow");
}

template <typename Fault> const Json &need(const Json &object, const char *key, const std::string &where) {
  if (!object.is_object() || !object.contains(key))
    throw Fault(where + " has no '" + key + "'");
  return object[key];
}

template <typename Fault> int64_t whole(const Json &value, const std::string &where) {
  if (!value.is_number_integer())
    throw Fault(where + " is no integer");
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX))
    throw Fault(where + " is too large");
  return value.get<int64_t>();
}

int64_t natural(const Json &value, const std::string &where) {
  int64_t n = whole<ProblemFault>(value, where);
  if (n < 0)
    throw ProblemFault(where + " is negative");
  return n;
}

int64_t below(const Json &value, size_t count, const std::string &where) {
  int64_t n = natural(value, where);
  if (uint64_t(n) >= count)
    throw ProblemFault(where + " is " + std::to_string(n) + ", of " + std::to_string(count));
  return n;
}

template <typename Fault> const Json &list(const Json &value, const std::string &where) {
  if (!value.is_array())
    throw Fault(where + " is no array");
  return value;
}

std::string at(const char *what, size_t i) { return std::string(what) + " " + std::to_string(i); }

Node parseNode(const Json &text, size_t j, const Instance &instance) {
  std::string where = at("operator", j);
  Node node;
  const Json &name = need<ProblemFault>(text, "name", where);
  if (!name.is_string())
    throw ProblemFault(where + ": the name is no string");
  node.label = where + " '" + name.get<std::string>() + "'";
  for (const Json &t : list<ProblemFault>(need<ProblemFault>(text, "in", where), where))
    node.in.insert(below(t, instance.elements.size(), where + ": input tensor"));
  for (const Json &t : list<ProblemFault>(need<ProblemFault>(text, "out", where), where))
    node.out.insert(below(t, instance.elements.size(), where + ": output tensor"));
  for (const Json &o : list<ProblemFault>(need<ProblemFault>(text, "opt", where), where)) {
    if (!o.is_array() || o.size() != 5)
      throw ProblemFault(where + ": an option has not five numbers");
    node.placements.push_back({below(o[0], instance.launch.size(), where + ": device"),
                               below(o[1], size_t(instance.states), where + ": state read"),
                               below(o[2], size_t(instance.states), where + ": state written"),
                               natural(o[3], where + ": cost"), natural(o[4], where + ": sensitivity")});
  }
  return node;
}

Instance parseProblem(std::string_view text) {
  Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded())
    throw ProblemFault("the problem is not JSON");
  if (need<ProblemFault>(root, "format", "the problem") != "tessera-partition-problem/1")
    throw ProblemFault("the problem's format is not tessera-partition-problem/1");
  Instance p;
  for (const Json &d : list<ProblemFault>(need<ProblemFault>(root, "devices", "the problem"), "devices")) {
    p.launch.push_back(natural(need<ProblemFault>(d, "launch", "a device"), "launch"));
    const Json &segments = need<ProblemFault>(d, "segments", "a device");
    if (!segments.is_boolean())
      throw ProblemFault("'segments' of a device is not true or false");
    p.grouped.push_back(segments.get<bool>());
  }
  p.states = int64_t(list<ProblemFault>(need<ProblemFault>(root, "states", "the problem"), "states").size());
  p.conversions = list<ProblemFault>(need<ProblemFault>(root, "conv", "the problem"), "conv");
  for (const Json &e : list<ProblemFault>(need<ProblemFault>(root, "elems", "the problem"), "elems"))
    p.elements.push_back(natural(e, "a count of elements"));
  const Json &ops = list<ProblemFault>(need<ProblemFault>(root, "ops", "the problem"), "ops");
  for (size_t j = 0; j < ops.size(); ++j) {
    p.nodes.push_back(parseNode(ops[j], j, p));
    for (int64_t t : p.nodes.back().out)
      if (!p.writer.emplace(t, j).second)
        throw ProblemFault(at("tensor", size_t(t)) + " is written twice");
  }
  if (auto b = root.find("budget"); b != root.end() && !b->is_null()) {
    p.limited = true;
    p.budget = natural(*b, "budget");
  }
  return p;
}

struct Answer {
  std::vector<Placement> placed; ///< per node
  std::vector<int64_t> segment;
  int64_t cost = 0, bound = 0, sensitivity = 0;
  std::string status;
};

Answer parseSolution(std::string_view text, const Instance &p) {
  Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded())
    throw SolutionFault("the solution is not JSON");
  if (need<SolutionFault>(root, "format", "the solution") != "tessera-partition-solution/1")
    throw SolutionFault("the solution's format is not tessera-partition-solution/1");
  Answer a;
  const Json &choice = list<SolutionFault>(need<SolutionFault>(root, "choice", "the solution"), "choice");
  const Json &segment = list<SolutionFault>(need<SolutionFault>(root, "segment", "the solution"), "segment");
  if (choice.size() != p.nodes.size() || segment.size() != p.nodes.size())
    throw SolutionFault(std::to_string(choice.size()) + " choices and " + std::to_string(segment.size()) +
                        " segments for " + std::to_string(p.nodes.size()) + " operators");
  for (size_t j = 0; j < p.nodes.size(); ++j) {
    int64_t c = whole<SolutionFault>(choice[j], at("choice", j));
    if (c < 0 || uint64_t(c) >= p.nodes[j].placements.size())
      throw SolutionFault(p.nodes[j].label + " has " + std::to_string(p.nodes[j].placements.size()) +
                          " options; the choice is " + std::to_string(c));
    a.placed.push_back(p.nodes[j].placements[size_t(c)]);
    a.segment.push_back(whole<SolutionFault>(segment[j], at("segment", j)));
    if (a.segment.back() < -1)
      throw SolutionFault(p.nodes[j].label + " is in segment " + std::to_string(a.segment.back()));
  }
  a.cost = whole<SolutionFault>(need<SolutionFault>(root, "cost", "the solution"), "cost");
  a.bound = whole<SolutionFault>(need<SolutionFault>(root, "lower_bound", "the solution"), "lower_bound");
  a.sensitivity = whole<SolutionFault>(need<SolutionFault>(root, "sens", "the solution"), "sens");
  const Json &status = need<SolutionFault>(root, "status", "the solution");
  if (status != "optimal" && status != "feasible")
    throw SolutionFault("the status is neither optimal nor feasible");
  a.status = status.get<std::string>();
  return a;
}

/// Members of each segment.
std::map<int64_t, std::vector<size_t>> membersOf(const Instance &p, const Answer &a) {
  std::map<int64_t, std::vector<size_t>> members;
  for (size_t j = 0; j < p.nodes.size(); ++j) {
    bool grouped = p.grouped[size_t(a.placed[j].device)];
    if (grouped && a.segment[j] < 0)
      throw SolutionFault(p.nodes[j].label + " is in no segment, but its device has segments");
    if (!grouped && a.segment[j] >= 0)
      throw SolutionFault(p.nodes[j].label + " is in a segment, but its device has none");
    if (a.segment[j] < 0)
      continue;
    std::vector<size_t> &m = members[a.segment[j]];
    if (!m.empty() && a.placed[m[0]].device != a.placed[j].device)
      throw SolutionFault("segment " + std::to_string(a.segment[j]) + " is on two devices: " + p.nodes[m[0]].label +
                          " and " + p.nodes[j].label);
    m.push_back(j);
  }
  return members;
}

int64_t priceOfCopy(const Instance &p, int64_t tensor, int64_t from, int64_t to) {
  std::string where = at("tensor", size_t(tensor));
  const Json &row = p.conversions.at(size_t(from));
  const Json &pair = list<ProblemFault>(row, "a row of conv").at(size_t(to));
  if (pair.is_null())
    throw SolutionFault(where + ": no way from state " + std::to_string(from) + " to " + std::to_string(to));
  if (!pair.is_array() || pair.size() != 2)
    throw ProblemFault("a conversion is not null or two numbers");
  int64_t picoseconds = 0;
  if (__builtin_mul_overflow(p.elements[size_t(tensor)], natural(pair[1], "ps per element"), &picoseconds))
    throw ProblemFault(where + ": the cost of a copy overflows");
  int64_t price = natural(pair[0], "the fixed cost of a copy");
  add(price, picoseconds / 1000 + (picoseconds % 1000 != 0));
  return price;
}

/// Copies: one for each tensor and further state that somebody reads it in.
void addCopies(const Instance &p, const Answer &a, Verdict &v) {
  std::set<std::pair<int64_t, int64_t>> made;
  for (size_t j = 0; j < p.nodes.size(); ++j)
    for (int64_t t : p.nodes[j].in) {
      auto w = p.writer.find(t);
      if (w == p.writer.end())
        continue; // a constant
      int64_t from = a.placed[w->second].writes, to = a.placed[j].reads;
      if (from == to || !made.emplace(t, to).second)
        continue;
      add(v.cost, priceOfCopy(p, t, from, to));
      ++v.copies;
    }
}

/// Walks from a segment's first operator along its own tensors.
void requireConnected(const Instance &p, const Answer &a, int64_t segment, const std::vector<size_t> &members) {
  std::map<size_t, std::vector<size_t>> neighbours;
  for (size_t j : members)
    for (int64_t t : p.nodes[j].in)
      if (auto w = p.writer.find(t); w != p.writer.end() && a.segment[w->second] == segment) {
        neighbours[j].push_back(w->second);
        neighbours[w->second].push_back(j);
      }
  std::set<size_t> met{members[0]};
  std::vector<size_t> todo{members[0]};
  while (!todo.empty()) {
    size_t here = todo.back();
    todo.pop_back();
    for (size_t other : neighbours[here])
      if (met.insert(other).second)
        todo.push_back(other);
  }
  if (met.size() != members.size())
    throw SolutionFault("segment " + std::to_string(segment) + " is not connected: " + p.nodes[members[0]].label +
                        " reaches " + std::to_string(met.size()) + " of its " + std::to_string(members.size()) +
                        " operators");
}

using Successors = std::map<int64_t, std::set<int64_t>>;

/// Depth-first; a way back to what is being visited is a cycle.
bool findCycle(const Successors &after, int64_t &onCycle) {
  std::set<int64_t> visiting, done;
  for (const auto &[start, unused] : after) {
    std::vector<std::pair<int64_t, bool>> stack{{start, false}};
    while (!stack.empty()) {
      auto [here, leaving] = stack.back();
      stack.pop_back();
      if (leaving) {
        visiting.erase(here);
        done.insert(here);
        continue;
      }
      if (done.count(here) || !visiting.insert(here).second)
        continue;
      stack.emplace_back(here, true);
      auto next = after.find(here);
      if (next == after.end())
        continue;
      for (int64_t k : next->second) {
        onCycle = k;
        if (visiting.count(k))
          return true;
        stack.emplace_back(k, false);
      }
    }
  }
  return false;
}

void requireOrder(const Instance &p) {
  Successors after;
  for (size_t j = 0; j < p.nodes.size(); ++j)
    for (int64_t t : p.nodes[j].in)
      if (auto w = p.writer.find(t); w != p.writer.end())
        after[int64_t(w->second)].insert(int64_t(j));
  if (int64_t on = 0; findCycle(after, on))
    throw ProblemFault(p.nodes[size_t(on)].label + " waits for its own results");
}

/// Segments, and operators outside of them as negative numbers.
void requireOrderOfSegments(const Instance &p, const Answer &a) {
  auto unit = [&](size_t j) { return a.segment[j] >= 0 ? a.segment[j] : -int64_t(j) - 1; };
  Successors after;
  for (size_t j = 0; j < p.nodes.size(); ++j)
    for (int64_t t : p.nodes[j].in)
      if (auto w = p.writer.find(t); w != p.writer.end() && unit(w->second) != unit(j))
        after[unit(w->second)].insert(unit(j));
  int64_t on = 0;
  if (findCycle(after, on))
    throw SolutionFault((on >= 0 ? "segment " + std::to_string(on) : p.nodes[size_t(-on - 1)].label) +
                        " waits for its own results");
}

void requireStated(const char *what, int64_t stated, int64_t found) {
  if (stated != found)
    throw SolutionFault("the " + std::string(what) + " is " + std::to_string(found) + "; the solution states " +
                        std::to_string(stated));
}

void judge(const Instance &p, const Answer &a, Verdict &v) {
  auto members = membersOf(p, a);
  for (const Placement &o : a.placed) {
    add(v.cost, o.cost);
    add(v.sensitivity, o.sensitivity);
  }
  for (const auto &[segment, nodes] : members)
    add(v.cost, p.launch[size_t(a.placed[nodes[0]].device)]);
  v.segments = int(members.size());
  addCopies(p, a, v);
  for (const auto &[segment, nodes] : members)
    requireConnected(p, a, segment, nodes);
  requireOrderOfSegments(p, a);
  if (p.limited && v.sensitivity > p.budget)
    throw SolutionFault("the sensitivity " + std::to_string(v.sensitivity) + " exceeds the budget " +
                        std::to_string(p.budget));
  requireStated("cost", a.cost, v.cost);
  requireStated("sensitivity", a.sensitivity, v.sensitivity);
  if (a.bound > a.cost)
    throw SolutionFault("the lower bound " + std::to_string(a.bound) + " is above the cost " + std::to_string(a.cost));
  if ((a.status == "optimal") != (a.bound == a.cost))
    throw SolutionFault("the status is " + a.status + " with cost " + std::to_string(a.cost) + " and lower bound " +
                        std::to_string(a.bound));
}

} // namespace

Verdict check(std::string_view problem, std::string_view solution) {
  Verdict v;
  try {
    Instance instance = parseProblem(problem);
    requireOrder(instance);
    judge(instance, parseSolution(solution, instance), v);
  } catch (const SolutionFault &fault) {
    v.outcome = Outcome::Refused;
    v.reason = fault.what();
  } catch (const std::exception &fault) { // also conversion rows of wrong size
    v.outcome = Outcome::Unreadable;
    v.reason = fault.what();
  }
  return v;
}

} // namespace tessera::partitioncheck
