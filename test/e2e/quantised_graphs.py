#!/usr/bin/env python3
"""Random quantised graphs equal to what they mean, bit for bit (quantised_oracle.py), on x86 and under QEMU on AArch64.

usage: quantised_graphs.py [--build DIR] [--all | --count N] [--first N] [--batch N] [--aarch64] [--budget SECONDS] [--only NUMBER] [--keep DIR]

There are 2,000 graphs of 1 to 5 operators. Without --all a part of them, chosen by the commit. Many share a compile; each is counted. Beside that,
onnxruntime without optimisations runs the same model: how many of its integers are the same, and how many within one.
"""
import argparse
import collections
import os
import shutil
import sys
import tempfile
import time

import numpy as np
import onnx

from harness import Fault, Refused, Tally, Tools, commit_seed, oracle
from quantised_random import OPSETS, Graph, model

TOTAL = 2000
X86 = ["x86-64-v2", "x86-64-v3"]
ARM = {"aarch64-neon": "max,sve=off,sme=off", "aarch64-sve2": "max,sme=off,sve-default-vector-length=32", "aarch64-sme2": "max,sme-default-vector-length=64"}


def batches(numbers, size):
    """Graphs of one operator set each."""
    by = collections.defaultdict(list)
    for n in numbers:
        by[OPSETS[n % len(OPSETS)]].append(n)
    for opset, ns in sorted(by.items()):
        for i in range(0, len(ns), size):
            with np.errstate(all="ignore"):
                yield opset, [Graph(n, opset).generate() for n in ns[i:i + size]]


def difference(got, want):
    """What is wrong with one output, or nothing."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    bad = np.flatnonzero(got.ravel() != want.ravel())
    if not bad.size:
        return ""
    i = bad[0]
    return f"{bad.size} of {want.size} differ, first at {i}: {got.ravel()[i]}, expected {want.ravel()[i]}"


def judge(graphs, results):
    """{number: what is wrong}."""
    faults, at = {}, 0
    for g in graphs:
        for name in g.outputs:
            fault = difference(np.asarray(results[at]), np.asarray(g.values[name].v))
            at += 1
            if fault and g.number not in faults:
                faults[g.number] = f"{'+'.join(g.steps)} opset {g.opset}: {name}: {fault}"
    return faults


def beside_onnxruntime(path, graphs, feeds, count):
    try:
        results = oracle(path).run(None, feeds)
    except Exception as why:
        count["graphs that onnxruntime refuses"] += len(graphs)
        count[f"  {str(why)[:150]}"] += 1
        return
    names = [(g, n) for g in graphs for n in g.outputs]
    for (g, n), got in zip(names, results):
        want = np.asarray(g.values[n].v)
        if want.dtype.kind not in "iu":
            continue
        d = np.abs(got.astype(np.int64) - want.astype(np.int64))
        count["integers"] += d.size
        count["equal"] += int((d == 0).sum())
        count["within one"] += int((d <= 1).sum())


def save(g, folder):
    os.makedirs(folder, exist_ok=True)
    onnx.save(model([g], g.opset), os.path.join(folder, f"{g.number}.onnx"))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--all", action="store_true")
    ap.add_argument("--count", type=int, default=240)
    ap.add_argument("--first", type=int)
    ap.add_argument("--only", type=int, action="append")
    ap.add_argument("--batch", type=int, default=40)
    ap.add_argument("--aarch64", action="store_true")
    ap.add_argument("--budget", type=float, default=1e9)
    ap.add_argument("--variant", action="append")
    ap.add_argument("--keep", help="write models that fail here")
    a = ap.parse_args()
    tools, tally, end, count = Tools(a.build), Tally(), time.time() + a.budget, collections.Counter()
    start = commit_seed() % TOTAL if a.first is None else a.first
    numbers = a.only or [(start + i) % TOTAL for i in range(TOTAL if a.all else a.count)]
    runners = {v: None for v in a.variant or X86}
    options = []
    if a.aarch64:
        loader, qemu = os.path.join(tools.bin, "aarch64", "tsr-run"), shutil.which("qemu-aarch64")
        if not qemu or not os.path.exists(loader):
            tally.skip("aarch64", "no qemu-aarch64" if not qemu else f"no {loader}")
            return tally.finish()
        runners = {v: [qemu, "-cpu", cpu, loader] for v, cpu in ARM.items() if not a.variant or v in a.variant}
        options = ["--target", "generic-arm64-sme2"]
    for opset, graphs in batches(numbers, a.batch):
        if time.time() > end:
            for g in graphs:
                tally.skip(f"graph {g.number}", "out of budget")
            continue
        feeds = {n: v for g in graphs for n, v in g.inputs.items()}
        outputs = sum(len(g.outputs) for g in graphs)
        with tempfile.TemporaryDirectory() as tmp:
            path, bundle = os.path.join(tmp, "model.onnx"), os.path.join(tmp, "model.tsr")
            onnx.save(model(graphs, opset), path)
            faults = {}
            try:
                tools.compile(path, bundle, *options, *[w for v in runners for w in ("--variant", v)])
                for variant, runner in runners.items():
                    for n, fault in judge(graphs, tools.run(bundle, feeds, outputs, "--variant", variant, runner=runner)).items():
                        faults.setdefault(n, f"{variant}: {fault}")
            except (Refused, Fault) as why:
                faults = {g.number: f"{opset}: {why}" for g in graphs}
            if not a.aarch64:
                beside_onnxruntime(path, graphs, feeds, count)
        for g in graphs:
            if g.number in faults:
                tally.fail(f"graph {g.number}", faults[g.number])
                if a.keep:
                    save(g, a.keep)
            else:
                tally.ok(f"graph {g.number}")
    if count:
        print("onnxruntime:", ", ".join(f"{v} {k}" for k, v in count.items()))
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
