// RUN: tessera-opt --onnx-fold-constants --tsr-fuse-quantised --split-input-file %s | FileCheck %s

// Bytes are multiplied as integers; scales and bias are applied in double.
// CHECK-LABEL: func.func @conv(
// CHECK-SAME: %[[X:.*]]: tensor<1x2x4x4xui8>)
// CHECK: %[[C:.*]] = onnx.ConvInteger(%[[X]], %{{.*}}, %{{.*}}) {kernel_shape = array<i64: 1, 1>}
// CHECK-SAME: -> tensor<1x3x4x4xi32>
// CHECK: %[[FACTOR:.*]] = onnx.Weight() {value = dense<{{.*}}1.250000e-01{{.*}}0.0750{{.*}}> : tensor<3x1x1xf64>}
// CHECK: %[[D:.*]] = onnx.Cast(%[[C]])
// CHECK: %[[M:.*]] = onnx.Mul(%[[D]], %[[FACTOR]])
// CHECK: %[[BIAS:.*]] = onnx.Weight() {value = dense<{{.*}}5.000000e-01{{.*}}-1.000000e+00{{.*}}> : tensor<3x1x1xf64>}
// CHECK: %[[A:.*]] = onnx.Add(%[[M]], %[[BIAS]])
// CHECK: onnx.Cast(%[[A]]) {to = 1 : i64}
func.func @conv(%x: tensor<1x2x4x4xui8>) -> tensor<1x3x4x4xf32> {
  %s = onnx.Weight() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<7> : tensor<ui8>} : () -> tensor<ui8>
  %w = onnx.Weight() {value = dense<[[[[1]], [[2]]], [[[3]], [[4]]], [[[5]], [[6]]]]> : tensor<3x2x1x1xi8>} : () -> tensor<3x2x1x1xi8>
  %ws = onnx.Weight() {value = dense<[0.5, 0.3, 0.125]> : tensor<3xf32>} : () -> tensor<3xf32>
  %b = onnx.Weight() {value = dense<[1, -2, 3]> : tensor<3xi32>} : () -> tensor<3xi32>
  %bs = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = onnx.DequantizeLinear(%x, %s, %z) : (tensor<1x2x4x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x2x4x4xf32>
  %1 = onnx.DequantizeLinear(%w, %ws) {axis = -4 : i64} : (tensor<3x2x1x1xi8>, tensor<3xf32>) -> tensor<3x2x1x1xf32>
  %2 = onnx.DequantizeLinear(%b, %bs) : (tensor<3xi32>, tensor<f32>) -> tensor<3xf32>
  %3 = onnx.Conv(%0, %1, %2) {kernel_shape = array<i64: 1, 1>} : (tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32>
  return %3 : tensor<1x3x4x4xf32>
}

// -----

// A weight that is not dequantised: a product of floats.
// CHECK-LABEL: func.func @float_weight(
// CHECK-NOT: Integer
// CHECK: onnx.MatMul
// CHECK-SAME: xf32>
func.func @float_weight(%x: tensor<2x3xi8>, %w: tensor<3x4xf32>, %s: tensor<f32>) -> tensor<2x4xf32> {
  %0 = onnx.DequantizeLinear(%x, %s) : (tensor<2x3xi8>, tensor<f32>) -> tensor<2x3xf32>
  %1 = onnx.MatMul(%0, %w) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// -----

// 16 bits: sums that int32 may not hold are exact in double. Scales may be run-time values.
// CHECK-LABEL: func.func @wide(
// CHECK: %[[C:.*]] = onnx.MatMul
// CHECK-SAME: xf64>
// CHECK: onnx.Mul(%[[C]]
// CHECK: onnx.Cast(%{{.*}}) {to = 1 : i64}
func.func @wide(%x: tensor<2x3xi16>, %y: tensor<3x4xi16>, %s: tensor<f32>) -> tensor<2x4xf32> {
  %0 = onnx.DequantizeLinear(%x, %s) : (tensor<2x3xi16>, tensor<f32>) -> tensor<2x3xf32>
  %1 = onnx.DequantizeLinear(%y, %s) : (tensor<3x4xi16>, tensor<f32>) -> tensor<3x4xf32>
  %2 = onnx.MatMul(%0, %1) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// -----

// Few products of two activations: exact in float32, whose kernels are faster.
// CHECK-LABEL: func.func @activations(
// CHECK-NOT: Integer
// CHECK: onnx.MatMul
// CHECK-SAME: (tensor<2x3xf32>, tensor<3x4xf32>)
func.func @activations(%x: tensor<2x3xi8>, %y: tensor<3x4xi8>, %s: tensor<f32>) -> tensor<2x4xf32> {
  %0 = onnx.DequantizeLinear(%x, %s) : (tensor<2x3xi8>, tensor<f32>) -> tensor<2x3xf32>
  %1 = onnx.DequantizeLinear(%y, %s) : (tensor<3x4xi8>, tensor<f32>) -> tensor<3x4xf32>
  %2 = onnx.MatMul(%0, %1) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// -----

// A sum of unknown length may leave int32.
// CHECK-LABEL: func.func @unknown(
// CHECK-NOT: Integer
// CHECK: onnx.MatMul
// CHECK-SAME: (tensor<2x?xf64>, tensor<?x4xf64>)
func.func @unknown(%x: tensor<2x?xi8>, %y: tensor<?x4xi8>, %s: tensor<f32>) -> tensor<2x4xf32> {
  %0 = onnx.DequantizeLinear(%x, %s) : (tensor<2x?xi8>, tensor<f32>) -> tensor<2x?xf32>
  %1 = onnx.DequantizeLinear(%y, %s) : (tensor<?x4xi8>, tensor<f32>) -> tensor<?x4xf32>
  %2 = onnx.MatMul(%0, %1) : (tensor<2x?xf32>, tensor<?x4xf32>) -> tensor<2x4xf32>
  return %2 : tensor<2x4xf32>
}

// -----

// Scales that change along the sum stay in it.
// CHECK-LABEL: func.func @rows(
// CHECK-NOT: Integer
// CHECK: onnx.MatMul
// CHECK-SAME: xf64>
// CHECK-NOT: onnx.Mul
// CHECK: return
func.func @rows(%x: tensor<2x3xi8>, %s: tensor<f32>) -> tensor<2x2xf32> {
  %w = onnx.Weight() {value = dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>} : () -> tensor<3x2xi8>
  %ws = onnx.Weight() {value = dense<[0.5, 0.3, 0.125]> : tensor<3xf32>} : () -> tensor<3xf32>
  %xs = onnx.Weight() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = onnx.DequantizeLinear(%x, %xs) : (tensor<2x3xi8>, tensor<f32>) -> tensor<2x3xf32>
  %1 = onnx.DequantizeLinear(%w, %ws) {axis = 0 : i64} : (tensor<3x2xi8>, tensor<3xf32>) -> tensor<3x2xf32>
  %2 = onnx.MatMul(%0, %1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}

// -----

// Integers move; a QuantizeLinear that undoes the DequantizeLinear goes.
// CHECK-LABEL: func.func @movement(
// CHECK-SAME: %[[X:.*]]: tensor<1x2x4x4xi8>
// CHECK: %[[T:.*]] = onnx.Transpose(%[[X]])
// CHECK: %[[P:.*]] = onnx.MaxPool(%[[T]])
// CHECK: return %[[P]]
func.func @movement(%x: tensor<1x2x4x4xi8>) -> tensor<1x2x2x2xi8> {
  %s = onnx.Weight() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
  %0 = onnx.DequantizeLinear(%x, %s) : (tensor<1x2x4x4xi8>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %1 = onnx.Transpose(%0) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %2 = onnx.MaxPool(%1) {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %3 = onnx.QuantizeLinear(%2, %s) {output_dtype = 3 : i64} : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xi8>
  return %3 : tensor<1x2x2x2xi8>
}

// -----

// Of two scales none can be that of the whole.
// CHECK-LABEL: func.func @concat(
// CHECK: onnx.Concat(%{{.*}}, %{{.*}})
// CHECK-SAME: xf32>
func.func @concat(%x: tensor<1x2xi8>, %y: tensor<1x2xi8>) -> tensor<1x4xf32> {
  %s = onnx.Weight() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
  %t = onnx.Weight() {value = dense<0.2> : tensor<f32>} : () -> tensor<f32>
  %0 = onnx.DequantizeLinear(%x, %s) : (tensor<1x2xi8>, tensor<f32>) -> tensor<1x2xf32>
  %1 = onnx.DequantizeLinear(%y, %t) : (tensor<1x2xi8>, tensor<f32>) -> tensor<1x2xf32>
  %2 = onnx.Concat(%0, %1) {axis = 1 : i64} : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x4xf32>
  return %2 : tensor<1x4xf32>
}

// -----

// A function of bytes is a table; negative indices count from its end.
// CHECK-LABEL: func.func @table(
// CHECK-SAME: %[[X:.*]]: tensor<5xi8>
// CHECK: %[[I:.*]] = onnx.Cast(%[[X]])
// CHECK: %[[T:.*]] = onnx.Weight() {{.*}}tensor<256xi8>
// CHECK: onnx.Gather(%[[T]], %[[I]])
func.func @table(%x: tensor<5xi8>) -> tensor<5xi8> {
  %s = onnx.Weight() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
  %t = onnx.Weight() {value = dense<0.01> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<3> : tensor<i8>} : () -> tensor<i8>
  %0 = onnx.DequantizeLinear(%x, %s, %z) : (tensor<5xi8>, tensor<f32>, tensor<i8>) -> tensor<5xf32>
  %1 = onnx.Sigmoid(%0) : (tensor<5xf32>) -> tensor<5xf32>
  %2 = onnx.QuantizeLinear(%1, %t, %z) : (tensor<5xf32>, tensor<f32>, tensor<i8>) -> tensor<5xi8>
  return %2 : tensor<5xi8>
}

// -----

// Arithmetic has its bits by IEEE 754 and stays.
// CHECK-LABEL: func.func @arithmetic(
// CHECK-NOT: Gather
// CHECK: onnx.Abs
func.func @arithmetic(%x: tensor<5xi8>) -> tensor<5xi8> {
  %s = onnx.Weight() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
  %t = onnx.Weight() {value = dense<0.01> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<3> : tensor<i8>} : () -> tensor<i8>
  %0 = onnx.DequantizeLinear(%x, %s, %z) : (tensor<5xi8>, tensor<f32>, tensor<i8>) -> tensor<5xf32>
  %1 = onnx.Abs(%0) : (tensor<5xf32>) -> tensor<5xf32>
  %2 = onnx.QuantizeLinear(%1, %t, %z) : (tensor<5xf32>, tensor<f32>, tensor<i8>) -> tensor<5xi8>
  return %2 : tensor<5xi8>
}

// -----

// Other sums are taken in double, of the numbers before they are rounded.
// CHECK-LABEL: func.func @mean(
// CHECK: %[[R:.*]] = onnx.Mul
// CHECK: %[[P:.*]] = onnx.AveragePool(%[[R]])
// CHECK-SAME: xf64>
// CHECK: onnx.Cast(%[[P]]) {to = 1 : i64}
func.func @mean(%x: tensor<1x2x4x4xi8>, %s: tensor<f32>) -> tensor<1x2x3x3xf32> {
  %0 = onnx.DequantizeLinear(%x, %s) : (tensor<1x2x4x4xi8>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %1 = onnx.AveragePool(%0) {kernel_shape = array<i64: 2, 2>} : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  return %1 : tensor<1x2x3x3xf32>
}

// -----

// An average of all is a sum of bytes times a sixteenth of the scale.
// CHECK-LABEL: func.func @average(
// CHECK: %[[ONES:.*]] = onnx.Weight() {value = dense<1> : tensor<2x1x4x4xi8>}
// CHECK: %[[S:.*]] = onnx.ConvInteger(%arg0, %[[ONES]], %{{.*}}) {group = 2 : i64
// CHECK: %[[F:.*]] = onnx.Weight() {value = dense<3.125000e-02> : tensor<f64>}
// CHECK: %[[W:.*]] = onnx.Cast(%[[S]])
// CHECK: %[[P:.*]] = onnx.Mul(%[[W]], %[[F]])
// CHECK: onnx.Cast(%[[P]]) {to = 1 : i64}
func.func @average(%x: tensor<1x2x4x4xi8>) -> tensor<1x2x1x1xf32> {
  %s = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<3> : tensor<i8>} : () -> tensor<i8>
  %0 = onnx.DequantizeLinear(%x, %s, %z) : (tensor<1x2x4x4xi8>, tensor<f32>, tensor<i8>) -> tensor<1x2x4x4xf32>
  %1 = onnx.GlobalAveragePool(%0) : (tensor<1x2x4x4xf32>) -> tensor<1x2x1x1xf32>
  return %1 : tensor<1x2x1x1xf32>
}

// -----

// Bounds of floats are bounds of integers: 6 is beyond the range, 0 is -12.
// CHECK-LABEL: func.func @clamps(
// CHECK: %[[Q:.*]] = onnx.QuantizeLinear(%arg0
// CHECK: %[[L:.*]] = onnx.Weight() {value = dense<-12> : tensor<i8>}
// CHECK: %[[H:.*]] = onnx.Weight() {value = dense<127> : tensor<i8>}
// CHECK: onnx.Clip(%[[Q]], %[[L]], %[[H]])
func.func @clamps(%x: tensor<5xf32>, %y: tensor<5xi8>) -> tensor<5xi8> {
  %s = onnx.Weight() {value = dense<0.01> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<-12> : tensor<i8>} : () -> tensor<i8>
  %h = onnx.Weight() {value = dense<6.0> : tensor<f32>} : () -> tensor<f32>
  %0 = onnx.Relu(%x) : (tensor<5xf32>) -> tensor<5xf32>
  %l = onnx.Weight() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %1 = onnx.Clip(%0, %l, %h) : (tensor<5xf32>, tensor<f32>, tensor<f32>) -> tensor<5xf32>
  %2 = onnx.QuantizeLinear(%1, %s, %z) : (tensor<5xf32>, tensor<f32>, tensor<i8>) -> tensor<5xi8>
  %d = onnx.DequantizeLinear(%y, %s, %z) : (tensor<5xi8>, tensor<f32>, tensor<i8>) -> tensor<5xf32>
  return %2 : tensor<5xi8>
}

// -----

// From sums to bytes in one operator; the exact factor stays beside its float32.
// CHECK-LABEL: func.func @requantise(
// CHECK: %[[C:.*]] = onnx.MatMulInteger
// CHECK: %[[Q:.*]] = onnx.Custom(%[[C]], {{.*}}high = 1.270000e+02 : f64, low = -1.280000e+02 : f64, scale = 2.500000e-01 : f64, zero = -1.280000e+02 : f64}{{.*}}op_type = "Requantise"
// CHECK: return %[[Q]]
func.func @requantise(%x: tensor<2x3xi8>) -> tensor<2x2xi8> {
  %s = onnx.Weight() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<-128> : tensor<i8>} : () -> tensor<i8>
  %w = onnx.Weight() {value = dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>} : () -> tensor<3x2xi8>
  %0 = onnx.DequantizeLinear(%x, %s, %z) : (tensor<2x3xi8>, tensor<f32>, tensor<i8>) -> tensor<2x3xf32>
  %1 = onnx.DequantizeLinear(%w, %s) : (tensor<3x2xi8>, tensor<f32>) -> tensor<3x2xf32>
  %2 = onnx.MatMul(%0, %1) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %3 = onnx.Relu(%2) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %4 = onnx.QuantizeLinear(%3, %s, %z) : (tensor<2x2xf32>, tensor<f32>, tensor<i8>) -> tensor<2x2xi8>
  return %4 : tensor<2x2xi8>
}

// -----

// An operator has the shape of its sums: a factor that enlarges them stays outside. This graph has no DequantizeLinear.
// CHECK-LABEL: func.func @enlarged(
// CHECK-NOT: Requantise
// CHECK: onnx.QuantizeLinear
// CHECK-SAME: -> tensor<4x8xui8>
// CHECK: Requantise
// CHECK-SAME: -> tensor<4x8xui8>
func.func @enlarged(%x: tensor<4x1xi32>, %y: tensor<4x8xi32>) -> (tensor<4x8xui8>, tensor<4x8xui8>) {
  %f = onnx.Weight() {value = dense<[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]> : tensor<8xf64>} : () -> tensor<8xf64>
  %s = onnx.Weight() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %0 = onnx.Cast(%x) {to = 11 : i64} : (tensor<4x1xi32>) -> tensor<4x1xf64>
  %1 = onnx.Mul(%0, %f) : (tensor<4x1xf64>, tensor<8xf64>) -> tensor<4x8xf64>
  %2 = onnx.Cast(%1) {to = 1 : i64} : (tensor<4x8xf64>) -> tensor<4x8xf32>
  %3 = onnx.QuantizeLinear(%2, %s) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xui8>
  %4 = onnx.Cast(%y) {to = 11 : i64} : (tensor<4x8xi32>) -> tensor<4x8xf64>
  %5 = onnx.Mul(%4, %f) : (tensor<4x8xf64>, tensor<8xf64>) -> tensor<4x8xf64>
  %6 = onnx.Cast(%5) {to = 1 : i64} : (tensor<4x8xf64>) -> tensor<4x8xf32>
  %7 = onnx.QuantizeLinear(%6, %s) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xui8>
  return %3, %7 : tensor<4x8xui8>, tensor<4x8xui8>
}

// -----

// Scales of blocks turn with the weight, whether Gemm or Transpose turns it.
// CHECK-LABEL: func.func @blocks_across(
// CHECK: %[[W:.*]] = onnx.Weight() {value = dense<{{\[\[}}5.000000e-01, 2.500000e+00], [1.000000e+00, 3.000000e+00], [7.500000e-01, 8.750000e-01]]> : tensor<3x2xf64>}
// CHECK: onnx.MatMul(%{{.*}}, %[[W]])
// CHECK-SAME: xf64>
// CHECK: %[[V:.*]] = onnx.Weight() {value = dense<{{\[\[}}5.000000e-01, 2.500000e+00], [1.000000e+00, 3.000000e+00], [7.500000e-01, 8.750000e-01]]> : tensor<3x2xf64>}
// CHECK: onnx.MatMul(%{{.*}}, %[[V]])
// CHECK-SAME: xf64>
func.func @blocks_across(%x: tensor<2x3xi8>, %s: tensor<f32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = onnx.Weight() {value = dense<[[1, 2, 3], [5, 6, 7]]> : tensor<2x3xi8>} : () -> tensor<2x3xi8>
  %ws = onnx.Weight() {value = dense<[[0.5, 0.25], [0.5, 0.125]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %0 = onnx.DequantizeLinear(%x, %s) : (tensor<2x3xi8>, tensor<f32>) -> tensor<2x3xf32>
  %1 = onnx.DequantizeLinear(%w, %ws) {axis = 1 : i64, block_size = 2 : i64} : (tensor<2x3xi8>, tensor<2x2xf32>) -> tensor<2x3xf32>
  %2 = onnx.Gemm(%0, %1) {transB = 1 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %3 = onnx.Transpose(%1) {perm = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %4 = onnx.MatMul(%0, %3) : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  return %2, %4 : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// The zero point stands for 0, but not where 0 times the scale is NaN.
// CHECK-LABEL: func.func @pad_infinite(
// CHECK: %[[R:.*]] = onnx.DequantizeLinear
// CHECK: onnx.Pad(%[[R]]
func.func @pad_infinite(%x: tensor<2x3xi8>) -> tensor<3x3xf32> {
  %s = onnx.Weight() {value = dense<0x7F800000> : tensor<f32>} : () -> tensor<f32>
  %p = onnx.Weight() {value = dense<[1, 0, 0, 0]> : tensor<4xi64>} : () -> tensor<4xi64>
  %0 = onnx.DequantizeLinear(%x, %s) : (tensor<2x3xi8>, tensor<f32>) -> tensor<2x3xf32>
  %1 = onnx.Pad(%0, %p) {mode = "constant"} : (tensor<2x3xf32>, tensor<4xi64>) -> tensor<3x3xf32>
  return %1 : tensor<3x3xf32>
}
