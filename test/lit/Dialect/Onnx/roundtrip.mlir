// RUN: tessera-opt %s | tessera-opt | FileCheck %s
// RUN: tessera-opt --mlir-print-op-generic %s | tessera-opt | FileCheck %s

// An absent operand in the middle is `none`; defaults are not printed.
// CHECK-LABEL: func.func @clip_without_min
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[MAX:.*]]: tensor<f32>)
func.func @clip_without_min(%x: tensor<4xf32>, %max: tensor<f32>) -> tensor<4xf32> {
  // CHECK: onnx.Clip(%[[X]], none, %[[MAX]]) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %y = onnx.Clip(%x, none, %max) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: func.func @conv_without_bias
func.func @conv_without_bias(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32> {
  // CHECK: onnx.Conv(%{{.*}}, %{{.*}}) {kernel_shape = array<i64: 3, 3>} :
  %y = onnx.Conv(%x, %w) {kernel_shape = array<i64: 3, 3>, group = 1 : i64} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  return %y : tensor<1x4x6x6xf32>
}

// Only trailing results may be left out without a word.
// CHECK-LABEL: func.func @lstm_results
func.func @lstm_results(%x: tensor<2x1x4xf32>, %w: tensor<1x12x4xf32>, %r: tensor<1x12x3xf32>, %c: tensor<1x1x3xf32>) -> (tensor<2x1x1x3xf32>, tensor<1x1x3xf32>, tensor<1x1x3xf32>) {
  // CHECK: %{{.*}}, %{{.*}} = onnx.LSTM(%{{.*}}, %{{.*}}, %{{.*}}, none, none, none, %{{.*}}) {hidden_size = 3 : i64} :
  %y, %h = onnx.LSTM(%x, %w, %r, none, none, none, %c) {hidden_size = 3 : i64} : (tensor<2x1x4xf32>, tensor<1x12x4xf32>, tensor<1x12x3xf32>, tensor<1x1x3xf32>) -> (tensor<2x1x1x3xf32>, tensor<1x1x3xf32>)
  // CHECK: onnx.LSTM(%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) {hidden_size = 3 : i64, resultSegmentSizes = array<i32: 0, 0, 1>} :
  %z = onnx.LSTM(%x, %w, %r) {hidden_size = 3 : i64, resultSegmentSizes = array<i32: 0, 0, 1>} : (tensor<2x1x4xf32>, tensor<1x12x4xf32>, tensor<1x12x3xf32>) -> tensor<1x1x3xf32>
  return %y, %h, %z : tensor<2x1x1x3xf32>, tensor<1x1x3xf32>, tensor<1x1x3xf32>
}

// Bodies see the values around them.
// CHECK-LABEL: func.func @if_captures
func.func @if_captures(%c: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: onnx.If(%{{.*}}) : (tensor<i1>) -> tensor<2xf32> {
  // CHECK: onnx.Neg
  // CHECK: } {
  // CHECK-NEXT: onnx.Yield(%{{.*}}) : (tensor<2xf32>) -> ()
  %y = onnx.If(%c) : (tensor<i1>) -> tensor<2xf32> {
    %n = onnx.Neg(%x) : (tensor<2xf32>) -> tensor<2xf32>
    onnx.Yield(%n) : (tensor<2xf32>) -> ()
  } {
    onnx.Yield(%x) : (tensor<2xf32>) -> ()
  }
  return %y : tensor<2xf32>
}

// CHECK-LABEL: func.func @loop_without_condition
func.func @loop_without_condition(%m: tensor<i64>, %x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: onnx.Loop(%{{.*}}, none, %{{.*}}) : (tensor<i64>, tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-NEXT: ^bb0(%{{.*}}: tensor<i64>, %{{.*}}: tensor<i1>, %{{.*}}: tensor<2xf32>):
  %y = onnx.Loop(%m, none, %x) : (tensor<i64>, tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %v: tensor<2xf32>):
    onnx.Yield(%c, %v) : (tensor<i1>, tensor<2xf32>) -> ()
  }
  return %y : tensor<2xf32>
}

// CHECK-LABEL: func.func @other_values
func.func @other_values(%s: !onnx.seq<tensor<*xf32>>, %i: tensor<i64>, %t: tensor<2x!onnx.str>, %o: !onnx.opt<tensor<2xui8>>) -> (tensor<*xf32>, tensor<2xui8>) {
  // CHECK: onnx.SequenceAt(%{{.*}}, %{{.*}}) : (!onnx.seq<tensor<*xf32>>, tensor<i64>) -> tensor<*xf32>
  %0 = onnx.SequenceAt(%s, %i) : (!onnx.seq<tensor<*xf32>>, tensor<i64>) -> tensor<*xf32>
  // CHECK: onnx.ml.LabelEncoder
  %1 = onnx.ml.LabelEncoder(%t) {keys_strings = ["a"], values_int64s = array<i64: 1>} : (tensor<2x!onnx.str>) -> tensor<2xi64>
  %2 = onnx.OptionalGetElement(%o) : (!onnx.opt<tensor<2xui8>>) -> tensor<2xui8>
  // CHECK: onnx.Custom(%{{.*}}) {attrs = {alpha = 1.000000e+00 : f32}, domain = "com.example", op_type = "Foo"} : (tensor<2xui8>) -> tensor<*xf32>
  %3 = onnx.Custom(%2) {attrs = {alpha = 1.0 : f32}, domain = "com.example", op_type = "Foo"} : (tensor<2xui8>) -> tensor<*xf32>
  return %0, %2 : tensor<*xf32>, tensor<2xui8>
}

// CHECK-LABEL: func.func @weights
func.func @weights() -> (tensor<2xi4>, tensor<3xi1>, tensor<1x!onnx.str>) {
  // CHECK: onnx.Weight() {value = dense<[1, -2]> : tensor<2xi4>} : () -> tensor<2xi4>
  %0 = onnx.Weight() {value = dense<[1, -2]> : tensor<2xi4>} : () -> tensor<2xi4>
  %1 = onnx.Weight() {value = dense<[true, false, true]> : tensor<3xi1>} : () -> tensor<3xi1>
  %2 = onnx.Weight() {value = dense<["a\0A"]> : tensor<1x!onnx.str>} : () -> tensor<1x!onnx.str>
  return %0, %1, %2 : tensor<2xi4>, tensor<3xi1>, tensor<1x!onnx.str>
}
