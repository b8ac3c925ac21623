#!/usr/bin/env python3
"""Cast, QuantizeLinear and DequantizeLinear by value: types, axes, blocks, ties, saturation, against the ONNX reference evaluator.

usage: quantizers.py [--build DIR] [--only REGEX] [-v]
"""
import argparse
import os
import re
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h
from onnx.reference import ReferenceEvaluator

from harness import Fault, Refused, Tally, Tools

CASES = []


def case(name, nodes, shape, out, constants=(), kind=T.FLOAT):
    """`nodes` read x and write y; y is what an .npy file can hold."""
    CASES.append((name, nodes, shape, out, constants, kind))


def tensor(name, kind, shape, values):
    return h.make_tensor(name, kind, shape, np.asarray(values).flatten().tolist())


NARROW = {T.INT8: (3, T.INT32), T.UINT8: (130, T.INT32), T.INT16: (-7, T.INT32), T.UINT16: (1000, T.INT32), T.INT4: (1, T.INT32), T.UINT4: (7, T.INT32),
          T.INT2: (-1, T.INT32), T.UINT2: (2, T.INT32), T.FLOAT8E4M3FN: (0, T.FLOAT), T.FLOAT8E4M3FNUZ: (0, T.FLOAT), T.FLOAT8E5M2: (0, T.FLOAT),
          T.FLOAT8E5M2FNUZ: (0, T.FLOAT), T.FLOAT4E2M1: (0, T.FLOAT)}

for kind, (zero, wide) in NARROW.items():
    tag = T.DataType.Name(kind).lower()
    node = h.make_node
    back = node("Cast", ["q"], ["y"], to=wide)
    scalar = [tensor("s", T.FLOAT, [], [0.5]), tensor("z", kind, [], [zero])]
    case(f"quantize_{tag}", [node("QuantizeLinear", ["x", "s", "z"], ["q"]), back], [3, 41], wide, scalar)
    case(f"quantize_{tag}_no_zero", [node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=kind), back], [3, 41], wide, scalar[:1])
    per_axis = [tensor("s", T.FLOAT, [5], [0.5, 0.25, 2, 1, 0.1]), tensor("z", kind, [5], [zero] * 5)]
    case(f"quantize_{tag}_axis1", [node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1), back], [2, 5, 19], wide, per_axis)
    case(f"quantize_{tag}_axis_last", [node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=-1), back], [7, 5], wide, per_axis)
    case(f"roundtrip_{tag}_axis0", [node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=0), node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=0)],
         [5, 23], T.FLOAT, per_axis)
    blocks = [tensor("s", T.FLOAT, [2, 3], [0.5, 0.25, 2, 1, 0.1, 0.3]), tensor("z", kind, [2, 3], [zero] * 6)]
    case(f"roundtrip_{tag}_blocks", [node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1, block_size=8),
                                     node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1, block_size=8)], [2, 24], T.FLOAT, blocks)
    case(f"roundtrip_{tag}_blocks_outer", [node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=0, block_size=2),
                                           node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=0, block_size=2)], [4, 3], T.FLOAT, blocks)
    case(f"cast_{tag}", [node("Cast", ["x"], ["q"], to=kind), back], [131], wide)
    if wide == T.FLOAT:
        case(f"cast_{tag}_no_saturate", [node("Cast", ["x"], ["q"], to=kind, saturate=0), back], [131], wide)
for mode in ("up", "down", "nearest"):
    for saturate in (0, 1):
        case(f"cast_e8m0_{mode}_{saturate}", [h.make_node("Cast", ["x"], ["q"], to=T.FLOAT8E8M0, round_mode=mode, saturate=saturate),
                                              h.make_node("Cast", ["q"], ["y"], to=T.FLOAT)], [131], T.FLOAT)
case("quantize_half", [h.make_node("Cast", ["x"], ["h"], to=T.FLOAT16), h.make_node("QuantizeLinear", ["h", "s", "z"], ["y"])], [3, 41], T.INT8,
     [tensor("s", T.FLOAT16, [], [0.3]), tensor("z", T.INT8, [], [-3])])
case("dequantize_half_scale", [h.make_node("Cast", ["x"], ["q"], to=T.INT8), h.make_node("DequantizeLinear", ["q", "s"], ["y"])], [3, 41], T.FLOAT16,
     [tensor("s", T.FLOAT16, [], [0.3])])
case("dequantize_one_scale_rank1", [h.make_node("Cast", ["x"], ["q"], to=T.INT32), h.make_node("DequantizeLinear", ["q", "s"], ["y"])], [41], T.FLOAT,
     [tensor("s", T.FLOAT, [1], [0.3])])
for to in (T.BOOL, T.INT64, T.FLOAT16, T.DOUBLE):
    case(f"cast_{T.DataType.Name(to).lower()}", [h.make_node("Cast", ["x"], ["y"], to=to)], [131], to)


# Beyond, the reference depends on how numpy turns infinities into integers.
LIMITS = {"quantize_half": 500, "dequantize_half_scale": 100}


def values(shape, rng):
    n = int(np.prod(shape))
    special = np.array([0.25, 0.75, 1.25, 1.75, -0.25, -0.75, 0.0, -0.0, 1e-7, -1e-7, 7.9, -8.1, 3.0, -1.0, 2.0, -9.0, 16.0, 448.0, 500.0, 1e5, -1e5])
    v = np.concatenate([special[:n], rng.standard_normal(max(0, n - len(special))) * 20])
    return v.reshape(shape).astype(np.float32)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--build")
    args.add_argument("--only", default="")
    args.add_argument("-v", action="store_true")
    args = args.parse_args()
    tools, tally = Tools(args.build), Tally(args.v)
    warnings.filterwarnings("ignore")
    for name, nodes, shape, out, constants, kind in CASES:
        if not re.search(args.only, name):
            continue
        graph = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", kind, shape)], [h.make_tensor_value_info("y", out, shape)], list(constants))
        proto = h.make_model(graph, opset_imports=[h.make_opsetid("", 28)], ir_version=13)
        x = values(shape, np.random.default_rng(3))
        if name in LIMITS:
            x = np.clip(x, -LIMITS[name], LIMITS[name])
        with np.errstate(all="ignore"):
            want = ReferenceEvaluator(proto).run(None, {"x": x})[0]
            if re.fullmatch("cast_u?int(8|16)", name):  # ours saturate, numpy wraps
                info = np.iinfo(name[5:])
                want = np.clip(np.trunc(x), info.min, info.max).astype(want.dtype)
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, "m.onnx")
            onnx.save(proto, path)
            try:
                tools.compile(path, path + ".tsr")
                got = tools.run(path + ".tsr", {"x": x}, 1)[0]
            except (Refused, Fault) as e:
                tally.fail(name, str(e))
                continue
        same = got.dtype == want.dtype and got.shape == want.shape and np.array_equal(got, want, equal_nan=want.dtype.kind == "f")
        if same:
            tally.ok(name)
        elif got.shape != want.shape or got.dtype != want.dtype:
            tally.fail(name, f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}")
        else:
            bad = np.argwhere(~((got == want) | ((got != got) & (want != want))))[0]
            at = tuple(bad)
            tally.fail(name, f"x = {x[at]!r} gives {got[at]!r}, not {want[at]!r}")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
