"""What quantised graphs mean (dialects/Onnx/Numerics.md), operator by operator in numpy: nothing is fused.

A float tensor is two arrays: `v`, its float32 numbers, and `r`, the same before DequantizeLinear rounded them, in float64. Operators that sum read `r`,
elementwise ones `v`; what only moves elements moves both. Sums of integers are exact, others are
taken in float64; both are rounded to float32 once.
"""
import numpy as np

F32, F64 = np.float32, np.float64


class T:
    """`parts`: integers and scale whose product `r` is, where they are known."""

    def __init__(self, v, r=None, parts=None):
        self.v, self.parts = np.asarray(v), parts
        self.r = self.v.astype(F64) if r is None else r

    def move(self, f):
        d, s = self.parts or (None, None)
        keep = d is not None and (s.size == 1 or s.ndim == self.v.ndim)
        return T(f(self.v), f(self.r), (f(d), s if s.size == 1 else f(s)) if keep else None)


def product(f, x, w, axis=None):
    """f(x, w), linear in both: by the integers where scales can be taken out of its sums, w's along `axis` of the result."""
    if not x.parts or not w.parts or x.parts[1].size > 1 or (w.parts[1].size > 1 and axis is None):
        return f(x.r, w.r)
    y, s = f(x.parts[0], w.parts[0]), w.parts[1]
    if s.size > 1:
        shape = [1] * y.ndim
        shape[axis] = -1
        if s.size != y.shape[axis]:
            return f(x.r, w.r)
        s = s.reshape(shape)
    return y * (x.parts[1].reshape(()) * s)


def rounded(real):
    return T(np.asarray(real, F64).astype(F32))


