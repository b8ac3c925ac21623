// A function of onnx operators from MLIR text, with its shapes.
#ifndef TESSERA_TEST_UNIT_TARGETS_PARSEDMODEL_H
#define TESSERA_TEST_UNIT_TARGETS_PARSEDMODEL_H

#include "compiler/Registration.h"
#include "dialects/Onnx/Shapes/ShapeAnalysis.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include <catch2/catch_test_macros.hpp>

namespace tessera::test {

struct ParsedModel {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<onnx::ShapeAnalysis> shapes;

  explicit ParsedModel(llvm::StringRef text) {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    REQUIRE(module);
    auto found = onnx::ShapeAnalysis::run(*module->getOps<mlir::func::FuncOp>().begin());
    REQUIRE(mlir::succeeded(found));
    shapes = std::move(*found);
  }

  /// Operators of the function in order, without constants and the return.
  std::vector<mlir::Operation *> ops() {
    std::vector<mlir::Operation *> all;
    for (mlir::Operation &op : (*module->getOps<mlir::func::FuncOp>().begin()).front())
      if (!op.hasTrait<mlir::OpTrait::IsTerminator>() && op.getName().getStringRef() != "onnx.Weight")
        all.push_back(&op);
    return all;
  }
  mlir::Operation *op(unsigned i) { return ops().at(i); }
};

} // namespace tessera::test
#endif
