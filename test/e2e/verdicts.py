#!/usr/bin/env python3
"""The audit's verdict is what a compile does.

usage: verdicts.py [--build DIR] [--nodes N] [--seed S] [--verbose] [ID ...]

Random nodes of the public models, the kinds in turn, are cut out, each into a model of its own (with its quantisers, if it has any) with the shapes
that onnxruntime finds when it runs the whole. Such a model is audited for every target; then it is compiled for each, and where a target has more
units, once more with the node pinned to each of them. A `yes` that does not compile, or a `no` that does, fails.
"""
import argparse
import json
import os
import random
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import helper, numpy_helper

import fetch
from harness import CACHE, Fault, Refused, Tally, Tools, array, commit_seed, oracle

VELA = os.path.join(CACHE, "venv-tosa", "bin", "python")
LARGE = 1 << 28  # bytes of a model that is not run for shapes


def with_all_values(model):
    """The model with every tensor an output."""
    m = onnx.ModelProto()
    m.CopyFrom(model)
    known = {o.name for o in m.graph.output}
    m.graph.output.extend(helper.make_empty_tensor_value_info(name) for n in m.graph.node for name in n.output if name and name not in known)
    return m


def run(entry, model):
    """{value: array} of one run of the model."""
    rng = np.random.Generator(np.random.PCG64(7))
    feeds = {k: array(v, entry["sizes"][0], rng) for k, v in entry["inputs"].items()}
    session = oracle(with_all_values(model).SerializeToString())
    names = [o.name for o in session.get_outputs()]
    values = dict(feeds)
    values.update((n, v) for n, v in zip(names, session.run(names, feeds)) if isinstance(v, np.ndarray))
    return values


def with_quantisers(model, node):
    """The node; if its operands are dequantised and nothing but one QuantizeLinear reads its result, with these."""
    made = {o: n for n in model.graph.node for o in n.output}
    before = [made[i] for i in dict.fromkeys(node.input) if i in made and made[i].op_type == "DequantizeLinear"]
    readers = [n for n in model.graph.node if set(n.input) & set(node.output)]
    closed = before and len(readers) == 1 and readers[0].op_type == "QuantizeLinear"
    return [*before, node, readers[0]] if closed else [node]


def alone(model, node, values, constants):
    """A model of that node, or None where it has a body or an operand that is no tensor."""
    if any(a.HasField("g") for a in node.attribute):
        return None
    nodes = with_quantisers(model, node)
    inner = {o for n in nodes for o in n.output}
    used = [i for i in dict.fromkeys(i for n in nodes for i in n.input) if i and i not in inner]
    read = {i for n in nodes for i in n.input}
    out = [o for n in nodes for o in n.output if o and o not in read]
    if any(n not in values and n not in constants for n in used) or any(n not in values for n in out):
        return None
    info = lambda n: helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(values[n].dtype), values[n].shape)
    copies = []
    for i, n in enumerate(nodes):
        copies.append(onnx.NodeProto())
        copies[-1].CopyFrom(n)
        copies[-1].name = "node" if n is node else f"other{i}"
    graph = helper.make_graph(copies, "alone", [info(n) for n in used if n not in constants], [info(n) for n in out],
                              [constants[n] for n in used if n in constants])
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def constants_of(model):
    found = {i.name: i for i in model.graph.initializer}
    for n in model.graph.node:
        value = next((a.t for a in n.attribute if a.name == "value"), None) if n.op_type == "Constant" else None
        if value is not None:
            t = onnx.TensorProto()
            t.CopyFrom(value)
            t.name = n.output[0]
            found[t.name] = t
    return found


def candidates(entry, path):
    """[(kind, label, model)] of each node that can stand alone."""
    model = onnx.load(path)
    if model.ByteSize() > LARGE:
        return []
    values, constants = run(entry, model), constants_of(model)
    found = [(n.op_type, f"{entry['id']}:{n.name or n.output[0]} ({n.op_type})", n) for n in model.graph.node if n.op_type != "Constant"]
    return [(kind, label, lambda n=n: alone(model, n, values, constants)) for kind, label, n in found]


