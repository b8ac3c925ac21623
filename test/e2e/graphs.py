#!/usr/bin/env python3
"""Small graphs by value: one per idea, each compiled once and run on several inputs and, where dimensions are dynamic, several shapes.

usage: graphs.py [--build DIR] [--only REGEX]

A graph is ONNX text; `$[3,4]` in it stands for a constant of seeded normal values. The oracle is onnxruntime without optimisation, or onnx.reference
where onnxruntime has no kernel or does not follow the text. Some graphs must be refused, some draw random numbers that must differ.
"""
import argparse
import os
import re
import sys
import tempfile
import zlib

import numpy as np

from harness import Fault, Refused, Tally, Tools, error, oracle

GRAPHS, REFUSED, DRAWS = [], [], []


def graph(name, text, *shapes, limit=1e-5, opset=21, low=None, high=None, reference=False):
    """`shapes`: per run the dims of each input, in order; none means as declared. `reference`: the oracle is onnx.reference."""
    GRAPHS.append((name, text, shapes, limit, opset, low, high, reference))


def refused(name, text, word, opset=21):
    """The compiler must refuse, with `word` in its message."""
    REFUSED.append((name, text, word, opset))


def draws(name, text):
    """No two of the numbers in all outputs may be equal, and a second run must give the same."""
    DRAWS.append((name, text))


# Contractions: extents that are no multiple of any tile, every operand a constant or not, epilogues, batches, transposes.
graph("gemm_tails", "g (float[37,29] x) => (float[37,51] y) { y = Gemm(x, $[29,51], $[51]) }")
graph("gemm_trans", "g (float[7,29] x) => (float y) { y = Gemm<transA=1, transB=1, alpha=0.5, beta=2.0>(x, $[9,7], $[29,1]) }")
graph("matmul_relu_add", "g (float[m,64] x) => (float[m,48] y) { a = MatMul(x, $[64,48]) b = Add(a, $[48]) y = Relu(b) }", [[1, 64]], [[5, 64]], [[130, 64]])
graph("matmul_two_inputs", "g (float[b,h,m,k] x, float[b,h,k,n] z) => (float[b,h,m,n] y) { y = MatMul(x, z) }", [[2, 3, 17, 8], [2, 3, 8, 33]], [[1, 1, 1, 1], [1, 1, 1, 1]])
graph("matmul_broadcast", "g (float[5,1,4,6] x, float[3,6,2] z) => (float y) { y = MatMul(x, z) }")
graph("matmul_vector", "g (float[6] x, float[4,6,2] z) => (float y) { y = MatMul(x, z) }")
graph("einsum_attention", "g (float[b,q,h,d] x, float[b,k,h,d] z) => (float[b,h,q,k] y) { y = Einsum<equation=\"bqhd,bkhd->bhqk\">(x, z) }", [[2, 5, 3, 8], [2, 7, 3, 8]])
graph("attention_block", """g (float[b,s,32] x) => (float[b,s,32] y) {
  q0 = MatMul(x, $[32,32]) k0 = MatMul(x, $[32,32]) v0 = MatMul(x, $[32,32])
  shape = Constant<value = int64[4] {0, 0, 4, 8}>()
  q1 = Reshape(q0, shape) k1 = Reshape(k0, shape) v1 = Reshape(v0, shape)
  q = Transpose<perm=[0,2,1,3]>(q1) k = Transpose<perm=[0,2,3,1]>(k1) v = Transpose<perm=[0,2,1,3]>(v1)
  s0 = MatMul(q, k) scale = Constant<value = float {0.35}>() s1 = Mul(s0, scale) p = Softmax<axis=-1>(s1)
  o0 = MatMul(p, v) o1 = Transpose<perm=[0,2,1,3]>(o0) back = Constant<value = int64[3] {0, 0, -1}>()
  o2 = Reshape(o1, back) o3 = MatMul(o2, $[32,32]) y = Add(o3, x) }""", [[1, 16, 32]], [[3, 5, 32]])
# Fusion: no group may wait for itself, not even by way of an operator that stands before it.
graph("fusion_cycle", """g (float[4,4] x, float[4,4] z) => (float m, float p) {
  a = Add(x, z) axes = Constant<value_ints = [1]>() c = ReduceSum(a, axes) b = Sub(x, z) n = Neg(a) m = Mul(n, b) e = Exp(b) p = Add(c, e) }""")
# Convolutions.
graph("conv_3x3_pad", "g (float[1,5,19,23] x) => (float y) { a = Conv<pads=[1,1,1,1]>(x, $[17,5,3,3], $[17]) y = Relu(a) }")
graph("conv_stride_asym", "g (float[2,3,15,14] x) => (float y) { y = Conv<pads=[0,1,2,1], strides=[2,3]>(x, $[8,3,3,5]) }")
graph("conv_dilated", "g (float[1,4,20,20] x) => (float y) { y = Conv<dilations=[2,3], pads=[2,3,2,3]>(x, $[6,4,3,3]) }")
graph("conv_1x1_residual", "g (float[1,16,7,9] x) => (float y) { a = Conv(x, $[16,16,1,1], $[16]) b = Add(a, x) y = Sigmoid(b) }")
graph("conv_depthwise", "g (float[1,20,13,11] x) => (float y) { a = Conv<group=20, pads=[1,1,1,1], strides=[2,2]>(x, $[20,1,3,3], $[20]) y = HardSwish(a) }")
graph("conv_groups", "g (float[1,12,9,9] x) => (float y) { y = Conv<group=3, pads=[2,2,2,2]>(x, $[6,4,5,5]) }")
graph("conv_1d_dynamic", "g (float[b,3,t] x) => (float[b,7,u] y) { y = Conv<pads=[2,2], strides=[2]>(x, $[7,3,5]) }", [[1, 3, 50]], [[3, 3, 17]])
graph("conv_2d_dynamic", "g (float[b,3,h,w] x) => (float[b,8,p,q] y) { a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, $[8,3,3,3], $[8]) c = Relu(a) y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(c) }",
      [[1, 3, 32, 32]], [[2, 3, 17, 40]])
