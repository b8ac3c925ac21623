#!/usr/bin/env python3
"""Placement by value: public models on two devices against onnxruntime, and solver and judge over problem files with known optima.

usage: partition.py [--build DIR] [--target T] [--table FILE.md] [-v] [ID ...]

A model is compiled for the target with its dimensions fixed, and run: every output within 1e-2 of its largest magnitude, since the target stores
float16; or within four times what onnxruntime loses when it stores float16. For quantised models the limit is 0.1, as in models.py. The plan may not be dearer than the CPU alone or a greedy placement, and the judge must accept it. Where the CPU alone wins, the model is
compiled once more with one node pinned to the other device. Problem files are those of the folder `shared`, when it stands beside the clone.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import numpy as np

import fetch
from harness import SHARED, Fault, Refused, Tally, Tools, error, oracle, plain
from models import feeds_of, fixed_copy

LIMIT, INT8_LIMIT = 1e-2, 0.1
# Not within 1e-2 when onnxruntime stores float16 either: a mask of local maxima, and a sigmoid's tail (7e-3 at most), whose relative error is the absolute one of its argument.
AMPLIFIES = ["mlsd_320_tiny", "ppocr_v4_det"]
# Values beyond float16's range: nothing of it is pinned elsewhere.
HUGE = ["oww_melspectrogram"]
QUICK = ["dscnn_kws", "dscnn_kws_int8", "blazeface_front_128", "ppocr_cls"]


def mutations(problem, solution, rng):
    """Solutions that are wrong in one place each."""
    n = len(problem["ops"])
    cost, choice, segment = solution["cost"], solution["choice"], solution["segment"]

    def but(**changes):
        return {**solution, **changes}

    def at(values, j, v):
        return values[:j] + [v] + values[j + 1:]

    yield but(cost=cost + 1)
    yield but(cost=cost - 1, lower_bound=cost - 1)
    yield but(sens=solution["sens"] + 1)
    yield but(lower_bound=cost + 1)
    yield but(status="feasible" if solution["status"] == "optimal" else "optimal")
    yield but(choice=choice[1:])
    yield but(segment=segment + [-1])
    yield {k: v for k, v in solution.items() if k != "choice"}
    for _ in range(3):
        j = rng.randrange(n)
        yield but(choice=at(choice, j, len(problem["ops"][j]["opt"])))
        yield but(segment=at(segment, j, 0 if segment[j] < 0 else -1))
    for j in rng.sample(range(n), min(n, 5)):
        for x, o in enumerate(problem["ops"][j]["opt"]):
            old = problem["ops"][j]["opt"][choice[j]]
            if o[:3] == old[:3] and o[3] != old[3]:
                yield but(choice=at(choice, j, x))


def instance(tools, tally, folder, known, tmp):
    """The cost that is known, a bound that is true, a judge that accepts it and nothing near it."""
    path, out = os.path.join(folder, known["file"]), os.path.join(tmp, "solution.json")
    try:
        tools.call([tools.tessera, "partition", path, "-o", out, "-q"])
        tools.call([tools.tessera, "partition", "--check", path, out])
    except (Refused, Fault) as e:
        return tally.fail(known["file"], e)
    problem, solution = json.load(open(path)), json.load(open(out))
    exact = known["proof"] == "enumeration"
    if solution["cost"] > known["optimum"] or (exact and solution["cost"] != known["optimum"]) or solution["lower_bound"] > known["optimum"]:
        return tally.fail(known["file"], f"cost {solution['cost']}, bound {solution['lower_bound']}; the optimum is {known['optimum']}")
    count = 0
    for wrong in mutations(problem, solution, random.Random(known["file"])):
        json.dump(wrong, open(out, "w"))
        status = subprocess.run([tools.tessera, "partition", "--check", path, out], capture_output=True).returncode
        if status != 4:
            return tally.fail(known["file"], f"a wrong solution has status {status}: {json.dumps(wrong)[:200]}")
        count += 1
    tally.ok(known["file"], f"cost {solution['cost']}, {solution['status']}, {count} mutations refused")


def half_storage(path):
    """The model with every float tensor rounded to float16 where it is stored: what a device that stores so costs in accuracy."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    m = onnx.load(path)
    inferred = onnx.shape_inference.infer_shapes(m).graph
    kinds = {v.name: v.type.tensor_type.elem_type for g in (inferred.value_info, inferred.output) for v in g}
    for t in m.graph.initializer:
        if t.data_type == TensorProto.FLOAT:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float16).astype(np.float32), t.name))
    nodes, stored = [], {}
    for node in m.graph.node:
        node.input[:] = [stored.get(v, v) for v in node.input]
        nodes.append(node)
        for v in node.output:
            if kinds.get(v) == TensorProto.FLOAT and node.op_type != "Constant":
                nodes += [helper.make_node("Cast", [v], [v + "/half"], to=TensorProto.FLOAT16), helper.make_node("Cast", [v + "/half"], [v + "/stored"], to=TensorProto.FLOAT)]
                stored[v] = v + "/stored"
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del m.graph.node[:]
    m.graph.node.extend(nodes)
    for v in m.graph.output:
        v.name = stored.get(v.name, v.name)
    return m.SerializeToString()


