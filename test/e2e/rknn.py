#!/usr/bin/env python3
"""The vendor's toolkit for RK3588, played by scripts: what the compiler makes of its answers, its absence and its faults; and the description's verdicts
beside recorded placements of the real toolkit.

usage: rknn.py [--build DIR] [-v] [--only REGEX] [--verdicts]

The real toolkit carries no licence and is no part of the tests: a script here stands in for the interpreter that TESSERA_RKNN_PYTHON names. It has a module
rknn.api with the calls that the worker makes (config, load_onnx, build, export_rknn), checks the ONNX file that it gets with onnx, and prints the table of
placements in the form that rknn-toolkit2 2.5.0 was seen to print. So these tests say what the compiler does, not that the toolkit takes its files.

--verdicts: single operators (shared/npu: rkprobe.py, rk3588_verdicts.csv, no part of the project) through the audit, beside where the real toolkit placed them.
"""
import argparse
import csv
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import types

from graphs import build
from harness import SHARED, Fault, Tally, Tools

MODEL = """g (float[1,8,16,16] x) => (float[1,16,16,16] y) { a = Conv<pads=[1,1,1,1]>(x, $[16,8,3,3], $[16]) b = Relu(a) c = Conv<pads=[1,1,1,1]>(b, $[16,16,3,3]) y = Erf(c) }"""
API = '''
import os, sys
mode = {mode!r}
class RKNN:
    def __init__(self, verbose=False):
        assert verbose
    def config(self, target_platform):
        assert target_platform == "rk3588"
        return 0
    def load_onnx(self, model):
        import onnx
        self.model = onnx.load(model)
        onnx.checker.check_model(self.model, full_check=True)
        return 0
    def build(self, do_quantization):
        if mode == "hang":
            import time
            time.sleep(600)
        if mode == "crash":
            os.kill(os.getpid(), 11)
        if mode == "refuse":
            print("E RKNN: [00:00:00.000] Unkown op target: 0")
            print("E RKNN: [00:00:00.000] no such luck")
            return 1
        print("D RKNN: [00:00:00.000] ID   OpType   DataType Target InputShape OutputShape Cycles(DDR/NPU/Total) RW(KB)")
        rows = [("InputOperator", "CPU")] + [(n.op_type, "CPU" if mode == "cpu" and n.op_type == "Conv" else "NPU") for n in self.model.graph.node] + [("OutputOperator", "CPU")]
        for i, (op, where) in enumerate(rows if mode != "silent" else []):
            print(f"D RKNN: [00:00:00.000] {{i}}    {{op}}    FLOAT16  {{where}}    (1,8,16,16)  (1,16,16,16)  1321/9216/9216  20")
        return 0
    def export_rknn(self, path):
        with open(path, "wb") as f:
            f.write((b"JUNK" if mode == "junk" else b"RKNN") + bytes(range(200)))
        return 0
    def release(self):
        pass
'''
# The first lines of an interpreter that takes -I -c TEXT and has that module.
PYTHON = '''#!{python}
import importlib.metadata, sys, types
api = types.ModuleType("rknn.api")
exec(open({api!r}).read(), api.__dict__)
sys.modules["rknn"], sys.modules["rknn.api"] = types.ModuleType("rknn"), api
importlib.metadata.version = lambda name: "2.5.0-fake"
exec(sys.argv[3])
'''


def interpreter(folder, mode):
    api, python = os.path.join(folder, "api.py"), os.path.join(folder, "python")
    with open(api, "w") as f:
        f.write(API.format(mode=mode))
    with open(python, "w") as f:
        f.write("#!/bin/sh\necho nonsense\nsleep 1\n" if mode == "garbage" else PYTHON.format(python=sys.executable, api=api))
    os.chmod(python, 0o755)
    return python


