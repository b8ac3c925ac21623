#!/usr/bin/env python3
"""Operators of com.microsoft, and SVMClassifier, by value against onnxruntime, which defines them, or against their schema's text in numpy where onnxruntime has no kernel for this processor; what has no rewrite must be refused by name.

usage: contrib.py [--build DIR] [--only REGEX]
"""
import argparse
import os
import re
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
from onnx import helper, numpy_helper

import contrib_attention  # noqa: F401  (cases register themselves)
import contrib_svm  # noqa: F401
import contrib_tensors  # noqa: F401
from contrib_cases import CASES
from harness import Fault, Refused, Tally, Tools, error, oracle


def build(op, inputs, outputs, attributes):
    names, values, constants, feeds = [], [], [], {}
    for i, v in enumerate(inputs):
        names.append("" if v is None else f"i{i}")
        if v is None:
            continue
        if isinstance(v, tuple):
            feeds[f"i{i}"] = v[1]
            values.append(helper.make_tensor_value_info(f"i{i}", helper.np_dtype_to_tensor_dtype(v[1].dtype), v[1].shape))
        else:
            constants.append(numpy_helper.from_array(np.asarray(v), f"i{i}"))
    outs = [f"o{i}" if o else "" for i, o in enumerate([1] * outputs if isinstance(outputs, int) else outputs)]
    domain, _, kind = op.rpartition(".")
    node = helper.make_node(kind, names, outs, domain=domain or "com.microsoft", **attributes)
    # Types of outputs are what the operator gives; onnxruntime finds them.
    graph = helper.make_graph([node], "g", values, [onnx.ValueInfoProto(name=o) for o in outs if o], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=10), feeds


def check(tools, op, inputs, outputs, limit, refused, want, attributes):
    model, feeds = (onnx.parser.parse_model(op), inputs) if isinstance(inputs, dict) else build(op, inputs, outputs, attributes)
    with tempfile.TemporaryDirectory() as tmp:
        path, bundle = os.path.join(tmp, "m.onnx"), os.path.join(tmp, "m.tsr")
        onnx.save(model, path)
        if want is not None:
            for o, w in zip(model.graph.output, want):
                o.CopyFrom(helper.make_tensor_value_info(o.name, helper.np_dtype_to_tensor_dtype(w.dtype), None))
        elif not refused:
            session = oracle(path)
            for o, found in zip(model.graph.output, session.get_outputs()):
                kind = getattr(onnx.TensorProto, re.search(r"\((\w+)\)", found.type)[1].upper())
                o.CopyFrom(helper.make_tensor_value_info(o.name, kind, None))
            want = session.run(None, feeds)
        else:
            for o in model.graph.output:
                label = op.startswith("ai.onnx.ml") and o.name == "o0"
                o.CopyFrom(helper.make_tensor_value_info(o.name, onnx.TensorProto.INT64 if label else onnx.TensorProto.FLOAT, None))
        onnx.save(model, path)
        try:
            tools.compile(path, bundle)
        except Refused as why:
            if refused and op in why.said and (refused is True or refused in why.said):
                return
            raise
        if refused:
            raise Fault("was not refused")
        for i, (g, x) in enumerate(zip(tools.run(bundle, feeds, len(want)), want)):
            if x.dtype.kind in "iub":
                if g.dtype != x.dtype or g.shape != x.shape:
                    raise Fault(f"output {i}: {g.dtype}{list(g.shape)}, expected {x.dtype}{list(x.shape)}")
                off = np.abs(g.astype(np.int64) - x.astype(np.int64))
                if off.size and (off.max() > limit or np.count_nonzero(off) > 0.05 * off.size):
                    raise Fault(f"output {i}: {np.count_nonzero(off)} of {off.size} values differ, by up to {off.max()}")
                continue
            if x.dtype == object:
                if list(g) != list(x):
                    raise Fault(f"output {i}: {list(g)}, expected {list(x)}")
                continue
            e, why = error(g, x)
            if not e <= limit:
                raise Fault(f"output {i}: {why or f'error {e:.2e} over {limit:g}'}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    tools, tally = Tools(a.build), Tally()
    for name, *rest in CASES:
        if re.search(a.only, name):
            tally.attempt(name, check, tools, *rest, faults=Exception)  # the oracle's own faults too
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
