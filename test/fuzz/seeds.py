#!/usr/bin/env python3
"""Fills test/corpus/import with a small model for each operator: the smallest of ONNX's backend cases that uses it, and of the models in text of test/lit/Import.

usage: seeds.py [--cases DIR] [--most BYTES]

What is there stays; a model above --most bytes is left out. Names and doc strings that no edge needs are cut.
"""
import argparse
import glob
import os
import re

import onnx

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CORPUS = os.path.join(TOP, "test", "corpus", "import")
CACHE = os.environ.get("TESSERA_CACHE") or os.path.expanduser("~/.cache/tessera")


def slim(model):
    del model.metadata_props[:]
    for field in ("doc_string", "producer_name", "producer_version", "domain"):
        model.ClearField(field)
    model.graph.name = "g"
    for node in model.graph.node:
        node.ClearField("doc_string")
        node.ClearField("name")
    return model.SerializeToString()


def operators(model):
    """(domain, operator, version) of the nodes outside of bodies."""
    opsets = {o.domain: o.version for o in model.opset_import}
    for node in model.graph.node:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if domain not in opsets:
            continue
        try:
            version = onnx.defs.get_schema(node.op_type, opsets[domain], domain).since_version
        except onnx.defs.SchemaError:
            version = opsets[domain]
        yield domain, node.op_type, version


def texts():
    """Models of the lit tests: whole files, and parts of split files."""
    for path in sorted(glob.glob(os.path.join(TOP, "test", "lit", "Import", "*"))):
        with open(path) as f:
            for part in re.split(r"^#--- .*\n", f.read(), flags=re.M):
                start = re.search(r"^<", part, flags=re.M)
                if start:
                    yield part[start.start():]


def models(cases):
    for path in sorted(glob.glob(os.path.join(cases, "*", "*", "model.onnx"))):
        if os.path.getsize(path) < 65536:
            yield onnx.load(path)
    for text in texts():
        try:
            yield onnx.parser.parse_model(text)
        except onnx.parser.ParseError:
            continue


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--cases", default=os.path.join(CACHE, "conformance"))
    ap.add_argument("--most", type=int, default=700)
    a = ap.parse_args()
    best = {}
    for model in models(a.cases):
        found = set(operators(model))
        data = slim(model)
        for key in found:
            if len(data) <= a.most and (key not in best or len(data) < len(best[key])):
                best[key] = data
    written = set()
    for (domain, op, version), data in sorted(best.items()):
        if data in written:
            continue
        written.add(data)
        with open(os.path.join(CORPUS, f"{domain.split('.')[-1] + '-' if domain else ''}{op}-{version}.onnx"), "wb") as f:
            f.write(data)
    print(f"{len(written)} models, {sum(map(len, written))} bytes")


if __name__ == "__main__":
    main()
