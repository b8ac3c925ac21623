// Convolution and pooling.
// RUN: tessera-opt --onnx-print-shapes %s -o /dev/null | FileCheck %s

// CHECK-LABEL: func conv
// CHECK: floor: [1, 8, floordiv(%arg0[2] + 1, 2)]
// CHECK: same: [1, 8, floordiv(%arg0[2] + 1, 2)]
// CHECK: valid: [1, 8, %arg0[2] - 2]
// CHECK: dilated: [1, 8, %arg0[2] - 4]
func.func @conv(%x: tensor<1x4x?xf32>, %w: tensor<8x4x3xf32>) -> tensor<*xf32> {
  %a = onnx.Conv(%x, %w) {pads = array<i64: 1, 1>, strides = array<i64: 2>} : (tensor<1x4x?xf32>, tensor<8x4x3xf32>) -> tensor<*xf32> loc("floor")
  %b = onnx.Conv(%x, %w) {auto_pad = "SAME_UPPER", strides = array<i64: 2>} : (tensor<1x4x?xf32>, tensor<8x4x3xf32>) -> tensor<*xf32> loc("same")
  %c = onnx.Conv(%x, %w) {auto_pad = "VALID"} : (tensor<1x4x?xf32>, tensor<8x4x3xf32>) -> tensor<*xf32> loc("valid")
  %d = onnx.Conv(%x, %w) {dilations = array<i64: 2>} : (tensor<1x4x?xf32>, tensor<8x4x3xf32>) -> tensor<*xf32> loc("dilated")
  return %a : tensor<*xf32>
}

// With ceil_mode the last window may overhang but must start inside.
// CHECK-LABEL: func ceil_mode
// CHECK: overhang: [1, 1, 3]
// CHECK: dropped: [1, 1, 2]
// CHECK: open: [1, 1, floordiv(%arg1[2] + 1, 2)]
func.func @ceil_mode(%x: tensor<1x1x5xf32>, %y: tensor<1x1x?xf32>, %z: tensor<1x1x2xf32>) -> tensor<*xf32> {
  %a = onnx.MaxPool(%x) {ceil_mode = 1 : i64, kernel_shape = array<i64: 2>, strides = array<i64: 2>} : (tensor<1x1x5xf32>) -> tensor<*xf32> loc("overhang")
  %b = onnx.MaxPool(%z) {ceil_mode = 1 : i64, kernel_shape = array<i64: 1>, pads = array<i64: 0, 2>, strides = array<i64: 1>} : (tensor<1x1x2xf32>) -> tensor<*xf32> loc("dropped")
  %c = onnx.MaxPool(%y) {ceil_mode = 1 : i64, kernel_shape = array<i64: 2>, strides = array<i64: 2>} : (tensor<1x1x?xf32>) -> tensor<*xf32> loc("open")
  return %a : tensor<*xf32>
}

// CHECK-LABEL: func transposed
// CHECK: plain: [1, 6, %arg0[2]*2 + 1]
// CHECK: same: [1, 6, %arg0[2]*2]
// CHECK: given: [1, 6, 10]
func.func @transposed(%x: tensor<1x4x?xf32>, %w: tensor<4x6x3xf32>) -> tensor<*xf32> {
  %a = onnx.ConvTranspose(%x, %w) {strides = array<i64: 2>} : (tensor<1x4x?xf32>, tensor<4x6x3xf32>) -> tensor<*xf32> loc("plain")
  %b = onnx.ConvTranspose(%x, %w) {auto_pad = "SAME_UPPER", strides = array<i64: 2>} : (tensor<1x4x?xf32>, tensor<4x6x3xf32>) -> tensor<*xf32> loc("same")
  %c = onnx.ConvTranspose(%x, %w) {output_shape = array<i64: 10>, strides = array<i64: 2>} : (tensor<1x4x?xf32>, tensor<4x6x3xf32>) -> tensor<*xf32> loc("given")
  return %a : tensor<*xf32>
}

// The stem of a network: halving twice is quartering.
// CHECK-LABEL: func chain
// CHECK: return 0: [1, 4, floordiv(%arg0[2] + 3, 4)]
func.func @chain(%x: tensor<1x4x?xf32>, %w: tensor<4x4x3xf32>) -> tensor<*xf32> {
  %a = onnx.Conv(%x, %w) {pads = array<i64: 1, 1>, strides = array<i64: 2>} : (tensor<1x4x?xf32>, tensor<4x4x3xf32>) -> tensor<*xf32>
  %b = onnx.Conv(%a, %w) {pads = array<i64: 1, 1>, strides = array<i64: 2>} : (tensor<*xf32>, tensor<4x4x3xf32>) -> tensor<*xf32>
  return %b : tensor<*xf32>
}
