#!/usr/bin/env python3
"""Models split by hand between the processor and other devices, by value.

usage: devices.py [--build DIR] [--only REGEX] [--random N]

Each model is compiled with nodes wrapped into segments, and run on two sets of inputs with the devices on threads and inline, the
processor's memory poisoned while they work and not. Poisoned, a launch on a thread is waited for at once, as nobody else may need the memory then: it
shows that the devices reach into no other memory, not that anything runs side by side, which `threads` below is for. The oracle is onnxruntime without optimisation, which knows nothing of the split.
"""
import argparse
import glob
import json
import os
import re
import shutil
import sys
import tempfile

import numpy as np

from graphs import build, feeds_of
from harness import TOP, Fault, Refused, Tally, Tools, error, oracle

SPLITS = []


def split(name, text, segments, copies, limit=1e-5, shapes=(None,), low=None, high=None):
    """`segments`: texts of --segment over the names of values, which name their nodes; `copies`: expected number in, out of devices."""
    SPLITS.append((name, text, segments, copies, limit, shapes, low, high))


CNN = """g (float[1,3,20,20] x) => (float[1,10] y) {
  c1 = Conv<pads=[1,1,1,1], strides=[2,2]>(x, $[16,3,3,3], $[16]) r1 = Relu(c1) c2 = Conv<pads=[1,1,1,1]>(r1, $[16,16,3,3], $[16]) r2 = Relu(c2)
  s = Add(r2, r1) d = Conv<group=16, pads=[1,1,1,1]>(s, $[16,1,3,3], $[16]) h = HardSwish(d) p = GlobalAveragePool(h) f = Flatten(p) l = Gemm(f, $[16,10], $[10]) y = Softmax<axis=-1>(l) }"""
split("cnn_middle", CNN, ["npu=c2,r2,s"], (1, 1))
split("cnn_two_parts", CNN, ["npu=c1,r1", "npu=d,h,p"], (2, 2))
split("cnn_two_devices", CNN, ["npu=c1,r1", "gpu=c2,r2,s", "npu=d,h,p"], (3, 3))
split("cnn_all", CNN, ["npu=c1,r1,c2,r2,s,d,h,p,f,l,y"], (1, 1))
split("cnn_zero_copy", CNN, ["npu:zero-copy=c2,r2,s"], (0, 0))
split("cnn_chain_stays", CNN, ["npu=c1,r1", "npu=c2,r2,s", "npu=d,h,p"], (1, 1))
split("cnn_zero_copy_two_devices", CNN, ["npu:zero-copy=c1,r1", "gpu:zero-copy=c2,r2,s"], (1, 1))
split("beside", """g (float[32,32] x, float[32,32] z) => (float[32,32] y, float[32,32] w) {
  a = MatMul(x, $[32,32]) b = Tanh(a) c = MatMul(z, $[32,32]) e = Exp(z) w = Div(c, e) y = Add(b, w) }""", ["npu=a,b"], (1, 1))
split("result_is_output", "g (float[4,8] x) => (float[4,8] y, float[4,8] z) { y = Exp(x) z = Neg(y) }", ["npu=y"], (1, 1))
split("result_is_output_zero_copy", "g (float[4,8] x) => (float[4,8] y, float[4,8] z) { y = Exp(x) z = Neg(y) }", ["npu:zero-copy=y"], (0, 0))
split("one_copy_for_two_readers", "g (float[6,6] x) => (float[6,6] y) { c = Relu(x) a = MatMul(c, $[6,6]) m = Softmax(a) b = MatMul(c, m) y = Add(a, b) }", ["npu=a", "npu=b"], (2, 2))
split("views", """g (float[4,6] x) => (float[24] y, float[2,12] z) { k = Constant<value_ints=[24]>() m = Constant<value_ints=[2,12]>()
  c = Sigmoid(x) r = Reshape(c, m) a = MatMul(r, $[12,12]) v = Reshape(a, k) y = Exp(v) z = Tanh(a) }""", ["npu=a"], (1, 1))
split("shared_constant", "g (float[5,7] x) => (float[5,7] y) { w = Identity($[7,7]) a = MatMul(x, w) b = Relu(a) y = MatMul(b, w) }", ["npu=a"], (1, 1))
split("integers", "g (int64[3,4] x) => (int64[3,4] y) { a = Add(x, x) b = Mul(a, x) y = Sub(b, a) }", ["npu=b"], (2, 1), low=-50, high=50)
split("casts", "g (float[3,40] x) => (float[3,40] y) { h = Cast<to=10>(x) a = Tanh(h) b = Mul(a, a) y = Cast<to=1>(b) }", ["npu=a,b"], (1, 1), limit=2e-3)
split("branch", """g (float[8] x, int64[1] k) => (float[8] y) { a = Exp(x) z = Constant<value_ints=[0]>() l = Less(k, z) c = Squeeze(l)
  y = If(c)<then_branch = t () => (float[8] p) { p = Neg(a) }, else_branch = e () => (float[8] q) { n = Mul(a, a) q = Add(n, x) }> }""", ["npu=a"], (1, 1), low=-5, high=5)
