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
