"""Previews, which run where the schema has a body; pictures and gradients, which must be refused by name."""
import numpy as np

from .table import case, given, graph, normal

TRAIN = "ai.onnx.preview.training"
R, T = np.float32(0.1), np.array(1, np.int64)
X, SQUARE = normal(4), np.abs(normal(4))


def adam(r, t, x, g, v, h):
    rate = r * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    v, h = 0.9 * v + 0.1 * g, 0.999 * h + 0.001 * g * g
    return tuple(k.astype(np.float32) for k in (x - rate * v / np.sqrt(h), v, h))


case("Adagrad", given(R), given(T), given(X), given(X), given(SQUARE), outputs=2, domain=TRAIN)
case("Adam", given(R), given(T), given(X), given(X), given(X), given(SQUARE), outputs=3, domain=TRAIN, want=adam)
case("Momentum", given(R), given(T), given(X), given(X), given(X), outputs=2, domain=TRAIN, alpha=0.9, beta=1.0, mode="standard", norm_coefficient=0.1)
case("Gradient", given(X), outputs=1, domain=TRAIN, refused="Gradient", xs=["i0"], y="i0")
case("FlexAttention", given(normal(1, 2, 3, 4)), given(normal(1, 2, 3, 4)), given(normal(1, 2, 3, 4)), domain="ai.onnx.preview")
case("ImageDecoder", given(np.zeros(16, np.uint8)), refused="ImageDecoder")
# A table of values in place of the sequence of maps: see the design of types.
graph("ZipMap", "g (float[3,2] x) => (seq(map(int64, float)) y) { y = ai.onnx.ml.ZipMap<classlabels_int64s = [3, 5]>(x) }", given(normal(3, 2)), want=lambda x: x, ort=False, domain="ai.onnx.ml")
