// RUN: tessera-opt %s --split-input-file --tosa-round-trip=precision=f32 | FileCheck %s
// RUN: tessera-opt %s --split-input-file --tosa-round-trip=precision=f16 | FileCheck %s --check-prefix=F16

// A convolution and its activation stay in NCHW: no transpose is left.
// CHECK-LABEL: func @conv
// CHECK-NOT: onnx.Transpose
// CHECK: %[[C:.*]] = onnx.Conv(%arg0, %{{.*}}) {{.*}}pads = array<i64: 1, 1, 1, 1>
// CHECK-NEXT: onnx.Relu(%[[C]])
// F16-LABEL: func @conv
// F16: %[[X:.*]] = onnx.Cast(%arg0) {to = 10 : i64}
// F16: %[[C:.*]] = onnx.Conv(%[[X]], {{.*}} -> tensor<1x4x8x8xf16>
// F16: %[[R:.*]] = onnx.Relu(%[[C]])
// F16: onnx.Cast(%[[R]]) {to = 1 : i64} {{.*}} -> tensor<1x4x8x8xf32>
func.func @conv(%x: tensor<1x3x8x8xf32>) -> tensor<1x4x8x8xf32> {
  %w = onnx.Weight() {value = dense<0.5> : tensor<4x3x3x3xf32>} : () -> tensor<4x3x3x3xf32>
  %y = onnx.Conv(%x, %w) {pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x8x8xf32>
  %z = onnx.Relu(%y) : (tensor<1x4x8x8xf32>) -> tensor<1x4x8x8xf32>
  return %z : tensor<1x4x8x8xf32>
}

// -----

// An operator without a lowering stays as it is and splits the function.
// CHECK-LABEL: func @stays
// CHECK: onnx.Relu
// CHECK: onnx.Round
// CHECK: onnx.Exp
// F16-LABEL: func @stays
// F16: onnx.Relu{{.*}}f16
// F16: onnx.Round{{.*}}f32
// F16: onnx.Exp{{.*}}f16
func.func @stays(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = onnx.Relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = onnx.Round(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = onnx.Exp(%b) : (tensor<4xf32>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}
