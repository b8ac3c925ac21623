"""Quantisation: one scale for the tensor, then an axis, then blocks; types and precisions that came one by one."""
import numpy as np

from .table import case, f32, given, ints, normal, uniform

X = normal(3, 4, scale=9)
X[0] = [0.5, 1.5, 2.5, -0.5]  # halves go to even
BYTES = ints(0, 255, 3, 4, dtype=np.uint8)
SIGNED = ints(-128, 127, 3, 4, dtype=np.int8)


def quantise(x, s, z):
    kind = np.iinfo(z.dtype)
    return np.clip(np.rint(x / s) + z, kind.min, kind.max).astype(z.dtype)


def dequantise(x, s, z=0):
    return ((x.astype(np.int32) - np.asarray(z).astype(np.int32)) * s).astype(np.float32)


case("QuantizeLinear", given(X), np.float32(1), np.uint8(120), want=quantise)
case("QuantizeLinear", given(X), np.float32(0.07), np.int8(-3), name="int8", want=quantise)
case("QuantizeLinear", given(X), np.float32(0.5), name="no_zero_point", want=lambda x, s: quantise(x, s, np.uint8(0)))
case("QuantizeLinear", given(X), uniform(0.05, 0.5, 4), ints(0, 255, 4, dtype=np.uint8), lo=13, name="axis", want=quantise)
case("QuantizeLinear", given(X), uniform(0.05, 0.5, 3), ints(0, 255, 3, dtype=np.uint8), lo=13, name="first_axis", axis=0, want=lambda x, s, z: quantise(x, s[:, None], z[:, None]))
# Version 10 knew no axis; a vector of scales lies along axis 1 there too, as in onnxruntime.
case("QuantizeLinear", given(X), uniform(0.05, 0.5, 4), ints(0, 255, 4, dtype=np.uint8), hi=10, name="axis")
case("QuantizeLinear", given(X.astype(np.float16)), np.float16(0.5), np.uint8(3), lo=19, name="half", want=lambda x, s, z: quantise(x.astype(np.float32), np.float32(s), z))
case("QuantizeLinear", given(X), np.float32(0.01), np.uint16(30000), lo=21, name="uint16", want=quantise)
case("QuantizeLinear", given(normal(2, 8)), uniform(0.05, 0.5, 2, 2), ints(0, 255, 2, 2, dtype=np.uint8), lo=21, name="block", block_size=4,
     want=lambda x, s, z: quantise(x, np.repeat(s, 4, 1), np.repeat(z, 4, 1)), axis=1)
case("QuantizeLinear", given(X), np.float32(0.5), lo=21, name="output_dtype", output_dtype=3, want=lambda x, s: quantise(x, s, np.int8(0)))
case("DequantizeLinear", given(BYTES), np.float32(0.07), np.uint8(120), want=dequantise)
case("DequantizeLinear", given(SIGNED), np.float32(0.07), name="no_zero_point", want=dequantise)
case("DequantizeLinear", given(ints(-9999, 9999, 3, 4, dtype=np.int32)), np.float32(0.07), name="int32", want=dequantise)
case("DequantizeLinear", given(SIGNED), uniform(0.05, 0.5, 4), ints(-9, 9, 4, dtype=np.int8), lo=13, name="axis", want=dequantise)
case("DequantizeLinear", given(SIGNED), uniform(0.05, 0.5, 3), lo=13, name="first_axis", axis=0, want=lambda x, s: dequantise(x, s[:, None]))
case("DequantizeLinear", given(SIGNED), uniform(0.05, 0.5, 4), ints(-9, 9, 4, dtype=np.int8), hi=10, name="axis")
case("DequantizeLinear", given(SIGNED), np.float16(0.25), np.int8(2), lo=19, name="half", want=lambda x, s, z: dequantise(x, s, z).astype(np.float16))
case("DequantizeLinear", given(SIGNED), uniform(0.05, 0.5, 3, 2), lo=21, name="block", block_size=2, axis=1, want=lambda x, s: dequantise(x, np.repeat(s, 2, 1)))
case("DequantizeLinear", given(SIGNED), np.float32(0.25), lo=23, name="output_dtype", output_dtype=10, want=lambda x, s: dequantise(x, s).astype(np.float16), ort=False)
case("DynamicQuantizeLinear", given(X), outputs=3)
A, B = ints(0, 255, 4, 6, dtype=np.uint8), ints(0, 255, 6, 5, dtype=np.uint8)
case("QLinearMatMul", given(A), np.float32(0.02), np.uint8(120), B, np.float32(0.03), np.uint8(99), np.float32(0.3), np.uint8(110))
case("QLinearConv", given(ints(0, 255, 1, 3, 6, 6, dtype=np.uint8)), np.float32(0.02), np.uint8(120), ints(0, 255, 4, 3, 3, 3, dtype=np.uint8), f32(0.03), np.uint8([99]), np.float32(0.3), np.uint8(110),
     ints(-99, 99, 4, dtype=np.int32), pads=[1, 1, 1, 1])
