"""ai.onnx.ml: encoders that mapped both ways, trees with tensors for their attributes."""
import numpy as np
from onnx import numpy_helper

from .table import case, f32, given, i64, normal

ML = dict(domain="ai.onnx.ml")
X = normal(5, 3)
WORDS = np.array(["cat", "dog", "eel", "cat"], object)

case("LabelEncoder", given(WORDS), hi=1, classes_strings=["dog", "cat"], want=lambda x: i64(1, 0, -1, 1), **ML)
case("LabelEncoder", given(WORDS), hi=1, name="default", classes_strings=["dog", "cat"], default_int64=9, want=lambda x: i64(1, 0, 9, 1), **ML)
case("LabelEncoder", given(i64(1, 0, 7)), hi=1, name="back", classes_strings=["dog", "cat"], want=lambda x: np.array(["cat", "dog", "_Unused"], object), **ML)
case("LabelEncoder", given(i64(1, 0, 7)), hi=1, name="back_default", classes_strings=["dog", "cat"], default_string="?", want=lambda x: np.array(["cat", "dog", "?"], object), **ML)
case("LabelEncoder", given(WORDS), lo=2, keys_strings=["dog", "cat"], values_int64s=[5, 6], default_int64=9, want=lambda x: i64(6, 5, 9, 6), **ML)
case("LabelEncoder", given(i64(1, 0, 7)), lo=2, name="floats", keys_int64s=[1, 0], values_floats=[0.5, 1.5], want=lambda x: f32(0.5, 1.5, -0.0), **ML)
case("LabelEncoder", given(f32(1, 0, 7)), lo=2, name="strings", keys_floats=[1.0, 0.0], values_strings=["a", "b"], want=lambda x: np.array(["a", "b", "_Unused"], object), **ML)
case("LabelEncoder", given(i64(1, 0, 7)), lo=4, name="tensor", keys_tensor=numpy_helper.from_array(i64(1, 0)), values_tensor=numpy_helper.from_array(np.array([2.5, 3.5])), default_tensor=numpy_helper.from_array(np.array([-1.0])),
     want=lambda x: np.array([2.5, 3.5, -1.0]), **ML)
case("ArrayFeatureExtractor", given(X), i64(2, 0), want=lambda x, i: x[:, [2, 0]], **ML)
case("Binarizer", given(X), threshold=0.2, want=lambda x: (x > np.float32(0.2)).astype(np.float32), **ML)
case("CategoryMapper", given(WORDS), cats_strings=["dog", "cat"], cats_int64s=[4, 5], default_int64=-3, want=lambda x: i64(5, 4, -3, 5), **ML)
case("CategoryMapper", given(i64(4, 9)), name="back", cats_strings=["dog", "cat"], cats_int64s=[4, 5], want=lambda x: np.array(["dog", "_Unused"], object), **ML)
case("FeatureVectorizer", given(X), given(normal(5, 2)), inputdimensions=[3, 2], want=lambda a, b: np.concatenate([a, b], 1), **ML)
case("Imputer", given(np.array([[1, -9, 3], [-9, 2, 4]], np.float32)), replaced_value_float=-9.0, imputed_value_floats=[7.0, 8.0, 9.0], want=lambda x: np.where(x == -9, f32(7, 8, 9), x), **ML)
case("Normalizer", given(X), norm="L2", want=lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)), **ML)
case("OneHotEncoder", given(i64(2, 0, 5)), cats_int64s=[0, 1, 2], want=lambda x: np.array([[0, 0, 1], [1, 0, 0], [0, 0, 0]], np.float32), **ML)
case("Scaler", given(X), offset=[0.5, 1.0, -1.0], scale=[2.0, 0.5, 1.0], want=lambda x: (x - f32(0.5, 1, -1)) * f32(2, 0.5, 1), **ML)
case("LinearRegressor", given(X), coefficients=[0.5, 1.0, -1.0], intercepts=[0.25], want=lambda x: x @ f32(0.5, 1, -1)[:, None] + np.float32(0.25), **ML)
case("LinearClassifier", given(X), outputs=2, classlabels_ints=[3, 5], coefficients=[0.5, 1.0, -1.0, 0.1, 0.2, 0.3], intercepts=[0.25, -0.5], multi_class=1, post_transform="SOFTMAX", **ML)
case("SVMRegressor", given(X), coefficients=[0.5, -0.25], kernel_params=[0.1, 0.5, 2.0], kernel_type="RBF", n_supports=2, rho=[0.3], support_vectors=[float(v) for v in range(6)], **ML)
case("SVMClassifier", given(X), outputs=2, classlabels_ints=[0, 1], coefficients=[0.5, -0.25], kernel_params=[0.1, 0.5, 2.0], kernel_type="RBF", rho=[0.3], support_vectors=[float(v) for v in range(6)], vectors_per_class=[1, 1], **ML)

# One tree: x0 <= 0 ? (x1 <= 0.5 ? leaf : leaf) : leaf.
TREE = dict(nodes_treeids=[0] * 5, nodes_nodeids=[0, 1, 2, 3, 4], nodes_featureids=[0, 1, 0, 0, 0], nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
            nodes_truenodeids=[1, 3, 0, 0, 0], nodes_falsenodeids=[2, 4, 0, 0, 0])
SPLITS, LEAVES = [0.0, 0.5, 0.0, 0.0, 0.0], [1.5, -2.0, 4.0]


def leaf(x):
    return np.where(x[:, 0] <= 0, np.where(x[:, 1] <= 0.5, -2.0, 4.0), 1.5)


def tensor(values):
    return numpy_helper.from_array(np.array(values, np.float64))


TARGET = dict(target_ids=[0] * 3, target_nodeids=[2, 3, 4], target_treeids=[0] * 3, n_targets=1)
case("TreeEnsembleRegressor", given(X), nodes_values=SPLITS, target_weights=LEAVES, base_values=[0.25], want=lambda x: (leaf(x) + 0.25).astype(np.float32)[:, None], **TREE, **TARGET, **ML)
case("TreeEnsembleRegressor", given(X.astype(np.float64)), lo=3, hi=4, name="tensors", nodes_values_as_tensor=tensor(SPLITS), target_weights_as_tensor=tensor(LEAVES), want=lambda x: leaf(x).astype(np.float32)[:, None], **TREE, **TARGET, **ML)
CLASS = dict(class_ids=[0, 1, 2], class_nodeids=[2, 3, 4], class_treeids=[0] * 3, classlabels_int64s=[7, 8, 9])
case("TreeEnsembleClassifier", given(X), outputs=2, nodes_values=SPLITS, class_weights=[1.0, 2.0, 3.0], **TREE, **CLASS, **ML)
case("TreeEnsembleClassifier", given(X), lo=3, hi=4, name="tensors", outputs=2, nodes_values_as_tensor=numpy_helper.from_array(np.array(SPLITS, np.float32)),
     class_weights_as_tensor=numpy_helper.from_array(f32(1, 2, 3)), **TREE, **CLASS, **ML)
case("TreeEnsemble", given(X), tree_roots=[0], nodes_featureids=[0, 1], nodes_modes=numpy_helper.from_array(np.zeros(2, np.uint8)), nodes_splits=numpy_helper.from_array(f32(0, 0.5)), nodes_truenodeids=[1, 1],
     nodes_trueleafs=[0, 1], nodes_falsenodeids=[0, 2], nodes_falseleafs=[1, 1], leaf_targetids=[0, 0, 0], leaf_weights=numpy_helper.from_array(f32(1.5, -2, 4)), n_targets=1,
     want=lambda x: leaf(x).astype(np.float32)[:, None], **ML)
