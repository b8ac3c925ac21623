#!/usr/bin/env python3
"""Tree ensembles by value: every comparison, aggregate, post transform and form of leaves, with NaN, in batches of several sizes.

usage: trees.py [--build DIR] [--only REGEX]

The oracle is a walk in this file, by the text of the specification; onnxruntime must agree where it follows it (it does not send a NaN where
missing_value_tracks_true says at BRANCH_NEQ, and knows no MEMBER sets beyond its own limits).
"""
import argparse
import os
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T, helper, numpy_helper

from harness import Fault, Tally, Tools, error, oracle

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
NAMES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


class Tree:
    """Nodes (feature, mode, split, nan, yes, no); a child is a node, or -1 - leaf; `sets` holds the members by node."""

    def __init__(self):
        self.nodes, self.leaves, self.sets = [], [], {}

    def leaf(self, entries):
        self.leaves.append(entries)
        return -len(self.leaves)

    def walk(self, row):
        at = 0 if self.nodes else -1
        while at >= 0:
            f, mode, s, nan, yes, no = self.nodes[at]
            x = row[f]
            if np.isnan(x):
                taken = nan
            else:
                taken = [x <= s, x < s, x >= s, x > s, x == s, x != s, x in self.sets.get(at, ())][mode]
            at = yes if taken else no
        return self.leaves[-1 - at]


def grow(rng, inner, features, modes, leaf, nan, splits):
    """A tree of random form with `inner` nodes."""
    t = Tree()
    ends = [None]  # (node, side) that has no child yet
    for i in range(inner):
        k = rng.integers(len(ends))
        at = ends[k]
        ends[k] = ends[-1]
        ends.pop()
        mode = int(rng.choice(modes))
        t.nodes.append([int(rng.integers(features)), mode, float(rng.choice(splits)), int(rng.random() < nan), None, None])
        if mode == MEMBER:
            t.sets[i] = [float(v) for v in rng.choice(splits[np.isfinite(splits)], rng.integers(1, 5), replace=False)]
        if at is not None:
            t.nodes[at[0]][at[1]] = i
        ends += [(i, 4), (i, 5)]
    for at in ends:
        code = t.leaf(leaf(rng))
        if at is not None:
            t.nodes[at[0]][at[1]] = code
    return t


def model_old(trees, kind, targets, features, dtype, **attrs):
    """TreeEnsembleRegressor or TreeEnsembleClassifier."""
    a = {"nodes_" + k: [] for k in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids", "missing_value_tracks_true", "modes", "values")}
    p = "class" if kind == "TreeEnsembleClassifier" else "target"
    e = {f"{p}_{k}": [] for k in ("treeids", "nodeids", "ids", "weights")}
    for n, t in enumerate(trees):
        place = lambda c: c if c >= 0 else len(t.nodes) - 1 - c
        for i, (f, mode, s, nan, yes, no) in enumerate(t.nodes):
            for k, v in zip(a, (n, i, f, place(yes), place(no), nan, NAMES[mode], s)):
                a[k].append(v)
        for i, entries in enumerate(t.leaves):
            for k, v in zip(a, (n, place(-1 - i), 0, 0, 0, 0, "LEAF", 0.0)):
                a[k].append(v)
            for k, w in entries:
                for key, v in zip(e, (n, place(-1 - i), k, w)):
                    e[key].append(v)
    if dtype == T.DOUBLE:
        for d, key in ((a, "nodes_values"), (e, f"{p}_weights")):
            d[key + "_as_tensor"] = numpy_helper.from_array(np.array(d.pop(key), np.float64))
    x = helper.make_tensor_value_info("x", dtype, ["n", features])
    if kind == "TreeEnsembleClassifier":
        node = helper.make_node(kind, ["x"], ["label", "y"], domain="ai.onnx.ml", classlabels_int64s=[10 * k + 3 for k in range(targets)], **a, **e, **attrs)
        outs = [helper.make_tensor_value_info("label", T.INT64, ["n"]), helper.make_tensor_value_info("y", T.FLOAT, ["n", targets])]
    else:
        node = helper.make_node(kind, ["x"], ["y"], domain="ai.onnx.ml", n_targets=targets, **a, **e, **attrs)
        outs = [helper.make_tensor_value_info("y", T.FLOAT, ["n", targets])]
    return finish(node, x, outs, 3)


def model_new(trees, targets, features, dtype, aggregate=1, post=0):
    """TreeEnsemble of ai.onnx.ml 5: leaves have one entry, roots are nodes."""
    nodes, leaves, members, roots = [], [], [], []
    for t in trees:
        base, first = len(nodes), len(leaves)
        roots.append(base)
        for i, (f, mode, s, nan, yes, no) in enumerate(t.nodes):
            child = lambda c: (base + c, 0) if c >= 0 else (first - 1 - c, 1)
            nodes.append((f, mode, s, nan, *child(yes), *child(no)))
            if mode == MEMBER:
                members += t.sets[i] + [np.nan]
        leaves += [e[0] for e in t.leaves]
    f, mode, s, nan, yes, yes_leaf, no, no_leaf = map(list, zip(*nodes))
    kind = np.float64 if dtype == T.DOUBLE else np.float32
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=targets, aggregate_function=aggregate, post_transform=post, nodes_featureids=f,
                            nodes_modes=numpy_helper.from_array(np.array(mode, np.uint8)), nodes_splits=numpy_helper.from_array(np.array(s, kind)),
                            nodes_missing_value_tracks_true=nan, nodes_truenodeids=yes, nodes_trueleafs=yes_leaf, nodes_falsenodeids=no, nodes_falseleafs=no_leaf,
                            leaf_targetids=[e[0] for e in leaves], leaf_weights=numpy_helper.from_array(np.array([e[1] for e in leaves], kind)), tree_roots=roots,
                            **({"membership_values": numpy_helper.from_array(np.array(members, kind))} if members else {}))
    return finish(node, helper.make_tensor_value_info("x", dtype, ["n", features]), [helper.make_tensor_value_info("y", dtype, ["n", targets])], 5)


