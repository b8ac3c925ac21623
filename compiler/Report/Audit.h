// Which operator can run where, and why not.
#ifndef TESSERA_COMPILER_REPORT_AUDIT_H
#define TESSERA_COMPILER_REPORT_AUDIT_H

#include "compiler/Driver/Driver.h"
#include "compiler/Report/ModelGraph.h"
#include "targets/Target.h"

namespace tessera {

/// One node on one unit.
struct UnitVerdict {
  bool yes = true;
  std::vector<Precision> precisions; ///< those in which it runs; empty on a CPU
  std::vector<std::string> reasons;  ///< all failing constraints; empty for yes
};

/// One node of the model as it was given.
struct AuditRow {
  std::string node, op;
  /// What was done to it before the verdict: "rewritten to Reshape, MatMul";
  /// empty if it was judged as it is.
  std::string rewrite;
  int64_t cpuNs = 0;              ///< estimated time on the target's CPU of what it became; 0 if merged
  std::vector<UnitVerdict> units; ///< as the target's units
  bool runsAnywhere() const;
};

struct TargetAudit {
  std::string target;
  std::vector<std::string> units;
  std::vector<AuditRow> rows; ///< in the model's order; what no node of it names comes behind
  bool assumedSizes = false;  ///< costs took open dimensions at their least
  bool limitsAlone = false;   ///< a unit has a vendor's compiler, which was not asked
  unsigned placed(unsigned unit) const;
  /// Nodes that no unit can run.
  unsigned refused() const;
};

struct AuditReport {
  std::string model;
  ModelGraph graph; ///< its nodes are the first rows of every target
  std::vector<TargetAudit> targets;
  bool refused() const;
};

/// Audits the model for every target of `targets` (names or files;
/// options.target if empty). A verdict is proven: a CPU's by lowering the whole
/// model and emitting every kernel, an NPU's by really lowering the operator.
/// It is about the operator by itself: a compile places fusion groups whole, and
/// `tessera explain` says why one is not. Fails only if the model cannot be
/// imported, a target is unknown, or a vendor's compiler that is to be asked about
/// its units, as a compile asks it, is missing or breaks.
mlir::FailureOr<AuditReport> audit(const CompileOptions &options, llvm::ArrayRef<std::string> targets,
                                   bool askVendors, mlir::MLIRContext *context);

void printText(const AuditReport &report, llvm::raw_ostream &os);
void printJson(const AuditReport &report, llvm::raw_ostream &os, unsigned indent = 1);
/// One page for a browser, with the JSON in it.
void printHtml(const AuditReport &report, llvm::raw_ostream &os);

} // namespace tessera
#endif