graph("conv_3d", "g (float[1,2,5,6,7] x) => (float y) { y = Conv<pads=[1,1,1,1,1,1]>(x, $[4,2,3,3,3]) }")
graph("conv_transpose", "g (float[1,4,7,9] x) => (float y) { y = ConvTranspose<strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]>(x, $[4,5,3,3], $[5]) }")
graph("batchnorm_after_conv", "g (float[1,3,8,8] x) => (float y) { a = Conv(x, $[6,3,3,3]) v0 = Constant<value = float[6] {1.0, 2.0, 0.5, 3.0, 0.1, 1.5}>() y = BatchNormalization(a, $[6], $[6], $[6], v0) }")
graph("conv_kernel_beyond_input", "g (float[1,4,3,2] x) => (float y) { y = Conv<pads=[3,3,3,3]>(x, $[9,4,6,5], $[9]) }")
graph("conv_same", "g (float[1,5,10,11] x) => (float y, float z) { y = Conv<auto_pad=\"SAME_UPPER\", strides=[2,2]>(x, $[9,5,3,4]) z = Conv<auto_pad=\"SAME_LOWER\", strides=[2,3]>(x, $[9,5,4,4]) }")
graph("conv_same_dynamic", "g (float[b,5,h,w] x) => (float[b,9,p,q] y) { y = Conv<auto_pad=\"SAME_UPPER\", strides=[2,2]>(x, $[9,5,3,4]) }", [[1, 5, 10, 11]], [[2, 5, 7, 30]])
graph("conv_weight_is_input", "g (float[2,4,9,8] x, float[10,2,3,3] w) => (float y) { y = Conv<pads=[1,0,1,2], group=2>(x, w) }")
graph("conv_one_channel", "g (float[1,1,49,10] x) => (float y) { a = Conv<pads=[4,1,5,1], strides=[2,2]>(x, $[20,1,10,4], $[20]) y = Relu(a) }")
graph("conv_few_channels", """g (float[2,3,9,11] x, float[2,1,40] t) => (float y, float z, float u) { y = Conv<pads=[0,1,2,1], strides=[2,1]>(x, $[9,3,3,4], $[9])
  z = Conv<pads=[2,2,2,2], dilations=[2,1]>(x, $[17,3,3,3]) u = Conv<pads=[3,1], strides=[2]>(t, $[7,1,5]) }""")
graph("conv_residual_of_its_input", "g (float[1,24,7,7] x) => (float[1,24,7,7] y) { e = Exp(x) a = Conv<pads=[1,1,1,1]>(e, $[24,24,3,3], $[24]) y = Add(a, e) }")
graph("matmul_residual_of_its_input", "g (float[m,16] x) => (float[m,16] y) { e = Exp(x) a = MatMul(e, $[16,16]) y = Add(a, e) }", [[5, 16]])
graph("conv_residual_dynamic", "g (float[b,24,h,w] x) => (float[b,24,h,w] y) { a = Conv<pads=[1,1,1,1]>(x, $[24,24,3,3], $[24]) c = Add(a, x) y = LeakyRelu(c) }", [[1, 24, 7, 7]], [[2, 24, 13, 5]])
graph("depthwise_shapes", """g (float[1,12,14,15] x) => (float y, float z, float u) { y = Conv<group=12, pads=[2,2,2,2]>(x, $[12,1,5,5])
  z = Conv<group=12, dilations=[2,2], pads=[2,2,2,2]>(x, $[12,1,3,3]) u = Conv<group=12, pads=[1,1,1,1]>(x, $[24,1,3,3]) }""")
graph("depthwise_1d_long", "g (float[b,10,t] x) => (float[b,10,t] y) { y = Conv<group=10, pads=[15,15]>(x, $[10,1,31]) }", [[1, 10, 40]], [[2, 10, 9]])
graph("depthwise_dynamic", "g (float[b,16,h,w] x) => (float[b,16,p,q] y) { a = Conv<group=16, pads=[1,1,1,1], strides=[2,2]>(x, $[16,1,3,3], $[16]) y = Sigmoid(a) }", [[1, 16, 9, 20]], [[1, 16, 2, 1]])
graph("conv_transpose_kinds", """g (float[2,6,5,4] x) => (float y, float z, float u, float v) { y = ConvTranspose<strides=[2,3], pads=[1,0,0,2], group=2>(x, $[6,4,3,4])
  z = ConvTranspose<strides=[3,2], dilations=[2,3]>(x, $[6,4,3,2], $[4]) u = ConvTranspose<strides=[2,2], auto_pad=\"SAME_UPPER\">(x, $[6,4,3,3])
  v = ConvTranspose<strides=[2,2], output_shape=[10,9]>(x, $[6,4,3,3]) }""")
graph("conv_transpose_dynamic", "g (float[b,8,h,w] x) => (float[b,3,p,q] y) { a = ConvTranspose<strides=[2,2]>(x, $[8,3,2,2], $[3]) y = Relu(a) }", [[1, 8, 6, 5]], [[2, 8, 1, 9]])
graph("deform_conv", "g (float[1,4,7,8] x, float[1,36,7,8] o, float[1,18,7,8] m) => (float y) { y = DeformConv<pads=[1,1,1,1], offset_group=2>(x, $[6,4,3,3], o, $[6], m) }")
graph("conv_integer", """g (int64[1,6,9,10] x) => (int32[1,20,5,5] y) { a = Cast<to=2>(x) z = Constant<value = uint8 {7}>() s = Constant<value = float {60.0}>() w = Mul($[20,6,3,3], s) k = Cast<to=3>(w)
  y = ConvInteger<pads=[1,1,1,1], strides=[2,2]>(a, k, z) }""", low=0, high=100)
