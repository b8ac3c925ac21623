"""The operators of quantised_random.py: each takes a graph and a quantised tensor and gives the next."""
import numpy as np

from quantised_oracle import limits

F32 = np.float32
STEPS, WHERE = [], {}
WEIGHTS = {"conv": 7, "qlinear_conv": 3, "conv_transpose": 2, "matmul": 2, "gemm": 4, "max_pool": 2}


def step(ranks, eight=False, opset=11):
    """Ranks of the tensor that it fits, whether it must be of 8 bits, the first operator set."""
    def add(f):
        STEPS.append(f)
        WHERE[f] = ranks, eight, opset
        return f
    return add


def fits(g, s, t, rank):
    ranks, eight, opset = WHERE[s]
    return rank in ranks and g.opset >= opset and (not eight or g.values[t.name].v.dtype.itemsize == 1) and max(g.shape(t.name)) < 400


def window(g, shape, group=1, pads=True):
    """kernel_shape and friends for a spatial shape."""
    n = len(shape)
    kernel = [int(g.ints(1, min(3, d))) for d in shape]
    a = {"kernel_shape": kernel, "strides": [int(g.pick(1, 1, 2)) for _ in range(n)]}
    if pads and g.chance(0.2):
        a["auto_pad"] = g.pick("SAME_UPPER", "SAME_LOWER", "VALID")
    elif pads and g.chance(0.7):
        a["pads"] = [int(g.ints(0, k - 1)) for k in kernel * 2]
    if all((k - 1) * 2 < d for k, d in zip(kernel, shape)) and g.chance(0.2) and "auto_pad" not in a:
        a["dilations"] = [2] * n
    return a


def groups(g, channels):
    options = [1, 1, channels] + [d for d in range(2, channels) if channels % d == 0]
    return int(g.pick(*options))