def spread(p, x, axis, block):
    """A scale or zero point as an array that broadcasts against x."""
    p = np.asarray(p)
    if p.size == 1 and p.ndim <= 1:
        return p.reshape(())
    if block:
        return np.take(np.repeat(p, block, axis), range(x.shape[axis]), axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    return p.reshape(shape)


def limits(dtype):
    name = np.dtype(dtype).name
    bits = int("".join(c for c in name if c.isdigit()))
    return (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def quantize(x, scale, zero, axis=1, block=0, dtype=np.uint8):
    z = np.zeros((), dtype) if zero is None else zero
    q = np.rint(x / spread(scale, x, axis, block)).astype(F64) + spread(z, x, axis, block).astype(F64)
    return np.clip(q, *limits(z.dtype)).astype(np.int64).astype(z.dtype)


def dequantize(q, scale, zero, axis=1, block=0):
    d = q.astype(np.int64) - (0 if zero is None else spread(zero, q, axis, block).astype(np.int64))
    s = spread(scale, q, axis, block)
    return T(d.astype(F32) * s, d.astype(F64) * s.astype(F64), None if block else (d.astype(F64), s.astype(F64)))


def pads_of(a, x, kernel, strides, dilations):
    """Begin and end of each axis, by pads or auto_pad."""
    n = len(kernel)
    if a.get("auto_pad", "NOTSET") in ("NOTSET", "VALID"):
        p = a.get("pads", [0] * 2 * n)
        return p[:n], p[n:]
    begin, end = [], []
    for i in range(n):
        out = -(-x.shape[i + 2] // strides[i])
        total = max(0, (out - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - x.shape[i + 2])
        small = total // 2
        upper = a["auto_pad"] == "SAME_UPPER"
        begin.append(small if upper else total - small)
        end.append(total - small if upper else small)
    return begin, end


def taps(a, x, kernel, fill):
    """The input under each tap of a window: (tap index, array of the output's spatial shape)."""
    n = len(kernel)
    strides, dilations = a.get("strides", [1] * n), a.get("dilations", [1] * n)
    begin, end = pads_of(a, x, kernel, strides, dilations)
    x = np.pad(x, [(0, 0), (0, 0), *zip(begin, end)], constant_values=fill)
    out = [(x.shape[i + 2] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(n)]
    for tap in np.ndindex(*kernel):
        at = tuple(slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilations, out, strides))
        yield tap, x[(slice(None), slice(None), *at)]


def conv(a, x, w):
    g, m = a.get("group", 1), w.shape[0]
    y = 0
    for tap, part in taps(a, x, w.shape[2:], 0):
        part = part.reshape(x.shape[0], g, x.shape[1] // g, *part.shape[2:])
        k = w[(slice(None), slice(None), *tap)].reshape(g, m // g, -1)
        y = y + np.einsum("ngc...,gmc->ngm...", part, k)
    return y.reshape(y.shape[0], m, *y.shape[3:])


def conv_transpose(a, x, w):
    g, n = a.get("group", 1), w.ndim - 2
    strides, dilations, pads = a.get("strides", [1] * n), a.get("dilations", [1] * n), a.get("pads", [0] * 2 * n)
    m, kernel = w.shape[1], w.shape[2:]
    full = [(x.shape[i + 2] - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 for i in range(n)]
    y = np.zeros((x.shape[0], g, m, *full))
    xs = x.reshape(x.shape[0], g, x.shape[1] // g, *x.shape[2:])
    for tap in np.ndindex(*kernel):
        k = w[(slice(None), slice(None), *tap)].reshape(g, -1, m)
        at = tuple(slice(t * d, t * d + (s_in - 1) * s + 1, s) for t, d, s_in, s in zip(tap, dilations, x.shape[2:], strides))
        y[(slice(None), slice(None), slice(None), *at)] += np.einsum("ngc...,gcm->ngm...", xs, k)
    cut = tuple(slice(pads[i], full[i] - pads[n + i]) for i in range(n))
    return y.reshape(x.shape[0], g * m, *full)[(slice(None), slice(None), *cut)]


def with_bias(y, b):
    return y if b is None else y + b.r.reshape(1, -1, *[1] * (y.ndim - 2))


def gemm(a, x, w, c):
    x, w = (t.move(lambda v: v.T) if a.get(k) else t for t, k in ((x, "transA"), (w, "transB")))
    y = product(np.matmul, x, w, -1) * F64(F32(a.get("alpha", 1)))
    return rounded(y if c is None else y + c.r * F64(F32(a.get("beta", 1))))


def max_pool(a, x):
    return np.maximum.reduce([p for _, p in taps(a, x, a["kernel_shape"], -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min)])


def average_pool(a, x):
    total = sum(p for _, p in taps(a, x, a["kernel_shape"], 0))
    ones = np.ones_like(x) if not a.get("count_include_pad") else None
    count = np.prod(a["kernel_shape"]) if ones is None else sum(p for _, p in taps(a, ones, a["kernel_shape"], 0))
    return total / count


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype(F64)))


def elementwise(op, a, x):
    v = [t.v if t is not None else None for t in x]
    if op == "Clip":
        low, high = (v[1], v[2]) if len(v) > 1 else (F32(a.get("min", -3.4e38)), F32(a.get("max", 3.4e38)))
        return np.minimum(np.maximum(v[0], low), high)
    return {"Add": lambda: v[0] + v[1], "Sub": lambda: v[0] - v[1], "Mul": lambda: v[0] * v[1], "Relu": lambda: np.maximum(v[0], F32(0)),
            "LeakyRelu": lambda: np.where(v[0] < 0, v[0] * F32(a.get("alpha", 0.01)), v[0]), "Sigmoid": lambda: sigmoid(v[0]).astype(F32),
            "Tanh": lambda: np.tanh(v[0].astype(F64)).astype(F32)}[op]()


def slices(x):
    starts, ends, axes, steps = (list(t.v) for t in x[1:5])
    at = {int(ax): slice(int(s), int(e), int(st)) for s, e, ax, st in zip(starts, ends, axes, steps)}
    return x[0].move(lambda v: v[tuple(at.get(i, slice(None)) for i in range(v.ndim))])


def dynamic_quantize(x):
    low, high = np.minimum(x.min(), F32(0)), np.maximum(x.max(), F32(0))
    scale = F32((high - low) / F32(255))
    zero = np.uint8(np.rint(np.clip(-low / (scale or F32(1)), 0, 255)))
    return [T(quantize(x, scale or F32(1), zero)), T(scale), T(zero)]


def difference(q, zero, by_row=False):
    q = q.v.astype(np.int64)
    if zero is None:
        return q
    z = zero.v.astype(np.int64)
    return q - (z.reshape(-1, 1) if by_row and z.ndim else z)


def microsoft(op, a, x):
    """com.microsoft: dequantise, compute, quantise."""
    def real(i):
        return dequantize(x[i].v, x[i + 1].v, x[i + 2].v if x[i + 2] is not None else None)

    def back(t, s, z):
        return T(quantize(t.v, x[s].v, x[z].v))

    if op in ("QLinearAdd", "QLinearMul"):
        return back(T(elementwise(op[7:], a, [real(0), real(3)])), 6, 7)
    if op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        return back(T(elementwise(op[7:], a, [real(0)])), 3, 4)
    if op == "QLinearSoftmax":
        return back(rounded(softmax(real(0).r, a["axis"])), 3, 4)
    if op == "QLinearGlobalAveragePool":
        return back(rounded(real(0).r.mean((2, 3), keepdims=True)), 3, 4)
    if op == "QLinearAveragePool":
        return back(rounded(average_pool(a, real(0).r)), 3, 4)
    if op == "QLinearConcat":
        return back(T(np.concatenate([real(i).v for i in range(2, len(x), 3)], a["axis"])), 0, 1)
    assert op == "QGemm", op
    sums = difference(x[0], x[2]) @ (difference(x[3], x[5]).T if a.get("transB") else difference(x[3], x[5]))
    if x[6] is not None:
        sums = sums + x[6].v
    return back(rounded(sums.astype(F64) * (F64(x[1].v) * x[4].v.astype(F64) * F64(F32(a.get("alpha", 1))))), 7, 8)


def evaluate(op, domain, a, x, opset):
    """Results of one node; x holds T or None."""
    get = lambda i: x[i] if i < len(x) else None  # noqa: E731
    raw = lambda i: None if get(i) is None else x[i].v  # noqa: E731
    if domain:
        return [microsoft(op, a, x)]
    if op == "QuantizeLinear":
        return [T(quantize(x[0].v, x[1].v, raw(2), a.get("axis", 1), a.get("block_size", 0)))]
    if op == "DequantizeLinear":
        return [dequantize(x[0].v, x[1].v, raw(2), a.get("axis", 1), a.get("block_size", 0))]
    if op == "Conv":
        return [rounded(with_bias(product(lambda p, q: conv(a, p, q), x[0], x[1], 1), get(2)))]
    if op == "ConvTranspose":
        return [rounded(with_bias(product(lambda p, q: conv_transpose(a, p, q), x[0], x[1], 1), get(2)))]
    if op == "MatMul":
        return [rounded(product(np.matmul, x[0], x[1], -1))]
    if op == "Gemm":
        return [gemm(a, x[0], x[1], get(2))]
    if op == "QLinearConv":
        sums = conv(a, difference(x[0], x[2]), dequantize(x[3].v, np.ones_like(x[4].v), raw(5), 0).r.astype(np.int64))
        channels = (1, -1, *[1] * (sums.ndim - 2))
        if get(8) is not None:
            sums = sums + x[8].v.astype(np.int64).reshape(channels)
        factor = F64(x[1].v) * x[4].v.astype(F64)
        return [T(quantize(rounded(sums * (factor.reshape(channels) if factor.size > 1 else factor)).v, x[6].v, raw(7)))]
    if op == "QLinearMatMul":
        sums = difference(x[0], x[2]) @ difference(x[3], x[5])
        return [T(quantize(rounded(sums * (F64(x[1].v) * x[4].v.astype(F64))).v, x[6].v, raw(7)))]
    if op == "DynamicQuantizeLinear":
        return dynamic_quantize(x[0].v)
    if op == "MatMulInteger":
        return [T((difference(x[0], get(2)) @ difference(x[1], get(3))).astype(np.int32))]
    if op == "ConvInteger":
        return [T(conv(a, difference(x[0], get(2)), difference(x[1], get(3))).astype(np.int32))]
    if op == "Cast":
        return [T(x[0].v.astype(F32))]
    if op in ("MaxPool",):
        return [x[0].move(lambda v: max_pool(a, v))]
    if op == "AveragePool":
        return [rounded(average_pool(a, x[0].r))]
    if op == "GlobalAveragePool":
        return [rounded(x[0].r.mean(tuple(range(2, x[0].r.ndim)), keepdims=True))]
    if op == "ReduceMean":
        axes = tuple(int(i) for i in (a["axes"] if "axes" in a else x[1].v))
        return [rounded(x[0].r.mean(axes, keepdims=bool(a.get("keepdims", 1))))]
    if op == "Softmax":
        return [rounded(softmax(x[0].r, a["axis"]))]
    if op == "Concat":
        return [T(np.concatenate([t.v for t in x], a["axis"]), np.concatenate([t.r for t in x], a["axis"]))]
    if op == "Reshape":
        return [x[0].move(lambda v: v.reshape([int(d) for d in x[1].v]))]
    if op == "Flatten":
        return [x[0].move(lambda v: v.reshape(int(np.prod(v.shape[:a["axis"]])), -1))]
    if op == "Transpose":
        return [x[0].move(lambda v: v.transpose(a["perm"]))]
    if op == "Slice":
        return [slices(x)]
    if op == "Pad":
        n = x[0].v.ndim
        return [x[0].move(lambda v: np.pad(v, list(zip(x[1].v[:n], x[1].v[n:]))))]
    return [T(elementwise(op, a, x))]
