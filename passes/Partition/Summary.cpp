#include "passes/Partition/Summary.h"
#include "llvm/Support/Format.h"

#include <map>
#include <set>

namespace tessera::partition {

std::vector<DeviceShare> sharesByDevice(const Problem &p, const Solution &s) {
  std::vector<DeviceShare> shares(p.devices.size());
  std::set<int> seen;
  for (size_t j = 0; j < p.ops.size(); ++j) {
    const Option &o = p.ops[j].options[s.choice[j]];
    DeviceShare &share = shares[o.device];
    ++share.ops;
    share.cost += o.cost;
    if (s.segment[j] >= 0 && seen.insert(s.segment[j]).second) {
      ++share.segments;
      share.launches += p.devices[o.device].launch;
    }
  }
  return shares;
}

static std::string percent(Cost part, Cost whole) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.2f %%", whole ? 100.0 * double(part) / double(whole) : 0.0);
  return text;
}

static void printAgainst(const Problem &p, const Solution &best, const std::optional<Solution> &other,
                         llvm::StringRef name, llvm::raw_ostream &os) {
  os << llvm::format("  %-17s", name.str().c_str());
  if (!other) {
    os << " impossible\n";
    return;
  }
  os << llvm::format("%14lld ", static_cast<long long>(other->cost)) << p.unit;
  if (best.cost)
    os << llvm::format("  %.3f x", double(other->cost) / double(best.cost));
  if (p.budget && other->sensitivity > *p.budget)
    os << "  (breaks the budget)";
  os << "\n";
}

void printSummary(const Problem &p, const SolverResult &result, llvm::raw_ostream &os) {
  const Solution &s = *result.solution;
  Graph graph(p);
  Price price = *priceOf(graph, s.choice, s.segment);
  os << p.ops.size() << " operators, " << p.devices.size() << " devices: " << s.cost << " " << p.unit << ", "
     << (s.optimal() ? "optimal" : "at most " + percent(s.cost - s.lowerBound, s.cost) + " above the optimum") << "\n";
  std::vector<DeviceShare> shares = sharesByDevice(p, s);
  for (size_t d = 0; d < shares.size(); ++d) {
    os << llvm::format("  %-17s%14lld ", p.devices[d].name.c_str(), static_cast<long long>(shares[d].cost)) << p.unit
       << "  " << shares[d].ops
       << " operators";
    if (p.devices[d].segments)
      os << ", " << shares[d].segments << " segments (launches " << shares[d].launches << " " << p.unit << ")";
    os << "\n";
  }
  os << llvm::format("  %-17s%14lld ", "copies", static_cast<long long>(price.copyCost)) << p.unit << "  "
     << price.copies << " copies of " << price.copiedElements << " elements\n";
  if (p.budget)
    os << "  sensitivity " << s.sensitivity << " of " << *p.budget << "\n";
  os << "against\n";
  printAgainst(p, s, result.cpuOnly, p.hostFirst() ? p.devices[0].name + " only" : "host only", os);
  printAgainst(p, s, result.mostAccelerated, "most accelerated", os);
  printAgainst(p, s, result.inOrder, "cheapest in order", os);
  if (result.cpuOnly && result.cpuOnly->cost <= s.cost && shares[0].ops == int(p.ops.size()))
    os << "nothing is faster than " << p.devices[0].name << " alone\n";
}

} // namespace tessera::partition
