// RUN: tessera-opt %s --onnx-fold-scaling --split-input-file | FileCheck %s
// RUN: tessera-opt %s --onnx-fold-scaling="strict=true" --split-input-file | FileCheck %s --check-prefix=STRICT

// scale / sqrt(var) = [2, 3], bias - mean * factor = [-1, 1 - 3] on weights of one.
// CHECK-LABEL: @batch_norm_into_conv
// STRICT-LABEL: @batch_norm_into_conv
func.func @batch_norm_into_conv(%x: tensor<1x1x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = onnx.Weight() {value = dense<1.0> : tensor<2x1x1x1xf32>} : () -> tensor<2x1x1x1xf32>
  %s = onnx.Weight() {value = dense<[4.0, 3.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %b = onnx.Weight() {value = dense<[1.0, 1.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %m = onnx.Weight() {value = dense<[1.0, 1.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %v = onnx.Weight() {value = dense<[4.0, 1.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  // CHECK-DAG: dense<{{\[}}{{\[\[\[}}2.000000e+00]]], {{\[\[\[}}3.000000e+00]]]]> : tensor<2x1x1x1xf32>
  // CHECK-DAG: dense<[-1.000000e+00, -2.000000e+00]> : tensor<2xf32>
  // CHECK: %[[Y:.*]] = onnx.Conv
  // CHECK-NEXT: return %[[Y]]
  // STRICT: onnx.Conv
  // STRICT: onnx.Mul
  // STRICT: onnx.Add
  %c = onnx.Conv(%x, %w) : (tensor<1x1x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = onnx.BatchNormalization(%c, %s, %b, %m, %v) {epsilon = 0.0 : f32} : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  return %y : tensor<1x2x2x2xf32>
}

// -----

// The unscaled result is used elsewhere: the weights stay.
// CHECK-LABEL: @two_uses
func.func @two_uses(%x: tensor<1x1x2x2xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %w = onnx.Weight() {value = dense<1.0> : tensor<2x1x1x1xf32>} : () -> tensor<2x1x1x1xf32>
  %s = onnx.Weight() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  // CHECK: onnx.Mul
  %c = onnx.Conv(%x, %w) : (tensor<1x1x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = onnx.Mul(%c, %s) : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  return %c, %y : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}

// -----

// One factor per column, not per channel.
// CHECK-LABEL: @wrong_axis
func.func @wrong_axis(%x: tensor<1x1x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = onnx.Weight() {value = dense<1.0> : tensor<2x1x1x1xf32>} : () -> tensor<2x1x1x1xf32>
  %s = onnx.Weight() {value = dense<[2.0, 3.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  // CHECK: onnx.Mul
  %c = onnx.Conv(%x, %w) : (tensor<1x1x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = onnx.Mul(%c, %s) : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  return %y : tensor<1x2x2x2xf32>
}

// -----

// Two groups of one input and two outputs each.
// CHECK-LABEL: @conv_transpose_groups
func.func @conv_transpose_groups(%x: tensor<1x2x2xf32>) -> tensor<1x4x2xf32> {
  %w = onnx.Weight() {value = dense<1.0> : tensor<2x2x1xf32>} : () -> tensor<2x2x1xf32>
  %s = onnx.Weight() {value = dense<[[1.0], [2.0], [3.0], [4.0]]> : tensor<4x1xf32>} : () -> tensor<4x1xf32>
  // CHECK: dense<{{\[\[\[}}1.000000e+00], [2.000000e+00]], {{\[\[}}3.000000e+00], [4.000000e+00]]]>
  // CHECK-NOT: onnx.Mul
  %c = onnx.ConvTranspose(%x, %w) {group = 2 : i64} : (tensor<1x2x2xf32>, tensor<2x2x1xf32>) -> tensor<1x4x2xf32>
  %y = onnx.Mul(%c, %s) : (tensor<1x4x2xf32>, tensor<4x1xf32>) -> tensor<1x4x2xf32>
  return %y : tensor<1x4x2xf32>
}

// -----

// beta scales the old bias before the new offset comes to it.
// CHECK-LABEL: @gemm
func.func @gemm(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = onnx.Weight() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %c = onnx.Weight() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %s = onnx.Weight() {value = dense<[2.0, 4.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %t = onnx.Weight() {value = dense<0.5> : tensor<1xf32>} : () -> tensor<1xf32>
  // CHECK-DAG: dense<{{\[}}[2.000000e+00, 4.000000e+00], [1.200000e+01, 1.600000e+01]]>
  // CHECK-DAG: dense<[6.500000e+00, 2.450000e+01]>
  // CHECK: onnx.Gemm({{.*}}) {transB = 1 : i64} :
  %g = onnx.Gemm(%x, %w, %c) {transB = 1 : i64, beta = 3.0 : f32} : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %y = onnx.Mul(%g, %s) : (tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %z = onnx.Add(%y, %t) : (tensor<1x2xf32>, tensor<1xf32>) -> tensor<1x2xf32>
  return %z : tensor<1x2xf32>
}

// -----

// CHECK-LABEL: @matmul_bias_scale
func.func @matmul_bias_scale(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %w = onnx.Weight() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %c = onnx.Weight() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %s = onnx.Weight() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  // CHECK-DAG: dense<{{\[}}[5.000000e-01, 1.000000e+00], [1.500000e+00, 2.000000e+00]]>
  // CHECK-DAG: dense<[5.000000e-01, 1.000000e+00]>
  // CHECK: onnx.MatMul
  // CHECK-NEXT: onnx.Add
  // CHECK-NEXT: return
  %g = onnx.MatMul(%x, %w) : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %y = onnx.Add(%g, %c) : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %z = onnx.Mul(%y, %s) : (tensor<?x2xf32>, tensor<f32>) -> tensor<?x2xf32>
  return %z : tensor<?x2xf32>
}

// -----

// Statistics of the batch: not inference.
// CHECK-LABEL: @training
func.func @training(%x: tensor<1x2x2xf32>, %s: tensor<2xf32>) -> tensor<1x2x2xf32> {
  // CHECK: onnx.BatchNormalization
  %y, %a, %b = onnx.BatchNormalization(%x, %s, %s, %s, %s) {training_mode = 1 : i64} : (tensor<1x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<1x2x2xf32>, tensor<2xf32>, tensor<2xf32>)
  return %y : tensor<1x2x2xf32>
}

// -----

// Weights in blocks of few bits stay what they are: a device may keep them packed.
// CHECK-LABEL: func.func @blocked_weights(
// CHECK: %[[W:.*]] = onnx.Weight() {tessera.dequantised
// CHECK: %[[M:.*]] = onnx.MatMul(%{{.*}}, %[[W]])
// CHECK: onnx.Mul(%[[M]]
func.func @blocked_weights(%x: tensor<1x32xf32>) -> tensor<1x4xf32> {
  %w = onnx.Weight() {tessera.dequantised = {axis = 0 : i64, block = 16 : i64, integers = dense<3> : tensor<32x4xui4>, scale = dense<0.5> : tensor<2x4xf32>}, value = dense<1.5> : tensor<32x4xf32>} : () -> tensor<32x4xf32>
  %s = onnx.Weight() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %0 = onnx.MatMul(%x, %w) : (tensor<1x32xf32>, tensor<32x4xf32>) -> tensor<1x4xf32>
  %1 = onnx.Mul(%0, %s) : (tensor<1x4xf32>, tensor<f32>) -> tensor<1x4xf32>
  return %1 : tensor<1x4xf32>
}