graph("matmul_integer", """g (int64[3,7,37] x) => (int32[3,7,21] y) { a = Cast<to=2>(x) z = Constant<value = uint8 {7}>() u = Constant<value = int8 {-2}>() s = Constant<value = float {60.0}>() w = Mul($[37,21], s) k = Cast<to=3>(w)
  y = MatMulInteger(a, k, z, u) }""", low=0, high=100)
graph("matmul_small_rows", "g (float[m,96] x) => (float[m,40] y) { a = MatMul(x, $[96,40]) y = Tanh(a) }", [[1, 96]], [[2, 96]], [[7, 96]])
# Pooling and resizing.
graph("maxpool_ceil", "g (float[1,3,13,14] x) => (float y) { y = MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1, pads=[1,0,1,0]>(x) }")
graph("avgpool_count_pad", "g (float[1,3,13,14] x) => (float y, float z) { y = AveragePool<kernel_shape=[3,2], strides=[2,1], pads=[1,1,1,0], count_include_pad=1>(x) z = AveragePool<kernel_shape=[3,2], pads=[1,1,1,0]>(x) }")
graph("global_pools", "g (float[2,9,5,3] x) => (float y, float z) { y = GlobalAveragePool(x) z = GlobalMaxPool(x) }")
graph("maxpool_indices", "g (float[2,3,9,11] x) => (float y, int64 i, float z, int64 j) { y, i = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x) z, j = MaxPool<kernel_shape=[2,3], storage_order=1>(x) }")
graph("pools_dilated", "g (float[1,5,12,13] x) => (float y, float z) { y = MaxPool<kernel_shape=[2,3], dilations=[2,2], pads=[1,0,0,2]>(x) z = AveragePool<kernel_shape=[3,3], dilations=[2,2], pads=[1,1,1,1]>(x) }")
graph("pools_dynamic", "g (float[b,9,h,w] x) => (float[b,9,p,q] y, float[b,9,p,q] z) { y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x) z = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x) }", [[1, 9, 9, 11]], [[2, 9, 4, 30]])
graph("pools_lp", "g (float[1,5,12,13] x) => (float y, float z) { y = LpPool<kernel_shape=[3,2], strides=[2,1], p=2>(x) z = LpPool<kernel_shape=[2,2], p=3>(x) }")
graph("resize_linear", "g (float[1,3,7,5] x) => (float y) { s = Constant<value = float[4] {1.0, 1.0, 2.0, 3.0}>() y = Resize<mode=\"linear\">(x, , s) }")
graph("resize_nearest", "g (float[1,3,6,4] x) => (float y) { s = Constant<value = float[4] {1.0, 1.0, 2.0, 2.0}>() y = Resize<mode=\"nearest\", coordinate_transformation_mode=\"asymmetric\", nearest_mode=\"floor\">(x, , s) }")
# Normalisations, reductions, softmax.
graph("layernorm", "g (float[b,s,37] x) => (float[b,s,37] y) { y = LayerNormalization<axis=-1, epsilon=0.001>(x, $[37], $[37]) }", [[1, 4, 37]], [[2, 9, 37]])
graph("instance_group_norm", "g (float[2,6,5,7] x) => (float y, float z) { y = InstanceNormalization(x, $[6], $[6]) z = GroupNormalization<num_groups=3>(x, $[6], $[6]) }")
graph("softmax_axes", "g (float[3,33,5] x) => (float a, float b, float c) { a = Softmax<axis=0>(x) b = Softmax<axis=1>(x) c = LogSoftmax<axis=2>(x) }")
graph("reductions", """g (float[n,7,5,3] x) => (float a, float b, float c, float d, float e) { two = Constant<value = int64[2] {1, 3}>() last = Constant<value = int64[1] {-1}>()
  a = ReduceMean<keepdims=0>(x, two) b = ReduceMax(x, last) c = ReduceL2(x, two) d = ReduceSum<keepdims=0>(x) e = ReduceLogSumExp(x, two) }""", [[2, 7, 5, 3]], [[1, 7, 5, 3]])
graph("argmax", "g (float[4,9,3] x) => (int64 a, int64 b) { a = ArgMax<axis=1, keepdims=0>(x) b = ArgMin<axis=-1, select_last_index=1>(x) }")
# Elementwise and movement.
graph("broadcast_chain", "g (float[a,1,c] x, float[b,1] z) => (float[a,b,c] y) { s = Add(x, z) t = Tanh(s) u = Mul(t, x) v = Sub(u, z) y = Exp(v) }", [[2, 1, 7], [5, 1]], [[1, 1, 64], [3, 1]])
graph("transcendentals", "g (float[333] x) => (float a, float b, float c, float d, float e, float f) { a = Erf(x) b = Sin(x) c = Softplus(x) d = Gelu(x) e = Atan(x) f = Sqrt(x) }")
graph("integer_arithmetic", "g (int64[40] x, int64[40] z) => (int64 a, int64 b, int64 c, bool d) { one = Constant<value = int64 {100}>() s = Add(z, one) a = Div(x, s) b = Mod(x, s) c = Max(x, z) d = Less(x, z) }", low=-50, high=50)
graph("transpose_slice_concat", """g (float[3,8,10] x) => (float y, float z) { t = Transpose<perm=[2,0,1]>(x) b = Constant<value = int64[2] {-1, 1}>() e = Constant<value = int64[2] {-20, 7}>()
  ax = Constant<value = int64[2] {0, 2}>() st = Constant<value = int64[2] {-3, 2}>() y = Slice(t, b, e, ax, st) z = Concat<axis=1>(t, t, t) }""")
graph("gather_scatter", """g (float[9,4] x, int64[2,3] i) => (float a, float b) { a = Gather(x, i) k = Constant<value = int64[2,1] {2, -1}>() b = ScatterND(x, k, $[2,4]) }""", low=-9, high=9)
graph("pad_split_tile", """g (float[2,6] x) => (float a, float b, float c) { p = Constant<value = int64[4] {1, 0, 0, 3}>() r = Constant<value = int64[2] {2, 3}>()
  q = Pad<mode="reflect">(x, p) a, b = Split<axis=1, num_outputs=2>(q) c = Tile(x, r) }""")
