#!/usr/bin/env python3
"""Products and convolutions on AArch64 under QEMU: sizes that fit no tile, every epilogue, with each code of the bundle at several vector lengths.

usage: aarch64_kernels.py [--build DIR] [--only REGEX] [--runs REGEX] [--budget SECONDS]

The oracle is onnxruntime without optimisation. When time runs short, the commit decides which graphs are run.
"""
import argparse
import os
import re
import shutil
import sys
import tempfile
import time

import graphs
from harness import Fault, Refused, Tally, Tools, commit_seed, error, oracle

TARGET = "generic-arm64-sme2"
# Processor and the code that it is told to run.
RUNS = {
    "neon": ("max,sve=off,sme=off", "aarch64-neon"),
    "sve2-128": ("max,sme=off,sve-default-vector-length=16", "aarch64-sve2"),
    "sve2-256": ("max,sme=off,sve-default-vector-length=32", "aarch64-sve2"),
    "sve2-512": ("max,sme=off,sve-default-vector-length=64", "aarch64-sve2"),
    "sve2-2048": ("max,sme=off,sve-default-vector-length=256", "aarch64-sve2"),
    "sme2-128": ("max,sme-default-vector-length=16", "aarch64-sme2"),
    "sme2-256": ("max,sve=off,sme-default-vector-length=32", "aarch64-sme2"),
    "sme2-512": ("max,sve=off,sme-default-vector-length=64", "aarch64-sme2"),
    "sme2-2048": ("max,sme-default-vector-length=256", "aarch64-sme2"),
}
# Processors without a feature, and the code that they must refuse.
FOREIGN = [
    ("max,sve=off,sme=off", "aarch64-sve2"),
    ("max,sve=off,sme=off", "aarch64-sme2"),
    ("cortex-a53", "aarch64-sve2"),
    ("cortex-a53", "aarch64-sme2"),
    ("max,sme=off,sve-default-vector-length=32", "aarch64-sme2"),
    ("neoverse-v1", "aarch64-sve2"),  # SVE, but not SVE2
    ("max,sve=off,sme-default-vector-length=32", "aarch64-sve2"),
]
GRAPHS = []


def graph(name, text, *shapes, limit=1e-5):
    GRAPHS.append((name, text, shapes, limit))


