#include "compiler/Registration.h"
#include "compiler/Import/Import.h"
#include "dialects/Onnx/IR/OnnxDialect.h"
#include "dialects/Onnx/Shapes/PrintShapes.h"
#include "passes/Canonicalise/ExpandFunctions.h"
#include "passes/Canonicalise/Passes.h"
#include "dialects/Tsr/IR/TsrDialect.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Codegen/Passes.h"
#include "passes/FuseQuantised/FuseQuantised.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "targets/Tosa/Segment.h"

using namespace mlir;

namespace tessera {

void registerDialects(DialectRegistry &registry) {
  registry.insert<onnx::OnnxDialect, tsr::TsrDialect, func::FuncDialect, arith::ArithDialect,
                  cf::ControlFlowDialect, math::MathDialect, scf::SCFDialect,
                  vector::VectorDialect, LLVM::LLVMDialect, mlir::tosa::TosaDialect>();
  onnx::setModelImporter(importModel);
}

void registerPasses() {
  registerCodegenPasses();
  registerFuseQuantisedPasses();
  registerCanonicalizerPass();
  registerCSEPass();
  registerSymbolDCEPass();
  onnx::registerPrintShapesPass();
  onnx::registerCanonicalisePasses();
  tosa::registerTosaPasses();
}

} // namespace tessera
