#!/usr/bin/env python3
"""`compile --quantize --accuracy-drop`: precision and device chosen together, beside the two ways of choosing one after the other.

usage: precision.py [--build DIR] [--data DIR] [--samples N] [--table FILE.md] [-v] [MODEL:TARGET ...]

For a model and a target, with the same ranges everywhere:
  (a) everything becomes integers (`quantize --islands 0`), then what comes out is placed;
  (b) the float model is placed, then what landed on an accelerator becomes integers, and the result is placed;
  (c) both at once, with the error of (a), and with that of (b), as the limit.
(c) may never be dearer. Its error is judged without our measure: onnxruntime, optimisations off, runs the model that was compiled, and the bundle is run
beside the float model, so that float16 counts too. What our quantiser measured is one of several parts of the outputs; no whole output may be worse than the
limit, by more than the float16 of the plan and half a decibel.
With --data the samples are DIR/MODEL.npz (arrays calib/INPUT), else smooth ones from a seed. ethos-u targets need Vela; without it they are skipped.
"""
import argparse
import csv
import json
import os
import sys
import tempfile

import numpy as np
import onnx

import fetch
from harness import CACHE, Fault, Refused, Tally, Tools, error, oracle
from quantize import samples, snr

QUICK = ["dscnn_kws:ethos-u55-128", "blazeface_front_128:ethos-u55-256", "oww_embedding:rk3588-sim"]
# A model, and what it makes at least by scheme, a few dB below what was measured.
SCHEMES = ("dscnn_kws", {"int8": 46, "16x8": 47, "w8": 46, "f16": 70})
RECIPE = "ranges: minmax\n"
VELA = os.path.join(CACHE, "venv-tosa", "bin", "python")
# Of the bundle beside the quantised model: an integer next to a tie may fall the other way, and float16 segments round. Where the integers themselves
# are far from the float model, each such tie weighs as much as their own rounding: half of the noise's amplitude is let pass.
VALUES = 0.05
EXACT = 190  # dB: the largest limit, which only float keeps
SAME = 60  # dB: float in another order of summation


def feeds_of(path, ident, data, count):
    if data:
        with np.load(os.path.join(data, ident + ".npz")) as z:
            names = [k for k in z.files if k.startswith("calib/")]
            return [{k[6:]: z[k][i] for k in names} for i in range(min(count, min(len(z[k]) for k in names)))]
    return samples(ident, onnx.load(path), count, 1)


def worst(a, b):
    """The worst output's median over samples."""
    return min(np.median([[snr(x, y) for x, y in zip(p, q)] for p, q in zip(a, b)], axis=0))


def pooled(a, b):
    """The worst output's, over all samples as one: a step that rounds otherwise moves it less than it does one sample's."""
    return min(snr(np.concatenate([x.ravel() for x in p]), np.concatenate([y.ravel() for y in q])) for p, q in zip(zip(*a), zip(*b)))


def with_shapes(path, feed, out):
    """A copy whose inputs have the samples' shapes: the cost model prices an open dimension at its least value."""
    m = onnx.load(path)
    for v in m.graph.input:
        if v.name in feed:
            dims = v.type.tensor_type.shape.dim
            for d, size in zip(dims, feed[v.name].shape):
                d.dim_value = size
    for v in m.graph.output:
        v.type.tensor_type.ClearField("shape")
    del m.graph.value_info[:]
    onnx.save(m, out)
    return out


