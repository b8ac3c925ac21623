// RUN: tessera-opt %s --onnx-decompose-contrib --split-input-file | FileCheck %s

// CHECK-LABEL: @fused_conv
func.func @fused_conv(%x: tensor<1x1x4x4xf32>, %w: tensor<2x1x1x1xf32>, %z: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  // CHECK: %[[C:.*]] = onnx.Conv(%arg0, %arg1) {strides = array<i64: 1, 1>}
  // CHECK: %[[S:.*]] = onnx.Add(%[[C]], %arg2)
  // CHECK: onnx.LeakyRelu(%[[S]]) {alpha = 2.0
  %n = onnx.NoValue() : () -> none
  %y = onnx.Custom(%x, %w, %n, %z) {domain = "com.microsoft", op_type = "FusedConv", attrs = {strides = array<i64: 1, 1>, activation = "LeakyRelu", activation_params = array<f32: 0.2>}} : (tensor<1x1x4x4xf32>, tensor<2x1x1x1xf32>, none, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  return %y : tensor<1x2x4x4xf32>
}

// -----

// An attribute that the rewrite does not know.
// CHECK-LABEL: @unknown_attribute
func.func @unknown_attribute(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: onnx.Custom
  %y = onnx.Custom(%x) {domain = "com.microsoft", op_type = "Gelu", attrs = {novelty = 1 : i64}} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// CHECK-LABEL: @fused_matmul
func.func @fused_matmul(%a: tensor<?x4x2xf32>, %b: tensor<4x3xf32>) -> tensor<?x2x3xf32> {
  // CHECK: dense<2.500000e-01>
  // CHECK: %[[T:.*]] = onnx.Transpose(%arg0) {perm = array<i64: 0, 2, 1>}
  // CHECK: %[[M:.*]] = onnx.MatMul(%[[T]], %arg1) : {{.*}} -> tensor<?x2x3xf32>
  // CHECK: onnx.Mul(%[[M]]
  %y = onnx.Custom(%a, %b) {domain = "com.microsoft", op_type = "FusedMatMul", attrs = {transA = 1 : i64, alpha = 0.25 : f32}} : (tensor<?x4x2xf32>, tensor<4x3xf32>) -> tensor<?x2x3xf32>
  return %y : tensor<?x2x3xf32>
}

// -----

// The sum is the fourth result; mean and deviation are not computed.
// CHECK-LABEL: @skip_layer_norm
func.func @skip_layer_norm(%x: tensor<1x2x4xf32>, %g: tensor<4xf32>) -> (tensor<1x2x4xf32>, tensor<1x2x4xf32>) {
  // CHECK: %[[S:.*]] = onnx.Add(%arg0, %arg0)
  // CHECK: %[[Y:.*]] = onnx.LayerNormalization(%[[S]], %arg1, %arg1) {epsilon = 9.99999996E-13 : f32}
  // CHECK: return %[[Y]], %[[S]]
  %y, %m, %d, %s = onnx.Custom(%x, %x, %g, %g) {domain = "com.microsoft", op_type = "SkipLayerNormalization", attrs = {epsilon = 1.0e-12 : f32}} : (tensor<1x2x4xf32>, tensor<1x2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x2x4xf32>, tensor<1x2x1xf32>, tensor<1x2x1xf32>, tensor<1x2x4xf32>)
  return %y, %s : tensor<1x2x4xf32>, tensor<1x2x4xf32>
}

// -----

// QDQ semantics.
// CHECK-LABEL: @qlinear_add
func.func @qlinear_add(%a: tensor<4xui8>, %s: tensor<f32>, %z: tensor<ui8>) -> tensor<4xui8> {
  // CHECK-COUNT-2: onnx.DequantizeLinear(%arg0, %arg1, %arg2)
  // CHECK: onnx.Add
  // CHECK: onnx.QuantizeLinear({{.*}}, %arg1, %arg2) : {{.*}} -> tensor<4xui8>
  %y = onnx.Custom(%a, %s, %z, %a, %s, %z, %s, %z) {domain = "com.microsoft", op_type = "QLinearAdd", attrs = {}} : (tensor<4xui8>, tensor<f32>, tensor<ui8>, tensor<4xui8>, tensor<f32>, tensor<ui8>, tensor<f32>, tensor<ui8>) -> tensor<4xui8>
  return %y : tensor<4xui8>
}

// -----

// Two rows of four bits, one block; the zero point is 8.
// CHECK-LABEL: @matmul_nbits
func.func @matmul_nbits(%a: tensor<1x2xf32>) -> tensor<1x2xf32> {
  // CHECK: dense<{{\[}}[-7.000000e+00, -1.000000e+01], [-6.000000e+00, -8.000000e+00]]> : tensor<2x2xf32>
  // CHECK: onnx.MatMul
  %b = onnx.Weight() {value = dense<[[[33, 0, 0, 0, 0, 0, 0, 0]], [[67, 0, 0, 0, 0, 0, 0, 0]]]> : tensor<2x1x8xui8>} : () -> tensor<2x1x8xui8>
  %s = onnx.Weight() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %y = onnx.Custom(%a, %b, %s) {domain = "com.microsoft", op_type = "MatMulNBits", attrs = {K = 2 : i64, N = 2 : i64, bits = 4 : i64, block_size = 16 : i64}} : (tensor<1x2xf32>, tensor<2x1x8xui8>, tensor<2xf32>) -> tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}

// -----

// CHECK-LABEL: @dynamic_quantize_matmul
func.func @dynamic_quantize_matmul(%a: tensor<?x4xf32>, %b: tensor<4x3xi8>, %s: tensor<3xf32>, %c: tensor<3xf32>) -> tensor<?x3xf32> {
  // CHECK: %[[Q:.*]], %[[S:.*]], %[[Z:.*]] = onnx.DynamicQuantizeLinear(%arg0)
  // CHECK: %[[M:.*]] = onnx.MatMulInteger(%[[Q]], %arg1, %[[Z]]) : {{.*}} -> tensor<?x3xi32>
  // CHECK: onnx.Cast(%[[M]])
  // CHECK: onnx.Mul(%arg2, %[[S]])
  // CHECK: onnx.Add({{.*}}, %arg3)
  %n = onnx.NoValue() : () -> none
  %y = onnx.Custom(%a, %b, %s, %n, %c) {domain = "com.microsoft", op_type = "DynamicQuantizeMatMul", attrs = {}} : (tensor<?x4xf32>, tensor<4x3xi8>, tensor<3xf32>, none, tensor<3xf32>) -> tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}
