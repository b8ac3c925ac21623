// RUN: tessera-opt %s --onnx-decompose-operators --split-input-file | FileCheck %s
// A rule that does not apply says why, on the operator.

// CHECK-LABEL: @norm
// CHECK: onnx.ml.Normalizer{{.*}}onnx.unsupported = "attribute 'norm' is 'L3': expected MAX, L1 or L2"
func.func @norm(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = onnx.ml.Normalizer(%x) {norm = "L3"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @scale
// CHECK: onnx.ml.Scaler{{.*}}onnx.unsupported = "attribute 'scale' is {{.*}}: expected one value, or one for each element of the last axis"
func.func @scale(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = onnx.ml.Scaler(%x) {scale = array<f32: 1.0, 2.0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @repeated_keys
// CHECK: onnx.ml.LabelEncoder{{.*}}onnx.unsupported = "two of its keys are equal, and runtimes differ on which counts"
func.func @repeated_keys(%x: tensor<2xi64>) -> tensor<2xi64> {
  %y = onnx.ml.LabelEncoder(%x) {keys_int64s = array<i64: 3, 3>, values_int64s = array<i64: 1, 2>} : (tensor<2xi64>) -> tensor<2xi64>
  return %y : tensor<2xi64>
}

// -----

// What applies leaves nothing behind.
// CHECK-LABEL: @applies
// CHECK-NOT: onnx.unsupported
func.func @applies(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = onnx.ml.Normalizer(%x) {norm = "L1"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
