#!/usr/bin/env python3
"""Single operators beside onnxruntime, one thread each, in interleaved rounds; the least of all runs counts.

usage: kernels.py [--build DIR] [--seconds S] [--rounds N] [REGEX]

Prints microseconds of both and the ratio theirs / ours: above 1 ours is faster. On a busy machine take more rounds.
"""
import argparse
import os
import re
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "test", "e2e"))
import graphs
from harness import Tools, oracle, save_inputs
from models import ort_times

CASES = {
    "matmul_integer_128x768x768": """g (uint8[128,768] x) => (int32[128,768] y) { z = Constant<value = uint8 {7}>() s = Constant<value = float {20.0}>() w = Mul($[768,768], s) k = Cast<to=3>(w) y = MatMulInteger(x, k, z) }""",
    "matmul_integer_1x768x768": """g (uint8[1,768] x) => (int32[1,768] y) { z = Constant<value = uint8 {7}>() s = Constant<value = float {20.0}>() w = Mul($[768,768], s) k = Cast<to=3>(w) y = MatMulInteger(x, k, z) }""",
    "conv_stem_10x4": "g (float[1,1,49,10] x) => (float y) { y = Conv<pads=[4,1,5,1], strides=[2,2]>(x, $[64,1,10,4], $[64]) }",
    "gemm_128x768x768": "g (float[128,768] x) => (float[128,768] y) { y = MatMul(x, $[768,768]) }",
    "softmax_rows": "g (float[512,512] x) => (float[512,512] y) { y = Softmax<axis=-1>(x) }",
    "softmax_short_rows": "g (float[4096,64] x) => (float[4096,64] y) { y = Softmax<axis=-1>(x) }",
    "tanh": "g (float[65536] x) => (float[65536] y) { y = Tanh(x) }",
    "sigmoid": "g (float[65536] x) => (float[65536] y) { y = Sigmoid(x) }",
    "topk_8_of_1000": "g (float[64,1000] x) => (float v, int64 i) { k = Constant<value = int64[1] {8}>() v, i = TopK<axis=-1>(x, k) }",
    "topk_100_of_20000": "g (float[1,20000] x) => (float v, int64 i) { k = Constant<value = int64[1] {100}>() v, i = TopK<axis=-1>(x, k) }",
    "resize_nearest_2x": 'g (float[1,64,40,40] x) => (float y) { s = Constant<value = float[4] {1.0, 1.0, 2.0, 2.0}>() y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , s) }',
}


def bench(tools, name, text, seconds, rounds):
    model = graphs.build(name, text, 21)
    import onnx
    rng = np.random.default_rng(1)
    feeds = {}
    for v in model.graph.input:
        kind, shape = v.type.tensor_type.elem_type, [d.dim_value for d in v.type.tensor_type.shape.dim]
        feeds[v.name] = rng.standard_normal(shape).astype(np.float32) if kind == onnx.TensorProto.FLOAT else rng.integers(0, 256, shape).astype(np.uint8)
    with tempfile.TemporaryDirectory() as tmp:
        path, bundle, folder = (os.path.join(tmp, n) for n in ("m.onnx", "m.tsr", "in"))
        onnx.save(model, path)
        save_inputs(feeds, folder)
        session = oracle(path, optimised=True)
        tools.compile(path, bundle)
        ours, theirs, runs = [], [], 3
        for _ in range(rounds):
            theirs += ort_times(session, feeds, seconds / rounds / 2)
            out = tools.call([tools.tessera, "run", bundle, "--inputs", folder, "--bench", runs, "--ns"])
            ours += [float(x) for x in out.split() if re.fullmatch(r"\d+(\.\d+)?", x)]
            runs = max(3, min(5000, int(seconds / rounds / 2 * 1e9 / np.median(ours))))
    return min(ours) / 1e3, min(theirs) / 1e3


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--seconds", type=float, default=2)
    ap.add_argument("--rounds", type=int, default=6)
    ap.add_argument("regex", nargs="?", default="")
    a = ap.parse_args()
    tools = Tools(a.build)
    for name, text in CASES.items():
        if re.search(a.regex, name):
            ours, theirs = bench(tools, name, text, a.seconds, a.rounds)
            print(f"{name:30} {ours:10.1f} us  onnxruntime {theirs:10.1f} us  {theirs / ours:6.2f}", flush=True)


if __name__ == "__main__":
    main()