graph("nan_and_infinity", "g (float[6] x) => (float a, float b, bool c, float d) { k = Constant<value = float[6] {nan, inf, -inf, 0.0, -0.0, 1.0}>() a = Max(x, k) r = Relu(k) b = Add(r, x) c = IsNaN(k) d = ReduceMax(k) }")
graph("topk_cumsum", "g (float[5,17] x) => (float v, int64 i, float s) { k = Constant<value = int64[1] {4}>() ax = Constant<value = int64 {1}>() v, i = TopK<axis=1>(x, k) s = CumSum<reverse=1>(x, ax) }")
# Shapes that the data decide; control flow.
graph("nonzero", "g (float[n,6] x) => (float[n,6] r, int64[2,k] y) { r = Relu(x) z = Cast<to=9>(r) y = NonZero(z) }", [[3, 6]], [[8, 6]])
graph("transpose_tiles", """g (float[2,19,37,21] x) => (float a, float b, float c, float d) { a = Transpose<perm=[0,2,3,1]>(x) b = Transpose<perm=[0,3,1,2]>(x)
  c = Transpose<perm=[3,2,1,0]>(x) d = Transpose<perm=[0,2,1,3]>(x) }""")
graph("transpose_dynamic", "g (float[b,h,w] x) => (float[b,w,h] y, float[w,b,h] z) { y = Transpose<perm=[0,2,1]>(x) z = Transpose<perm=[2,0,1]>(x) }", [[2, 17, 35]], [[1, 1, 3]], [[3, 64, 5]])
graph("slice_by_data", "g (float[6,9] x, int64[2] s, int64[2] e, int64[2] st) => (float[p,q] y) { axes = Constant<value = int64[2] {1, 0}>() y = Slice(x, s, e, axes, st) }", [[6, 9], [2], [2], [2]], low=1, high=5)
graph("argmax_rows", "g (float[5,1003] x) => (int64 a, int64 b, int64 c) { a = ArgMax<axis=1>(x) b = ArgMin<axis=1, keepdims=0>(x) r = Round(x) c = ArgMax<axis=1, select_last_index=1>(r) }")
graph("reduce_by_data", "g (float[3,4,5] x, int64[2] i) => (float[p] y, float[q,r,s] z) { one = Constant<value = int64[2] {0, 1}>() a = Mul(i, one) y = ReduceSum<keepdims=0>(x, a) z = ReduceMax(x, a) }", low=1, high=3)
graph("unique", "g (int64[30] x) => (int64[n] y, int64[n] i, int64[m] v, int64[n] c) { y, i, v, c = Unique(x) }", [[30]], low=0, high=9)
graph("nms", """g (float[2,20,4] b, float[2,3,20] s) => (int64[n,3] y) { k = Constant<value = int64 {4}>() t = Constant<value = float {0.3}>() u = Constant<value = float {0.1}>()
  y = NonMaxSuppression(b, s, k, t, u) }""")
graph("grid_sample", """g (float[2,3,7,6] x, float[2,5,4,2] g) => (float a, float b, float c) { a = GridSample<mode="linear">(x, g) b = GridSample<mode="nearest", padding_mode="border">(x, g)
  c = GridSample<mode="cubic", padding_mode="reflection", align_corners=1>(x, g) }""", limit=1e-4)
graph("dft_stft", """g (float[2,30,1] x) => (float a, float b) { a = DFT<onesided=1>(x) step = Constant<value = int64 {5}>() length = Constant<value = int64 {12}>()
  b = STFT<onesided=1>(x, step, $[12], length) }""", limit=1e-4)
graph("stft_default", """g (float[2,30,1] x) => (float[2,4,7,2] a) { step = Constant<value = int64 {5}>() length = Constant<value = int64 {12}>()
  a = STFT(x, step, $[12], length) }""", limit=1e-4)
graph("resize_by_data", "g (float[1,3,7,5] x) => (float y, float z) { s = Constant<value = int64[4] {1, 3, 11, 9}>() y = Resize<mode=\"cubic\", coordinate_transformation_mode=\"align_corners\">(x, , , s) f = Constant<value = float[4] {1.0, 1.0, 0.6, 0.7}>() z = Resize<mode=\"linear\", antialias=1>(x, , f) }", limit=1e-4)
graph("rnn_kinds", """g (float[t,b,6] x) => (float y, float z, float h) { y, u = RNN<hidden_size=9, activations=["Relu"]>(x, $[1,9,6], $[1,9,9], $[1,18])
  z, h = GRU<hidden_size=9, direction="reverse", linear_before_reset=1, clip=0.5>(x, $[1,27,6], $[1,27,9], $[1,54]) }""", [[4, 2, 6]], [[1, 1, 6]], opset=14)
graph("shape_arithmetic", """g (float[b,s,24] x) => (float[b,s,4,6] y) { sh = Shape<start=0, end=2>(x) t = Constant<value = int64[2] {4, 6}>() n = Concat<axis=0>(sh, t) y = Reshape(x, n) }""", [[2, 3, 24]], [[1, 11, 24]])
graph("range_expand", "g (float[n] x) => (float[n,n] y) { s = Shape(x) z = Constant<value = int64 {0}>() o = Constant<value = int64 {1}>() k = Squeeze(s) r = Range(z, k, o) f = Cast<to=1>(r) u = Unsqueeze(f, o) y = Mul(u, x) }", [[5]], [[12]])
graph("if_captured", """g (float[4,5] x) => (float y) { s = ReduceSum<keepdims=0>(x) z = Constant<value = float {0.0}>() c = Greater(s, z)
  y = If(c) <then_branch = t () => (float[4,5] a) { a = Add(x, s) }, else_branch = e () => (float[4,5] b) { b = Mul(x, s) }> }""")
