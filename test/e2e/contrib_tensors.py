"""Cases of contrib.py: operators that move, sample and search; whole graphs."""
import numpy as np

from contrib_cases import R, case, given, graph, normal, single

for mode in ("bilinear", "nearest", "bicubic"):
    for padding, corners in (("zeros", 0), ("border", 1), ("reflection", 0)):
        case(f"grid_sample_{mode}_{padding}_{corners}", "GridSample", [given(normal(2, 3, 5, 6)), given(R.uniform(-1.3, 1.3, (2, 4, 7, 2)).astype(np.float32))], mode=mode, padding_mode=padding, align_corners=corners, limit=1e-4, refused="padding_mode" if (mode, padding) == ("bicubic", "border") else False)
case("grid_sample_bicubic", "GridSample", [given(normal(2, 3, 5, 6)), given(R.uniform(-1.3, 1.3, (2, 4, 7, 2)).astype(np.float32))], mode="bicubic", align_corners=1, limit=1e-4)
for mode in ("constant", "reflect", "edge"):
    case(f"pad_{mode}", "Pad", [given(normal(3, 4)), given(np.array([1, 2, 0, 1])), np.float32(7)], mode=mode)
case("pad_negative_rank_2", "Pad", [given(normal(5, 6)), given(np.array([[-1, 2, 0, -3]]))])
for kind in (np.float32, np.float64, np.int16, np.int32, np.int64):
    case(f"range_{np.dtype(kind).name}", "Range", [given(np.array(2, kind)), given(np.array([11], kind)), given(np.array([3], kind))])
case("range_no_delta", "Range", [given(np.array(2, np.int32)), given(np.array(5, np.int32))])
for upper in (0, 1):
    case(f"trilu_{upper}", "Trilu", [given(normal(2, 4, 5)), given(np.array(1))], upper=upper)
    case(f"trilu_no_k_{upper}", "Trilu", [given(R.integers(-9, 9, (4, 5)))], upper=upper)
case("unique", "Unique", [given(np.array([2, 1, 1, 3, 4, 3, -0.5], np.float32))], 3)
case("gather_nd", "GatherND", [given(normal(4, 5, 3)), given(np.array([[[0, 1]], [[3, 4]]], np.int32))])
case("expand_dims", "ExpandDims", [given(normal(3, 4)), given(np.array(1, np.int32))])
case("expand_dims_last", "ExpandDims", [given(R.integers(0, 9, (3, 4))), np.array(-1, np.int32)])
for metric in ("sqeuclidean", "euclidean"):
    case(f"cdist_{metric}", "CDist", [given(normal(7, 5)), given(normal(9, 5))], metric=metric)
case("cdist_double", "CDist", [given(R.standard_normal((7, 5))), R.standard_normal((4, 5))], metric="euclidean")
case("cdist_cosine", "CDist", [given(normal(7, 5)), given(normal(9, 5))], metric="cosine", refused="cosine")
case("unfold", "UnfoldTensor", [given(normal(3, 11, 2))], dim=1, size=4, step=3)
case("unfold_last", "UnfoldTensor", [given(R.integers(0, 9, (3, 8)))], size=8)
boxes = np.array([[0.1, 0.2, 0.9, 0.8], [0, 0, 1, 1], [-0.2, 0.5, 0.6, 1.3], [0.7, 0.9, 0.2, 0.1]], np.float32)
for mode in ("bilinear", "nearest"):
    case(f"crop_and_resize_{mode}", "CropAndResize", [given(normal(2, 3, 7, 9)), given(boxes), given(np.array([0, 1, 1, 0], np.int32)), np.array([4, 5], np.int32)], mode=mode, extrapolation_value=0.5, limit=1e-4)
case("crop_and_resize_one_row", "CropAndResize", [given(normal(2, 3, 7, 9)), given(boxes), given(np.array([0, 1, 1, 0], np.int32)), given(np.array([1, 3], np.int32))], limit=1e-4)
tokens = np.array([[1, 2, 3, 1, 2, 3, 4, 1, 2], [5, 5, 5, 5, 5, 5, 5, 5, 5]])
for n in (1, 2, 3, 12):
    case(f"ngram_repeat_block_{n}", "NGramRepeatBlock", [given(tokens), given(normal(2, 8))], ngram_size=n)
