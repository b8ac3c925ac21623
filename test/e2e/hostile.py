#!/usr/bin/env python3
"""Models that mean harm, and broken ones: refused with status 1 and a message, never a crash, never a file read that was not given.

usage: hostile.py [--build DIR] [--mutants N]

Named cases must be refused. Mutants (the graphs of graphs.py with bytes changed, the places decided by the commit) may be accepted or refused.
"""
import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile

import onnx
from onnx import TensorProto, helper as h

import graphs
from harness import Tally, Tools, commit_seed

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, shape, kind=FLOAT):
    return h.make_tensor_value_info(name, kind, shape)


def simple(nodes, inputs=(("x", [4]),), outputs=(("y", [4]),), initializers=(), opset=21, domain="", ir=10):
    g = h.make_graph(nodes, "g", [value(*i) for i in inputs], [value(*o) for o in outputs], list(initializers))
    return h.make_model(g, opset_imports=[h.make_opsetid(domain, opset)], ir_version=ir)


def external(location, offset="0", length="16"):
    t = TensorProto(name="w", data_type=FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for k, v in (("location", location), ("offset", offset), ("length", length)):
        t.external_data.add(key=k, value=v)
    return simple([h.make_node("Add", ["x", "w"], ["y"])], initializers=[t])


def constant(name, values):
    return h.make_tensor(name, INT64, [len(values)], values)


def packed():
    """N * K * bits is 2^64."""
    node = h.make_node("MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", N=2**31, K=2**31, bits=4, block_size=1)
    m = simple([node], inputs=(("x", [1, 4]), ("s", [4])), outputs=(("y", [1, 4]),), initializers=[h.make_tensor("b", TensorProto.UINT8, [0], [])])
    m.opset_import.append(h.make_opsetid("com.microsoft", 1))
    return m


def named(tmp):
    """(name, model or bytes): each must be refused."""
    with open(os.path.join(tmp, "secret"), "wb") as f:
        f.write(bytes(64))
    os.makedirs(os.path.join(tmp, "in"), exist_ok=True)
    with open(os.path.join(tmp, "in", "data"), "wb") as f:
        f.write(bytes(64))
    if not os.path.islink(os.path.join(tmp, "in", "link")):
        os.symlink("../secret", os.path.join(tmp, "in", "link"))
    add = [h.make_node("Add", ["x", "x"], ["y"])]
    yield "empty file", b""
    yield "text", b"this is no model\n" * 9
    yield "no graph", onnx.ModelProto(ir_version=10, opset_import=[h.make_opsetid("", 21)])
    yield "external: parent folder", external("../secret")
    yield "external: absolute path", external(os.path.join(tmp, "secret"))
    yield "external: link out of the folder", external("link")
    yield "external: missing", external("nothing")
    yield "external: no location", external("")
    yield "external: a folder", external(".")
    yield "external: beyond the end", external("data", "60")
    yield "external: negative offset", external("data", "-16")
    yield "external: offset wraps", external("data", str(2**64 - 8))
    yield "external: length of another shape", external("data", "0", "12")
    yield "cycle", simple([h.make_node("Add", ["x", "b"], ["a"]), h.make_node("Relu", ["a"], ["b"]), h.make_node("Relu", ["b"], ["y"])])
    yield "undefined input", simple([h.make_node("Add", ["x", "nothing"], ["y"])])
    yield "defined twice", simple([h.make_node("Relu", ["x"], ["y"]), h.make_node("Neg", ["x"], ["y"])])
    yield "opset 999", simple([h.make_node("Attention", ["x", "x", "x"], ["y"])], opset=999)
    yield "unknown operator", simple([h.make_node("Nonsense", ["x"], ["y"])])
    yield "unknown domain", simple([h.make_node("Relu", ["x"], ["y"], domain="nowhere")])
    yield "giant constant", simple([h.make_node("ConstantOfShape", ["s"], ["a"]), h.make_node("ReduceSum", ["a"], ["r"], keepdims=0), h.make_node("Add", ["x", "r"], ["y"])],
                                   initializers=[constant("s", [2**31, 2**31, 4])])
    yield "negative dimension", simple(add, inputs=(("x", [-4]),), outputs=(("y", [-4]),))
    yield "dimensions overflow", simple(add, inputs=(("x", [2**62, 2**62]),), outputs=(("y", [2**62, 2**62]),))
    yield "weights too short", simple([h.make_node("Add", ["x", "w"], ["y"])], initializers=[TensorProto(name="w", data_type=FLOAT, dims=[4], raw_data=bytes(8))])
    yield "stride zero", simple([h.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[0])], inputs=(("x", [1, 1, 8]),), outputs=(("y", [1, 1, 4]),))
    yield "group zero", simple([h.make_node("Conv", ["x", "w"], ["y"], group=0)], inputs=(("x", [1, 1, 8]), ("w", [1, 1, 2])), outputs=(("y", [1, 1, 7]),))
    yield "axis out of range", simple([h.make_node("Softmax", ["x"], ["y"], axis=7)])
    yield "permutation of nothing", simple([h.make_node("Transpose", ["x"], ["y"], perm=[1])])
    yield "wrong element type", simple([h.make_node("Add", ["x", "w"], ["y"])], initializers=[constant("w", [1, 2, 3, 4])])
    yield "reshape to more elements", simple([h.make_node("Reshape", ["x", "s"], ["y"])], outputs=(("y", [5]),), initializers=[constant("s", [5])])
    yield "equation of control characters", simple([h.make_node("Einsum", ["x"], ["y"], equation=b"\x03\x01")], outputs=(("y", []),))
    yield "fewer parts than outputs", simple([h.make_node("Split", ["x"], ["y", "z"], num_outputs=1)])
    yield "more parts than memory", simple([h.make_node("Split", ["x"], ["y"], num_outputs=2**40)])
    yield "negative batch dimensions", simple([h.make_node("GatherND", ["x", "i"], ["y"], batch_dims=-10)], initializers=[h.make_tensor("i", INT64, [2, 1], [0, 1])])
    yield "axis that narrows to -5", simple([h.make_node("LayerNormalization", ["x", "x"], ["y", "z"], axis=2**32 - 5)])
    yield "packed weights whose size wraps", packed()
    f = h.make_function("local", "f", ["a"], ["b"], [h.make_node("f", ["a"], ["b"], domain="local")], [h.make_opsetid("", 21), h.make_opsetid("local", 1)])
    m = simple([h.make_node("f", ["x"], ["y"], domain="local")])
    m.opset_import.append(h.make_opsetid("local", 1))
    m.functions.append(f)
    yield "function that calls itself", m


