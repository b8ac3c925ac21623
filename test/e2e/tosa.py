#!/usr/bin/env python3
"""What the CPU makes of a serialised TOSA segment against the TOSA reference model: integers bit for bit, floats within tolerance.

usage: tosa.py [--build DIR] [--only REGEX] [--models NAME...]

A graph goes through the TOSA file whole, in every precision that is named for it; the bundle of what was read back is compared with the reference
model on the very file, and the whole model with onnxruntime for ONNX's meaning (int8: at most one step). Of the public models every segment is
compared with the reference model, or as many as the time allows.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

import graphs
from harness import CACHE, HERE, Fault, Refused, Tally, Tools, error, oracle

REFERENCE = [os.path.join(CACHE, "venv-tosa", "bin", "python"), os.path.join(HERE, "tosa_reference.py")]
LIMIT = {"f32": 2e-5, "f16": 1e-2, "int8": 0, "int16": 0}
STEPS = {np.dtype(np.int8): 1, np.dtype(np.int16): 17}  # of quantised results, from onnxruntime's
GRAPHS = []


def graph(name, text, *precisions, opset=21, segments=1, low=1, high=5):
    """`segments`: how many the graph must come to."""
    GRAPHS.append((name, text, precisions or ("f32", "f16"), opset, segments, low, high))


graph("conv_3x3_pad", "g (float[1,5,19,23] x) => (float y) { a = Conv<pads=[1,1,1,1]>(x, $[17,5,3,3], $[17]) y = Relu(a) }")
graph("conv_stride_asym", "g (float[2,3,15,14] x) => (float y) { y = Conv<pads=[0,1,2,1], strides=[2,3]>(x, $[8,3,3,5]) }")
graph("conv_dilated", "g (float[1,4,20,20] x) => (float y) { y = Conv<dilations=[2,3], pads=[2,3,2,3]>(x, $[6,4,3,3]) }")
graph("conv_depthwise", "g (float[1,20,13,11] x) => (float y) { a = Conv<group=20, pads=[1,1,1,1], strides=[2,2]>(x, $[20,1,3,3], $[20]) y = HardSwish(a) }")
graph("conv_depthwise_many", "g (float[1,6,9,8] x) => (float y) { y = Conv<group=6, pads=[1,1,1,1]>(x, $[12,1,3,3]) }")
graph("conv_groups", "g (float[1,12,9,9] x) => (float y) { y = Conv<group=3, pads=[2,2,2,2]>(x, $[6,4,5,5], $[6]) }")
graph("conv_1d", "g (float[2,3,50] x) => (float y) { y = Conv<pads=[2,2], strides=[2]>(x, $[7,3,5]) }")
graph("conv_3d", "g (float[1,2,5,6,7] x) => (float y) { y = Conv<pads=[1,1,1,1,1,1]>(x, $[4,2,3,3,3]) }", "f32")
graph("conv_same", "g (float[1,5,10,11] x) => (float y, float z) { y = Conv<auto_pad=\"SAME_UPPER\", strides=[2,2]>(x, $[9,5,3,4]) z = Conv<auto_pad=\"SAME_LOWER\", strides=[2,3]>(x, $[9,5,4,4]) }")
graph("conv_residual", "g (float[1,24,7,7] x) => (float y) { a = Conv<pads=[1,1,1,1]>(x, $[24,24,3,3], $[24]) c = Add(a, x) y = LeakyRelu(c) }")
graph("conv_transpose", "g (float[1,4,7,9] x) => (float y) { y = ConvTranspose<strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]>(x, $[4,5,3,3], $[5]) }")
graph("gemm", "g (float[7,29] x) => (float y) { y = Gemm<transB=1, alpha=0.5, beta=2.0>(x, $[9,29], $[9]) }")
graph("matmul_two_inputs", "g (float[2,3,17,8] x, float[2,3,8,33] z) => (float y) { y = MatMul(x, z) }")
graph("matmul_broadcast", "g (float[5,1,4,6] x, float[3,6,2] z) => (float y) { y = MatMul(x, z) }")
graph("matmul_vector", "g (float[6] x, float[4,6,2] z) => (float y) { y = MatMul(x, z) }")
graph("matmul_weights", "g (float[3,7,16] x) => (float y) { a = MatMul(x, $[16,12]) b = Add(a, $[12]) y = Gelu(b) }")
graph("attention", "g (float[2,3,9,8] q, float[2,3,8,11] k, float[2,3,11,8] v) => (float y) { a = MatMul(q, k) s = Softmax<axis=-1>(a) y = MatMul(s, v) }")
graph("maxpool_ceil", "g (float[1,3,13,14] x) => (float y) { y = MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1, pads=[1,0,1,0]>(x) }")
graph("avgpool_count_pad", "g (float[1,3,13,14] x) => (float y, float z) { y = AveragePool<kernel_shape=[3,2], strides=[2,1], pads=[1,1,1,0], count_include_pad=1>(x) z = AveragePool<kernel_shape=[3,2], pads=[1,1,1,0]>(x) }")
graph("global_pools", "g (float[2,9,5,3] x) => (float y, float z) { y = GlobalAveragePool(x) z = GlobalMaxPool(x) }")
ACTIVATIONS = ("Exp", "Erf", "Tanh", "Sigmoid", "Relu", "Abs", "Neg", "Floor", "Ceil", "LeakyRelu<alpha=0.2>", "HardSigmoid", "HardSwish", "Gelu", "Gelu<approximate=\"tanh\">",
               "Elu", "Softplus", "Mish", "Sin", "Cos")
graph("activations", "g (float[2,3,5,4] x) => (" + ", ".join(f"float y{i}" for i in range(len(ACTIVATIONS))) + ") {"
      + " ".join(f"y{i} = {a}(x)" for i, a in enumerate(ACTIVATIONS)) + " }", opset=22)
graph("arithmetic", "g (float[2,3,5,4] x, float[3,1,4] z) => (float a, float b, float c, float d, float e, float f) { a = Add(x, z) b = Sub(z, x) c = Mul(x, $[4]) d = Max(x, z) e = Min(x, z) f = Mul(z, $[1]) }")
graph("roots_and_quotients", "g (float[2,3,5,4] x, float[3,1,4] z) => (float a, float b, float c, float d) { e = Exp(x) a = Div(z, e) b = Sqrt(e) l = Log(e) two = Constant<value = float {2.0}>() c = Pow(l, two) d = Reciprocal(e) }")
graph("select", "g (float[2,3,5,4] x, float[3,1,4] z) => (float y, bool b) { b = Less(x, z) c = GreaterOrEqual(x, $[1]) d = And(b, c) n = Not(d) y = Where(n, x, z) }")
graph("clip", "g (float[5,6] x) => (float y) { lo = Constant<value = float {-0.5}>() hi = Constant<value = float {0.7}>() y = Clip(x, lo, hi) }")
graph("prelu", "g (float[2,3,5,4] x) => (float y) { y = PRelu(x, $[3,1,1]) }")
graph("softmax_axis", "g (float[2,3,5,4] x) => (float y, float z) { y = Softmax<axis=1>(x) z = LogSoftmax<axis=2>(x) }")
graph("layer_norm", "g (float[2,7,24] x) => (float y) { y = LayerNormalization(x, $[24], $[24]) }")
graph("reductions", "g (float[2,3,5,4] x) => (float a, float b, float c, float d) { i = Constant<value = int64[2] {1, -1}>() a = ReduceMean(x, i) b = ReduceSum<keepdims=0>(x, i) c = ReduceMax(x, i) d = ReduceL2(x, i) }")
graph("argmax", "g (float[2,3,5,4] x) => (int64 a, int64 b) { a = ArgMax<axis=1>(x) b = ArgMax<axis=-1, keepdims=0>(x) }", "f32")
graph("movement", """g (float[2,3,8,6] x) => (float a, float b, float c, float d) { a = Transpose<perm=[3,0,2,1]>(x) s = Constant<value = int64[3] {6, 8, 6}>() r = Reshape(x, s)
  st = Constant<value = int64[2] {1, -1}>() en = Constant<value = int64[2] {8, -7}>() ax = Constant<value = int64[2] {1, 2}>() sp = Constant<value = int64[2] {3, -2}>() b = Slice(r, st, en, ax, sp)
  c = Concat<axis=1>(x, x) p = Constant<value = int64[8] {0, 1, 2, 0, 0, 0, -1, 3}>() d = Pad(x, p) }""")
graph("split_gather_tile", """g (float[2,6,5] x) => (float a, float b, float c, float d, float e) { a, b = Split<axis=1, num_outputs=2>(x) i = Constant<value = int64[3] {4, -6, 1}>() c = Gather<axis=1>(x, i)
  r = Constant<value = int64[3] {1, 2, 3}>() d = Tile(x, r) k = Constant<value = int64 {2}>() e = Gather<axis=2>(x, k) }""")
graph("depth_space", "g (float[1,8,4,6] x) => (float a, float b, float c) { a = DepthToSpace<blocksize=2>(x) b = DepthToSpace<blocksize=2, mode=\"CRD\">(x) c = SpaceToDepth<blocksize=2>(x) }")
graph("resize_nearest", "g (float[1,3,4,5] x) => (float y, float z) { s = Constant<value = float[4] {1.0, 1.0, 2.0, 3.0}>() y = Resize<mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\">(x, , s) z = Resize<mode=\"nearest\">(x, , s) }")
graph("resize_linear", "g (float[1,3,4,5] x) => (float y, float z, float u) { s = Constant<value = float[4] {1.0, 1.0, 2.0, 4.0}>() y = Resize<mode=\"linear\">(x, , s) z = Resize<mode=\"linear\", coordinate_transformation_mode=\"asymmetric\">(x, , s) u = Resize<mode=\"linear\", coordinate_transformation_mode=\"align_corners\">(x, , s) }")
graph("instance_norm", "g (float[2,3,5,4] x) => (float y) { y = InstanceNormalization(x, $[3], $[3]) }")
graph("casts", "g (float[2,3] x) => (float y, bool b) { i = Cast<to=6>(x) y = Cast<to=1>(i) b = Cast<to=9>(i) }")

# Quantised: the float weights are multiples of a step for each channel.
Q = " s{0} = Constant<value = float {{{1}}}>() z{0} = Constant<value = int8 {{{2}}}>()"
QUANT = Q.format("a", 0.02, 3) + Q.format("b", 0.05, -7) + Q.format("c", 0.031, 0)
WEIGHT = " k{0} = QuantizeLinear($[{1}], ws, wz) w{0} = DequantizeLinear(k{0}, ws, wz)"


def quantised(name, ins, outs, body, precision="int8", segments=1, opset=21):
    head = "g (" + ", ".join(f"float[{d}] f{i}" for i, d in enumerate(ins)) + f") => ({outs}) {{" + QUANT + " ws = Constant<value = float {0.008}>() wz = Constant<value = int8 {0}>()"
    for i in range(len(ins)):
        s = "ab"[i]
        head += f" q{i} = QuantizeLinear(f{i}, s{s}, z{s}) x{i} = DequantizeLinear(q{i}, s{s}, z{s})"
    graph(f"{precision}_{name}", head + body + " }", precision, opset=opset, segments=segments)


quantised("conv", ["1,5,13,11"], "int8 y", WEIGHT.format(0, "8,5,3,3") + " c = Conv<pads=[1,1,1,1], strides=[2,2]>(x0, w0, $[8]) r = Relu(c) y = QuantizeLinear(r, sc, zb)")
quantised("depthwise", ["1,6,9,8"], "int8 y", WEIGHT.format(0, "6,1,3,3") + " c = Conv<pads=[1,1,1,1], group=6>(x0, w0, $[6]) y = QuantizeLinear(c, sb, zb)")
quantised("conv_chain", ["1,5,13,11"], "int8 y", WEIGHT.format(0, "8,5,1,1") + WEIGHT.format(1, "8,1,3,3") + " c = Conv(x0, w0, $[8]) six = Constant<value = float {6.0}>() nil = Constant<value = float {0.0}>() l = Clip(c, nil, six)"
          " p = QuantizeLinear(l, sb, zb) d = DequantizeLinear(p, sb, zb) e = Conv<pads=[1,1,1,1], group=8>(d, w1) y = QuantizeLinear(e, sc, za)")
quantised("matmul", ["3,7,24"], "int8 y", WEIGHT.format(0, "24,10") + " m = MatMul(x0, w0) n = Add(m, $[10]) y = QuantizeLinear(n, sb, zb)")
quantised("gemm_one_row", ["7,1"], "int8 y", WEIGHT.format(0, "1,10") + " m = Gemm(x0, w0, $[10]) y = QuantizeLinear(m, sa, za)")
quantised("matmul_two", ["2,5,6", "2,6,4"], "int8 y", " m = MatMul(x0, x1) y = QuantizeLinear(m, sb, za)")
quantised("add", ["1,4,6,5", "1,4,1,1"], "int8 y", " a = Add(x0, x1) y = QuantizeLinear(a, sc, zb)")
quantised("mul_sub", ["1,4,6,5", "1,4,6,5"], "int8 y, int8 v", " a = Mul(x0, x1) y = QuantizeLinear(a, sb, zb) b = Sub(x0, x1) v = QuantizeLinear(b, sc, za)")
quantised("average", ["1,4,6,5"], "int8 y", " a = GlobalAveragePool(x0) y = QuantizeLinear(a, sa, za)")
quantised("movement", ["1,4,6,6"], "int8 y", " a = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x0) sh = Constant<value = int64[3] {1, 12, 3}>() b = Reshape(a, sh) t = Transpose<perm=[0,2,1]>(b) y = QuantizeLinear(t, sa, za)")
quantised("concat", ["1,4,6,5", "1,3,6,5"], "int8 y", " a = Concat<axis=1>(x0, x1) y = QuantizeLinear(a, sc, zb)")
quantised("table", ["1,4,6,5"], "int8 y", " a = Sigmoid(x0) y = QuantizeLinear(a, ws, zb)")
quantised("table_widens", ["1,4,6,5"], "int16 y", " t = Constant<value = float {0.00004}>() zt = Constant<value = int16 {0}>() a = Sigmoid(x0) y = QuantizeLinear(a, t, zt)", "int16")

# Scales for each index of an axis, which only a constant factor gives what is not a sum; as many channels as columns.
CHANNELS = " k = Constant<value = float[4,1,1] {0.3, 1.0, 2.0, 0.05}>() m = Mul(x0, k)"
quantised("table_scales", ["1,4,6,4"], "int8 y", CHANNELS + " a = Sigmoid(m) y = QuantizeLinear(a, ws, zb)")
quantised("average_scales", ["1,4,6,4"], "int8 y", CHANNELS + " a = GlobalAveragePool(m) y = QuantizeLinear(a, sa, za)", segments=0)
quantised("concat_scales", ["1,4,6,4", "1,3,6,4"], "int8 y, int8 v", CHANNELS + " a = Concat<axis=1>(m, x1) y = QuantizeLinear(a, sc, zb) v = QuantizeLinear(a, sb, za)")
quantised("add_scales", ["1,4,6,4", "1,4,6,4"], "int8 y", CHANNELS + " j = Constant<value = float[4] {1.0, 0.2, 0.7, 1.5}>() n = Mul(x1, j) a = Add(m, n) y = QuantizeLinear(a, sc, zb)", segments=0)

# uint8, what other tools quantise activations to, with zero points and without.
UNSIGNED = " su = Constant<value = float {0.05}>() zu = Constant<value = uint8 {131}>() q = QuantizeLinear(f, su, zu) x = DequantizeLinear(q, su, zu) ws = Constant<value = float {0.008}>() wz = Constant<value = int8 {0}>()"
graph("int8_unsigned", "g (float[1,5,9,8] f) => (int8 y) {" + UNSIGNED + WEIGHT.format(0, "8,5,3,3") + QUANT + " c = Conv<pads=[1,1,1,1]>(x, w0, $[8]) r = Relu(c) k = QuantizeLinear(r, sb) d = DequantizeLinear(k, sb)"
      " e = Add(d, d) y = QuantizeLinear(e, sb, zb) }", "int8")

# Sums that nobody quantises leave as they are: zero points on both sides, weights without a step of their own.
SUMS = QUANT + " q = QuantizeLinear(f, sa, za) t = Constant<value = float {30.0}>() u = Mul($[SHAPE], t) k = Cast<to=3>(u) zw = Constant<value = int8 {ZERO}>()"


def sums(name, shape, weight, zero, body, **more):
    graph(f"int8_sums_{name}", f"g (float[{shape}] f) => (int32 y) {{" + SUMS.replace("SHAPE", weight).replace("ZERO", str(zero)) + body + " }", "int8", **more)


sums("conv", "2,5,9,8", "8,5,3,3", 0, " y = ConvInteger<pads=[1,0,1,2], strides=[2,1]>(q, k, za)")
sums("conv_zeros", "1,5,9,8", "8,5,3,3", -100, " y = ConvInteger<pads=[1,1,1,1]>(q, k, za, zw)")
sums("depthwise", "1,6,9,8", "6,1,3,3", 77, " y = ConvInteger<pads=[1,1,1,1], group=6>(q, k, za, zw)")
sums("groups", "1,6,9,8", "8,3,3,3", -128, " y = ConvInteger<group=2>(q, k, za, zw)")
sums("conv_line", "2,5,30", "4,5,3", 5, " y = ConvInteger<pads=[1,1]>(q, k, , zw)")
sums("matmul", "3,7,24", "24,10", 0, " y = MatMulInteger(q, k, za)")
sums("matmul_zeros", "7,24", "24,10", 127, " y = MatMulInteger(q, k, za, zw)")
sums("matmul_batch", "3,7,24", "3,24,10", 127, " y = MatMulInteger(q, k, za, zw)")
sums("matmul_moved", "3,7,24", "7,10", -3, " p = Transpose<perm=[0,2,1]>(q) y = MatMulInteger(p, k, za, zw)")

# Behind a move: one quantiser, or one for each part; scales a channel of what is cut along the channels and across them.
MOVED = WEIGHT.format(0, "12,24") + " m = MatMul(x0, w0) n = Add(m, $[24])"
quantised("moved_sums", ["1,7,12"], "int8 y, int8 v", MOVED + " sh = Constant<value = int64[4] {1, 7, 4, 6}>() r = Reshape(n, sh) t = Transpose<perm=[0,2,1,3]>(r) y = QuantizeLinear(t, sb, zb)"
          " k = Sigmoid(n) l = Transpose<perm=[2,0,1]>(k) v = QuantizeLinear(l, ws, zb)")
quantised("split_sums", ["1,7,12"], "int8 y, int8 v, int8 u", MOVED + " a, b, c = Split<axis=-1, num_outputs=3>(n) sh = Constant<value = int64[4] {1, 7, 2, 4}>() r = Reshape(a, sh) y = QuantizeLinear(r, sb, zb)"
          " v = QuantizeLinear(b, sc, za) d = Transpose<perm=[0,2,1]>(c) u = QuantizeLinear(d, sb, za)")
quantised("cut_sums", ["1,8,12"], "int8 y, int8 v", MOVED + " a, b = Split<axis=1, num_outputs=2>(n) sh = Constant<value = int64[4] {1, 2, 2, 24}>() r = Reshape(a, sh) t = Relu(r) y = QuantizeLinear(t, sb, zb)"
          " v = QuantizeLinear(b, sc, za)")
quantised("read_twice", ["1,7,12"], "int8 y, int8 v", MOVED + " t = Transpose<perm=[0,2,1]>(n) y = QuantizeLinear(t, sb, zb) v = QuantizeLinear(n, sc, za)")

PART = " sp = Constant<value = float {0.00392}>() zp = Constant<value = int8 {-128}>()"
SMALL = " sp = Constant<value = float {0.0000305}>() zp = Constant<value = int16 {0}>()"
LOGITS = " m = MatMul(x0, x1) half = Constant<value = float {0.35}>() n = Mul(m, half)"
quantised("softmax", ["2,5,12"], "int8 y, int8 v", PART + " a = Softmax<axis=-1>(x0) y = QuantizeLinear(a, sp, zp) b = Softmax<axis=1>(x0) v = QuantizeLinear(b, sp, zp)")
quantised("softmax_long", ["2,700"], "int8 y, int8 v", PART + " fine = Constant<value = float {0.0002}>() a = Softmax(x0) y = QuantizeLinear(a, sp, zp) v = QuantizeLinear(a, fine, zp)")
quantised("softmax_sums", ["2,9,16", "2,16,33"], "int8 y, int8 v", LOGITS + PART + " a = Softmax(n) y = QuantizeLinear(a, sp, zp) b = Softmax<axis=1>(n) v = QuantizeLinear(b, sp, zp)")
quantised("softmax_channels", ["3,12"], "int8 y", WEIGHT.format(0, "12,24") + PART + " m = MatMul(x0, w0) n = Add(m, $[24]) a = Softmax(n) y = QuantizeLinear(a, sp, zp)")
quantised("softmax_one", ["3,1"], "int8 y", PART + " a = Softmax(x0) y = QuantizeLinear(a, sp, zp)")
quantised("log_softmax", ["2,5,12"], "int8 y", " a = LogSoftmax(x0) b = Transpose<perm=[0,2,1]>(a) y = QuantizeLinear(b, sc, zb)")
quantised("softmax_widens", ["2,5,40"], "int16 y", SMALL + " a = Softmax(x0) y = QuantizeLinear(a, sp, zp)", "int16")

# A sum that comes to its bound, which RESCALE takes half of what 31 bits hold of.
quantised("sum_at_its_bound", ["7,9,1"], "int8 y", " zl = Constant<value = int8 {-128}>() q = QuantizeLinear(f0, sa, zl) x = DequantizeLinear(q, sa, zl) k = Constant<value = int8[1,4] {127, 127, 127, 127}>()"
          " w = DequantizeLinear(k, ws, wz) m = MatMul(x, w) r = Relu(m) c = Constant<value = float[4] {0.01, -0.01, 0.02, 0.0}>() n = Add(r, c) y = QuantizeLinear(n, sb, zl)")

quantised("bias_of_31_bits", ["7,12"], "int8 y", WEIGHT.format(0, "12,3") + " b = Constant<value = float[3] {-171800.0, 0.5, 300000.0}>() m = Gemm(x0, w0, b) y = QuantizeLinear(m, sb, zb)")
quantised("extremes", ["1,4,6,5", "1,4,6,1"], "int8 y, int8 v", " a = Max(x0, x1) y = QuantizeLinear(a, sc, zb) b = Min(x0, x1) v = QuantizeLinear(b, sb, za)")
quantised("extremes_of_one", ["1,4,6,5"], "int8 y, int8 v, int8 u", WEIGHT.format(0, "8,4,3,3") + " k = Constant<value = float[1,1,1,1] {-0.4}>() six = Constant<value = float {1.5}>() a = Max(x0, k) y = QuantizeLinear(a, sc, zb)"
          " c = Conv(x0, w0, $[8]) r = LeakyRelu<alpha=0.2>(c) b = Max(r, k) v = QuantizeLinear(b, sb, za) d = Min(six, c) u = QuantizeLinear(d, sa, za)")

# Bounds that leave one number, far from what the integers reach.
for name, op, number, step in (("far", "Max", 20000.0, 1000.0), ("near", "Max", 200.0, 2.0), ("below", "Min", -30000.0, 1000.0)):
    quantised(f"bound_{name}", ["1,4,6,5", "1,4,6,5"], "int8 y", f" k = Constant<value = float {{{number}}}>() sn = Constant<value = float {{{step}}}>() a = {op}(x0, k) b = Add(a, x1) y = QuantizeLinear(b, sn, za)",
              segments=0)

# Rows that vary much, little and not at all: a factor of 0 a row, and one that is nearly 0.
ROWS = " k = Constant<value = float[5,1] {{1.0, 0.3, 0.02, 0.0, 0.1}}>() n = Mul(f0, k) q = QuantizeLinear(n, sa, za) x = DequantizeLinear(q, sa, za) sn = Constant<value = float {{{0}}}>()"
for name, width, step in (("norm_layer", 96, 0.03), ("norm_layer_long", 384, 0.04), ("norm_layer_two", 2, 0.02)):
    quantised(name, [f"2,5,{width}"], "int8 y, int8 v", ROWS.format(step) + f" a = LayerNormalization(x, $[{width}], $[{width}]) y = QuantizeLinear(a, sn, za) b = LayerNormalization<epsilon=0.1>(x, $[{width}]) v = QuantizeLinear(b, sn, zb)")
quantised("norm_scales_of_rows", ["2,5,5"], "int8 y", " sn = Constant<value = float {0.03}>() k = Constant<value = float[5,1] {1.0, 0.2, 2.0, 0.5, 1.5}>() a = LayerNormalization(x0, k) y = QuantizeLinear(a, sn, za)",
          segments=0)
quantised("norm_rms", ["2,5,192"], "int8 y", ROWS.format(0.05) + " a = RMSNormalization(x, $[192]) y = QuantizeLinear(a, sn, za)", opset=23)

# Forms of Resize that are no interpolation by a whole factor (of a part of the image onnxruntime takes another part: the whole one here).
quantised("resize_crop", ["1,4,6,5"], "int8 y", " r = Constant<value = float[8] {0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0}>() s = Constant<value = int64[4] {1, 4, 6, 5}>()"
          " a = Resize<mode=\"linear\", coordinate_transformation_mode=\"tf_crop_and_resize\">(x0, r, , s) y = QuantizeLinear(a, sc, zb)", segments=0)
quantised("resize_to_one", ["1,4,6,5"], "int8 y", " s = Constant<value = int64[4] {1, 4, 1, 1}>() a = Resize<mode=\"linear\", coordinate_transformation_mode=\"align_corners\">(x0, , , s) y = QuantizeLinear(a, sc, zb)",
          segments=0)


def reference(path, folder, seed):
    """Inputs and outputs of the file by the reference model."""
    p = subprocess.run([*REFERENCE, path, folder, str(seed)], capture_output=True, text=True, timeout=900)
    if p.returncode:
        raise Fault("reference model: " + (p.stderr.strip().splitlines() or ["no message"])[-1][:300])
    return [[np.load(os.path.join(folder, kind, f"{i}.npy")) for i in range(len(os.listdir(os.path.join(folder, kind))))] for kind in ("in", "out")]


def segments_of(tools, model, precision, folder, *options):
    """Compiles the model by way of its TOSA files; returns them in order."""
    bundle = os.path.join(folder, precision + ".tsr")
    tools.compile(model, bundle, "--via-tosa", f"{precision},dump={folder}/{precision}", *options)
    files = glob.glob(os.path.join(folder, precision, "segment*.tosa"))
    return bundle, sorted(files, key=lambda f: int(re.search(r"(\d+)\.tosa", f)[1]))


def check_segment(tools, model, precision, index, path, folder, seed, *options):
    """One segment as a bundle of its own against the reference model on its file."""
    inputs, want = reference(path, os.path.join(folder, f"ref{precision}{index}"), seed)
    bundle = os.path.join(folder, f"{precision}{index}.tsr")
    tools.compile(model, bundle, "--via-tosa", f"{precision},only={index}", *options)
    got = tools.run(bundle, dict(enumerate(inputs)), len(want))
    for i, (g, w) in enumerate(zip(got, want)):
        e, why = error(g, w)
        if not e <= LIMIT[precision]:
            raise Fault(f"segment {index}, output {i}: {why or f'error {e:.2e} over {LIMIT[precision]:g}'} against the reference model")


def compare_onnx(tools, bundle, feeds, want, precision):
    got = tools.run(bundle, feeds, len(want))
    for i, (g, w) in enumerate(zip(got, want)):
        if precision.startswith("int") and w.dtype in STEPS:
            off = int(np.abs(g.astype(int) - w.astype(int)).max())
            if off > STEPS[w.dtype]:
                raise Fault(f"output {i}: {off} steps from onnxruntime, limit {STEPS[w.dtype]}")
            continue
        e, why = error(g, w)
        if not e <= LIMIT[precision]:
            raise Fault(f"output {i}: {why or f'error {e:.2e} over {LIMIT[precision]:g}'} against onnxruntime")


def check_graph(tools, name, text, precision, opset, segments, low, high):
    import onnx
    model = graphs.build(name, text, opset)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "m.onnx")
        onnx.save(model, path)
        bundle, files = segments_of(tools, path, precision, tmp)
        if len(files) != segments:
            raise Fault(f"{len(files)} segments, expected {segments}")
        for i, f in enumerate(files):
            check_segment(tools, path, precision, i, f, tmp, i)
        feeds = graphs.feeds_of(model, None, 1, low, high)
        compare_onnx(tools, bundle, feeds, oracle(path).run(None, feeds), precision)


# Public models with fixed sizes, and the precisions that are checked segment by segment.
MODELS = [("dscnn_kws_int8", "int8"), ("mobilenetv2_224_int8", "int8"), ("dscnn_kws", "f32"), ("dscnn_kws", "f16"), ("blazeface_front_128", "f16"), ("autoencoder_ad", "f16")]


def check_model(tools, tally, name, precision, until):
    path = os.path.join(os.environ.get("TESSERA_MODELS") or os.path.join(CACHE, "models"), name + ".onnx")
    label = f"{name} {precision}"
    if not os.path.exists(path):
        return tally.skip(label, "is not fetched")
    with tempfile.TemporaryDirectory() as tmp:
        _, files = segments_of(tools, path, precision, tmp)
        if not files:
            return tally.fail(label, "no segment")
        for i, f in enumerate(files):
            if time.time() > until:
                return tally.skip(f"{label} from segment {i} of {len(files)}", "no time left")
            try:
                check_segment(tools, path, precision, i, f, tmp, i)
                tally.ok(f"{label} segment {i}", f"{os.path.getsize(f)} bytes")
            except (Refused, Fault) as why:
                tally.fail(f"{label} segment {i}", str(why))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--only", default="")
    ap.add_argument("--models", action="store_true", help="the public models' segments too")
    ap.add_argument("--budget", type=float, default=1e9, help="seconds after which no further segment is begun")
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    tools, tally, until = Tools(a.build, timeout=600), Tally(a.v), time.time() + a.budget
    if not os.path.exists(REFERENCE[0]):
        sys.exit(f"{REFERENCE[0]} is missing: run tools/setup/python.sh")
    for name, text, precisions, *rest in GRAPHS:
        for precision in precisions:
            if re.search(a.only, f"{name} {precision}"):
                tally.attempt(f"{name} {precision}", check_graph, tools, name, text, precision, *rest)
    for name, precision in MODELS if a.models else ():
        if re.search(a.only, f"{name} {precision}"):
            check_model(tools, tally, name, precision, until)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
