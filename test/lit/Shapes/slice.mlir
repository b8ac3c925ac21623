// Slices: clamping, counting from the end, stepping backwards.
// RUN: tessera-opt --onnx-print-shapes %s -o /dev/null | FileCheck %s

// CHECK-LABEL: func open_dimension
// CHECK: to_end: [%arg0[0]]
// CHECK: head: [min(%arg0[0], 3)]
// CHECK: without_last: [max(0, %arg0[0] - 1)]
// CHECK: every_second: [floordiv(%arg0[0] + 1, 2)]
// CHECK: backwards: [%arg0[0]]
func.func @open_dimension(%x: tensor<?xf32>) -> tensor<*xf32> {
  %zero = onnx.Weight() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %two = onnx.Weight() {value = dense<2> : tensor<1xi64>} : () -> tensor<1xi64>
  %three = onnx.Weight() {value = dense<3> : tensor<1xi64>} : () -> tensor<1xi64>
  %m1 = onnx.Weight() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %max = onnx.Weight() {value = dense<9223372036854775807> : tensor<1xi64>} : () -> tensor<1xi64>
  %min = onnx.Weight() {value = dense<-9223372036854775808> : tensor<1xi64>} : () -> tensor<1xi64>
  %a = onnx.Slice(%x, %zero, %max) : (tensor<?xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32> loc("to_end")
  %b = onnx.Slice(%x, %zero, %three) : (tensor<?xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32> loc("head")
  %c = onnx.Slice(%x, %zero, %m1) : (tensor<?xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32> loc("without_last")
  %d = onnx.Slice(%x, %zero, %max, %zero, %two) : (tensor<?xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32> loc("every_second")
  %e = onnx.Slice(%x, %m1, %min, %zero, %m1) : (tensor<?xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32> loc("backwards")
  return %a : tensor<*xf32>
}

// CHECK-LABEL: func numbers
// CHECK: a: [3]
// CHECK: b: [0]
// CHECK: c: [2]
func.func @numbers(%x: tensor<5xf32>) -> tensor<*xf32> {
  %zero = onnx.Weight() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %m1 = onnx.Weight() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %m2 = onnx.Weight() {value = dense<-2> : tensor<1xi64>} : () -> tensor<1xi64>
  %two = onnx.Weight() {value = dense<2> : tensor<1xi64>} : () -> tensor<1xi64>
  %max = onnx.Weight() {value = dense<9223372036854775807> : tensor<1xi64>} : () -> tensor<1xi64>
  %min = onnx.Weight() {value = dense<-9223372036854775808> : tensor<1xi64>} : () -> tensor<1xi64>
  %a = onnx.Slice(%x, %m1, %min, %zero, %m2) : (tensor<5xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32> loc("a")
  %b = onnx.Slice(%x, %zero, %max, %zero, %m1) : (tensor<5xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32> loc("b")
  %c = onnx.Slice(%x, %m2, %max) : (tensor<5xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32> loc("c")
  return %a : tensor<*xf32>
}

// Bounds that are run-time data.
// CHECK-LABEL: func by_data
// CHECK: return 0: [min(8, max(0, select(lt(data(%arg1)[0], 0), data(%arg1)[0] + 8, data(%arg1)[0])))]
func.func @by_data(%x: tensor<8xf32>, %end: tensor<1xi64>) -> tensor<*xf32> {
  %zero = onnx.Weight() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %a = onnx.Slice(%x, %zero, %end) : (tensor<8xf32>, tensor<1xi64>, tensor<1xi64>) -> tensor<*xf32>
  return %a : tensor<*xf32>
}
