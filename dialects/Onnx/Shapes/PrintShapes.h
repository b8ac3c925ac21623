// A pass that prints what the shape analysis finds; for tests and for looking.
#ifndef TESSERA_DIALECTS_ONNX_SHAPES_PRINTSHAPES_H
#define TESSERA_DIALECTS_ONNX_SHAPES_PRINTSHAPES_H

#include <memory>

namespace mlir {
class Pass;
}

namespace tessera::onnx {

/// --onnx-print-shapes[=dims=1x3x8,4 data=1:3;7]
std::unique_ptr<mlir::Pass> createPrintShapesPass();
void registerPrintShapesPass();

} // namespace tessera::onnx
#endif
