// Sizes that only a kernel finds, and sizes read from small tensors.
// RUN: tessera-opt --onnx-print-shapes %s -o /dev/null | FileCheck %s

// CHECK-LABEL: func extents
// CHECK: nonzero: [2, extent(nonzero)[1]]
// CHECK: rows: [extent(nonzero)[1], 2]
// CHECK: unique#0: [extent(unique#0)[0]]
// CHECK: unique#1: [extent(unique#0)[0]]
// CHECK: unique#2: [%arg0[0]*3]
// CHECK: nms: [extent(nms)[0], 3]
func.func @extents(%x: tensor<?x3xf32>, %boxes: tensor<1x?x4xf32>, %scores: tensor<1x2x?xf32>) -> tensor<*xi64> {
  %a = onnx.NonZero(%x) : (tensor<?x3xf32>) -> tensor<*xi64> loc("nonzero")
  %b = onnx.Transpose(%a) : (tensor<*xi64>) -> tensor<*xi64> loc("rows")
  %c:3 = onnx.Unique(%x) : (tensor<?x3xf32>) -> (tensor<*xf32>, tensor<*xi64>, tensor<*xi64>) loc("unique")
  %max = onnx.Weight() {value = dense<5> : tensor<i64>} : () -> tensor<i64>
  %d = onnx.NonMaxSuppression(%boxes, %scores, %max) : (tensor<1x?x4xf32>, tensor<1x2x?xf32>, tensor<i64>) -> tensor<*xi64> loc("nms")
  return %b : tensor<*xi64>
}

// CHECK-LABEL: func data
// CHECK: topk#0: [4, data(%arg1)[0]]
// CHECK: tile: [data(%arg2)[0]*4, data(%arg2)[1]*8]
// CHECK: pad: [data(%arg3)[0] + data(%arg3)[2] + 4, data(%arg3)[1] + data(%arg3)[3] + 8]
// CHECK: zeros: [data(%arg2)[0], data(%arg2)[1]]
func.func @data(%x: tensor<4x8xf32>, %k: tensor<1xi64>, %r: tensor<2xi64>, %p: tensor<4xi64>) -> tensor<*xf32> {
  %a:2 = onnx.TopK(%x, %k) : (tensor<4x8xf32>, tensor<1xi64>) -> (tensor<*xf32>, tensor<*xi64>) loc("topk")
  %b = onnx.Tile(%x, %r) : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<*xf32> loc("tile")
  %c = onnx.Pad(%x, %p) : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<*xf32> loc("pad")
  %d = onnx.ConstantOfShape(%r) : (tensor<2xi64>) -> tensor<*xf32> loc("zeros")
  return %a#0 : tensor<*xf32>
}
