// RUN: tessera-opt --tsr-lower --split-input-file %s | FileCheck %s

// Groups do not cross a segment's border, and form inside of it.
// CHECK-LABEL: func.func @groups
// CHECK: %[[A:.*]] = tsr.dispatch elementwise(%arg0)
// CHECK: onnx.Relu
// CHECK-NEXT: tsr.yield
// CHECK: %[[B:.*]] = tsr.segment "npu"(%[[A]]) {device = 1 : i64}
// CHECK: ^bb0(%[[X:.*]]: tensor<2x3xf32>)
// CHECK: %[[C:.*]] = tsr.dispatch elementwise(%[[X]])
// CHECK-SAME: dims = [array<i64: 2, 3>, array<i64: 2, 3>]
// CHECK: onnx.Exp
// CHECK-NEXT: onnx.Neg
// CHECK-NEXT: tsr.yield
// CHECK: tsr.yield %[[C]]
// CHECK: tsr.dispatch elementwise(%[[B]])
// CHECK: onnx.Tanh
func.func @groups(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "onnx.Relu"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = tsr.segment "npu"(%0) {device = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %2 = "onnx.Exp"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %3 = "onnx.Neg"(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    tsr.yield %3 : tensor<2x3xf32>
  }
  %4 = "onnx.Tanh"(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %4 : tensor<2x3xf32>
}

// -----

// A convolution works channels last on both sides; the border is row major.
// CHECK-LABEL: func.func @layouts
// CHECK: tsr.dispatch convolution
// CHECK: %[[OUT:.*]] = tsr.dispatch movement
// CHECK-SAME: layouts = array<i32: 1, 0>
// CHECK: tsr.segment "npu"(%[[OUT]], %arg1)
// CHECK: tsr.dispatch movement
// CHECK-SAME: layouts = array<i32: 0, 1>
// CHECK: tsr.dispatch convolution
// CHECK: %[[BACK:.*]] = tsr.dispatch movement
// CHECK-SAME: layouts = array<i32: 1, 0>
// CHECK: tsr.yield %[[BACK]]
func.func @layouts(%x: tensor<1x8x6x6xf32>, %w: tensor<8x8x3x3xf32>) -> tensor<1x8x2x2xf32> {
  %0 = "onnx.Conv"(%x, %w) : (tensor<1x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x4x4xf32>
  %1 = tsr.segment "npu"(%0, %w) {device = 1 : i64} : (tensor<1x8x4x4xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x2x2xf32> {
  ^bb0(%a: tensor<1x8x4x4xf32>, %b: tensor<8x8x3x3xf32>):
    %2 = "onnx.Conv"(%a, %b) : (tensor<1x8x4x4xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x2x2xf32>
    tsr.yield %2 : tensor<1x8x2x2xf32>
  }
  return %1 : tensor<1x8x2x2xf32>
}

// -----

// A segment that nothing reads is not computed.
// CHECK-LABEL: func.func @dead
// CHECK-NOT: tsr.segment
// CHECK: return
func.func @dead(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tsr.segment "npu"(%x) {device = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>):
    %1 = "onnx.Exp"(%a) : (tensor<2xf32>) -> tensor<2xf32>
    tsr.yield %1 : tensor<2xf32>
  }
  %2 = "onnx.Relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}

// -----

// What reads a segment's result comes after what can run beside the device, but
// not after another segment that needs it.
// CHECK-LABEL: func.func @beside
// CHECK: %[[A:.*]] = tsr.segment "npu"(%arg0)
// CHECK: tsr.dispatch softmax(%arg1)
// CHECK: %[[B:.*]] = tsr.dispatch elementwise(%[[A]])
// CHECK: %[[C:.*]] = tsr.segment "npu"(%[[B]])
// CHECK: tsr.dispatch reduction(%arg1)
// CHECK: tsr.dispatch softmax(%[[C]])
func.func @beside(%x: tensor<2x3xf32>, %z: tensor<2x3xf32>)
    -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x1xf32>) {
  %0 = tsr.segment "npu"(%x) {device = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %7 = "onnx.Exp"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    tsr.yield %7 : tensor<2x3xf32>
  }
  %1 = "onnx.Tanh"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "onnx.Softmax"(%z) {axis = -1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = tsr.segment "npu"(%1) {device = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    %7 = "onnx.Exp"(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    tsr.yield %7 : tensor<2x3xf32>
  }
  %4 = "onnx.Softmax"(%3) {axis = -1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %axes = "onnx.Constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %5 = "onnx.ReduceMax"(%z, %axes) {keepdims = 1 : i64} : (tensor<2x3xf32>, tensor<1xi64>) -> tensor<2x1xf32>
  return %4, %2, %5 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x1xf32>
}
