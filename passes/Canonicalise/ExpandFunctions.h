// The link from the canonicalise phase to the importer, which lies above it.
#ifndef TESSERA_PASSES_CANONICALISE_EXPANDFUNCTIONS_H
#define TESSERA_PASSES_CANONICALISE_EXPANDFUNCTIONS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "onnx/onnx_pb.h"

#include <functional>

namespace tessera::onnx {

/// Makes a module with one function of a model in memory whose nodes call the
/// model's own functions: inlines them, brings every node to the newest operator
/// set and infers types. Failures are diagnostics.
using ModelImporter = std::function<mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>(
    ::onnx::ModelProto, mlir::MLIRContext *)>;

/// Set once, when the compiler registers its parts.
void setModelImporter(ModelImporter importer);

} // namespace tessera::onnx
#endif