# Both branches use the same names for values of other types, shapes and contents.
NAMESAKES = """<then_branch = t () => (float[a,b,c,d] p) { k = Constant<value = float[0] {}>() n = Constant<value = int64[4] {1, 1, 8, 5}>() r = Resize(x, k, k, n) p = Softmax<axis=3>(r) },
  else_branch = e () => (float[e,f,g,h] p) { k = Constant<value = float[4] {1.0, 2.0, 1.0, 3.0}>() n = Constant<value = float[0] {}>() r = Resize(x, n, k) p = Softmax<axis=1>(r) }>"""
graph("if_namesakes", f"""g (float[1,1,4,5] x) => (float y, float w) {{ s = ReduceSum<keepdims=0>(x) z = Constant<value = float {{0.0}}>() c = Greater(s, z) i = Not(c)
  y = If(c) {NAMESAKES} w = If(i) {NAMESAKES} }}""", opset=12)
graph("loop_scan_outputs", """g (float[3] x) => (float[3] last, float[n,3] all) { n = Constant<value = int64 {5}>() t = Constant<value = bool {1}>()
  last, all = Loop(n, t, x) <body = b (int64 i, bool c, float[3] v) => (bool c2, float[3] v2, float[3] o) { c2 = Identity(c) f = Cast<to=1>(i) v2 = Add(v, f) o = Mul(v2, x) }> }""")
# Recurrent, quantised.
graph("lstm_bidirectional", "g (float[t,b,6] x) => (float y, float h, float c) { y, h, c = LSTM<hidden_size=5, direction=\"bidirectional\">(x, $[2,20,6], $[2,20,5], $[2,40]) }", [[7, 2, 6]], [[1, 1, 6]])
graph("gru", "g (float[t,b,6] x) => (float y, float h) { y, h = GRU<hidden_size=5, linear_before_reset=1>(x, $[1,15,6], $[1,15,5], $[1,30]) }", [[7, 2, 6]], [[3, 1, 6]])
graph("qdq_matmul", """g (float[4,32] x) => (float y) { s = Constant<value = float {0.02}>() z = Constant<value = int8 {3}>() w = Constant<value = float {0.01}>()
  q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) k = QuantizeLinear($[32,24], w) e = DequantizeLinear(k, w) y = MatMul(d, e) }""")
graph("dynamic_quantise", "g (float[3,40] x) => (uint8 q, float s, uint8 z) { q, s, z = DynamicQuantizeLinear(x) }")

# ai.onnx.ml that is arithmetic.
graph("ml_scale_normalise", """g (float[5,3] x) => (float y, float z, float u, float v) { y = ai.onnx.ml.Scaler<offset=[0.5, 1.0, -2.0], scale=[2.0, 0.25, 3.0]>(x) z = ai.onnx.ml.Normalizer<norm="L2">(x)
  u = ai.onnx.ml.Normalizer<norm="L1">(x) v = ai.onnx.ml.Binarizer<threshold=0.25>(x) }""")
graph("ml_normalise_max", """g (float[5,3] x, float[4] v) => (float y, float z, float u) { y = ai.onnx.ml.Normalizer<norm="MAX">(x) n = Constant<value = float {-1.0}>() a = Abs(v) m = Mul(a, n)
  z = ai.onnx.ml.Normalizer<norm="MAX">(v) u = ai.onnx.ml.Normalizer<norm="MAX">(m) }""")
graph("ml_normalise_zero", """g (float[2,3] a) => (float x, float y, float z, float u) { n = Constant<value = float {0.0}>() x = Mul(a, n) y = ai.onnx.ml.Normalizer<norm="MAX">(x)
  z = ai.onnx.ml.Normalizer<norm="L1">(x) u = ai.onnx.ml.Normalizer<norm="L2">(x) }""")
graph("ml_normalise_tiny", """g (float[2,3] a) => (float y, float z) { n = Constant<value = float {1e-34}>() x = Mul(a, n) y = ai.onnx.ml.Normalizer<norm="MAX">(x) z = ai.onnx.ml.Normalizer<norm="L1">(x) }""")
refused("ml_normalise_rank_3", "g (float[2,2,2] x) => (float[2,2,2] y) { y = ai.onnx.ml.Normalizer<norm=\"MAX\">(x) }", "Normalizer")
# Doubles whose differences float loses.
graph("ml_double_scale", "g (float[5,2] a) => (float y) { d = Cast<to=11>(a) o = Constant<value = double {1e9}>() x = Add(d, o) y = ai.onnx.ml.Scaler<offset=[1e9, 1e9], scale=[1.0, 0.5]>(x) }")
graph("ml_double_normalise", "g (float[5,2] a) => (float y) { d = Cast<to=11>(a) o = Constant<value = double {1e300}>() x = Mul(d, o) y = ai.onnx.ml.Normalizer<norm=\"L1\">(x) }", reference=True)
graph("ml_double_linear", """g (float[5,2] a) => (float y, float z) { d = Cast<to=11>(a) o = Constant<value = double {1e9}>() x = Add(d, o)
  y = ai.onnx.ml.LinearRegressor<coefficients=[1.0, 0.5], intercepts=[-1.5e9]>(x)
  z = ai.onnx.ml.SVMRegressor<kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], n_supports=2, coefficients=[1.0, -0.5], support_vectors=[1e9, 1e9, 1e9, 1e9], rho=[0.3]>(x) }""", reference=True)
# Keys that the type of the input does not hold, or that only a double would confuse, are equal to nothing.
graph("ml_keys_narrow", """g (int64[6,1] a) => (int64[6,1] y, int32[6,1] w, float[6,2] t) { big = Constant<value = int64 {9007199254740990}>() b = Add(a, big)
  y = ai.onnx.ml.Imputer<imputed_value_int64s=[7], replaced_value_int64=9007199254740993>(b)
  n = Cast<to=6>(a) w = ai.onnx.ml.Imputer<imputed_value_int64s=[7], replaced_value_int64=4294967298>(n)
  t = TfIdfVectorizer<max_gram_length=1, max_skip_count=0, min_gram_length=1, mode="TF", ngram_counts=[0], ngram_indexes=[0, 1], pool_int64s=[4294967298, 3]>(n) }""", low=0, high=6, reference=True)
