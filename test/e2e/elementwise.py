#!/usr/bin/env python3
"""Every elementwise operator at every element type against the ONNX reference evaluator, special values included.

usage: elementwise.py [--build DIR] [--only REGEX] [--cpu QEMU_CPU] [-v]

With --cpu ("max,sme=off,sve-default-vector-length=32") the AArch64 code runs under QEMU.

One model an element type holds all operators of that type; bfloat16 comes and goes through casts, since .npy cannot hold it.
"""
import argparse
import os
import re
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h
from onnx.reference import ReferenceEvaluator

from harness import Fault, Refused, Tally, Tools

FLOATS = {"float": T.FLOAT, "double": T.DOUBLE, "float16": T.FLOAT16, "bfloat16": T.BFLOAT16}
INTS = {"int8": T.INT8, "uint8": T.UINT8, "int16": T.INT16, "uint16": T.UINT16, "int32": T.INT32, "uint32": T.UINT32, "int64": T.INT64, "uint64": T.UINT64}
RTOL = {"float": 4e-6, "double": 1e-14, "float16": 2e-3, "bfloat16": 1.6e-2}

UNARY = ["Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Sqrt", "Reciprocal", "Exp", "Log", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh",
         "Tanh", "Asinh", "Acosh", "Atanh", "Erf", "Relu", ("LeakyRelu", {"alpha": 0.1}), "Elu", ("Elu", {"alpha": 2.0}), "Selu", ("Celu", {"alpha": 1.5}),
         ("ThresholdedRelu", {"alpha": 0.7}), "HardSigmoid", "HardSwish", "Sigmoid", "Softplus", "Softsign", "Gelu", ("Gelu", {"approximate": "tanh"}), "Mish",
         "Swish", ("Swish", {"alpha": 1.7}), "Identity"]


def float_ops(name):
    """(operator, attributes, inputs, output type or None for the same)"""
    for op in UNARY:
        op, attrs = op if isinstance(op, tuple) else (op, {})
        yield op, attrs, "x", None
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"):
        yield op, {}, "xy", None
    yield "Mod", {"fmod": 1}, "xy", None
    yield "Mod", {}, "xy", None
    yield "Sum", {}, "xyz", None
    yield "Mean", {}, "xyz", None
    yield "Max", {}, "xyz", None
    yield "PRelu", {}, "xy", None
    for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
        yield op, {}, "xy", T.BOOL
    yield "IsNaN", {}, "x", T.BOOL
    for a in ({}, {"detect_negative": 0}, {"detect_positive": 0}):
        yield "IsInf", a, "x", T.BOOL
    if name != "bfloat16":
        yield "Shrink", {"bias": 0.25, "lambd": 0.75}, "x", None
    yield "Clip", {}, "xuv", None
    yield "Clip", {}, "x v", None
    yield "Clip", {}, "xvu", None  # least above greatest
    yield "Where", {}, "bxy", None


def int_ops(name):
    signed = not name.startswith("u")
    for op in ("Add", "Sub", "Mul", "Max", "Min", "BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield op, {}, "xy", None
    for op in ("Div", "Mod"):
        yield op, {}, "xd", None
    yield "Mod", {"fmod": 1}, "xd", None
    yield "Abs", {}, "x", None
    yield "Sign", {}, "x", None
    yield "BitwiseNot", {}, "x", None
    for direction in ("LEFT", "RIGHT"):
        yield "BitShift", {"direction": direction}, "xs", None
    for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
        yield op, {}, "xy", T.BOOL
    yield "Clip", {}, "xuv", None
    yield "Where", {}, "bxy", None
    if signed:
        yield "Neg", {}, "x", None
        yield "Relu", {}, "x", None
    if name in ("int32", "int64"):
        yield "Pow", {}, "xp", None


def inputs(name, rng, n):
    b = rng.integers(0, 2, n).astype(bool)
    if name in FLOATS:
        kind = {"float": np.float32, "double": np.float64, "float16": np.float16, "bfloat16": np.float32}[name]
        special = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, np.inf, -np.inf, np.nan, 2, -3, 20, -20, 100, -100])
        x = np.concatenate([special, rng.standard_normal(n - len(special)) * 3]).astype(kind)
        y = np.concatenate([np.roll(special, 4), rng.standard_normal(n - len(special)) * 3]).astype(kind)
        z = rng.standard_normal(n).astype(kind)
        return {"x": x, "y": y, "z": z, "u": kind(-1), "v": kind(1.5), "b": b}
    kind = np.dtype(name)
    info = np.iinfo(kind)
    x = rng.integers(info.min, info.max, n, dtype=kind, endpoint=True)
    y = rng.integers(info.min, info.max, n, dtype=kind, endpoint=True)
    x[:4] = [info.min, info.max, info.min, 0]
    d = np.where(rng.integers(0, 2, n) > 0, y, (y % 7).astype(kind)).astype(kind)
    d[d == 0] = 1
    if info.min < 0:
        d[4:8] = -1
        x[4:7] = [5, -5, info.max]
        d[:2] = [2, -2]
    s = rng.integers(-2 if info.min < 0 else 0, info.bits + 3, n).astype(kind)
    p = rng.integers(0, 5, n).astype(kind)
    return {"x": x, "y": y, "d": d, "s": s, "p": p, "u": kind.type(3), "v": kind.type(100), "b": b}


