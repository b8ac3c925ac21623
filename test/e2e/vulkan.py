#!/usr/bin/env python3
"""Models on a Vulkan device, by value.

usage: vulkan.py [--build DIR] [--only REGEX] [--runs N]
       vulkan.py [--build DIR] --models [ID ...] [--seconds N]   public models instead (vulkan_models.py); N for each

Small graphs are compiled for a target with a GPU, every node pinned to it, and run by a Vulkan driver that computes in software: with the device's memory
and with the host's imported, the processor's memory poisoned while the device works, and by the processor alone, which is what happens on a machine
without such a device. The validation layers watch, synchronisation included; that they would see a missing barrier is a test of its own. The oracle is
onnxruntime without optimisation.
"""
import argparse
import glob
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

import numpy as np

from graphs import build, feeds_of
from harness import Fault, Tally, Tools, error, load_value, oracle, save_inputs

TARGET = "rk3588-gpu-sim"
LAYERS = {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation",
          "VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT"}
COMPLAINT = re.compile(r"VUID|SYNC-HAZARD|UNASSIGNED|Validation (Error|Warning|Performance)")
MODES = [(), ("--gpu-memory", "import"), ("--poison",), ("--devices", "inline")]
CASES = []


def case(name, text, limit=1e-4, low=None, high=None):
    CASES.append((name, text, limit, low, high))


case("chain", "g (float[4,40] x) => (float[4,40] y) { a = Exp(x) b = Mul(a, a) c = Relu(b) y = Add(c, x) }", low=-2, high=2)
case("matmul", "g (float[33,20] x) => (float[33,12] y) { a = MatMul(x, $[20,50]) b = Relu(a) y = MatMul(b, $[50,12]) }")
case("cnn", """g (float[1,3,20,20] x) => (float[1,10] y) {
  c1 = Conv<pads=[1,1,1,1], strides=[2,2]>(x, $[16,3,3,3], $[16]) r1 = Relu(c1) c2 = Conv<pads=[1,1,1,1]>(r1, $[16,16,3,3], $[16]) r2 = Relu(c2)
  s = Add(r2, r1) d = Conv<group=16, pads=[1,1,1,1]>(s, $[16,1,3,3], $[16]) h = HardSwish(d) p = GlobalAveragePool(h) f = Flatten(p) l = Gemm(f, $[16,10], $[10]) y = Softmax<axis=-1>(l) }""")
case("rows", "g (float[6,40] x) => (float[6,40] y, float[6] z) { a = Softmax<axis=-1>(x) y = LayerNormalization(a, $[40], $[40]) k = Constant<value_ints=[1]>() z = ReduceMax<keepdims=0>(y, k) }")
case("views", "g (float[4,6] x) => (float[24] y) { k = Constant<value_ints=[24]>() c = Sigmoid(x) t = Transpose<perm=[1,0]>(c) r = Reshape(t, k) y = Tanh(r) }")


def vulkan_run(tools, bundle, feeds, outputs, *options, env=None):
    """Runs a bundle; the outputs, and all that was said."""
    with tempfile.TemporaryDirectory() as tmp:
        save_inputs(feeds, os.path.join(tmp, "in"))
        os.mkdir(os.path.join(tmp, "out"))
        words = [os.path.join(tools.bin, "tsr-run"), bundle, "--inputs", os.path.join(tmp, "in"), "--output-dir", os.path.join(tmp, "out"), *options]
        try:
            p = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=tools.timeout, env={**os.environ, **(env or {})})
        except subprocess.TimeoutExpired:
            raise Fault(f"over {tools.timeout} s: {' '.join(options)}")
        said = p.stdout + p.stderr
        if p.returncode != 0:
            return p.returncode, said
        return [load_value(os.path.join(tmp, "out", f"output_{i}")) for i in range(outputs)], said


def compare(what, got, want, limit):
    if isinstance(got, int):
        raise Fault(f"{what}: status {got}")
    for i, (g, w) in enumerate(zip(got, want)):
        e, why = error(g, w)
        if not e <= limit:
            raise Fault(f"{what}: output {i}: {why or f'error {e:.2e} over {limit:g}'}")


def silent(what, said):
    found = [line for line in said.splitlines() if COMPLAINT.search(line)]
    if found:
        raise Fault(f"{what}: {len(found)} messages of the validation layers: {found[0][:300]}")


