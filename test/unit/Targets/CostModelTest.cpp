// Costs against arithmetic by hand, on a chip of round numbers.
#include "targets/CostModel.h"
#include "test/unit/Targets/ParsedModel.h"

#include <cmath>

using namespace tessera;
using tessera::test::ParsedModel;

namespace {

// 100 GMAC/s; 10 GB/s, of which u_bw = 0.5 gives 5 bytes a ns.
std::string params(const char *precision, int peak = 100) {
  return std::string("    ") + precision + ":\n      peak_macs: {value: " + std::to_string(peak) + R"yaml(, unit: GMAC/s, origin: assumed, source: test}
      u_dense: {value: 0.5, unit: ratio, origin: assumed, source: test}
      u_dw: {value: 0.1, unit: ratio, origin: assumed, source: test}
      u_matmul: {value: 0.2, unit: ratio, origin: assumed, source: test}
      u_linear: {value: 0.4, unit: ratio, origin: assumed, source: test}
      u_bw: {value: 0.5, unit: ratio, origin: assumed, source: test}
      vector_rate: {value: 4, unit: GB/s, origin: assumed, source: test}
      lut_rate: {value: 2, unit: Gelem/s, origin: assumed, source: test}
      t_op: {value: 10, unit: us, origin: assumed, source: test}
)yaml";
}

const TargetDescription &chip() {
  static const TargetDescription target = [] {
    std::string text = R"yaml(
schema: tessera.target/1
name: round
cpu: {variants: [x86-64-v2]}
memories:
  - name: a
    size: {value: 64, unit: MiB, origin: assumed, source: test}
    bandwidth: {value: 10, unit: GB/s, origin: assumed, source: test}
  - name: b
    size: {value: 64, unit: MiB, origin: assumed, source: test}
    bandwidth: {value: 10, unit: GB/s, origin: assumed, source: test}
units:
  - name: cpu
    kind: cpu
    backend: cpu
    memory: a
    precisions: [f32]
    channel_granule: {value: 4, unit: channels, origin: assumed, source: test}
    on_chip: {value: 1, unit: KiB, origin: assumed, source: test}
  - name: npu
    kind: npu
    backend: tosa-ref
    memory: b
    precisions: [f16, int8]
    channel_granule: {value: 32, unit: channels, origin: assumed, source: test}
    on_chip: {value: 0, unit: KiB, origin: assumed, source: test}
    launch: {value: 200, unit: us, origin: assumed, source: test}
  - name: gpu
    kind: gpu
    backend: vulkan
    memory: a
    precisions: [f32]
    channel_granule: {value: 4, unit: channels, origin: assumed, source: test}
    on_chip: {value: 0, unit: KiB, origin: assumed, source: test}
    launch: {value: 100, unit: us, origin: assumed, source: test}
    features: [int8, storage8, dot]
    workgroup: {value: 128, unit: invocations, origin: assumed, source: test}
    shared: {value: 16, unit: KiB, origin: assumed, source: test}
    buffer_range: {value: 128, unit: MiB, origin: assumed, source: test}
links:
  - from: a
    to: b
    fixed: {value: 12, unit: us, origin: assumed, source: test}
    bandwidth: {value: 10, unit: GB/s, origin: assumed, source: test}
    maintenance: {value: 20, unit: GB/s, origin: assumed, source: test}
  - from: b
    to: a
    zero_copy: true
    fixed: {value: 5, unit: us, origin: assumed, source: test}
    maintenance: {value: 20, unit: GB/s, origin: assumed, source: test}
params:
  cpu:
)yaml" + params("f32") +
                       "  npu:\n" + params("f16") + params("int8") + "  gpu:\n" + params("f32") +
                       params("int8", 400) +
                       R"yaml(
ops:
  npu:
    rules:
      - op: Gather
        origin: assumed
        source: test
        types: {indices: [int64]}
        time: {value: 100, unit: us, origin: assumed, source: test}
)yaml";
    auto parsed = parseTarget(text, "test");
    if (!parsed)
      FAIL(toString(parsed.takeError()));
    return *parsed;
  }();
  return target;
}
constexpr unsigned cpu = 0, npu = 1, gpu = 2;

} // namespace