def compile_with(tools, python, model, out, *options):
    env = {k: v for k, v in os.environ.items() if k != "TESSERA_RKNN_PYTHON"}
    if python:
        env["TESSERA_RKNN_PYTHON"] = python
    p = subprocess.run([tools.tessera, "compile", model, "-o", out, "--target", "rk3588", *options], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    return p.returncode, p.stderr


def segments_of(tools, bundle):
    shown = json.loads(subprocess.run([tools.tessera, "inspect", bundle, "--format", "json"], capture_output=True, text=True, check=True).stdout)
    return shown, [s for s in shown["segments"] if s["kind"] == "device"]


def good(tools, model):
    """The blob is in the bundle, for the chip, with the version that made it; twice the same bytes."""
    with tempfile.TemporaryDirectory() as tmp:
        python, out = interpreter(tmp, "good"), [os.path.join(tmp, n) for n in ("a.tsr", "b.tsr")]
        for o in out:
            status, said = compile_with(tools, python, model, o, "--pin", "Conv:c=npu")
            if status:
                raise Fault(f"status {status}: {said[:300]}")
        first, second = (open(o, "rb").read() for o in out)
        if first != second:
            raise Fault("two compiles differ")
        at = first.find(b"TSRK")
        start, size = struct.unpack_from("<QQ", first, at + 144)
        if at % 65536 or first[at + 16:at + 22] != b"rk3588" or first[at + start:at + start + size] != b"RKNN" + bytes(range(200)):
            raise Fault("no such blob in the bundle")
        shown, segments = segments_of(tools, out[0])
        if len(segments) != 1 or segments[0].get("compiler") != "rknn-toolkit2 2.5.0-fake" or segments[0].get("platform") != "rk3588":
            raise Fault(f"inspect says {segments}")
        if not any(d.get("kind") == "rknn/rk3588" for d in shown["devices"]):
            raise Fault(f"devices {shown['devices']}")


def missing(tools, model):
    """Without the toolkit the plan is made all the same, and that no blob was made is said."""
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "m.tsr")
        status, said = compile_with(tools, None, model, out, "--pin", "Conv:c=npu")
        if status or "no blob is made for unit 'npu'" not in said:
            raise Fault(f"status {status}: {said[:300]}")
        data = open(out, "rb").read()
        if b"TSRK" in data or b"rknn/rk3588" in data:
            raise Fault("a blob all the same")
        p = subprocess.run([tools.tessera, "audit", model, "--target", "rk3588"], capture_output=True, text=True, env={k: v for k, v in os.environ.items() if k != "TESSERA_RKNN_PYTHON"})
        if p.returncode or "its vendor's compiler was not asked" not in p.stdout:
            raise Fault(f"audit: status {p.returncode}: {p.stdout[:300]}")


def faulty(tools, model, mode, words, fallback=True):
    with tempfile.TemporaryDirectory() as tmp:
        python, out = interpreter(tmp, mode), os.path.join(tmp, "m.tsr")
        before, start = sorted(os.listdir(tmp)), time.time()
        status, said = compile_with(tools, python, model, out, "--vendor-timeout", "3")
        if status != 1 or words not in said or said.count("error:") != 1 or time.time() - start > 60:
            raise Fault(f"status {status} after {time.time() - start:.0f} s: {said[:300]}")
        if sorted(os.listdir(tmp)) != before:
            raise Fault(f"left behind: {os.listdir(tmp)}")
        status, said = compile_with(tools, python, model, out, "--vendor-timeout", "3", "--vendor-fault", "cpu")
        if status or b"TSRK" in open(out, "rb").read():
            raise Fault(f"with --vendor-fault cpu: status {status}: {said[:300]}")
        if subprocess.run(["pgrep", "-f", re.escape(tmp)], capture_output=True).stdout:
            raise Fault("processes are left")


