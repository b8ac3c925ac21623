"""Elementwise operators: the limited broadcasting before version 7, attributes that said where results go, bounds, slopes, defaults that changed."""
import numpy as np

from .table import case, f32, given, graph, i64, ints, mask, normal, uniform

X = normal(3, 5, 4, scale=3)
POSITIVE = uniform(0.1, 9, 3, 5, 4)

# One operand. Version 1 had `consumed_inputs`, a hint where to put the result.
for op, x in (("Abs", X), ("Neg", X), ("Ceil", X), ("Floor", X), ("Relu", X), ("Sigmoid", X), ("Tanh", X), ("Exp", X), ("Log", POSITIVE), ("Sqrt", POSITIVE), ("Reciprocal", POSITIVE)):
    case(op, given(x))
    case(op, given(x), hi=5, name="consumed", consumed_inputs=[0])
case("Abs", given(ints(-9, 9, 3, 5, dtype=np.int32)), lo=6, name="int32")
case("Neg", given(ints(-9, 9, 3, 5, dtype=np.int8)), lo=6, name="int8")
case("Relu", given(ints(-9, 9, 3, 5, dtype=np.int32)), lo=14, name="int32")
for op in ("Erf", "Sign", "Round", "Sin", "Cos", "Tan", "Sinh", "Cosh", "Asinh", "Atan", "Softplus", "Softsign", "HardSwish", "Mish", "Gelu", "Shrink"):
    case(op, given(normal(3, 5, 4, scale=1.2)))
case("Shrink", given(X), name="attributes", lambd=1.0, bias=0.25)
case("Gelu", given(X), name="tanh", approximate="tanh")
case("Swish", given(X), alpha=1.5)
case("Asin", given(uniform(-1, 1, 3, 5)))
case("Acos", given(uniform(-1, 1, 3, 5)))
case("Atanh", given(uniform(-0.9, 0.9, 3, 5)))
case("Acosh", given(uniform(1, 9, 3, 5)))
case("Not", given(mask(3, 5)))
case("IsNaN", given(np.array([1, np.nan, -np.inf, 3], np.float32)))
case("IsInf", given(np.array([1, np.nan, -np.inf, np.inf], np.float32)))
case("IsInf", given(np.array([1, np.nan, -np.inf, np.inf], np.float32)), name="positive", detect_negative=0)
case("BitwiseNot", given(ints(0, 255, 4, 5, dtype=np.uint8)))
case("BitCast", given(ints(-9, 9, 3, 5, dtype=np.int32)), to=1)
case("SwiGLU", given(normal(3, 8)), given(normal(3, 8)), alpha=1.5)


def elu(alpha):
    return lambda x: np.where(x < 0, alpha * (np.exp(x) - 1), x).astype(x.dtype)


def selu(alpha, gamma):
    return lambda x: np.where(x <= 0, gamma * (alpha * np.exp(x) - alpha), gamma * x).astype(np.float32)


case("Elu", given(X), want=elu(1.0))
case("Elu", given(X), want=elu(0.4), name="alpha", alpha=0.4)
case("Elu", given(X), hi=5, want=elu(1.0), name="consumed", consumed_inputs=[0])
# The constants that a missing attribute stands for got more digits.
case("Selu", given(X), hi=5, want=selu(1.6732, 1.0507), limit=1e-6)
case("Selu", given(X), lo=6, want=selu(1.6732631921768188, 1.0507010221481323), limit=1e-6)
case("Selu", given(X), want=selu(2.0, 0.5), name="attributes", alpha=2.0, gamma=0.5)
case("Selu", given(X), hi=5, want=selu(1.6732, 3.0), name="gamma", gamma=3.0, consumed_inputs=[0])
case("LeakyRelu", given(X), want=lambda x: np.where(x < 0, np.float32(0.01) * x, x))
case("LeakyRelu", given(X), hi=5, name="consumed", want=lambda x: np.where(x < 0, np.float32(0.3) * x, x), alpha=0.3, consumed_inputs=[0])
case("HardSigmoid", given(X), want=lambda x: np.clip(np.float32(0.2) * x + np.float32(0.5), 0, 1))
case("HardSigmoid", given(X), hi=5, name="consumed", want=lambda x: np.clip(np.float32(0.3) * x + np.float32(0.4), 0, 1), alpha=0.3, beta=0.4, consumed_inputs=[0])
case("ThresholdedRelu", given(X), want=lambda x: np.where(x > 1, x, np.float32(0)))
case("ThresholdedRelu", given(X), name="alpha", alpha=-0.5, want=lambda x: np.where(x > np.float32(-0.5), x, np.float32(0)))
case("Celu", given(X), alpha=0.7)
case("Softmax", given(normal(4, 6)), name="matrix")

