// Contradictions are found with all open dimensions taken into account.
// RUN: tessera-opt --onnx-print-shapes --split-input-file --verify-diagnostics %s -o /dev/null

func.func @inner(%a: tensor<?x3xf32>, %b: tensor<4x5xf32>) -> tensor<*xf32> {
  // expected-error @+1 {{inner dimensions of onnx.MatMul must agree: 3 and 4}}
  %c = onnx.MatMul(%a, %b) : (tensor<?x3xf32>, tensor<4x5xf32>) -> tensor<*xf32>
  return %c : tensor<*xf32>
}

// -----

func.func @reshape(%a: tensor<3xf32>) -> tensor<*xf32> {
  %shape = onnx.Weight() {value = dense<[2, 2]> : tensor<2xi64>} : () -> tensor<2xi64>
  // expected-error @+1 {{cannot reshape 3 elements to 4}}
  %c = onnx.Reshape(%a, %shape) : (tensor<3xf32>, tensor<2xi64>) -> tensor<*xf32>
  return %c : tensor<*xf32>
}

// -----

func.func @declared(%a: tensor<3xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{output 0 of onnx.Relu is declared 4 long on axis 0 but is 3}}
  %c = onnx.Relu(%a) : (tensor<3xf32>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}

// -----

func.func @rank(%a: tensor<4xf32>, %shape: tensor<?xi64>) -> tensor<*xf32> {
  // expected-error @+1 {{the rank of a result of onnx.Reshape cannot be known: the contents of input 1}}
  %c = onnx.Reshape(%a, %shape) : (tensor<4xf32>, tensor<?xi64>) -> tensor<*xf32>
  return %c : tensor<*xf32>
}

// -----

func.func @branches(%x: tensor<?x2xf32>, %cond: tensor<i1>) -> tensor<*xf32> {
  // expected-error @+1 {{output 0 of onnx.If has 2 dimensions in one branch and 1 in the other}}
  %y = onnx.If(%cond) : (tensor<i1>) -> tensor<*xf32> {
    %i = onnx.Identity(%x) : (tensor<?x2xf32>) -> tensor<*xf32>
    onnx.Yield(%i) : (tensor<*xf32>) -> ()
  } {
    %n = onnx.ReduceMax(%x) {keepdims = 0 : i64} : (tensor<?x2xf32>) -> tensor<f32>
    %shape = onnx.Weight() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
    %c = onnx.Reshape(%n, %shape) : (tensor<f32>, tensor<1xi64>) -> tensor<*xf32>
    onnx.Yield(%c) : (tensor<*xf32>) -> ()
  }
  return %y : tensor<*xf32>
}
