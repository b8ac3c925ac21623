// Which element types TOSA 1.0 gives an operator, by the dialect's own tables.
//
// The dialect's verifiers let pass more than the specification has (RESIZE of
// int32, MAXIMUM of int8); a device that keeps to its profiles does not.
#include "mlir/Dialect/Tosa/IR/TosaProfileCompliance.h"
#include "targets/Tosa/Lower/Lowerer.h"

/// Profiles INT and FP, with 16-bit integers. No level: ours are checked where they bind.
static mlir::tosa::TargetEnv makeTarget(mlir::MLIRContext *context) {
  using namespace mlir::tosa;
  auto attr = TargetEnvAttr::get(context, SpecificationVersion::V_1_0, Level::none,
                                 {Profile::pro_int, Profile::pro_fp}, {Extension::int16});
  auto target = TargetEnv::createTargetEnvFromAttr(attr, mlir::UnknownLoc::get(context));
  assert(succeeded(target) && "both profiles are of version 1.0");
  return *target;
}

llvm::LogicalResult tessera::tosa::checkProfiles(mlir::Operation *op, Reasons &reasons) {
  thread_local TosaProfileCompliance tables; // large to build
  static const mlir::tosa::TargetEnv target = makeTarget(op->getContext()); // keeps nothing of the context
  std::string said;
  mlir::ScopedDiagnosticHandler handler(op->getContext(), [&](mlir::Diagnostic &d) {
    if (said.empty())
      said = d.str();
    return mlir::success();
  });
  if (succeeded(tables.checkInvalid(op)) && succeeded(tables.checkProfile(op, target)) &&
      succeeded(tables.checkExtension(op, target)))
    return mlir::success();
  return reasons.no() << "TOSA 1.0 refuses: " << said;
}
