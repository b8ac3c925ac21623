// RUN: tessera-opt %s --onnx-expand-functions="operators=Celu,Elu,MeanVarianceNormalization,CenterCropPad,NegativeLogLikelihoodLoss" --split-input-file | FileCheck %s

// A static body; the default of the attribute is filled in, Elu is expanded in turn.
// CHECK-LABEL: @celu
func.func @celu(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  // CHECK-NOT: onnx.Celu
  // CHECK-NOT: onnx.Elu
  // CHECK: onnx.Exp
  %y = onnx.Celu(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

// The body of an older operator set comes out in the newest form (axes as an input).
// CHECK-LABEL: @mean_variance
func.func @mean_variance(%x: tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32> {
  // CHECK: onnx.ReduceMean(%arg0, %{{.*}})
  // CHECK: onnx.Sqrt
  // CHECK: onnx.Div
  %y = onnx.MeanVarianceNormalization(%x) {axes = array<i64: 0, 2, 3>} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  return %y : tensor<2x3x4x5xf32>
}

// -----

// A body that depends on the types, and on the contents of a constant operand.
// CHECK-LABEL: @center_crop
func.func @center_crop(%x: tensor<10x7xf32>) -> tensor<8x9xf32> {
  %s = onnx.Weight() {value = dense<[8, 9]> : tensor<2xi64>} : () -> tensor<2xi64>
  // CHECK-NOT: onnx.CenterCropPad
  // CHECK: onnx.Pad
  %y = onnx.CenterCropPad(%x, %s) : (tensor<10x7xf32>, tensor<2xi64>) -> tensor<8x9xf32>
  return %y : tensor<8x9xf32>
}

// -----

// An absent optional operand.
// CHECK-LABEL: @loss
func.func @loss(%x: tensor<3x5xf32>, %t: tensor<3xi64>) -> tensor<f32> {
  // CHECK-NOT: onnx.NegativeLogLikelihoodLoss
  // CHECK: onnx.GatherElements
  %y = onnx.NegativeLogLikelihoodLoss(%x, %t) {reduction = "mean"} : (tensor<3x5xf32>, tensor<3xi64>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// No body is asked for: nothing happens.
// CHECK-LABEL: @relu
func.func @relu(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: onnx.Relu
  %y = onnx.Relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
