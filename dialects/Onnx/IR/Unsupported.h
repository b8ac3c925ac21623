// Why a rewrite leaves an operator as it is. A rewrite that knows says so on the
// operator; whoever later finds no kernel for it repeats the reason, in errors of
// compile and in the audit.
#ifndef TESSERA_DIALECTS_ONNX_IR_UNSUPPORTED_H
#define TESSERA_DIALECTS_ONNX_IR_UNSUPPORTED_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/Twine.h"

namespace tessera::onnx {

/// Name of the attribute that holds the reason; not to be copied to other operators.
constexpr llvm::StringLiteral kUnsupportedAttr = "onnx.unsupported";

/// States the reason; the last one counts. Always a failure.
llvm::LogicalResult unsupported(mlir::Operation *op, const llvm::Twine &why);
/// "attribute 'norm' is 'L3': not known", with "absent" for the value where it is.
llvm::LogicalResult unsupportedAttribute(mlir::Operation *op, llvm::StringRef name,
                                         const llvm::Twine &why);
/// "input 1 of type tensor<*xf32>: its rank is not known".
llvm::LogicalResult unsupportedInput(mlir::Operation *op, unsigned index, const llvm::Twine &why);

/// The reason; empty where none was given.
llvm::StringRef whyUnsupported(mlir::Operation *op);

} // namespace tessera::onnx

#endif
