"""Convolutions, pools, normalisations, recurrent cells: modes of training, `spatial`, norms as floats, outputs of a sequence."""
import numpy as np

from .table import case, given, graph, i64, ints, normal, uniform

IMAGE = normal(2, 6, 9, 8)


# Convolutions: no meaning changed.
case("Conv", given(IMAGE), normal(4, 6, 3, 3), normal(4), pads=[1, 1, 0, 1], strides=[2, 1])
case("Conv", given(IMAGE), normal(4, 6, 3, 3), name="same", auto_pad="SAME_UPPER", strides=[2, 2])
case("Conv", given(IMAGE), normal(4, 6, 3, 3), name="same_lower", auto_pad="SAME_LOWER", strides=[2, 2])
case("Conv", given(IMAGE), normal(6, 3, 3, 3), name="groups", group=2, dilations=[2, 1])
case("ConvTranspose", given(IMAGE), normal(6, 4, 3, 3), normal(4), pads=[1, 1, 0, 1], strides=[2, 2])
case("ConvTranspose", given(IMAGE), normal(6, 4, 3, 3), name="output_padding", strides=[2, 2], output_padding=[1, 1])
case("ConvTranspose", given(IMAGE), normal(6, 4, 4, 4), name="output_shape", strides=[2, 2], output_shape=[18, 16])
# onnxruntime gives every version the padding of version 11's text, where that of version 1 had the two sides the other way round.
case("ConvTranspose", given(IMAGE), normal(6, 4, 3, 3), name="same_upper", strides=[2, 2], auto_pad="SAME_UPPER")
case("ConvTranspose", given(IMAGE), normal(6, 4, 3, 3), name="same_lower", strides=[2, 2], auto_pad="SAME_LOWER")
case("ConvInteger", given(ints(0, 255, 1, 3, 6, 6, dtype=np.uint8)), ints(0, 255, 2, 3, 3, 3, dtype=np.uint8), np.uint8(9), pads=[1, 1, 1, 1])
case("DeformConv", given(normal(1, 2, 5, 5)), normal(3, 2, 3, 3), given(normal(1, 18, 3, 3, scale=0.5)))
case("CausalConvWithState", given(normal(2, 4, 6)), normal(4, 1, 3), outputs=2)
case("Col2Im", given(normal(1, 12, 6)), i64(3, 4), i64(2, 2))

