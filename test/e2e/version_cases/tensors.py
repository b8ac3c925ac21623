"""Movement, indexing, reductions, constants: attributes that became inputs, defaults of axes, indices that counted from the end or did not."""
import numpy as np
from onnx import helper, numpy_helper

from .table import case, f32, given, graph, i64, ints, mask, normal, uniform

X = normal(2, 3, 4)

# Shapes.
case("Reshape", given(X), hi=1, want=lambda x: x.reshape(3, 8), shape=[3, -1])
case("Reshape", given(X), hi=1, name="zero", want=lambda x: x.reshape(2, 12), shape=[0, -1], consumed_inputs=[0])
case("Reshape", given(normal(1, 1)), hi=1, name="scalar", want=lambda x: x.reshape(()), shape=[])
case("Reshape", given(X), hi=1, name="no_shape", refused="shape")
case("Reshape", given(X), i64(0, -1), lo=5, want=lambda x, s: x.reshape(2, 12))
case("Reshape", given(X), given(i64(4, 6)), lo=5, name="run_time", want=lambda x, s: x.reshape(4, 6))
case("Reshape", given(np.zeros((0, 3), np.float32)), i64(3, 0), lo=14, name="allowzero", want=lambda x, s: x.reshape(3, 0), allowzero=1)
for op, want in (("Squeeze", lambda x, *_: x.reshape(3, 4)), ("Unsqueeze", lambda x, *_: x.reshape(1, 3, 1, 4))):
    x = normal(1, 3, 1, 4) if op == "Squeeze" else normal(3, 4)
    case(op, given(x), hi=12, want=want, axes=[0, 2])
    case(op, given(x), lo=11, hi=12, name="negative", want=want, axes=[-4, -2])
    case(op, given(x), i64(0, 2), lo=13, want=want)
    case(op, given(x), given(i64(0, -2)), lo=13, name="run_time", want=want)
case("Squeeze", given(normal(1, 3, 1, 4)), name="all", want=lambda x: x.reshape(3, 4))
case("Flatten", given(X), want=lambda x: x.reshape(2, 12))
case("Flatten", given(X), name="front", axis=0, want=lambda x: x.reshape(1, 24))
case("Flatten", given(X), name="back", axis=3, want=lambda x: x.reshape(24, 1))
case("Flatten", given(X), lo=11, name="negative", axis=-1, want=lambda x: x.reshape(6, 4))
case("Transpose", given(X), want=lambda x: x.transpose(2, 1, 0))
case("Transpose", given(X), name="perm", perm=[1, 0, 2], want=lambda x: x.transpose(1, 0, 2))
case("Shape", given(X), want=lambda x: i64(2, 3, 4))
case("Shape", given(X), lo=15, name="part", start=1, end=-1, want=lambda x: i64(3))
case("Size", given(X), want=lambda x: np.array(24, np.int64))
case("Identity", given(X), want=lambda x: x)
graph("Identity", "g (float[2,3] x) => (float[2,3] y) { s = SequenceConstruct(x, x) t = Identity(s) i = Constant<value = int64 {1}>() y = SequenceAt(t, i) }", given(normal(2, 3)), lo=14, name="sequence", want=lambda x: x)
graph("Identity", "g (float[2,3] x) => (float[2,3] y) { s = Optional(x) t = Identity(s) y = OptionalGetElement(t) }", given(normal(2, 3)), lo=16, name="optional", want=lambda x: x)

# Constants.
VALUE = normal(2, 3)
case("Constant", want=lambda: VALUE, value=numpy_helper.from_array(VALUE))
case("Constant", lo=11, name="sparse", want=lambda: f32(0, 1.5, 0, -2), ort=False,
     sparse_value=helper.make_sparse_tensor(numpy_helper.from_array(f32(1.5, -2), "v"), numpy_helper.from_array(i64(1, 3), "i"), [4]))