graph("ml_keys_float", """g (int64[6] a) => (float[6,2] y, float[6] z) { f = Cast<to=1>(a) h = Constant<value = float {0.5}>() m = Mul(f, h) y = ai.onnx.ml.OneHotEncoder<cats_int64s=[1, 2]>(m)
  o = Constant<value = float {16777216.0}>() z0 = Add(f, o) z1 = ai.onnx.ml.OneHotEncoder<cats_int64s=[16777217, 16777219]>(z0) k = Constant<value = int64[1] {1}>() z = ReduceSum<keepdims=0>(z1, k) }""", low=0, high=6)
refused("ml_keys_twice", "g (int64[3] x) => (int64[3] y) { y = ai.onnx.ml.LabelEncoder<keys_int64s=[1, 1], values_int64s=[10, 30], default_int64=-7>(x) }", "LabelEncoder")
refused("ml_cats_twice", "g (int64[3] x) => (float[3,2] y) { y = ai.onnx.ml.OneHotEncoder<cats_int64s=[1, 1]>(x) }", "OneHotEncoder")
refused("ml_imputed_too_large", "g (int32[3] x) => (int32[3] y) { y = ai.onnx.ml.Imputer<imputed_value_int64s=[4294967296], replaced_value_int64=1>(x) }", "Imputer")
graph("ml_linear_one_row", """g (float[6,3] x) => (int64[6] l, float[6,2] p, int64[6] m, float[6,2] q) {
  l, p = ai.onnx.ml.LinearClassifier<classlabels_ints=[7, 3], coefficients=[0.5, -1.0, 2.0], intercepts=[0.1], post_transform="NONE">(x)
  m, q = ai.onnx.ml.LinearClassifier<classlabels_ints=[7, 3], coefficients=[0.5, -1.0, 2.0], intercepts=[0.1], post_transform="SOFTMAX">(x) }""", reference=True)
graph("ml_linear_one_row_logistic", """g (float[6,3] x) => (int64[6] l, float[6,2] p) {
  l, p = ai.onnx.ml.LinearClassifier<classlabels_ints=[7, 3], coefficients=[0.5, -1.0, 2.0], intercepts=[0.1], post_transform="LOGISTIC">(x) }""")
refused("ml_linear_one_row_probit", "g (float[6,1] x) => (int64[6] l, float[6,2] p) { l, p = ai.onnx.ml.LinearClassifier<classlabels_ints=[7, 3], coefficients=[0.5], intercepts=[0.1], post_transform=\"PROBIT\">(x) }",
        "LinearClassifier")
refused("ml_svm_degree", "g (float[2,1] x) => (float[2,1] y) { y = ai.onnx.ml.SVMRegressor<kernel_type=\"POLY\", kernel_params=[1.0, 0.0, 2.5], n_supports=1, coefficients=[1.0], support_vectors=[2.0], rho=[0.0]>(x) }",
        "SVMRegressor")
refused("ml_svm_kernel", "g (float[2,1] x) => (float[2,1] y) { y = ai.onnx.ml.SVMRegressor<kernel_type=\"FOO\", n_supports=0, coefficients=[1.5], rho=[0.5]>(x) }", "SVMRegressor")
graph("ml_linear", """g (float[6,3] x) => (float[6,2] y, int64[6] l, float[6,3] p, int64[6] m, float[6,2] q) {
  y = ai.onnx.ml.LinearRegressor<coefficients=[0.5, -1.0, 2.0, 1.0, 0.25, -0.75], intercepts=[0.1, -0.2], targets=2>(x)
  l, p = ai.onnx.ml.LinearClassifier<classlabels_ints=[7, 3, 5], coefficients=[0.5, -1.0, 2.0, 1.0, 0.25, -0.75, 0.3, 0.2, 0.1], intercepts=[0.1, -0.2, 0.0], post_transform="SOFTMAX", multi_class=1>(x)
  m, q = ai.onnx.ml.LinearClassifier<classlabels_ints=[0, 1], coefficients=[-0.5, 1.0, -2.0, 0.5, -1.0, 2.0], intercepts=[-0.1, 0.1], post_transform="LOGISTIC">(x) }""")
graph("ml_class_names", """g (float[6,3] x) => (int64[6] y) { l, p = ai.onnx.ml.LinearClassifier<classlabels_strings=["ant", "bee", "cicada"], coefficients=[0.5, -1.0, 2.0, 1.0, 0.25, -0.75, 0.3, 0.2, 0.1],
  intercepts=[0.1, -0.2, 0.0], post_transform="SOFTMAX", multi_class=1>(x) y = ai.onnx.ml.LabelEncoder<keys_strings=["cicada", "ant", "bee"], values_int64s=[3, 1, 2], default_int64=-1>(l) }""")
graph("ml_svm", """g (float[6,2] x) => (float[6,1] y, float[6,1] z, float[6,1] u) {
  y = ai.onnx.ml.SVMRegressor<kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], n_supports=3, coefficients=[1.0, -0.5, 0.25], support_vectors=[0.1, 0.2, -1.0, 0.5, 0.7, -0.3], rho=[0.3]>(x)
  z = ai.onnx.ml.SVMRegressor<kernel_type="POLY", kernel_params=[0.5, 1.0, 3.0], n_supports=3, coefficients=[1.0, -0.5, 0.25], support_vectors=[0.1, 0.2, -1.0, 0.5, 0.7, -0.3], rho=[0.3]>(x)
  u = ai.onnx.ml.SVMRegressor<kernel_type="SIGMOID", kernel_params=[0.5, 0.25, 3.0], n_supports=2, coefficients=[1.0, -0.5], support_vectors=[0.1, 0.2, -1.0, 0.5], rho=[0.3]>(x) }""")