graph("square_64", "g (float[64,64] x) => (float[64,64] y) { y = MatMul(x, $[64,64]) }")
graph("tails", "g (float[37,29] x) => (float[37,51] y) { y = Gemm(x, $[29,51], $[51]) }")
graph("one_step", "g (float[33,1] x) => (float[33,40] y) { y = MatMul(x, $[1,40]) }")
graph("two_steps", "g (float[70,2] x) => (float[70,19] y) { a = MatMul(x, $[2,19]) y = Relu(a) }")
graph("few_columns", "g (float[35,19] x) => (float[35,3] y, float[35,9] z) { y = MatMul(x, $[19,3]) z = MatMul(x, $[19,9]) }")
graph("one_row", "g (float[1,75] x) => (float[1,41] y) { y = Gemm(x, $[75,41], $[41]) }")
graph("five_rows", "g (float[5,130] x) => (float[5,300] y) { a = MatMul(x, $[130,300]) y = Add(a, $[300]) }")
graph("dynamic_rows", "g (float[m,67] x) => (float[m,48] y) { a = MatMul(x, $[67,48]) b = Add(a, $[48]) y = Relu(b) }", [[1, 67]], [[5, 67]], [[66, 67]])
graph("transposed", "g (float[41,29] x) => (float y) { y = Gemm<transA=1, transB=1, alpha=0.5, beta=2.0>(x, $[18,41], $[29,1]) }")
graph("transposed_input", "g (float[30,41] x, float[18,30] z) => (float[41,18] y) { y = Gemm<transA=1, transB=1>(x, z) }")
graph("bias_kinds", "g (float[39,24] x) => (float y, float z, float u) { y = Gemm(x, $[24,20], $[39,20]) z = Gemm(x, $[24,20], $[39,1]) u = Gemm(x, $[24,20], $[1]) }")
graph("two_inputs", "g (float[b,h,m,k] x, float[b,h,k,n] z) => (float[b,h,m,n] y) { y = MatMul(x, z) }", [[2, 3, 17, 8], [2, 3, 8, 33]], [[1, 1, 1, 1], [1, 1, 1, 1]], [[1, 2, 37, 70], [1, 2, 70, 13]])
graph("batch_static", "g (float[3,37,70] x, float[3,70,45] z) => (float[3,37,45] y) { y = MatMul(x, z) }")
graph("batch_broadcast", "g (float[5,1,14,6] x, float[3,6,22] z) => (float y) { y = MatMul(x, z) }")
graph("batch_weights", "g (float[2,3,14,6] x) => (float y) { y = MatMul(x, $[3,6,22]) }")
graph("batch_flat", "g (float[2,3,7,20] x) => (float y) { a = MatMul(x, $[20,50]) b = Add(a, $[50]) y = Relu(b) }")
graph("vectors", "g (float[16] x, float[4,16,20] z) => (float y, float u) { y = MatMul(x, z) t = Transpose<perm=[0,2,1]>(z) u = MatMul(t, x) }")
graph("residual", "g (float[45,32] x) => (float[45,32] y) { a = MatMul(x, $[32,32]) b = Add(a, $[32]) c = Add(b, x) y = Relu(c) }")
graph("heavy_epilogue", "g (float[45,33] x) => (float[45,50] y) { a = MatMul(x, $[33,50]) b = Add(a, $[50]) e = Erf(b) s = Sigmoid(a) y = Mul(e, s) }")
graph("column_epilogue", "g (float[45,33] x) => (float[45,50] y) { a = MatMul(x, $[33,50]) b = Mul(a, $[45,1]) y = Clip(b) }")
graph("two_results", "g (float[19,33] x) => (float[19,20] y, float[19,20] z) { y = MatMul(x, $[33,20]) z = Tanh(y) }")
graph("quantised_after", "g (float[19,33] x) => (uint8[19,20] q) { y = MatMul(x, $[33,20]) s = Constant<value = float {0.5}>() z = Constant<value = uint8 {128}>() q = QuantizeLinear(y, s, z) }")
graph("wide", "g (float[70,48] x) => (float[70,1100] y) { y = MatMul(x, $[48,1100]) }")
graph("long", "g (float[34,2050] x) => (float[34,70] y) { y = MatMul(x, $[2050,70]) }", limit=3e-5)
graph("workgroups", "g (float[300,200] x) => (float[300,290] y) { y = MatMul(x, $[200,290]) }")
graph("attention", """g (float[b,s,32] x) => (float[b,s,32] y) {
  q0 = MatMul(x, $[32,32]) k0 = MatMul(x, $[32,32]) v0 = MatMul(x, $[32,32])
  shape = Constant<value = int64[4] {0, 0, 4, 8}>()
  q1 = Reshape(q0, shape) k1 = Reshape(k0, shape) v1 = Reshape(v0, shape)
  q = Transpose<perm=[0,2,1,3]>(q1) k = Transpose<perm=[0,2,3,1]>(k1) v = Transpose<perm=[0,2,1,3]>(v1)
  s0 = MatMul(q, k) scale = Constant<value = float {0.35}>() s1 = Mul(s0, scale) p = Softmax<axis=-1>(s1)
  o0 = MatMul(p, v) o1 = Transpose<perm=[0,2,1,3]>(o0) back = Constant<value = int64[3] {0, 0, -1}>()
  o2 = Reshape(o1, back) o3 = MatMul(o2, $[32,32]) y = Add(o3, x) }""", [[1, 16, 32]], [[3, 5, 32]])
graph("conv_1x1", "g (float[1,24,14,13] x) => (float y) { a = Conv(x, $[40,24,1,1], $[40]) y = Relu(a) }")
graph("conv_1x1_batch", "g (float[2,19,5,7] x) => (float y) { a = Conv(x, $[24,19,1,1], $[24]) y = HardSwish(a) }")
graph("conv_1x1_stride", "g (float[1,16,15,14] x) => (float y) { y = Conv<strides=[2,2]>(x, $[20,16,1,1]) }")
graph("conv_3x3", "g (float[1,16,19,23] x) => (float y) { a = Conv<pads=[1,1,1,1]>(x, $[17,16,3,3], $[17]) y = Relu(a) }")
graph("conv_3x3_odd", "g (float[1,5,19,23] x) => (float y) { a = Conv<pads=[1,1,1,1]>(x, $[17,5,3,3], $[17]) y = Relu(a) }")
graph("conv_first", "g (float[1,3,32,31] x) => (float y) { a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, $[32,3,3,3], $[32]) y = Clip(a) }")
graph("conv_stride_asym", "g (float[2,8,15,14] x) => (float y) { y = Conv<pads=[0,1,2,1], strides=[2,3]>(x, $[16,8,3,5]) }")
graph("conv_dilated", "g (float[1,4,20,20] x, float[1,6,20,20] u) => (float y, float z) { y = Conv<dilations=[2,3], pads=[2,3,2,3]>(x, $[16,4,3,3]) z = Conv<dilations=[1,3], pads=[1,3,1,3]>(u, $[16,6,3,3]) }")
graph("conv_residual", "g (float[b,24,h,w] x) => (float[b,24,h,w] y) { a = Conv<pads=[1,1,1,1]>(x, $[24,24,3,3], $[24]) c = Add(a, x) y = Relu(c) }", [[1, 24, 7, 7]], [[2, 24, 13, 5]])
graph("conv_groups", "g (float[1,24,9,9] x) => (float y) { y = Conv<group=2, pads=[2,2,2,2]>(x, $[32,12,5,5], $[32]) }")
graph("conv_1d", "g (float[b,12,t] x) => (float[b,17,u] y) { y = Conv<pads=[2,2], strides=[2]>(x, $[17,12,5]) }", [[1, 12, 50]], [[3, 12, 17]])
graph("conv_3d", "g (float[1,4,5,6,7] x) => (float y) { y = Conv<pads=[1,1,1,1,1,1]>(x, $[16,4,3,3,3]) }")
graph("conv_same", "g (float[b,5,h,w] x) => (float[b,9,p,q] y) { y = Conv<auto_pad=\"SAME_UPPER\", strides=[2,2]>(x, $[9,5,3,4]) }", [[1, 5, 10, 11]], [[2, 5, 7, 30]])
graph("conv_beyond_input", "g (float[1,4,3,2] x) => (float y) { y = Conv<pads=[3,3,3,3]>(x, $[9,4,6,5], $[9]) }")
graph("conv_sigmoid", "g (float[1,16,7,9] x) => (float y) { a = Conv(x, $[16,16,1,1], $[16]) s = Sigmoid(a) b = Mul(a, s) y = Add(b, x) }")
graph("conv_chain", """g (float[1,3,20,20] x) => (float y) { a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, $[16,3,3,3], $[16]) b = Relu(a) c = Conv<group=16, pads=[1,1,1,1]>(b, $[16,1,3,3], $[16])
  d = Relu(c) e = Conv(d, $[24,16,1,1], $[24]) f = Relu(e) g1 = GlobalAveragePool(f) h = Flatten(g1) y = Gemm(h, $[24,10], $[10]) }""")