split("loop_reads_result", """g (float[8] x, int64 n) => (float[8] y) { a = Exp(x) t = Constant<value=bool {1}>()
  y = Loop(n, t, x)<body = b (int64 i, bool c, float[8] s) => (bool d, float[8] r) { d = Identity(c) u = Mul(s, a) r = Tanh(u) }> }""", ["npu=a"], (1, 1), low=1, high=5)
split("open_batch_outside", "g (float[b,8] x, float[4,8] z) => (float[b,8] y, float[4,8] w) { a = Tanh(z) w = Exp(a) y = Relu(x) }", ["npu=a"], (1, 1), shapes=([[3, 8], [4, 8]], [[7, 8], [4, 8]]))

MODES = [("--devices", "threads"), ("--devices", "inline"), ("--devices", "threads", "--poison"), ("--devices", "inline", "--poison")]


def check(tools, name, text, segments, copies, limit, shapes, low, high):
    import onnx
    model = build(name, text, 21)
    for node in model.graph.node:
        node.name = node.output[0]
    with tempfile.TemporaryDirectory() as tmp:
        path, bundle = os.path.join(tmp, name + ".onnx"), os.path.join(tmp, name + ".tsr")
        onnx.save(model, path)
        tools.compile(path, bundle, *(word for s in segments for word in ("--segment", s)))
        shown = json.loads(tools.call([tools.tessera, "inspect", bundle, "--format", "json"]))
        moved = [sum(c["count"] for c in shown["copies"] if c[way] not in ("cpu", "constants")) for way in ("to", "from")]
        if tuple(moved) != copies:
            raise Fault(f"{moved} copies into and out of devices, expected {copies}")
        if len(shown["launches"]) != len(segments):
            raise Fault(f"{len(shown['launches'])} launches for {len(segments)} segments")
        again = os.path.join(tmp, "again.tsr")
        tools.compile(path, again, *(word for s in segments for word in ("--segment", s)))
        if open(bundle, "rb").read() != open(again, "rb").read():
            raise Fault("a second compile gives other bytes")
        ref = oracle(path)
        for k, dims in enumerate([*shapes, shapes[0]]):
            feeds = feeds_of(model, dims, k, low, high)
            want = ref.run(None, feeds)
            for mode in MODES:
                got = tools.run(bundle, feeds, len(want), *mode, runner=[os.path.join(tools.bin, "tsr-run")])
                for i, (g, w) in enumerate(zip(got, want)):
                    e, why = error(g, w)
                    if not e <= limit:
                        raise Fault(f"run {k} {' '.join(mode)}: output {i}: {why or f'error {e:.2e} over {limit:g}'}")


def random_split(seed):
    """A graph of 5 to 14 nodes over three devices, in stretches of one to three nodes."""
    rng = np.random.Generator(np.random.PCG64(seed))
    values, body, runs = ["x", "z"], [], []
    while len(body) < 5 + seed % 10:
        a, b = (values[rng.integers(max(0, len(values) - 5), len(values))] for _ in range(2))
        v = f"v{len(body)}"
        form = rng.choice(["Tanh({a})", "Relu({a})", "Softmax({a})", "Transpose({a})", "Add({a}, {b})", "Sub({a}, {b})", "MatMul({a}, $[16,16])", "MatMul({a}, {b})", "halves"])
        if form == "halves":
            body += [([f"{v}a", f"{v}b"], f"Split<axis=0, num_outputs=2>({a})"), ([v], f"Concat<axis=0>({v}b, {v}a)")]
        else:
            body.append(([v], form.format(a=a, b=b)))
            if "MatMul" in form:  # stays small
                body.append(([f"{v}t"], f"Tanh({v})"))
                v += "t"
        values.append(v)
    at = 0
    while at < len(body):
        count = int(rng.integers(1, 4))
        if rng.random() < 0.65:
            how = rng.choice(["npu", "gpu", "dsp"]) + rng.choice(["", ":zero-copy"])
            runs.append(f"{how}=" + ",".join(outs[0] for outs, _ in body[at:at + count]))
        at += count
    outputs = list(dict.fromkeys([values[-1], values[-2], values[rng.integers(2, len(values))]]))
    text = "g (float[16,16] x, float[16,16] z) => (" + ", ".join(f"float[16,16] {o}" for o in outputs) + ") { "
    return text + " ".join(f"{', '.join(outs)} = {form}" for outs, form in body) + " }", runs


