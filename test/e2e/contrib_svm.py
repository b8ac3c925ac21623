"""Cases of contrib.py: SVMClassifier of ai.onnx.ml."""
import numpy as np

from contrib_cases import R, case, given, normal


def svm(name, classes, per_class=4, features=3, kind="RBF", proba=False, strings=False, dtype=np.float32, refused=False, **attributes):
    vectors, pairs = per_class * classes, classes * (classes - 1) // 2
    labels = {"classlabels_strings": [f"c{i}" for i in range(classes)]} if strings else {"classlabels_ints": [int(v) for v in R.permutation(10 * classes)[:classes]]}
    if proba:
        attributes |= {"prob_a": [float(v) for v in R.uniform(-2, -0.5, pairs)], "prob_b": [float(v) for v in R.uniform(-0.3, 0.3, pairs)]}
    x = (R.integers(-3, 4, (13, features)) if np.dtype(dtype).kind == "i" else R.standard_normal((13, features))).astype(dtype)
    case(name, "ai.onnx.ml.SVMClassifier", [given(x)], 2, limit=1e-5, refused=refused, kernel_type=kind, kernel_params=[0.4, 0.3, 3.0], coefficients=[float(v) for v in R.standard_normal((classes - 1) * vectors)],
         support_vectors=[float(v) for v in R.standard_normal(vectors * features)], vectors_per_class=[per_class] * classes, rho=[float(v) for v in R.standard_normal(pairs)], **labels, **attributes)


for kind in ("LINEAR", "POLY", "RBF", "SIGMOID"):
    svm(f"svm_two_{kind.lower()}", 2, kind=kind)
    svm(f"svm_four_{kind.lower()}", 4, kind=kind, strings=True)
for post in ("NONE", "LOGISTIC", "SOFTMAX"):
    svm(f"svm_two_{post.lower()}", 2, post_transform=post, refused="SOFTMAX" if post == "SOFTMAX" else False)
    svm(f"svm_three_{post.lower()}", 3, post_transform=post)
    svm(f"svm_three_probabilities_{post.lower()}", 3, post_transform=post, proba=True)
svm("svm_two_probabilities", 2, proba=True, strings=True)
svm("svm_five_probabilities", 5, proba=True)
svm("svm_integers", 3, dtype=np.int64)
svm("svm_integers_32", 3, dtype=np.int32, proba=True)
svm("svm_double", 3, dtype=np.float64)
svm("svm_post_transform", 3, post_transform="PROBIT", refused="PROBIT")
svm("svm_kernel", 3, kind="FOO", refused="kernel_type")
case("svm_linear", "ai.onnx.ml.SVMClassifier", [given(normal(13, 4))], 2, classlabels_ints=[3, 7, 5], coefficients=[float(v) for v in R.standard_normal(12)], rho=[0.25], kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0])
case("svm_linear_two", "ai.onnx.ml.SVMClassifier", [given(normal(13, 4))], 2, classlabels_ints=[3, 7], coefficients=[float(v) for v in R.standard_normal(8)], rho=[0.25], kernel_type="LINEAR", refused="2 classes")
