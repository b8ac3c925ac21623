// RUN: tessera-opt %s --onnx-fold-shapes --split-input-file | FileCheck %s

// The last dimension of a partly known shape, picked out and multiplied.
// CHECK-LABEL: @picked_dimension
func.func @picked_dimension(%x: tensor<?x6xf32>) -> tensor<1xi64> {
  %i = onnx.Weight() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %s = onnx.Shape(%x) : (tensor<?x6xf32>) -> tensor<2xi64>
  %g = onnx.Gather(%s, %i) {axis = 0 : i64} : (tensor<2xi64>, tensor<1xi64>) -> tensor<1xi64>
  // CHECK: %[[C:.*]] = onnx.Weight() {value = dense<12>
  // CHECK: return %[[C]]
  %y = onnx.Add(%g, %g) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  return %y : tensor<1xi64>
}

// -----

// CHECK-LABEL: @dynamic_dimension
func.func @dynamic_dimension(%x: tensor<?x6xf32>) -> tensor<2xi64> {
  // CHECK: %[[S:.*]] = onnx.Shape
  // CHECK: return %[[S]]
  %s = onnx.Shape(%x) : (tensor<?x6xf32>) -> tensor<2xi64>
  return %s : tensor<2xi64>
}
