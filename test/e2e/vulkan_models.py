"""Public models on the GPU of a target: what it takes of each, and whether that is right. Part of vulkan.py (--models).

Every model of models.json that computes in floats, its dimensions fixed, is compiled three times: with everything on the GPU that it can take, with free
placement, and with everything there in float16; and run by the software driver. A line a compile: nodes on the GPU of all, segments, seconds to compile and to run, largest error (of the
output's largest magnitude, against onnxruntime without optimisation), and the most frequent reasons for what stays.
"""
import collections
import json
import os
import re
import tempfile
import time

from harness import Fault, Refused, Tools, error, oracle, plain, save_inputs
from models import EXACT_SIGMOID, exact_sigmoid, feeds_of, fixed_copy

import fetch

TARGET, STRICT = "rk3588-gpu-sim", ("--fp-mode", "strict")
# Options of the compile and the largest error: 1 % of the range where tensors may be stored in float16.
MODES = {"pinned": ((*STRICT, "--pin", "*=gpu"), 1e-4), "free": (STRICT, 1e-4), "half": (("--pin", "*=gpu:f16"), 1e-2)}
# What float16 cannot hold, or not well enough.
BEYOND_HALF = {"oww_melspectrogram": "squares of a spectrum exceed 65504", "mlsd_320_tiny": "a mask compares maxima with what they are maxima of, which rounding makes equal",
               "magika": "variances are differences of means of squares",
               "ppocr_v4_det": "a map of steep sigmoids: 2.2 % of the range"}


def reasons_of(groups):
    """The most frequent reasons, without the names of nodes."""
    found = collections.Counter()
    for group in groups:
        for why in {re.sub(r"'[^']*'", "", why)[-100:] for why in group["refusals"].get("gpu:f32", ())}:
            found[why] += 1
    return "; ".join(f"{n} x {why}" for why, n in found.most_common(3))


def placement(report, row):
    plan = json.load(open(os.path.join(report, "plan.json")))
    row["nodes"] = sum(len(d["nodes"]) for d in plan["devices"])
    row["gpu"] = sum(len(d["nodes"]) for d in plan["devices"] if d["name"].startswith("gpu"))
    row["segments"] = sum(s["device"].startswith("gpu") for s in plan["segments"])
    row["why"] = reasons_of(g for g in plan["groups"] if g["device"] == "cpu")


def run(tools, bundle, feeds, count, device):
    with tempfile.TemporaryDirectory() as tmp:
        save_inputs(feeds, os.path.join(tmp, "in"))
        return tools.run(bundle, feeds, count, *device, runner=[os.path.join(tools.bin, "tsr-run")])


def attempt(tools, entry, path, mode, row):
    """Compiles, runs, compares; fills the row; raises what is wrong."""
    with tempfile.TemporaryDirectory() as tmp:
        fixed, bundle, report = (os.path.join(tmp, n) for n in ("fixed.onnx", "model.tsr", "report"))
        fixed_copy(path, entry, fixed)
        more, limit = MODES[mode]
        options = ("--target", TARGET, "--report", report, *more)
        try:
            row["compile"] = tools.compile(fixed, bundle, *options)
        except Refused:  # branches never taken can contradict the fixed dimensions
            row["compile"] = tools.compile(path, bundle, *options)
        placement(report, row)
        feeds = feeds_of(entry, entry["sizes"][0], 1234)
        ref = oracle(path if entry["id"] not in EXACT_SIGMOID else exact_sigmoid(path))
        want = [plain(v) for v in ref.run(None, feeds)]
        start = time.time()
        got = [plain(v) for v in run(tools, bundle, feeds, len(want), ("--gpu", "require", "--gpu-timeout", 1000 * tools.timeout) if row["gpu"] else ())]
        row["run"] = time.time() - start
        row["error"] = 0.0
        for i, (g, w) in enumerate(zip(got, want)):
            e, why = error(g, w)
            row["error"] = max(row["error"], e)
            if not e <= limit:
                raise Fault(f"output {i}: {why or f'error {e:.2e} over {limit:g}'}")


def entries(ids, tally):
    """(path, entry), the smallest file first."""
    found = []
    for entry in fetch.manifest():
        if entry["id"] in ids if ids else "int8" not in entry["kind"]:
            try:
                found.append((fetch.fetch(entry, fetch.MODELS, os.path.join(fetch.MODELS, "packages")), entry))
            except OSError as why:
                tally.skip(entry["id"], str(why))
    return sorted(found, key=lambda f: os.path.getsize(f[0]))


def models(build, ids, tally, seconds):
    tools = Tools(build, timeout=seconds)
    for path, entry in entries(ids, tally):
        for mode in MODES:
            row, name = collections.defaultdict(lambda: float("nan")), f"{entry['id']} {mode}"
            if mode == "half" and entry["id"] in BEYOND_HALF:
                tally.skip(name, BEYOND_HALF[entry["id"]])
                continue
            try:
                attempt(tools, entry, path, mode, row)
                tally.ok(name)
            except (Refused, Fault) as why:
                tally.fail(name, f"{'refused: ' if isinstance(why, Refused) else ''}{why}")
            print(f"{entry['id']:24} {mode:7} {row['gpu']:>5}/{row['nodes']:<5} nodes {row['segments']:>3} segments, compiled in {row['compile']:.1f} s, run in {row['run']:.1f} s, "
                  f"error {row['error']:.1e}; {row.get('why', '')}", flush=True)
