#include "compiler/Report/PlacementReport.h"
#include "compiler/Report/Page/Page.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "passes/Partition/Schedule.h"
#include "passes/Partition/Summary.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"

#include <map>
#include <set>

using namespace mlir;

namespace tessera {

using partition::Cost;
using partition::Option;

namespace {

struct SegmentRow {
  unsigned device = 0;
  std::vector<size_t> ops;
  Cost cost = 0;
};

struct CopyRow {
  size_t tensor = 0;
  int from = 0, to = 0;
  std::vector<int> readers; ///< operators of the problem
  Cost cost = 0;
  int64_t bytes = 0; ///< that move between memories
};

/// A segment, or what the CPU does without a wait or a launch between.
struct StretchRow {
  int segment = -1; ///< index of its row
  unsigned device = 0;
  std::vector<int> ops;
  Cost start = 0, end = 0;
  int waitedFor = -1; ///< index of the segment's row
  Cost waited = 0;
  bool critical = false;
};

/// The parts of a placement's price.
struct Breakdown {
  std::vector<partition::DeviceShare> devices;
  std::vector<SegmentRow> segments;
  std::vector<CopyRow> copies;
  std::vector<StretchRow> stretches; ///< none if all is on the CPU
  Cost end = 0;                      ///< of the last of them
  Cost copyCost = 0;
  int64_t copyBytes = 0;
};

} // namespace

/// What is stored for a tensor in a device's memory.
static int64_t storedBytes(const Placement &p, size_t tensor, int state) {
  bool half = state && p.devices[state].precision == Precision::F16;
  int64_t bytes = p.tensorBytes[tensor];
  return half && bytes == 4 * p.problem.elements[tensor] ? bytes / 2 : bytes;
}

static void addCopies(const Placement &p, const partition::Graph &graph, Breakdown &b) {
  const partition::Solution &s = *p.result.solution;
  for (size_t t = 0; t < graph.producer.size(); ++t) {
    if (graph.producer[t] < 0)
      continue;
    int from = graph.options(graph.producer[t])[s.choice[graph.producer[t]]].output;
    std::map<int, std::vector<int>> wanted;
    for (int k : graph.consumers[t])
      wanted[graph.options(k)[s.choice[k]].input].push_back(k);
    wanted.erase(from);
    for (auto &[to, readers] : wanted) {
      CopyRow row{t, from, to, readers, graph.copyCost(int(t), from, to), storedBytes(p, t, from ? from : to)};
      b.copyCost += row.cost;
      b.copyBytes += row.bytes;
      b.copies.push_back(row);
    }
  }
}

static void addStretches(const Placement &p, const std::map<int, size_t> &rowOf, Breakdown &b) {
  Schedule schedule = scheduleOf(partition::Graph(p.problem), p.devices, *p.result.solution);
  b.end = schedule.end;
  std::set<int> critical(schedule.critical.begin(), schedule.critical.end());
  auto rowFor = [&](int step) { return int(rowOf.at(schedule.steps[step].segment)); };
  Cost cpu = 0;
  for (auto [k, step] : llvm::enumerate(schedule.steps)) {
    bool isCritical = critical.count(k);
    if (step.segment < 0 && step.waitedFor < 0 && step.end == cpu)
      continue; // the model's inputs
    if (step.segment < 0)
      cpu = step.end;
    bool goesOn = step.segment < 0 && step.waitedFor < 0 && !b.stretches.empty() && b.stretches.back().segment < 0 &&
                  b.stretches.back().critical == isCritical;
    if (!goesOn)
      b.stretches.push_back({step.segment < 0 ? -1 : rowFor(k),
                             unsigned(step.device),
                             {},
                             step.start,
                             step.end,
                             step.waitedFor < 0 ? -1 : rowFor(step.waitedFor),
                             step.waitedTo - step.waitedFrom,
                             isCritical});
    StretchRow &row = b.stretches.back();
    row.end = step.end;
    llvm::append_range(row.ops, step.ops);
  }
}

static Breakdown breakDown(const Placement &p) {
  const partition::Solution &s = *p.result.solution;
  Breakdown b;
  b.devices = sharesByDevice(p.problem, s);
  std::map<int, size_t> rowOf;
  for (size_t j = 0; j < p.problem.ops.size(); ++j) {
    if (s.segment[j] < 0)
      continue;
    const Option &o = p.problem.ops[j].options[s.choice[j]];
    auto [it, fresh] = rowOf.emplace(s.segment[j], b.segments.size());
    if (fresh)
      b.segments.push_back({unsigned(o.device), {}, 0});
    b.segments[it->second].ops.push_back(j);
    b.segments[it->second].cost += o.cost;
  }
  addCopies(p, partition::Graph(p.problem), b);
  if (!b.segments.empty())
    addStretches(p, rowOf, b);
  return b;
}

static std::string milliseconds(Cost ns) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.3f ms", double(ns) / 1e6);
  return text;
}

