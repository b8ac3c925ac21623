// The audit as text, as JSON and as a page.
#include "compiler/Report/Audit.h"
#include "compiler/Report/Page/Page.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

using namespace llvm;

namespace tessera {

static std::string precisions(const UnitVerdict &v) {
  return join(map_range(v.precisions, [](Precision p) { return precisionName(p).str(); }), ", ");
}

namespace {
/// Nodes that one reason keeps from a unit.
struct ReasonGroup {
  std::string title;
  std::vector<std::pair<const AuditRow *, std::string>> rows; ///< with what the title leaves out
  int64_t ns = 0;
};
} // namespace

/// Every tensor of an operator may have the same open dimension: one group for all.
static StringRef titleOf(StringRef reason) {
  return reason.ends_with(" is not static") ? StringRef("a dimension is not static") : reason;
}

/// Costliest first; a node with several reasons is in the group of each.
static std::vector<ReasonGroup> groupByReason(const TargetAudit &audit, unsigned unit) {
  std::map<std::string, ReasonGroup> byTitle;
  for (const AuditRow &row : audit.rows)
    for (const std::string &reason : row.units[unit].reasons) {
      std::string title = titleOf(reason).str();
      ReasonGroup &g = byTitle[title];
      g.title = title;
      if (g.rows.empty() || g.rows.back().first != &row) {
        g.rows.push_back({&row, ""});
        g.ns += row.cpuNs;
      }
      std::string &detail = g.rows.back().second;
      if (title != reason)
        detail += (detail.empty() ? "" : ", ") + StringRef(reason).drop_back(strlen(" is not static")).str();
    }
  std::vector<ReasonGroup> groups;
  for (auto &[title, g] : byTitle)
    groups.push_back(std::move(g));
  llvm::sort(groups, [](const ReasonGroup &a, const ReasonGroup &b) {
    return a.ns != b.ns ? a.ns > b.ns : a.title < b.title;
  });
  return groups;
}

static int64_t totalNs(const TargetAudit &audit) {
  int64_t ns = 0;
  for (const AuditRow &row : audit.rows)
    ns += row.cpuNs;
  return ns;
}

static void printReasons(const TargetAudit &audit, unsigned unit, raw_ostream &os) {
  bool several = audit.units.size() > 1;
  int64_t all = std::max<int64_t>(totalNs(audit), 1);
  for (const ReasonGroup &g : groupByReason(audit, unit)) {
    os << "\nno" << (several ? " on " + audit.units[unit] : "") << ": " << g.title;
    if (several)
      os << " (" << g.rows.size() << (g.rows.size() == 1 ? " node, " : " nodes, ") << llvm::format("%.1f", 100.0 * g.ns / all)
         << " % of the CPU's time)";
    os << "\n";
    for (auto &[row, detail] : g.rows) {
      os << "  " << row->node << " (" << row->op << ")";
      if (!detail.empty())
        os << ": " << detail;
      if (!row->rewrite.empty())
        os << ", " << row->rewrite;
      os << "\n";
    }
  }
}

static void printTarget(const AuditReport &report, const TargetAudit &audit, raw_ostream &os) {
  os << report.model << " on " << audit.target << ": " << audit.placed(0) << " of " << audit.rows.size()
     << " operators run on the CPU";
  int64_t all = std::max<int64_t>(totalNs(audit), 1);
  for (unsigned unit = 1; unit < audit.units.size(); ++unit) {
    int64_t ns = 0;
    for (const AuditRow &row : audit.rows)
      ns += row.units[unit].yes ? row.cpuNs : 0;
    os << ", " << audit.placed(unit) << " on " << audit.units[unit] << " (" << llvm::format("%.1f", 100.0 * ns / all)
       << " % of the CPU's time)";
  }
  os << "\n";
  if (audit.assumedSizes && audit.units.size() > 1)
    os << "times take every open dimension at its least; --dim fixes it\n";
  if (audit.limitsAlone)
    os << "verdicts are those of the device's limits: its vendor's compiler was not asked\n";
  for (unsigned unit = 0; unit < audit.units.size(); ++unit)
    printReasons(audit, unit, os);
}

/// Operators against units of all targets, "placed/all" in each cell.
static void printMatrix(const AuditReport &report, raw_ostream &os) {
  using Cell = std::pair<unsigned, unsigned>;
  std::map<std::string, std::vector<Cell>> byOperator;
  std::vector<std::string> heads;
  size_t column = 0;
  for (const TargetAudit &audit : report.targets)
    for (unsigned unit = 0; unit < audit.units.size(); ++unit, ++column) {
      heads.push_back(audit.target + ":" + audit.units[unit]);
      for (const AuditRow &row : audit.rows) {
        auto &cells = byOperator[row.op];
        cells.resize(std::max(cells.size(), column + 1));
        cells[column].first += row.units[unit].yes;
        ++cells[column].second;
      }
    }
  size_t width = 8;
  for (auto &[op, cells] : byOperator)
    width = std::max(width, op.size());
  os << left_justify("operator", width);
  for (const std::string &head : heads)
    os << "  " << right_justify(head, 9);
  os << "\n";
  for (auto &[op, cells] : byOperator) {
    cells.resize(heads.size());
    os << left_justify(op, width);
    for (auto [cell, head] : zip(cells, heads))
      os << "  "
         << right_justify(std::to_string(cell.first) + "/" + std::to_string(cell.second),
                          std::max<size_t>(head.size(), 9));
    os << "\n";
  }
  os << "\n";
}

void printText(const AuditReport &report, raw_ostream &os) {
  if (report.targets.size() > 1)
    printMatrix(report, os);
  for (auto [i, audit] : enumerate(report.targets)) {
    if (i)
      os << "\n";
    printTarget(report, audit, os);
  }
}

static void printVerdict(const AuditRow &row, const UnitVerdict &v, json::OStream &json) {
  json.attribute("verdict", !v.yes ? "no" : row.rewrite.empty() ? "yes" : "yes-after");
  if (!row.rewrite.empty())
    json.attribute("after", json::fixUTF8(row.rewrite));
  if (!v.precisions.empty())
    json.attribute("precisions", precisions(v));
  json.attributeArray("reasons", [&] {
    for (const std::string &r : v.reasons)
      json.value(json::fixUTF8(r));
  });
}

static void printTarget(const TargetAudit &audit, json::OStream &json) {
  json.attribute("target", audit.target);
  json.attribute("operators", static_cast<int64_t>(audit.rows.size()));
  json.attribute("refused", static_cast<int64_t>(audit.refused()));
  if (audit.limitsAlone)
    json.attribute("vendor", "skipped");
  json.attribute("sizes_assumed", audit.assumedSizes);
  json.attributeObject("placed", [&] {
    for (unsigned unit = 0; unit < audit.units.size(); ++unit)
      json.attribute(audit.units[unit], static_cast<int64_t>(audit.placed(unit)));
  });
  json.attributeArray("nodes", [&] {
    for (const AuditRow &row : audit.rows)
      json.object([&] {
        json.attribute("node", json::fixUTF8(row.node));
        json.attribute("operator", row.op);
        json.attribute("cpu_ns", row.cpuNs);
        json.attributeObject("units", [&] {
          for (auto [unit, v] : zip(audit.units, row.units))
            json.attributeObject(unit, [&, &v = v] { printVerdict(row, v, json); });
        });
      });
  });
}

void printJson(const AuditReport &report, raw_ostream &os, unsigned indent) {
  json::OStream json(os, indent);
  json.object([&] {
    json.attribute("schema", "tessera.audit/2");
    json.attribute("model", json::fixUTF8(report.model));
    printGraph(report.graph, json);
    json.attributeArray("targets", [&] {
      for (const TargetAudit &audit : report.targets)
        json.object([&] { printTarget(audit, json); });
    });
  });
  os << "\n";
}

void printHtml(const AuditReport &report, raw_ostream &os) {
  std::string data;
  raw_string_ostream text(data);
  printJson(report, text, /*indent=*/0);
  printPage("Audit of " + report.model, data, os);
}

} // namespace tessera
