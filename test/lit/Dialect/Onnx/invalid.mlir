// RUN: tessera-opt %s --split-input-file --verify-diagnostics

// Types are those of the schema.
func.func @wrong_element_type(%x: tensor<4xi1>) {
  // expected-error @+1 {{'onnx.Abs' op operand #0 must be}}
  %y = onnx.Abs(%x) : (tensor<4xi1>) -> tensor<4xi1>
  return
}

// -----

func.func @missing_attribute(%x: tensor<4xf32>) {
  // expected-error @+1 {{'onnx.Cast' op requires attribute 'to'}}
  %y = onnx.Cast(%x) : (tensor<4xf32>) -> tensor<4xi32>
  return
}

// -----

func.func @missing_operand(%x: tensor<4xf32>) {
  // expected-error @+1 {{'onnx.Add' op expected 2 operands, but found 1}}
  %y = onnx.Add(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @weight_type() {
  // expected-error @+1 {{'onnx.Weight' op value of type 'tensor<2xi8>' does not match result type 'tensor<3xi8>'}}
  %y = onnx.Weight() {value = dense<[1, 2]> : tensor<2xi8>} : () -> tensor<3xi8>
  return
}
