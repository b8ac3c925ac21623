// RUN: tessera-opt %s --onnx-sign-quantisers --split-input-file | FileCheck %s

// Each reader has a zero point of its own.
// CHECK-LABEL: @pair
func.func @pair(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %s = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<200> : tensor<ui8>} : () -> tensor<ui8>
  %t = onnx.Weight() {value = dense<3> : tensor<ui8>} : () -> tensor<ui8>
  // CHECK-DAG: %[[Z:.*]] = onnx.Weight() {value = dense<72> : tensor<i8>}
  // CHECK-DAG: %[[T:.*]] = onnx.Weight() {value = dense<-125> : tensor<i8>}
  // CHECK: %[[Q:.*]] = onnx.QuantizeLinear(%arg0, %{{.*}}, %[[Z]]) {{.*}} -> tensor<3x4xi8>
  // CHECK-DAG: onnx.DequantizeLinear(%[[Q]], %{{.*}}, %[[Z]])
  // CHECK-DAG: onnx.DequantizeLinear(%[[Q]], %{{.*}}, %[[T]])
  %q = onnx.QuantizeLinear(%x, %s, %z) {saturate = 1 : i64} : (tensor<3x4xf32>, tensor<f32>, tensor<ui8>) -> tensor<3x4xui8>
  %y = onnx.DequantizeLinear(%q, %s, %z) : (tensor<3x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<3x4xf32>
  %w = onnx.DequantizeLinear(%q, %s, %t) : (tensor<3x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<3x4xf32>
  return %y, %w : tensor<3x4xf32>, tensor<3x4xf32>
}

// -----

// No zero point is one of 0; scales for each index of an axis have as many. 16 bits.
// CHECK-LABEL: @absent
func.func @absent(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %s = onnx.Weight() {value = dense<[0.5, 0.25]> : tensor<2xf32>} : () -> tensor<2xf32>
  // CHECK: %[[Z:.*]] = onnx.Weight() {value = dense<-32768> : tensor<2xi16>}
  // CHECK: %[[Q:.*]] = onnx.QuantizeLinear(%arg0, %{{.*}}, %[[Z]]) {axis = 0 : i64} : {{.*}} -> tensor<2x3xi16>
  // CHECK: onnx.DequantizeLinear(%[[Q]], %{{.*}}, %{{.*}}) {axis = 0 : i64}
  %q = onnx.QuantizeLinear(%x, %s) {axis = 0 : i64, output_dtype = 4 : i64} : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xui16>
  %y = onnx.DequantizeLinear(%q, %s) {axis = 0 : i64} : (tensor<2x3xui16>, tensor<2xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// The integers leave, or are read as integers; a zero point that a run decides.
// CHECK-LABEL: @kept
func.func @kept(%x: tensor<3xf32>, %r: tensor<ui8>) -> (tensor<3xui8>, tensor<3xf32>, tensor<3xi32>, tensor<3xf32>) {
  %s = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %t = onnx.Weight() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<200> : tensor<ui8>} : () -> tensor<ui8>
  // CHECK-COUNT-3: onnx.QuantizeLinear({{.*}} -> tensor<3xui8>
  %q = onnx.QuantizeLinear(%x, %s, %z) : (tensor<3xf32>, tensor<f32>, tensor<ui8>) -> tensor<3xui8>
  %y = onnx.DequantizeLinear(%q, %s, %z) : (tensor<3xui8>, tensor<f32>, tensor<ui8>) -> tensor<3xf32>
  %p = onnx.QuantizeLinear(%x, %t, %z) : (tensor<3xf32>, tensor<f32>, tensor<ui8>) -> tensor<3xui8>
  %c = onnx.Cast(%p) {to = 6 : i64} : (tensor<3xui8>) -> tensor<3xi32>
  %d = onnx.QuantizeLinear(%x, %s, %r) : (tensor<3xf32>, tensor<f32>, tensor<ui8>) -> tensor<3xui8>
  %v = onnx.DequantizeLinear(%d, %s, %r) : (tensor<3xui8>, tensor<f32>, tensor<ui8>) -> tensor<3xf32>
  return %q, %y, %c, %v : tensor<3xui8>, tensor<3xf32>, tensor<3xi32>, tensor<3xf32>
}
