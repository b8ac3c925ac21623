// Contents of small tensors are followed through the operators that make them.
// RUN: tessera-opt --onnx-print-shapes %s -o /dev/null | FileCheck %s

// CHECK-LABEL: func arithmetic
// CHECK: half: [1] = {floordiv(%arg0[1], 2)}
// CHECK: is_three: [1] = {eq(%arg0[0], 3)}
// CHECK: chosen: [1] = {select(eq(%arg0[0], 3), floordiv(%arg0[1], 2), 9)}
// CHECK: product: [] = {%arg0[0]*floordiv(%arg0[1], 2)}
func.func @arithmetic(%x: tensor<?x?xf32>) -> tensor<1xi64> {
  %n = onnx.Shape(%x) {end = 1 : i64} : (tensor<?x?xf32>) -> tensor<1xi64>
  %m = onnx.Shape(%x) {start = 1 : i64} : (tensor<?x?xf32>) -> tensor<1xi64>
  %two = onnx.Weight() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  %three = onnx.Weight() {value = dense<3> : tensor<1xi64>} : () -> tensor<1xi64>
  %nine = onnx.Weight() {value = dense<9> : tensor<1xi64>} : () -> tensor<1xi64>
  %half = onnx.Div(%m, %two) : (tensor<1xi64>, tensor<i64>) -> tensor<1xi64> loc("half")
  %is = onnx.Equal(%n, %three) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi1> loc("is_three")
  %chosen = onnx.Where(%is, %half, %nine) : (tensor<1xi1>, tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64> loc("chosen")
  %both = onnx.Concat(%n, %half) {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %p = onnx.ReduceProd(%both) {keepdims = 0 : i64} : (tensor<2xi64>) -> tensor<i64> loc("product")
  return %chosen : tensor<1xi64>
}

// Sizes that pass through floats: a scale of 1.5, an upsampling by Resize.
// CHECK-LABEL: func floats
// CHECK: back: [] = {%arg0[2] + floordiv(%arg0[2], 2)}
// CHECK: return 0: [1, 3, %arg0[2]*2, %arg0[3] + floordiv(%arg0[3], 2)]
func.func @floats(%x: tensor<1x3x?x?xf32>) -> tensor<*xf32> {
  %shape = onnx.Shape(%x) : (tensor<1x3x?x?xf32>) -> tensor<4xi64>
  %two = onnx.Weight() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  %h = onnx.Gather(%shape, %two) : (tensor<4xi64>, tensor<i64>) -> tensor<i64>
  %f = onnx.Cast(%h) {to = 1 : i64} : (tensor<i64>) -> tensor<f32>
  %s = onnx.Weight() {value = dense<1.5> : tensor<f32>} : () -> tensor<f32>
  %scaled = onnx.Mul(%f, %s) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %floor = onnx.Floor(%scaled) : (tensor<f32>) -> tensor<f32>
  %back = onnx.Cast(%floor) {to = 7 : i64} : (tensor<f32>) -> tensor<i64> loc("back")
  %scales = onnx.Weight() {value = dense<[1.0, 1.0, 2.0, 1.5]> : tensor<4xf32>} : () -> tensor<4xf32>
  %y = onnx.Resize(%x, none, %scales) : (tensor<1x3x?x?xf32>, tensor<4xf32>) -> tensor<*xf32>
  return %y : tensor<*xf32>
}

// A range as long as the input, its contents unknown but its length not.
// CHECK-LABEL: func range
// CHECK: positions: [%arg0[1]]
// CHECK: return 0: [%arg0[1], 2]
func.func @range(%x: tensor<1x?xi64>) -> tensor<*xf32> {
  %shape = onnx.Shape(%x) : (tensor<1x?xi64>) -> tensor<2xi64>
  %zero = onnx.Weight() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
  %one = onnx.Weight() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %n = onnx.Gather(%shape, %one) : (tensor<2xi64>, tensor<i64>) -> tensor<i64>
  %r = onnx.Range(%zero, %n, %one) : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<*xi64> loc("positions")
  %table = onnx.Weight() {value = dense<0.5> : tensor<16x2xf32>} : () -> tensor<16x2xf32>
  %y = onnx.Gather(%table, %r) : (tensor<16x2xf32>, tensor<*xi64>) -> tensor<*xf32>
  return %y : tensor<*xf32>
}

// A scatter into a shape, as exporters write `shape[1] = 7`.
// CHECK-LABEL: func scatter
// CHECK: edited: [2] = {%arg0[0], 7}
func.func @scatter(%x: tensor<?x?xf32>) -> tensor<2xi64> {
  %shape = onnx.Shape(%x) : (tensor<?x?xf32>) -> tensor<2xi64>
  %at = onnx.Weight() {value = dense<1> : tensor<1x1xi64>} : () -> tensor<1x1xi64>
  %seven = onnx.Weight() {value = dense<7> : tensor<1xi64>} : () -> tensor<1xi64>
  %y = onnx.ScatterND(%shape, %at, %seven) : (tensor<2xi64>, tensor<1x1xi64>, tensor<1xi64>) -> tensor<2xi64> loc("edited")
  return %y : tensor<2xi64>
}
