#!/usr/bin/env python3
"""Products of bytes with float readers on an Ethos-U: their int32 sums cross the border, and the processor scales them.

usage: integer_sums.py [--build DIR] [--only REGEX]

Each graph is compiled with everything on the NPU that it takes, by Vela, and its plan is played. Values are those of the processor alone bit for bit, which
both on a host and with the target's form of the graph, and onnxruntime's within rounding. Every product must be in a segment.
"""
import argparse
import json
import os
import re
import sys
import tempfile

import numpy as np

from harness import CACHE, Fault, Tally, Tools, error, oracle

PYTHON = os.path.join(CACHE, "venv-tosa", "bin", "python")
TARGETS = "ethos-u55-256", "ethos-u85-256"


class Net:
    """A graph under construction; values are names."""

    def __init__(self, seed, shape):
        self.rng, self.nodes, self.weights, self.outputs, self.shape = np.random.default_rng(seed), [], [], [], shape

    def const(self, v):
        import onnx
        name = f"c{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.asarray(v), name))
        return name

    def op(self, kind, *ins, outs=1, **attributes):
        import onnx
        names = [f"{kind}{len(self.nodes)}_{i}" for i in range(outs)]
        self.nodes.append(onnx.helper.make_node(kind, ins, names, name=f"{kind}{len(self.nodes)}", **attributes))
        return names if outs > 1 else names[0]

    def bytes(self, *shape, dtype=np.int8):
        info = np.iinfo(dtype)
        return self.rng.integers(info.min + (dtype == np.int8), info.max + 1, shape).astype(dtype)

    def input(self, dtype=np.int8, zero=3):
        z, s = self.const(np.array(zero, dtype)), self.const(np.float32(0.02))
        return self.op("DequantizeLinear", self.op("QuantizeLinear", "x", s, z), s, z)

    def weight(self, *shape, axis=None):
        k = self.bytes(*shape)
        if axis is None:
            return self.op("DequantizeLinear", self.const(k), self.const(np.float32(0.0123)), self.const(np.int8(0)))
        s = self.rng.uniform(0.005, 0.03, shape[axis]).astype(np.float32)
        return self.op("DequantizeLinear", self.const(k), self.const(s), self.const(np.zeros(shape[axis], np.int8)), axis=axis)

    def floats(self, *shape):
        return self.const(self.rng.normal(size=shape).astype(np.float32))

    def dynamic(self):
        return self.op("DynamicQuantizeLinear", "x", outs=3)

    def scaled(self, sums, scale):
        """Read as floats, by what is not quantised."""
        return self.op("Sigmoid", self.op("Mul", self.op("Cast", sums, to=1), self.op("Mul", scale, self.const(np.float32(0.004)))))

    def model(self):
        import onnx
        from onnx import TensorProto, helper
        ins = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        outs = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in self.outputs]
        graph = helper.make_graph(self.nodes, "g", ins, outs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def matmul(n):
    x = n.input()
    n.outputs = [n.op("Softmax", n.op("Add", n.op("MatMul", x, n.weight(24, 10, axis=1)), n.floats(10))),
                 n.op("Exp", n.op("MatMul", n.op("Transpose", x, perm=[1, 0]), n.weight(6, 8)))]


def gemm(n):
    n.outputs = [n.op("Gemm", n.input(np.uint8, 131), n.weight(7, 24), n.floats(7), transB=1, alpha=0.5)]


def conv(n):
    x = n.input()
    n.outputs = [n.op("Sigmoid", n.op("Conv", x, n.weight(5, 4, 3, 3, axis=0), n.floats(5), pads=[0, 1, 1, 1], strides=[1, 2])),
                 n.op("Exp", n.op("Conv", x, n.weight(8, 1, 3, 3), pads=[1, 1, 1, 1], group=4))]


def run_matmul(n):
    q, s, z = n.dynamic()
    n.outputs = [n.scaled(n.op("MatMulInteger", q, n.const(n.bytes(24, 10) // 2), z), s),
                 n.scaled(n.op("MatMulInteger", q, n.const(n.bytes(24, 7, dtype=np.uint8)), z, n.const(np.uint8(117))), s)]


def run_conv(n):
    q, s, z = n.dynamic()
    n.outputs = [n.scaled(n.op("ConvInteger", q, n.const(n.bytes(5, 4, 3, 3, dtype=np.uint8)), z, n.const(np.uint8(140)), pads=[1, 0, 2, 1], strides=[2, 1]), s),
                 n.scaled(n.op("ConvInteger", q, n.const(n.bytes(6, 4, 1, 1, dtype=np.uint8)), z, n.const(np.uint8(3))), s)]


def run_conv_line(n):
    q, s, z = n.dynamic()
    n.outputs = [n.scaled(n.op("ConvInteger", q, n.const(n.bytes(5, 4, 3) // 2), z, pads=[1, 1]), s)]


# Name, how it is built, the input's shape, products.
GRAPHS = [("matmul", matmul, (6, 24), 2), ("gemm", gemm, (5, 24), 1), ("conv", conv, (1, 4, 9, 10), 2), ("run_matmul", run_matmul, (6, 24), 2),
          ("run_conv", run_conv, (1, 4, 9, 10), 2), ("run_conv_line", run_conv_line, (2, 4, 30), 1)]


def check(tools, name, build, shape, products):
    import onnx
    net = Net(len(name), shape)
    build(net)
    feeds = {"x": (net.rng.normal(size=shape) * 1.5).astype(np.float32)}
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "m.onnx")
        onnx.save(net.model(), path)
        want = oracle(path).run(None, feeds)
        plans = [("host", "host-x86-64", [], [])]
        for t in TARGETS:
            plans += [(t, t, ["--pin", "*=npu"], ["--emulate", "npu"]), (t + " cpu", t, ["--pin", "*=cpu"], [])]
        first = None
        for label, target, pins, options in plans:
            out = os.path.join(tmp, "m.tsr")
            tools.call([tools.tessera, "compile", path, "-o", out, "--target", target, "-q", *pins], env={**os.environ, "TESSERA_VELA_PYTHON": PYTHON})
            got = tools.run(out, feeds, len(want), *options)
            for g, w in zip(got, want):
                e, why = error(g, w)
                if not e <= 1e-5:
                    raise Fault(f"{label}: {why or f'error {e:.2e}'} against onnxruntime")
            first = first or got
            if any(g.tobytes() != f.tobytes() for g, f in zip(got, first)):
                raise Fault(f"{label}: not the bits of the processor alone")
            if options:
                text = tools.call([tools.tessera, "compile", path, "--target", target, "-q", *pins, "--compile-to", "partition", "--dump-after", "partition"],
                                  env={**os.environ, "TESSERA_VELA_PYTHON": PYTHON})
                inside = len(re.findall(r"^ {4}.*onnx\.(?:MatMul|Conv)Integer", text, re.M))
                if inside != products:
                    raise Fault(f"{label}: {inside} products in segments, expected {products}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    tools, tally = Tools(a.build), Tally()
    for name, *graph in GRAPHS:
        if re.search(a.only, name):
            tally.attempt(name, check, tools, name, *graph)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