# Two operands. Before version 7 the second one could be a contiguous part of the first one's dimensions, from `axis` on, with `broadcast` = 1.
A, B = normal(2, 3, 4, 5), normal(2, 3, 4, 5)


def limited(f, axis=None):
    """The old broadcasting, from its text."""
    def run(a, b):
        if b.size == 1:
            return f(a, b.reshape(()))
        start = a.ndim - b.ndim if axis is None else axis
        return f(a, b.reshape((1,) * start + b.shape + (1,) * (a.ndim - start - b.ndim)))
    return run


def old(op, f, a, b, **more):
    """`a`, `b`: functions of a shape."""
    first = a(2, 3, 4, 5)
    case(op, given(first), given(b(2, 3, 4, 5)), hi=6, want=f, **more)
    for name, shape, axis in (("suffix", (4, 5), None), ("last", (5,), None), ("middle", (3, 4), 1), ("front", (2,), 0), ("second", (3,), 1), ("scalar", (), None), ("one", (1, 1), None), ("one_at", (1,), 1)):
        attributes = {"broadcast": 1, **({} if axis is None else {"axis": axis})}
        case(op, given(first), given(b(*shape)) if name != "middle" else b(*shape), hi=6, name=name, want=limited(f, axis), **attributes, **more)
    case(op, given(a(3, 1)), given(b(2, 3, 4)), lo=7, name="numpy", want=f, **more)


def nonzero(*shape):
    return uniform(0.5, 3, *shape)


def power(a, b):
    return np.power(a, b).astype(np.float32)


for op, f, b in (("Add", np.add, normal), ("Sub", np.subtract, normal), ("Mul", np.multiply, normal), ("Div", np.divide, nonzero)):
    old(op, f, normal, b)
    case(op, given(A), given(b(3)), hi=5, name="consumed", want=limited(f, 1), broadcast=1, axis=1, consumed_inputs=[0, 0])
    case(op, given(A), given(b(3)), hi=6, name="undeclared", refused="broadcast")
    case(op, given(ints(1, 9, 3, 4, dtype=np.int32)), given(ints(1, 9, 4, dtype=np.int32)), lo=7, name="int32")
    case(op, given(ints(1, 9, 3, 4, dtype=np.int8)), given(ints(1, 9, 4, dtype=np.int8)), lo=14, name="int8")
case("Add", given(ints(1, 9, 3, 4, dtype=np.int64)), given(ints(1, 9, 3, dtype=np.int64)), lo=6, hi=6, name="int64", want=lambda a, b: a + b[:, None], broadcast=1, axis=0)
# The rank of a value in the middle of the graph decides where the second operand lies.
graph("Add", "g (float[2,3,4] x, float[3] b) => (float[2,3,4] y) { t = Relu(x) u = Add<broadcast=1, axis=1>(t, b) v = Neg(u) w = Mul<broadcast=1, axis=0>(v, c) y = Exp(w) } <float[2] c = {1.0, -0.5}>".replace(
    "} <float[2] c = {1.0, -0.5}>", "}").replace("w = Mul<broadcast=1, axis=0>(v, c)", "c = Constant<value = float[2] {1.0, -0.5}>() w = Mul<broadcast=1, axis=0>(v, c)"),
      given(normal(2, 3, 4)), given(normal(3)), hi=6, name="chain", want=lambda x, b: np.exp(-(np.maximum(x, 0) + b[:, None]) * f32(1, -0.5)[:, None, None]))