TEST_CASE("a convolution is priced by padded products, bytes and its operator") {
  ParsedModel m(R"(
func.func @main(%x: tensor<1x3x8x8xf32>) -> tensor<1x16x8x8xf32> {
  %w = onnx.Weight() {value = dense<1.0> : tensor<16x3x3x3xf32>} : () -> tensor<16x3x3x3xf32>
  %n = onnx.NoValue() : () -> none
  %y = onnx.Conv(%x, %w) {pads = array<i64: 1, 1, 1, 1>} : (tensor<1x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<1x16x8x8xf32>
  return %y : tensor<1x16x8x8xf32>
})");
  mlir::Operation *conv = m.ops().back();
  REQUIRE(conv->getName().stripDialect() == "Conv");
  GroupCost c = groupCost(chip(), npu, Precision::F16, {conv});
  CHECK(c.macs == 64 * 9 * 3 * 16);        // positions * taps * inputs * outputs
  CHECK(c.macsPadded == 64 * 9 * 32 * 32); // 3 and 16 channels take 32 each
  CHECK(c.compute == 64 * 9 * 32 * 32 / (100 * 0.5));
  CHECK(c.bytes == 2 * (16 * 27 + 3 * 64 + 16 * 64)); // weights, input, output in f16
  CHECK(c.memory == 3296 / 5.0);
  CHECK(c.vector == 0);
  // sqrt(11796.48^2 + 659.2^2) + 10000 = 11814.88 + 10000
  CHECK(c.ns == 21815);
  // int8: half the bytes of activations; the weights are counted at their own 4
  // bytes, since no DequantizeLinear says that they are narrow.
  CHECK(groupCost(chip(), npu, Precision::Int8, {conv}).bytes == 4 * 16 * 27 + 3 * 64 + 16 * 64);
  // On the CPU 3 channels are padded to 4; 768 + 4096 bytes exceed the 1 KiB on
  // chip.
  GroupCost onCpu = groupCost(chip(), cpu, Precision::F32, {conv});
  CHECK(onCpu.macsPadded == 64 * 9 * 4 * 16);
  CHECK(onCpu.bytes == 4 * (16 * 27 + 3 * 64 + 16 * 64));
}

TEST_CASE("what stays inside a group costs no bytes; functions cost elements") {
  ParsedModel m(R"(
func.func @main(%x: tensor<1x32x16x16xf32>, %r: tensor<1x32x16x16xf32>) -> tensor<1x32x16x16xf32> {
  %w = onnx.Weight() {value = dense<1.0> : tensor<32x1x3x3xf32>} : () -> tensor<32x1x3x3xf32>
  %y = onnx.Conv(%x, %w) {group = 32 : i64, pads = array<i64: 1, 1, 1, 1>} : (tensor<1x32x16x16xf32>, tensor<32x1x3x3xf32>) -> tensor<1x32x16x16xf32>
  %s = onnx.Sigmoid(%y) : (tensor<1x32x16x16xf32>) -> tensor<1x32x16x16xf32>
  %z = onnx.Add(%s, %r) : (tensor<1x32x16x16xf32>, tensor<1x32x16x16xf32>) -> tensor<1x32x16x16xf32>
  return %z : tensor<1x32x16x16xf32>
})");
  constexpr int64_t n = 32 * 256;
  GroupCost c = groupCost(chip(), npu, Precision::F16, m.ops());
  CHECK(c.macs == n * 9);
  CHECK(c.macsPadded == n * 9);           // depthwise: no rounding
  CHECK(c.compute == n * 9 / 10.0);       // 100 * u_dw
  CHECK(c.bytes == 2 * (32 * 9 + 3 * n)); // weights, x, r, z
  CHECK(c.lut == n / 2.0);
  CHECK(c.vector == 2 * 2 * n / 4.0); // Add: r and z, 2 bytes each, at 4 bytes a ns
  double total = std::hypot(n * 9 / 10.0, c.bytes / 5.0) + n / 2.0 + n + 10000;
  CHECK(c.ns == std::llround(total));
}

TEST_CASE("products with constant and with computed operands have rates of "
          "their own") {
  ParsedModel m(R"(
func.func @main(%a: tensor<2x64x128xf32>, %b: tensor<2x128x32xf32>) -> (tensor<2x64x32xf32>, tensor<2x64x32xf32>) {
  %w = onnx.Weight() {value = dense<1.0> : tensor<128x32xf32>} : () -> tensor<128x32xf32>
  %y = onnx.MatMul(%a, %w) : (tensor<2x64x128xf32>, tensor<128x32xf32>) -> tensor<2x64x32xf32>
  %z = onnx.MatMul(%a, %b) : (tensor<2x64x128xf32>, tensor<2x128x32xf32>) -> tensor<2x64x32xf32>
  return %y, %z : tensor<2x64x32xf32>, tensor<2x64x32xf32>
})");
  constexpr double macs = 2 * 64 * 32 * 128;
  CHECK(groupCost(chip(), npu, Precision::F16, {m.op(0)}).compute == macs / 40); // u_linear 0.4
  CHECK(groupCost(chip(), npu, Precision::F16, {m.op(1)}).compute == macs / 20); // u_matmul 0.2
}

TEST_CASE("views are free on a CPU, reads in part count what they write, rules "
          "add their time") {
  ParsedModel m(R"(
func.func @main(%x: tensor<64x32xf32>, %i: tensor<8xi64>) -> (tensor<2048xf32>, tensor<8x32xf32>) {
  %s = onnx.Weight() {value = dense<2048> : tensor<1xi64>} : () -> tensor<1xi64>
  %y = onnx.Reshape(%x, %s) : (tensor<64x32xf32>, tensor<1xi64>) -> tensor<2048xf32>
  %z = onnx.Gather(%x, %i) : (tensor<64x32xf32>, tensor<8xi64>) -> tensor<8x32xf32>
  return %y, %z : tensor<2048xf32>, tensor<8x32xf32>
})");
  CHECK(groupCostNs(chip(), cpu, Precision::F32, {m.op(0)}) == 0);
  // On the NPU it moves: 8 bytes of shape, 4096 in and 4096 out, then the
  // operator.
  CHECK(groupCost(chip(), npu, Precision::F16, {m.op(0)}).ns == std::llround(8200 / 5.0) + 10000);
  GroupCost gather = groupCost(chip(), npu, Precision::F16, {m.op(1)});
  CHECK(gather.bytes == 512 + 8 * 8 + 512); // 8 rows of 32 in f16, indices, result
  CHECK(gather.rules == 100000);
}

TEST_CASE("an open dimension counts as its least value, else as 1, and is reported") {
  ParsedModel m(R"(
func.func @main(%x: tensor<?x16xf32> {onnx.ranges = array<i64: 0, 8, 64, 1>}, %y: tensor<?x16xf32>) -> (tensor<?x16xf32>, tensor<?x16xf32>) {
  %a = onnx.Relu(%x) : (tensor<?x16xf32>) -> tensor<?x16xf32>
  %b = onnx.Relu(%y) : (tensor<?x16xf32>) -> tensor<?x16xf32>
  return %a, %b : tensor<?x16xf32>, tensor<?x16xf32>
})");
  Sizes bounded(*m.shapes);
  CHECK(bounded.elements(m.op(0)->getResult(0)) == 8 * 16);
  CHECK(bounded.assumed);
  CHECK(bounded.elements(m.op(1)->getResult(0)) == 16);
  Sizes fixed;
  CHECK(fixed.elements(m.op(0)->getResult(0)) == 16);
}

TEST_CASE("copies, launches and conversions") {
  CHECK(launchNs(chip(), cpu) == 0);
  CHECK(launchNs(chip(), npu) == 200000);
  LinearCost out = copyCost(chip(), cpu, npu); // 1000/10 + 1000/20 ps a byte
  CHECK(out.fixedNs == 12000);
  CHECK(out.ps == 150);
  CHECK(out.at(1001) == 12000 + 151);           // 150.15 ns, rounded up
  LinearCost back = copyCost(chip(), npu, cpu); // shared buffers: maintenance alone
  CHECK(back.fixedNs == 5000);
  CHECK(back.ps == 50);
  CHECK(copyCost(chip(), npu, npu).at(1 << 20) == 0);
  LinearCost half = conversionCost(chip(), cpu, 4, 2); // 6 bytes at 4 bytes a ns
  CHECK(half.fixedNs == 10000);
  CHECK(half.ps == 1500);
}

// DequantizeLinear of x, [16,64] by [64,32], of which @w is a constant that was
// folded; then @tail.
static std::string quantisedProduct(const char *integers, const char *tail, const char *result) {
  return std::string("func.func @main(%x: tensor<16x64xi8>) -> ") + result + R"( {
  %s = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %n = onnx.NoValue() : () -> none
  %w = onnx.Weight() {tessera.dequantised = {axis = -1 : i64, block = 0 : i64, integers = dense<1> : tensor<64x32x)" +
         integers + R"(>, scale = dense<0.5> : tensor<f32>}, value = dense<0.5> : tensor<64x32xf32>} : () -> tensor<64x32xf32>
  %d = onnx.DequantizeLinear(%x, %s) : (tensor<16x64xi8>, tensor<f32>) -> tensor<16x64xf32>
  %y = onnx.MatMul(%d, %w) : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
)" + tail + "}";
}