# Pools.
case("MaxPool", given(IMAGE), kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
case("MaxPool", given(IMAGE), name="same", kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_LOWER")
case("MaxPool", given(IMAGE), lo=8, name="indices", outputs=2, kernel_shape=[3, 2], strides=[2, 2])
case("MaxPool", given(IMAGE), lo=8, name="storage_order", outputs=2, kernel_shape=[3, 2], strides=[2, 2], storage_order=1)
case("MaxPool", given(IMAGE), lo=10, name="ceil", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
case("MaxPool", given(IMAGE), lo=10, name="dilated", kernel_shape=[3, 3], dilations=[2, 2])
case("MaxPool", given(ints(-9, 9, 1, 2, 6, 6, dtype=np.int8)), lo=12, name="int8", kernel_shape=[2, 2])


def average(x, k, pads, count):
    """Padding does not count unless told so; it could not be told before version 7."""
    p = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    ones = np.pad(np.ones_like(x, np.float64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])), constant_values=float(count))
    window = np.lib.stride_tricks.sliding_window_view
    return (window(p, k, (2, 3)).sum((-1, -2)) / window(ones, k, (2, 3)).sum((-1, -2))).astype(np.float32)


case("AveragePool", given(IMAGE), want=lambda x: average(x, (3, 2), (1, 0, 1, 1), 0), kernel_shape=[3, 2], pads=[1, 0, 1, 1])
case("AveragePool", given(IMAGE), lo=7, name="count", want=lambda x: average(x, (3, 2), (1, 0, 1, 1), 1), kernel_shape=[3, 2], pads=[1, 0, 1, 1], count_include_pad=1)
case("AveragePool", given(IMAGE), lo=7, name="same", kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER")
case("AveragePool", given(IMAGE), lo=10, name="ceil", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
case("AveragePool", given(IMAGE), lo=19, name="dilated", kernel_shape=[3, 3], dilations=[2, 2])


def lp(x, k, p):
    w = np.lib.stride_tricks.sliding_window_view(np.abs(x.astype(np.float64)), k, (2, 3))
    return ((w**p).sum((-1, -2)) ** (1 / p)).astype(np.float32)


# The norm was a float in version 1.
case("LpPool", given(IMAGE), want=lambda x: lp(x, (3, 2), 2), kernel_shape=[3, 2])
case("LpPool", given(IMAGE), hi=1, name="three", want=lambda x: lp(x, (3, 2), 3), kernel_shape=[3, 2], p=3.0)
case("LpPool", given(IMAGE), hi=1, name="half", refused="2.5", kernel_shape=[3, 2], p=2.5)
case("LpPool", given(IMAGE), lo=2, name="three", want=lambda x: lp(x, (3, 2), 3), kernel_shape=[3, 2], p=3)
case("LpPool", given(IMAGE), lo=18, name="dilated", kernel_shape=[2, 2], dilations=[2, 2], p=2)
whole = lambda p: lambda x: ((np.abs(x.astype(np.float64)) ** p).sum((2, 3), keepdims=True) ** (1 / p)).astype(np.float32)  # noqa: E731
case("GlobalLpPool", given(IMAGE), want=whole(2))
case("GlobalLpPool", given(IMAGE), hi=1, name="three", want=whole(3), p=3.0)
case("GlobalLpPool", given(IMAGE), hi=1, name="half", refused="1.5", p=1.5)
case("GlobalLpPool", given(IMAGE), lo=2, name="three", want=whole(3), p=3)
case("GlobalAveragePool", given(IMAGE), want=lambda x: x.mean((2, 3), keepdims=True))
case("GlobalMaxPool", given(IMAGE), want=lambda x: x.max((2, 3), keepdims=True))


def roi_pool(scale=1.0):
    """Two bins by three over each box, whose corners are rounded, ends included."""
    def run(x, rois):
        y = np.zeros((len(rois), x.shape[1], 2, 3), np.float32)
        for r, (n, *box) in enumerate(rois):
            x1, y1, x2, y2 = (int(np.sign(k) * np.floor(abs(k) + 0.5)) for k in np.array(box) * scale)
            h, w = max(y2 - y1 + 1, 1) / 2, max(x2 - x1 + 1, 1) / 3
            for i, j in np.ndindex(2, 3):
                rows, columns = [np.clip([at + int(np.floor(k * size)), at + int(np.ceil((k + 1) * size))], 0, end) for at, k, size, end in ((y1, i, h, x.shape[2]), (x1, j, w, x.shape[3]))]
                part = x[int(n), :, slice(*rows), slice(*columns)]
                y[r, :, i, j] = part.max((1, 2)) if part.size else 0
        return y
    return run


ROIS = np.array([[0, 0, 0, 5, 5], [1, 1, 2, 7, 6], [1, 6, 7, 20, 9], [0, 30, 30, 40, 40], [0, 5, 5, 2, 1]], np.float32)
case("MaxRoiPool", given(IMAGE), given(ROIS), want=roi_pool(), pooled_shape=[2, 3])
case("MaxRoiPool", given(IMAGE), ROIS, name="scale", want=roi_pool(0.5), pooled_shape=[2, 3], spatial_scale=0.5)
case("MaxUnpool", given(np.array([[[[5, 6], [7, 8]]]], np.float32)), np.array([[[[5, 7], [13, 15]]]], np.int64), kernel_shape=[2, 2], strides=[2, 2])
BOXES = np.array([[0.5, 1, 6, 5], [1, 0, 7, 7]], np.float32)
# Half a pixel less since version 16, unless told otherwise.
case("RoiAlign", given(IMAGE), BOXES, i64(0, 1), output_height=3, output_width=2, sampling_ratio=2, spatial_scale=0.9)
case("RoiAlign", given(IMAGE), BOXES, i64(0, 1), lo=16, name="old", output_height=3, output_width=2, sampling_ratio=2, coordinate_transformation_mode="output_half_pixel")

# Normalisations.
S, Bias, Mean, Var = normal(6), normal(6), normal(6), uniform(0.5, 2, 6)


def batch(x, s, b, m, v, eps=1e-5):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    s, b, m, v = (k.reshape(shape) if k.ndim == 1 else k for k in (s, b, m, v))
    return (s * (x - m) / np.sqrt(v + np.float32(eps)) + b).astype(np.float32)


case("BatchNormalization", given(IMAGE), S, Bias, Mean, Var, hi=1, want=batch, is_test=1, consumed_inputs=[0, 0, 0, 1, 1])
case("BatchNormalization", given(IMAGE), S, Bias, Mean, Var, hi=1, name="training", refused="is_test", consumed_inputs=[0, 0, 0, 1, 1])
case("BatchNormalization", given(IMAGE), S, Bias, Mean, Var, lo=6, hi=6, want=lambda *v: batch(*v, eps=0.01), is_test=1, epsilon=0.01, momentum=0.5)
case("BatchNormalization", given(IMAGE), S, Bias, Mean, Var, lo=6, hi=6, name="training", refused="is_test")
case("BatchNormalization", given(IMAGE), S, Bias, Mean, Var, lo=7, want=lambda *v: batch(*v, eps=0.01), epsilon=0.01)
case("BatchNormalization", given(IMAGE), given(S), given(Bias), given(Mean), given(Var), lo=7, hi=7, name="spatial", want=batch, spatial=1)
each = [normal(6, 9, 8), normal(6, 9, 8), normal(6, 9, 8), uniform(0.5, 2, 6, 9, 8)]
case("BatchNormalization", given(IMAGE), *each, lo=7, hi=7, name="per_element", want=batch, spatial=0)
case("BatchNormalization", given(IMAGE), *each, lo=6, hi=6, name="per_element", want=batch, is_test=1, spatial=0)
case("BatchNormalization", given(normal(4, 6)), S, Bias, Mean, Var, lo=6, hi=6, name="matrix", want=batch, is_test=1, spatial=0)
case("BatchNormalization", given(IMAGE), S, Bias, Mean, Var, lo=7, hi=7, name="per_channel", refused="spatial", spatial=0)


def train(x, s, b, m, v):
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    return batch(x, s, b, mean, var), m * np.float32(0.9) + mean * np.float32(0.1), v * np.float32(0.9) + var * np.float32(0.1)


case("BatchNormalization", given(IMAGE), given(S), given(Bias), given(Mean), given(Var), lo=14, name="training", outputs=3, want=train, training_mode=1)
case("BatchNormalization", given(IMAGE), S, Bias, Mean, Var, lo=7, hi=13, name="training", outputs=5, refused="training")



def instance(x, s, b):
    y = (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + np.float32(0.01))
    return y * s.reshape(1, -1, 1, 1) + b.reshape(1, -1, 1, 1)


case("InstanceNormalization", given(IMAGE), S, Bias, want=instance, epsilon=0.01)
case("InstanceNormalization", given(IMAGE), S, Bias, hi=1, name="consumed", want=instance, epsilon=0.01, consumed_inputs=[0, 0, 0])
case("LayerNormalization", given(normal(3, 4, 10)), normal(10), normal(10))
case("RMSNormalization", given(normal(3, 4, 10)), normal(10))
case("MeanVarianceNormalization", given(IMAGE))
case("MeanVarianceNormalization", given(IMAGE), name="axes", axes=[2, 3])
case("LRN", given(IMAGE), size=3, alpha=0.02, beta=0.6, bias=1.5)
case("LpNormalization", given(normal(3, 4)))
case("LpNormalization", given(normal(3, 4)), name="l1", p=1, axis=0)


def groups(x, s, b, per_group):
    g = x.reshape(2, 3, -1).astype(np.float64)
    g = ((g - g.mean(2, keepdims=True)) / np.sqrt(g.var(2, keepdims=True) + 1e-5)).reshape(x.shape)
    s, b = (np.repeat(k, 2) if per_group else k for k in (s, b))
    return (g * s.reshape(1, 6, 1, 1) + b.reshape(1, 6, 1, 1)).astype(np.float32)


# Scale and bias: for a group, then for a channel.
case("GroupNormalization", given(IMAGE), normal(3), given(normal(3)), hi=18, want=lambda x, s, b: groups(x, s, b, True), num_groups=3, limit=2e-5)
case("GroupNormalization", given(IMAGE), normal(6), given(normal(6)), lo=21, want=lambda x, s, b: groups(x, s, b, False), num_groups=3, limit=2e-5)

# Dropout does nothing outside training; before version 7 it had to be told that it is not training.
same = lambda x, *_: x  # noqa: E731
case("Dropout", given(IMAGE), hi=1, want=same, is_test=1, ratio=0.3, consumed_inputs=[0])
case("Dropout", given(IMAGE), lo=6, hi=6, want=same, is_test=1, ratio=0.3)
case("Dropout", given(IMAGE), hi=6, name="training", refused="is_test", ratio=0.3)
case("Dropout", given(IMAGE), lo=7, hi=10, want=same, ratio=0.3)
case("Dropout", given(IMAGE), lo=7, hi=7, name="mask", outputs=2, refused="mask")
# Its text does not say what the mask is without training: onnxruntime says false, later versions true.
case("Dropout", given(IMAGE), lo=10, hi=10, name="mask", outputs=2, refused="mask")
case("Dropout", given(IMAGE), np.float32(0.3), lo=12, want=same)
case("Dropout", given(IMAGE), np.float32(0.3), np.bool_(False), lo=12, name="mask", outputs=2, want=lambda x, *_: (x, np.ones(x.shape, np.bool_)))

# Softmax and its kin: rows of a matrix cut at `axis`, 1 by default, before version 13.
T = normal(2, 3, 4, scale=2)


def rows(f, axis):
    def run(x):
        m = x.reshape(int(np.prod(x.shape[:axis])), -1).astype(np.float64)
        return f(m, 1).reshape(x.shape).astype(np.float32)
    return run


def soft(m, axis):
    e = np.exp(m - m.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def hard(m, axis):
    return (np.arange(m.shape[axis]).reshape([-1 if k == axis else 1 for k in range(m.ndim)]) == np.expand_dims(m.argmax(axis), axis)).astype(np.float32)


def log_soft(m, axis):
    return np.log(soft(m, axis))


for op, f in (("Softmax", soft), ("LogSoftmax", log_soft), ("Hardmax", hard)):
    case(op, given(T), hi=12, want=rows(f, 1))
    for axis in (0, 1, 2):
        case(op, given(T), hi=12, name=f"axis_{axis}", want=rows(f, axis), axis=axis)
    case(op, given(T), lo=11, hi=12, name="axis_negative", want=rows(f, 1), axis=-2)
    graph(op, f"g (float[n,c,d] x) => (float[n,c,d] y) {{ y = {op}(x) }}", given(T), hi=12, name="dynamic", want=rows(f, 1))
    case(op, given(T), lo=13, want=lambda x, f=f: f(x.astype(np.float64), 2).astype(np.float32))
    case(op, given(T), lo=13, name="axis_1", want=lambda x, f=f: f(x.astype(np.float64), 1).astype(np.float32), axis=1)
case("NegativeLogLikelihoodLoss", given(normal(3, 5, 4)), given(ints(0, 5, 3, 4)), normal(5))
case("NegativeLogLikelihoodLoss", given(normal(3, 5)), given(ints(0, 5, 3)), name="sum", reduction="sum", ignore_index=2)
case("SoftmaxCrossEntropyLoss", given(normal(3, 5, 4)), given(ints(0, 5, 3, 4)))
case("SoftmaxCrossEntropyLoss", given(normal(3, 5)), given(ints(0, 5, 3)), name="none", outputs=2, reduction="none")


# Recurrent cells.
def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def gru(x, w, r, b, before):
    """One direction, forward. `before`: linear_before_reset."""
    h, n = np.zeros((x.shape[1], r.shape[2])), r.shape[2]
    wz, wr, wh, rz, rr, rh = *np.split(w[0], 3), *np.split(r[0], 3)
    bz, br, bh, cz, cr, ch = np.split(b[0], 6)
    steps = []
    for t in x.astype(np.float64):
        z, k = sigmoid(t @ wz.T + h @ rz.T + bz + cz), sigmoid(t @ wr.T + h @ rr.T + br + cr)
        c = np.tanh(t @ wh.T + k * (h @ rh.T + ch) + bh) if before else np.tanh(t @ wh.T + (k * h) @ rh.T + ch + bh)
        h = (1 - z) * c + z * h
        steps.append(h)
    y = np.stack(steps)[:, None].astype(np.float32)
    return y, y[-1]


def lstm(x, w, r, b):
    h = c = np.zeros((x.shape[1], r.shape[2]))
    steps = []
    for t in x.astype(np.float64):
        i, o, f, g = np.split(t @ w[0].T + h @ r[0].T + b[0][:len(b[0]) // 2] + b[0][len(b[0]) // 2:], 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        steps.append(h)
    y = np.stack(steps)[:, None].astype(np.float32)
    return y, y[-1], c[None].astype(np.float32)


def rnn(x, w, r, b):
    h, half, steps = np.zeros((x.shape[1], r.shape[2])), len(b[0]) // 2, []
    for t in x.astype(np.float64):
        h = np.tanh(t @ w[0].T + h @ r[0].T + b[0][:half] + b[0][half:])
        steps.append(h)
    y = np.stack(steps)[:, None].astype(np.float32)
    return y, y[-1]


XS = normal(5, 3, 4)
for op, gates, f, outputs in (("GRU", 3, lambda *v: gru(*v, 0), 2), ("LSTM", 4, lstm, 3), ("RNN", 1, rnn, 2)):
    p = [normal(1, gates * 6, 4, scale=0.5), normal(1, gates * 6, 6, scale=0.5), normal(1, 2 * gates * 6, scale=0.5)]
    case(op, given(XS), *p, want=f, outputs=outputs, hidden_size=6)
    # Whether the sequence is an output was an attribute; the outputs that are named say it too.
    case(op, given(XS), *p, hi=6, name="sequence", want=f, outputs=outputs, hidden_size=6, output_sequence=1, direction="forward")
    case(op, given(XS), *p, hi=6, name="last", want=lambda *v, f=f: f(*v)[1], outputs=[0, 1], hidden_size=6, output_sequence=0)
    two = [np.concatenate([k, normal(*k.shape, scale=0.5)]) for k in p]
    case(op, given(XS), *two, np.array([5, 2, 4], np.int32), lo=7, name="lengths", outputs=outputs, hidden_size=6, direction="bidirectional")
    case(op, given(XS.transpose(1, 0, 2)), *p, lo=14, name="layout", hidden_size=6, layout=1, outputs=outputs,
         want=lambda x, *v, f=f: tuple(k.transpose(2, 0, 1, 3) if k.ndim == 4 else k.transpose(1, 0, 2) for k in f(x.transpose(1, 0, 2), *v)), ort=False)
p = [normal(1, 18, 4, scale=0.5), normal(1, 18, 6, scale=0.5), normal(1, 36, scale=0.5)]
case("GRU", given(XS), *p, lo=3, name="before_reset", want=lambda *v: gru(*v, 1), outputs=2, hidden_size=6, linear_before_reset=1)
case("GRU", given(XS), *p, hi=1, name="before_reset", refused="linear_before_reset", outputs=2, hidden_size=6, linear_before_reset=1)
p = [normal(1, 24, 4, scale=0.5), normal(1, 24, 6, scale=0.5)]
case("LSTM", given(XS), *p, None, None, given(normal(1, 3, 6)), given(normal(1, 3, 6)), normal(1, 18), lo=7, name="peepholes", outputs=3, hidden_size=6, clip=2.0, input_forget=1, limit=1e-4)

# Attention.
Q, K, V = normal(2, 4, 5, 8), normal(2, 4, 7, 8), normal(2, 4, 7, 8)
case("Attention", given(Q), given(K), given(V))
case("Attention", given(Q), given(K), given(V), given(normal(5, 7)), name="mask", scale=0.4, softcap=3.0)
case("Attention", given(Q), given(Q), given(Q), name="causal", is_causal=1)
case("Attention", given(Q), given(K), given(V), None, given(normal(2, 4, 3, 8)), given(normal(2, 4, 3, 8)), name="cache", outputs=3, is_causal=1, ort=False)
case("RotaryEmbedding", given(normal(2, 4, 5, 8)), normal(10, 4), normal(10, 4), ints(0, 10, 2, 5))
case("LinearAttention", given(normal(1, 4, 8)), given(normal(1, 4, 8)), given(normal(1, 4, 8)), outputs=2, q_num_heads=2, kv_num_heads=2, update_rule="linear")
case("TensorScatter", given(normal(2, 6, 3)), given(normal(2, 2, 3)), i64(1, 3), axis=1)
case("AffineGrid", given(normal(2, 2, 3)), i64(2, 3, 4, 5))
GRID = uniform(-1.2, 1.2, 2, 4, 5, 2)
# Cubic beyond the border is one thing in ONNX's own implementation, which we follow, and another in onnxruntime.
for old, new, padding in (("bilinear", "linear", "border"), ("nearest", "nearest", "border"), ("bicubic", "cubic", "zeros")):
    case("GridSample", given(IMAGE), given(GRID), hi=16, name=old, limit=1e-4, mode=old, padding_mode=padding)
    case("GridSample", given(IMAGE), given(GRID), lo=20, name=new, limit=1e-4, mode=new, padding_mode=padding)
case("GridSample", given(IMAGE), given(GRID), name="default", align_corners=1)
