// If, Loop and Scan.
// RUN: tessera-opt --onnx-print-shapes %s -o /dev/null | FileCheck %s

// A known condition: only that branch counts, whatever the other's rank.
// CHECK-LABEL: func known_condition
// CHECK: return 0: [%arg0[0]]
func.func @known_condition(%x: tensor<?x1xf32>) -> tensor<*xf32> {
  %rank = onnx.Shape(%x) : (tensor<?x1xf32>) -> tensor<2xi64>
  %one = onnx.Weight() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %last = onnx.Gather(%rank, %one) : (tensor<2xi64>, tensor<i64>) -> tensor<i64>
  %cond = onnx.Equal(%last, %one) : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %y = onnx.If(%cond) : (tensor<i1>) -> tensor<*xf32> {
    %axes = onnx.Weight() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
    %s = onnx.Squeeze(%x, %axes) : (tensor<?x1xf32>, tensor<1xi64>) -> tensor<*xf32>
    onnx.Yield(%s) : (tensor<*xf32>) -> ()
  } {
    %i = onnx.Identity(%x) : (tensor<?x1xf32>) -> tensor<*xf32>
    onnx.Yield(%i) : (tensor<*xf32>) -> ()
  }
  return %y : tensor<*xf32>
}

// An unknown condition: the sizes are selected, faults of a branch count when it is taken.
// CHECK-LABEL: func unknown_condition
// CHECK: return 0: [select(data(%arg1)[0], %arg0[0], %arg0[0]*2)]
func.func @unknown_condition(%x: tensor<?xf32>, %cond: tensor<i1>) -> tensor<*xf32> {
  %y = onnx.If(%cond) : (tensor<i1>) -> tensor<*xf32> {
    %i = onnx.Identity(%x) : (tensor<?xf32>) -> tensor<*xf32>
    onnx.Yield(%i) : (tensor<*xf32>) -> ()
  } {
    %c = onnx.Concat(%x, %x) {axis = 0 : i64} : (tensor<?xf32>, tensor<?xf32>) -> tensor<*xf32>
    onnx.Yield(%c) : (tensor<*xf32>) -> ()
  }
  return %y : tensor<*xf32>
}

// A carried value that keeps its size, one that grows, and a scan output.
// CHECK-LABEL: func loop
// CHECK: loop#0: [%arg0[0]]
// CHECK: loop#1: [extent(loop#1)[0]]
// CHECK: loop#2: [max(data(%arg1)[0], 0), %arg0[0]]
// CHECK: grown: [%arg0[0] + block(%arg3)[0]]
func.func @loop(%x: tensor<?xf32>, %m: tensor<i64>) -> tensor<*xf32> {
  %true = onnx.Weight() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %r:3 = onnx.Loop(%m, %true, %x, %x) : (tensor<i64>, tensor<i1>, tensor<?xf32>, tensor<?xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %a: tensor<*xf32>, %b: tensor<*xf32>):
    %same = onnx.Relu(%a) : (tensor<*xf32>) -> tensor<*xf32>
    %more = onnx.Concat(%b, %x) {axis = 0 : i64} : (tensor<*xf32>, tensor<?xf32>) -> tensor<*xf32> loc("grown")
    onnx.Yield(%c, %same, %more, %same) : (tensor<i1>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> ()
  } loc("loop")
  return %r#0 : tensor<*xf32>
}

// A loop that may end early makes as many rows as it has trips.
// CHECK-LABEL: func early_end
// CHECK: loop: [extent(loop)[0], 4]
func.func @early_end(%m: tensor<i64>) -> tensor<*xf32> {
  %true = onnx.Weight() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %r = onnx.Loop(%m, %true) : (tensor<i64>, tensor<i1>) -> tensor<*xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>):
    %stop = onnx.Not(%c) : (tensor<i1>) -> tensor<i1>
    %row = onnx.Weight() {value = dense<1.0> : tensor<4xf32>} : () -> tensor<4xf32>
    onnx.Yield(%stop, %row) : (tensor<i1>, tensor<4xf32>) -> ()
  } loc("loop")
  return %r : tensor<*xf32>
}

// CHECK-LABEL: func scan
// CHECK: scan#0: [%arg0[0]]
// CHECK: scan#1: [%arg1[0], %arg0[0]]
func.func @scan(%s: tensor<?xf32>, %x: tensor<?x1xf32>) -> tensor<*xf32> {
  %r:2 = onnx.Scan(%s, %x) {num_scan_inputs = 1 : i64} : (tensor<?xf32>, tensor<?x1xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  ^bb0(%a: tensor<*xf32>, %row: tensor<*xf32>):
    %sum = onnx.Add(%a, %row) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    onnx.Yield(%sum, %sum) : (tensor<*xf32>, tensor<*xf32>) -> ()
  } loc("scan")
  return %r#1 : tensor<*xf32>
}
