// ONNX model file -> module with one `func.func @main` of onnx operators.
//
// What the module holds (all names byte for byte as in the model):
//   module attributes   onnx.ir_version, onnx.opset : i64, onnx.graph : string
//   argument attributes onnx.name     : string
//                       onnx.dims     : array of strings, one an axis, "" if static or unnamed
//                       onnx.ranges   : array<i64: axis, min, max, multiple, ...>, from --dim
//                       onnx.default  : ElementsAttr of an overridable initialiser
//   result attributes   onnx.name
//   every operation     loc("node name"("first output name")); a node without a name is
//                       called "Operator:output"
// Operators are of the newest operator set. Initialisers and Constant nodes are
// onnx.Weight; large ones alias the file, mapped read-only, or the parsed model.
//
// An initialiser that is also a graph input is an argument with onnx.default. Up to
// IR version 3 every initialiser must be an input, so there it is a constant.
#ifndef TESSERA_COMPILER_IMPORT_IMPORT_H
#define TESSERA_COMPILER_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
}

namespace tessera {

/// What the user says about a dynamic dimension: `name=4`, `name=1..512`,
/// `name=1..512:8`. The name is that of the model, or `input.axis`.
struct DimSpec {
  std::string name;
  int64_t min = 1;
  int64_t max = INT64_MAX;
  int64_t multiple = 1;
  bool isStatic() const { return min == max; }
};

/// Parses the text of one --dim option; on failure says why in `error`.
mlir::FailureOr<DimSpec> parseDimSpec(llvm::StringRef text, std::string &error);

struct ImportOptions {
  std::vector<DimSpec> dims;
  /// Overridable initialisers become constants.
  bool freezeInitializers = false;
  /// A tensor of known size above this is refused.
  int64_t maxTensorBytes = int64_t(1) << 34;
};

/// Reads a model in binary or ONNX text form. Failures are diagnostics of `context`.
/// `externalFiles`, if given, receives the paths of the external data read.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(llvm::StringRef path, const ImportOptions &options, mlir::MLIRContext *context,
           std::vector<std::string> *externalFiles = nullptr);

/// The same for a model in memory without external data.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importModel(::onnx::ModelProto model,
                                                               mlir::MLIRContext *context);

} // namespace tessera

#endif