def limit_of(path, feeds, want, i):
    """Of output i of a model that amplifies rounding: four times what storing in float16 costs by itself in onnxruntime."""
    got = plain(oracle(half_storage(path)).run(None, feeds)[i])
    cost = error(got, want[i])[0]
    return max(LIMIT, 4 * cost) if np.isfinite(cost) else LIMIT


def placed(tools, entry, path, target, tmp, *pins):
    """Compiles for the target, runs, compares; the plan's report."""
    bundle, report = os.path.join(tmp, "model.tsr"), os.path.join(tmp, "report")
    start = time.time()
    options = [w for pin in pins for w in ("--pin", pin)]
    tools.compile(path, bundle, "--target", target, "--report", report, *options)
    seconds = time.time() - start
    plan = json.load(open(os.path.join(report, "plan.json")))
    tools.call([tools.tessera, "partition", "--check", *(os.path.join(report, f) for f in ("problem.json", "solution.json"))])
    feeds = feeds_of(entry, entry["sizes"][0], 4321)
    want = [plain(v) for v in oracle(path).run(None, feeds)]
    got = [plain(v) for v in tools.run(bundle, feeds, len(want))]
    worst = 0.0
    for i, (g, w) in enumerate(zip(got, want)):
        e, why = error(g, w)
        worst = max(worst, e)
        limit = INT8_LIMIT if "int8" in entry["kind"] else LIMIT
        if e > limit and entry["id"] in AMPLIFIES:
            limit = limit_of(path, feeds, want, i)
        if not e <= limit:
            raise Fault(f"output {i}: {why or f'error {e:.2e} over {limit:g}'}")
    return plan, worst, seconds


def cpu_alone(problem):
    """Nanoseconds of a problem's plan that leaves everything on the CPU in its first state: nothing is copied or launched."""
    return sum(min(cost for device, before, after, cost, *_ in o["opt"] if not device and not before and not after) for o in problem["ops"])


def can_move(name, problem):
    """An operator of the problem that could be elsewhere: the dearest on the CPU."""
    able = [o for o in problem["ops"] if any(x[0] for x in o["opt"]) and name not in HUGE]
    return max(able, key=lambda o: o["opt"][0][3])["name"] if able else None


