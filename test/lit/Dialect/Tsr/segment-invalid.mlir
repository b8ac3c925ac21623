// RUN: tessera-opt --split-input-file --verify-diagnostics %s

func.func @cpu(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{names device 0, not one from 1 to 7 (0 is the CPU)}}
  %0 = tsr.segment "npu"(%x) {device = 0 : i64} : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>):
    tsr.yield %a : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}

// -----

func.func @border(%x: tensor<2xf32>) -> tensor<3xf32> {
  // expected-error @+1 {{yields other types than its results}}
  %0 = tsr.segment "npu"(%x) {device = 1 : i64} : (tensor<2xf32>) -> tensor<3xf32> {
  ^bb0(%a: tensor<2xf32>):
    tsr.yield %a : tensor<2xf32>
  }
  return %0 : tensor<3xf32>
}

// -----

func.func @operands(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{body takes other types than its operands}}
  %0 = tsr.segment "npu"(%x) {device = 1 : i64} : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>, %b: tensor<2xf32>):
    tsr.yield %a : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}

// -----

func.func @open(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = tsr.segment "npu"(%x) {device = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32> {
  ^bb0(%a: tensor<2x3xf32>):
    // expected-error @+1 {{in a tsr.segment has a result of type 'tensor<?x2xi64>', not of a static tensor}}
    %1 = "onnx.NonZero"(%a) : (tensor<2x3xf32>) -> tensor<?x2xi64>
    tsr.yield %a : tensor<2x3xf32>
  }
  return %0 : tensor<2x3xf32>
}

// -----

func.func @control_flow(%c: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = tsr.segment "npu"(%c, %x) {device = 1 : i64} : (tensor<i1>, tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<i1>, %b: tensor<2xf32>):
    // expected-error @+1 {{has a body: control flow stays outside of tsr.segment}}
    %1 = "onnx.If"(%a) ({
      "onnx.Yield"(%b) : (tensor<2xf32>) -> ()
    }, {
      "onnx.Yield"(%b) : (tensor<2xf32>) -> ()
    }) : (tensor<i1>) -> tensor<2xf32>
    tsr.yield %1 : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}

// -----

func.func @artefact(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{has an artefact that is neither a string nor a resource of bytes}}
  %0 = tsr.segment "npu"(%x) {device = 1 : i64, artefact = 5 : i64} : (tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%a: tensor<2xf32>):
    tsr.yield %a : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}