case("Constant", lo=12, name="float", want=lambda: np.array(2.5, np.float32), value_float=2.5)
case("Constant", lo=12, name="ints", want=lambda: i64(3, 1), value_ints=[3, 1])
case("Constant", lo=12, name="int", want=lambda: np.array(7, np.int64), value_int=7)
case("Constant", lo=12, name="floats", want=lambda: f32(3, 1), value_floats=[3.0, 1.0])
case("Constant", lo=12, name="strings", want=lambda: np.array(["a", "b"], object), value_strings=["a", "b"])
case("ConstantOfShape", given(i64(2, 3)), want=lambda s: np.zeros((2, 3), np.float32))
case("ConstantOfShape", given(i64(2, 3)), name="value", want=lambda s: np.full((2, 3), 7, np.int32), value=numpy_helper.from_array(np.array([7], np.int32)))
case("EyeLike", given(normal(3, 4)), k=1, want=lambda x: np.eye(3, 4, 1, dtype=np.float32))
case("Range", given(np.array(1, np.int64)), given(np.array(10, np.int64)), given(np.array(3, np.int64)), want=lambda a, b, d: np.arange(a, b, d))
case("Range", given(np.float32(1)), given(np.float32(2)), given(np.float32(0.25)), name="float", want=lambda a, b, d: np.arange(a, b, d, dtype=np.float32))
case("Trilu", given(normal(4, 5)), np.array(1, np.int64), want=lambda x, k: np.triu(x, 1))
for op in ("BlackmanWindow", "HammingWindow", "HannWindow"):
    case(op, given(np.array(9, np.int64)))
case("MelWeightMatrix", given(np.array(4, np.int64)), given(np.array(16, np.int64)), given(np.array(8000, np.int64)), given(np.float32(50)), given(np.float32(3000)))

# Joining and cutting.
case("Concat", given(X), given(normal(2, 5, 4)), hi=1, want=lambda a, b: np.concatenate([a, b], 1))
case("Concat", given(X), given(normal(5, 3, 4)), hi=1, name="axis", axis=0, want=lambda a, b: np.concatenate([a, b], 0))
case("Concat", given(X), given(normal(2, 5, 4)), lo=4, axis=1, want=lambda a, b: np.concatenate([a, b], 1))
case("Concat", given(X), given(normal(2, 3, 1)), lo=11, name="negative", axis=-1, want=lambda a, b: np.concatenate([a, b], 2))
cut = lambda *at: lambda x, *_: tuple(np.split(x, at, 1))  # noqa: E731
L = normal(2, 6, 3)
case("Split", given(L), hi=1, outputs=3, axis=1, want=cut(2, 4))
case("Split", given(L), hi=1, name="attribute", outputs=2, axis=1, split=[1, 5], want=cut(1))
case("Split", given(L), f32(2, 4), hi=1, name="input", outputs=2, axis=1, want=cut(2))
case("Split", given(L), hi=1, name="no_axis", outputs=2, refused="axis")
case("Split", given(L), lo=2, hi=12, outputs=2, want=lambda x: tuple(np.split(x, 2, 0)))
case("Split", given(L), lo=2, hi=12, name="attribute", outputs=2, axis=1, split=[1, 5], want=cut(1))
case("Split", given(L), lo=11, hi=12, name="negative", outputs=2, axis=-2, split=[1, 5], want=cut(1))
case("Split", given(L), i64(1, 5), lo=13, outputs=2, axis=1, want=cut(1))
case("Split", given(L), lo=13, hi=13, name="equal", outputs=3, axis=1, want=cut(2, 4))
case("Split", given(L), lo=18, name="num_outputs", outputs=4, axis=1, num_outputs=4, want=cut(2, 4, 6))
case("Slice", given(X), hi=1, want=lambda x: x[:, 1:3, 0:2], axes=[1, 2], starts=[1, 0], ends=[3, 2])
case("Slice", given(X), hi=1, name="no_axes", want=lambda x: x[1:2, :-1], starts=[1, 0], ends=[9, -1])
case("Slice", given(X), hi=1, name="beyond", want=lambda x: x[:, :, -3:], axes=[2], starts=[-3], ends=[2147483647])
case("Slice", given(X), i64(3, 2), i64(-9, 0), i64(2, 1), i64(-2, -1), lo=10, name="backward", want=lambda x, *_: x[:, 2:0:-1, 3::-2])
case("Slice", given(X), given(i64(1)), given(i64(3)), given(i64(1)), lo=10, name="run_time", want=lambda x, *_: x[:, 1:3])
case("Slice", given(X), i64(1), i64(3), i64(-2), lo=11, name="negative", want=lambda x, *_: x[:, 1:3])
pad = lambda mode, **k: lambda x, *_: np.pad(x, ((0, 0), (1, 2), (0, 1)), mode, **k)  # noqa: E731
PADS = [0, 1, 0, 0, 2, 1]
for lo, hi, word in ((1, 1, "paddings"), (2, 2, "pads")):
    case("Pad", given(X), lo=lo, hi=hi, want=pad("constant"), **{word: PADS})
    case("Pad", given(X), lo=lo, hi=hi, name="value", want=pad("constant", constant_values=1.5), value=1.5, **{word: PADS})
    case("Pad", given(X), lo=lo, hi=hi, name="reflect", want=pad("reflect"), mode="reflect", **{word: PADS})
    case("Pad", given(X), lo=lo, hi=hi, name="edge", want=pad("edge"), mode="edge", **{word: PADS})
