#!/usr/bin/env python3
"""Runs the ONNX backend cases through the command line and compares with the status that is committed.

usage: run.py [--build DIR] [--jobs N] [--budget SECONDS] [--filter REGEX] [--update] [--verbose]
       run.py --aarch64 CPU [--count N] ...   N cases, of every operator before two of any, on an AArch64 CPU of qemu's ("max,sme=off")
       run.py --gpu [--list FILE] [--table FILE] [--budget SECONDS] ...   on a Vulkan device that computes in software, all that it can take placed there

Every case is one `tessera run MODEL INPUTS` in a process of its own. Its status:
  pass         every output agrees in count, dtype, shape and value (integers exactly, floats within the case's tolerance, NaN equals NaN)
  refused      exit status 1: the model is not supported, and it was said
  wrong-shape, wrong-value, crash, timeout
A case that passed in status.csv and does not now, and one that is wrong or crashes now and did not before, is a failure. --budget takes the cases in
an order that the commit decides, and stops after that many seconds. --update writes status.csv and dialects/Onnx/Conformance.md.

With --gpu a case is also one of three: the GPU does it alone (nothing but views and constants is left), in part, or not at all; what it does not do, the
processor does, and --table says why, the most frequent reason first. The validation layers watch: a message of theirs is a failure. --list names the
cases (FOLDER/CASE a line); without it those of the folder `typed` are left out.
"""
import argparse
import collections
import csv
import glob
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(TOP, "test", "e2e")]
import cases  # noqa: E402
from harness import CACHE, Tally, commit_seed  # noqa: E402

STATUS = os.path.join(HERE, "status.csv")
PAGE = os.path.join(TOP, "dialects", "Onnx", "Conformance.md")
COLUMNS = ["pass", "refused", "wrong-value", "wrong-shape", "crash", "timeout"]


class Differs(Exception):
    """args: status, text."""


def text(a):
    return [x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x) for x in np.asarray(a).reshape(-1)]


def compare(got, want, rtol, atol, where):
    if want is None or isinstance(want, dict):
        if got != want:
            raise Differs("wrong-value", f"{where} differs")
        return
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            raise Differs("wrong-shape", f"{where}: expected a sequence of {len(want)}")
        for k, (g, w) in enumerate(zip(got, want)):
            compare(g, w, rtol, atol, f"{where}[{k}]")
        return
    if not isinstance(got, (np.ndarray, np.generic)):
        raise Differs("wrong-shape", f"{where}: expected a tensor, got {type(got).__name__}")
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        raise Differs("wrong-shape", f"{where}: shape {list(got.shape)}, expected {list(want.shape)}")
    if want.dtype == object or want.dtype.kind in "US":
        if text(got) != text(want):
            raise Differs("wrong-value", f"{where}: strings differ")
        return
    if got.dtype != want.dtype:
        raise Differs("wrong-shape", f"{where}: {got.dtype}, expected {want.dtype}")
    if want.dtype.kind in "iub" or "int" in want.dtype.name:
        bad = got != want
    else:
        wide = want.dtype if want.dtype.kind == "c" else np.float64 if want.dtype == np.float64 else np.float32
        if want.dtype.name == "bfloat16":
            rtol = max(rtol, 2**-6)
        with np.errstate(all="ignore"):
            bad = ~np.isclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, equal_nan=True)
    if np.any(bad):
        k = int(np.argmax(bad.reshape(-1)))
        raise Differs("wrong-value", f"{where}: {int(np.count_nonzero(bad))} of {want.size} differ, first {got.reshape(-1)[k]}, expected {want.reshape(-1)[k]}")


def first_error(stderr):
    """The first error, with the notes to it."""
    lines = [x.strip() for x in stderr.splitlines() if x.strip()]
    at = next((i for i, x in enumerate(lines) if "error" in x.lower()), None)
    if at is None:
        return lines[-1][:300] if lines else ""
    notes = [x[6:] for x in itertools.takewhile(lambda x: x.startswith("note: "), lines[at + 1:])]
    return (lines[at].removeprefix("error: ") + "".join(f"; {n}" for n in notes))[:300]


class Host:
    """Compiles and runs in one process."""

    def __init__(self, bin):
        self.tool = os.path.join(bin, "tessera")

    def run(self, model, inputs, out, timeout):
        return call([self.tool, "run", "--no-cache", model, *inputs, "--output-dir", out, "--output-format", "pb"], timeout)


class Emulated:
    """Compiles for AArch64 and runs the bundle under qemu."""

    def __init__(self, bin, cpu):
        self.tool = os.path.join(bin, "tessera")
        self.loader = [shutil.which("qemu-aarch64"), "-cpu", cpu, os.path.join(bin, "aarch64", "tsr-run")]
        if not self.loader[0] or not os.path.exists(self.loader[-1]):
            sys.exit("--aarch64 wants qemu-aarch64 and the target tsr-run-aarch64")

    def run(self, model, inputs, out, timeout):
        bundle = os.path.join(out, "case.tsr")
        p = call([self.tool, "compile", model, "--target", "generic-arm64-sme2", "-o", bundle], timeout)
        return p if p.returncode else call([*self.loader, bundle, *inputs, "--output-dir", out, "--output-format", "pb"], timeout)


