// RUN: tessera-opt %s --onnx-remove-no-ops --split-input-file | FileCheck %s
// RUN: tessera-opt %s --onnx-remove-no-ops="strict=true" --split-input-file | FileCheck %s --check-prefix=STRICT

// Adding zero turns -0 into +0: only where that is allowed.
// CHECK-LABEL: @add_zero
// STRICT-LABEL: @add_zero
func.func @add_zero(%x: tensor<2xf32>) -> tensor<2xf32> {
  %z = onnx.Weight() {value = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  // CHECK-NOT: onnx.Add
  // STRICT: onnx.Add
  %y = onnx.Add(%x, %z) : (tensor<2xf32>, tensor<1xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// The neutral operand widens the result: it stays.
// CHECK-LABEL: @multiply_by_one_broadcasts
func.func @multiply_by_one_broadcasts(%x: tensor<1x3xf32>) -> tensor<2x3xf32> {
  %o = onnx.Weight() {value = dense<1.0> : tensor<2x1xf32>} : () -> tensor<2x1xf32>
  // CHECK: onnx.Mul
  %y = onnx.Mul(%x, %o) : (tensor<1x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @multiply_by_one
func.func @multiply_by_one(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %o = onnx.Weight() {value = dense<1.0> : tensor<1x3xf32>} : () -> tensor<1x3xf32>
  // CHECK-NOT: onnx.Mul
  // CHECK: return %arg0
  %y = onnx.Mul(%o, %x) : (tensor<1x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}

// -----

// CHECK-LABEL: @transposes
func.func @transposes(%x: tensor<2x3x4xf32>) -> (tensor<4x3x2xf32>, tensor<2x3x4xf32>) {
  %a = onnx.Transpose(%x) {perm = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  // CHECK: %[[T:.*]] = onnx.Transpose(%arg0) {perm = array<i64: 2, 1, 0>}
  %b = onnx.Transpose(%a) {perm = array<i64: 1, 0, 2>} : (tensor<3x4x2xf32>) -> tensor<4x3x2xf32>
  %c = onnx.Transpose(%b) : (tensor<4x3x2xf32>) -> tensor<2x3x4xf32>
  // CHECK: return %[[T]], %arg0
  return %b, %c : tensor<4x3x2xf32>, tensor<2x3x4xf32>
}

// -----

// A computed shape with one open extent is -1.
// CHECK-LABEL: @reshape_one_open
func.func @reshape_one_open(%x: tensor<?x4xf32>, %s: tensor<3xi64>) -> tensor<?x2x2xf32> {
  // CHECK: dense<[-1, 2, 2]>
  %y = onnx.Reshape(%x, %s) : (tensor<?x4xf32>, tensor<3xi64>) -> tensor<?x2x2xf32>
  return %y : tensor<?x2x2xf32>
}

// -----

// Two open extents need the shape.
// CHECK-LABEL: @reshape_two_open
func.func @reshape_two_open(%x: tensor<?x4xf32>, %s: tensor<3xi64>) -> tensor<?x?x2xf32> {
  // CHECK: onnx.Reshape(%arg0, %arg1)
  %y = onnx.Reshape(%x, %s) : (tensor<?x4xf32>, tensor<3xi64>) -> tensor<?x?x2xf32>
  return %y : tensor<?x?x2xf32>
}

// -----

// CHECK-LABEL: @whole_slice
func.func @whole_slice(%x: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %s = onnx.Weight() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %a = onnx.Weight() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %e = onnx.Weight() {value = dense<9223372036854775807> : tensor<1xi64>} : () -> tensor<1xi64>
  %f = onnx.Weight() {value = dense<4> : tensor<1xi64>} : () -> tensor<1xi64>
  // CHECK: %[[Z:.*]] = onnx.Slice
  // CHECK: return %arg0, %[[Z]]
  %y = onnx.Slice(%x, %s, %e, %a) : (tensor<?x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x4xf32>
  %z = onnx.Slice(%x, %s, %f, %a) : (tensor<?x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x4xf32>
  return %y, %z : tensor<?x4xf32>, tensor<?x4xf32>
}

// -----

// Bool to float by way of int32 is one conversion; float16 in between loses digits.
// CHECK-LABEL: @casts
func.func @casts(%x: tensor<2xi1>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  // CHECK: onnx.Cast(%arg0) {to = 1 : i64} : (tensor<2xi1>) -> tensor<2xf32>
  %a = onnx.Cast(%x) {to = 6 : i64} : (tensor<2xi1>) -> tensor<2xi32>
  %b = onnx.Cast(%a) {to = 1 : i64} : (tensor<2xi32>) -> tensor<2xf32>
  // CHECK: onnx.Cast(%arg1) {to = 10 : i64}
  %c = onnx.Cast(%y) {to = 10 : i64} : (tensor<2xf32>) -> tensor<2xf16>
  %d = onnx.Cast(%c) {to = 1 : i64} : (tensor<2xf16>) -> tensor<2xf32>
  return %b, %d : tensor<2xf32>, tensor<2xf32>
}

// -----

// Requantising by the same parameters, and by others.
// CHECK-LABEL: @requantise
func.func @requantise(%q: tensor<4xi8>) -> (tensor<4xi8>, tensor<4xi8>) {
  %s = onnx.Weight() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
  %t = onnx.Weight() {value = dense<0.2> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.Weight() {value = dense<3> : tensor<i8>} : () -> tensor<i8>
  %x = onnx.DequantizeLinear(%q, %s, %z) : (tensor<4xi8>, tensor<f32>, tensor<i8>) -> tensor<4xf32>
  %a = onnx.QuantizeLinear(%x, %s, %z) : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  // CHECK: %[[B:.*]] = onnx.QuantizeLinear
  // CHECK: return %arg0, %[[B]]
  %b = onnx.QuantizeLinear(%x, %t, %z) : (tensor<4xf32>, tensor<f32>, tensor<i8>) -> tensor<4xi8>
  return %a, %b : tensor<4xi8>, tensor<4xi8>
}

// -----

// The result type knows less than the operand: the function's type follows.
// CHECK-LABEL: @identity_refines
// CHECK-SAME: -> tensor<2xf32>
func.func @identity_refines(%x: tensor<2xf32>) -> tensor<?xf32> {
  // CHECK-NEXT: return %arg0 : tensor<2xf32>
  %y = onnx.Identity(%x) : (tensor<2xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

// CHECK-LABEL: @dropout
func.func @dropout(%x: tensor<2xf32>, %t: tensor<i1>) -> (tensor<2xf32>, tensor<2xf32>) {
  %a = onnx.Dropout(%x) : (tensor<2xf32>) -> tensor<2xf32>
  // CHECK: onnx.Dropout(%arg0, none, %arg1)
  %b = onnx.Dropout(%x, none, %t) : (tensor<2xf32>, tensor<i1>) -> tensor<2xf32>
  return %a, %b : tensor<2xf32>, tensor<2xf32>
}
