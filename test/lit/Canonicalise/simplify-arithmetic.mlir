// RUN: tessera-opt %s --onnx-simplify-arithmetic --split-input-file | FileCheck %s
// RUN: tessera-opt %s --onnx-simplify-arithmetic="strict=true" --split-input-file | FileCheck %s --check-prefix=STRICT

// The square is exact; the root by Pow and by Sqrt differ at -0 and -inf.
// CHECK-LABEL: @powers
// STRICT-LABEL: @powers
func.func @powers(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %two = onnx.Weight() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %half = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %odd = onnx.Weight() {value = dense<2.5> : tensor<f32>} : () -> tensor<f32>
  // CHECK: onnx.Mul(%arg0, %arg0)
  // STRICT: onnx.Mul(%arg0, %arg0)
  %a = onnx.Pow(%x, %two) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK: onnx.Sqrt
  // STRICT: onnx.Pow
  %b = onnx.Pow(%x, %half) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK: onnx.Pow
  %c = onnx.Pow(%x, %odd) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  return %a, %b, %c : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// -----

// CHECK-LABEL: @quotients
func.func @quotients(%x: tensor<2xf32>, %i: tensor<2xi32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xi32>) {
  %eight = onnx.Weight() {value = dense<8.0> : tensor<f32>} : () -> tensor<f32>
  %three = onnx.Weight() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %four = onnx.Weight() {value = dense<4> : tensor<i32>} : () -> tensor<i32>
  // CHECK: %[[C:.*]] = onnx.Weight() {value = dense<1.250000e-01>
  // CHECK: onnx.Mul(%arg0, %[[C]])
  %a = onnx.Div(%x, %eight) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK: onnx.Div(%arg0
  %b = onnx.Div(%x, %three) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK: onnx.Div(%arg1
  %c = onnx.Div(%i, %four) : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  return %a, %b, %c : tensor<2xf32>, tensor<2xf32>, tensor<2xi32>
}

// -----

// CHECK-LABEL: @constants
func.func @constants(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %c = onnx.Weight() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK: %[[N:.*]] = onnx.Weight() {value = dense<-3.0
  // CHECK: onnx.Add(%arg0, %[[N]])
  %a = onnx.Sub(%x, %c) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  // CHECK: onnx.Sub(%{{.*}}, %arg0)
  %b = onnx.Sub(%c, %x) : (tensor<f32>, tensor<2xf32>) -> tensor<2xf32>
  return %a, %b : tensor<2xf32>, tensor<2xf32>
}

// -----

// Rows of the table are chosen as bytes.
// CHECK-LABEL: @quantised_table
func.func @quantised_table(%i: tensor<2x3xi64>) -> tensor<2x3x4xf32> {
  %w = onnx.Weight() {value = dense<7> : tensor<50x4xi8>} : () -> tensor<50x4xi8>
  %s = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<3> : tensor<i8>} : () -> tensor<i8>
  // CHECK: %[[G:.*]] = onnx.Gather(%{{.*}}, %arg0) : (tensor<50x4xi8>, tensor<2x3xi64>) -> tensor<2x3x4xi8>
  // CHECK: onnx.DequantizeLinear(%[[G]], %{{.*}}, %{{.*}}) {axis = 0 : i64} : (tensor<2x3x4xi8>, tensor<f32>, tensor<i8>) -> tensor<2x3x4xf32>
  %d = onnx.DequantizeLinear(%w, %s, %z) : (tensor<50x4xi8>, tensor<f32>, tensor<i8>) -> tensor<50x4xf32>
  %y = onnx.Gather(%d, %i) {axis = 0 : i64} : (tensor<50x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  return %y : tensor<2x3x4xf32>
}

// -----

// A scale a column stays with its column, one a row does not.
// CHECK-LABEL: @quantised_columns
func.func @quantised_columns(%i: tensor<2x3xi64>) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %w = onnx.Weight() {value = dense<7> : tensor<50x4xi8>} : () -> tensor<50x4xi8>
  %c = onnx.Weight() {value = dense<0.5> : tensor<4xf32>} : () -> tensor<4xf32>
  %r = onnx.Weight() {value = dense<0.5> : tensor<50xf32>} : () -> tensor<50xf32>
  // CHECK: onnx.DequantizeLinear({{.*}}) {axis = 2 : i64} : (tensor<2x3x4xi8>
  %d = onnx.DequantizeLinear(%w, %c) : (tensor<50x4xi8>, tensor<4xf32>) -> tensor<50x4xf32>
  %y = onnx.Gather(%d, %i) : (tensor<50x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  // CHECK: %[[D:.*]] = onnx.DequantizeLinear({{.*}}) {axis = 0 : i64} : (tensor<50x4xi8>
  // CHECK: onnx.Gather(%[[D]], %arg0)
  %e = onnx.DequantizeLinear(%w, %r) {axis = 0 : i64} : (tensor<50x4xi8>, tensor<50xf32>) -> tensor<50x4xf32>
  %z = onnx.Gather(%e, %i) : (tensor<50x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  return %y, %z : tensor<2x3x4xf32>, tensor<2x3x4xf32>
}

// -----

// A table that is made by a cast and a scale a row.
// CHECK-LABEL: @scaled_table
func.func @scaled_table(%i: tensor<2x?xi64>) -> tensor<2x?x4xf32> {
  %w = onnx.Weight() {value = dense<7> : tensor<50x4xi8>} : () -> tensor<50x4xi8>
  %s = onnx.Weight() {value = dense<0.5> : tensor<50x1xf32>} : () -> tensor<50x1xf32>
  // CHECK: %[[W:.*]] = onnx.Gather(%{{.*}}, %arg0) : (tensor<50x4xi8>, tensor<2x?xi64>) -> tensor<2x?x4xi8>
  // CHECK: %[[C:.*]] = onnx.Cast(%[[W]]) {to = 1 : i64}
  // CHECK: %[[S:.*]] = onnx.Gather(%{{.*}}, %arg0) : (tensor<50x1xf32>, tensor<2x?xi64>) -> tensor<2x?x1xf32>
  // CHECK: onnx.Mul(%[[C]], %[[S]])
  %c = onnx.Cast(%w) {to = 1 : i64} : (tensor<50x4xi8>) -> tensor<50x4xf32>
  %m = onnx.Mul(%c, %s) : (tensor<50x4xf32>, tensor<50x1xf32>) -> tensor<50x4xf32>
  %y = onnx.Gather(%m, %i) : (tensor<50x4xf32>, tensor<2x?xi64>) -> tensor<2x?x4xf32>
  return %y : tensor<2x?x4xf32>
}