def check_random(tools, seed):
    import onnx
    text, segments = random_split(seed)
    model = build(f"random{seed}", text, 21)
    for node in model.graph.node:
        node.name = node.output[0]
    with tempfile.TemporaryDirectory() as tmp:
        path, bundle = os.path.join(tmp, "m.onnx"), os.path.join(tmp, "m.tsr")
        onnx.save(model, path)
        while True:
            try:
                tools.compile(path, bundle, *(word for s in segments for word in ("--segment", s)))
                break
            except Refused as why:  # nodes without a reader, or one with what is beside them, are none in the compiled model
                gone = re.search(r"no node is called '(\w+)'", str(why))
                if not gone:
                    raise Fault(f"{text} {segments}: {why}")
                segments = [re.sub(rf"\b{gone[1]}\b,?", "", s).rstrip(",") for s in segments]
                segments = [s for s in segments if not s.endswith("=")]
        feeds = feeds_of(model, None, seed, None, None)
        want = oracle(path).run(None, feeds)
        for mode in MODES:
            got = tools.run(bundle, feeds, len(want), *mode, runner=[os.path.join(tools.bin, "tsr-run")])
            for i, (g, w) in enumerate(zip(got, want)):
                e, why = error(g, w)
                if not e <= 1e-5:
                    raise Fault(f"{text} {segments} {' '.join(mode)}: output {i}: {why or f'error {e:.2e}'}")


def ahead(tools, segments):
    """The processor reads the first segment's result, copied before the second is launched, while that one runs."""
    import onnx
    model = build("ahead", "g (float[32,32] x) => (float[32,32] b, float[32,32] y) { a = MatMul(x, $[32,32]) b = MatMul(a, $[32,32]) y = Exp(a) }", 21)
    for node in model.graph.node:
        node.name = node.output[0]
    with tempfile.TemporaryDirectory() as tmp:
        path, bundle, trace = (os.path.join(tmp, f) for f in ("m.onnx", "m.tsr", "trace.json"))
        onnx.save(model, path)
        tools.compile(path, bundle, *(word for s in segments for word in ("--segment", s)))
        feeds = feeds_of(model, None, 1, None, None)
        want = oracle(path).run(None, feeds)
        for mode in MODES:
            got = tools.run(bundle, feeds, len(want), "--trace", trace, *mode, runner=[os.path.join(tools.bin, "tsr-run")])
            worst = max(error(g, w)[0] for g, w in zip(got, want))
            events = sorted((e for e in json.load(open(trace))["traceEvents"] if "ts" in e), key=lambda e: e["ts"])
            kinds = [e["cat"] for e in events if e["cat"] in ("launch", "fence", "elementwise")]
            if not worst <= 1e-5 or kinds != ["launch", "fence", "launch", "elementwise", "fence"]:
                raise Fault(f"{' '.join(mode)}: error {worst:.2e}, order {kinds}")


def threads(tools):
    """tsr-run under ThreadSanitizer: the interpreter, the devices' threads and the workers of kernels at once."""
    import onnx
    compiler = shutil.which("clang++-22") or shutil.which("clang++")
    if not compiler:
        raise Fault("no clang++ for ThreadSanitizer: run tools/setup/setup.sh")
    name, text, segments = next(s[:3] for s in SPLITS if s[0] == "beside")
    sources = [f for folder in ("tools/tsr-run", "runtime-stub/platform/posix", "runtime-stub/src") for f in glob.glob(os.path.join(TOP, folder, "*.cpp"))]
    with tempfile.TemporaryDirectory() as tmp:
        watched, path, bundle = (os.path.join(tmp, f) for f in ("tsr-run", "m.onnx", "m.tsr"))
        tools.call([compiler, "-std=c++20", "-O1", "-g", "-fsanitize=thread", "-DTSR_HOSTED", "-I", TOP, "-pthread", *sorted(sources), "-o", watched])
        model = build(name, text, 21)
        for node in model.graph.node:
            node.name = node.output[0]
        onnx.save(model, path)
        tools.compile(path, bundle, *(word for s in segments for word in ("--segment", s)))
        feeds = feeds_of(model, None, 1, None, None)
        want = oracle(path).run(None, feeds)
        for more in ([], ["--threads", "2"], ["--poison"]):
            trace = os.path.join(tmp, "trace.json")
            got = tools.run(bundle, feeds, len(want), "--bench", "50", "--trace", trace, *more, runner=[watched])  # a race ends with status 66
            worst = max(error(g, w)[0] for g, w in zip(got, want))
            events = json.load(open(trace))["traceEvents"]
            devices = {e["args"]["device"] for e in events if e["cat"] not in ("launch", "fence")}
            if not worst <= 1e-5 or devices != {"cpu", "npu"}:
                raise Fault(f"{more}: error {worst:.2e}, work done by {sorted(devices)}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--only", default="")
    ap.add_argument("--random", type=int, default=40, metavar="N", help="random graphs split at random")
    a = ap.parse_args()
    tools, tally = Tools(a.build, timeout=600), Tally()
    for s in SPLITS:
        if re.search(a.only, s[0]):
            tally.attempt(s[0], check, tools, *s)
    for seed in range(a.random):
        if re.search(a.only, f"random{seed}"):
            tally.attempt(f"random{seed}", check_random, tools, seed)
    for name, how in (("ahead", ""), ("ahead_zero_copy", ":zero-copy")):
        if re.search(a.only, name):
            tally.attempt(name, ahead, tools, [f"npu{how}=a", f"npu{how}=b"])
    if re.search(a.only, "threads"):
        tally.attempt("threads", threads, tools)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
