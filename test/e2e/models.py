#!/usr/bin/env python3
"""Value and speed tests over the public models of models.json.

usage: models.py [--build DIR] [--bench SECONDS] [--budget SECONDS] [--table FILE.md] [--json FILE] [ID ...]

Each model is compiled once, as shipped, and that one bundle is run on two input sets of different values and, where dimensions are dynamic, on a
second shape. Every output is compared with onnxruntime without optimisation: largest difference relative to the output's largest magnitude, at most
1e-3 (0.1 for the int8 kinds). With --bench the model is compiled once more with its dimensions fixed, and timed against onnxruntime with all its
optimisations, one thread each, in interleaved rounds; the least of all runs counts.
"""
import argparse
import json
import os
import random
import re
import sys
import tempfile
import time

import numpy as np

import fetch
from harness import Fault, Refused, Tally, Tools, array, commit_seed, error, oracle, plain, save_inputs

LIMIT = {"float": 1e-3, "int8": 0.1}


# Models that compare values of Sigmoid with each other: they need an oracle whose Sigmoid is right. onnxruntime's has no relative accuracy for
# negative arguments (0.1 off at -14, and not monotone there), so that mlsd_320_tiny's Equal(x, MaxPool(x)) finds other peaks.
EXACT_SIGMOID = {"mlsd_320_tiny"}


def exact_sigmoid(path):
    """The model, as bytes, with 1 / (1 + e^-x) for every Sigmoid: onnxruntime's Exp is accurate."""
    import onnx
    m = onnx.load(path)
    m.graph.initializer.append(onnx.helper.make_tensor("exact_sigmoid_one", onnx.TensorProto.FLOAT, [], [1.0]))
    nodes = []
    for n in m.graph.node:
        if n.op_type != "Sigmoid":
            nodes.append(n)
            continue
        x, y = n.input[0], n.output[0]
        nodes += [onnx.helper.make_node("Neg", [x], [y + "/neg"]), onnx.helper.make_node("Exp", [y + "/neg"], [y + "/exp"]),
                  onnx.helper.make_node("Add", [y + "/exp", "exact_sigmoid_one"], [y + "/sum"]), onnx.helper.make_node("Reciprocal", [y + "/sum"], [y])]
    del m.graph.node[:]
    m.graph.node.extend(nodes)
    return m.SerializeToString()


def feeds_of(entry, sizes, seed):
    rng = np.random.Generator(np.random.PCG64(seed))
    return {k: array(v, sizes, rng) for k, v in entry["inputs"].items()}


def fixed_copy(path, entry, out):
    """The model with every input dimension a number, as one who deploys a fixed shape would compile it."""
    import onnx
    m = onnx.load(path)
    dims = {k: [entry["sizes"][0][d] if isinstance(d, str) else d for d in v["dims"]] for k, v in entry["inputs"].items()}
    for v in m.graph.input:
        if v.name in dims:
            v.type.tensor_type.shape.ClearField("dim")
            for d in dims[v.name]:
                v.type.tensor_type.shape.dim.add().dim_value = d
    del m.graph.value_info[:]
    onnx.save(m, out)


def values(tools, entry, path, tmp, row):
    """Compiles, runs and compares; fills the row; raises Refused or Fault."""
    bundle = os.path.join(tmp, "model.tsr")
    row["compile_s"] = tools.compile(path, bundle)
    row["bytes"] = os.path.getsize(bundle)
    runs = [(s, 1234 + k) for k, s in enumerate([entry["sizes"][0]] + entry["sizes"])]
    compare(tools, entry, path, bundle, runs, row)
    return bundle


def compare(tools, entry, path, bundle, runs, row, runner=None):
    """Runs the bundle on each of `runs` (sizes, seed) and compares; Fault where an output is off."""
    ref = oracle(path if entry["id"] not in EXACT_SIGMOID else exact_sigmoid(path))
    limit = LIMIT["int8" if "int8" in entry["kind"] else "float"]
    row["error"] = 0.0
    for sizes, seed in runs:
        feeds = feeds_of(entry, sizes, seed)
        want = [plain(v) for v in ref.run(None, feeds)]
        got = [plain(v) for v in tools.run(bundle, feeds, len(want), runner=runner)]
        where = f"seed {seed}" + (f", {','.join(f'{k}={v}' for k, v in sizes.items())}" if sizes else "")
        for i, (g, w) in enumerate(zip(got, want)):
            e, why = error(g, w)
            row["error"] = max(row["error"], e)
            if not e <= limit:
                raise Fault(f"{where}: output {i}: {why or f'error {e:.2e} over {limit:g}'}")


def ort_times(session, feeds, seconds):
    import onnxruntime as ort
    io = session.io_binding()
    bound = all(v.size for v in feeds.values())
    if bound:
        for k, v in feeds.items():
            io.bind_ortvalue_input(k, ort.OrtValue.ortvalue_from_numpy(v))
        for o in session.get_outputs():
            io.bind_output(o.name)
    times, end = [], time.perf_counter() + seconds
    while not times or (time.perf_counter() < end and len(times) < 5000):
        start = time.perf_counter_ns()
        session.run_with_iobinding(io) if bound else session.run(None, feeds)
        times.append(time.perf_counter_ns() - start)
    return times


