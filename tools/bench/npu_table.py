#!/usr/bin/env python3
"""What of quantised models runs on Ethos-U: a row for each model and target, as text and JSON.

usage: npu_table.py [--build DIR] [--targets T,T] [--json FILE] MODEL.onnx ...

Operators and multiplications (MACs) are those of the ONNX file, quantisers and constants left out; which of them are on the NPU says the plan. Cycles, memory and
the NPU's own operations are what Vela, asked again, says of the TOSA files inside the bundle. `same`: two compiles gave the same bytes. Under a row: why
the CPU has what it has, with the share of the CPU's time in the plan. Open dimensions are as in test/e2e/models.json.
The interpreter of Vela's environment is named by TESSERA_VELA_PYTHON.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import numpy_helper as nh

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "test", "e2e"))
import fetch

TARGETS = "ethos-u55-256,ethos-u65-512,ethos-u85-256,ethos-u85-2048"
NO_WORK = {"QuantizeLinear", "DequantizeLinear", "Constant", "Identity", "Shape", "ConstantOfShape"}


class Vela:
    """The worker of targets/EthosU, asked directly."""

    def __init__(self, python):
        self.process = subprocess.Popen([python, "-I", os.path.join(TOP, "targets", "EthosU", "VelaWorker.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def ask(self, tosa, accelerator, system, mode):
        head = json.dumps({"accelerator": accelerator, "system_config": system, "memory_mode": mode, "bytes": len(tosa)})
        self.process.stdin.write(head.encode() + b"\n" + tosa)
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        self.process.stdout.read(answer.get("commands", 0) + answer.get("weights", 0))
        return answer


def shapes_of(model):
    known = {i.name: list(nh.to_array(i).shape) for i in model.graph.initializer}
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for v in [*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output]:
        known.setdefault(v.name, [d.dim_value for d in v.type.tensor_type.shape.dim])
    return known


def macs_of(node, shapes):
    ins, out = [shapes.get(i, []) for i in node.input], shapes.get(node.output[0], [])
    if node.op_type in ("Conv", "ConvInteger"):
        return int(np.prod(out) * np.prod(ins[1][1:]))
    if node.op_type == "ConvTranspose":
        return int(np.prod(ins[0]) * np.prod(ins[1][1:]))
    if node.op_type in ("MatMul", "MatMulInteger", "Gemm") and ins[0]:
        turned = any(a.name == "transA" and a.i for a in node.attribute)
        return int(np.prod(out) * (ins[0][0] if turned else ins[0][-1]))
    return 0


def fix(model, options):
    """Gives the model the sizes of --dim options."""
    inputs = {i.name: i.type.tensor_type.shape.dim for i in model.graph.input}
    for word in options[1::2]:
        place, size = word.rsplit("=", 1)
        name, axis = place.rsplit(".", 1)
        dim = inputs[name][int(axis)]
        dim.ClearField("dim_param")
        dim.dim_value = int(size)


def reasons_of(plan):
    """[(why groups are on the CPU, part of the CPU's time)], the longest first."""
    time = collections.Counter()
    for g in plan["groups"]:
        if g["device"].startswith("cpu"):
            refused = [r for d, r in g["refusals"].items() if not d.startswith("cpu")]
            time[re.sub(r"^\S+: | '[^']*'", "", refused[0][0]) if refused else "the plan is sooner so"] += g["time_ns"]
    total = sum(time.values()) or 1
    return [(why, round(t / total, 3)) for why, t in time.most_common(3)]


def artefacts(data, shown):
    """(accelerator, system, mode, tosa) of each segment that Vela made."""
    for s in shown["segments"]:
        if s["kind"] == "device" and data[s["offset"]:s["offset"] + 4] == b"TSEU":
            at = s["offset"]
            words = [data[at + 16 + 64 * i:at + 80 + 64 * i].split(b"\0")[0].decode() for i in range(3)]
            start, size = np.frombuffer(data[at + 304:at + 320], "<u8").tolist()
            yield *words, data[at + start:at + start + size]


def row_of(tessera, vela, path, target):
    model = onnx.load(path)
    options = fetch.dim_options(path, model)
    fix(model, options)
    row = {"model": os.path.basename(path).removesuffix(".onnx"), "target": target}
    with tempfile.TemporaryDirectory() as tmp:
        bundles, seconds = [], []
        for name in ("a.tsr", "b.tsr"):
            start = time.time()
            p = subprocess.run([tessera, "compile", path, "-o", os.path.join(tmp, name), "--target", target, "--report", os.path.join(tmp, "report"), "-q", *options],
                               capture_output=True, text=True)
            if p.returncode:
                return {**row, "error": next((x for x in p.stderr.splitlines() if "error" in x), p.stderr[-300:])[:300]}
            seconds.append(time.time() - start)
            bundles.append(os.path.join(tmp, name))
        first, second = (open(b, "rb").read() for b in bundles)
        plan = json.load(open(os.path.join(tmp, "report", "plan.json")))
        shown = json.loads(subprocess.run([tessera, "inspect", bundles[0], "--format", "json"], capture_output=True, text=True, check=True).stdout)
    on = {n for s in plan["segments"] for n in s["nodes"]}
    live = on | {n for d in plan["devices"] for n in d["nodes"]}
    shapes = shapes_of(model)
    nodes = [n for n in model.graph.node if n.op_type not in NO_WORK and n.name in live]
    macs = {n.name: macs_of(n, shapes) for n in model.graph.node if n.op_type not in NO_WORK}
    answers = [vela.ask(tosa, *words) for *words, tosa in artefacts(first, shown)]
    row.update(operators=len(nodes), operators_npu=sum(n.name in on for n in nodes), macs=sum(macs.values()), macs_npu=sum(v for n, v in macs.items() if n in on),
               segments=len(plan["segments"]), cycles=sum(a["cycles"] for a in answers), npu_operations=sum(a["npu_ops"] for a in answers),
               scratch=max((a["scratch"] for a in answers), default=0), weights=sum(a["weights"] for a in answers),
               arena=sum(p.get("bytes", 0) for p in shown.get("pools", []) if isinstance(p.get("bytes", 0), int)), estimate_ns=plan["estimate_ns"], cpu_only_ns=plan["cpu_only_ns"],
               seconds=round(min(seconds), 1), same=first == second, cpu_because=reasons_of(plan))
    return row


def text_of(row):
    if "error" in row:
        return f"{row['model']:24} {row['target']:15} {row['error']}"
    share = lambda a, b: 100 * a / b if b else 0
    return (f"{row['model']:24} {row['target']:15} {share(row['operators_npu'], row['operators']):5.1f} {share(row['macs_npu'], row['macs']):6.1f} {row['segments']:4} {row['cycles']:11} "
            f"{row['npu_operations']:6} {row['scratch'] / 1024:9.0f} {row['estimate_ns'] / 1e6:9.2f} {row['cpu_only_ns'] / 1e6:9.2f} {row['seconds']:7.1f} {'yes' if row['same'] else 'NO'}"
            + "".join(f"\n{'':24} {100 * part:5.1f} % {why[:140]}" for why, part in row["cpu_because"] if part >= 0.02))


HEAD = (f"{'model':24} {'target':15} {'ops %':>5} {'MACs %':>6} {'seg':>4} {'cycles':>11} {'npu op':>6} {'KiB':>9} {'plan ms':>9} {'CPU ms':>9} {'s':>7} same")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    ap.add_argument("--targets", default=TARGETS)
    ap.add_argument("--json")
    ap.add_argument("models", nargs="+")
    a = ap.parse_args()
    python = os.environ.get("TESSERA_VELA_PYTHON") or sys.exit("TESSERA_VELA_PYTHON is not set")
    vela, rows = Vela(python), []
    print(HEAD, flush=True)
    for path in a.models:
        for target in a.targets.split(","):
            rows.append(row_of(os.path.join(os.path.abspath(a.build), "bin", "tessera"), vela, path, target))
            print(text_of(rows[-1]), flush=True)
            if a.json:
                with open(a.json, "w") as f:
                    json.dump(rows, f, indent=1)
    return any(not r.get("same") for r in rows)


if __name__ == "__main__":
    sys.exit(main())