case("Pad", given(X), lo=2, hi=2, name="negative", want=lambda x: x[:, 1:, :-1], pads=[0, -1, 0, 0, 0, -1])
case("Pad", given(X), np.array(PADS), np.float32(1.5), lo=11, want=pad("constant", constant_values=1.5))
case("Pad", given(ints(0, 9, 2, 3, 4)), given(np.array(PADS)), lo=11, name="edge", want=pad("edge"), mode="edge")
case("Pad", given(X), i64(1, 2), None, i64(1), lo=18, name="axes", want=lambda x, *_: np.pad(x, ((0, 0), (1, 2), (0, 0))))
case("Pad", given(X), np.array(PADS), lo=19, name="wrap", want=pad("wrap"), mode="wrap")
case("Tile", given(X), np.float32(3), np.float32(1), hi=1, want=lambda x, *_: np.tile(x, (1, 3, 1)))
case("Tile", given(X), f32(2), f32(2), hi=1, name="one_element", want=lambda x, *_: np.tile(x, (1, 1, 2)))
case("Tile", given(X), given(np.float32(2)), np.float32(0), hi=1, name="run_time", want=lambda x, *_: np.tile(x, (2, 1, 1)))
case("Tile", given(X), np.float32(2), given(np.float32(1)), hi=1, name="run_time_axis", refused="axis")
case("Tile", given(X), i64(1, 2, 3), lo=6, want=lambda x, r: np.tile(x, r))
case("DepthToSpace", given(normal(1, 8, 2, 3)), blocksize=2)
case("DepthToSpace", given(normal(1, 8, 2, 3)), lo=11, name="crd", blocksize=2, mode="CRD")
case("SpaceToDepth", given(normal(1, 2, 4, 6)), blocksize=2)
case("SpaceToDepth", given(normal(1, 2, 4, 6)), lo=28, name="crd", blocksize=2, mode="CRD",
     want=lambda x: x.reshape(1, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(1, 8, 2, 3))
case("CenterCropPad", given(normal(5, 4, 3)), i64(3, 6), axes=[0, 1])
case("ReverseSequence", given(normal(4, 3, 2)), i64(4, 2, 1))
case("ReverseSequence", given(normal(3, 4, 2)), i64(4, 2, 1), name="axes", batch_axis=0, time_axis=1)

# Resizing: Upsample took the nearest below and so did the first Resize.
I = normal(1, 2, 3, 4)  # noqa: E741


def nearest(h, w):
    return lambda x, *_: x[:, :, np.floor(np.arange(int(3 * h)) / np.float32(h)).astype(int)][..., np.floor(np.arange(int(4 * w)) / np.float32(w)).astype(int)]


def linear(h, w):
    def axis(n, s):
        at = np.minimum(np.arange(int(n * s)) / s, n - 1)
        low = np.floor(at).astype(int)
        return low, np.minimum(low + 1, n - 1), at - low

    def run(x, *_):
        a, b, t = axis(3, h)
        x = x[:, :, a] * (1 - t)[:, None] + x[:, :, b] * t[:, None]
        a, b, t = axis(4, w)
        return (x[..., a] * (1 - t) + x[..., b] * t).astype(np.float32)
    return run


case("Upsample", given(I), hi=1, want=nearest(2, 3), height_scale=2.0, width_scale=3.0)
case("Upsample", given(I), hi=1, name="fraction", want=nearest(1.5, 1.75), height_scale=1.5, width_scale=1.75)
case("Upsample", given(I), hi=1, name="bilinear", want=linear(2, 3), mode="bilinear", height_scale=2.0, width_scale=3.0)
case("Upsample", given(I), lo=7, hi=7, want=nearest(1.5, 2), scales=[1.0, 1.0, 1.5, 2.0])
case("Upsample", given(I), lo=7, hi=7, name="linear", want=linear(2, 3), mode="linear", scales=[1.0, 1.0, 2.0, 3.0])
case("Upsample", given(I), f32(1, 1, 1.5, 2), lo=9, hi=9, want=nearest(1.5, 2))
case("Upsample", given(I), given(f32(1, 1, 2, 3)), lo=9, hi=9, name="run_time", want=linear(2, 3), mode="linear")
case("Upsample", given(I), f32(1, 1, 1.5, 2), lo=10, refused="Upsample")
case("Resize", given(I), f32(1, 1, 1.5, 2), hi=10, want=nearest(1.5, 2))
case("Resize", given(I), f32(1, 1, 2, 3), hi=10, name="linear", want=linear(2, 3), mode="linear")
case("Resize", given(normal(1, 1, 6, 8)), f32(1, 1, 0.5, 0.75), hi=10, name="down", mode="linear")
EMPTY = np.zeros(0, np.float32)
for mode, more in (("nearest", {}), ("nearest", {"nearest_mode": "ceil"}), ("linear", {}), ("cubic", {}), ("linear", {"coordinate_transformation_mode": "align_corners"}), ("cubic", {"coordinate_transformation_mode": "pytorch_half_pixel", "exclude_outside": 1})):
    tag = "_".join([mode, *map(str, more.values())])
    case("Resize", given(I), EMPTY, f32(1, 1, 2, 1.5), lo=11, hi=17, name=tag, mode=mode, limit=1e-4, **more)
    case("Resize", given(I), None, None, i64(1, 2, 5, 7), lo=13, name=tag + "_sizes", mode=mode, limit=1e-4, **more)
case("Resize", given(I), EMPTY, EMPTY, i64(1, 2, 5, 7), lo=11, hi=11, name="sizes", mode="linear")
case("Resize", given(I), f32(0, 0, 0.2, 0.1, 1, 1, 0.8, 0.9), EMPTY, i64(1, 2, 5, 6), lo=11, hi=11, name="crop", mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=2.0)


def tf_half_pixel(round_, h, w):
    """(x + 0.5) / scale, which version 13 dropped."""
    at = lambda n, m: np.clip(round_((np.arange(m) + 0.5) * n / m), 0, n - 1).astype(int)  # noqa: E731
    return lambda x, *_: x[:, :, at(3, h)][..., at(4, w)]


case("Resize", given(I), EMPTY, EMPTY, i64(1, 2, 7, 9), lo=11, hi=11, name="tf_floor", want=tf_half_pixel(np.floor, 7, 9), coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor")
case("Resize", given(I), EMPTY, EMPTY, i64(1, 2, 2, 3), lo=11, hi=11, name="tf_down", want=tf_half_pixel(np.floor, 2, 3), coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor")
case("Resize", given(I), EMPTY, EMPTY, i64(1, 2, 7, 9), lo=11, hi=11, name="tf_prefer_floor", want=tf_half_pixel(lambda v: np.ceil(v - 0.5), 7, 9), coordinate_transformation_mode="tf_half_pixel_for_nn")
case("Resize", given(I), EMPTY, EMPTY, i64(1, 2, 7, 9), lo=11, hi=11, name="tf_ceil", refused="tf_half_pixel_for_nn", coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="ceil")
case("Resize", given(I), EMPTY, EMPTY, i64(1, 2, 7, 9), lo=11, hi=11, name="tf_linear", refused="tf_half_pixel_for_nn", mode="linear", coordinate_transformation_mode="tf_half_pixel_for_nn")
case("Resize", given(I), None, f32(2), None, lo=18, name="axes", axes=[3], mode="linear")
case("Resize", given(normal(1, 1, 8, 8)), None, None, i64(1, 1, 4, 5), lo=18, name="antialias", mode="linear", antialias=1, limit=1e-4)
case("Resize", given(I), None, None, i64(7, 7), lo=18, name="aspect", axes=[2, 3], keep_aspect_ratio_policy="not_larger", mode="nearest")
case("Resize", given(I), None, None, i64(1, 2, 5, 7), lo=19, name="symmetric", mode="linear", coordinate_transformation_mode="half_pixel_symmetric")

# Indexing.
D = normal(4, 5, 3)
case("Gather", given(D), given(ints(0, 4, 2, 2)), want=lambda x, i: x[i])
case("Gather", given(D), ints(0, 5, 3, dtype=np.int32), name="axis", axis=1, want=lambda x, i: x[:, i])
case("Gather", given(D), given(i64(-1, 0, -4)), lo=11, name="negative", want=lambda x, i: x[i])
case("GatherElements", given(D), given(ints(-4, 4, 2, 5, 3)), axis=0, want=lambda x, i: np.take_along_axis(x, i % 4, 0))
case("GatherND", given(D), given(np.array([[0, 1], [-1, -2]])), want=lambda x, i: x[tuple(i.T)])
case("GatherND", given(D), given(ints(0, 5, 4, 1)), lo=12, name="batch", batch_dims=1, want=lambda x, i: x[np.arange(4), i[:, 0]])


def put(x, i, u, f=lambda old, new: new):
    y = x.copy()
    for at in np.ndindex(*i.shape):
        to = (at[0], i[at] % x.shape[1], at[2])
        y[to] = f(y[to], u[at])
    return y


WHERE = np.stack([np.array([[0, 3, -1], [1, 4, 2]])] * 4)
case("Scatter", given(D), given(np.abs(WHERE)), given(normal(4, 2, 3)), hi=9, axis=1, want=put)
case("Scatter", given(D), given(np.abs(WHERE)), given(normal(4, 2, 3)), lo=11, axis=1, refused="Scatter")
case("ScatterElements", given(D), given(WHERE), given(normal(4, 2, 3)), axis=1, want=put)
for name, f, lo in (("add", np.add, 16), ("mul", np.multiply, 16), ("max", np.maximum, 18), ("min", np.minimum, 18)):
    case("ScatterElements", given(D), given(np.zeros_like(WHERE)), given(normal(4, 2, 3)), lo=lo, name=name, axis=1, reduction=name, want=lambda x, i, u, f=f: put(x, i, u, f), limit=1e-4)
    case("ScatterND", given(normal(5, 2)), np.array([[1], [3], [1]]), given(normal(3, 2)), lo=lo, name=name, reduction=name)
case("ScatterND", given(normal(5, 2)), np.array([[1], [-1]]), given(normal(2, 2)))
depths = lambda n: lambda i, d, v: np.where(i[..., None] == np.arange(n), v[1], v[0])  # noqa: E731
case("OneHot", given(i64(0, 2, 1)), np.array(4, np.int64), f32(0.5, 2), want=depths(4))
case("OneHot", given(f32(0, 2, 1)), np.array(4, np.int64), i64(0, 1), name="float", want=depths(4))
case("OneHot", given(i64(0, 9, 1)), np.array(4, np.int64), f32(0, 1), name="beyond", want=depths(4))
case("OneHot", given(i64(0, 2, 1)), given(np.array(4, np.int64)), f32(0, 1), name="run_time", axis=0, want=lambda i, d, v: depths(4)(i, d, v).T)
# Anything outside [0, depth) was off before version 11; onnxruntime counts from the end in every version.
case("OneHot", given(i64(0, -1, -4)), np.array(4, np.int64), f32(0, 1), hi=9, name="negative", want=depths(4), ort=False)
case("OneHot", given(f32(0, -1, 3)), np.array(4, np.int64), f32(0, 1), hi=9, name="negative_float", want=depths(4), ort=False)
case("OneHot", given(i64(0, -1, -4)), np.array(4, np.int64), f32(0, 1), lo=11, name="negative", want=lambda i, d, v: depths(4)(i % 4, d, v))
case("Compress", given(D), given(np.array([True, False, True])), axis=1, want=lambda x, c: x[:, [0, 2]])
case("Compress", given(D), given(np.array([True, False, True])), name="flat", want=lambda x, c: x.ravel()[[0, 2]])
case("NonZero", given(np.array([[1, 0, 3], [0, 0, 2]], np.float32)), want=lambda x: np.array(np.nonzero(x)))
case("Unique", given(i64(2, 1, 1, 3, 4, 3)), outputs=4)
case("Unique", given(f32(2, 1, 1, 3, 4, 3)), name="unsorted", outputs=4, sorted=0)
S = normal(3, 7)


def top(k, axis=-1, sign=-1):
    def run(x, *_):
        i = np.argsort(sign * x, axis, kind="stable").take(range(k), axis)
        return np.take_along_axis(x, i, axis), i
    return run


case("TopK", given(S), hi=1, outputs=2, k=3, want=top(3))
case("TopK", given(S), hi=1, name="axis", outputs=2, k=2, axis=0, want=top(2, 0))
case("TopK", given(S), i64(3), lo=10, outputs=2, want=top(3))
case("TopK", given(S), given(i64(2)), lo=10, name="run_time", outputs=2, axis=0, want=top(2, 0))
case("TopK", given(S), i64(3), lo=11, name="smallest", outputs=2, largest=0, want=top(3, -1, 1))
case("TopK", given(ints(0, 999, 3, 7)), i64(3), lo=11, name="ints", outputs=2)
case("CumSum", given(S), np.array(1, np.int32), want=lambda x, a: np.cumsum(x, 1))
case("CumSum", given(S), np.array(-2, np.int64), name="reverse", reverse=1, exclusive=1)
case("CumProd", given(S), np.array(1, np.int32), want=lambda x, a: np.cumprod(x, 1))
case("NonMaxSuppression", given(np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6], [0, 5.05, 1, 6.05]]], np.float32)), given(np.array([[[0.9, 0.75, 0.6, 0.95]]], np.float32)), i64(3), f32(0.5), f32(0))
case("NonMaxSuppression", given(np.array([[[0.5, 0.5, 1, 1], [0.5, 0.6, 1, 1], [0.5, 5.5, 1, 1]]], np.float32)), given(np.array([[[0.9, 0.75, 0.6]]], np.float32)), i64(3), f32(0.5), name="center", center_point_box=1)

