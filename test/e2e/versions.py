#!/usr/bin/env python3
"""Every version of every ONNX operator, by value, against the semantics of that version.

usage: versions.py [--build DIR] [--only REGEX] [--jobs N] [--list] [--verbose]

For each (domain, operator, since_version) of the ONNX registry, every case of `version_cases` that holds for it is a model of exactly the operator
set that brought the version, and one of the last set where it is in force. The oracle is a function written from the text of the version, and
onnxruntime at that operator set where it has a kernel: where both are there, both must agree with us. Without a function it is onnxruntime alone, or
else onnx.reference. Cases of one operator set are put into one model, many at a time; a model that fails is taken apart.

A case with `refused` must be refused by name. Pairs without a case stand in UNTESTED with the reason; one that is missing there is a failure.
--list prints the oracle of each pair.
"""
import argparse
import collections
import os
import re
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnx.reference
from onnx import compose, defs, helper, numpy_helper

from harness import Fault, Refused, Tally, Tools, error, load_value, oracle, save_inputs
from version_cases import beyond, classic, control, draws, elementwise, neural, quantised, tensors  # noqa: F401
from version_cases.table import CASES, given

NEWEST = {"": defs.onnx_opset_version(), "ai.onnx.ml": 5}
DRAWN = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
UNTESTED = {
    "CastMap": "its input is a map, which no value of a graph can be for us",
    "DictVectorizer": "its input is a map, which no value of a graph can be for us",
}
BATCH = 24
FLOAT8 = (onnx.TensorProto.FLOAT8E4M3FN, onnx.TensorProto.FLOAT8E4M3FNUZ, onnx.TensorProto.FLOAT8E5M2, onnx.TensorProto.FLOAT8E5M2FNUZ)

Instance = collections.namedtuple("Instance", "name case opset graph feeds want kind")


def pairs():
    """(domain, operator) -> [(since, last, deprecated)]."""
    table = collections.defaultdict(list)
    for s in defs.get_all_schemas_with_history():
        table[s.domain, s.name].append((s.since_version, s.deprecated))
    for (domain, op), versions in table.items():
        versions.sort()
        ends = [v - 1 for v, _ in versions[1:]] + [NEWEST.get(domain, 1)]
        table[domain, op] = [(since, end, old) for (since, old), end in zip(versions, ends)]
    return table


def model_of(graph, domain, opset):
    imports = [helper.make_opsetid("", opset if domain == "" else 21)] + ([helper.make_opsetid(domain, opset)] if domain else [])
    newest = domain == "" and opset > 25
    return helper.make_model(graph, opset_imports=imports, ir_version=13 if newest else 10)


def build(case, opset):
    """A graph for the case, its feeds, and its operands in order."""
    arrays = [v[0] if isinstance(v, given) else v for v in case.inputs]
    if case.text:
        graph = onnx.parser.parse_graph(case.text)
        for o in graph.output:
            if o.type.HasField("tensor_type") and not o.type.tensor_type.shape.dim:
                o.type.tensor_type.ClearField("shape")
        return graph, {v.name: a for v, a in zip(graph.input, arrays)}, arrays
    names, values, constants, feeds = [], [], [], {}
    for i, v in enumerate(case.inputs):
        names.append("" if v is None else f"i{i}")
        if isinstance(v, given):
            a = v[0]
            feeds[f"i{i}"] = a
            kind = onnx.TensorProto.STRING if a.dtype == object else helper.np_dtype_to_tensor_dtype(a.dtype)
            values.append(helper.make_tensor_value_info(f"i{i}", kind, a.shape))
        elif v is not None:
            constants.append(numpy_helper.from_array(np.asarray(v), f"i{i}"))
    outs = [f"o{i}" if o else "" for i, o in enumerate([1] * case.outputs if isinstance(case.outputs, int) else case.outputs)]
    empty = [k for k, v in case.attributes.items() if isinstance(v, list) and not v]  # which say no type
    node = helper.make_node(case.op, names, outs, domain=case.domain, name="subject", **{k: v for k, v in case.attributes.items() if k not in empty})
    node.attribute.extend(onnx.AttributeProto(name=k, type=onnx.AttributeProto.INTS) for k in empty)
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name=o) for o in outs if o], constants)
    return graph, feeds, arrays


def runtime(graph, feeds, domain, opset):
    session = oracle(model_of(graph, domain, opset).SerializeToString())
    return session.run(None, feeds)


def reference(graph, feeds, domain, opset):
    return onnx.reference.ReferenceEvaluator(model_of(graph, domain, opset)).run(None, feeds)


