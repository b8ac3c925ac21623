// RUN: tessera-opt %s --onnx-decompose-operators --split-input-file | FileCheck %s

// CHECK-LABEL: @mean
func.func @mean(%a: tensor<2xf32>, %b: tensor<1xf32>, %c: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: %[[N:.*]] = onnx.Weight() {value = dense<3.0
  // CHECK: %[[S:.*]] = onnx.Add(%arg0, %arg1)
  // CHECK: %[[T:.*]] = onnx.Add(%[[S]], %arg2)
  // CHECK: onnx.Div(%[[T]], %[[N]])
  %y = onnx.Mean(%a, %b, %c) : (tensor<2xf32>, tensor<1xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// CHECK-LABEL: @max
func.func @max(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: %[[S:.*]] = onnx.Max(%arg0, %arg1)
  // CHECK: onnx.Max(%[[S]], %arg2)
  %y = onnx.Max(%a, %b, %c) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// CHECK-LABEL: @einsum_batched
func.func @einsum_batched(%a: tensor<?x3x4xf32>, %b: tensor<?x5x4xf32>) -> tensor<?x3x5xf32> {
  // CHECK: %[[T:.*]] = onnx.Transpose(%arg1) {perm = array<i64: 0, 2, 1>}
  // CHECK: onnx.MatMul(%arg0, %[[T]]) : {{.*}} -> tensor<?x3x5xf32>
  %y = onnx.Einsum(%a, %b) {equation = "bij, bkj -> bik"} : (tensor<?x3x4xf32>, tensor<?x5x4xf32>) -> tensor<?x3x5xf32>
  return %y : tensor<?x3x5xf32>
}

// -----

// Two axes are contracted together.
// CHECK-LABEL: @einsum_two_inner
func.func @einsum_two_inner(%a: tensor<2x3x4xf32>, %b: tensor<3x4x5xf32>) -> tensor<2x5xf32> {
  // CHECK: onnx.Reshape(%arg0, {{.*}} -> tensor<2x12xf32>
  // CHECK: onnx.Reshape(%arg1, {{.*}} -> tensor<12x5xf32>
  // CHECK: onnx.MatMul
  %y = onnx.Einsum(%a, %b) {equation = "ijk,jkl->il"} : (tensor<2x3x4xf32>, tensor<3x4x5xf32>) -> tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}

// -----

// The diagonal of each matrix; the ellipsis stays in front.
// CHECK-LABEL: @einsum_diagonal
func.func @einsum_diagonal(%a: tensor<2x3x3xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[STEP:.*]] = onnx.Weight() {value = dense<4>
  // CHECK: onnx.Reshape(%arg0, {{.*}} -> tensor<2x9xf32>
  // CHECK: onnx.Slice({{.*}}, %[[STEP]]) : {{.*}} -> tensor<2x3xf32>
  %y = onnx.Einsum(%a) {equation = "...ii ->...i"} : (tensor<2x3x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// Without "->" the labels that occur once are the result, in alphabetical order.
// CHECK-LABEL: @einsum_implicit
func.func @einsum_implicit(%a: tensor<3x2xf32>) -> tensor<2x3xf32> {
  // CHECK: onnx.Transpose(%arg0) {perm = array<i64: 1, 0>}
  %y = onnx.Einsum(%a) {equation = "ba"} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// Nothing is contracted: an outer product.
// CHECK-LABEL: @einsum_outer
func.func @einsum_outer(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?x?xf32> {
  // CHECK: onnx.Mul({{.*}}) : (tensor<?x1xf32>, tensor<1x?xf32>) -> tensor<?x?xf32>
  %y = onnx.Einsum(%a, %b) {equation = "i,j->ij"} : (tensor<?xf32>, tensor<?xf32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// -----

// A label in the result that no operand has: left for a diagnostic.
// CHECK-LABEL: @einsum_invalid
func.func @einsum_invalid(%a: tensor<2xf32>) -> tensor<2x2xf32> {
  // CHECK: onnx.Einsum
  %y = onnx.Einsum(%a) {equation = "i->ij"} : (tensor<2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// Scanned along axis 1 from the back, stacked along axis 1 of the result.
// CHECK-LABEL: @scan
func.func @scan(%s: tensor<2xf32>, %x: tensor<2x?xf32>) -> (tensor<2xf32>, tensor<2x?xf32>) {
  // CHECK: %[[D:.*]] = onnx.Shape(%arg1) {end = 2 : i64, start = 1 : i64}
  // CHECK: %[[N:.*]] = onnx.Squeeze(%[[D]]
  // CHECK: %[[L:.*]]:2 = onnx.Loop(%[[N]], none, %arg0)
  // CHECK: ^bb0(%[[I:.*]]: tensor<i64>, %{{.*}}: tensor<i1>, %[[T:.*]]: tensor<2xf32>):
  // CHECK: %[[B:.*]] = onnx.Sub(%{{.*}}, %[[I]])
  // CHECK: %[[E:.*]] = onnx.Gather(%arg1, %[[B]]) {axis = 1 : i64}
  // CHECK: %[[A:.*]] = onnx.Add(%[[T]], %[[E]])
  // CHECK: onnx.Yield(%{{.*}}, %[[A]], %[[A]])
  // CHECK: onnx.Transpose(%[[L]]#1) {perm = array<i64: 1, 0>} : (tensor<?x2xf32>) -> tensor<2x?xf32>
  %f, %y = onnx.Scan(%s, %x) {num_scan_inputs = 1 : i64, scan_input_axes = array<i64: 1>, scan_input_directions = array<i64: 1>, scan_output_axes = array<i64: -1>} : (tensor<2xf32>, tensor<2x?xf32>) -> (tensor<2xf32>, tensor<2x?xf32>) {
  ^bb0(%t: tensor<2xf32>, %e: tensor<2xf32>):
    %a = onnx.Add(%t, %e) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    onnx.Yield(%a, %a) : (tensor<2xf32>, tensor<2xf32>) -> ()
  }
  return %f, %y : tensor<2xf32>, tensor<2x?xf32>
}

// -----

// The products are exact integers; the scales are applied in double.
// CHECK-LABEL: @qlinear_matmul
func.func @qlinear_matmul(%a: tensor<2x4xi8>, %b: tensor<4x3xi8>, %s: tensor<1xf16>, %z: tensor<1xi8>) -> tensor<2x3xi8> {
  // CHECK: onnx.MatMulInteger(%arg0, %arg1, {{.*}} -> tensor<2x3xi32>
  // CHECK: onnx.Mul({{.*}} tensor<2x3xf64>
  // CHECK: onnx.Cast({{.*}} tensor<2x3xf32>
  // CHECK: onnx.QuantizeLinear
  %y = onnx.QLinearMatMul(%a, %s, %z, %b, %s, %z, %s, %z) : (tensor<2x4xi8>, tensor<1xf16>, tensor<1xi8>, tensor<4x3xi8>, tensor<1xf16>, tensor<1xi8>, tensor<1xf16>, tensor<1xi8>) -> tensor<2x3xi8>
  return %y : tensor<2x3xi8>
}

// -----

// Sums that may leave int32 are taken in double.
// CHECK-LABEL: @qlinear_matmul_long
func.func @qlinear_matmul_long(%a: tensor<2x40000xi8>, %b: tensor<40000x3xi8>, %s: tensor<f32>, %z: tensor<i8>) -> tensor<2x3xi8> {
  // CHECK-NOT: Integer
  // CHECK: onnx.MatMul({{.*}} -> tensor<2x3xf64>
  %y = onnx.QLinearMatMul(%a, %s, %z, %b, %s, %z, %s, %z) : (tensor<2x40000xi8>, tensor<f32>, tensor<i8>, tensor<40000x3xi8>, tensor<f32>, tensor<i8>, tensor<f32>, tensor<i8>) -> tensor<2x3xi8>
  return %y : tensor<2x3xi8>
}

// -----

// Of two equal n-grams only the last would count: not served.
// CHECK-LABEL: @tfidf_twice
func.func @tfidf_twice(%x: tensor<4xi64>) -> tensor<2xf32> {
  // CHECK: onnx.TfIdfVectorizer
  %y = onnx.TfIdfVectorizer(%x) {max_gram_length = 1 : i64, max_skip_count = 0 : i64, min_gram_length = 1 : i64, mode = "TF", ngram_counts = array<i64: 0>, ngram_indexes = array<i64: 0, 1>, pool_int64s = array<i64: 5, 5>} : (tensor<4xi64>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// Branches of rank 0 and 1 whose difference no user sees.
// CHECK-LABEL: @if_ranks
func.func @if_ranks(%c: tensor<i1>, %a: tensor<f32>, %b: tensor<1xf32>, %v: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[U:.*]] = onnx.Unsqueeze(%arg1
  // CHECK: onnx.Yield(%[[U]])
  %x = onnx.If(%c) : (tensor<i1>) -> tensor<*xf32> {
    onnx.Yield(%a) : (tensor<f32>) -> ()
  } {
    onnx.Yield(%b) : (tensor<1xf32>) -> ()
  }
  %y = onnx.Mul(%v, %x) : (tensor<4xf32>, tensor<*xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A result that leaves the function shows its rank.
// CHECK-LABEL: @if_ranks_shown
func.func @if_ranks_shown(%c: tensor<i1>, %a: tensor<f32>, %b: tensor<1xf32>) -> tensor<*xf32> {
  // CHECK-NOT: onnx.Unsqueeze
  %x = onnx.If(%c) : (tensor<i1>) -> tensor<*xf32> {
    onnx.Yield(%a) : (tensor<f32>) -> ()
  } {
    onnx.Yield(%b) : (tensor<1xf32>) -> ()
  }
  return %x : tensor<*xf32>
}

// -----

// Element i draws from a hash of i and the seed.
// CHECK-LABEL: @random
func.func @random() -> tensor<2x3xf32> {
  // CHECK: onnx.Range
  // CHECK: onnx.BitwiseXor({{.*}} tensor<?xui32>
  // CHECK: onnx.Reshape({{.*}} -> tensor<2x3xf32>
  %y = onnx.RandomUniform() {seed = 7.0 : f32, shape = array<i64: 2, 3>} : () -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
