"""Random graphs of quantised operators, by seed: chains with side inputs over every operator that the integer lowering to TOSA has."""
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

UNARY = ["Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "LeakyRelu", "Elu", "Gelu", "Erf", "Exp", "Softplus", "Mish", "Abs", "Neg", "Relu", "Clip"]


class Graph:
    """A tensor is (name, shape, scale): integers of the graph's width with a meaning."""

    def __init__(self, seed):
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self.wide = seed % 3 == 2
        self.nodes, self.constants, self.inputs, self.kinds = [], [], [], []
        self.count = 0

    # --- pieces -----------------------------------------------------------------

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, value, stem="c"):
        name = self.name(stem)
        self.constants.append(nh.from_array(np.asarray(value), name))
        return name

    def node(self, op, inputs, **attributes):
        out = self.name("t")
        self.nodes.append(h.make_node(op, inputs, [out], name=self.name(op), **attributes))
        return out

    def quantised(self, value, shape, scale):
        scale = float(np.float32(scale * np.exp(self.rng.normal(0, 0.15))))
        kind = np.int16 if self.wide else np.int8
        zero = 0 if self.wide else int(self.rng.integers(-100, 100)) if self.rng.random() < 0.7 else self.pick(0, -128, 127)
        q = self.node("QuantizeLinear", [value, self.constant(np.float32(scale)), self.constant(np.array(zero, kind))])
        return q, list(shape), scale, zero

    def meaning(self, t):
        q, _, scale, zero = t
        return self.node("DequantizeLinear", [q, self.constant(np.float32(scale)), self.constant(np.array(zero, np.int16 if self.wide else np.int8))])

    def steps(self, span):
        """A scale that spends the integers on `span`."""
        return span / (65536 if self.wide else 256)

    def span(self, t):
        return t[2] * (65536 if self.wide else 256)

    def weight(self, shape, axis, fan):
        """Int8 weights, per channel or not, as the float tensor that they mean."""
        many = self.rng.random() < 0.6
        scale = np.exp(self.rng.normal(-4, 0.5, shape[axis] if many else ())).astype(np.float32) / np.sqrt(fan).astype(np.float32)
        q = self.constant(self.rng.integers(-127, 128, shape).astype(np.int8), "w")
        zero = self.constant(np.zeros(scale.shape, np.int8))
        more = {"axis": axis} if many else {}
        return self.node("DequantizeLinear", [q, self.constant(scale), zero], **more), float(np.mean(scale)) * 127 * np.sqrt(fan) / 2

    def bias(self, n, t, gain):
        return [self.constant(self.rng.normal(0, self.span(t) * gain / 20, n).astype(np.float32), "b")] if self.rng.random() < 0.6 else []

    def source(self, shape, span=6.0):
        name = self.name("x")
        self.inputs.append(h.make_tensor_value_info(name, T.FLOAT, shape))
        return self.quantised(name, shape, self.steps(span))

    def activation(self, value):
        """Perhaps something between a sum and its quantiser."""
        kind = self.rng.random()
        if kind < 0.5:
            return value
        if kind < 0.75:
            return self.node("Relu", [value])
        if kind < 0.85:
            return self.node("Clip", [value, self.constant(np.float32(0)), self.constant(np.float32(6))])
        return self.node("Mul", [value, self.node("Sigmoid", [value])])

    # --- operators ----------------------------------------------------------------

    def conv(self, t):
        _, (n, c, hh, w), _, _ = t
        depthwise, k = self.rng.random() < 0.35, [int(self.rng.integers(1, min(5, hh) + 1)), int(self.rng.integers(1, min(5, w) + 1))]
        out = c * self.pick(1, 2) if depthwise else int(self.rng.integers(1, 20))
        stride, dilation = self.pick(1, 1, 2, 3), self.pick(1, 1, 2)
        if any((x - 1) * dilation + 1 > d for x, d in zip(k, (hh, w))):
            dilation = 1
        pads = [int(self.rng.integers(0, x)) for x in k] + [int(self.rng.integers(0, x)) for x in k]
        shape = [out, 1 if depthwise else c, *k]
        w_, gain = self.weight(shape, 0, shape[1] * k[0] * k[1])
        y = self.node("Conv", [self.meaning(t), w_, *self.bias(out, t, gain)], group=c if depthwise else 1, kernel_shape=k, strides=[stride, stride], dilations=[dilation, dilation],
                      pads=pads)
        size = [(d + pads[i] + pads[2 + i] - (k[i] - 1) * dilation - 1) // stride + 1 for i, d in enumerate((hh, w))]
        return self.quantised(self.activation(y), [n, out, *size], self.steps(self.span(t) * gain))

    def conv_transpose(self, t):
        _, (n, c, hh, w), _, _ = t
        k, s, depthwise = [self.pick(1, 2, 3, 4), self.pick(1, 2, 3, 4)], self.pick(1, 2, 2, 3), self.rng.random() < 0.3
        out = c if depthwise else int(self.rng.integers(1, 9))
        pads = [int(self.rng.integers(0, x)) for x in k] + [int(self.rng.integers(0, x)) for x in k]
        size = [(d - 1) * s + k[i] - pads[i] - pads[2 + i] for i, d in enumerate((hh, w))]
        if min(size) < 1 or max(size) > 40:
            return None
        shape = [c, 1 if depthwise else out, *k]
        w_, gain = self.weight(shape, 0 if depthwise else 1, (1 if depthwise else c) * k[0] * k[1])
        y = self.node("ConvTranspose", [self.meaning(t), w_, *self.bias(out, t, gain)], group=c if depthwise else 1, kernel_shape=k, strides=[s, s], pads=pads)
        return self.quantised(y, [n, out, *size], self.steps(self.span(t) * gain))

    def matmul(self, t):
        _, shape, _, _ = t
        if len(shape) == 4:
            t = self.reshaped(t, [shape[0] * shape[1], shape[2] * shape[3]])
        shape, n = t[1], int(self.rng.integers(1, 24))
        w_, gain = self.weight([shape[-1], n], 1, shape[-1])
        y = self.node("MatMul", [self.meaning(t), w_])
        if self.rng.random() < 0.5:
            y = self.node("Add", [y, self.constant(self.rng.normal(0, 0.3, n).astype(np.float32))])
        return self.quantised(self.activation(y), [*shape[:-1], n], self.steps(self.span(t) * gain))

    def gemm(self, t):
        shape = t[1]
        t = self.reshaped(t, [shape[0], int(np.prod(shape[1:]))])
        if t[1][1] > 600:
            return None
        n, turned = int(self.rng.integers(1, 24)), self.pick(0, 1)
        w_, gain = self.weight([n, t[1][1]] if turned else [t[1][1], n], 0 if turned else 1, t[1][1])
        y = self.node("Gemm", [self.meaning(t), w_, *self.bias(n, t, gain)], transB=turned)
        return self.quantised(y, [shape[0], n], self.steps(self.span(t) * gain))

    def product(self, t):
        shape = t[1]
        if len(shape) != 4:
            return None
        n = int(self.rng.integers(1, 9))
        u = self.source([shape[0], shape[1], shape[3], n], 2.0)
        y = self.node("MatMul", [self.meaning(t), self.meaning(u)])
        return self.quantised(y, [*shape[:3], n], self.steps(self.span(t) * np.sqrt(shape[3])))

    def arithmetic(self, t):
        shape = list(t[1])
        other = [1 if self.rng.random() < 0.3 else d for d in shape]
        u = t if self.rng.random() < 0.15 else self.source(other, float(self.pick(0.5, 3.0, 20.0)))
        op = self.pick("Add", "Sub", "Mul", "Max", "Min")
        a, b = self.meaning(t), self.meaning(u)
        y = self.node(op, [a, b] if self.rng.random() < 0.7 else [b, a])
        span = self.span(t) * self.span(u) / 4 if op == "Mul" else self.span(t) + self.span(u)
        return self.quantised(self.node("Relu", [y]) if self.rng.random() < 0.3 else y, shape, self.steps(span))

    def with_constant(self, t):
        shape = t[1]
        op, value = self.pick("Add", "Mul", "Sub", "Div"), self.rng.uniform(0.2, 2, [shape[1]] + [1] * (len(shape) - 2) if self.rng.random() < 0.5 else ())
        y = self.node(op, [self.meaning(t), self.constant(np.asarray(value, np.float32))])
        return self.quantised(y, shape, self.steps(self.span(t) * {"Add": 1.2, "Sub": 1.2, "Mul": 1.5, "Div": 4}[op]))

    def unary(self, t):
        op = self.pick(*UNARY)
        if op == "Clip":
            y = self.node("Clip", [self.meaning(t), self.constant(np.float32(-0.7)), self.constant(np.float32(1.9))])
        else:
            y = self.node(op, [self.meaning(t)])
        span = {"Sigmoid": 1, "HardSigmoid": 1, "Tanh": 2, "Erf": 2, "Exp": min(np.exp(self.span(t) / 2), 30.0), "Relu": self.span(t) / 2}.get(op, self.span(t))
        return self.quantised(y, t[1], self.steps(span))

    def pool(self, t):
        shape = t[1]
        if len(shape) != 4:
            return None
        k = [int(self.rng.integers(1, min(4, d) + 1)) for d in shape[2:]]
        s, pads = self.pick(1, 2, 3), [int(self.rng.integers(0, (x + 1) // 2 + (x > 1))) if x > 1 else 0 for x in k] * 2
        size = [(d + 2 * pads[i] - k[i]) // s + 1 for i, d in enumerate(shape[2:])]
        if self.rng.random() < 0.5:
            y = self.node("MaxPool", [self.meaning(t)], kernel_shape=k, strides=[s, s], pads=pads)
        else:
            pads = [0] * 4 if self.wide else pads
            size = [(d + 2 * pads[i] - k[i]) // s + 1 for i, d in enumerate(shape[2:])]
            y = self.node("AveragePool", [self.meaning(t)], kernel_shape=k, strides=[s, s], pads=pads, count_include_pad=self.pick(0, 1))
        return self.quantised(y, [*shape[:2], *size], t[2])

    def global_pool(self, t):
        shape = t[1]
        if len(shape) != 4:
            return None
        y = self.node(self.pick("GlobalAveragePool", "GlobalMaxPool"), [self.meaning(t)])
        return self.quantised(y, [*shape[:2], 1, 1], t[2] / 2)

    def reduction(self, t):
        shape, axis = t[1], int(self.rng.integers(1, len(t[1])))
        op = self.pick("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
        y = self.node(op, [self.meaning(t), self.constant(np.array([axis], np.int64))], keepdims=1)
        return self.quantised(y, [*shape[:axis], 1, *shape[axis + 1:]], t[2] * (shape[axis] ** 0.5 if op == "ReduceSum" else 1))

    def softmax(self, t):
        shape, axis = t[1], int(self.rng.integers(1, len(t[1])))
        y = self.meaning(t)
        if len(shape) == 3 and self.rng.random() < 0.7:
            w_, _ = self.weight([shape[-1], 12], 1, shape[-1])
            y, shape = self.node("MatMul", [y, w_]), [*shape[:-1], 12]
        log = self.rng.random() < 0.2
        y = self.node("LogSoftmax" if log else "Softmax", [y], axis=axis)
        return self.quantised(y, shape, self.steps(8.0 if log else self.pick(0.3, 1.0)))

    def resize(self, t):
        shape = t[1]
        if len(shape) != 4 or max(shape[2:]) > 10:
            return None
        mode, f, g = self.pick("nearest", "linear"), self.pick(1, 2, 2, 3, 4), self.pick(1, 2, 2, 3, 4)
        transform = self.pick("half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners") if mode == "linear" else self.pick("half_pixel", "asymmetric")
        size = [shape[2] * f, shape[3] * g]
        if transform == "align_corners":
            size = [(shape[2] - 1) * f + 1, (shape[3] - 1) * g + 1]
        more = {"nearest_mode": "floor"} if transform == "asymmetric" and mode == "nearest" else {}
        y = self.node("Resize", [self.meaning(t), "", "", self.constant(np.array([*shape[:2], *size], np.int64))], mode=mode, coordinate_transformation_mode=transform, **more)
        return self.quantised(y, [*shape[:2], *size], t[2])

    def concat(self, t):
        shape = list(t[1])
        axis = int(self.rng.integers(1, len(shape)))
        other = [int(self.rng.integers(1, 6)) if i == axis else d for i, d in enumerate(shape)]
        u = self.source(other, float(self.pick(1.0, 6.0, 9.0)))
        y = self.node("Concat", [self.meaning(t), self.meaning(u)], axis=axis)
        shape[axis] += other[axis]
        return self.quantised(y, shape, max(t[2], u[2]))

    def moved(self, t, value, shape):
        """A move's result with the quantisation of what was moved, or with another."""
        return self.quantised(value, shape, t[2])

    def slice(self, t):
        shape, axis = list(t[1]), int(self.rng.integers(1, len(t[1])))
        first, step = int(self.rng.integers(0, shape[axis])), self.pick(1, 1, 2, 3)
        y = self.node("Slice", [self.meaning(t), *(self.constant(np.array([v], np.int64)) for v in (first, shape[axis], axis, step))])
        shape[axis] = -(-(shape[axis] - first) // step)
        return self.moved(t, y, shape)

    def pad(self, t):
        shape = list(t[1])
        pads = [0] * (2 * len(shape))
        for i in range(1, len(shape)):
            pads[i], pads[len(shape) + i] = self.pick(0, 1, 2), self.pick(0, 1)
            shape[i] += pads[i] + pads[len(shape) + i]
        return self.moved(t, self.node("Pad", [self.meaning(t), self.constant(np.array(pads, np.int64))]), shape)

    def transpose(self, t):
        perm = [0, *(1 + int(i) for i in self.rng.permutation(len(t[1]) - 1))]
        return self.moved(t, self.node("Transpose", [self.meaning(t)], perm=perm), [t[1][p] for p in perm])

    def reshaped(self, t, shape):
        return self.moved(t, self.node("Reshape", [self.meaning(t), self.constant(np.array(shape, np.int64))]), shape)

    def reshape(self, t):
        n, rest = t[1][0], int(np.prod(t[1][1:]))
        k = max(d for d in range(1, 9) if rest % d == 0)
        return self.reshaped(t, [n, k, rest // k])

    def split(self, t):
        shape = list(t[1])
        axis = next((i for i in range(1, len(shape)) if shape[i] % 2 == 0), None)
        if axis is None:
            return None
        shape[axis] //= 2
        outs = [self.name("t"), self.name("t")]
        self.nodes.append(h.make_node("Split", [self.meaning(t)], outs, axis=axis, num_outputs=2))
        a, b = (self.moved(t, o, shape) for o in outs)
        return self.quantised(self.node("Add", [self.meaning(a), self.meaning(b)]), shape, 2 * t[2])

    def depth_to_space(self, t):
        shape = t[1]
        if len(shape) != 4 or shape[1] % 4:
            return None
        y = self.node("DepthToSpace", [self.meaning(t)], blocksize=2, mode=self.pick("DCR", "CRD"))
        return self.moved(t, y, [shape[0], shape[1] // 4, shape[2] * 2, shape[3] * 2])


KINDS = ["conv", "conv", "conv", "conv_transpose", "matmul", "gemm", "product", "arithmetic", "arithmetic", "with_constant", "unary", "unary", "pool", "pool", "global_pool",
         "reduction", "softmax", "resize", "concat", "slice", "pad", "transpose", "reshape", "split", "depth_to_space"]


def build(seed):
    """(model, precision, kinds)"""
    g = Graph(seed)
    t = g.source([g.pick(1, 1, 2), int(g.rng.integers(1, 13)), int(g.rng.integers(3, 12)), int(g.rng.integers(3, 12))])
    wanted = 1 + seed % 6
    while len(g.kinds) < wanted:
        kind = g.pick(*KINDS)
        if kind in ("conv", "conv_transpose") and len(t[1]) != 4 or np.prod(t[1]) > 20000:
            kind = "reduction"
        u = getattr(g, kind)(t)
        if u is not None:
            t = u
            g.kinds.append(kind)
    outputs = [h.make_tensor_value_info(t[0], T.INT16 if g.wide else T.INT8, t[1])]
    if not g.wide and len(t[1]) > 1 and g.rng.random() < 0.1:
        axis = len(t[1]) - 1
        a = g.node("ArgMax", [g.meaning(t)], axis=axis, keepdims=1)
        g.kinds.append("argmax")
        outputs.append(h.make_tensor_value_info(a, T.INT64, [*t[1][:-1], 1]))
    graph = h.make_graph(g.nodes, f"random{seed}", g.inputs, outputs, g.constants)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model, "int16" if g.wide else "int8", g.kinds