def make(tools, tmp, name, text, pins=None, target=TARGET, unit="gpu:f32"):
    """The model and its bundle, every node pinned to the GPU unless told otherwise."""
    import onnx
    model = build(name, text, 21)
    for node in model.graph.node:
        node.name = node.output[0]
    path, bundle = os.path.join(tmp, name + ".onnx"), os.path.join(tmp, name + ".tsr")
    onnx.save(model, path)
    pins = pins or [f"{n.name}={unit}" for n in model.graph.node if n.op_type not in ("Constant", "Reshape", "Flatten")]
    tools.compile(path, bundle, "--target", target, *(word for p in pins for word in ("--pin", p)))
    return model, path, bundle


def check(tools, name, text, limit, low, high, unit="gpu:f32"):
    with tempfile.TemporaryDirectory() as tmp:
        model, path, bundle = make(tools, tmp, name, text, unit=unit)
        shown = json.loads(tools.call([tools.tessera, "inspect", bundle, "--format", "json"]))
        if not shown["launches"] or {d["kind"] for d in shown["devices"][1:]} != {"vulkan"}:
            raise Fault(f"not on the GPU: {shown['devices']}")
        ref = oracle(path)
        for k in range(2):
            feeds = feeds_of(model, None, k, low, high)
            want = ref.run(None, feeds)
            for mode in MODES:
                got, said = vulkan_run(tools, bundle, feeds, len(want), "--gpu", "require", "--bench", "5", *mode, env=LAYERS)
                compare(f"run {k} {' '.join(mode)}: {said[-200:] if isinstance(got, int) else ''}", got, want, limit)
                if unit == "gpu:f16" and all(error(g, w)[0] < 1e-5 for g, w in zip(got, want)):
                    raise Fault("float16 would not be so exact")
                silent(f"run {k} {' '.join(mode)}", said)
            got, said = vulkan_run(tools, bundle, feeds, len(want), "--gpu", "off")
            compare("the processor alone", got, want, limit)


def places(tools, runs):
    """Without a device, with one that is not real, with one that is late: by name, and right where the processor can."""
    name, text, limit, low, high = CASES[0]
    nothing = {"VK_ICD_FILENAMES": "/nowhere.json", "VK_DRIVER_FILES": "/nowhere.json"}
    with tempfile.TemporaryDirectory() as tmp:
        model, path, bundle = make(tools, tmp, name, text)
        feeds = feeds_of(model, None, 0, low, high)
        want = oracle(path).run(None, feeds)
        for env, why in ((nothing, "Vulkan"), ({}, "in hardware")):
            got, said = vulkan_run(tools, bundle, feeds, len(want), env=env)
            compare("--gpu auto", got, want, limit)
            if "the processor does the part of the Vulkan device" not in said or why not in said:
                raise Fault(f"--gpu auto says '{said[:300]}'")
        status, said = vulkan_run(tools, bundle, feeds, len(want), "--gpu", "require", env=nothing)
        if status != 1 or "error: the bundle's Vulkan device: " not in said:
            raise Fault(f"--gpu require without a driver: {status}, '{said[:300]}'")
        cache = os.path.join(tmp, "cache")
        for junk in (b"", b"not a cache" * 10):
            open(cache, "wb").write(junk)
            compare("--gpu-cache", vulkan_run(tools, bundle, feeds, len(want), "--gpu", "require", "--gpu-cache", cache)[0], want, limit)
            if os.path.getsize(cache) < 32:
                raise Fault("--gpu-cache wrote nothing")
        big = "g (float[1500,1500] x) => (float[1500,1500] y) { a = MatMul(x, x) b = MatMul(a, x) y = MatMul(b, a) }"
        model, path, bundle = make(tools, tmp, "late", big)
        status, said = vulkan_run(tools, bundle, feeds_of(model, None, 0, -1, 1), 1, "--gpu", "require", "--gpu-timeout", "1")
        if status != 1 or "VK_TIMEOUT" not in said:
            raise Fault(f"a late device: {status}, '{said[:300]}'")


def rehash(data, at, size, change):
    """Changes the segment [at, at + size) of a bundle and makes its hashes right again."""
    digest = lambda b: hashlib.blake2b(b, digest_size=32).digest()
    chunks = range(at, at + size, 1 << 18)
    old = [digest(bytes(data[c:min(c + (1 << 18), at + size)])) for c in chunks]
    change(data)
    for c, before in zip(chunks, old):
        found = bytes(data).find(before)
        data[found:found + 32] = digest(bytes(data[c:min(c + (1 << 18), at + size)]))
    manifest, = struct.unpack_from("<Q", data, 40)
    data[64:96] = bytes(32)
    data[64:96] = digest(bytes(data[:128 + manifest]))