static void printAgainst(const Placement &p, StringRef name, const std::optional<partition::Solution> &other,
                         llvm::raw_ostream &os) {
  os << llvm::format("  %-22s", name.str().c_str());
  if (!other) {
    os << "impossible\n";
    return;
  }
  os << llvm::format("%14s", milliseconds(other->cost).c_str())
     << llvm::format("  %.3f x the plan", double(other->cost) / double(std::max<Cost>(p.result.solution->cost, 1)));
  Cost end = p.spread.gain ? scheduleOf(partition::Graph(p.problem), p.devices, *other).end : other->cost;
  if (end < other->cost)
    os << ", " << milliseconds(end) << " with what runs at the same time";
  os << "\n";
}

static std::string rangeOf(const Placement &p, ArrayRef<int> ops) {
  std::string first = "'" + p.problem.ops[ops.front()].name + "'";
  return ops.size() == 1 ? first : first + " to '" + p.problem.ops[ops.back()].name + "'";
}

static std::string nameOf(const Placement &p, const Breakdown &b, const StretchRow &row) {
  if (row.segment < 0)
    return p.problem.devices[0].name + " " + rangeOf(p, row.ops);
  return "segment " + std::to_string(row.segment) + " on " + p.problem.devices[row.device].name;
}

/// Who works when, who waits for whom, and what nothing can be gained beside.
static void printSchedule(const Placement &p, const Breakdown &b, llvm::raw_ostream &os) {
  if (b.stretches.empty())
    return;
  os << "schedule\n";
  for (const StretchRow &row : b.stretches) {
    if (row.waited)
      os << "  " << p.problem.devices[0].name << " waits " << milliseconds(row.waited) << " for segment "
         << row.waitedFor << ", before " << rangeOf(p, row.ops) << "\n";
    if (row.segment >= 0)
      os << "  " << nameOf(p, b, row) << " works from " << milliseconds(row.start) << " to " << milliseconds(row.end)
         << "\n";
  }
  os << "critical path, copies included\n";
  Cost last = 0;
  for (const StretchRow &row : b.stretches)
    if (row.critical && row.end > last) {
      os << "  " << nameOf(p, b, row) << ": " << milliseconds(row.end - last) << "\n";
      last = row.end;
    }
}

void printPlacement(const Placement &p, llvm::raw_ostream &os) {
  const partition::Solution &s = *p.result.solution;
  Breakdown b = breakDown(p);
  os << "target " << p.target << ": estimated " << milliseconds(s.cost) << " a run, "
     << (s.optimal() ? "optimal under the cost model\n" : "optimum at least " + milliseconds(s.lowerBound) + "\n");
  for (size_t d = 0; d < b.devices.size(); ++d) {
    if (d && !b.devices[d].ops)
      continue;
    os << llvm::format("  %-22s%14s", p.problem.devices[d].name.c_str(), milliseconds(b.devices[d].cost).c_str())
       << "  " << b.devices[d].ops << " groups";
    if (p.problem.devices[d].segments)
      os << " in " << b.devices[d].segments << " segments, launches " << milliseconds(b.devices[d].launches);
    os << "\n";
  }
  os << llvm::format("  %-22s%14s", "copies, conversions", milliseconds(b.copyCost).c_str()) << "  " << b.copies.size()
     << " tensors, " << b.copyBytes << " bytes between memories\n";
  os << "against\n";
  printAgainst(p, "CPU only", p.result.cpuOnly, os);
  printAgainst(p, "most accelerated", p.result.mostAccelerated, os);
  printAgainst(p, "cheapest in order", p.result.inOrder, os);
  if (p.cpuWins())
    os << "the CPU alone is fastest: nothing is placed elsewhere\n";
  if (llvm::any_of(b.segments,
                   [&](const SegmentRow &row) { return p.devices[row.device].precision == Precision::F16; }))
    os << "float16 holds magnitudes up to 65504: larger ones become infinite in a segment that stores it\n";
  if (p.assumedSizes)
    os << "open dimensions were priced at their least value; fix them with --dim for a better estimate\n";
  for (size_t i = 0; i < b.segments.size(); ++i) {
    const SegmentRow &row = b.segments[i];
    os << "segment " << i << " on " << p.problem.devices[row.device].name << ": " << row.ops.size() << " groups, "
       << milliseconds(row.cost) << ", from '" << p.problem.ops[row.ops.front()].name << "' to '"
       << p.problem.ops[row.ops.back()].name << "'\n";
  }
  if (!b.stretches.empty())
    os << "with what runs at the same time: " << milliseconds(b.end) << "\n";
  if (p.spread.gain)
    os << "shared out to run at the same time: " << milliseconds(p.spread.gain) << " sooner, for "
       << milliseconds(p.spread.work) << " more work\n";
}

