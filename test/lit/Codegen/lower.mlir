// RUN: tessera-opt --tsr-lower --split-input-file %s | FileCheck %s

// A chain over one iteration space is one dispatch; its constants are embedded.
// CHECK-LABEL: func.func @chain
// CHECK: tsr.dispatch elementwise(%arg0, %arg1)
// CHECK-SAME: dims = [array<i64: 2, 3>, array<i64: 3>, array<i64: 2, 3>]
// CHECK: onnx.Add
// CHECK-NEXT: onnx.Relu
// CHECK-NEXT: tsr.yield
// CHECK-NOT: tsr.dispatch
func.func @chain(%x: tensor<2x3xf32>, %y: tensor<3xf32>) -> tensor<2x3xf32> {
  %0 = "onnx.Add"(%x, %y) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %1 = "onnx.Relu"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

// Equal dynamic dimensions are one symbol.
// CHECK-LABEL: func.func @dynamic
// CHECK: tsr.dispatch elementwise(%arg0)
// CHECK-SAME: dims = [array<i64: -1, 3>, array<i64: -1, 3>]
// CHECK-SAME: symbols = 1
func.func @dynamic(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = "onnx.Exp"(%x) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

// -----

// A diamond stays inside its group; a path through another root does not.
//
//   x --- Sigmoid -- Mul --+-- Softmax -- Add
//    \_____________/        \____________/
//
// CHECK-LABEL: func.func @diamond
// CHECK: %[[FIRST:.*]] = tsr.dispatch elementwise(%arg0)
// CHECK: onnx.Sigmoid
// CHECK: onnx.Mul
// CHECK: tsr.dispatch softmax(%[[FIRST]])
// CHECK: onnx.Softmax
func.func @diamond(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "onnx.Sigmoid"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = "onnx.Mul"(%x, %0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = "onnx.Softmax"(%1) {axis = -1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = "onnx.Add"(%1, %2) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// -----

// What only shapes a result is never computed.
// CHECK-LABEL: func.func @shape_only
// CHECK-NOT: onnx.Shape
// CHECK: tsr.dispatch elementwise
// CHECK-NOT: onnx.Shape
// CHECK: onnx.Reshape
func.func @shape_only(%x: tensor<?x4xf32>, %y: tensor<?x2x2xf32>) -> tensor<?x2x2xf32> {
  %s = "onnx.Shape"(%y) : (tensor<?x2x2xf32>) -> tensor<3xi64>
  %0 = "onnx.Relu"(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %1 = "onnx.Reshape"(%0, %s) : (tensor<?x4xf32>, tensor<3xi64>) -> tensor<?x2x2xf32>
  return %1 : tensor<?x2x2xf32>
}

// -----

// A convolution takes its activation along and works channels last; the
// change of order is a dispatch of its own.
// CHECK-LABEL: func.func @conv
// CHECK: tsr.dispatch movement(%arg0)
// CHECK-SAME: layouts = array<i32: 0, 1>
// CHECK: onnx.Identity
// CHECK: tsr.dispatch convolution
// CHECK-SAME: layouts = array<i32: 1, 0, 1>
// CHECK: onnx.Conv
// CHECK-NEXT: onnx.Relu
// CHECK: tsr.dispatch movement
// CHECK-SAME: layouts = array<i32: 1, 0>
func.func @conv(%x: tensor<1x8x6x6xf32>, %w: tensor<16x8x3x3xf32>) -> tensor<1x16x6x6xf32> {
  %0 = "onnx.Conv"(%x, %w) {pads = array<i64: 1, 1, 1, 1>} : (tensor<1x8x6x6xf32>, tensor<16x8x3x3xf32>) -> tensor<1x16x6x6xf32>
  %1 = "onnx.Relu"(%0) : (tensor<1x16x6x6xf32>) -> tensor<1x16x6x6xf32>
  return %1 : tensor<1x16x6x6xf32>
}