# Reductions: axes were an attribute up to version 13 (ReduceSum) or 18.
P = uniform(0.2, 2, 3, 4, 5)
REDUCTIONS = {"L1": lambda x, **k: np.abs(x).sum(**k), "L2": lambda x, **k: np.sqrt((x * x).sum(**k)), "LogSum": lambda x, **k: np.log(x.sum(**k)), "LogSumExp": lambda x, **k: np.log(np.exp(x).sum(**k)),
              "Max": np.max, "Min": np.min, "Mean": np.mean, "Prod": np.prod, "Sum": np.sum, "SumSquare": lambda x, **k: (x * x).sum(**k)}
for kind, f in REDUCTIONS.items():
    op, end = "Reduce" + kind, 12 if kind == "Sum" else 17
    want = lambda axes, keep, f=f: lambda x, *_: np.asarray(f(x, axis=axes, keepdims=keep)).astype(np.float32)  # noqa: E731
    case(op, given(P), name="all", want=want(None, True))
    case(op, given(P), name="flat", want=want(None, False), keepdims=0)
    case(op, given(P), hi=end, want=want((0, 2), True), axes=[0, 2])
    case(op, given(P), hi=end, name="drop", want=want((1,), False), axes=[1], keepdims=0)
    case(op, given(P), lo=11, hi=end, name="negative", want=want((1, 2), True), axes=[-1, -2])
    case(op, given(P), i64(0, -1), lo=end + 1, want=want((0, 2), True))
    case(op, given(P), given(i64(1)), lo=end + 1, name="run_time", want=want((1,), False), keepdims=0)
    case(op, given(P), np.zeros(0, np.int64), lo=end + 1, name="empty", want=want(None, True))
    case(op, given(P), np.zeros(0, np.int64), lo=end + 1, name="noop", want=want((), True), noop_with_empty_axes=1)
