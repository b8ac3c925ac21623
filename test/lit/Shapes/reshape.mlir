// Views: the result of Reshape follows from symbolic contents of its shape.
// RUN: tessera-opt --onnx-print-shapes %s -o /dev/null | FileCheck %s

// A shape that is computed from the input's own costs no data.
// CHECK-LABEL: func from_shape
// CHECK:       pick: [] = {%arg0[0]}
// CHECK:       target: [2] = {%arg0[0], -1}
// CHECK:       return 0: [%arg0[0], %arg0[3]*12]
// CHECK-NOT:   require
func.func @from_shape(%x: tensor<?x3x4x?xf32>) -> tensor<*xf32> {
  %axis = onnx.Weight() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
  %axes = onnx.Weight() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %open = onnx.Weight() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %perm = onnx.Transpose(%x) {perm = array<i64: 0, 3, 1, 2>} : (tensor<?x3x4x?xf32>) -> tensor<?x?x3x4xf32>
  %shape = onnx.Shape(%perm) : (tensor<?x?x3x4xf32>) -> tensor<4xi64>
  %pick = onnx.Gather(%shape, %axis) : (tensor<4xi64>, tensor<i64>) -> tensor<i64> loc("pick")
  %vec = onnx.Unsqueeze(%pick, %axes) : (tensor<i64>, tensor<1xi64>) -> tensor<1xi64>
  %target = onnx.Concat(%vec, %open) {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64> loc("target")
  %y = onnx.Reshape(%perm, %target) : (tensor<?x?x3x4xf32>, tensor<2xi64>) -> tensor<*xf32>
  %z = onnx.Identity(%y) : (tensor<*xf32>) -> tensor<*xf32>
  %head = onnx.Shape(%x) {start = 0 : i64, end = 1 : i64} : (tensor<?x3x4x?xf32>) -> tensor<1xi64>
  %tail = onnx.Shape(%x) {start = -1 : i64} : (tensor<?x3x4x?xf32>) -> tensor<1xi64>
  %twelve = onnx.Weight() {value = dense<12> : tensor<1xi64>} : () -> tensor<1xi64>
  %wide = onnx.Mul(%tail, %twelve) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %full = onnx.Concat(%head, %wide) {axis = 0 : i64} : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %out = onnx.Reshape(%z, %full) : (tensor<*xf32>, tensor<2xi64>) -> tensor<*xf32>
  return %out : tensor<*xf32>
}

// Without contents the elements are read at run time; 0 and -1 keep their meaning.
// CHECK-LABEL: func from_data
// CHECK: return 0: [select(eq(data(%arg1)[0], -1), {{.*}}, select(eq(data(%arg1)[0], 0), %arg0[0], data(%arg1)[0])),
// CHECK: require {{.*}}cannot reshape
func.func @from_data(%x: tensor<?x6xf32>, %shape: tensor<2xi64>) -> tensor<*xf32> {
  %y = onnx.Reshape(%x, %shape) : (tensor<?x6xf32>, tensor<2xi64>) -> tensor<*xf32>
  return %y : tensor<*xf32>
}

// With allowzero a 0 is a size.
// CHECK-LABEL: func allow_zero
// CHECK: return 0: [0, 5]
func.func @allow_zero(%x: tensor<3x0xf32>) -> tensor<*xf32> {
  %shape = onnx.Weight() {value = dense<[0, 5]> : tensor<2xi64>} : () -> tensor<2xi64>
  %y = onnx.Reshape(%x, %shape) {allowzero = 1 : i64} : (tensor<3x0xf32>, tensor<2xi64>) -> tensor<*xf32>
  return %y : tensor<*xf32>
}

// Squeeze without axes must know which dimensions are 1.
// CHECK-LABEL: func squeeze
// CHECK: return 0: [%arg0[0], 4]
// CHECK: require {{.*}}must not be 1
func.func @squeeze(%x: tensor<?x1x4xf32>) -> tensor<*xf32> {
  %y = onnx.Squeeze(%x) : (tensor<?x1x4xf32>) -> tensor<*xf32>
  return %y : tensor<*xf32>
}