def expect(case, graph, feeds, arrays, opset):
    """([values of each oracle], which)."""
    wants, kinds = [], []
    if case.want:
        w = case.want(*[a for a in arrays if a is not None])
        wants.append(list(w) if isinstance(w, tuple) else [w])
        kinds.append("text")
    if case.ort:
        try:
            wants.append(runtime(graph, feeds, case.domain, opset))
            kinds.append("onnxruntime")
        except Exception:  # no kernel there, or it does not know the operator set
            pass
    if not wants:
        wants.append(reference(graph, feeds, case.domain, opset))
        kinds.append("reference")
    return wants, "+".join(kinds)


def settle(graph, want):
    """Types of outputs are what the oracle gives."""
    for o, w in zip(graph.output, want):
        if not o.HasField("type"):
            a, to = np.asarray(w), {x.name: x.i for x in graph.node[0].attribute}.get("to")
            kind = onnx.TensorProto.STRING if a.dtype.kind in "OU" else helper.np_dtype_to_tensor_dtype(a.dtype)
            if to in FLOAT8:  # which onnxruntime hands out as bytes
                kind = to
            o.CopyFrom(helper.make_tensor_value_info(o.name, kind, None))


def same(got, want, limit):
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return "another sequence"
        return next((why for why in (same(g, w, limit) for g, w in zip(got, want)) if why), "")
    got, want = np.asarray(got), np.asarray(want)
    if want.dtype.kind in "OU":
        text = lambda a: [x.decode() if isinstance(x, bytes) else str(x) for x in a.ravel()]  # noqa: E731
        return "" if got.shape == want.shape and text(got) == text(want) else f"{text(got)}, expected {text(want)}"
    if "float8" in got.dtype.name or got.dtype.kind == "V" and want.dtype.itemsize == 1:
        got, want = got.view(np.uint8), want.view(np.uint8)
    e, why = error(got, want)
    return "" if e <= limit else why or f"error {e:.2e} over {limit:g}"


def judge(i, got):
    for want, kind in zip(i.want, i.kind.split("+")):
        if len(got) != len(want):
            raise Fault(f"{len(got)} outputs, expected {len(want)}")
        for k, (g, w) in enumerate(zip(got, want)):
            why = same(g, w, i.case.limit)
            if why:
                raise Fault(f"output {k} beside {kind}: {why}")


def merged(instances):
    """One model of all; names get a prefix each."""
    whole, feeds = onnx.GraphProto(name="batch"), {}
    for k, i in enumerate(instances):
        g = compose.add_prefix_graph(i.graph, f"c{k}_")
        for field in ("node", "input", "output", "initializer"):
            getattr(whole, field).extend(getattr(g, field))
        feeds.update({f"c{k}_{n}": a for n, a in i.feeds.items()})
    return model_of(whole, instances[0].case.domain, instances[0].opset), feeds


def run(tools, instances):
    """The outputs of each instance, in order."""
    model, feeds = merged(instances)
    counts = [len(i.graph.output) for i in instances]
    with tempfile.TemporaryDirectory() as tmp:
        path, out = os.path.join(tmp, "m.onnx"), os.path.join(tmp, "out")
        onnx.save(model, path)
        os.mkdir(out)
        save(feeds, os.path.join(tmp, "in"))
        tools.call([tools.tessera, "run", "--no-cache", path, "--inputs", os.path.join(tmp, "in"), "--output-dir", out, "--output-format", "pb"])
        values = [load_value(os.path.join(out, f"output_{k}")) for k in range(sum(counts))]
    return [values[sum(counts[:k]):sum(counts[:k + 1])] for k in range(len(counts))]


def save(feeds, folder):
    if not any(a.dtype == object for a in feeds.values()):
        return save_inputs(feeds, folder)
    os.makedirs(folder)
    for k, a in enumerate(feeds.values()):
        onnx.save_tensor(numpy_helper.from_array(a), os.path.join(folder, f"input_{k}.pb"))


def attempt(tools, instances):
    """[(instance, fault or None)]; a model that fails is halved until the one that fails is alone."""
    try:
        got = run(tools, instances)
    except (Refused, Fault) as why:
        if len(instances) > 1:
            half = len(instances) // 2
            return attempt(tools, instances[:half]) + attempt(tools, instances[half:])
        if isinstance(why, Refused) and instances[0].case.refused:
            words = (instances[0].case.op, instances[0].case.refused)
            return [(instances[0], None if all(w in why.said for w in words) else f"refused without a word on {' or '.join(words)}: {why}")]
        return [(instances[0], f"{'refused: ' if isinstance(why, Refused) else ''}{why}")]
    results = []
    for i, values in zip(instances, got):
        try:
            if i.case.refused:
                raise Fault("was not refused")
            judge(i, values)
            results.append((i, None))
        except Fault as why:
            results.append((i, str(why)))
    return results


