// Strings as code points in rewrites.
#ifndef TESSERA_PASSES_CANONICALISE_STRINGS_H
#define TESSERA_PASSES_CANONICALISE_STRINGS_H

#include "passes/Canonicalise/Aggregates.h"

namespace tessera::onnx {

/// int32 [shape, W]; none where a string is not UTF-8 or holds a zero.
std::optional<HostTensor> encodeStrings(llvm::ArrayRef<llvm::StringRef> strings, llvm::ArrayRef<int64_t> shape,
                                        mlir::MLIRContext *ctx);
/// Axes of the tensor of strings.
int64_t charRank(mlir::Value chars);
mlir::Value charWidth(ShapeBuilder &b, mlir::Value chars);
/// Both with zeros behind, to the larger width.
std::pair<mlir::Value, mlir::Value> sameWidth(ShapeBuilder &b, mlir::Value x, mlir::Value y);
/// Broadcasting comparison; bools.
mlir::Value sameStrings(ShapeBuilder &b, mlir::Value x, mlir::Value y);
/// int64 [D, 1].
mlir::Value lengths(ShapeBuilder &b, mlir::Value chars);

} // namespace tessera::onnx
#endif
