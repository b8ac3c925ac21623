// Which operator can run where, and why not.
#ifndef TESSERA_COMPILER_REPORT_AUDIT_H
#define TESSERA_COMPILER_REPORT_AUDIT_H

#include "compiler/Driver/Driver.h"

namespace tessera {

struct AuditRow {
  std::string node, op;
  bool yes = true;
  std::vector<std::string> reasons; ///< all failing constraints; empty for yes
};

struct AuditReport {
  std::string model, target;
  std::vector<AuditRow> rows; ///< in the model's order
  unsigned refused() const;
};

/// Audits the model for the target's CPU. A verdict is proven: after the
/// constraints, the whole model is lowered and every kernel emitted; what fails
/// there is a `no` as well. Fails only if the model cannot be imported.
mlir::FailureOr<AuditReport> audit(const CompileOptions &options, mlir::MLIRContext *context);

void printText(const AuditReport &report, llvm::raw_ostream &os);
void printJson(const AuditReport &report, llvm::raw_ostream &os);

} // namespace tessera
#endif