def bench(tools, entry, path, tmp, row, seconds):
    fixed, bundle, folder = (os.path.join(tmp, n) for n in ("fixed.onnx", "fixed.tsr", "in"))
    fixed_copy(path, entry, fixed)
    feeds = feeds_of(entry, entry["sizes"][0], 1234)
    try:
        session = oracle(fixed, optimised=True)
        tools.compile(fixed, bundle)
    except Refused:
        raise
    except Exception:  # branches never taken can contradict the fixed dimensions: then the model stays as shipped
        session = oracle(path, optimised=True)
        tools.compile(path, bundle)
    save_inputs(feeds, folder)
    rounds, ours, theirs = 4, [], []
    ort_times(session, feeds, 0.1)
    runs = 3
    for _ in range(rounds):
        theirs += ort_times(session, feeds, seconds / rounds / 2)
        out = tools.call([tools.tessera, "run", bundle, "--inputs", folder, "--bench", runs, "--ns"])
        ours += [float(x) for x in re.findall(r"^\d+(?:\.\d+)?$", out, re.M)]
        if not ours:
            raise Fault("--bench --ns printed no time")
        runs = max(3, min(5000, int(seconds / rounds / 2 * 1e9 / np.median(ours))))
    row["us"], row["ort_us"] = min(ours) / 1e3, min(theirs) / 1e3
    row["ratio"] = min(ours) / min(theirs)
    row["arena"] = arena(tools, bundle, folder, tmp)
    row["plain_loops"] = plain_share(tools, bundle, folder, tmp)


def plain_share(tools, bundle, folder, tmp):
    """Share of a run's time that plain-loop kernels take, from the loader's trace; None where it says nothing of kernel classes."""
    trace, out = os.path.join(tmp, "trace.json"), os.path.join(tmp, "out")
    os.makedirs(out, exist_ok=True)
    try:
        tools.call([tools.tessera, "run", bundle, "--inputs", folder, "--output-dir", out, "--trace", trace])
        events = [e for e in json.load(open(trace))["traceEvents"] if e["ph"] == "X"]
    except (Refused, Fault, OSError, ValueError, KeyError):
        return None
    total = sum(e["dur"] for e in events)
    return sum(e["dur"] for e in events if e["cat"] == "loops") / total if total else None


def arena(tools, bundle, folder, tmp):
    """Bytes of the arena for these inputs, from the loader's trace; None where it says nothing."""
    trace = os.path.join(tmp, "arena.json")
    try:
        tools.call([tools.tessera, "run", bundle, "--inputs", folder, "--output-dir", os.path.join(tmp, "out"), "--trace", trace])
        return json.load(open(trace))["otherData"]["arena_bytes"]
    except (Refused, Fault, OSError, ValueError, KeyError):
        return None


def show(v, form):
    return "" if v is None else form.format(v)


def table(rows):
    out = ["| model | largest error | compile s | bundle bytes | arena bytes | µs | onnxruntime µs | ratio | plain loops | remark |",
           "|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        out.append(f"| {r['id']} | {show(r.get('error'), '{:.1e}')} | {show(r.get('compile_s'), '{:.1f}')} | {show(r.get('bytes'), '{:,}')} | "
                   f"{show(r.get('arena'), '{:,}')} | {show(r.get('us'), '{:.0f}')} | {show(r.get('ort_us'), '{:.0f}')} | {show(r.get('ratio'), '{:.2f}')} | "
                   f"{show(r.get('plain_loops'), '{:.0%}')} | {r.get('why', '')} |")
    return "\n".join(out) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--models", default=fetch.MODELS)
    ap.add_argument("--bench", type=float, default=0, help="seconds of timing a model")
    ap.add_argument("--budget", type=float, default=1e9, help="seconds for all; the models are taken in an order that the commit decides")
    ap.add_argument("--known", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "models-known.json"), help="{id: reason} of models not yet right")
    ap.add_argument("--table")
    ap.add_argument("--json")
    ap.add_argument("ids", nargs="*")
    a = ap.parse_args()
    tools, tally, rows = Tools(a.build), Tally(verbose=True), []
    known = json.load(open(a.known)) if os.path.exists(a.known) else {}
    entries = [e for e in fetch.manifest() if not a.ids or e["id"] in a.ids]
    if a.budget < 1e9:
        random.Random(commit_seed()).shuffle(entries)
    os.makedirs(a.models, exist_ok=True)
    end = time.time() + a.budget
    for e in entries:
        row = {"id": e["id"]}
        if time.time() > end:
            tally.skip(e["id"], "out of budget")
            continue
        try:
            path = fetch.fetch(e, a.models, os.path.join(a.models, "packages"))
        except OSError as why:
            tally.skip(e["id"], str(why))
            continue
        rows.append(row)
        with tempfile.TemporaryDirectory() as tmp:
            try:
                values(tools, e, path, tmp, row)
                if a.bench:
                    bench(tools, e, path, tmp, row, a.bench)
                speed = f", {row['us']:.0f} us, {row['ratio']:.2f} of onnxruntime's" if a.bench else ""
                stale = "; take it out of models-known.json" if e["id"] in known else ""
                tally.ok(e["id"], f"error {row['error']:.1e}, compiled in {row['compile_s']:.1f} s{speed}{stale}")
            except (Refused, Fault) as why:
                row["why"] = f"{'refused: ' if isinstance(why, Refused) else ''}{why}"
                if e["id"] in known:
                    tally.skip(e["id"], f"known: {row['why']}")
                else:
                    tally.fail(e["id"], row["why"])
        if a.table:
            open(a.table, "w").write(table(rows))
        if a.json:
            json.dump(rows, open(a.json, "w"), indent=1)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
