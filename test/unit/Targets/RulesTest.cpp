// Rules of the RK3588 print the value found and the limit, and all that fail.
#include "targets/Placement.h"
#include "test/unit/Targets/ParsedModel.h"

using namespace tessera;
using tessera::test::ParsedModel;
using Reasons = std::vector<std::string>;

namespace {

Reasons against(mlir::Operation *op, Precision precision = Precision::F16) {
  auto target = findTarget("rk3588-sim");
  REQUIRE(bool(target));
  auto found = failingRules(*target, *target->findUnit("npu"), op, precision);
  return Reasons(found.begin(), found.end());
}

} // namespace

TEST_CASE("a convolution within the limits is placed; every limit that it "
          "breaks is named") {
  ParsedModel good(R"(
func.func @main(%x: tensor<1x3x64x64xf32>) -> tensor<1x4x64x64xf32> {
  %w = onnx.Weight() {value = dense<1.0> : tensor<4x3x3x3xf32>} : () -> tensor<4x3x3x3xf32>
  %y = onnx.Conv(%x, %w) {pads = array<i64: 1, 1, 1, 1>} : (tensor<1x3x64x64xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x64x64xf32>
  return %y : tensor<1x4x64x64xf32>
})");
  CHECK(against(good.op(0)).empty());
  ParsedModel bad(R"(
func.func @main(%x: tensor<1x3x256x256xf32>) -> tensor<1x4x?x?xf32> {
  %w = onnx.Weight() {value = dense<1.0> : tensor<4x3x33x3xf32>} : () -> tensor<4x3x33x3xf32>
  %y = onnx.Conv(%x, %w) {pads = array<i64: 16, 1, 16, 1>, strides = array<i64: 8, 1>, dilations = array<i64: 1, 33>} : (tensor<1x3x256x256xf32>, tensor<4x3x33x3xf32>) -> tensor<1x4x?x?xf32>
  return %y : tensor<1x4x?x?xf32>
})");
  CHECK(against(bad.op(0)) == Reasons{"kernel 33x3 exceeds 31x31", "stride 8x1 exceeds 7x7",
                                      "pad 16x1x16x1 exceeds 15x15x15x15", "dilation 1x33 exceeds 32x32"});
}

TEST_CASE("depthwise and grouped convolutions have rules of their own") {
  ParsedModel m(R"(
func.func @main(%x: tensor<1x8x64x64xf32>) -> (tensor<1x8x56x56xf32>, tensor<1x8x64x64xf32>) {
  %w = onnx.Weight() {value = dense<1.0> : tensor<8x1x9x9xf32>} : () -> tensor<8x1x9x9xf32>
  %v = onnx.Weight() {value = dense<1.0> : tensor<8x4x1x1xf32>} : () -> tensor<8x4x1x1xf32>
  %y = onnx.Conv(%x, %w) {group = 8 : i64} : (tensor<1x8x64x64xf32>, tensor<8x1x9x9xf32>) -> tensor<1x8x56x56xf32>
  %z = onnx.Conv(%x, %v) {group = 2 : i64} : (tensor<1x8x64x64xf32>, tensor<8x4x1x1xf32>) -> tensor<1x8x64x64xf32>
  return %y, %z : tensor<1x8x56x56xf32>, tensor<1x8x64x64xf32>
})");
  CHECK(against(m.op(0)) == Reasons{"kernel 9x9 exceeds 8x8"});
  CHECK(against(m.op(1)) == Reasons{"operator Conv: groups other than one, or one a channel, are "
                                    "not in the NPU's list"});
}

TEST_CASE("open dimensions, ranks and constness") {
  ParsedModel m(R"(
func.func @main(%x: tensor<?x3x8x8xf32>, %w: tensor<4x3x1x1xf32>, %v: tensor<1x2x3x4x5xf32>) -> (tensor<?x4x8x8xf32>, tensor<1x2x3x4x5xf32>) {
  %y = onnx.Conv(%x, %w) : (tensor<?x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<?x4x8x8xf32>
  %z = onnx.Relu(%v) : (tensor<1x2x3x4x5xf32>) -> tensor<1x2x3x4x5xf32>
  return %y, %z : tensor<?x4x8x8xf32>, tensor<1x2x3x4x5xf32>
})");
  CHECK(against(m.op(0)) == Reasons{"dimension 0 of 'X' is not static", "dimension 0 of 'Y' is not static",
                                    "'W' is dynamic, not constant"});
  CHECK(against(m.op(1)) == Reasons{"rank of 'X' 5 exceeds 4", "rank of 'Y' 5 exceeds 4"});
}

TEST_CASE("words, axes, values, broadcasts") {
  ParsedModel m(R"(
func.func @main(%x: tensor<2x4x8x8xf32>, %b: tensor<8x1xf32>) -> (tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>) {
  %e = onnx.Weight() {value = dense<1.5> : tensor<f32>} : () -> tensor<f32>
  %a = onnx.Softmax(%x) {axis = -4 : i64} : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  %c = onnx.Pow(%x, %e) : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8x8xf32>
  %d = onnx.Sub(%x, %b) : (tensor<2x4x8x8xf32>, tensor<8x1xf32>) -> tensor<2x4x8x8xf32>
  %f = onnx.Erf(%x) : (tensor<2x4x8x8xf32>) -> tensor<2x4x8x8xf32>
  return %a, %c, %d, %f : tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>
})");
  CHECK(against(m.op(0)) == Reasons{"axis 0 is none of 1, 2, 3", "dimension 0 of 'input' 2 exceeds 1"});
  CHECK(against(m.op(0), Precision::Int8) == Reasons{"operator Softmax runs in f16, not int8"});
  CHECK(against(m.op(1)) == Reasons{"'Y' 1.5 is none of 0, 1, 2, 3, 0.5, -0.5"});
  CHECK(against(m.op(2)) == Reasons{"shape of 'B' is other, not same or scalar or channel"});
  CHECK(against(m.op(3)) == Reasons{"operator Erf: the vendor's compiler places it on the CPU"});
}

TEST_CASE("int8 is for what stands between a DequantizeLinear and a QuantizeLinear") {
  ParsedModel m(R"(
func.func @main(%q: tensor<1x4x8x8xi8>, %x: tensor<1x4x8x8xf32>) -> (tensor<1x4x8x8xi8>, tensor<1x4x8x8xf32>) {
  %s = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<0> : tensor<i8>} : () -> tensor<i8>
  %f = onnx.DequantizeLinear(%q, %s, %z) : (tensor<1x4x8x8xi8>, tensor<f32>, tensor<i8>) -> tensor<1x4x8x8xf32>
  %r = onnx.Relu(%f) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %o = onnx.QuantizeLinear(%r, %s, %z) : (tensor<1x4x8x8xf32>, tensor<f32>, tensor<i8>) -> tensor<1x4x8x8xi8>
  %p = onnx.Relu(%x) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  return %o, %p : tensor<1x4x8x8xi8>, tensor<1x4x8x8xf32>
})");
  CHECK(against(m.op(0), Precision::Int8).empty());
  CHECK(against(m.op(1), Precision::Int8).empty());
  CHECK(against(m.op(2), Precision::Int8).empty());
  CHECK(against(m.op(3), Precision::Int8) == Reasons{"'X' is float32 and does not come from 8 bits",
                                                     "'Y' is float32 and is not quantised to 8 bits by its readers"});
  CHECK(against(m.op(1)).empty()); // f16 as well
  CHECK(against(m.op(0)) == Reasons{"operator DequantizeLinear runs in int8, not f16"});
}

TEST_CASE("a verdict is the rules' and the lowering's; at int8 the quantisers are lowered with the operator") {
  ParsedModel m(R"(
func.func @main(%q: tensor<1x4x8x8xi8>, %x: tensor<1x4x8x8xf32>) -> (tensor<1x4x8x8xi8>, tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) {
  %s = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<0> : tensor<i8>} : () -> tensor<i8>
  %f = onnx.DequantizeLinear(%q, %s, %z) : (tensor<1x4x8x8xi8>, tensor<f32>, tensor<i8>) -> tensor<1x4x8x8xf32>
  %r = onnx.Relu(%f) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %o = onnx.QuantizeLinear(%r, %s, %z) : (tensor<1x4x8x8xf32>, tensor<f32>, tensor<i8>) -> tensor<1x4x8x8xi8>
  %p = onnx.Relu(%x) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  %a = onnx.Add(%f, %x) : (tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  return %o, %p, %a : tensor<1x4x8x8xi8>, tensor<1x4x8x8xf32>, tensor<1x4x8x8xf32>
})");
  auto target = findTarget("rk3588-sim");
  REQUIRE(bool(target));
  unsigned npu = *target->findUnit("npu");
  PlacementJudge judge;
  // %f has a float reader too: it is copied for the island.
  CHECK(judge.faults(*target, npu, m.op(1), Precision::Int8).empty());
  CHECK(judge.faults(*target, npu, m.op(2), Precision::Int8).empty());
  CHECK(judge.faults(*target, npu, m.op(3), Precision::F16).empty());
  CHECK(judge.faults(*target, 0, m.op(3), Precision::F32).empty());
  CHECK_FALSE(judge.faults(*target, npu, m.op(4), Precision::Int8).empty());
}
