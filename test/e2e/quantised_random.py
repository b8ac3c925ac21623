"""Random quantised graphs of 1 to 5 operators, each with its inputs and what it means by quantised_oracle.py. A graph is its number: the same number, the same
graph. Scales of every result are taken from its range, so that few values saturate; in a third of the graphs all are powers of two, so that ties are common.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import quantised_oracle as oracle
from quantised_oracle import T

F32 = np.float32
OPSETS = [11, 13, 17, 19, 21, 23, 25]
LARGE = {3: [1, 24, 33, 31], 12: [150, 300], 20: [2, 17, 40, 21]}


class Tensor:
    """A quantised tensor: names of integers, scale and zero point (or None)."""

    def __init__(self, name, scale, zero):
        self.name, self.scale, self.zero, self.real = name, scale, zero, None


class Graph:
    def __init__(self, number, opset):
        self.rng, self.number, self.opset = np.random.default_rng([number, 77]), number, opset
        self.values, self.kinds = {}, {}
        self.nodes, self.inits, self.inputs, self.outputs, self.steps = [], [], {}, [], []
        self.nice = self.rng.random() < 0.33
        self.small = ["uint8", "int8"]
        dtypes = self.small + (["int16", "uint16"] if opset >= 21 and self.rng.random() < 0.2 else [])
        self.dtype = self.rng.choice(dtypes)
        self.live = []

    # --- pieces ---------------------------------------------------------------
    def chance(self, p):
        return self.rng.random() < p

    def pick(self, *options):
        return options[self.rng.integers(len(options))]

    def ints(self, low, high, shape=()):
        return self.rng.integers(low, high + 1, shape)

    def fresh(self):
        return f"g{self.number}_{len(self.values)}"

    def constant(self, array, kind=None):
        name, array = self.fresh(), np.asarray(array)
        self.values[name], self.kinds[name] = T(array), kind
        if kind:
            self.inits.append(helper.make_tensor(name, kind, array.shape, array.flatten().tolist()))
        else:
            self.inits.append(numpy_helper.from_array(array, name))
        return name

    def given(self, array):
        name = self.fresh()
        self.values[name] = T(array)
        self.inputs[name] = array
        return name

    def op(self, op, *inputs, domain="", n=1, **attributes):
        x = [self.values[i] if i else None for i in inputs]
        results = oracle.evaluate(op, domain, attributes, x, self.opset)
        names = []
        for r in results:
            names.append(self.fresh())
            self.values[names[-1]] = r
        self.nodes.append(helper.make_node(op, [i or "" for i in inputs], names, domain=domain, **attributes))
        return names[0] if n == 1 else names

    def shape(self, name):
        return self.values[name].v.shape

    def scale_of(self, span):
        s = max(float(span), 1e-3) * self.rng.uniform(0.6, 1.6)
        return F32(2.0 ** np.round(np.log2(s))) if self.nice else F32(s)

    def scalar(self, v):
        return self.constant(np.reshape(v, [1]) if self.chance(0.2) else v)

    def zero_for(self, dtype, low, scale):
        """A zero point that puts `low` near the least number, or none."""
        least, most = oracle.limits(dtype)
        if dtype in ("int8", "int16") and self.chance(0.5):
            return self.constant(np.zeros((), dtype)) if self.opset < 13 or dtype != "uint8" and self.chance(0.5) else self.constant(np.dtype(dtype).type(0))
        z = np.clip(np.rint(least - low / scale), least, most)
        return self.constant(np.dtype(dtype).type(z))

    def like(self, zero, scale):
        """The zero point in the shape of its scale."""
        shape = self.shape(scale)
        return self.constant(self.values[zero].v.reshape(shape)) if zero and self.shape(zero) != shape else zero

    def parameters(self, v, dtype):
        low, high = float(min(v.min(), 0)), float(max(v.max(), 0))
        least, most = oracle.limits(dtype)
        scale = self.scale_of((high - low) / (most - least))
        name = self.scalar(scale)
        return name, self.like(self.zero_for(dtype, low, scale), name)

    def quantise(self, x, dtype=None):
        dtype = dtype or (self.dtype if self.chance(0.7) else self.pick(*self.small))
        scale, zero = self.parameters(self.values[x].v, dtype)
        return Tensor(self.op("QuantizeLinear", x, scale, zero), scale, zero)

    def requantise(self, x, like):
        """By the same parameters, or by new ones."""
        if self.chance(0.6):
            return Tensor(self.op("QuantizeLinear", x, like.scale, like.zero), like.scale, like.zero)
        return self.quantise(x)

    def real(self, t):
        """DequantizeLinear, shared or one more."""
        if not t.real or self.chance(0.3):
            zero = t.zero
            if zero and not self.values[zero].v.any() and self.chance(0.5) and self.values[t.name].v.dtype == np.uint8:
                zero = None
            t.real = self.op("DequantizeLinear", t.name, t.scale, *([zero] if zero else []))
        return t.real

    def source(self, shape, dtype=None):
        """A quantised tensor from outside: integers, or floats and QuantizeLinear."""
        dtype = dtype or self.dtype
        if self.chance(0.3):
            return self.quantise(self.given((self.rng.standard_normal(shape) * self.rng.uniform(0.1, 4)).astype(F32)), dtype)
        least, most = oracle.limits(dtype)
        name = self.given(self.ints(least, most, shape).astype(dtype))
        scale = self.scalar(self.scale_of(4 / (most - least)))
        return Tensor(name, scale, self.like(self.constant(np.dtype(dtype).type(self.ints(least // 4, most // 2))), scale))

    def weight(self, shape, axis, dtype=None):
        """Integers, scale and zero point of a weight, one scale for each index of `axis` or one for all; the scale's axis."""
        dtype = dtype or self.pick("int8", "int8", "uint8")
        least, most = oracle.limits(dtype)
        each = self.opset >= 13 and axis is not None and self.chance(0.6)
        n = [shape[axis]] if each else []
        scales = np.array([self.scale_of(0.02) for _ in range(n[0])], F32) if each else self.scale_of(0.02)
        zero = None
        if dtype == "uint8" or self.chance(0.3):
            zero = self.ints(100, 150, n) if dtype == "uint8" else self.ints(-9, 9, n) * self.pick(0, 0, 1)
            zero = self.constant(np.asarray(zero, dtype))
        return self.constant(self.ints(least, most, shape).astype(dtype)), self.constant(scales), zero, axis if each else None

    def real_weight(self, shape, axis):
        if self.opset >= 21 and axis is not None and self.chance(0.15):
            return self.narrow_weight(shape, axis)
        w, scale, zero, each = self.weight(shape, axis)
        a = {"axis": each - len(shape) if self.chance(0.3) else each} if each is not None else {}
        return self.op("DequantizeLinear", w, scale, *([zero] if zero else []), **a)

    def narrow_weight(self, shape, axis):
        """4 bits."""
        kind, least, most = self.pick((TensorProto.INT4, -8, 7), (TensorProto.UINT4, 0, 15))
        dtype = np.int8 if least else np.uint8
        w = self.constant(self.ints(least, most, shape).astype(dtype), kind)
        scale = self.constant(np.array([self.scale_of(0.1) for _ in range(shape[axis])], F32))
        zero = self.constant(self.ints(least // 2, most // 2, [shape[axis]]).astype(dtype), kind)
        return self.op("DequantizeLinear", w, scale, zero, axis=axis)

    def blocked_weight(self, shape, axis=0):
        """A scale for each block of indices of an axis."""
        block = self.pick(2, 4, 8)
        blocks = [-(-d // block) if i == axis else d for i, d in enumerate(shape)]
        w = self.constant(self.ints(-128, 127, shape).astype(np.int8))
        scale = self.constant(self.rng.uniform(0.005, 0.03, blocks).astype(F32))
        return self.op("DequantizeLinear", w, scale, axis=axis, block_size=block)

    def bias(self, n):
        """A bias of the sum's scale or of another, a float one, or none."""
        kind = self.ints(0, 3)
        if kind == 0:
            return None
        if kind == 1:
            return self.constant(self.rng.standard_normal(n).astype(F32))
        scale = self.constant(self.scale_of(1e-3) if self.opset < 13 or self.chance(0.5) else np.array([self.scale_of(1e-3) for _ in range(n)], F32))
        a = {"axis": 0} if self.shape(scale) else {}
        return self.op("DequantizeLinear", self.constant(self.ints(-3000, 3000, [n]).astype(np.int32)), scale, **a)

    def activation(self, x):
        kind = self.ints(0, 5)
        if kind == 0:
            return self.op("Relu", x)
        if kind == 1:
            return self.op("Clip", x, self.constant(F32(0)), self.constant(F32(self.pick(1, 6))))
        if kind == 2 and self.chance(0.4):
            return self.op("LeakyRelu", x, alpha=self.pick(0.1, 0.25))
        return x

    def residual(self, x):
        """Plus another tensor of the same shape."""
        if not self.chance(0.2):
            return x
        return self.op("Add", x, self.real(self.source(self.shape(x))))

    def finish_product(self, y):
        if self.chance(0.1):
            self.outputs.append(y)
        return self.quantise(self.activation(self.residual(y)))

    # --- the graph ----------------------------------------------------------------
    def generate(self):
        import quantised_steps
        shape = self.pick(*[[self.ints(1, 2), self.ints(2, 9), self.ints(5, 10), self.ints(5, 10)]] * 3, [self.ints(1, 2), self.ints(1, 9), self.ints(4, 9), self.ints(4, 9)], [self.ints(1, 2), self.ints(2, 18), self.ints(5, 9), self.ints(5, 9)],
                          [1, self.ints(2, 9), self.ints(6, 20)], [self.ints(1, 9), self.ints(3, 40)], [self.ints(1, 3), self.ints(2, 8), self.ints(3, 24)])
        if self.number % 25 in LARGE:  # enough work for several workgroups
            shape = LARGE[self.number % 25]
        t = self.source([int(d) for d in shape])
        for _ in range(self.ints(1, 5)):
            rank = len(self.shape(t.name))
            steps = [s for s in quantised_steps.STEPS if quantised_steps.fits(self, s, t, rank)]
            if not steps:
                break
            weights = np.array([quantised_steps.WEIGHTS.get(s.__name__, 1) for s in steps], float)
            step = steps[self.rng.choice(len(steps), p=weights / weights.sum())]
            self.steps.append(step.__name__)
            t = step(self, t)
        self.outputs.append(t.name)
        if self.chance(0.2):
            self.outputs.append(self.real(t))
        return self


def dims(g, name, shape):
    """In one graph of eight the model does not know its inputs' sizes, but for channels, and columns of a matrix."""
    if g.number % 8 != 5:
        return shape
    last = len(shape) - 1
    return [d if d == 1 or axis == 1 or (axis == last and last < 3) else f"{name}_{axis}" for axis, d in enumerate(shape)]


def model(graphs, opset):
    """All of them in one model."""
    kind = lambda v: helper.np_dtype_to_tensor_dtype(np.asarray(v).dtype)  # noqa: E731
    ins = [helper.make_tensor_value_info(n, kind(v), dims(g, n, v.shape)) for g in graphs for n, v in g.inputs.items()]
    outs = [helper.make_tensor_value_info(n, kind(g.values[n].v), None if g.number % 8 == 5 else g.values[n].v.shape) for g in graphs for n in g.outputs]
    graph = helper.make_graph([n for g in graphs for n in g.nodes], "quantised", ins, outs, [i for g in graphs for i in g.inits])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=onnx.IR_VERSION if opset > 24 else 10 if opset > 20 else 8)
