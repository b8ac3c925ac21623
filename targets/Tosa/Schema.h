// How the dialect's types and operators are called in the file.
#ifndef TESSERA_TARGETS_TOSA_SCHEMA_H
#define TESSERA_TARGETS_TOSA_SCHEMA_H

#include "mlir/IR/BuiltinTypes.h"
#include "targets/Tosa/tosa_generated.h"

namespace tessera::tosa {

namespace schema = ::tosa;

/// DType_UNKNOWN for a type without one.
schema::DType dtypeOf(mlir::Type element);
/// Null for what is unknown or not served.
mlir::Type elementOf(schema::DType dtype, mlir::MLIRContext *context);
/// "conv2d" to Op_CONV2D; Op_UNKNOWN if the file has none of that name.
schema::Op opOf(llvm::StringRef mnemonic);
/// Op_CONV2D to "conv2d"; empty for what is out of range.
std::string mnemonicOf(schema::Op op);
/// Convolutions and pools, whose attributes are windows.
bool takesWindow(schema::Op op);
/// Those whose attribute is an axis, and perhaps what becomes of NaN.
bool takesAxis(schema::Op op);

} // namespace tessera::tosa
#endif