graph("ml_lookup", """g (int64[7] x) => (int64[7] y, float[7] z, float[7,3] o, int64[7] s) { y = ai.onnx.ml.LabelEncoder<keys_int64s=[1, 3, 5], values_int64s=[10, 30, 50], default_int64=-7>(x)
  z = ai.onnx.ml.LabelEncoder<keys_int64s=[0, 2], values_floats=[0.5, 2.5], default_float=9.0>(x) o = ai.onnx.ml.OneHotEncoder<cats_int64s=[2, 4, 0]>(x)
  w = ai.onnx.ml.LabelEncoder<keys_int64s=[0, 1, 2, 3], values_strings=["zero", "one", "", "dreißig"], default_string="viele">(x)
  s = ai.onnx.ml.LabelEncoder<keys_strings=["one", "viele", "dreißig", ""], values_int64s=[1, 99, 3, 2], default_int64=-1>(w) }""", low=0, high=6)
graph("ml_impute_extract", """g (float[4,3] a, int64[2] i) => (float y, float z) { n = Constant<value = float[3] {0.0, 0.0, -1.0}>() b = Sqrt(a) c = Add(b, n) x = Identity(c)
  y = ai.onnx.ml.Imputer<imputed_value_floats=[1.5, 2.5, 3.5], replaced_value_float=-1.0>(x) z = ai.onnx.ml.ArrayFeatureExtractor(a, i) }""", low=0, high=3)
graph("tfidf", """g (int64[2,9] x) => (float[2,6] y, float[2,6] z) {
  y = TfIdfVectorizer<max_gram_length=2, max_skip_count=2, min_gram_length=1, mode="TF", ngram_counts=[0, 3], ngram_indexes=[5, 2, 0, 1, 4, 3], pool_int64s=[2, 3, 1, 1, 2, 2, 2, 3, 1]>(x)
  z = TfIdfVectorizer<max_gram_length=2, max_skip_count=0, min_gram_length=2, mode="TFIDF", ngram_counts=[0, 3], ngram_indexes=[5, 2, 0, 1, 4, 3], pool_int64s=[2, 3, 1, 1, 2, 2, 2, 3, 1], weights=[1.0, 2.0, 0.5, 3.0, 0.25, 1.5]>(x) }""", low=1, high=4)
# Sequences and optionals inside of a graph.
graph("sequence_round", """g (float[m,4] x, int64[1] i) => (float[a,4] y, float[b,4] z, int64 n) { p = Constant<value = int64 {2}>() s = SplitToSequence<axis=0>(x, p) t = SequenceInsert(s, $[3,4], i) u = SequenceErase(t, i)
  v = SequenceInsert(u, $[1,4]) y = ConcatFromSequence<axis=0>(v) z = SequenceAt(t, i) n = SequenceLength(v) }""", [[6, 4], [1]], [[7, 4], [1]], low=0, high=3)
graph("sequence_axis", """g (float[3,m,2] x, int64[2] k) => (float[3,a,2] y, float[2,3,b] z) { one = Constant<value = int64[2] {1, 3}>() l = Add(k, one) s = SplitToSequence<axis=1>(x, one) y = ConcatFromSequence<axis=1>(s)
  c = SequenceConstruct($[3,2], $[3,2]) z = ConcatFromSequence<axis=0, new_axis=1>(c) }""", [[3, 4, 2], [2]], low=0, high=1)
graph("sequence_map", """g (float[m,4] x, float[4] w) => (float[a,4] y) { p = Constant<value = int64 {3}>() s = SplitToSequence<axis=0>(x, p)
  t = SequenceMap<body = b (float[c,4] e, float[4] f) => (float[c,4] o) { o = Mul(e, f) }>(s, w) y = ConcatFromSequence<axis=0>(t) }""", [[7, 4], [4]], [[3, 4], [4]])
graph("strings_inside", """g (int64[6] x) => (int64[6] y, bool[6] e, int64[6] c, bool[6] m) { w = ai.onnx.ml.LabelEncoder<keys_int64s=[0, 1, 2], values_strings=["a b", " c  d e", ""], default_string="x,y">(x)
  t, c = StringSplit(w) u = StringConcat(w, w) k = Constant<value_strings = ["a ba b"]>() e = Equal(u, k) m = RegexFullMatch<pattern="( ?[a-d]*)+e? ?[a-e ]*">(u) y = ai.onnx.ml.LabelEncoder<keys_strings=["a ba b", "", "x,yx,y"], values_int64s=[1, 2, 3], default_int64=-1>(u) }""", low=0, high=4)
# Tensors of one string over and over.
graph("strings_all_equal", """g (int64[6] x) => (int64[6] y, bool[6] e) { w = ai.onnx.ml.LabelEncoder<keys_int64s=[0, 1], values_tensor = string[2] {"q", "q"}, default_tensor = string[1] {"zz"}>(x)
  k = Constant<value = string[6] {"q", "q", "q", "q", "q", "q"}>() e = Equal(w, k) y = ai.onnx.ml.LabelEncoder<keys_tensor = string[1] {"q"}, values_tensor = int64[1] {5}, default_tensor = int64[1] {9}>(w) }""", low=0, high=4)
refused("strings_twice", "g (int64[3] x) => (int64[3] y) { w = ai.onnx.ml.LabelEncoder<keys_int64s=[0], values_strings=[\"a\"]>(x) y = ai.onnx.ml.LabelEncoder<keys_strings=[\"a\", \"a\"], values_int64s=[1, 2]>(w) }",
        "LabelEncoder")
refused("strings_locale", "g (int64[3] x) => (int64[a] y) { w = ai.onnx.ml.LabelEncoder<keys_int64s=[0], values_strings=[\"i\"]>(x) u = StringNormalizer<case_change_action=\"UPPER\", locale=\"tr_TR\">(w) "
        "y = ai.onnx.ml.LabelEncoder<keys_strings=[\"I\"], values_int64s=[1]>(u) }", "StringNormalizer")
graph("strings_locale_c", """g (int64[3] x) => (int64[3] y) { w = ai.onnx.ml.LabelEncoder<keys_int64s=[0], values_strings=["i"]>(x) u = StringNormalizer<case_change_action="UPPER", locale="C">(w)
  y = ai.onnx.ml.LabelEncoder<keys_strings=["I"], values_int64s=[1], default_int64=-1>(u) }""", low=0, high=2)
