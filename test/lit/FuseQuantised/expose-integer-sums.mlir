// RUN: tessera-opt --onnx-fold-constants --tsr-expose-integer-sums --split-input-file %s | FileCheck %s
// RUN: tessera-opt --onnx-fold-constants --tsr-expose-integer-sums --tsr-fuse-quantised --split-input-file %s | FileCheck %s --check-prefix=BACK

// A float result is made behind the sums; a transpose moves bytes.
// CHECK-LABEL: func.func @product(
// CHECK: %[[T:.*]] = onnx.Transpose(%arg0) {{.*}} : (tensor<3x2xi8>) -> tensor<2x3xi8>
// CHECK: %[[Y:.*]] = onnx.MatMulInteger(%[[T]], %{{.*}}, %{{.*}}) {{.*}} -> tensor<2x4xi32>
// CHECK: %[[D:.*]] = onnx.Cast(%[[Y]])
// CHECK: onnx.Mul(%[[D]], %{{.*}}) {{.*}}xf64>
// CHECK-NOT: onnx.MatMul(
func.func @product(%x: tensor<3x2xi8>) -> tensor<2x4xf32> {
  %s = onnx.Weight() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<7> : tensor<i8>} : () -> tensor<i8>
  %k = onnx.Weight() {value = dense<[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]> : tensor<3x4xi8>} : () -> tensor<3x4xi8>
  %0 = onnx.DequantizeLinear(%x, %s, %z) : (tensor<3x2xi8>, tensor<f32>, tensor<i8>) -> tensor<3x2xf32>
  %1 = onnx.Transpose(%0) {perm = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %w = onnx.DequantizeLinear(%k, %s) : (tensor<3x4xi8>, tensor<f32>) -> tensor<3x4xf32>
  %y = onnx.MatMul(%1, %w) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Both factors from the run: the CPU multiplies them as floats, and is left to it.
// CHECK-LABEL: func.func @activations(
// CHECK: onnx.MatMul(
func.func @activations(%x: tensor<2x3xi8>, %w: tensor<3x4xi8>, %s: tensor<f32>) -> tensor<2x4xf32> {
  %0 = onnx.DequantizeLinear(%x, %s) : (tensor<2x3xi8>, tensor<f32>) -> tensor<2x3xf32>
  %1 = onnx.DequantizeLinear(%w, %s) : (tensor<3x4xi8>, tensor<f32>) -> tensor<3x4xf32>
  %y = onnx.MatMul(%0, %1) : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// A zero point from the run is taken out by the sums of columns, (1 - 2) + (3 - 2) + (5 - 2) and so on.
// CHECK-LABEL: func.func @run_zero(
// CHECK-DAG: %[[X32:.*]] = onnx.Cast(%arg0) {to = 6 : i64}
// CHECK-DAG: %[[XS:.*]] = onnx.Sub(%[[X32]], %[[HALF:.*]]) : (tensor<2x3xi32>
// CHECK-DAG: %[[X:.*]] = onnx.Cast(%[[XS]]) {to = 3 : i64} {{.*}} -> tensor<2x3xi8>
// CHECK-DAG: %[[Z32:.*]] = onnx.Cast(%arg1) {to = 6 : i64}
// CHECK-DAG: %[[Z:.*]] = onnx.Sub(%[[Z32]], %{{.*}}) : (tensor<i32>
// CHECK-DAG: %[[SUMS:.*]] = onnx.Weight() {value = dense<[3, 6]> : tensor<2xi32>}
// CHECK-DAG: %[[Y:.*]] = onnx.MatMulInteger(%[[X]], %{{.*}}, %{{.*}}) {{.*}}(tensor<2x3xi8>, tensor<3x2xi8>, tensor<i8>) -> tensor<2x2xi32>
// CHECK: %[[M:.*]] = onnx.Mul(%[[SUMS]], %[[Z]])
// CHECK: onnx.Sub(%[[Y]], %[[M]])

// On the CPU it has its own form again, but for the weight's sign.
// BACK-LABEL: func.func @run_zero(
// BACK-NOT: onnx.Cast
// BACK: %[[Y:.*]] = onnx.MatMulInteger(%arg0, %{{.*}}, %arg1, %{{.*}}) : (tensor<2x3xui8>, tensor<3x2xi8>, tensor<ui8>, tensor<i8>)
// BACK-NEXT: return %[[Y]]
func.func @run_zero(%x: tensor<2x3xui8>, %z: tensor<ui8>) -> tensor<2x2xi32> {
  %w = onnx.Weight() {value = dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xui8>} : () -> tensor<3x2xui8>
  %u = onnx.Weight() {value = dense<2> : tensor<ui8>} : () -> tensor<ui8>
  %y = onnx.MatMulInteger(%x, %w, %z, %u) : (tensor<2x3xui8>, tensor<3x2xui8>, tensor<ui8>, tensor<ui8>) -> tensor<2x2xi32>
  return %y : tensor<2x2xi32>
}

// -----

// What stands for 0 is padded before.
// CHECK-LABEL: func.func @padded(
// CHECK-DAG: %[[P:.*]] = onnx.Pad(%arg0, %{{.*}}, %arg1) {{.*}} -> tensor<1x2x6x5xi8>
// CHECK-DAG: %[[Y:.*]] = onnx.ConvInteger(%[[P]], %{{.*}}) {{.*}}(tensor<1x2x6x5xi8>, tensor<2x2x3x3xi8>) -> tensor<1x2x4x3xi32>
// CHECK: onnx.Sub(%[[Y]], %{{.*}})
// BACK-LABEL: func.func @padded(
// BACK: %[[Y:.*]] = onnx.ConvInteger(%arg0, %{{.*}}, %arg1) {{{.*}}pads = array<i64: 1, 0, 1, 2>}
// BACK-NEXT: return %[[Y]]
func.func @padded(%x: tensor<1x2x4x3xi8>, %z: tensor<i8>) -> tensor<1x2x4x3xi32> {
  %w = onnx.Weight() {value = dense<3> : tensor<2x2x3x3xi8>} : () -> tensor<2x2x3x3xi8>
  %y = onnx.ConvInteger(%x, %w, %z) {pads = array<i64: 1, 0, 1, 2>} : (tensor<1x2x4x3xi8>, tensor<2x2x3x3xi8>, tensor<i8>) -> tensor<1x2x4x3xi32>
  return %y : tensor<1x2x4x3xi32>
}

// -----

// Known zero points: signs change, nothing else does.
// CHECK-LABEL: func.func @unsigned(
// CHECK: onnx.Weight() {value = dense<-121> : tensor<i8>}
// CHECK: onnx.ConvInteger({{.*}}pads = array<i64: 1, 1>{{.*}} (tensor<1x2x4xi8>
// CHECK-NOT: onnx.Pad
// BACK-LABEL: func.func @unsigned(
// BACK: onnx.Weight() {value = dense<7> : tensor<ui8>}
// BACK: onnx.ConvInteger(%arg0,
func.func @unsigned(%x: tensor<1x2x4xui8>) -> tensor<1x2x4xi32> {
  %z = onnx.Weight() {value = dense<7> : tensor<ui8>} : () -> tensor<ui8>
  %w = onnx.Weight() {value = dense<3> : tensor<2x2x3xi8>} : () -> tensor<2x2x3xi8>
  %y = onnx.ConvInteger(%x, %w, %z) {pads = array<i64: 1, 1>} : (tensor<1x2x4xui8>, tensor<2x2x3xi8>, tensor<ui8>) -> tensor<1x2x4xi32>
  return %y : tensor<1x2x4xi32>
}

// -----

// A Pad of the model's own stays, whatever the zero point is.
// CHECK-LABEL: func.func @own_pad(
// BACK-LABEL: func.func @own_pad(
// BACK: %[[P:.*]] = onnx.Pad(%arg0
// BACK: onnx.ConvInteger(%[[P]], %{{.*}}pads = array<i64: 1, 1>
// BACK: %[[Q:.*]] = onnx.Pad(%arg0
// BACK: onnx.ConvInteger(%[[Q]], %{{.*}}, %arg1, %{{.*}}) {pads = array<i64: 0, 0>}
func.func @own_pad(%x: tensor<1x2x4xi8>, %z: tensor<i8>) -> (tensor<1x2x6xi32>, tensor<1x2x6xi32>) {
  %p = onnx.Weight() {value = dense<[0, 0, 1, 0, 0, 1]> : tensor<6xi64>} : () -> tensor<6xi64>
  %q = onnx.Weight() {value = dense<[0, 0, 2, 0, 0, 2]> : tensor<6xi64>} : () -> tensor<6xi64>
  %three = onnx.Weight() {value = dense<3> : tensor<i8>} : () -> tensor<i8>
  %w = onnx.Weight() {value = dense<200> : tensor<2x2x3xui8>} : () -> tensor<2x2x3xui8>
  %0 = onnx.Pad(%x, %p, %three) : (tensor<1x2x4xi8>, tensor<6xi64>, tensor<i8>) -> tensor<1x2x6xi8>
  %y = onnx.ConvInteger(%0, %w, %three) {pads = array<i64: 1, 1>} : (tensor<1x2x6xi8>, tensor<2x2x3xui8>, tensor<i8>) -> tensor<1x2x6xi32>
  %1 = onnx.Pad(%x, %q, %three) : (tensor<1x2x4xi8>, tensor<6xi64>, tensor<i8>) -> tensor<1x2x8xi8>
  %v = onnx.ConvInteger(%1, %w, %z) {pads = array<i64: 0, 0>} : (tensor<1x2x8xi8>, tensor<2x2x3xui8>, tensor<i8>) -> tensor<1x2x6xi32>
  return %y, %v : tensor<1x2x6xi32>, tensor<1x2x6xi32>
}