for n in (1, 2, 3, 5):
    case(f"inverse_{n}", "Inverse", [given(normal(2, 3, n, n))], limit=1e-4)
case("inverse_pivots", "Inverse", [given(np.array([[0, 2, 0], [0, 0, 3], [4, 0, 0]], np.float32))])
case("inverse_double", "Inverse", [given(R.standard_normal((6, 6)))], limit=1e-10)
case("inverse_large", "Inverse", [given(normal(40, 40))], refused="40")
x = normal(2, 3, 10)
half = np.fft.rfft(x)
case("rfft", "Rfft", [given(x)], normalized=0, onesided=1, signal_ndim=1, want=single(np.stack([half.real, half.imag], -1)))
case("irfft", "Irfft", [given(np.stack([half.real, half.imag], -1).astype(np.float32))], normalized=0, onesided=1, signal_ndim=1, want=[x])
case("rfft_normalised", "Rfft", [given(x)], normalized=1, signal_ndim=1, refused="normalized")
a, b = normal(3, 4, 2), normal(4, 2)
ca, cb = a[..., 0] + 1j * a[..., 1], b[..., 0] + 1j * b[..., 1]
for name, y in (("", ca * cb), ("Conj", ca * cb.conj())):
    case(f"complex_mul{name.lower()}", f"ComplexMul{name}", [given(a), given(b)], want=single(np.stack([y.real, y.imag], -1)))
bad = np.array([1, np.inf, 2], np.float32)
case("is_all_finite", "IsAllFinite", [given(bad[:1]), given(bad)], want=[np.array(False)])
case("is_all_finite_nan_only", "IsAllFinite", [given(bad[:1]), given(bad)], isnan_only=1, want=[np.array(True)])
case("max_pool_with_mask", "MaxpoolWithMask", [given(normal(1, 1, 4, 4)), given(np.ones((1, 1, 4, 4), np.int32))], kernel_shape=[2, 2], refused=True)

# Nothing is said of the values in between: their types and ranks are found.
graph("chain_of_quantised", """
<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
chain (uint8[2,5,6,4] x) => (uint8[] y)
<float s = {0.05}, uint8 z = {120}, float t = {0.01}>
{
  a = com.microsoft.QLinearAdd (x, s, z, x, s, z, s, z)
  b = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], channels_last = 1> (a, s, z, s, z)
  c = com.microsoft.QLinearGlobalAveragePool <channels_last = 1> (b, s, z, t, z)
  d = com.microsoft.QLinearSigmoid (c, t, z, t, z)
  y = com.microsoft.QLinearConcat <axis = -1> (s, z, d, t, z, c, t, z)
}""", {"x": R.integers(0, 256, (2, 5, 6, 4)).astype(np.uint8)}, limit=1)
graph("chain_of_layers", """
<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
chain (float[b,s,32] x, int32[b] m, float[32,96] w, float[96] c, float[32] g) => (float[] y)
{
  a = com.microsoft.Attention <num_heads = 4> (x, w, c, m)
  n = com.microsoft.SkipLayerNormalization (a, x, g, g)
  f = com.microsoft.FastGelu (n)
  d = com.microsoft.FusedMatMul <transB = 1, transBatchA = 0> (f, n)
  y = com.microsoft.MultiHeadAttention <num_heads = 2> (f, n, a)
}""", {"x": normal(2, 5, 32), "m": np.array([3, 5], np.int32), "w": normal(32, 96, scale=0.2), "c": normal(96), "g": normal(32)}, limit=1e-4)
graph("inside_a_branch", """
<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
branch (bool p, float[4,4,3] x) => (float[] y)
<float[3] c = {1, 2, 3}>
{
  t = com.microsoft.BiasGelu (x, c)
  y = If (p) <
    then_branch = then () => (float[] u) { u = com.microsoft.FusedMatMul <transBatchA = 1, transB = 1> (t, t) },
    else_branch = other () => (float[] v) { h = com.microsoft.QuickGelu (t)  v = com.microsoft.FusedMatMul <transBatchA = 1, transB = 1> (h, t) }>
}""", {"p": np.array(True), "x": normal(4, 4, 3)})
