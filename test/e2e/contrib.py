#!/usr/bin/env python3
"""Operators of com.microsoft by value against onnxruntime, which defines them; what has no rewrite must be refused by name.

usage: contrib.py [--build DIR] [--only REGEX]
"""
import argparse
import os
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

from harness import Fault, Refused, Tally, Tools, error, oracle

CASES = []
R = np.random.default_rng(3)


def normal(*shape, scale=1.0):
    return (R.standard_normal(shape) * scale).astype(np.float32)


def bytes8(*shape):
    return R.integers(0, 256, shape).astype(np.uint8)


def signed8(*shape):
    return R.integers(-128, 128, shape).astype(np.int8)


def weights8(*shape):
    """Seven bits: where there is no VNNI, onnxruntime adds pairs of products in 16 bits that saturate."""
    return R.integers(-63, 64, shape).astype(np.int8)


def scale(*shape):
    return R.uniform(0.01, 0.05, shape).astype(np.float32)


def case(name, op, inputs, outputs=1, limit=1e-5, refused=False, **attributes):
    """`inputs`: arrays are constants, ("in", array) are inputs of the graph, None is absent. `outputs`: a number, or a list where None is absent."""
    CASES.append((name, op, inputs, outputs, limit, refused, attributes))


def given(array):
    return ("in", array)