TEST_CASE("a GPU's products of bytes are priced by its int8 rate, others are not") {
  constexpr const char *quantise = R"(
  %z = onnx.Weight() {value = dense<0> : tensor<i8>} : () -> tensor<i8>
  %r = onnx.Relu(%y) : (tensor<16x32xf32>) -> tensor<16x32xf32>
  %q = onnx.QuantizeLinear(%r, %s, %z) : (tensor<16x32xf32>, tensor<f32>, tensor<i8>) -> tensor<16x32xi8>
  return %q : tensor<16x32xi8>
)";
  constexpr double macs = 16 * 64 * 32;
  ParsedModel bytes(quantisedProduct("i8", quantise, "tensor<16x32xi8>"));
  GroupCost c = groupCost(chip(), gpu, Precision::F32, bytes.ops());
  CHECK(c.compute == macs / (400 * 0.4));
  CHECK(c.bytes == 64 * 32 + 16 * 64 + 16 * 32 + 4 + 1); // all in bytes; a scale, a zero point

  // Integers of 16 bits, or floats that leave: products of floats by floats.
  ParsedModel wide(quantisedProduct("i16", quantise, "tensor<16x32xi8>"));
  CHECK(groupCost(chip(), gpu, Precision::F32, wide.ops()).compute == macs / (100 * 0.4));
  ParsedModel leaves(quantisedProduct("i8", "  return %y : tensor<16x32xf32>\n", "tensor<16x32xf32>"));
  GroupCost floats = groupCost(chip(), gpu, Precision::F32, leaves.ops());
  CHECK(floats.compute == macs / (100 * 0.4));
  CHECK(floats.bytes == 4 * 64 * 32 + 16 * 64 + 4 * 16 * 32 + 4);

  CHECK(cpuPrecision(bytes.ops()) == Precision::Int8);
  CHECK(cpuPrecision(wide.ops()) == Precision::F32);
  CHECK(cpuPrecision(leaves.ops()) == Precision::F32);
}

TEST_CASE("weights in blocks are read as what they are made from by a GPU, as floats by a CPU") {
  ParsedModel m(R"(
func.func @main(%x: tensor<1x64xf32>) -> tensor<1x32xf32> {
  %w = onnx.Weight() {tessera.dequantised = {axis = 0 : i64, block = 32 : i64, integers = dense<1> : tensor<64x32xui4>, scale = dense<0.5> : tensor<2x32xf32>}, value = dense<0.5> : tensor<64x32xf32>} : () -> tensor<64x32xf32>
  %n = onnx.NoValue() : () -> none
  %y = onnx.MatMul(%x, %w) : (tensor<1x64xf32>, tensor<64x32xf32>) -> tensor<1x32xf32>
  return %y : tensor<1x32xf32>
})");
  CHECK(groupCost(chip(), gpu, Precision::F32, m.ops()).bytes == 64 * 32 / 2 + 4 * (64 + 32));
  CHECK(groupCost(chip(), cpu, Precision::F32, m.ops()).bytes == 4 * 64 * 32); // 384 bytes fit on the chip
}