def instances(table, only):
    """(instances, faults of oracles)."""
    made, broken = [], []
    for case in CASES:
        for since, end, old in table[case.domain, case.op] or [(case.lo, case.hi, False)]:
            if not case.lo <= since <= case.hi:
                continue
            for opset in sorted({since, min(end, case.last)}):
                name = f"{case.op}-{since}{'@' + str(opset) if opset != since else ''}{'/' + case.name if case.name else ''}"
                if not re.search(only, name):
                    continue
                graph, feeds, arrays = build(case, opset)
                if case.refused:
                    for o in graph.output:
                        if not o.HasField("type"):
                            o.CopyFrom(helper.make_tensor_value_info(o.name, onnx.TensorProto.FLOAT, None))
                    made.append((Instance(name, case, opset, graph, feeds, None, "refused"), (case.domain, case.op, since)))
                    continue
                try:
                    wants, kind = expect(case, graph, feeds, arrays, opset)
                    settle(graph, wants[0])
                except Exception as why:
                    broken.append((name, f"no oracle: {str(why).strip().splitlines()[-1:]}"))
                    continue
                made.append((Instance(name, case, opset, graph, feeds, wants, kind), (case.domain, case.op, since)))
    return made, broken


def report(table, made, results, tally, only, listed):
    """Counts of pairs; every pair must have a case or a reason."""
    kinds = collections.defaultdict(set)
    for i, pair in made:
        kinds[pair].add(i.kind)
    count, oracles, missing = collections.Counter(), collections.Counter(), []
    for (domain, op), versions in sorted(table.items()):
        for since, _, old in versions:
            pair, name = (domain, op, since), f"{domain + '.' if domain else ''}{op}-{since}"
            if kinds[pair] - {"refused"}:
                count["by value"] += 1
                best = "both" if any("text+" in k for k in kinds[pair]) else sorted(k for k in kinds[pair] if k != "refused")[0]
                oracles[{"both": "the text and onnxruntime", "text": "the text"}.get(best, best)] += 1
            elif kinds[pair]:
                count["refused"] += 1
                print(f"refused  {name}: {'no such operator from there on' if old else 'as the case says'}")
            elif op in DRAWN:
                count["by distribution"] += 1
            elif op in UNTESTED:
                count["untested"] += 1
                print(f"untested {name}: {UNTESTED[op]}")
            else:
                missing.append(name)
            if listed:
                print("listed  ", name, *sorted(kinds[pair]))
    if not only:
        for name in missing:
            tally.fail(name, "no case and no reason")
    print(f"{sum(map(len, table.values()))} versions of operators: " + ", ".join(f"{n} {k}" for k, n in count.items()))
    print("oracles: " + ", ".join(f"{n} {k}" for k, n in oracles.most_common()))
    print(f"{len(made)} cases: " + ", ".join(f"{n} {k}" for k, n in collections.Counter(i.kind for i, _ in made).most_common()))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--only", default="")
    ap.add_argument("--jobs", type=int, default=os.cpu_count())
    ap.add_argument("--list", action="store_true")
    ap.add_argument("--verbose", action="store_true")
    a = ap.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    tools, tally, table, start = Tools(a.build, timeout=120), Tally(a.verbose), pairs(), time.time()
    made, broken = instances(table, a.only)
    for name, why in broken:
        tally.fail(name, why)
    sets, work = collections.defaultdict(list), []
    for i, _ in made:
        sets[(i.case.domain, i.opset, i.name) if i.case.refused else (i.case.domain, i.opset)].append(i)
    for key in sorted(sets):
        work += [sets[key][k:k + BATCH] for k in range(0, len(sets[key]), BATCH)]
    print(f"{len(made)} cases in {len(work)} models; the oracles took {time.time() - start:.0f} s", flush=True)
    with ThreadPoolExecutor(a.jobs) as pool:
        for results in pool.map(lambda w: attempt(tools, w), work):
            for i, why in results:
                tally.fail(i.name, why) if why else tally.ok(i.name, i.kind)
    for opset in sorted({since for (_, op), versions in table.items() if op in DRAWN for since, _, _ in versions}):
        if re.search(a.only, f"draws-{opset}"):
            tally.attempt(f"draws-{opset}", draws.check, tools, opset)
    report(table, made, None, tally, a.only, a.list)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