def finish(node, x, outs, version):
    graph = helper.make_graph([node], "g", [x], outs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", version)], ir_version=10)


def scores_of(trees, x, targets, aggregate=1):
    """Sums and the like before any post transform, in double."""
    out = np.zeros((len(x), targets))
    for r, row in enumerate(x):
        got = [[] for _ in range(targets)]
        for t in trees:
            for k, w in t.walk(row):
                got[k].append(w)
        for k, v in enumerate(got):
            out[r, k] = [sum(v) / len(trees), sum(v), min(v, default=0), max(v, default=0)][aggregate]
    return out


def rows_of(rng, n, features, splits, nan, dtype):
    """Values on the splits, beside them, infinite, and NaN."""
    x = rng.choice(splits, (n, features)) + rng.choice([0, 0, 1e-3, -1e-3], (n, features))
    x[rng.random((n, features)) < nan] = np.nan
    return x.astype(np.float64 if dtype == T.DOUBLE else np.float32)


def softmax(s):
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


SPLITS = np.array([-2.5, -1, -0.5, 0, 0.25, 0.75, 1, 3, 1e-30, 5e20], np.float32).astype(np.float64)
EDGES = np.concatenate([SPLITS, [np.inf, -np.inf, -0.0, 1e-45]])


def one(target):
    return lambda rng: [(target, float(np.float32(rng.standard_normal())))]


def anyone(targets):
    return lambda rng: [(int(rng.integers(targets)), float(np.float32(rng.standard_normal())))]


def dense(targets):
    return lambda rng: [(k, float(np.float32(rng.standard_normal()))) for k in range(targets)]


def some(targets):
    return lambda rng: [(k, float(np.float32(rng.standard_normal()))) for k in range(targets) if rng.random() < 0.6]


CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


# Each case gives (model, trees, targets, aggregate, post, features, splits, share of NaN, dtype, whether onnxruntime agrees).
def simple_modes(modes, nan_nodes, nan_rows, dtype=T.FLOAT, splits=EDGES, agrees=True):
    rng = np.random.default_rng(7)
    trees = [grow(rng, int(rng.integers(1, 40)), 6, modes, one(0), nan_nodes, splits) for _ in range(21)]
    return model_new(trees, 1, 6, dtype), trees, 1, 1, None, 6, splits, nan_rows, dtype, agrees


for number, name in enumerate(["leq", "lt", "gte", "gt", "eq", "neq"]):
    CASES[name] = lambda number=number: simple_modes([number], 0.5, 0.2, agrees=number != NEQ)
    CASES[name + "_double"] = lambda number=number: simple_modes([number], 0.5, 0.2, T.DOUBLE, agrees=number != NEQ)
CASES["leq_nan_no"] = lambda: simple_modes([LEQ], 0, 0.3)
CASES["leq_nan_yes"] = lambda: simple_modes([LEQ], 1, 0.3)
CASES["all_modes"] = lambda: simple_modes([0, 1, 2, 3, 4, 5], 0.5, 0.2, agrees=False)
CASES["member"] = lambda: simple_modes([LEQ, MEMBER], 0.5, 0.1, splits=SPLITS, agrees=False)


@case
def min_of_targets():
    rng = np.random.default_rng(1)
    trees = [grow(rng, 15, 5, [LEQ], anyone(2), 0, SPLITS) for _ in range(17)]
    return model_old(trees, "TreeEnsembleRegressor", 2, 5, T.FLOAT, aggregate_function="MIN"), trees, 2, 2, None, 5, SPLITS, 0, T.FLOAT, True


@case
def max_of_targets():
    rng = np.random.default_rng(2)
    trees = [grow(rng, 15, 5, [LEQ], dense(3), 0, SPLITS) for _ in range(17)]
    return model_old(trees, "TreeEnsembleRegressor", 3, 5, T.FLOAT, aggregate_function="MAX"), trees, 3, 3, None, 5, SPLITS, 0, T.FLOAT, True


@case
def average_dense():
    rng = np.random.default_rng(3)
    trees = [grow(rng, 25, 9, [LEQ], dense(5), 0, SPLITS) for _ in range(30)]
    return model_old(trees, "TreeEnsembleRegressor", 5, 9, T.FLOAT, aggregate_function="AVERAGE"), trees, 5, 0, None, 9, SPLITS, 0, T.FLOAT, True


@case
def any_entries():
    rng = np.random.default_rng(4)
    trees = [grow(rng, 25, 9, [LEQ, GT], some(5), 0, SPLITS) for _ in range(30)]
    return model_old(trees, "TreeEnsembleRegressor", 5, 9, T.FLOAT), trees, 5, 1, None, 9, SPLITS, 0, T.FLOAT, True


@case
def classifier_softmax():
    rng = np.random.default_rng(5)
    trees = [grow(rng, 31, 9, [LEQ], one(k % 4), 0.5, SPLITS) for k in range(40)]
    return model_old(trees, "TreeEnsembleClassifier", 4, 9, T.FLOAT, post_transform="SOFTMAX"), trees, 4, 1, softmax, 9, SPLITS, 0.1, T.FLOAT, True


@case
def classifier_logistic():
    rng = np.random.default_rng(6)
    trees = [grow(rng, 31, 9, [LT], dense(3), 0, SPLITS) for _ in range(12)]
    return model_old(trees, "TreeEnsembleClassifier", 3, 9, T.FLOAT, post_transform="LOGISTIC"), trees, 3, 1, lambda s: 1 / (1 + np.exp(-s)), 9, SPLITS, 0, T.FLOAT, True


@case
def tree_is_a_leaf():
    rng = np.random.default_rng(8)
    trees = [grow(rng, n, 3, [LEQ], one(0), 0, SPLITS) for n in (0, 3, 0, 1)]
    return model_old(trees, "TreeEnsembleRegressor", 1, 3, T.FLOAT), trees, 1, 1, None, 3, SPLITS, 0, T.FLOAT, True


@case
def all_leaves():
    rng = np.random.default_rng(8)
    trees = [grow(rng, 0, 3, [LEQ], one(0), 0, SPLITS) for _ in range(3)]
    return model_old(trees, "TreeEnsembleRegressor", 1, 3, T.FLOAT), trees, 1, 1, None, 3, SPLITS, 0, T.FLOAT, True


@case
def large_tree():
    """Children further away than 16 bits say."""
    rng = np.random.default_rng(9)
    values = np.sort(rng.standard_normal(500)).astype(np.float32).astype(np.float64)
    trees = [grow(rng, 60000, 40, [LEQ], one(0), 0.5, values), grow(rng, 9, 40, [LEQ], one(0), 0.5, values)]
    return model_old(trees, "TreeEnsembleRegressor", 1, 40, T.FLOAT), trees, 1, 1, None, 40, values, 0.1, T.FLOAT, True


@case
def many_features():
    rng = np.random.default_rng(10)
    trees = [grow(rng, 50, 70000, [LEQ], one(0), 0, SPLITS) for _ in range(9)]
    return model_old(trees, "TreeEnsembleRegressor", 1, 70000, T.FLOAT), trees, 1, 1, None, 70000, SPLITS, 0, T.FLOAT, True


@case
def double_inputs():
    """Splits that float cannot hold."""
    rng = np.random.default_rng(11)
    values = 1 + np.arange(20) * 1e-12
    trees = [grow(rng, 19, 4, [LEQ, GTE], one(0), 0, values) for _ in range(20)]
    return model_old(trees, "TreeEnsembleRegressor", 1, 4, T.DOUBLE), trees, 1, 1, None, 4, values, 0, T.DOUBLE, True


def check(tools, make):
    model, trees, targets, aggregate, post, features, splits, nan, dtype, agrees = make()
    with tempfile.TemporaryDirectory() as tmp:
        path, bundle = os.path.join(tmp, "m.onnx"), os.path.join(tmp, "m.tsr")
        onnx.save(model, path)
        tools.compile(path, bundle)
        outs = [o.name for o in model.graph.output]
        for seed, n in enumerate((1, 2, 8, 9, 131) if features < 1000 else (1, 11)):
            rng = np.random.default_rng(100 + seed)
            x = rows_of(rng, n, features, splits, nan, dtype)
            scores = scores_of(trees, x, targets, aggregate)
            want = post(scores) if post else scores
            got = dict(zip(outs, tools.run(bundle, {"x": x}, len(outs))))
            e, why = error(got["y"].astype(np.float64), want)
            if not e <= 1e-6:
                raise Fault(f"batch {n}: {why or f'error {e:.2e}'}")
            if "label" in outs and (bad := np.count_nonzero(got["label"] != scores.argmax(1) * 10 + 3)):
                raise Fault(f"batch {n}: {bad} labels differ")
            if agrees:
                e, why = error(got["y"], dict(zip(outs, oracle(path).run(None, {"x": x})))["y"])
                if not e <= 1e-4:  # it sums floats
                    raise Fault(f"batch {n}: onnxruntime: {why or f'error {e:.2e}'}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    tools, tally = Tools(a.build), Tally()
    for name, make in CASES.items():
        if re.search(a.only, name):
            tally.attempt(name, check, tools, make)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
