// The TOSA 1.0 flatbuffer: writer and reader of our own.
//
// What a device runs is the file, so what the CPU code generator compiles for
// the stand-in device is read back from the file too. Both directions serve the
// operators without control flow, variables and transforms; others are refused.
#ifndef TESSERA_TARGETS_TOSA_SERIALISE_H
#define TESSERA_TARGETS_TOSA_SERIALISE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <vector>

namespace tessera::tosa {

/// The bytes of a module with one function of tosa operators, `main`. The same
/// module always gives the same bytes. Failures are diagnostics at the operator.
mlir::FailureOr<std::vector<uint8_t>> writeTosa(mlir::ModuleOp module);

/// The module of a file that may come from anywhere: structure, bounds, names,
/// enumerations and sizes are checked, then the dialect's verifier. Failures are
/// diagnostics that name the operator by its position.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> readTosa(llvm::ArrayRef<uint8_t> bytes,
                                                            mlir::MLIRContext *context);

} // namespace tessera::tosa
#endif
