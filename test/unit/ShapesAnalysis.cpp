// The interface of the shape analysis beyond what its printing pass shows.
#include "compiler/Registration.h"
#include "dialects/Onnx/Shapes/ShapeAnalysis.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <catch2/catch_test_macros.hpp>

using namespace tessera;

namespace {

struct Parsed {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp func;
  std::unique_ptr<onnx::ShapeAnalysis> shapes;

  explicit Parsed(llvm::StringRef text) {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    REQUIRE(module);
    func = *module->getOps<mlir::func::FuncOp>().begin();
    auto found = onnx::ShapeAnalysis::run(func);
    REQUIRE(mlir::succeeded(found));
    shapes = std::move(*found);
    REQUIRE(mlir::succeeded(mlir::verify(*module)));
  }
  mlir::Operation *find(llvm::StringRef name) {
    mlir::Operation *result = nullptr;
    func.walk([&](mlir::Operation *op) {
      if (op->getName().getStringRef() == name)
        result = op;
    });
    return result;
  }
};

} // namespace

TEST_CASE("operands that only shape the result need no data", "[shapes]") {
  Parsed p(R"(
    func.func @main(%x: tensor<?x4xf32>, %k: tensor<1xi64>, %s: tensor<1xi64>) -> tensor<*xf32> {
      %shape = onnx.Weight() {value = dense<[-1, 2]> : tensor<2xi64>} : () -> tensor<2xi64>
      %zero = onnx.Weight() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
      %a = onnx.Reshape(%x, %shape) : (tensor<?x4xf32>, tensor<2xi64>) -> tensor<*xf32>
      %v, %i = onnx.TopK(%a, %k) : (tensor<*xf32>, tensor<1xi64>) -> (tensor<*xf32>, tensor<*xi64>)
      %b = onnx.Slice(%v, %s, %k, %zero) : (tensor<*xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
      return %b : tensor<*xf32>
    })");
  auto needs = [&](llvm::StringRef op, unsigned operand) {
    return p.shapes->needsData(p.find(op)->getOpOperand(operand));
  };
  CHECK(needs("onnx.Reshape", 0));
  CHECK(!needs("onnx.Reshape", 1));
  CHECK(!needs("onnx.TopK", 1));
  CHECK(needs("onnx.Slice", 1));  // where to start: run-time data
  CHECK(!needs("onnx.Slice", 2)); // the result's size says where it ends
  CHECK(!needs("onnx.Slice", 3)); // a constant
}

TEST_CASE("types are refined, contents published", "[shapes]") {
  Parsed p(R"(
    func.func @main(%x: tensor<?x4xf32>) -> tensor<*xf32> {
      %i = onnx.Weight() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
      %shape = onnx.Shape(%x) : (tensor<?x4xf32>) -> tensor<*xi64>
      %n = onnx.Gather(%shape, %i) : (tensor<*xi64>, tensor<i64>) -> tensor<*xi64>
      %y = onnx.Relu(%x) : (tensor<?x4xf32>) -> tensor<*xf32>
      return %y : tensor<*xf32>
    })");
  mlir::Value n = p.find("onnx.Gather")->getResult(0), y = p.find("onnx.Relu")->getResult(0);
  CHECK(llvm::cast<mlir::RankedTensorType>(n.getType()).getRank() == 0);
  CHECK(llvm::cast<mlir::RankedTensorType>(y.getType()).getShape() ==
        llvm::ArrayRef<int64_t>{mlir::ShapedType::kDynamic, 4});
  CHECK(p.func.getResultTypes()[0] == y.getType());
  auto contents = p.shapes->contents(n);
  REQUIRE(contents);
  CHECK((*contents)[0]->isConstant(4));
  CHECK(!p.shapes->contents(y));
}

TEST_CASE("a branch that decides a rank is the one that works", "[shapes]") {
  // With three dimensions the sum would not fit the matrix product.
  Parsed p(R"(
    func.func @main(%x: tensor<2x4x?xf32>, %w: tensor<2x4xf32>) -> tensor<*xf32> {
      %last = onnx.Weight() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
      %one = onnx.Weight() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
      %axes = onnx.Weight() {value = dense<2> : tensor<1xi64>} : () -> tensor<1xi64>
      %shape = onnx.Shape(%x) : (tensor<2x4x?xf32>) -> tensor<3xi64>
      %n = onnx.Gather(%shape, %last) : (tensor<3xi64>, tensor<i64>) -> tensor<i64>
      %many = onnx.Greater(%n, %one) : (tensor<i64>, tensor<i64>) -> tensor<i1>
      %y = onnx.If(%many) : (tensor<i1>) -> tensor<*xf32> {
        %same = onnx.Identity(%x) : (tensor<2x4x?xf32>) -> tensor<*xf32>
        onnx.Yield(%same) : (tensor<*xf32>) -> ()
      } {
        %less = onnx.Squeeze(%x, %axes) : (tensor<2x4x?xf32>, tensor<1xi64>) -> tensor<*xf32>
        onnx.Yield(%less) : (tensor<*xf32>) -> ()
      }
      %z = onnx.Gemm(%y, %w) {transB = 1 : i64} : (tensor<*xf32>, tensor<2x4xf32>) -> tensor<*xf32>
      return %z : tensor<*xf32>
    })");
  CHECK(!p.find("onnx.If"));
  CHECK(p.find("onnx.Squeeze")->getBlock() == &p.func.getBody().front());
  REQUIRE(!p.shapes->requirements().empty());
  bool named = false;
  for (const onnx::ShapeRequirement &r : p.shapes->requirements())
    named |= r.message.find("must be false") != std::string::npos;
  CHECK(named);
}