def model(name, ops):
    element = FLOATS.get(name) or INTS[name]
    through = element == T.BFLOAT16
    nodes, outputs, used = [], [], sorted({k for _, _, ins, _ in ops for k in ins if k != " "})
    graph_inputs = []
    for k in used:
        shape = [] if k in "uv" else ["n"]
        kind = T.BOOL if k == "b" else T.FLOAT if through else element
        graph_inputs.append(h.make_tensor_value_info(k + "_" if through and k != "b" else k, kind, shape))
        if through and k != "b":
            nodes.append(h.make_node("Cast", [k + "_"], [k], to=element))
    for i, (op, attrs, ins, out) in enumerate(ops):
        r = f"r{i}"
        raw = r + "_" if through and out is None else r
        nodes.append(h.make_node(op, ["" if k == " " else k for k in ins], [raw], name=f"{op}_{i}", **attrs))
        if raw != r:
            nodes.append(h.make_node("Cast", [raw], [r], to=T.FLOAT))
        outputs.append(h.make_tensor_value_info(r, out or (T.FLOAT if through else element), ["n"]))
    graph = h.make_graph(nodes, "g", graph_inputs, outputs)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 28)], ir_version=13), used


def differs(got, want, rtol, absolute=0.0):
    """None, or what is wrong."""
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if want.dtype.kind not in "f":
        bad = np.flatnonzero(got != want)
        return f"[{bad[0]}] is {got[bad[0]]}, not {want[bad[0]]} ({len(bad)} wrong)" if len(bad) else None
    g, w = got.astype(np.float64), want.astype(np.float64)
    tiny = {np.float64: 1e-300, np.float32: 1e-37, np.float16: 1e-5}[want.dtype.type]
    with np.errstate(all="ignore"):
        tiny = max(tiny, absolute)
        ok = (g == w) | (np.isnan(g) & np.isnan(w)) | (np.abs(g - w) <= rtol * np.abs(w) + tiny)
    bad = np.flatnonzero(~ok)
    return f"[{bad[0]}] is {got[bad[0]]!r}, not {want[bad[0]]!r} ({len(bad)} wrong)" if len(bad) else None


# Where the reference evaluator itself loses precision or wraps by accident of numpy.
LOOSE = {"Softplus": 1e-3, "Gelu": 1e-3, "Mish": 1e-3, "Celu": 1e-5, "Selu": 1e-5, "Elu": 1e-5, "HardSigmoid": 1e-5, "HardSwish": 1e-5, "Tan": 1e-5,
         "Sigmoid": 1e-5, "Swish": 1e-5, "Pow": 1e-5, "Erf": 1e-6}
GELU = {"float16": 2e-3, "bfloat16": 2e-2} # it rounds after every step of x / 2 (1 + erf)
# Ours: NaN goes through activations; the reference compares it away.
NAN_STAYS = {"ThresholdedRelu", "Shrink"}


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--build")
    args.add_argument("--only", default="")
    args.add_argument("--cpu")
    args.add_argument("-v", action="store_true")
    args = args.parse_args()
    tools, tally = Tools(args.build), Tally(args.v)
    warnings.filterwarnings("ignore")
    runner = ["qemu-aarch64", "-cpu", args.cpu, os.path.join(tools.bin, "tsr-run-aarch64")] if args.cpu else None
    target = ["--target", "generic-arm64-sme2"] if args.cpu else []
    for name in [*FLOATS, *INTS]:
        if not re.search(args.only, name):
            continue
        rng = np.random.default_rng(5)
        ops = list(float_ops(name) if name in FLOATS else int_ops(name))
        proto, used = model(name, ops)
        feeds = {k: v for k, v in inputs(name, rng, 131).items() if k in used}
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, "m.onnx")
            onnx.save(proto, path)
            try:
                tools.compile(path, path + ".tsr", *target)
                feeds = {i.name: feeds[i.name.rstrip("_")] for i in proto.graph.input}
                got = tools.run(path + ".tsr", feeds, len(ops), runner=runner)
            except (Refused, Fault) as e:
                tally.fail(name, str(e))
                continue
            with np.errstate(all="ignore"):
                want = ReferenceEvaluator(proto).run(None, feeds)
        for (op, attrs, ins, _), g, w in zip(ops, got, want):
            if op in NAN_STAYS and len(ins) == 1:
                w = np.where(np.isnan(feeds.get("x", feeds.get("x_"))), np.nan, w).astype(w.dtype)
            why = differs(g, w, max(RTOL.get(name, 0), LOOSE.get(op, 0)), GELU.get(name, 1e-6) if op == "Gelu" else 0.0)
            label = f"{name} {op}{attrs or ''}({ins})"
            tally.fail(label, why) if why else tally.ok(label)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
