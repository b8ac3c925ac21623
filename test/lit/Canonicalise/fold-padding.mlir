// RUN: tessera-opt %s --onnx-fold-padding --split-input-file | FileCheck %s

// CHECK-LABEL: @conv
func.func @conv(%x: tensor<1x2x5x5xf32>, %w: tensor<3x2x3x3xf32>) -> tensor<1x3x6x5xf32> {
  %p = onnx.Weight() {value = dense<[0, 0, 1, 0, 0, 0, 2, 1]> : tensor<8xi64>} : () -> tensor<8xi64>
  %y = onnx.Pad(%x, %p) : (tensor<1x2x5x5xf32>, tensor<8xi64>) -> tensor<1x2x8x6xf32>
  // CHECK-NOT: onnx.Pad
  // CHECK: onnx.Conv(%arg0, %arg1) {{.*}}pads = array<i64: 1, 0, 2, 2>
  %z = onnx.Conv(%y, %w) {pads = array<i64: 0, 0, 0, 1>} : (tensor<1x2x8x6xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x6x5xf32>
  return %z : tensor<1x3x6x5xf32>
}

// -----

// Channels are padded too: the Pad stays.
// CHECK-LABEL: @conv_channels
func.func @conv_channels(%x: tensor<1x1x5x5xf32>, %w: tensor<3x2x3x3xf32>) -> tensor<1x3x3x3xf32> {
  %p = onnx.Weight() {value = dense<[0, 0, 0, 0, 0, 1, 0, 0]> : tensor<8xi64>} : () -> tensor<8xi64>
  // CHECK: onnx.Pad
  %y = onnx.Pad(%x, %p) : (tensor<1x1x5x5xf32>, tensor<8xi64>) -> tensor<1x2x5x5xf32>
  %z = onnx.Conv(%y, %w) : (tensor<1x2x5x5xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x3x3xf32>
  return %z : tensor<1x3x3x3xf32>
}

// -----

// Zero is neutral for a maximum of numbers that are never negative.
// CHECK-LABEL: @max_pool
func.func @max_pool(%x: tensor<1x1x4x4xf32>) -> (tensor<1x1x3x3xf32>, tensor<1x1x3x3xf32>) {
  %p = onnx.Weight() {value = dense<[0, 0, 1, 1, 0, 0, 1, 1]> : tensor<8xi64>} : () -> tensor<8xi64>
  %r = onnx.Relu(%x) : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32>
  %a = onnx.Pad(%r, %p) : (tensor<1x1x4x4xf32>, tensor<8xi64>) -> tensor<1x1x6x6xf32>
  // CHECK: onnx.Pad(%arg0
  %b = onnx.Pad(%x, %p) : (tensor<1x1x4x4xf32>, tensor<8xi64>) -> tensor<1x1x6x6xf32>
  // CHECK: onnx.MaxPool({{.*}}pads = array<i64: 1, 1, 1, 1>
  // CHECK: onnx.MaxPool({{.*}}
  // CHECK-NOT: pads
  %y = onnx.MaxPool(%a) {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<1x1x6x6xf32>) -> tensor<1x1x3x3xf32>
  %z = onnx.MaxPool(%b) {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<1x1x6x6xf32>) -> tensor<1x1x3x3xf32>
  return %y, %z : tensor<1x1x3x3xf32>, tensor<1x1x3x3xf32>
}

// -----

// The padding counts in the divisor.
// CHECK-LABEL: @average_pool
func.func @average_pool(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x3x3xf32> {
  %p = onnx.Weight() {value = dense<[0, 0, 1, 1, 0, 0, 1, 1]> : tensor<8xi64>} : () -> tensor<8xi64>
  %a = onnx.Pad(%x, %p) : (tensor<1x1x4x4xf32>, tensor<8xi64>) -> tensor<1x1x6x6xf32>
  // CHECK: onnx.AveragePool(%arg0) {{.*}}count_include_pad = 1
  %y = onnx.AveragePool(%a) {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>} : (tensor<1x1x6x6xf32>) -> tensor<1x1x3x3xf32>
  return %y : tensor<1x1x3x3xf32>
}