# Activations and what is fused with them.
case("gelu", "Gelu", [given(normal(3, 70, scale=3))])
case("bias_gelu", "BiasGelu", [given(normal(2, 5, 64, scale=3)), normal(64)])
case("fast_gelu", "FastGelu", [given(normal(2, 5, 64, scale=3))])
case("fast_gelu_bias", "FastGelu", [given(normal(2, 5, 64, scale=3)), normal(64)])
case("quick_gelu", "QuickGelu", [given(normal(3, 70, scale=3))])
case("quick_gelu_alpha", "QuickGelu", [given(normal(3, 70, scale=3))], alpha=0.7)
for a, p in (("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.3]), ("HardSigmoid", [0.3, 0.4]), ("Clip", [-0.5, 1.5])):
    case(f"fused_conv_{a.lower()}", "FusedConv", [given(normal(1, 5, 9, 8)), normal(7, 5, 3, 3), normal(7)], activation=a, **({"activation_params": p} if p else {}), pads=[1, 1, 1, 1])
case("fused_conv_sum", "FusedConv", [given(normal(1, 6, 9, 9)), normal(8, 3, 3, 3), normal(8), given(normal(1, 8, 4, 4))], activation="Relu", strides=[2, 2], group=2)
case("fused_conv_dilated", "FusedConv", [given(normal(2, 4, 11, 12)), normal(6, 4, 3, 3)], activation="Relu", dilations=[2, 2], pads=[2, 2, 2, 2])
for a, e in (("Relu", {}), ("Tanh", {}), ("LeakyRelu", {"activation_alpha": 0.2})):
    case(f"fused_gemm_{a.lower()}", "FusedGemm", [given(normal(7, 20)), normal(15, 20), normal(15)], activation=a, transB=1, alpha=0.5, **e)
case("fused_matmul", "FusedMatMul", [given(normal(2, 3, 7, 9)), given(normal(2, 3, 9, 5))], alpha=0.25)
case("fused_matmul_trans_a", "FusedMatMul", [given(normal(2, 9, 7)), given(normal(2, 9, 5))], transA=1)
case("fused_matmul_trans_b", "FusedMatMul", [given(normal(2, 7, 9)), given(normal(2, 5, 9))], transB=1, alpha=2.0)
case("fused_matmul_trans_both", "FusedMatMul", [given(normal(9, 7)), normal(5, 9)], transA=1, transB=1)
case("fused_matmul_trans_batch", "FusedMatMul", [given(normal(7, 2, 9)), given(normal(2, 9, 5))], transBatchA=1, refused=True)
# Normalisation.
case("skip_layer_norm", "SkipLayerNormalization", [given(normal(2, 5, 48)), given(normal(2, 5, 48)), normal(48), normal(48)], epsilon=1e-5)
case("skip_layer_norm_bias_sum", "SkipLayerNormalization", [given(normal(2, 5, 48)), given(normal(2, 5, 48)), normal(48), normal(48), normal(48)], [1, None, None, 1])
case("skip_layer_norm_no_beta", "SkipLayerNormalization", [given(normal(2, 5, 48)), given(normal(2, 5, 48)), normal(48)])
case("skip_layer_norm_broadcast", "SkipLayerNormalization", [given(normal(3, 5, 48)), given(normal(5, 48)), normal(48), normal(48)])
case("skip_simplified_layer_norm", "SkipSimplifiedLayerNormalization", [given(normal(2, 5, 48)), given(normal(2, 5, 48)), normal(48), normal(48)], [1, None, None, 1], epsilon=1e-5)
ids, kinds = R.integers(0, 30, (2, 6)).astype(np.int32), R.integers(0, 2, (2, 6)).astype(np.int32)
words, places, segments = normal(30, 32), normal(16, 32), normal(2, 32)
case("embed_layer_norm", "EmbedLayerNormalization", [given(ids), given(kinds), words, places, segments, normal(32), normal(32)], [1, None], epsilon=1e-5)
case("embed_layer_norm_no_segments", "EmbedLayerNormalization", [given(ids), None, words, places, None, normal(32), normal(32)], [1, None])
case("embed_layer_norm_positions", "EmbedLayerNormalization", [given(ids), given(kinds), words, places, segments, normal(32), normal(32), None, given(R.integers(0, 16, (2, 6)).astype(np.int32))], [1, None])
case("embed_layer_norm_sum", "EmbedLayerNormalization", [given(ids), given(kinds), words, places, segments, normal(32), normal(32)], [1, None, 1])
case("embed_layer_norm_mask", "EmbedLayerNormalization", [given(ids), given(kinds), words, places, segments, normal(32), normal(32), given(np.ones((2, 6), np.int32))], [1, 1], refused=True)
# Integers. onnxruntime's own integer kernels round once; a unit in the last place may differ where a product is a tie.
s1, s2, s3 = np.float32(0.031), np.float32(0.047), np.float32(0.083)
z1, z2, z3 = np.uint8(121), np.uint8(7), np.uint8(130)
case("qlinear_add", "QLinearAdd", [given(bytes8(3, 40)), s1, z1, given(bytes8(3, 40)), s2, z2, s3, z3], limit=1)
case("qlinear_add_signed", "QLinearAdd", [given(signed8(3, 40)), s1, np.int8(-3), given(signed8(40)), s2, np.int8(9), s3, np.int8(0)], limit=1)
case("qlinear_mul", "QLinearMul", [given(bytes8(3, 40)), s1, z1, given(bytes8(3, 40)), s2, z2, s3, z3], limit=1)
case("qlinear_sigmoid", "QLinearSigmoid", [given(bytes8(3, 40)), s2, z1, np.float32(1 / 256), np.uint8(0)], limit=1)
case("qlinear_leaky_relu", "QLinearLeakyRelu", [given(bytes8(3, 40)), s2, z1, s3, z3], alpha=0.2, limit=1)
case("qlinear_softmax", "QLinearSoftmax", [given(bytes8(3, 40)), s2, z1, np.float32(1 / 256), np.uint8(0)], opset=13, axis=-1, limit=1)
case("qlinear_softmax_old", "QLinearSoftmax", [given(bytes8(3, 4, 10)), s2, z1, np.float32(1 / 256), np.uint8(0)], opset=11, axis=1, refused=True)
case("qlinear_global_average_pool", "QLinearGlobalAveragePool", [given(bytes8(2, 9, 7, 5)), s2, z1, s1, z3], limit=1)
case("qlinear_average_pool", "QLinearAveragePool", [given(bytes8(2, 9, 8, 6)), s2, z1, s1, z3], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], limit=1)
case("qlinear_concat", "QLinearConcat", [s3, z3, given(bytes8(2, 5)), s1, z1, given(bytes8(2, 7)), s2, z2], axis=1, limit=1)
case("qgemm", "QGemm", [given(bytes8(5, 24)), s1, z1, weights8(24, 9), s2, np.int8(0), R.integers(-900, 900, 9).astype(np.int32), np.float32(1.9), z3], limit=1)
case("qgemm_float", "QGemm", [given(bytes8(5, 24)), s1, z1, weights8(9, 24), scale(9), np.zeros(9, np.int8), R.integers(-900, 900, 9).astype(np.int32)], transB=1)
case("qgemm_alpha", "QGemm", [given(bytes8(5, 24)), s1, z1, weights8(24, 9), s2, np.int8(3), R.integers(-900, 900, 9).astype(np.int32)], alpha=0.5)
case("matmul_integer_to_float", "MatMulIntegerToFloat", [given(bytes8(2, 5, 24)), weights8(24, 9), s1, scale(9), z1, np.zeros(9, np.int8), normal(9)])
case("dynamic_quantize_matmul", "DynamicQuantizeMatMul", [given(normal(2, 5, 24)), weights8(24, 9), scale(9), np.zeros(9, np.int8), normal(9)])
case("dynamic_quantize_matmul_one_scale", "DynamicQuantizeMatMul", [given(normal(5, 24)), (bytes8(24, 9) // 4 + 96), s1, np.uint8(128)])
case("quantize_linear_16", "QuantizeLinear", [given(normal(3, 8)), np.float32(0.001), np.uint16(30000)], limit=1)
case("dequantize_linear_16", "DequantizeLinear", [given(R.integers(-30000, 30000, (3, 8)).astype(np.int16)), np.float32(0.001), np.int16(12)])
case("qattention", "QAttention", [given(bytes8(1, 4, 16)), signed8(16, 48), normal(48), s1, s2, None, z1, np.int8(0)], num_heads=2, refused=True)
# Weights of few bits.
for bits, k, block in ((4, 64, 32), (4, 80, 32), (8, 64, 16), (4, 128, 128)):
    blocks = -(-k // block)
    args = [given(normal(3, k)), bytes8(24, blocks, block * bits // 8), scale(24 * blocks)]
    case(f"matmul_{bits}_bits_{k}_by_{block}", "MatMulNBits", args, K=k, N=24, bits=bits, block_size=block, limit=1e-4)
    case(f"matmul_{bits}_bits_{k}_by_{block}_zeros", "MatMulNBits", args + [bytes8(24 * -(-blocks * bits // 8))], K=k, N=24, bits=bits, block_size=block, limit=1e-4)
case("matmul_4_bits_bias", "MatMulNBits", [given(normal(2, 3, 64)), bytes8(24, 2, 16), scale(48), None, None, normal(24)], K=64, N=24, bits=4, block_size=32, limit=1e-4)
case("matmul_4_bits_reordered", "MatMulNBits", [given(normal(3, 64)), bytes8(24, 2, 16), scale(48), None, R.integers(0, 2, 64).astype(np.int32)], K=64, N=24, bits=4, block_size=32, refused=True)
# Attention.
q, k, v = normal(2, 5, 32), normal(2, 7, 32), normal(2, 7, 32)
case("multi_head_attention", "MultiHeadAttention", [given(q), given(k), given(v)], num_heads=4)
case("multi_head_attention_scale", "MultiHeadAttention", [given(q), given(k), given(v)], num_heads=2, scale=0.3)
case("multi_head_attention_bias", "MultiHeadAttention", [given(q), given(k), given(v), None, None, given(normal(1, 4, 5, 7))], num_heads=4)
case("multi_head_attention_qkv_bias", "MultiHeadAttention", [given(q), given(k), given(v), normal(96)], num_heads=4, refused=True)


def rotary(length, half):
    angle = np.outer(np.arange(length), 1 / 100 ** (np.arange(half) / half))
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def group_query(name, batch, new, past, heads=4, kv=2, d=16, **attributes):
    """`past` tokens of each row are in the cache already; `new` follow."""
    total = past + new
    cos, sin = rotary(64, d // 2)
    inputs = [given(normal(batch, new, heads * d)), given(normal(batch, new, kv * d)), given(normal(batch, new, kv * d)), given(normal(batch, kv, past, d)), given(normal(batch, kv, past, d)),
              given(np.full(batch, total - 1, np.int32)), given(np.array(total, np.int32))]
    if attributes.get("do_rotary"):
        inputs += [cos, sin]
    case(name, "GroupQueryAttention", inputs, 3, num_heads=heads, kv_num_heads=kv, limit=1e-4, **attributes)


group_query("group_query_prompt", 2, 6, 0)
group_query("group_query_next", 2, 1, 9)
group_query("group_query_rotary_prompt", 1, 6, 0, do_rotary=1)
group_query("group_query_rotary_next", 2, 1, 9, do_rotary=1)
group_query("group_query_interleaved", 1, 5, 0, do_rotary=1, rotary_interleaved=1)
group_query("group_query_window", 1, 1, 12, local_window_size=4)
group_query("group_query_scale", 1, 4, 0, scale=0.4, softcap=5.0)
w, r, b = weights8(1, 12, 32), weights8(1, 8, 32), normal(1, 64)
# onnxruntime quantises what goes into the cells too; ours keeps it float: the difference is that noise.
case("dynamic_quantize_lstm", "DynamicQuantizeLSTM", [given(normal(6, 2, 12)), w, r, b, None, None, None, None, np.full((1,), 0.004, np.float32), np.zeros(1, np.int8), np.full((1,), 0.004, np.float32), np.zeros(1, np.int8)],
     3, hidden_size=8, limit=0.02)
case("unknown", "Inverse", [given(normal(3, 3))], refused=True)


def build(op, inputs, outputs, attributes):
    names, values, constants, feeds = [], [], [], {}
    for i, v in enumerate(inputs):
        names.append("" if v is None else f"i{i}")
        if v is None:
            continue
        if isinstance(v, tuple):
            feeds[f"i{i}"] = v[1]
            values.append(helper.make_tensor_value_info(f"i{i}", helper.np_dtype_to_tensor_dtype(v[1].dtype), v[1].shape))
        else:
            constants.append(numpy_helper.from_array(np.asarray(v), f"i{i}"))
    outs = [f"o{i}" if o else "" for i, o in enumerate([1] * outputs if isinstance(outputs, int) else outputs)]
    node = helper.make_node(op, names, outs, domain="com.microsoft", **attributes)
    # Types of outputs are what the operator gives; onnxruntime finds them.
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name=o) for o in outs if o], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10), feeds


def check(tools, op, inputs, outputs, limit, refused, attributes):
    model, feeds = build(op, inputs, outputs, attributes)
    with tempfile.TemporaryDirectory() as tmp:
        path, bundle = os.path.join(tmp, "m.onnx"), os.path.join(tmp, "m.tsr")
        onnx.save(model, path)
        if not refused:
            session = oracle(path)
            for o, found in zip(model.graph.output, session.get_outputs()):
                kind = getattr(onnx.TensorProto, re.search(r"\((\w+)\)", found.type)[1].upper())
                o.CopyFrom(helper.make_tensor_value_info(o.name, kind, None))
            onnx.save(model, path)
            want = session.run(None, feeds)
        else:
            for o in model.graph.output:
                o.CopyFrom(helper.make_tensor_value_info(o.name, onnx.TensorProto.FLOAT, None))
            onnx.save(model, path)
        try:
            tools.compile(path, bundle)
        except Refused as why:
            if refused and op in str(why):
                return
            raise
        if refused:
            raise Fault("was not refused")
        for i, (g, x) in enumerate(zip(tools.run(bundle, feeds, len(want)), want)):
            if x.dtype.kind in "iu":
                if g.dtype != x.dtype or g.shape != x.shape:
                    raise Fault(f"output {i}: {g.dtype}{list(g.shape)}, expected {x.dtype}{list(x.shape)}")
                off = np.abs(g.astype(np.int64) - x.astype(np.int64))
                if off.size and (off.max() > limit or np.count_nonzero(off) > 0.05 * off.size):
                    raise Fault(f"output {i}: {np.count_nonzero(off)} of {off.size} values differ, by up to {off.max()}")
                continue
            e, why = error(g, x)
            if not e <= limit:
                raise Fault(f"output {i}: {why or f'error {e:.2e} over {limit:g}'}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    tools, tally = Tools(a.build), Tally()
    for name, *rest in CASES:
        if re.search(a.only, name):
            tally.attempt(name, check, tools, *rest, faults=Exception)  # the oracle's own faults too
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