def conv_parts(g, shape):
    """Weight shape, attributes and output channels."""
    group = groups(g, shape[1])
    outputs = group if group == shape[1] and g.chance(0.8) else group * int(g.ints(1, 4 if group > 1 else 20))
    a = window(g, shape[2:])
    if group > 1:
        a["group"] = group
    return [outputs, shape[1] // group, *a["kernel_shape"]], a


@step([3, 4])
def conv(g, t):
    shape, a = conv_parts(g, g.shape(t.name))
    b = g.bias(shape[0])
    return g.finish_product(g.op("Conv", g.real(t), g.real_weight(shape, 0), *([b] if b else []), **a))


@step([4])
def conv_transpose(g, t):
    shape = g.shape(t.name)
    group = g.pick(1, 1, shape[1])
    kernel = [int(g.ints(1, 3)) for _ in shape[2:]]
    w = [shape[1], int(g.ints(1, 6)), *kernel]
    a = {"kernel_shape": kernel, "strides": [int(g.pick(1, 2)) for _ in kernel], "pads": [int(g.ints(0, (k - 1) // 2)) for k in kernel * 2], "group": group}
    b = g.bias(w[1] * group)
    return g.finish_product(g.op("ConvTranspose", g.real(t), g.real_weight(w, 1 if group == 1 else None), *([b] if b else []), **a))


@step([2, 3, 4])
def matmul(g, t):
    k, n = g.shape(t.name)[-1], int(g.ints(1, 40))
    if g.opset >= 21 and g.chance(0.1):
        w = g.op("Transpose", g.blocked_weight([n, k], 1), perm=[1, 0]) if g.chance(0.5) else g.blocked_weight([k, n])
    elif g.chance(0.2):
        w = g.op("Transpose", g.real_weight([n, k], 0), perm=[1, 0])
    else:
        w = g.real_weight([k, n], 1)
    y = g.op("MatMul", g.real(t), w)
    b = g.bias(n)
    return g.finish_product(g.op("Add", y, b) if b else y)


@step([2, 3, 4])
def matmul_of_two(g, t):
    shape = g.shape(t.name)
    if g.chance(0.5):
        other = g.real(g.source([*shape[:-2], shape[-1], int(g.ints(1, 20))]))
    else:
        perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        other = g.op("Transpose", g.real(g.source([*shape[:-2], int(g.ints(1, 20)), shape[-1]])), perm=perm)
    return g.finish_product(g.op("MatMul", g.real(t), other))


@step([2])
def gemm(g, t):
    m, k = g.shape(t.name)
    n, across, a = int(g.ints(1, 30)), g.chance(0.5), {}
    x = g.real(t)
    if g.chance(0.2):
        x, a["transA"] = g.op("Transpose", x, perm=[1, 0]), 1
    if across:
        a["transB"] = 1
    for name in ("alpha", "beta"):
        if g.chance(0.3):
            a[name] = g.pick(0.5, 0.3, 2.0)
    b, shape = g.bias(n), [n, k] if across else [k, n]
    w = g.blocked_weight(shape, int(across)) if g.opset >= 21 and g.chance(0.1) else g.real_weight(shape, 0 if across else 1)
    return g.finish_product(g.op("Gemm", x, w, *([b] if b else []), **a))


def partner(g, t):
    shape = list(g.shape(t.name))
    if g.chance(0.3):
        shape[int(g.ints(0, len(shape) - 1))] = 1
    return g.real(g.source(shape))


@step([2, 3, 4])
def add(g, t):
    return g.quantise(g.activation(g.op("Add", g.real(t), partner(g, t))))


@step([2, 3, 4])
def mul(g, t):
    return g.quantise(g.op("Mul", g.real(t), partner(g, t)))


@step([2, 3, 4])
def sub(g, t):
    return g.quantise(g.op("Sub", partner(g, t), g.real(t)))


@step([2, 3, 4])
def activation(g, t):
    return g.requantise(g.activation(g.real(t)), t)


@step([2, 3, 4])
def function(g, t):
    return g.quantise(g.op(g.pick("Sigmoid", "Tanh"), g.real(t)))


@step([2, 3])
def softmax(g, t):
    return g.quantise(g.op("Softmax", g.real(t), axis=-1 if g.opset >= 13 else len(g.shape(t.name)) - 1))


@step([3, 4])
def max_pool(g, t):
    a = window(g, g.shape(t.name)[2:])
    return g.requantise(g.op("MaxPool", g.real(t), **a), t)


@step([3, 4])
def average_pool(g, t):
    a = window(g, g.shape(t.name)[2:])
    a.pop("dilations", 0)
    if g.chance(0.4) and "auto_pad" not in a:
        a["count_include_pad"] = 1
    return g.quantise(g.op("AveragePool", g.real(t), **a))


@step([3, 4])
def global_average_pool(g, t):
    return g.quantise(g.op("GlobalAveragePool", g.real(t)))


@step([2, 3, 4])
def reduce_mean(g, t):
    axis = int(g.ints(1, len(g.shape(t.name)) - 1))
    if g.opset >= 18:
        return g.quantise(g.op("ReduceMean", g.real(t), g.constant(np.array([axis], np.int64)), keepdims=1))
    return g.quantise(g.op("ReduceMean", g.real(t), axes=[axis], keepdims=1))


@step([2, 3, 4])
def concat(g, t):
    axis = int(g.ints(0, len(g.shape(t.name)) - 1))
    if g.chance(0.5):
        other = g.source(g.shape(t.name))
        other.scale, other.zero, other.real = t.scale, t.zero, None
        if g.values[other.name].v.dtype != g.values[t.name].v.dtype:
            return concat_of(g, t, g.source(g.shape(t.name)), axis)
        return concat_of(g, t, other, axis)
    return concat_of(g, t, g.source(g.shape(t.name)), axis)


def concat_of(g, t, other, axis):
    return g.requantise(g.op("Concat", g.real(t), g.real(other), axis=axis), t)


@step([2, 3, 4])
def reshape(g, t):
    shape = g.shape(t.name)
    to = [shape[0], int(np.prod(shape[1:]))] if len(shape) > 2 else [1, *shape]
    return g.requantise(g.op("Reshape", g.real(t), g.constant(np.array(to, np.int64))), t)


@step([3, 4])
def flatten(g, t):
    return g.requantise(g.op("Flatten", g.real(t), axis=1), t)


@step([2, 3, 4])
def transpose(g, t):
    perm = [int(i) for i in g.rng.permutation(len(g.shape(t.name)))]
    return g.requantise(g.op("Transpose", g.real(t), perm=perm), t)


@step([2, 3, 4])
def slice_(g, t):
    axis = int(g.ints(0, len(g.shape(t.name)) - 1))
    d = g.shape(t.name)[axis]
    start = int(g.ints(0, d - 1))
    bounds = [start, int(g.ints(start + 1, d)), axis, int(g.pick(1, 1, 2))]
    return g.requantise(g.op("Slice", g.real(t), *[g.constant(np.array([v], np.int64)) for v in bounds]), t)


@step([3, 4])
def pad(g, t):
    n = len(g.shape(t.name))
    pads = [0, 0, *g.ints(0, 1, n - 2), 0, 0, *g.ints(0, 2, n - 2)]
    return g.requantise(g.op("Pad", g.real(t), g.constant(np.array(pads, np.int64))), t)


# --- operators on integers -------------------------------------------------------


def result_of(g, t, reals):
    """Scale and zero point for a result whose real numbers are near `reals`."""
    dtype = g.values[t.name].v.dtype.name
    scale, zero = g.parameters(np.asarray(reals, F32), dtype)
    scale = g.constant(g.values[scale].v.reshape(()))
    return scale, g.like(zero, scale)


def scalars(g, t):
    """Scale and zero point without axes."""
    scale = g.constant(g.values[t.scale].v.reshape(()))
    return scale, g.like(t.zero, scale)


def real_values(g, t):
    return g.values[g.real(t)].r


@step([4], eight=True)
def qlinear_conv(g, t):
    import quantised_oracle as oracle
    shape, a = conv_parts(g, g.shape(t.name))
    dtype = "int8" if g.values[t.name].v.dtype == np.int8 else g.pick("int8", "uint8")
    w, ws, wz, each = g.weight(shape, 0, dtype)
    wz = wz or g.constant(np.zeros(g.shape(ws), dtype))
    s, z = scalars(g, t)
    b = g.constant(g.ints(-2000, 2000, [shape[0]]).astype(np.int32)) if g.chance(0.6) else None
    wr = oracle.dequantize(g.values[w].v, g.values[ws].v, g.values[wz].v, 0).r
    ys, yz = result_of(g, t, oracle.conv(a, real_values(g, t), wr))
    from quantised_random import Tensor
    return Tensor(g.op("QLinearConv", t.name, s, z, w, ws, wz, ys, yz, *([b] if b else []), **a), ys, yz)


@step([2, 3], eight=True)
def qlinear_matmul(g, t):
    import quantised_oracle as oracle
    k, n = g.shape(t.name)[-1], int(g.ints(1, 30))
    dtype = g.values[t.name].v.dtype.name
    w, ws, wz, each = g.weight([k, n], 1, dtype)
    if each is not None and g.opset < 21:  # onnxruntime wants one for all
        ws, wz, each = g.constant(g.scale_of(0.02)), None, None
    wz = wz if wz and g.shape(wz) == g.shape(ws) else g.constant(np.zeros(g.shape(ws), dtype))
    s, z = scalars(g, t)
    wr = oracle.dequantize(g.values[w].v, g.values[ws].v, g.values[wz].v, 1).r
    ys, yz = result_of(g, t, real_values(g, t) @ wr)
    from quantised_random import Tensor
    return Tensor(g.op("QLinearMatMul", t.name, s, z, w, ws, wz, ys, yz), ys, yz)


@step([2, 3, 4], eight=True)
def qlinear_binary(g, t):
    other = g.source(g.shape(t.name), g.values[t.name].v.dtype.name)
    kind = g.pick("Add", "Mul")
    a, b = real_values(g, t), real_values(g, other)
    ys, yz = result_of(g, t, a + b if kind == "Add" else a * b)
    from quantised_random import Tensor
    return Tensor(g.op("QLinear" + kind, t.name, *scalars(g, t), other.name, *scalars(g, other), ys, yz, domain="com.microsoft"), ys, yz)


@step([2, 3, 4], eight=True)
def qlinear_function(g, t):
    kind, a = g.pick(("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.1}))
    x = real_values(g, t)
    ys, yz = result_of(g, t, np.array([0, 1]) if kind == "QLinearSigmoid" else np.where(x < 0, x * 0.1, x))
    from quantised_random import Tensor
    return Tensor(g.op(kind, t.name, *scalars(g, t), ys, yz, domain="com.microsoft", **a), ys, yz)


@step([4], eight=True)
def qlinear_pool(g, t):
    x = real_values(g, t)
    from quantised_random import Tensor
    if g.chance(0.5):
        ys, yz = result_of(g, t, x.mean((2, 3)))
        return Tensor(g.op("QLinearGlobalAveragePool", t.name, *scalars(g, t), ys, yz, domain="com.microsoft", channels_last=0), ys, yz)
    a = window(g, g.shape(t.name)[2:], pads=False)
    a.pop("dilations", 0)
    ys, yz = result_of(g, t, x)
    return Tensor(g.op("QLinearAveragePool", t.name, *scalars(g, t), ys, yz, domain="com.microsoft", **a), ys, yz)


@step([2, 3, 4], eight=True)
def qlinear_concat(g, t):
    other = g.source(g.shape(t.name), g.values[t.name].v.dtype.name)
    axis = int(g.ints(0, len(g.shape(t.name)) - 1))
    ys, yz = result_of(g, t, np.concatenate([real_values(g, t), real_values(g, other)], axis))
    from quantised_random import Tensor
    return Tensor(g.op("QLinearConcat", ys, yz, t.name, *scalars(g, t), other.name, *scalars(g, other), domain="com.microsoft", axis=axis), ys, yz)


@step([2], eight=True)
def qgemm(g, t):
    import quantised_oracle as oracle
    k, n = g.shape(t.name)[-1], int(g.ints(1, 30))
    dtype = g.values[t.name].v.dtype.name
    w, ws, wz, _ = g.weight([n, k], None, dtype)
    wz = wz or g.constant(np.zeros((), dtype))
    c = g.constant(g.ints(-2000, 2000, [n]).astype(np.int32)) if g.chance(0.6) else None
    a = {"transB": 1, "alpha": g.pick(1.0, 0.5)}
    ys, yz = result_of(g, t, real_values(g, t) @ oracle.dequantize(g.values[w].v, g.values[ws].v, g.values[wz].v).r.T)
    from quantised_random import Tensor
    return Tensor(g.op("QGemm", t.name, *scalars(g, t), w, ws, wz, c, ys, yz, domain="com.microsoft", **a), ys, yz)


@step([2, 3, 4])
def dynamic(g, t):
    """DynamicQuantizeLinear and an integer product, scaled in float."""
    x = g.real(t)
    shape = g.shape(x)
    q, s, z = g.op("DynamicQuantizeLinear", x, n=3)
    if len(shape) == 4:
        w_shape, a = conv_parts(g, shape)
        w, ws, wz, _ = g.weight(w_shape, None)
        y = g.op("ConvInteger", q, w, z, *([wz] if wz else []), **a)
    else:
        w, ws, wz, _ = g.weight([shape[-1], int(g.ints(1, 30))], 1)
        if wz and g.shape(wz):
            wz = None
        y = g.op("MatMulInteger", q, w, z, *([wz] if wz else []))
    y = g.op("Mul", g.op("Cast", y, to=1), g.op("Mul", s, ws))
    return g.quantise(y)


assert limits("int4") == (-8, 7)
