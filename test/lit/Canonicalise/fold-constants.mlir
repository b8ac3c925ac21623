// RUN: tessera-opt %s --onnx-fold-constants --split-input-file | FileCheck %s

// Shape arithmetic over a static shape becomes one constant.
// CHECK-LABEL: @shape_arithmetic
func.func @shape_arithmetic(%x: tensor<2x3x4xf32>) -> tensor<*xf32> {
  %s = onnx.Shape(%x) : (tensor<2x3x4xf32>) -> tensor<3xi64>
  %i = onnx.Weight() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %g = onnx.Gather(%s, %i) {axis = 0 : i64} : (tensor<3xi64>, tensor<1xi64>) -> tensor<1xi64>
  %m = onnx.Weight() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %c = onnx.Concat(%m, %g) {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  // CHECK: %[[S:.*]] = onnx.Weight() {value = dense<[-1, 4]> : tensor<2xi64>}
  // CHECK: onnx.Reshape(%{{.*}}, %[[S]])
  %y = onnx.Reshape(%x, %c) : (tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<*xf32>
  return %y : tensor<*xf32>
}

// -----

// The first dimension is not known, the last one is.
// CHECK-LABEL: @shape_slice_of_dynamic
func.func @shape_slice_of_dynamic(%x: tensor<?x7xf32>) -> (tensor<1xi64>, tensor<2xi64>) {
  // CHECK: dense<7> : tensor<1xi64>
  // CHECK: onnx.Shape
  %s = onnx.Shape(%x) {start = -1 : i64} : (tensor<?x7xf32>) -> tensor<1xi64>
  %t = onnx.Shape(%x) : (tensor<?x7xf32>) -> tensor<2xi64>
  return %s, %t : tensor<1xi64>, tensor<2xi64>
}

// -----

// Integer division truncates toward zero; Mod follows the divisor, fmod the dividend.
// CHECK-LABEL: @integer_division
func.func @integer_division() -> (tensor<4xi64>, tensor<2xi64>, tensor<2xi64>) {
  %a = onnx.Weight() {value = dense<[8, -8, 7, -7]> : tensor<4xi64>} : () -> tensor<4xi64>
  %b = onnx.Weight() {value = dense<[-3, 3, -2, 2]> : tensor<4xi64>} : () -> tensor<4xi64>
  %c = onnx.Weight() {value = dense<[-7, 7]> : tensor<2xi64>} : () -> tensor<2xi64>
  %d = onnx.Weight() {value = dense<[3, -3]> : tensor<2xi64>} : () -> tensor<2xi64>
  // CHECK-DAG: dense<[-2, -2, -3, -3]>
  // CHECK-DAG: dense<[2, -2]>
  // CHECK-DAG: dense<[-1, 1]>
  %q = onnx.Div(%a, %b) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %m = onnx.Mod(%c, %d) : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  %f = onnx.Mod(%c, %d) {fmod = 1 : i64} : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  return %q, %m, %f : tensor<4xi64>, tensor<2xi64>, tensor<2xi64>
}

// -----

// Division by zero is the runtime's affair.
// CHECK-LABEL: @division_by_zero
func.func @division_by_zero() -> tensor<i64> {
  %a = onnx.Weight() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %b = onnx.Weight() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
  // CHECK: onnx.Div
  %q = onnx.Div(%a, %b) : (tensor<i64>, tensor<i64>) -> tensor<i64>
  return %q : tensor<i64>
}

// -----

// Float to integer saturates and maps NaN to 0; to 4 bits it wraps.
// CHECK-LABEL: @casts
func.func @casts() -> (tensor<4xi8>, tensor<4xui8>, tensor<2xi4>, tensor<2xi1>) {
  %x = onnx.Weight() {value = dense<[300.0, -300.0, 0x7FC00000, -1.9]> : tensor<4xf32>} : () -> tensor<4xf32>
  %y = onnx.Weight() {value = dense<[8, -9]> : tensor<2xi32>} : () -> tensor<2xi32>
  %z = onnx.Weight() {value = dense<[0x7FC00000, 0.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  // CHECK-DAG: dense<[127, -128, 0, -1]> : tensor<4xi8>
  // CHECK-DAG: dense<[255, 0, 0, 0]> : tensor<4xui8>
  // CHECK-DAG: dense<[-8, 7]> : tensor<2xi4>
  // CHECK-DAG: dense<[true, false]> : tensor<2xi1>
  %a = onnx.Cast(%x) {to = 3 : i64} : (tensor<4xf32>) -> tensor<4xi8>
  %b = onnx.Cast(%x) {to = 2 : i64} : (tensor<4xf32>) -> tensor<4xui8>
  %c = onnx.Cast(%y) {to = 22 : i64} : (tensor<2xi32>) -> tensor<2xi4>
  %d = onnx.Cast(%z) {to = 9 : i64} : (tensor<2xf32>) -> tensor<2xi1>
  return %a, %b, %c, %d : tensor<4xi8>, tensor<4xui8>, tensor<2xi4>, tensor<2xi1>
}

// -----

// To float8, infinity becomes the largest value unless saturation is off.
// CHECK-LABEL: @cast_float8
func.func @cast_float8() -> (tensor<2xf8E4M3FN>, tensor<2xf8E5M2>) {
  %x = onnx.Weight() {value = dense<[0x7F800000, 1000.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %y = onnx.Weight() {value = dense<[0x7F800000, 1.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  // CHECK-DAG: dense<4.480000e+02> : tensor<2xf8E4M3FN>
  // CHECK-DAG: dense<[0x7C, 1.000000e+00]> : tensor<2xf8E5M2>
  %a = onnx.Cast(%x) {to = 17 : i64} : (tensor<2xf32>) -> tensor<2xf8E4M3FN>
  %b = onnx.Cast(%y) {to = 19 : i64, saturate = 0 : i64} : (tensor<2xf32>) -> tensor<2xf8E5M2>
  return %a, %b : tensor<2xf8E4M3FN>, tensor<2xf8E5M2>
}

// -----

// Negative steps: the end may run past zero.
// CHECK-LABEL: @slice_negative_step
func.func @slice_negative_step() -> (tensor<3xi64>, tensor<0xi64>) {
  %x = onnx.Weight() {value = dense<[0, 1, 2, 3, 4]> : tensor<5xi64>} : () -> tensor<5xi64>
  %s = onnx.Weight() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %e = onnx.Weight() {value = dense<-9223372036854775808> : tensor<1xi64>} : () -> tensor<1xi64>
  %m = onnx.Weight() {value = dense<9223372036854775807> : tensor<1xi64>} : () -> tensor<1xi64>
  %a = onnx.Weight() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %t = onnx.Weight() {value = dense<-2> : tensor<1xi64>} : () -> tensor<1xi64>
  // CHECK: dense<[4, 2, 0]>
  // CHECK: tensor<0xi64>
  %y = onnx.Slice(%x, %s, %e, %a, %t) : (tensor<5xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
  %z = onnx.Slice(%x, %s, %m, %a, %t) : (tensor<5xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<0xi64>
  return %y, %z : tensor<3xi64>, tensor<0xi64>
}

// -----

// Per-axis zero points and scales.
// CHECK-LABEL: @dequantize_per_axis
func.func @dequantize_per_axis() -> tensor<2x2xf32> {
  %x = onnx.Weight() {value = dense<[[10, 20], [30, -40]]> : tensor<2x2xi8>} : () -> tensor<2x2xi8>
  %s = onnx.Weight() {value = dense<[0.5, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %z = onnx.Weight() {value = dense<[10, -10]> : tensor<2xi8>} : () -> tensor<2xi8>
  // CHECK: dense<{{\[}}[0.000000e+00, 5.000000e+00], [8.000000e+01, -6.000000e+01]]>
  %y = onnx.DequantizeLinear(%x, %s, %z) {axis = 0 : i64} : (tensor<2x2xi8>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// Blocks of two along the last axis.
// CHECK-LABEL: @dequantize_blocked
func.func @dequantize_blocked() -> tensor<1x4xf32> {
  %x = onnx.Weight() {value = dense<[[1, 2, 3, 4]]> : tensor<1x4xi8>} : () -> tensor<1x4xi8>
  %s = onnx.Weight() {value = dense<[[0.5, 2.0]]> : tensor<1x2xf32>} : () -> tensor<1x2xf32>
  // CHECK: dense<{{\[}}[5.000000e-01, 1.000000e+00, 6.000000e+00, 8.000000e+00]]>
  %y = onnx.DequantizeLinear(%x, %s) {axis = 1 : i64, block_size = 2 : i64} : (tensor<1x4xi8>, tensor<1x2xf32>) -> tensor<1x4xf32>
  return %y : tensor<1x4xf32>
}

// -----

// Halves go to the even integer, then the zero point is added.
// CHECK-LABEL: @quantize_rounding
func.func @quantize_rounding() -> tensor<4xui8> {
  %x = onnx.Weight() {value = dense<[0.25, 0.75, 1.25, 1.75]> : tensor<4xf32>} : () -> tensor<4xf32>
  %s = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<0> : tensor<ui8>} : () -> tensor<ui8>
  // CHECK: dense<[0, 2, 2, 4]>
  %y = onnx.QuantizeLinear(%x, %s, %z) : (tensor<4xf32>, tensor<f32>, tensor<ui8>) -> tensor<4xui8>
  return %y : tensor<4xui8>
}

// -----

// Four gigabytes of zeros are beyond any budget.
// CHECK-LABEL: @budget
func.func @budget() -> tensor<1073741824xf32> {
  %s = onnx.Weight() {value = dense<1073741824> : tensor<1xi64>} : () -> tensor<1xi64>
  // CHECK: onnx.ConstantOfShape
  %y = onnx.ConstantOfShape(%s) : (tensor<1xi64>) -> tensor<1073741824xf32>
  return %y : tensor<1073741824xf32>
}

// -----

// An index out of range is refused at run time, not folded.
// CHECK-LABEL: @gather_out_of_range
func.func @gather_out_of_range() -> tensor<f32> {
  %x = onnx.Weight() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %i = onnx.Weight() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  // CHECK: onnx.Gather
  %y = onnx.Gather(%x, %i) {axis = 0 : i64} : (tensor<2xf32>, tensor<i64>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// An If whose condition is known is its branch.
// CHECK-LABEL: @constant_if
func.func @constant_if(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = onnx.Weight() {value = dense<false> : tensor<i1>} : () -> tensor<i1>
  // CHECK-NOT: onnx.If
  // CHECK: onnx.Neg
  // CHECK-NOT: onnx.Relu
  %y = onnx.If(%c) : (tensor<i1>) -> tensor<2xf32> {
    %a = onnx.Relu(%x) : (tensor<2xf32>) -> tensor<2xf32>
    onnx.Yield(%a) : (tensor<2xf32>) -> ()
  } {
    %a = onnx.Neg(%x) : (tensor<2xf32>) -> tensor<2xf32>
    onnx.Yield(%a) : (tensor<2xf32>) -> ()
  }
  return %y : tensor<2xf32>
}

// -----

// The sum of floats depends on its order: not folded. Integers are.
// CHECK-LABEL: @reductions
func.func @reductions() -> (tensor<i64>, tensor<f32>) {
  %i = onnx.Weight() {value = dense<[2, 3, 4]> : tensor<3xi64>} : () -> tensor<3xi64>
  %f = onnx.Weight() {value = dense<[2.0, 3.0, 4.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  // CHECK: dense<24> : tensor<i64>
  // CHECK: onnx.ReduceSum
  %a = onnx.ReduceProd(%i) {keepdims = 0 : i64} : (tensor<3xi64>) -> tensor<i64>
  %b = onnx.ReduceSum(%f) {keepdims = 0 : i64} : (tensor<3xf32>) -> tensor<f32>
  return %a, %b : tensor<i64>, tensor<f32>
}

// -----

// What a constant was before it became floats stays known where a Slice cuts the last block.
// CHECK-LABEL: func.func @cut_block(
// CHECK: onnx.Weight() {tessera.dequantised = {axis = 1 : i64, block = 16 : i64
// CHECK-SAME: integers = {{.*}} : tensor<2x20xui4>
// CHECK-SAME: value = {{.*}} : tensor<2x20xf32>
func.func @cut_block() -> tensor<2x20xf32> {
  %q = onnx.Weight() {value = dense<3> : tensor<2x32xui4>} : () -> tensor<2x32xui4>
  %s = onnx.Weight() {value = dense<0.5> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %zero = onnx.Weight() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %end = onnx.Weight() {value = dense<20> : tensor<1xi64>} : () -> tensor<1xi64>
  %one = onnx.Weight() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %0 = onnx.DequantizeLinear(%q, %s) {axis = 1 : i64, block_size = 16 : i64} : (tensor<2x32xui4>, tensor<2x2xf32>) -> tensor<2x32xf32>
  %1 = onnx.Slice(%0, %zero, %end, %one) : (tensor<2x32xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x20xf32>
  return %1 : tensor<2x20xf32>
}

// -----

// Blocks that begin elsewhere are not those of the scales.
// CHECK-LABEL: func.func @moved_blocks(
// CHECK-NOT: tessera.dequantised
// CHECK: return
func.func @moved_blocks() -> tensor<2x28xf32> {
  %q = onnx.Weight() {value = dense<3> : tensor<2x32xui4>} : () -> tensor<2x32xui4>
  %s = onnx.Weight() {value = dense<0.5> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %four = onnx.Weight() {value = dense<4> : tensor<1xi64>} : () -> tensor<1xi64>
  %end = onnx.Weight() {value = dense<32> : tensor<1xi64>} : () -> tensor<1xi64>
  %one = onnx.Weight() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %0 = onnx.DequantizeLinear(%q, %s) {axis = 1 : i64, block_size = 16 : i64} : (tensor<2x32xui4>, tensor<2x2xf32>) -> tensor<2x32xf32>
  %1 = onnx.Slice(%0, %four, %end, %one) : (tensor<2x32xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x28xf32>
  return %1 : tensor<2x28xf32>
}