graph("Mul", "g (float[n,c,h,w] x, float[c] b) => (float[n,c,h,w] y) { y = Mul<broadcast=1, axis=1>(x, b) }", given(A), given(normal(3)), hi=6, name="dynamic", want=limited(np.multiply, 1))
old("Pow", power, nonzero, normal)
case("Pow", given(nonzero(3, 4)), given(ints(-2, 3, 4, dtype=np.int32)), lo=12, name="mixed", want=lambda a, b: power(a.astype(np.float64), b))
for op, f in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)):
    old(op, f, mask, mask)
few = lambda *shape: ints(0, 3, *shape, dtype=np.int32)  # noqa: E731
old("Equal", np.equal, few, few)
case("Equal", given(mask(3, 4)), given(mask(4)), hi=6, name="bool", want=np.equal, broadcast=1)
case("Equal", given(few(3, 4).astype(np.float32)), given(few(4).astype(np.float32)), lo=11, name="float")
case("Equal", given(np.array(["a", "b", "c"], object)), np.array(["a", "x", "c"], object), lo=19, name="string", want=lambda a, b: np.array([True, False, True]))
old("Greater", np.greater, normal, normal)
old("Less", np.less, normal, normal)
for op in ("Greater", "Less"):
    case(op, given(few(3, 4)), given(few(4)), lo=9, name="int32")
for op in ("GreaterOrEqual", "LessOrEqual"):
    case(op, given(few(3, 4).astype(np.float32)), given(few(4).astype(np.float32)))
for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    case(op, given(few(3, 4)), given(few(4)))
case("BitShift", given(ints(0, 99, 5, dtype=np.uint8)), given(ints(0, 9, 5, dtype=np.uint8)), direction="RIGHT")
case("BitShift", given(ints(0, 99, 5, dtype=np.uint32)), given(ints(0, 9, 5, dtype=np.uint32)), name="left", direction="LEFT")
case("Mod", given(ints(-9, 9, 5, 4)), given(ints(1, 5, 4)), want=lambda a, b: np.mod(a, b))
case("Mod", given(normal(5, 4)), given(uniform(0.5, 2, 4)), name="fmod", fmod=1, want=lambda a, b: np.fmod(a, b))

# Several operands: of one shape before version 8.
for op, f in (("Max", lambda *v: np.maximum.reduce(v)), ("Min", lambda *v: np.minimum.reduce(v)), ("Sum", lambda *v: sum(v)), ("Mean", lambda *v: (sum(v) / len(v)).astype(np.float32))):
    case(op, given(A), given(B), given(normal(2, 3, 4, 5)), want=f)
    case(op, given(A), name="one", want=lambda a: a)
    case(op, given(A), given(B), hi=5, name="consumed", want=f, consumed_inputs=[0, 0])
    case(op, given(A), given(normal(4, 1)), lo=8, name="numpy", want=lambda a, b, f=f: f(*np.broadcast_arrays(a, b)))
    case(op, given(A), given(normal(5)), hi=7, name="undeclared", refused="shape")
for op in ("Max", "Min"):
    case(op, given(few(3, 4)), given(few(4)), lo=12, name="int32")