static void jsonSchedule(const Placement &p, const Breakdown &b, llvm::json::OStream &json) {
  json.attribute("schedule_ns", b.stretches.empty() ? p.result.solution->cost : b.end);
  json.attribute("spread_gain_ns", p.spread.gain);
  json.attribute("spread_work_ns", p.spread.work);
  json.attributeArray("schedule", [&] {
    for (const StretchRow &row : b.stretches)
      json.object([&] {
        json.attribute("device", p.problem.devices[row.device].name);
        if (row.segment >= 0)
          json.attribute("segment", row.segment);
        json.attributeArray("groups", [&] {
          for (int j : row.ops)
            json.value(j);
        });
        json.attribute("start_ns", row.start);
        json.attribute("end_ns", row.end);
        if (row.waited) {
          json.attribute("waits_for", row.waitedFor);
          json.attribute("waits_ns", row.waited);
        }
        json.attribute("critical", row.critical);
      });
  });
}

static llvm::json::Value costOrNull(const std::optional<partition::Solution> &s) {
  return s ? llvm::json::Value(s->cost) : llvm::json::Value(nullptr);
}

static void jsonDevices(const Placement &p, const Breakdown &b, llvm::json::OStream &json) {
  json.attributeArray("devices", [&] {
    for (size_t d = 0; d < b.devices.size(); ++d)
      json.object([&] {
        json.attribute("name", p.problem.devices[d].name);
        if (d)
          json.attribute("precision", precisionName(p.devices[d].precision));
        json.attribute("groups", b.devices[d].ops);
        json.attribute("segments", b.devices[d].segments);
        json.attribute("time_ns", b.devices[d].cost);
        json.attribute("launch_ns", b.devices[d].launches);
        json.attributeArray("nodes", [&] {
          const partition::Solution &s = *p.result.solution;
          for (size_t j = 0; j < p.nodes.size(); ++j)
            if (size_t(p.problem.ops[j].options[s.choice[j]].device) == d)
              for (const std::string &node : p.nodes[j])
                json.value(llvm::json::fixUTF8(node));
        });
      });
  });
}

static void jsonSegments(const Placement &p, const Breakdown &b, llvm::json::OStream &json) {
  json.attributeArray("segments", [&] {
    for (const SegmentRow &row : b.segments)
      json.object([&] {
        json.attribute("device", p.problem.devices[row.device].name);
        json.attribute("time_ns", row.cost);
        json.attributeArray("nodes", [&] {
          for (size_t j : row.ops)
            for (const std::string &node : p.nodes[j])
              json.value(llvm::json::fixUTF8(node));
        });
      });
  });
}

static void jsonCopies(const Placement &p, const Breakdown &b, llvm::json::OStream &json) {
  std::vector<size_t> writer(p.problem.elements.size());
  for (auto [j, op] : llvm::enumerate(p.problem.ops))
    for (int t : op.outputs)
      writer[t] = j;
  json.attributeArray("copies", [&] {
    for (const CopyRow &row : b.copies)
      json.object([&] {
        json.attribute("of", llvm::json::fixUTF8(p.problem.ops[writer[row.tensor]].name));
        json.attribute("writer", static_cast<int64_t>(writer[row.tensor]));
        json.attributeArray("readers", [&] {
          for (int j : row.readers)
            json.value(j);
        });
        json.attribute("from", p.problem.states[row.from]);
        json.attribute("to", p.problem.states[row.to]);
        json.attribute("bytes", row.bytes);
        json.attribute("time_ns", row.cost);
      });
  });
}

/// A group that has no option on a device has the reasons.
static void jsonGroup(const Placement &p, size_t j, llvm::json::OStream &json) {
  const partition::Solution &s = *p.result.solution;
  const partition::Op &op = p.problem.ops[j];
  const Option &chosen = op.options[s.choice[j]];
  json.attribute("name", llvm::json::fixUTF8(op.name));
  json.attribute("device", p.problem.devices[chosen.device].name);
  json.attribute("time_ns", chosen.cost);
  if (s.segment[j] >= 0)
    json.attribute("segment", s.segment[j]);
  json.attributeObject("times_ns", [&] {
    std::map<int, Cost> least;
    for (const Option &o : op.options)
      least[o.device] = std::min(o.cost, least.try_emplace(o.device, o.cost).first->second);
    for (auto [device, cost] : least)
      json.attribute(p.problem.devices[device].name, cost);
  });
  json.attributeObject("refusals", [&] {
    for (const PlacementRefusal &r : p.refusals[j])
      json.attributeArray(p.problem.devices[r.device].name, [&] {
        for (const std::string &reason : r.reasons)
          json.value(llvm::json::fixUTF8(reason));
      });
  });
}