# Random numbers: every node, every iteration of every loop has its own.
BODY = "(int64 i, bool c) => (bool c2, float[2] r) { c2 = Identity(c) r = %s }"
draws("random_nodes", "g (float[2] x) => (float[2] a, float[2] b, float[2] c, float[2] d, float[2] e) { a = RandomUniformLike(x) b = RandomUniformLike(x) [n] c = RandomNormalLike(x) [n] d = RandomNormalLike(x) "
      "e = RandomUniformLike<seed=1e-8>(x) }")
draws("random_seeds", "g () => (float[2] a, float[2] b) { a = RandomUniform<shape=[2], seed=1e-8>() b = RandomUniform<shape=[2], seed=2e-8>() }")
draws("random_loop", "g () => (float[n,2] a) { n = Constant<value = int64 {5}>() t = Constant<value = bool {1}>() a = Loop(n, t) <body = b " + BODY % "RandomUniform<shape=[2], seed=3.0>()" + "> }")
draws("random_loop_nested", "g () => (float[n,k,2] a) { n = Constant<value = int64 {3}>() t = Constant<value = bool {1}>() a = Loop(n, t) <body = o (int64 j, bool d) => (bool d2, float[k,2] s) { d2 = Identity(d) "
      "s = Loop(n, t) <body = b " + BODY % "RandomNormal<shape=[2]>()" + "> }> }")
draws("random_scan", "g (float[4,2] x) => (float[4,2] a) { a = Scan<num_scan_inputs=1, body = b (float[2] e) => (float[2] r) { r = RandomUniformLike(e) }>(x) }")
draws("random_map", "g (float[4,2] x) => (float[m,2] a) { s = SplitToSequence<axis=0>(x) t = SequenceMap<body = b (float[1,2] e) => (float[1,2] r) { r = RandomUniformLike(e) }>(s) a = ConcatFromSequence<axis=0>(t) }")


def weights(name, text):
    """The text with each $[DIMS] replaced by a name, and the constants."""
    rng, consts = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode()))), {}

    def one(m):
        shape = [int(d) for d in m[1].split(",")]
        key = f"weight{len(consts)}"
        consts[key] = (rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float32)
        return key

    return re.sub(r"\$\[([\d,]+)\]", one, text), consts


def build(name, text, opset):
    import onnx
    from onnx import numpy_helper
    body, consts = weights(name, text)
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}, "ai.onnx.ml" : 4]> {body}')
    for o in model.graph.output:  # `float y` without dims means any shape here
        if not o.type.tensor_type.shape.dim:
            o.type.tensor_type.ClearField("shape")
    model.graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in consts.items())
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def feeds_of(model, shapes, seed, low, high):
    rng, feeds = np.random.Generator(np.random.PCG64(seed)), {}
    for k, v in enumerate(model.graph.input):
        t = v.type.tensor_type
        shape = shapes[k] if shapes else [d.dim_value for d in t.shape.dim]
        feeds[v.name] = rng.standard_normal(shape).astype(np.float32) if t.elem_type == 1 else rng.integers(low, high, shape).astype(np.int64)
    return feeds


def check(tools, name, text, shapes, limit, opset, low, high, reference):
    import onnx
    import onnx.reference
    model = build(name, text, opset)
    with tempfile.TemporaryDirectory() as tmp:
        path, bundle = os.path.join(tmp, name + ".onnx"), os.path.join(tmp, name + ".tsr")
        onnx.save(model, path)
        tools.compile(path, bundle)
        ref = onnx.reference.ReferenceEvaluator(model) if reference else oracle(path)
        for k, dims in enumerate([*(shapes or [None]), (shapes or [None])[0]]):
            feeds = feeds_of(model, dims, k, low, high)
            want = ref.run(None, feeds)
            if reference:  # it gives doubles where the schema says float
                want = [np.asarray(w).astype(onnx.helper.tensor_dtype_to_np_dtype(o.type.tensor_type.elem_type)) for w, o in zip(want, model.graph.output)]
            got = tools.run(bundle, feeds, len(want))
            for i, (g, w) in enumerate(zip(got, want)):
                e, why = error(g, w)
                if not e <= limit:
                    raise Fault(f"run {k} {dims or ''}: output {i}: {why or f'error {e:.2e} over {limit:g}'}")


def check_refused(tools, name, text, word, opset):
    import onnx
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, name + ".onnx")
        onnx.save(build(name, text, opset), path)
        try:
            tools.compile(path, os.path.join(tmp, "m.tsr"))
        except Refused as e:
            if word not in e.said:
                raise Fault(f"refused without a word on {word}: {e}")
            return
        raise Fault("not refused")


def check_draws(tools, name, text):
    import onnx
    model = build(name, text, 21)
    with tempfile.TemporaryDirectory() as tmp:
        path, bundle = os.path.join(tmp, name + ".onnx"), os.path.join(tmp, name + ".tsr")
        onnx.save(model, path)
        tools.compile(path, bundle)
        feeds = feeds_of(model, None, 0, None, None)
        first, second = (tools.run(bundle, feeds, len(model.graph.output)) for _ in range(2))
        numbers = np.concatenate([v.ravel() for v in first])
        if len(numbers) < 4 or len(np.unique(numbers)) != len(numbers):
            raise Fault(f"{len(np.unique(numbers))} different ones of {len(numbers)}")
        if any(not np.array_equal(a, b) for a, b in zip(first, second)):
            raise Fault("a second run gives others")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    tools, tally = Tools(a.build, timeout=120), Tally()
    for g in GRAPHS:
        if re.search(a.only, g[0]):
            tally.attempt(g[0], check, tools, *g)
    for cases, how in ((REFUSED, check_refused), (DRAWS, check_draws)):
        for g in cases:
            if re.search(a.only, g[0]):
                tally.attempt(g[0], how, tools, *g)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
