// What the ai.onnx.ml rewrites share with those on strings.
#ifndef TESSERA_PASSES_CANONICALISE_DECOMPOSEML_H
#define TESSERA_PASSES_CANONICALISE_DECOMPOSEML_H

#include "passes/Canonicalise/OnnxBuilder.h"

namespace tessera::onnx {

/// Which of `keys` each element of `x` equals, broadcast like Equal. A key that the
/// type of `x` does not hold exactly equals nothing.
mlir::Value equalKeys(OnnxBuilder &b, mlir::Value x, const HostTensor &keys);
/// Default, then the values of a LabelEncoder; none if they are strings.
std::optional<HostTensor> encoderTable(mlir::Operation *op, mlir::Builder &b);
/// [..., K]: which of a LabelEncoder's numeric keys each element of `x` is; null
/// where there are none, too many, or two equal ones.
mlir::Value encoderHits(mlir::Operation *op, mlir::Value x, OnnxBuilder &b);
/// `hit` [..., K] says which key an element equals: row k + 1 of `table`
/// [K + 1, ...] for the hit k, row 0 where there is none.
mlir::Value pickByHit(OnnxBuilder &b, mlir::Value hit, const HostTensor &table);

void addMlDecompositions(mlir::RewritePatternSet &patterns);

} // namespace tessera::onnx
#endif
