// The limits of Ethos-U as predicates: each pair is a form that just runs and
// one that does not, by the documents named in targets/EthosU/Rationale.md.
#include "targets/EthosU/Limits.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <catch2/catch_test_macros.hpp>

using namespace mlir;
using namespace tessera;

namespace {

/// All that keeps the function in `text` from the accelerator, joined by "; ".
std::string faults(StringRef text, StringRef config = "ethos-u55-256") {
  MLIRContext context;
  context.loadDialect<mlir::tosa::TosaDialect, func::FuncDialect>();
  auto module = parseSourceString<ModuleOp>(text, &context);
  REQUIRE(module);
  SmallVector<std::string> all;
  module->walk([&](Operation *op) {
    llvm::append_range(
        all, ethosu::violations(op, *ethosu::findAccelerator(config)));
  });
  return llvm::join(all, "; ");
}

std::string conv(unsigned height, StringRef attributes, int64_t rows = 200,
                 StringRef weight = "1") {
  std::string dims =
      llvm::formatv("1x{0}x8x2xi8>, tensor<2x{1}x1x2xi8>", rows, height);
  unsigned dilation =
      attributes.contains("dilation = array<i64: 2, 1>") ? 2 : 1;
  int64_t out = rows - (int64_t(height) - 1) * dilation;
  return llvm::formatv(R"(
func.func @main(%x: tensor<1x{0}x8x2xi8>) -> tensor<1x{1}x8x2xi32> {{
  %w = "tosa.const"() <{{values = dense<{2}> : tensor<2x{3}x1x2xi8>}> : () -> tensor<2x{3}x1x2xi8>
  %b = "tosa.const"() <{{values = dense<0> : tensor<2xi32>}> : () -> tensor<2xi32>
  %z = "tosa.const"() <{{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %y = tosa.conv2d %x, %w, %b, %z, %z {{acc_type = i32, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, {4}} : (tensor<1x{0}x8x2xi8>, tensor<2x{3}x1x2xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x{1}x8x2xi32>
  return %y : tensor<1x{1}x8x2xi32>
})",
                       rows, out, weight, height, attributes);
}

std::string unary(StringRef op, StringRef from, StringRef to) {
  return llvm::formatv("func.func @main(%x: tensor<{1}>) -> tensor<{2}> {{\n"
                       "  %y = tosa.{0} : (tensor<{1}>) -> tensor<{2}>\n"
                       "  return %y : tensor<{2}>\n}",
                       op, from, to);
}

} // namespace

TEST_CASE("accelerators are found by Vela's words", "[ethosu]") {
  CHECK(ethosu::allAccelerators().size() == 11);
  CHECK(ethosu::findAccelerator("ethos-u65-512")->macs == 512);
  CHECK(!ethosu::findAccelerator("ethos-u55-512"));
}

TEST_CASE("kernels are limited as they are executed", "[ethosu]") {
  const std::string plain = "dilation = array<i64: 1, 1>",
                    twice = "dilation = array<i64: 2, 1>";
  CHECK(faults(conv(64, plain)) == "");
  CHECK(faults(conv(65, plain)) ==
        "kernel height 65 exceeds 64 (Ethos-U55 CONV2D)");
  CHECK(faults(conv(65, plain), "ethos-u65-256") ==
        "kernel height 65 exceeds 64 (Ethos-U65 CONV2D)");
  CHECK(faults(conv(65, plain), "ethos-u85-256") == "");
  CHECK(faults(conv(32, twice)) == "");
  CHECK(faults(conv(33, twice)) ==
        "dilated kernel height 65 exceeds 64 (Ethos-U55 CONV2D)");
}

TEST_CASE("a pool's kernel is limited on every family", "[ethosu]") {
  auto pool = [](int height) {
    return unary(llvm::formatv("max_pool2d %x {{kernel = array<i64: {0}, 1>, "
                               "pad = array<i64: 0, 0, 0, 0>, stride = "
                               "array<i64: 1, 1>}",
                               height)
                     .str(),
                 "1x300x1x1xi8",
                 llvm::formatv("1x{0}x1x1xi8", 301 - height).str());
  };
  CHECK(faults(pool(256), "ethos-u85-2048") == "");
  CHECK(faults(pool(257), "ethos-u85-2048") ==
        "kernel height 257 exceeds 256 (Ethos-U85 MAX_POOL2D)");
}

TEST_CASE("transposes go by views of three axes", "[ethosu]") {
  auto swap = [](StringRef from, StringRef to, StringRef perms) {
    return unary(
        llvm::formatv("transpose %x {{perms = array<i32: {0}>}", perms).str(),
        from, to);
  };
  // Axes of one element move for nothing.
  CHECK(faults(swap("1x1x65537x2xi8", "1x65537x1x2xi8", "0, 2, 1, 3")) == "");
  CHECK(faults(swap("1x1x2x65537xi8", "1x1x65537x2xi8", "0, 1, 3, 2")) ==
        "takes a step on axes of 1, 2, 65537, one longer than 65536 (Ethos-U55 "
        "TRANSPOSE)");
  // 32-bit elements are pairs.
  CHECK(faults(swap("1x2x3x16384xi32", "1x3x2x16384xi32", "0, 2, 1, 3")) == "");
  CHECK(faults(swap("1x2x3x16385xi32", "1x3x2x16385xi32", "0, 2, 1, 3")) ==
        "takes a step on axes of 2, 3, 16385, one longer than 16384 (Ethos-U55 "
        "TRANSPOSE)");
  CHECK(faults(swap("1x2x3x16385xi32", "1x3x2x16385xi32", "0, 2, 1, 3"),
               "ethos-u85-128") == "");
}

TEST_CASE("element types, operators and 48-bit tensors", "[ethosu]") {
  CHECK(faults(unary("bitwise_not %x", "2xi8", "2xi8")) ==
        "the device has no such operator (Ethos-U55 BITWISE_NOT)");
  CHECK(faults(unary("bitwise_not %x", "2xi8", "2xi8"), "ethos-u85-512") == "");
  CHECK(faults(unary("identity %x", "2xi1", "2xi1")) ==
        "an operand of type i1, known are i8, i16, i32 (Ethos-U55 IDENTITY)");
  CHECK(faults(unary("abs %x", "2xf32", "2xf32"), "ethos-u85-512") ==
        "an operand of type f32, known are i32 (Ethos-U85 ABS)");
  CHECK(faults(unary("identity %x", "1x1x1x1x1x1x2xi8", "1x1x1x1x1x1x2xi8")) ==
        "rank 7 exceeds 6 (Ethos-U55 IDENTITY)");
  CHECK(
      faults(
          R"(func.func @main(%x: tensor<1x2x4xi16>, %y: tensor<1x4x3xi16>) -> tensor<1x2x3xi48> {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
  %r = tosa.matmul %x, %y, %z, %z : (tensor<1x2x4xi16>, tensor<1x4x3xi16>, tensor<1xi16>, tensor<1xi16>) -> tensor<1x2x3xi48>
  return %r : tensor<1x2x3xi48>
})",
          "ethos-u85-512") ==
      "a result of the segment of type i48 (Ethos-U85 MATMUL)");
}