# Bounds: attributes before version 11, and without them the range of a finite float.
WILD = np.array([-np.inf, -3, -0.5, 0, 2, 7, np.inf, np.nan], np.float32)
TOP = np.finfo(np.float32).max
case("Clip", given(X), hi=6, want=lambda x: np.clip(x, np.float32(-1.5), np.float32(2)), min=-1.5, max=2.0)
case("Clip", given(X), hi=6, name="min", want=lambda x: np.maximum(x, np.float32(-1.5)), min=-1.5)
case("Clip", given(X), hi=6, name="max", want=lambda x: np.minimum(x, np.float32(1.5)), max=1.5)
case("Clip", given(WILD), hi=6, name="none", want=lambda x: np.clip(x, -TOP, TOP))
case("Clip", given(WILD), hi=6, name="wild", want=lambda x: np.clip(x, np.float32(0), TOP), min=0.0)
case("Clip", given(X), hi=5, name="consumed", want=lambda x: np.maximum(x, 0), min=0.0, consumed_inputs=[0])
case("Clip", given(X.astype(np.float64)), hi=6, name="double", want=lambda x: np.clip(x, 0, 6), min=0.0, max=6.0)
case("Clip", given(X.astype(np.float16)), hi=6, name="half", want=lambda x: np.clip(x, np.float16(0), np.float16(6)), min=0.0, max=6.0, limit=1e-3)
case("Clip", given(X), np.float32(-1.5), np.float32(2), lo=11, want=lambda x, a, b: np.clip(x, a, b))
case("Clip", given(X), None, given(np.float32(2)), lo=11, name="max", want=lambda x, b: np.minimum(x, b))
# The text of later versions still says so, their function bodies leave infinities alone, and so do we; onnxruntime does not.
case("Clip", given(WILD), lo=11, name="none", want=lambda x: x, ort=False)
case("Clip", given(ints(-9, 9, 4, 5, dtype=np.int8)), np.int8(-3), np.int8(4), lo=12, name="int8", want=lambda x, a, b: np.clip(x, a, b))

# Slopes: one a channel, along axis 1, before version 7; from the trailing side afterwards.
case("PRelu", given(A), given(normal(3)), hi=6, name="channels", want=lambda x, s: np.where(x < 0, s.reshape(3, 1, 1) * x, x))
case("PRelu", given(A), normal(3), hi=6, name="constant", want=lambda x, s: np.where(x < 0, s.reshape(3, 1, 1) * x, x))
case("PRelu", given(A), given(normal(1)), hi=6, name="shared", want=lambda x, s: np.where(x < 0, s * x, x))
case("PRelu", given(normal(4, 3)), given(normal(3)), hi=6, name="matrix", want=lambda x, s: np.where(x < 0, s * x, x))
case("PRelu", given(A), given(normal(1)), hi=5, name="consumed", want=lambda x, s: np.where(x < 0, s * x, x), consumed_inputs=[0, 0])
case("PRelu", given(A), given(normal(5)), lo=7, want=lambda x, s: np.where(x < 0, s * x, x))
case("PRelu", given(A), given(normal(3, 1, 1)), lo=7, name="channels", want=lambda x, s: np.where(x < 0, s * x, x))
case("PRelu", given(ints(-9, 9, 3, 4, dtype=np.int32)), given(ints(1, 4, 4, dtype=np.int32)), lo=9, name="int32", want=lambda x, s: np.where(x < 0, s * x, x))
case("Where", given(mask(3, 4)), given(normal(3, 4)), given(normal(4)))
case("Expand", given(normal(3, 1)), i64(2, 1, 4))

# Casts: a name in version 1.
case("Cast", given(X), hi=5, want=lambda x: x.astype(np.int32), to="INT32")
case("Cast", given(X), hi=5, name="double", want=lambda x: x.astype(np.float64), to="DOUBLE")
case("Cast", given(few(3, 4)), hi=5, name="bool", want=lambda x: x.astype(np.bool_), to="BOOL")
case("Cast", given(X), hi=5, name="unknown", refused="FLOATY", to="FLOATY")
case("Cast", given(X), lo=6, want=lambda x: x.astype(np.int32), to=6)
case("Cast", given(few(3, 4)), lo=6, name="half", want=lambda x: x.astype(np.float16), to=10)
case("Cast", given(np.array([1.5, -2.25, 1e9], np.float32)), lo=6, name="bool", want=lambda x: x != 0, to=9)
case("Cast", given(f32(1.0, -2.5, 448.0, 1000.0)), lo=19, name="float8", to=17)
case("Cast", given(f32(1.0, -2.5, 448.0, 1000.0)), lo=19, name="float8_wraps", to=17, saturate=0)
case("Cast", given(np.array(["1", "-7", "12"], object)), lo=9, name="from_string", refused="Cast", to=7)
case("CastLike", given(X), given(few(1)), want=lambda x, t: x.astype(np.int32))
