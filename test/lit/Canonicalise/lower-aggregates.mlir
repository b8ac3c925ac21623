// RUN: tessera-opt %s --onnx-lower-aggregates --split-input-file | FileCheck %s

// A sequence at the border is its elements in a row and the matrix of their extents.
// CHECK-LABEL: @border
// CHECK-SAME: (%arg0: tensor<?xf32> {onnx.kind = 2 : i64, onnx.name = "s"}, %arg1: tensor<?x1xi64> {onnx.kind = 3 : i64, onnx.name = "s.extents"}
// CHECK-SAME: -> (tensor<?xf32> {onnx.kind = 2 : i64, onnx.name = "y"}, tensor<?x1xi64> {onnx.kind = 3 : i64, onnx.name = "y.extents"})
func.func @border(%s: !onnx.seq<tensor<?xf32>> {onnx.name = "s"}) -> (!onnx.seq<tensor<?xf32>> {onnx.name = "y"}) {
  // CHECK: return %arg0, %arg1
  %y = onnx.Identity(%s) : (!onnx.seq<tensor<?xf32>>) -> !onnx.seq<tensor<?xf32>>
  return %y : !onnx.seq<tensor<?xf32>>
}

// -----

// Reading starts and sizes by Gather fails where the position is out of range.
// CHECK-LABEL: @at
func.func @at(%s: !onnx.seq<tensor<?xf32>>, %i: tensor<i64>) -> tensor<?xf32> {
  // CHECK: onnx.ReduceProd({{.*}} {keepdims = 0 : i64}
  // CHECK: onnx.CumSum({{.*}} {exclusive = 1 : i64}
  // CHECK: onnx.Gather
  // CHECK: onnx.Slice(%arg0
  // CHECK: onnx.Reshape
  // CHECK-NOT: onnx.SequenceAt
  %y = onnx.SequenceAt(%s, %i) : (!onnx.seq<tensor<?xf32>>, tensor<i64>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}

// -----

// A tensor of lower rank has extents -1 in front.
// CHECK-LABEL: @mixed_ranks
// CHECK-SAME: -> (tensor<7xf32> {{.*}}, tensor<2x2xi64>
func.func @mixed_ranks(%a: tensor<3xf32>, %b: tensor<2x2xf32>) -> !onnx.seq<tensor<*xf32>> {
  // CHECK: onnx.Weight() {value = dense<-1> : tensor<1xi64>}
  // CHECK: onnx.Concat
  %y = onnx.SequenceConstruct(%a, %b) : (tensor<3xf32>, tensor<2x2xf32>) -> !onnx.seq<tensor<*xf32>>
  return %y : !onnx.seq<tensor<*xf32>>
}

// -----

// SequenceMap is a Loop that carries the sequence it makes.
// CHECK-LABEL: @map
func.func @map(%s: !onnx.seq<tensor<?xf32>>) -> !onnx.seq<tensor<?xf32>> {
  // CHECK: onnx.Loop
  // CHECK: ^bb0(%{{.*}}: tensor<i64>, %{{.*}}: tensor<i1>, %{{.*}}: tensor<?xf32>, %{{.*}}: tensor<?x1xi64>)
  // CHECK: onnx.Neg
  // CHECK: onnx.Yield
  %y = onnx.SequenceMap(%s) : (!onnx.seq<tensor<?xf32>>) -> !onnx.seq<tensor<?xf32>> {
  ^bb0(%e: tensor<?xf32>):
    %n = onnx.Neg(%e) : (tensor<?xf32>) -> tensor<?xf32>
    onnx.Yield(%n) : (tensor<?xf32>) -> ()
  }
  return %y : !onnx.seq<tensor<?xf32>>
}

// -----

// An optional is a bool and its value; one that is made here is known to be there.
// CHECK-LABEL: @optional
// CHECK-SAME: (%arg0: tensor<i1> {onnx.kind = 4 : i64, onnx.name = "o.present"}, %arg1: tensor<4xf32> {onnx.kind = 0 : i64, onnx.name = "o"})
func.func @optional(%o: !onnx.opt<tensor<4xf32>> {onnx.name = "o"}) -> (tensor<i1>, tensor<i1>) {
  // CHECK: %[[T:.*]] = onnx.Weight() {value = dense<true> : tensor<i1>}
  // CHECK: return %arg0, %[[T]]
  %y = onnx.OptionalHasElement(%o) : (!onnx.opt<tensor<4xf32>>) -> tensor<i1>
  %x = onnx.Weight() {value = dense<1.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %p = onnx.Optional(%x) : (tensor<4xf32>) -> !onnx.opt<tensor<4xf32>>
  %z = onnx.OptionalHasElement(%p) : (!onnx.opt<tensor<4xf32>>) -> tensor<i1>
  return %y, %z : tensor<i1>, tensor<i1>
}

// -----

// Strings are code points with zeros behind; Equal pads both sides to one width.
// CHECK-LABEL: @strings
// CHECK-SAME: (%arg0: tensor<2x?xi32> {onnx.kind = 1 : i64, onnx.name = "x"})
func.func @strings(%x: tensor<2x!onnx.str> {onnx.name = "x"}) -> tensor<2xi1> {
  // CHECK: onnx.Weight() {value = dense<{{\[\[}}97, 0], [98, 228]]> : tensor<2x2xi32>}
  // CHECK: onnx.Pad(%arg0
  // CHECK: onnx.Equal
  // CHECK: onnx.ReduceMin
  %w = onnx.Weight() {value = dense<["a", "b\C3\A4"]> : tensor<2x!onnx.str>} : () -> tensor<2x!onnx.str>
  %y = onnx.Equal(%x, %w) : (tensor<2x!onnx.str>, tensor<2x!onnx.str>) -> tensor<2xi1>
  return %y : tensor<2xi1>
}