for op, f in (("ReduceMax", np.max), ("ReduceMin", np.min)):
    case(op, given(ints(-99, 99, 3, 4, dtype=np.int8)), lo=12, name="int8", want=lambda x, f=f: f(x, keepdims=True))
    case(op, given(mask(3, 4)), lo=20, name="bool", want=lambda x, f=f: f(x, keepdims=True))
TIES = np.array([[3, 1, 3, 1], [2, 2, 5, 5]], np.float32)
for op, f in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
    case(op, given(TIES), axis=1, want=lambda x, f=f: f(x, 1)[:, None])
    case(op, given(TIES), name="default", keepdims=0, want=lambda x, f=f: f(x, 0))
    case(op, given(TIES), lo=11, name="negative", axis=-1, keepdims=0, want=lambda x, f=f: f(x, 1))
    case(op, given(TIES), lo=12, name="last", axis=1, keepdims=0, select_last_index=1, want=lambda x, f=f: 3 - f(x[:, ::-1], 1))

# Products.
M, N, C = normal(4, 6), normal(6, 5), normal(4, 5)


def gemm(a, b, c, alpha=1.0, beta=1.0):
    return (alpha * a.astype(np.float64) @ b + beta * c).astype(np.float32)


case("Gemm", given(M), N, given(C), want=gemm)
case("Gemm", given(M.T), N.T, given(C), name="attributes", transA=1, transB=1, alpha=0.5, beta=2.0, want=lambda a, b, c: gemm(a.T, b.T, c, 0.5, 2.0))
for name, c in (("row", normal(5)), ("column", normal(4, 1)), ("scalar", normal(1))):
    case("Gemm", given(M), N, c, hi=6, name=name, want=gemm, broadcast=1)
    case("Gemm", given(M), N, c, lo=7, name=name, want=gemm)