def mixed(pool, count, rng):
    """(label, model) of at most `count` nodes, the kinds in turn, so that rare ones are seen."""
    by_kind = {}
    for kind, label, make in rng.sample(pool, len(pool)):
        by_kind.setdefault(kind, []).append((label, make))
    while count and by_kind:
        for kind in sorted(by_kind):
            label, make = by_kind[kind].pop()
            if not by_kind[kind]:
                del by_kind[kind]
            model = make()
            if model is not None and count:
                count -= 1
                yield label, model


def compiles(tools, path, out, *options):
    """None if it does, else why not."""
    try:
        tools.compile(path, out, *options)
        return None
    except Refused as e:
        return str(e)


def check(tools, targets, label, model, tmp, tally):
    path, out = os.path.join(tmp, "node.onnx"), os.path.join(tmp, "node.tsr")
    onnx.save(model, path)
    words = [w for t in targets for w in ("--target", t)]
    report = os.path.join(tmp, "audit.json")
    if os.path.exists(report):  # of the node before
        os.remove(report)
    try:
        tools.call([tools.tessera, "audit", path, "--format", "json", "-o", report, *words])
    except Refused as e:  # a node that runs nowhere; the report says so
        if not os.path.exists(report):
            return tally.fail(label, f"the audit: {e}")
    for target in json.load(open(report))["targets"]:
        rows = [r for r in target["nodes"] if r["node"] == "node"]
        for unit in target["placed"]:
            verdicts = [r["units"][unit] for r in rows]
            yes = all(v["verdict"] != "no" for v in verdicts)
            gone = all(v.get("after", "").startswith(("removed", "folded")) for v in verdicts)
            pin = () if len(target["placed"]) == 1 or gone else ("--pin", f"node={unit}")
            why = compiles(tools, path, out, "--target", target["target"], *pin)
            name = f"{label} on {target['target']}:{unit}"
            if yes and why is not None:
                tally.fail(name, f"the audit says yes, the compile: {why}")
            elif not yes and why is None:
                tally.fail(name, "it compiles, the audit says: " + "; ".join(x for v in verdicts for x in v["reasons"]))
            else:
                tally.ok(name, "yes" if yes else "no: " + "; ".join(x for v in verdicts for x in v["reasons"]))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--models", default=fetch.MODELS)
    ap.add_argument("--nodes", type=int, default=200)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--targets", type=int, metavar="N", help="for each node N of the targets, which the commit decides; all by default")
    ap.add_argument("--budget", type=float, default=1e9, help="seconds; nodes that are left then are skipped")
    ap.add_argument("--verbose", action="store_true")
    ap.add_argument("ids", nargs="*")
    args = ap.parse_args()
    if os.path.exists(VELA):
        os.environ.setdefault("TESSERA_VELA_PYTHON", VELA)
    tools, tally, rng = Tools(args.build, timeout=120), Tally(args.verbose), random.Random(args.seed)
    targets = [line.split()[0] for line in tools.call([tools.tessera, "targets", "list"]).splitlines()]
    pool = []
    for entry in fetch.manifest():
        if args.ids and entry["id"] not in args.ids:
            continue
        path = os.path.join(args.models, entry["file"])
        if not os.path.exists(path):
            tally.skip(entry["id"], f"no {path}: run test/e2e/fetch.py")
            continue
        try:
            pool += candidates(entry, path)
        except Exception as e:  # the oracle's own limits
            tally.skip(entry["id"], f"onnxruntime: {e}"[:200])
    end, sample = time.time() + args.budget, random.Random(commit_seed())
    with tempfile.TemporaryDirectory() as tmp:
        for label, model in mixed(pool, args.nodes, rng):
            if time.time() > end:
                tally.skip(label, "no time left")
                continue
            try:
                check(tools, sorted(sample.sample(targets, args.targets)) if args.targets else targets, label, model, tmp, tally)
            except Fault as e:
                tally.fail(label, e)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
