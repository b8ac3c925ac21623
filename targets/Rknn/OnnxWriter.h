// A region of onnx operators as an ONNX file, which is what the vendor's
// toolkit reads.
#ifndef TESSERA_TARGETS_RKNN_ONNXWRITER_H
#define TESSERA_TARGETS_RKNN_ONNXWRITER_H

#include "mlir/IR/Operation.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <vector>

namespace tessera::rknn {

/// The newest operator set that the toolkit knows.
constexpr int opset = 19;

/// `ops` are of one block and in order; constants become initialisers. Fails
/// with what the operator set has not.
llvm::Expected<std::vector<uint8_t>>
writeOnnx(llvm::ArrayRef<mlir::Operation *> ops);

} // namespace tessera::rknn
#endif
