// RUN: tessera-opt %s --split-input-file --tosa-round-trip | FileCheck %s

// What is not understood keeps its place: a mode of Pad, sizes that are not
// static, an index that is data.
// CHECK-LABEL: func @reflect
// CHECK: onnx.Pad{{.*}}mode = "reflect"
func.func @reflect(%x: tensor<1x6xf32>) -> tensor<1x8xf32> {
  %p = onnx.Weight() {value = dense<[0, 1, 0, 1]> : tensor<4xi64>} : () -> tensor<4xi64>
  %y = onnx.Pad(%x, %p) {mode = "reflect"} : (tensor<1x6xf32>, tensor<4xi64>) -> tensor<1x8xf32>
  return %y : tensor<1x8xf32>
}

// -----

// CHECK-LABEL: func @dynamic
// CHECK: onnx.Sqrt(%arg0)
func.func @dynamic(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = onnx.Sqrt(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

// CHECK-LABEL: func @index_is_data
// CHECK: onnx.Gather(%arg0, %arg1)
func.func @index_is_data(%x: tensor<4x3xf32>, %i: tensor<2xi64>) -> tensor<2x3xf32> {
  %y = onnx.Gather(%x, %i) {axis = 0 : i64} : (tensor<4x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