case("Gemm", given(M), N, normal(5), hi=6, name="undeclared", refused="broadcast")
case("Gemm", given(ints(0, 9, 4, 6, dtype=np.int32)), ints(0, 9, 6, 5, dtype=np.int32), ints(0, 9, 5, dtype=np.int32), lo=9, name="int32", want=lambda a, b, c: a @ b + c)
case("Gemm", given(M), N, lo=11, name="without", want=lambda a, b: gemm(a, b, 0))
case("MatMul", given(normal(2, 3, 4)), given(normal(4, 5)), want=lambda a, b: a @ b)
case("MatMul", given(ints(0, 9, 4, 6, dtype=np.int32)), given(ints(0, 9, 6, 5, dtype=np.int32)), lo=9, name="int32", want=lambda a, b: a @ b)
case("MatMulInteger", given(ints(0, 255, 4, 6, dtype=np.uint8)), ints(0, 255, 6, 5, dtype=np.uint8), np.uint8(12), np.uint8(3))
case("Einsum", given(normal(2, 3, 4)), given(normal(2, 4, 5)), equation="bij,bjk->bik")
case("Det", given(normal(2, 3, 3)))
case("DFT", given(normal(2, 8, 3, 1)), hi=17, name="axis", axis=2)
case("DFT", given(normal(2, 8, 3, 1)), hi=17, name="default", want=lambda x: np.stack([(c := np.fft.fft(x[..., 0], axis=1)).real, c.imag], -1).astype(np.float32))
case("DFT", given(normal(2, 8, 3, 1)), lo=20, name="default", want=lambda x: np.stack([(c := np.fft.fft(x[..., 0], axis=2)).real, c.imag], -1).astype(np.float32))
case("DFT", given(normal(2, 8, 3, 1)), None, np.array(1, np.int64), lo=20, name="axis", onesided=1)
case("STFT", given(normal(1, 32, 1)), np.array(8, np.int64), None, np.array(16, np.int64), onesided=1, limit=1e-4)

# Strings.
WORDS = np.array(["a b", "Tea", "the end"], object)
case("StringConcat", given(WORDS), np.array(["x"], object), want=lambda a, b: np.array([k + "x" for k in a], object))
case("StringNormalizer", given(np.array(["monday", "tuesday", "wednesday"], object)), case_change_action="UPPER", is_case_sensitive=1, stopwords=["monday"])
case("StringSplit", given(WORDS), outputs=2)
case("RegexFullMatch", given(WORDS), pattern="T.a", want=lambda x: np.array([False, True, False]))
case("TfIdfVectorizer", given(np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int32)), mode="TF", min_gram_length=2, max_gram_length=2, max_skip_count=0, ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5, 6],
     pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7])
