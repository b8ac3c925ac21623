// The TOSA file: the same bytes each time, the same module back, and no damage
// that does more than a diagnostic.
#include "compiler/Driver/Driver.h"
#include "mlir/Parser/Parser.h"
#include "targets/Tosa/Serialise.h"
#include <catch2/catch_test_macros.hpp>

using namespace mlir;
using namespace tessera;

namespace {

constexpr const char *text = R"mlir(
func.func @main(%x: tensor<1x8x8x4xi8>) -> (tensor<1x8x8x6xi8>, tensor<1x4x8x8xi8>) {
  %w = "tosa.const"() <{values = dense<3> : tensor<6x3x3x4xi8>}> : () -> tensor<6x3x3x4xi8>
  %b = "tosa.const"() <{values = dense<[1, -2, 3, -4, 5, -6]> : tensor<6xi32>}> : () -> tensor<6xi32>
  %zi = "tosa.const"() <{values = dense<-3> : tensor<1xi8>}> : () -> tensor<1xi8>
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %z32 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %m = "tosa.const"() <{values = dense<1518500250> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<40> : tensor<1xi8>}> : () -> tensor<1xi8>
  %c = tosa.conv2d %x, %w, %b, %zi, %z {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x8x8x4xi8>, tensor<6x3x3x4xi8>, tensor<6xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x8x8x6xi32>
  %r = tosa.rescale %c, %m, %s, %z32, %z {scale32 = true, rounding_mode = SINGLE_ROUND, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<1x8x8x6xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x8x8x6xi8>
  %l = tosa.clamp %r {min_val = -10 : i8, max_val = 100 : i8} : (tensor<1x8x8x6xi8>) -> tensor<1x8x8x6xi8>
  %t = tosa.transpose %x {perms = array<i32: 0, 3, 1, 2>} : (tensor<1x8x8x4xi8>) -> tensor<1x4x8x8xi8>
  return %l, %t : tensor<1x8x8x6xi8>, tensor<1x4x8x8xi8>
})mlir";

std::string print(ModuleOp module) {
  std::string out;
  llvm::raw_string_ostream os(out);
  module.print(os);
  return out;
}

std::unique_ptr<MLIRContext> quietContext() {
  auto context = makeContext();
  context->getDiagEngine().registerHandler([](Diagnostic &) { return success(); });
  return context;
}

std::vector<uint8_t> sample(MLIRContext *context) {
  auto module = parseSourceString<ModuleOp>(text, context);
  REQUIRE(module);
  auto bytes = tessera::tosa::writeTosa(*module);
  REQUIRE(succeeded(bytes));
  return *bytes;
}

} // namespace

TEST_CASE("a TOSA file is reproducible and reads back as what it was", "[tosa]") {
  auto context = quietContext();
  std::vector<uint8_t> bytes = sample(context.get());
  CHECK(bytes == sample(context.get()));
  CHECK(std::string(bytes.begin() + 4, bytes.begin() + 8) == "TOSA");
  auto back = tessera::tosa::readTosa(bytes, context.get());
  REQUIRE(succeeded(back));
  // Written again it is the same file: nothing was lost on the way.
  auto again = tessera::tosa::writeTosa(**back);
  REQUIRE(succeeded(again));
  CHECK(*again == bytes);
  std::string printed = print(**back);
  CHECK(printed.find("tosa.conv2d") != std::string::npos);
  CHECK(printed.find("pad = array<i64: 1, 1, 1, 1>") != std::string::npos);
  CHECK(printed.find("min_val = -10 : i8") != std::string::npos);
}

TEST_CASE("weights of 4 bits and accumulators of 48 go through the file", "[tosa]") {
  constexpr const char *narrow = R"mlir(
func.func @main(%x: tensor<1x4x4x3xi8>, %y: tensor<1x2x4xi16>) -> (tensor<1x4x4x3xi32>, tensor<1x2x3xi16>) {
  %w = "tosa.const"() <{values = dense<[[[[1, -2, 3]]], [[[-7, 6, -5]]], [[[4, 0, 7]]]]> : tensor<3x1x1x3xi4>}> : () -> tensor<3x1x1x3xi4>
  %b = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %z8 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %z4 = "tosa.const"() <{values = dense<0> : tensor<1xi4>}> : () -> tensor<1xi4>
  %c = tosa.conv2d %x, %w, %b, %z8, %z4 {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x3xi8>, tensor<3x1x1x3xi4>, tensor<1xi32>, tensor<1xi8>, tensor<1xi4>) -> tensor<1x4x4x3xi32>
  %k = "tosa.const"() <{values = dense<5> : tensor<3x1x1x4xi8>}> : () -> tensor<3x1x1x4xi8>
  %wide = "tosa.const"() <{values = dense<[549755813887, -549755813888, -1]> : tensor<3xi48>}> : () -> tensor<3xi48>
  %z16 = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
  %s = tosa.const_shape {values = dense<[1, 1, 2, 4]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %r = tosa.reshape %y, %s : (tensor<1x2x4xi16>, !tosa.shape<4>) -> tensor<1x1x2x4xi16>
  %a = tosa.conv2d %r, %k, %wide, %z16, %z8 {acc_type = i48, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x1x2x4xi16>, tensor<3x1x1x4xi8>, tensor<3xi48>, tensor<1xi16>, tensor<1xi8>) -> tensor<1x1x2x3xi48>
  %m = "tosa.const"() <{values = dense<19000> : tensor<1xi16>}> : () -> tensor<1xi16>
  %h = "tosa.const"() <{values = dense<27> : tensor<1xi8>}> : () -> tensor<1xi8>
  %z48 = "tosa.const"() <{values = dense<0> : tensor<1xi48>}> : () -> tensor<1xi48>
  %q = tosa.rescale %a, %m, %h, %z48, %z16 {scale32 = false, rounding_mode = SINGLE_ROUND, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<1x1x2x3xi48>, tensor<1xi16>, tensor<1xi8>, tensor<1xi48>, tensor<1xi16>) -> tensor<1x1x2x3xi16>
  %t = tosa.const_shape {values = dense<[1, 2, 3]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %o = tosa.reshape %q, %t : (tensor<1x1x2x3xi16>, !tosa.shape<3>) -> tensor<1x2x3xi16>
  return %c, %o : tensor<1x4x4x3xi32>, tensor<1x2x3xi16>
})mlir";
  auto context = quietContext();
  auto module = parseSourceString<ModuleOp>(narrow, context.get());
  REQUIRE(module);
  auto bytes = tessera::tosa::writeTosa(*module);
  REQUIRE(succeeded(bytes));
  auto back = tessera::tosa::readTosa(*bytes, context.get());
  REQUIRE(succeeded(back));
  CHECK(*tessera::tosa::writeTosa(**back) == *bytes);
  std::string printed = print(**back);
  CHECK(printed.find("[-7, 6, -5]") != std::string::npos);
  CHECK(printed.find("[549755813887, -549755813888, -1]> : tensor<3xi48>") != std::string::npos);
  CHECK(printed.find("acc_type = i48") != std::string::npos);
}

TEST_CASE("a cut TOSA file is refused", "[tosa]") {
  auto context = quietContext();
  std::vector<uint8_t> bytes = sample(context.get());
  for (size_t n = 0; n < bytes.size(); n += 7) {
    std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + n);
    CHECK(failed(tessera::tosa::readTosa(cut, context.get())));
  }
}

TEST_CASE("a changed TOSA file is refused or is a valid module", "[tosa]") {
  auto context = quietContext();
  std::vector<uint8_t> bytes = sample(context.get());
  unsigned refused = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    for (uint8_t value : {0x00, 0xff, 0x80}) {
      std::vector<uint8_t> changed = bytes;
      changed[i] = changed[i] == value ? value ^ 1 : value;
      auto back = tessera::tosa::readTosa(changed, context.get());
      if (failed(back)) {
        ++refused;
        continue;
      }
      CHECK(succeeded(tessera::tosa::writeTosa(**back)));
    }
  CHECK(refused > bytes.size() / 4);
}