graph("conv_transpose", "g (float[1,8,7,9] x) => (float y) { y = ConvTranspose<strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]>(x, $[8,21,3,3], $[21]) }")


def check(tools, g, runs, loader, qemu, tally, end):
    import onnx
    name, text, shapes, limit = g
    model = graphs.build(name, text, 21)
    with tempfile.TemporaryDirectory() as tmp:
        path, bundle = os.path.join(tmp, name + ".onnx"), os.path.join(tmp, name + ".tsr")
        onnx.save(model, path)
        tools.compile(path, bundle, "--target", TARGET)
        ref = oracle(path)
        cases = []
        for k, dims in enumerate(shapes or [None]):
            feeds = graphs.feeds_of(model, dims, k, None, None)
            cases.append((dims, feeds, ref.run(None, feeds)))
        for run, (cpu, variant) in runs.items():
            if time.time() > end:
                return
            try:
                for dims, feeds, want in cases:
                    got = tools.run(bundle, feeds, len(want), "--variant", variant, runner=[qemu, "-cpu", cpu, loader])
                    for i, (a, b) in enumerate(zip(got, want)):
                        e, why = error(a, b)
                        if not e <= limit:
                            raise Fault(f"{dims or ''}: output {i}: {why or f'error {e:.2e} over {limit:g}'}")
                tally.ok(f"{name} {run}")
            except (Refused, Fault) as why:
                tally.fail(f"{name} {run}", str(why))


def refusals(tools, loader, qemu, tally):
    """A processor without the feature refuses the code by name: never an illegal instruction."""
    import onnx
    with tempfile.TemporaryDirectory() as tmp:
        path, bundle = os.path.join(tmp, "g.onnx"), os.path.join(tmp, "g.tsr")
        onnx.save(graphs.build("refusal", GRAPHS[0][1], 21), path)
        tools.compile(path, bundle, "--target", TARGET)
        for cpu, variant in FOREIGN:
            try:
                tools.call([qemu, "-cpu", cpu, loader, bundle, "--variant", variant])
                tally.fail(f"{variant} on {cpu}", "was not refused")
            except Refused as why:
                (tally.ok if "feature" in str(why) else tally.fail)(f"{variant} on {cpu}", str(why))
            except Fault as why:
                tally.fail(f"{variant} on {cpu}", str(why))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--only", default="")
    ap.add_argument("--runs", default="", help="which of the processors (a regular expression)")
    ap.add_argument("--budget", type=float, default=1e9)
    a = ap.parse_args()
    tools, tally, end = Tools(a.build, timeout=300), Tally(), time.time() + a.budget
    loader, qemu = os.path.join(tools.bin, "aarch64", "tsr-run"), shutil.which("qemu-aarch64")
    if not qemu or not os.path.exists(loader):
        tally.skip("aarch64", "no qemu-aarch64" if not qemu else f"no {loader}")
        return tally.finish()
    if not a.only:
        refusals(tools, loader, qemu, tally)
    runs = {k: v for k, v in RUNS.items() if re.search(a.runs, k)}
    first = commit_seed() % len(GRAPHS)
    left = [g for g in GRAPHS[first:] + GRAPHS[:first] if re.search(a.only, g[0])]
    for i, g in enumerate(left):
        if time.time() > end:
            tally.skip(f"{len(left) - i} graphs", "out of budget")
            break
        try:
            check(tools, g, runs, loader, qemu, tally, end)
        except (Refused, Fault) as why:
            tally.fail(g[0], f"compile for {TARGET}: {why}")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
