// A model that is in memory already, with the options of a file's import.
#ifndef TESSERA_COMPILER_IMPORT_FROMMEMORY_H
#define TESSERA_COMPILER_IMPORT_FROMMEMORY_H

#include "compiler/Import/Import.h"

namespace tessera {

/// The model holds all of its data. `origin` names it in diagnostics.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importFromMemory(::onnx::ModelProto model, llvm::StringRef origin,
                 const ImportOptions &options, mlir::MLIRContext *context);

} // namespace tessera

#endif
