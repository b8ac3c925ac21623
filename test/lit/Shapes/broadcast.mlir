// Elementwise operators with open dimensions.
// RUN: tessera-opt --onnx-print-shapes %s -o /dev/null | FileCheck %s

// Names of dimensions are documentation: each is a symbol of its own.
// CHECK-LABEL: func same_name
// CHECK:       return 0: [select(eq(%arg0[0], 1), %arg1[0], %arg0[0]), 4]
// CHECK:       require {{.*}}do not broadcast
func.func @same_name(%a: tensor<?x4xf32> {onnx.dims = ["n", ""]}, %b: tensor<?x1xf32> {onnx.dims = ["n", ""]}) -> tensor<*xf32> {
  %c = onnx.Add(%a, %b) : (tensor<?x4xf32>, tensor<?x1xf32>) -> tensor<*xf32>
  return %c : tensor<*xf32>
}

// A number other than 1 wins over a symbol, which then is that number or 1.
// CHECK-LABEL: func number_and_symbol
// CHECK:       return 0: [5]
// CHECK:       require max(eq(%arg0[0], 1), eq(%arg0[0], 5)): dimensions
func.func @number_and_symbol(%a: tensor<?xf32>, %b: tensor<5xf32>) -> tensor<*xf32> {
  %c = onnx.Mul(%a, %b) : (tensor<?xf32>, tensor<5xf32>) -> tensor<*xf32>
  return %c : tensor<*xf32>
}

// CHECK-LABEL: func two_symbols
// CHECK:       return 0: [select(eq(%arg0[0], 1), %arg1[0], %arg0[0])]
// CHECK:       require
func.func @two_symbols(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<*xf32> {
  %c = onnx.Mul(%a, %b) : (tensor<?xf32>, tensor<?xf32>) -> tensor<*xf32>
  return %c : tensor<*xf32>
}

// Bounds of the user decide that a dimension is not 1.
// CHECK-LABEL: func bounded
// CHECK:       return 0: [%arg0[0]]
func.func @bounded(%a: tensor<?xf32> {onnx.ranges = array<i64: 0, 2, 512, 1>}, %b: tensor<?xf32>) -> tensor<*xf32> {
  %c = onnx.Mul(%a, %b) : (tensor<?xf32>, tensor<?xf32>) -> tensor<*xf32>
  return %c : tensor<*xf32>
}

// Expand by a shape with 1 and with the input's own dimension.
// CHECK-LABEL: func expand
// CHECK:       return 0: [%arg0[0], 7, 3]
func.func @expand(%a: tensor<?x1x3xf32>) -> tensor<*xf32> {
  %head = onnx.Shape(%a) {end = 1 : i64} : (tensor<?x1x3xf32>) -> tensor<1xi64>
  %tail = onnx.Weight() {value = dense<[7, 1]> : tensor<2xi64>} : () -> tensor<2xi64>
  %shape = onnx.Concat(%head, %tail) {axis = 0 : i64} : (tensor<1xi64>, tensor<2xi64>) -> tensor<3xi64>
  %c = onnx.Expand(%a, %shape) : (tensor<?x1x3xf32>, tensor<3xi64>) -> tensor<*xf32>
  return %c : tensor<*xf32>
}