class Vulkan:
    """Compiles with every group on the GPU that it takes, and runs the bundle by the software driver under the validation layers."""
    LAYERS = {"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation",
              "VK_LAYER_ENABLES": "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT", "LP_NUM_THREADS": "1"}
    COMPLAINT = re.compile(r"VUID|SYNC-HAZARD|UNASSIGNED|Validation (Error|Warning|Performance)")

    def __init__(self, bin):
        self.bin, self.env = bin, {**os.environ, **self.LAYERS}
        self.shares, self.reasons = collections.Counter(), collections.Counter()
        if not glob.glob("/usr/share/vulkan/icd.d/lvp_icd*"):
            sys.exit("no software Vulkan driver: run tools/setup/setup.sh")

    def run(self, model, inputs, out, timeout):
        bundle, report = os.path.join(out, "case.tsr"), os.path.join(out, "report")
        p = call([os.path.join(self.bin, "tessera"), "compile", model, "--target", "rk3588-gpu-sim", "--pin", "*=gpu", "--fp-mode", "strict", "--report", report, "-o", bundle], timeout)
        if p.returncode:
            return p
        placed = self.note(bundle, report, timeout)
        device = ["--gpu", "require"] if placed else []
        p = call([os.path.join(self.bin, "tsr-run"), bundle, *inputs, *device, "--output-dir", out, "--output-format", "pb"], timeout, self.env)
        if complaint := next((x for x in (p.stdout + p.stderr).splitlines() if self.COMPLAINT.search(x)), None):
            p.returncode, p.stderr = 99, f"error: {complaint}"
        return p

    def note(self, bundle, report, timeout):
        """Counts how much of the case the GPU has; whether it has any."""
        shown = json.loads(call([os.path.join(self.bin, "tessera"), "inspect", bundle, "--format", "json"], timeout).stdout)
        placed = sum(launch["dispatches"] for launch in shown["launches"])
        share = "none" if not placed else "alone" if shown["commands"].get("Dispatch", 0) == placed else "part"
        self.shares[share] += 1
        if share != "alone":
            for why in {why for group in json.load(open(os.path.join(report, "plan.json")))["groups"] if group["device"] == "cpu"
                        for why in group["refusals"].get("gpu:f32", ())}:
                self.reasons[re.sub(r"'[^']*' |^\S+: (?=no |an? |element|node)", "", re.sub(r"tensor\([^)]*\)", "an open shape", why))[:140]] += 1
        return placed

    def table(self, counts):
        total = sum(self.shares.values())
        lines = [f"{sum(counts.values())} cases: " + ", ".join(f"{counts[c]} {c}" for c in COLUMNS if counts[c]),
                 f"of {total} that compile the GPU has " + ", ".join(f"{self.shares[s]} {s}" for s in ("alone", "part", "none"))]
        return "\n".join(lines + ["", "cases  reason"] + [f"{n:5}  {why}" for why, n in self.reasons.most_common()]) + "\n"


def call(command, timeout, env=None):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout, env=env)


def in_turns(names, operator):
    """The same names, so ordered that the k-th case of any operator comes before the (k+1)-th of another."""
    seen, turns = collections.Counter(), []
    for name in names:
        op = operator(name)
        turns.append((seen[op], name))
        seen[op] += 1
    return [name for _, name in sorted(turns, key=lambda t: t[0])]


def judge(runner, folder, timeout):
    """(status, operator, element type, text) of one case."""
    meta = json.load(open(os.path.join(folder, "meta.json")))
    inputs = [os.path.join(folder, f"input_{i}.pb") for i in range(len(meta["input"]))]
    with tempfile.TemporaryDirectory() as out:
        try:
            p = runner.run(os.path.join(folder, "model.onnx"), inputs, out, timeout)
        except subprocess.TimeoutExpired:
            return "timeout", meta["op"], meta["type"], f"over {timeout} s"
        if p.returncode:
            return "refused" if p.returncode == 1 else "crash", meta["op"], meta["type"], f"status {p.returncode}: {first_error(p.stderr)}"
        try:
            for i, kind in enumerate(meta["output"]):
                path = os.path.join(out, f"output_{i}.pb")
                if not os.path.exists(path):
                    raise Differs("wrong-shape", f"output {i} is missing")
                compare(cases.load(path, kind), cases.load(os.path.join(folder, f"output_{i}.pb"), kind), meta["rtol"], meta["atol"], f"output {i}")
        except Differs as e:
            return e.args[0], meta["op"], meta["type"], e.args[1]
        except Exception as e:
            return "wrong-shape", meta["op"], meta["type"], f"unreadable output: {e}"
    return "pass", meta["op"], meta["type"], ""