def refused(tools, model, mode, words):
    """What the toolkit would not run on the NPU stays on the CPU, and the pin says why it cannot be kept."""
    with tempfile.TemporaryDirectory() as tmp:
        python, out = interpreter(tmp, mode), os.path.join(tmp, "m.tsr")
        status, said = compile_with(tools, python, model, out)
        if status or b"TSRK" in open(out, "rb").read():
            raise Fault(f"status {status}: {said[:300]}")
        status, said = compile_with(tools, python, model, out, "--pin", "Conv:c=npu")
        if status != 1 or words not in said:
            raise Fault(f"pinned: status {status}: {said[:300]}")


def probes():
    """{(op, parameters): model} as rkprobe.py builds them."""
    from onnx import TensorProto as T, helper as h, numpy_helper as nh
    text = open(os.path.join(SHARED, "npu", "rkprobe.py")).read()
    scope = {"__name__": "probes"}
    for name in ("rknn", "rknn.api"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["rknn.api"].RKNN = None
    exec(text[:text.index("w = csv.writer")], scope)
    models = {}
    for op, params, xs, ins, inits, attrs, _ in scope["T"]:
        opset = {"Gelu": 20, "Mish": 18, "LayerNormalization": 17, "GridSample": 16, "HardSwish": 14}.get(op, 13)
        names = [f"x{i}" for i in range(len(xs))]
        outs = ["y", "y2"] if op == "TopK" else ["y"]
        graph = h.make_graph([h.make_node(op, ins or names, outs, name="n", **attrs)], "g", [h.make_tensor_value_info(n, T.FLOAT, s) for n, s in zip(names, xs)],
                             [h.make_tensor_value_info(o, T.INT64 if op == "ArgMax" or o == "y2" else T.FLOAT, None) for o in outs], [nh.from_array(a, n) for n, a in inits])
        models[op, json.dumps(params)] = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=8)
    return models


def verdicts(tools, tally):
    import onnx
    recorded = os.path.join(SHARED, "npu", "rk3588_verdicts.csv")
    if not os.path.exists(recorded):
        return tally.skip("verdicts", f"no {recorded}")
    models, agreed, rows = probes(), 0, list(csv.DictReader(open(recorded, newline="")))
    with tempfile.TemporaryDirectory() as tmp:
        for row in rows:
            path, report = os.path.join(tmp, "m.onnx"), os.path.join(tmp, "a.json")
            onnx.save(models[row["op"], row["params"]], path)
            subprocess.run([tools.tessera, "audit", path, "--target", "rk3588", "--vendor", "skip", "--format", "json", "-o", report], capture_output=True)
            units = [r["units"]["npu"] for r in json.load(open(report))["targets"][0]["nodes"]]
            ours = all(u["verdict"] != "no" for u in units)
            theirs = row["build"] == "ok" and all(p.endswith(":NPU") for p in row["placed"].split())
            agreed += ours == theirs
            if ours != theirs:
                print(f"differs: {row['op']} {row['params']}: toolkit {row['placed'] or row['build']}, ours {[u['reasons'] for u in units]}"[:260])
    print(f"{agreed} of {len(rows)} agree, {100 * agreed / len(rows):.1f} %")
    tally.ok("verdicts")


def main():
    import onnx
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--only", default="")
    ap.add_argument("--verdicts", action="store_true")
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    tools, tally = Tools(a.build), Tally(a.v)
    tests = [("good", good, ()), ("missing", missing, ()),
             ("hang", faulty, ("hang", "no answer in time")), ("crash", faulty, ("crash", "killed by signal 11")), ("garbage", faulty, ("garbage", "does not serve the RKNN toolkit")),
             ("junk", faulty, ("junk", "does not begin with RKNN")), ("silent", faulty, ("silent", "does not say where")),
             ("refuse", refused, ("refuse", "no such luck")), ("cpu", refused, ("cpu", "places Conv on the CPU"))]
    with tempfile.TemporaryDirectory() as tmp:
        model = os.path.join(tmp, "model.onnx")
        onnx.save(build("vendor", MODEL, 19), model)
        for name, work, arguments in tests:
            if re.search(a.only, name):
                tally.attempt(name, work, tools, model, *arguments)
    if a.verdicts:
        verdicts(tools, tally)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