static void jsonGroups(const Placement &p, llvm::json::OStream &json) {
  json.attributeArray("groups", [&] {
    for (size_t j = 0; j < p.problem.ops.size(); ++j)
      json.object([&] { jsonGroup(p, j, json); });
  });
}

/// What became of each node of the model.
static void jsonNodes(const Placement &p, const PlacedModel &model, llvm::json::OStream &json) {
  std::map<StringRef, std::vector<int64_t>> groupsOf;
  for (size_t j = 0; j < p.nodes.size(); ++j)
    for (const std::string &node : p.nodes[j])
      if (std::vector<int64_t> &groups = groupsOf[node]; groups.empty() || groups.back() != int64_t(j))
        groups.push_back(j);
  json.attributeArray("nodes", [&] {
    for (const PlacedModel::Fate &fate : model.fates)
      json.object([&] {
        if (!fate.rewrite.empty())
          json.attribute("after", llvm::json::fixUTF8(fate.rewrite));
        std::set<int64_t> groups;
        for (const std::string &name : fate.into)
          if (auto it = groupsOf.find(name); it != groupsOf.end())
            groups.insert(it->second.begin(), it->second.end());
        json.attributeArray("groups", [&] {
          for (int64_t j : groups)
            json.value(j);
        });
      });
  });
}

void PlacedModel::canonicalised(ModuleOp module) {
  for (Originals::Fate &fate : originals.trace(module)) {
    fates.push_back({std::move(fate.rewrite), {}});
    for (Operation *op : fate.into)
      fates.back().into.push_back(onnx::getNodeName(op).str());
  }
}

void printPlacementJson(const Placement &p, const PlacedModel &model, llvm::raw_ostream &os, unsigned indent) {
  Breakdown b = breakDown(p);
  const partition::Solution &s = *p.result.solution;
  llvm::json::OStream json(os, indent);
  json.object([&] {
    json.attribute("format", "tessera-plan-report/1");
    json.attribute("model", llvm::json::fixUTF8(model.path));
    json.attribute("target", p.target);
    json.attribute("estimate_ns", s.cost);
    json.attribute("lower_bound_ns", s.lowerBound);
    json.attribute("cpu_only_ns", costOrNull(p.result.cpuOnly));
    json.attribute("most_accelerated_ns", costOrNull(p.result.mostAccelerated));
    json.attribute("cheapest_in_order_ns", costOrNull(p.result.inOrder));
    json.attribute("cpu_wins", p.cpuWins());
    json.attribute("assumed_sizes", p.assumedSizes);
    json.attribute("copy_bytes", b.copyBytes);
    json.attribute("copy_ns", b.copyCost);
    jsonDevices(p, b, json);
    jsonSegments(p, b, json);
    jsonCopies(p, b, json);
    jsonSchedule(p, b, json);
    jsonGroups(p, json);
    jsonNodes(p, model, json);
    printGraph(model.graph, json);
  });
  os << "\n";
}

static void printPlacementHtml(const Placement &p, const PlacedModel &model, llvm::raw_ostream &os) {
  std::string data;
  llvm::raw_string_ostream text(data);
  printPlacementJson(p, model, text, /*indent=*/0);
  printPage("Plan of " + model.path + " on " + p.target, data, os);
}

llvm::Error writePlacement(const Placement &p, const PlacedModel &model, StringRef folder) {
  if (std::error_code ec = llvm::sys::fs::create_directories(folder))
    return llvm::createStringError(ec, "cannot make folder " + folder + ": " + ec.message());
  auto write = [&](StringRef name, llvm::function_ref<void(llvm::raw_ostream &)> print) {
    SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
      print(os);
      return llvm::Error::success();
    });
    return error ? llvm::createStringError("cannot write " + path + ": " + llvm::toString(std::move(error)))
                 : llvm::Error::success();
  };
  llvm::Error error = write("plan.txt", [&](llvm::raw_ostream &os) {
    printPlacement(p, os);
    printSchedule(p, breakDown(p), os);
  });
  if (!error)
    error = write("plan.json", [&](llvm::raw_ostream &os) { printPlacementJson(p, model, os); });
  if (!error)
    error = write("plan.html", [&](llvm::raw_ostream &os) { printPlacementHtml(p, model, os); });
  if (!error)
    error = write("problem.json", [&](llvm::raw_ostream &os) { os << p.problemText; });
  if (!error)
    error = write("solution.json", [&](llvm::raw_ostream &os) { os << p.solutionText; });
  return error;
}

} // namespace tessera