def page(rows):
    """`rows`: (case, operator, element type, status, reason)."""
    cells, reasons = collections.defaultdict(lambda: collections.defaultdict(collections.Counter)), collections.defaultdict(list)
    for name, op, kind, status, why in rows:
        cells[op][kind][status] += 1
        if status != "pass":
            reasons[(op, why)].append(f"{name.split('/', 1)[1]} ({status})")
    total = collections.Counter(r[3] for r in rows)
    typed = sum(r[0].startswith("typed/") for r in rows)
    out = ["# Conformance", "", f"The {len(rows) - typed} backend cases of ONNX that have one answer, and {typed} of ours: one case of each operator in every other element type that its schema "
           "allows. Written by `tools/conformance/run.py --update`. What is refused is refused with a message; a wrong value or a crash is a bug.", "",
           ", ".join(f"{total[c]} {c}" for c in COLUMNS if total[c]) + ".", "",
           "## By operator and element type", "", "The numbers are of cases that pass, of all that there are.", "", "| operator | element types |", "|---|---|"]
    for op, kinds in sorted(cells.items()):
        out.append(f"| {op} | " + ", ".join(f"{k} {n['pass']}" + ("" if n["pass"] == sum(n.values()) else f" of {sum(n.values())}") for k, n in sorted(kinds.items())) + " |")
    out += ["", "## What does not pass, and why", "", "| operator | reason | cases |", "|---|---|---|"]
    for (op, why), names in sorted(reasons.items()):
        out.append(f"| {op} | {why.replace('|', ' ')} | {', '.join(names)} |")
    return "\n".join(out) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    ap.add_argument("--data", default=os.path.join(CACHE, "backend-cases"))
    ap.add_argument("--jobs", type=int, default=os.cpu_count())
    ap.add_argument("--budget", type=float, default=1e9)
    ap.add_argument("--timeout", type=float, default=60)
    ap.add_argument("--filter", default="")
    ap.add_argument("--update", action="store_true")
    ap.add_argument("--aarch64", metavar="CPU")
    ap.add_argument("--count", type=int)
    ap.add_argument("--gpu", action="store_true")
    ap.add_argument("--list")
    ap.add_argument("--table")
    ap.add_argument("--verbose", action="store_true", help="name every case that does not pass")
    a = ap.parse_args()
    programs = os.path.join(os.path.abspath(a.build), "bin")
    if not os.path.exists(os.path.join(programs, "tessera")):
        sys.exit(f"{programs}/tessera is not built: run tools/build.sh")
    if a.gpu and a.update:
        sys.exit("--update records what the processor does")
    runner = Emulated(programs, a.aarch64) if a.aarch64 else Vulkan(programs) if a.gpu else Host(programs)
    cases.make(a.data)
    before = {r[0]: tuple(r) for r in csv.reader(open(STATUS))} if os.path.exists(STATUS) else {}
    names = sorted(f"{f}/{c}" for f in os.listdir(a.data) if os.path.isdir(os.path.join(a.data, f)) for c in os.listdir(os.path.join(a.data, f)))
    names = [n for n in names if re.search(a.filter, n)]
    if a.list:
        wanted = set(open(a.list).read().split())
        names = [n for n in names if n in wanted]
    elif a.gpu:
        names = [n for n in names if not n.startswith("typed/")]
    if a.budget < 1e9:
        random.Random(commit_seed()).shuffle(names)
    if a.count:
        random.Random(commit_seed()).shuffle(names)
        names = in_turns(names, lambda n: json.load(open(os.path.join(a.data, n, "meta.json")))["op"])[:a.count]
    end, tally, count, rows, better = time.time() + a.budget, Tally(), collections.Counter(), dict(before), 0

    def one(name):
        return (name, *judge(runner, os.path.join(a.data, name), a.timeout)) if time.time() < end else (name, None, "", "", "")

    with ThreadPoolExecutor(a.jobs) as pool:
        for name, status, op, kind, why in pool.map(one, names):
            if status is None:
                continue
            was = before[name][3] if name in before else "new"
            rows[name] = (name, op, kind, status, why if status != "pass" else "")
            count[status] += 1
            better += status == "pass" != was
            if status == "pass":
                tally.ok(name)
            elif was == status or (status == "refused" and was != "pass") or a.update:
                tally.skipped += 1
                if a.verbose:
                    print(f"{status:11} {name}  {why}", flush=True)
            else:
                tally.fail(name, f"{status} (was {was}): {why}")
    print(", ".join(f"{count[c]} {c}" for c in COLUMNS if count[c]), f"of {len(names)} cases;", f"{better} newly pass" + (" (--update records them)" if better and not a.update else ""))
    if a.gpu:
        print(runner.table(count).splitlines()[1])
    if a.table:
        with open(a.table, "w") as f:
            f.write(runner.table(count))
    if a.update:
        with open(STATUS, "w", newline="") as f:
            csv.writer(f, lineterminator="\n").writerows(sorted(rows.values()))
        with open(PAGE, "w") as f:
            f.write(page(sorted(rows.values())))
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