class Case:
    def __init__(self, tools, path, target, feeds, tmp):
        path = with_shapes(path, feeds[0], os.path.join(tmp, "model.onnx"))
        self.tools, self.path, self.target, self.feeds, self.tmp = tools, path, target, feeds, tmp
        self.calib = os.path.join(tmp, "calib")
        os.mkdir(self.calib)
        for i, f in enumerate(feeds):
            np.savez(os.path.join(self.calib, f"{i:03}.npz"), **f)
        self.want = [oracle(path).run(None, f) for f in feeds]

    def recipe(self, rules=""):
        path = os.path.join(self.tmp, "recipe.yaml")
        open(path, "w").write(RECIPE + rules)
        return path

    def plan(self, model, *options):
        report = os.path.join(self.tmp, "plan")
        self.tools.call([self.tools.tessera, "compile", model, "--target", self.target, "--compile-to", "partition", "--report", report, "-q", *options])
        return json.load(open(os.path.join(report, "plan.json")))

    def quantised(self, rules=""):
        """Cost and error, in dB of the worst part, of the model quantised by a recipe and then placed; the units that are integers."""
        out, report = os.path.join(self.tmp, "q.onnx"), os.path.join(self.tmp, "quantize")
        self.tools.call([self.tools.tessera, "quantize", self.path, "--calib", self.calib, "-o", out, "--islands", "0", "--recipe", self.recipe(rules),
                         "--report", report])
        parts = json.load(open(os.path.join(report, "report.json")))["snr_db"]["of_the_model"]
        rows = list(csv.DictReader(open(os.path.join(report, "layers.csv"))))
        return self.plan(out)["estimate_ns"], min(parts.values()), [r for r in rows if r["state"] == "int8"]

    def placed_first(self, units):
        """As (b); without an error if nothing landed on an accelerator: then it is the float model."""
        plan = self.plan(self.path)
        landed = {n for s in plan["segments"] for n in s["nodes"]}
        stay = [u["node"] for u in units if u["node"] not in landed]
        if len(stay) == len(units):
            return plan["estimate_ns"], None
        rules = "rules:\n" + "".join(f"  - name: {json.dumps(n)}\n    keep: float\n" for n in stay) if stay else ""
        cost, dB, _ = self.quantised(rules)
        return cost, dB

    def joint(self, dB):
        """The bundle's cost under a limit, and its worst output in dB."""
        report, bundle = os.path.join(self.tmp, "joint"), os.path.join(self.tmp, "joint.tsr")
        limit = f"{np.floor(dB * 100 - 1) / 100:.2f}dB"
        self.tools.compile(self.path, bundle, "--target", self.target, "--quantize", "int8", "--calib", self.calib, "--accuracy-drop", limit, "--recipe",
                           self.recipe(), "--report", report, "-q")
        plan, precision = (json.load(open(os.path.join(report, f))) for f in ("plan.json", "precision.json"))
        chosen = next(p for p in precision["plans"] if p["chosen"])
        if chosen["estimate_ns"] != plan["estimate_ns"]:
            raise Fault(f"the choice promised {chosen['estimate_ns']} ns, the plan costs {plan['estimate_ns']}")
        model = oracle(os.path.join(report, "quantized.onnx"))
        written = [model.run(None, f) for f in self.feeds]
        integers = worst(self.want, written)
        if integers < min(dB, SAME) - 0.5:
            raise Fault(f"limit {limit}: onnxruntime makes {integers:.2f} dB of the quantised model")
        ran = [self.tools.run(bundle, f, len(w), "--emulate", "npu") for f, w in zip(self.feeds, self.want)]
        whole = worst(self.want, ran)
        half = precision["float16_db"] if chosen["float16_nodes"] else 200
        promised, made = worst_sum(min(pooled(self.want, written), SAME), half), pooled(self.want, ran)
        if made < promised - 0.5:
            raise Fault(f"limit {limit}: the bundle makes {made:.2f} dB of all samples, onnxruntime {promised:.2f} of the quantised model")
        for got, expected in zip(ran, written):
            for g, w in zip(got, expected):
                e, why = error(g, w)
                if not e <= max(VALUES, 0.5 * 10 ** (-dB / 20)):
                    raise Fault(f"the bundle beside onnxruntime on the quantised model: {why or f'error {e:.1e}'}")
        return plan["estimate_ns"], whole