def model(tools, tally, entry, path, target, rows):
    """One public model, and its pinned split where the CPU wins."""
    name = entry["id"]
    with tempfile.TemporaryDirectory() as tmp:
        fixed = os.path.join(tmp, "fixed.onnx")
        fixed_copy(path, entry, fixed)
        try:
            oracle(fixed)
            tools.call([tools.tessera, "compile", fixed, "--compile-to", "groups"])
            path = fixed
        except Exception:  # branches that are never taken can contradict the fixed dimensions: then as shipped
            pass
        try:
            plan, worst, seconds = placed(tools, entry, path, target, tmp)
            cost, others = plan["estimate_ns"], [plan[k] for k in ("cpu_only_ns", "most_accelerated_ns", "cheapest_in_order_ns")]
            rows.append([name, len(plan["segments"]), len(plan["copies"]), plan["copy_bytes"]] + [f"{v / 1e6:.2f}" for v in [cost] + others]
                        + [f"{worst:.1e}", f"{seconds:.1f}"])
            problem = json.load(open(os.path.join(tmp, "report", "problem.json")))
            others[0] = cpu_alone(problem)
            if others[0] != plan["cpu_only_ns"]:
                raise Fault(f"the report says {plan['cpu_only_ns']} ns for the CPU alone, its problem {others[0]}")
            bare = cost - plan["spread_work_ns"]  # before work was shared out, for which it ends sooner
            if cost > others[0] or any(v is not None and bare > v for v in others):
                raise Fault(f"the plan costs {cost} ns, {bare} before sharing out, simpler ones {others}")
            if plan["spread_gain_ns"] < max(0, plan["spread_work_ns"]) or plan["schedule_ns"] > bare:
                raise Fault(f"shared out for {plan['spread_work_ns']} ns, which gains {plan['spread_gain_ns']} ns")
            tally.ok(name, f"{len(plan['segments'])} segments, {cost / 1e6:.2f} ms of {others[0] / 1e6:.2f} ms on the CPU alone, error {worst:.1e}")
            if not plan["cpu_wins"]:
                return
            node = can_move(name, problem)
            if node is None:
                return tally.skip(name + ", pinned", "no node of it can run elsewhere")
            device = plan["devices"][-1]["name"].split(":")[0]
            plan, worst, seconds = placed(tools, entry, path, target, tmp, f"{node}={device}")
            if not plan["segments"]:
                raise Fault("pinned, but nothing is placed elsewhere")
            tally.ok(name + ", pinned", f"{node} on {device}: {plan['estimate_ns'] / 1e6:.2f} ms, error {worst:.1e}")
        except (Refused, Fault) as why:
            tally.fail(name, why)


def table(rows):
    head = ["model", "segments", "copies", "bytes copied", "plan ms", "CPU only ms", "most accelerated ms", "in order ms", "largest error", "compile s"]
    lines = [head, ["---"] * len(head)] + rows
    return "\n".join("| " + " | ".join(str(v) for v in line) + " |" for line in lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build")
    parser.add_argument("--target", default="rk3588-sim")
    parser.add_argument("--models", default=fetch.MODELS)
    parser.add_argument("--table")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("ids", nargs="*", help=f"'all' for every model; {' '.join(QUICK)} by default")
    arguments = parser.parse_args()
    tools, tally = Tools(arguments.build), Tally(arguments.verbose)
    folder = os.path.join(SHARED, "partition", "instances")
    if os.path.exists(os.path.join(folder, "index.json")):
        with tempfile.TemporaryDirectory() as tmp:
            for known in json.load(open(os.path.join(folder, "index.json"))):
                instance(tools, tally, folder, known, tmp)
    else:
        tally.skip("instances", f"no {folder}")
    ids, rows = arguments.ids or QUICK, []
    os.makedirs(arguments.models, exist_ok=True)
    for entry in fetch.manifest():
        if not (entry["id"] in ids or ids == ["all"]):
            continue
        try:
            path = fetch.fetch(entry, arguments.models, os.path.join(arguments.models, "packages"))
        except OSError as why:
            tally.skip(entry["id"], str(why))
            continue
        model(tools, tally, entry, path, arguments.target, rows)
        if arguments.table:
            open(arguments.table, "w").write(table(rows))
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
