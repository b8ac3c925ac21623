#!/usr/bin/env python3
"""Random quantised graphs, and the public models that `tessera quantize` made: what the CPU makes of their TOSA files against the TOSA reference model.

usage: tosa_random.py [--build DIR] [--graphs N] [--first SEED] [--sample] [--quantise ID,ID] [--models DIR] [-v]

A graph has 1 to 6 operators on integers of 8 bits (every third: 16 bits), each with quantisers of scales of its own, all by its seed. It must come to one
segment. Every file in the reference model, the loader's run of what was read back, and the reference model on the file after a round trip through the
TOSA tools' translator must be equal bit for bit;
and nearly all of the whole model's results are at most a step from onnxruntime's. Every segment of the models that --quantise names, quantised here on
seeded samples, and of those in DIR is held to the same, but for onnxruntime. --sample: a tenth of the graphs, which the commit's hash decides.
"""
import argparse
import glob
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

import fetch
import quantize
from harness import CACHE, Fault, Refused, Tally, Tools, commit_seed, oracle
from tosa import reference, segments_of
from tosa_graphs import build

TRANSLATOR = os.path.join(CACHE, "venv-tosa", "bin", "tosa-opt")


def translated(path):
    """The file read and written again by the TOSA tools."""
    folder, stem = os.path.dirname(path), os.path.splitext(os.path.basename(path))[0]
    empty, text, out = (os.path.join(folder, n) for n in ("empty.mlir", stem + ".mlir", stem + ".again"))
    with open(empty, "w") as f:
        f.write("module {}\n")
    for words in ([empty, "--tosa-deserialize", f"--tosa-deserialize-filename={path}", "-o", text],
                  [text, "--tosa-serialize", f"--tosa-flatbuffer-filename={out}", "-o", os.devnull]):
        p = subprocess.run([TRANSLATOR, *words], capture_output=True, text=True, timeout=300)
        if p.returncode:
            raise Fault("tosa-opt: " + (p.stderr.strip().splitlines() or ["no message"])[0][-300:])
    return out


def equal(got, want, what):
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if g.dtype != w.dtype or g.shape != w.shape or not np.array_equal(g, w):
            bad = int(np.count_nonzero(g != w)) if g.shape == w.shape else "all"
            raise Fault(f"output {i}: {bad} of {w.size} values differ {what}")


def check_segment(tools, model, precision, index, path, folder, *options):
    inputs, want = reference(path, os.path.join(folder, f"ref{index}"), index)
    bundle = os.path.join(folder, f"only{index}.tsr")
    tools.compile(model, bundle, "--via-tosa", f"{precision},only={index}", *options)
    equal(tools.run(bundle, dict(enumerate(inputs)), len(want)), want, "from the reference model's")
    _, again = reference(translated(path), os.path.join(folder, f"again{index}"), index)
    equal(again, want, "after a round trip through tosa-opt")


def near(got, want, name):
    """Of whole graphs: a step here is perhaps more behind the next operator, but seldom."""
    for g, w in zip(got, want, strict=True):
        off = np.abs(g.astype(np.int64) - w.astype(np.int64))
        limit = 1 if w.dtype == np.int8 else 32
        if w.dtype.kind == "i" and w.dtype.itemsize <= 2 and np.mean(off > limit) > 0.02:
            raise Fault(f"{name}: {100 * np.mean(off > limit):.1f} % of the values are over {limit} steps from onnxruntime's, at most {off.max()}")


def check_graph(tools, seed):
    model, precision, kinds = build(seed)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "m.onnx")
        onnx.save(model, path)
        try:
            bundle, files = segments_of(tools, path, precision, tmp)
            if len(files) != 1:
                raise Fault(f"{len(files)} segments")
            check_segment(tools, path, precision, 0, files[0], tmp)
            rng = np.random.Generator(np.random.PCG64(seed))
            feeds = {i.name: rng.uniform(-3, 3, [d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32) for i in model.graph.input}
            want = oracle(path).run(None, feeds)
            near(tools.run(bundle, feeds, len(want)), want, "whole")
        except (Fault, Refused) as why:
            raise Fault(f"{' '.join(kinds)}: {why}")


def check_model(tools, tally, path, until):
    name, options = os.path.splitext(os.path.basename(path))[0], fetch.dim_options(path, onnx.load(path))
    precision = "int16" if "16" in name.rsplit("_", 1)[-1] else "int8"
    with tempfile.TemporaryDirectory() as tmp:
        try:
            _, files = segments_of(tools, path, precision, tmp, *options)
        except (Fault, Refused) as why:
            return tally.fail(name, str(why))
        if not files:
            return tally.fail(name, "no segment")
        for i, f in enumerate(files):
            if time.time() > until:
                return tally.skip(f"{name} from segment {i} of {len(files)}", "no time left")
            tally.attempt(f"{name} segment {i} of {len(files)}", check_segment, tools, path, precision, i, f, tmp, *options, faults=(Fault,))


def check_quantised(tools, tally, ident, until):
    """A public model in 8 and in 16 bits."""
    path = os.path.join(fetch.MODELS, ident + ".onnx")
    if not os.path.exists(path):
        return tally.skip(ident, "no model: run test/e2e/fetch.py")
    with tempfile.TemporaryDirectory() as tmp:
        for i, f in enumerate(quantize.samples(ident, onnx.load(path), 4, 1)):
            np.savez(f"{tmp}/{i:02}.npz", **f)
        for scheme, name in (("8x8", "q8"), ("16x8", "q16")):
            out = f"{tmp}/{ident}_{name}.onnx"
            tools.call([tools.tessera, "quantize", path, "--calib", tmp, "-o", out, "--cache", f"{tmp}/ranges", "--scheme", scheme])
            check_model(tools, tally, out, until)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--graphs", type=int, default=150)
    ap.add_argument("--first", type=int, default=0)
    ap.add_argument("--sample", action="store_true")
    ap.add_argument("--quantise", default="")
    ap.add_argument("--models", help="folder of quantised models")
    ap.add_argument("--only", default="", help="of the models")
    ap.add_argument("--budget", type=float, default=1e9, help="seconds after which nothing is begun")
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    tools, tally, until = Tools(a.build, timeout=600), Tally(a.v), time.time() + a.budget
    if not os.path.exists(TRANSLATOR):
        sys.exit(f"{TRANSLATOR} is missing: run tools/setup/python.sh")
    seeds = list(range(a.first, a.first + a.graphs))
    if a.sample:
        seeds = sorted(random.Random(commit_seed()).sample(seeds, max(len(seeds) // 10, 1)))
    for n, seed in enumerate(seeds):
        if time.time() > until:
            tally.skip(f"graphs from {seed}", "no time left")
            break
        tally.attempt(f"graph {seed}", check_graph, tools, seed)
    for ident in filter(None, a.quantise.split(",")):
        check_quantised(tools, tally, ident, until)
    for path in sorted(glob.glob(os.path.join(a.models, "*.onnx"))) if a.models else ():
        if re.search(a.only, path):
            check_model(tools, tally, path, until)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