def barriers(tools, runs):
    """A segment that does not say that its first step writes: no barrier, which the layers must see, or their silence means nothing."""
    name, text, limit, low, high = next(c for c in CASES if c[0] == "matmul")
    with tempfile.TemporaryDirectory() as tmp:
        model, path, bundle = make(tools, tmp, name, text)
        data = bytearray(open(bundle, "rb").read())
        at = data.find(b"TSVK")
        size, operands, modules, steps, bindings = struct.unpack_from("<QIIII", data, at + 8)
        rows = at + (64 + 8 * operands + 15) // 16 * 16 + 96 * modules + 32 * steps

        def change(d):
            for b in range(bindings):
                d[rows + 32 * b + 24:rows + 32 * b + 28] = struct.pack("<I", 1)
        rehash(data, at, size, change)
        open(bundle, "wb").write(data)
        feeds = feeds_of(model, None, 0, low, high)
        got, said = vulkan_run(tools, bundle, feeds, 1, "--gpu", "require", env=LAYERS)
        if "SYNC-HAZARD" not in said:
            raise Fault(f"no hazard was reported: {got if isinstance(got, int) else ''} '{said[:300]}'")


def endurance(tools, runs):
    """Many runs, equal to the last bit, under the layers without a message; time of a run without them."""
    name, text, limit, low, high = next(c for c in CASES if c[0] == "cnn")
    with tempfile.TemporaryDirectory() as tmp:
        model, path, bundle = make(tools, tmp, name, text)
        feeds = feeds_of(model, None, 0, low, high)
        want = oracle(path).run(None, feeds)
        first, _ = vulkan_run(tools, bundle, feeds, len(want), "--gpu", "require")
        last, said = vulkan_run(tools, bundle, feeds, len(want), "--gpu", "require", "--bench", str(runs), env=LAYERS)
        compare("last run", last, want, limit)
        silent(f"{runs} runs", said)
        if any(a.tobytes() != b.tobytes() for a, b in zip(first, last)):
            raise Fault("runs differ")


# Inputs of their own: memory that a device shares with the processor is the device's until the fence. All have enough to do for the
# threads to wake up on a busy machine.
THREE = """g (float[256,256] x, float[512,512] z, float[1024,1024] w) => (float[256,256] b, float[512,512] d, float[1024,1024] f) {
  a = MatMul(x, $[256,256]) b = Relu(a) c = MatMul(z, $[512,512]) d = Tanh(c) e = MatMul(w, $[1024,1024]) f = Sigmoid(e) }"""


def three_devices(tools, runs):
    """Branches on processor, GPU and NPU: right, poisoned too, and two of them at work at once."""
    with tempfile.TemporaryDirectory() as tmp:
        model, path, bundle = make(tools, tmp, "three", THREE, ["a=gpu", "c=npu", "e=cpu"])
        feeds = feeds_of(model, None, 0, -1, 1)
        want = oracle(path).run(None, feeds)
        trace = os.path.join(tmp, "t.json")
        for mode in ((), ("--poison",)):
            got, said = vulkan_run(tools, bundle, feeds, 3, "--gpu", "require", "--bench", "3", "--trace", trace, *mode)
            compare(" ".join(mode), got, want, 1e-2)
            if mode:
                continue
            events = [e for e in json.load(open(trace))["traceEvents"] if e["cat"] not in ("launch", "fence", "movement")]
            spans = {d: [(e["ts"], e["ts"] + e["dur"]) for e in events if e["args"]["device"] == d] for d in ("cpu", "gpu", "npu")}
            if not all(spans.values()):
                raise Fault(f"work done by {[d for d, s in spans.items() if s]} alone")
            for d in ("gpu", "npu"):
                if not any(a < end and begin < b for begin, end in spans[d] for a, b in spans["cpu"]):
                    raise Fault(f"the processor does nothing beside {d}: {spans}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--only", default="")
    ap.add_argument("--runs", type=int, default=200)
    ap.add_argument("--models", nargs="*", metavar="ID")
    ap.add_argument("--seconds", type=int, default=300)
    a = ap.parse_args()
    if not glob.glob("/usr/share/vulkan/icd.d/lvp_icd*"):
        sys.exit("no software Vulkan driver: run tools/setup/setup.sh")
    tools, tally = Tools(a.build, timeout=600), Tally()
    if a.models is not None:
        import vulkan_models
        vulkan_models.models(a.build, a.models, tally, a.seconds)
        return tally.finish()
    for c in CASES:
        if re.search(a.only, c[0]):
            tally.attempt(c[0], check, tools, *c)
            tally.attempt(f"{c[0]} in float16", check, tools, *c[:2], 1e-2, *c[3:], "gpu:f16")
    for test in (places, barriers, endurance, three_devices):
        if re.search(a.only, test.__name__):
            tally.attempt(test.__name__, test, tools, a.runs)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
