// RUN: tessera-opt %s --onnx-lower-trees --split-input-file | FileCheck %s

// x > 1 is "not x <= 1" with the branches exchanged; x == 2 is x <= 2 and then
// not x <= the float before 2. Slots by two words (split, feature | delta << 16):
//   0 x0 <= 1       to 2: leaf 1.5, else 3
//   1 unused
//   2 leaf 1.5      split is its weight, feature 2 is the slot of leaves
//   3 x1 <= 2       to 4, else 5
//   4 x1 <= 2 - ulp to 6: leaf 3.5, else 7: leaf 2.5
//   5 leaf 3.5, as 6
// NaN goes to `no` of every node that is left: one copy of the row.
// CHECK-LABEL: @comparisons
func.func @comparisons(%x: tensor<?x2xf32>) -> tensor<?x1xf32> {
  // CHECK: dense<[1065353216, 131072, 0, 2, 1069547520, 2, 1073741824, 65537, 1073741823, 131073, 1080033280, 2, 1080033280, 2, 1075838976, 2]> : tensor<16xi32>
  // CHECK: onnx.Custom(%arg0, {{.*}}leaves = 0 : i64, nan = 1 : i64,{{.*}}wide = 0 : i64}, domain = "tessera", op_type = "TreeEnsemble"}
  %y = onnx.ml.TreeEnsembleRegressor(%x) {n_targets = 1 : i64,
    nodes_treeids = array<i64: 0, 0, 0, 0, 0>, nodes_nodeids = array<i64: 0, 1, 2, 3, 4>,
    nodes_modes = ["BRANCH_GT", "BRANCH_EQ", "LEAF", "LEAF", "LEAF"],
    nodes_featureids = array<i64: 0, 1, 0, 0, 0>, nodes_values = array<f32: 1.0, 2.0, 0.0, 0.0, 0.0>,
    nodes_truenodeids = array<i64: 1, 3, 0, 0, 0>, nodes_falsenodeids = array<i64: 2, 4, 0, 0, 0>,
    nodes_missing_value_tracks_true = array<i64: 1, 0, 0, 0, 0>,
    target_treeids = array<i64: 0, 0, 0>, target_nodeids = array<i64: 2, 3, 4>, target_ids = array<i64: 0, 0, 0>,
    target_weights = array<f32: 1.5, 2.5, 3.5>} : (tensor<?x2xf32>) -> tensor<?x1xf32>
  return %y : tensor<?x1xf32>
}

// -----

// A walk that would not end stays, and the audit names it.
// CHECK-LABEL: @cycle
func.func @cycle(%x: tensor<?x2xf32>) -> tensor<?x1xf32> {
  // CHECK: onnx.ml.TreeEnsembleRegressor
  %y = onnx.ml.TreeEnsembleRegressor(%x) {n_targets = 1 : i64,
    nodes_treeids = array<i64: 0, 0>, nodes_nodeids = array<i64: 0, 1>, nodes_modes = ["BRANCH_LEQ", "LEAF"],
    nodes_featureids = array<i64: 0, 0>, nodes_values = array<f32: 1.0, 0.0>,
    nodes_truenodeids = array<i64: 0, 0>, nodes_falsenodeids = array<i64: 1, 0>,
    target_treeids = array<i64: 0>, target_nodeids = array<i64: 1>, target_ids = array<i64: 0>,
    target_weights = array<f32: 1.5>} : (tensor<?x2xf32>) -> tensor<?x1xf32>
  return %y : tensor<?x1xf32>
}

// -----

// A leaf for every target is a row of weights.
// CHECK-LABEL: @dense_leaves
func.func @dense_leaves(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  // CHECK: dense<[1.500000e+00, 2.500000e+00, 3.500000e+00, 4.500000e+00]> : tensor<4xf32>
  // CHECK: onnx.Custom({{.*}}leaves = 1 : i64
  %y = onnx.ml.TreeEnsembleRegressor(%x) {n_targets = 2 : i64,
    nodes_treeids = array<i64: 0, 0, 0>, nodes_nodeids = array<i64: 0, 1, 2>, nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"],
    nodes_featureids = array<i64: 0, 0, 0>, nodes_values = array<f32: 1.0, 0.0, 0.0>,
    nodes_truenodeids = array<i64: 1, 0, 0>, nodes_falsenodeids = array<i64: 2, 0, 0>,
    target_treeids = array<i64: 0, 0, 0, 0>, target_nodeids = array<i64: 1, 1, 2, 2>, target_ids = array<i64: 0, 1, 0, 1>,
    target_weights = array<f32: 1.5, 2.5, 3.5, 4.5>} : (tensor<?x2xf32>) -> tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}