def call(tools, data, path):
    with open(path, "wb") as f:
        f.write(data)
    limit = 6 << 30
    try:
        p = subprocess.run([tools.tessera, "compile", path, "-o", path + ".tsr"], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=60,
                           preexec_fn=lambda: (resource.setrlimit(resource.RLIMIT_AS, (limit, limit)), resource.setrlimit(resource.RLIMIT_CORE, (0, 0))))
    except subprocess.TimeoutExpired:
        return None, "over 60 s"
    return p.returncode, (p.stderr.strip().splitlines() or [""])[-1][:200]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--mutants", type=int, default=150)
    a = ap.parse_args()
    tools, tally, rng = Tools(a.build), Tally(), random.Random(commit_seed())
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "in", "m.onnx")
        for name, model in named(tmp):
            try:
                data = model if isinstance(model, bytes) else model.SerializeToString()
            except Exception as e:  # protobuf's own limits keep it from being written at all
                tally.skip(name, str(e))
                continue
            status, why = call(tools, data, path)
            if status == 1 and why:
                tally.ok(name)
            else:
                tally.fail(name, f"status {status}, expected a refusal: {why}")
        good = [graphs.build(g[0], g[1], g[4]).SerializeToString() for g in graphs.GRAPHS]
        for k in range(a.mutants):
            data = bytearray(rng.choice(good))
            for _ in range(rng.choice((1, 1, 2, 8))):
                # The structure, not the weights: the first part and the end hold names, attributes, types.
                i = rng.randrange(min(len(data), 1500))
                data[i] = rng.randrange(256)
            if rng.random() < 0.1:
                data = data[: rng.randrange(len(data))]
            status, why = call(tools, bytes(data), path)
            if status in (0, 1):
                tally.ok(f"mutant {k}")
            else:
                keep = os.path.join(tempfile.gettempdir(), f"tessera-mutant-{k}.onnx")
                with open(keep, "wb") as f:
                    f.write(data)
                tally.fail(f"mutant {k}", f"status {status}: {why} (kept as {keep})")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
