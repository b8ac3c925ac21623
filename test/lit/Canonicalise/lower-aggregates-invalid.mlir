// RUN: tessera-opt %s --onnx-lower-aggregates --verify-diagnostics | FileCheck %s

// All or nothing: the operator that stands in the way is named.
// CHECK-LABEL: @refused
// CHECK-SAME: tensor<2x!onnx.str>
func.func @refused(%x: tensor<2x!onnx.str>) -> tensor<2xi1> {
  // expected-warning @below {{operator onnx.RegexFullMatch of node '' keeps sequences, optionals and strings from becoming tensors}}
  %y = onnx.RegexFullMatch(%x) {pattern = "(a)\\1"} : (tensor<2x!onnx.str>) -> tensor<2xi1>
  return %y : tensor<2xi1>
}