def worst_sum(*decibels):
    return -10 * np.log10(sum(10 ** (-d / 10) for d in decibels))


def check(tools, ident, target, data, count, rows):
    path = os.path.join(fetch.MODELS, ident + ".onnx")
    with tempfile.TemporaryDirectory() as tmp:
        case = Case(tools, path, target, feeds_of(path, ident, data, count), tmp)
        cost, dB, units = case.quantised()
        said = []
        for way, (c, limit) in (("all integers, then placed", (cost, dB)), ("placed, then integers", case.placed_first(units))):
            limit = EXACT if limit is None else limit
            joint, got = case.joint(limit)
            rows.append([ident, target, way, f"{c / 1e6:.3f}", f"{limit:.1f}", f"{joint / 1e6:.3f}", f"{got:.1f}", f"{c / joint:.2f}"])
            said.append(f"{way}: {c / 1e6:.3f} ms at {limit:.1f} dB, together {joint / 1e6:.3f} ms at {got:.1f} dB")
            if joint > c:
                raise Fault(said[-1])
        return "; ".join(said)


def check_scheme(tools, ident, scheme, floor):
    """Without a limit: the bundle is the quantised model of the report, by value, and as near to the float model as the scheme is."""
    path = os.path.join(fetch.MODELS, ident + ".onnx")
    with tempfile.TemporaryDirectory() as tmp:
        case = Case(tools, path, "host-x86-64", feeds_of(path, ident, None, 6), tmp)
        report, bundle = os.path.join(tmp, "report"), os.path.join(tmp, "m.tsr")
        tools.compile(case.path, bundle, "--quantize", scheme, "--calib", case.calib, "--report", report, "-q")
        model = oracle(os.path.join(report, "quantized.onnx"))
        ran = [tools.run(bundle, f, len(w)) for f, w in zip(case.feeds, case.want)]
        for f, got in zip(case.feeds, ran):
            for g, w in zip(got, model.run(None, f)):
                e, why = error(g, w)
                if not e <= VALUES:
                    raise Fault(why or f"error {e:.1e} beside onnxruntime on the quantised model")
        if (dB := worst(case.want, ran)) < floor:
            raise Fault(f"{dB:.1f} dB, at least {floor}")


def table(rows):
    head = ["model", "target", "one after the other", "ms", "its error, dB", "together, ms", "its error, dB", "faster"]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, ["---"] * len(head)] + rows) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cases", nargs="*", help=f"MODEL:TARGET; {' '.join(QUICK)} by default")
    ap.add_argument("--build")
    ap.add_argument("--data")
    ap.add_argument("--samples", type=int, default=8)
    ap.add_argument("--table")
    ap.add_argument("-v", "--verbose", action="store_true")
    a = ap.parse_args()
    tools, tally, rows = Tools(a.build, timeout=1800), Tally(a.verbose), []
    if os.path.exists(VELA):
        os.environ.setdefault("TESSERA_VELA_PYTHON", VELA)
    for case in a.cases or QUICK:
        ident, target = case.split(":")
        if not os.path.exists(os.path.join(fetch.MODELS, ident + ".onnx")):
            tally.skip(case, "the model is not there")
            continue
        if target.startswith("ethos-u") and "TESSERA_VELA_PYTHON" not in os.environ:
            tally.skip(case, "Vela is not there")
            continue
        try:
            tally.ok(case, check(tools, ident, target, a.data, a.samples, rows))
        except (Fault, Refused) as why:
            tally.fail(case, why)
        if a.table:
            open(a.table, "w").write(table(rows))
    if not a.cases and os.path.exists(os.path.join(fetch.MODELS, SCHEMES[0] + ".onnx")):
        for scheme, floor in SCHEMES[1].items():
            tally.attempt(f"{SCHEMES[0]}, {scheme}", check_scheme, tools, SCHEMES[0], scheme, floor)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
