#!/usr/bin/env python3
"""GPU kernels by value: a model's dispatches compiled to SPIR-V, checked by spirv-val and run on the software driver.

usage: gpu.py [--build DIR] [--models MODEL.onnx ...] [--backend LIMIT] [FILTER]

Every shader passes spirv-val for Vulkan 1.1 and runs under the validation layer with synchronisation checks: a message is a failure. Values are
those of onnxruntime without optimisations. A case runs, or is refused with the reason that it names. --models runs whole models, --backend ONNX's
backend cases; there a dispatch that the GPU refuses makes the case a skip with its reasons. Without a driver or the host program everything is skipped.
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import gpu_few_bits
import gpu_forms
from harness import CACHE, Tally, Tools

FEATURES = "float16,int8,int16,int64,storage8,storage16"
DOT = FEATURES + ",dot"
ICD = "/usr/share/vulkan/icd.d/lvp_icd.x86_64.json"


class Gpu:
    def __init__(self, build=None, features=FEATURES):
        self.bin = Tools(build).bin
        self.features = features
        self.env = dict(os.environ, VK_ICD_FILENAMES=ICD, LP_NUM_THREADS="1")

    def missing(self):
        for what, there in (("gpu-host", os.path.exists(os.path.join(self.bin, "gpu-host"))), ("spirv-val", shutil.which("spirv-val")), ("a Vulkan driver", os.path.exists(ICD))):
            if not there:
                return what
        return None

    def compile(self, model, folder, *options):
        """The plan, or (None, reasons)."""
        p = subprocess.run([os.path.join(self.bin, "tessera-opt"), "--gpu-kernels", folder, "--features", self.features, *options, model], capture_output=True, text=True, timeout=600)
        path = os.path.join(folder, "kernels.json")
        if p.returncode not in (0, 1) or not os.path.exists(path):
            if p.returncode not in (0, 1):
                raise RuntimeError(f"tessera-opt: status {p.returncode}: {p.stderr[-400:]}")
            return None, [p.stderr.strip().splitlines()[-1] if p.stderr.strip() else "no plan"]
        plan = json.load(open(path))
        reasons = [f"{k['class']} {k['root']}: {'; '.join(k['refused'])}" for k in plan["kernels"] if "refused" in k]
        return (None, reasons) if reasons else (plan, [])

    def check(self, plan, folder):
        files = [os.path.join(folder, k["file"]) for k in plan["kernels"]]
        for f in files:
            p = subprocess.run(["spirv-val", "--target-env", "vulkan1.1", f], capture_output=True, text=True)
            if p.returncode:
                raise RuntimeError(f"spirv-val {os.path.basename(f)}: {(p.stdout + p.stderr).strip()[:300]}")

    def run(self, plan, folder, inputs, validate=True):
        lines = []
        for i, b in enumerate(plan["buffers"]):
            file = "-"
            if b["kind"] == "constant":
                file = os.path.join(folder, b["file"])
            elif b["kind"] == "input":
                file = os.path.join(folder, f"in{b['index']}.bin")
                np.ascontiguousarray(inputs[b["index"]]).tofile(file)
            lines.append(f"buffer {b['bytes']} {file}")
        for k in plan["kernels"]:
            lines.append(" ".join(["kernel", os.path.join(folder, k["file"]), k["entry"], *map(str, k["groups"]), *map(str, k["bindings"])]))
        for i, o in enumerate(plan["outputs"]):
            lines.append(f"output {o} {os.path.join(folder, f'out{i}.bin')}")
        program = os.path.join(folder, "program")
        open(program, "w").write("\n".join(lines) + "\n")
        p = subprocess.run([os.path.join(self.bin, "gpu-host"), *(["--validate"] if validate else []), program], capture_output=True, text=True, env=self.env, timeout=900)
        if p.returncode or not p.stdout.strip().endswith("messages 0"):
            raise RuntimeError(f"gpu-host: status {p.returncode}: {(p.stderr + p.stdout).strip()[:600]}")
        return [open(os.path.join(folder, f"out{i}.bin"), "rb").read() for i in range(len(plan["outputs"]))]


def reference(model, inputs):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model if isinstance(model, str) else model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: v for i, v in zip(session.get_inputs(), inputs)})


def compare(got, want, rtol, atol):
    """None, or what differs. The absolute tolerance is in parts of the greatest magnitude."""
    want = np.asarray(want)
    got = np.frombuffer(got, want.dtype).reshape(want.shape)
    if want.dtype.kind != "f":
        bad = got != want
    else:
        finite = want[np.isfinite(want)]
        scale = float(np.abs(finite).max()) if finite.size else 0.0
        a, b = got.astype(np.float64), want.astype(np.float64)
        bad = ~(np.isclose(a, b, rtol=rtol, atol=atol * max(scale, 1e-30)) | (np.isnan(a) & np.isnan(b)) | (a == b))
    if bad.any():
        i = tuple(np.argwhere(bad)[0])
        return f"{bad.sum()} of {bad.size} differ, first at {i}: {got[i]} instead of {want[i]}"
    return None


def run_case(gpu, tally, name, model, inputs, want=None, rtol=1e-4, atol=1e-5, options=(), refused=None, most_constants=None):
    """`refused` is what the refusal says, "" for a case that has to run; without it a refusal is a skip. `most_constants` bounds the bytes of constants that kernels read."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = model
            if not isinstance(model, str):
                path = os.path.join(folder, "model.onnx")
                onnx.save(model, path)
            plan, reasons = gpu.compile(path, folder, *options)
            said = " | ".join(reasons)[:300]
            if plan is None and refused is None:
                tally.skip(name, said)
                return False
            if (plan is None or refused) and not (refused and refused in said):
                raise RuntimeError(f"refused: {said or 'not at all'}; expected: {refused or 'values'}")
            if refused:
                tally.ok(name)
                return True
            gpu.check(plan, folder)
            constants = sum(plan["buffers"][i]["bytes"] for i in {i for k in plan["kernels"] for i in k["bindings"]} if plan["buffers"][i]["kind"] == "constant")
            if most_constants and constants > most_constants:
                raise RuntimeError(f"{constants} bytes of constants instead of {most_constants} at most")
            outputs = gpu.run(plan, folder, inputs)
            wanted = reference(path, inputs) if want is None else want
            if len(outputs) != len(wanted):
                raise RuntimeError("number of outputs")
            for i, (g, w) in enumerate(zip(outputs, wanted)):
                if difference := compare(g, w, rtol, atol):
                    raise RuntimeError(f"output {i}: {difference}")
            tally.ok(name)
            return True
        except Exception as e:  # noqa: BLE001: any trouble is the case's failure
            tally.fail(name, f"{type(e).__name__}: {e}"[:500])
            return False


def model_of(nodes, inputs, outputs, constants=(), opset=21):
    """inputs: {name: array}; outputs: {name: (dtype, shape)} or names."""
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()],
                              [helper.make_tensor_value_info(n, t, s) for n, (t, s) in outputs.items()], [numpy_helper.from_array(a, n) for n, a in dict(constants).items()])
    m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    m.ir_version = 10
    return m


F, H, I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64


class Cases:
    """Names and (model, inputs, tolerances); seeded, so the same each time."""

    def __init__(self):
        self.r = np.random.default_rng(7)
        self.all = []

    def f(self, *shape, dtype=np.float32):
        return self.r.standard_normal(shape).astype(dtype)

    def add(self, name, nodes, inputs, outputs, constants=(), opset=21, **tolerances):
        self.all.append((name, model_of(nodes, inputs, outputs, constants, opset), list(inputs.values()), tolerances))

    def one(self, name, op, inputs, shape, constants=(), dtype=F, tolerances=None, opset=21, **attributes):
        names = [*inputs, *[c for c in dict(constants) if c not in inputs]]
        self.add(name, [helper.make_node(op, names, ["y"], **attributes)], inputs, {"y": (dtype, shape)}, constants, opset, **(tolerances or {}))

    def build(self):
        self.elementwise()
        self.movement()
        self.contraction()
        gpu_few_bits.add(self)
        self.convolution()
        self.pooling()
        self.rows()
        self.indexed()
        self.attributes()
        self.single()
        self.positions()
        self.scattered()
        self.sampled()
        self.recurrent()
        self.refusals()
        gpu_forms.add(self)
        return self.all

    def elementwise(self):
        for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Gelu", "HardSwish", "Softplus", "Abs", "Neg", "Floor", "Ceil", "Round", "Elu", "LeakyRelu", "Mish", "Sqrt", "Reciprocal", "Log"):
            x = self.f(3, 8, 20) * 3
            if op in ("Sqrt", "Log"):
                x = np.abs(x) + 1e-3
            self.one(f"unary-{op}", op, {"x": x}, x.shape)
        self.one("unary-ragged", "Relu", {"x": self.f(3, 5, 7)}, (3, 5, 7))
        special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 88.7, -103.9, 104, -0.3, 1e-7], np.float32)
        for op in ("Exp", "Tanh", "Sigmoid", "Relu", "Erf", "Round"):
            self.one(f"special-{op}", op, {"x": special}, special.shape)
        for op in ("Add", "Mul", "Sub", "Div", "Max", "Min"):
            self.one(f"binary-{op}", op, {"a": self.f(2, 6, 8), "b": self.f(6, 8)}, (2, 6, 8))
        self.one("broadcast-middle", "Add", {"a": self.f(2, 6, 8), "b": self.f(2, 1, 8)}, (2, 6, 8))
        self.one("broadcast-last", "Mul", {"a": self.f(2, 6, 8), "b": self.f(2, 6, 1)}, (2, 6, 8))
        self.one("broadcast-both", "Mul", {"a": self.f(2, 1, 8), "b": self.f(6, 1)}, (2, 6, 8))
        self.one("half", "Tanh", {"x": self.f(4, 12, dtype=np.float16)}, (4, 12), dtype=H, tolerances=dict(rtol=2e-3, atol=1e-3))
        n = helper.make_node
        self.add("chain", [n("Mul", ["x", "s"], ["a"]), n("Sigmoid", ["a"], ["b"]), n("Mul", ["x", "b"], ["c"]), n("Add", ["c", "z"], ["y"])], {"x": self.f(4, 16, 12), "z": self.f(12)},
                 {"y": (F, (4, 16, 12))}, {"s": np.array(1.702, np.float32)})
        self.add("compare", [n("Greater", ["a", "b"], ["c"]), n("Where", ["c", "a", "b"], ["y"]), n("Not", ["c"], ["d"])], {"a": self.f(5, 8), "b": self.f(5, 8)},
                 {"y": (F, (5, 8)), "d": (TensorProto.BOOL, (5, 8))})
        self.add("cast", [n("Cast", ["x"], ["i"], to=TensorProto.INT32), n("Mul", ["i", "i"], ["y"])], {"x": self.f(5, 9) * 20}, {"y": (TensorProto.INT32, (5, 9))})
        self.one("int64", "Add", {"a": np.arange(24).reshape(4, 6), "b": np.arange(6)}, (4, 6), dtype=I64)
        self.add("quantise", [n("QuantizeLinear", ["x", "s", "z"], ["q"]), n("DequantizeLinear", ["q", "s", "z"], ["y"])], {"x": self.f(4, 8) * 4}, {"y": (F, (4, 8)), "q": (TensorProto.UINT8, (4, 8))},
                 {"s": np.array(0.05, np.float32), "z": np.array(120, np.uint8)})
        self.add("large", [n("Add", ["x", "x"], ["y"])], {"x": self.f(1024, 2500)}, {"y": (F, (1024, 2500))})

    def movement(self):
        n = helper.make_node
        self.one("transpose", "Transpose", {"x": self.f(3, 8, 12)}, (12, 3, 8), perm=[2, 0, 1])
        self.one("transpose-matrix", "Transpose", {"x": self.f(37, 53)}, (53, 37), perm=[1, 0])
        self.one("transpose-rows", "Transpose", {"x": self.f(3, 8, 12)}, (8, 3, 12), perm=[1, 0, 2])
        self.one("transpose-int8", "Transpose", {"x": self.r.integers(-128, 127, (6, 9), dtype=np.int8)}, (9, 6), dtype=TensorProto.INT8, perm=[1, 0])
        self.one("concat-last", "Concat", {"a": self.f(4, 3), "b": self.f(4, 6)}, (4, 9), axis=-1)
        self.one("concat-quads", "Concat", {"a": self.f(2, 3, 8), "b": self.f(2, 5, 8)}, (2, 8, 8), axis=1)
        self.add("split", [n("Split", ["x", "s"], ["a", "b"], axis=1)], {"x": self.f(3, 12, 4)}, {"a": (F, (3, 4, 4)), "b": (F, (3, 8, 4))}, {"s": np.array([4, 8])})
        self.one("slice", "Slice", {"x": self.f(6, 10, 8)}, (3, 3, 8), {"b": np.array([1, 9]), "e": np.array([6, 0]), "a": np.array([0, 1]), "s": np.array([2, -3])})
        self.one("expand", "Expand", {"x": self.f(3, 1, 8)}, (2, 3, 5, 8), {"s": np.array([2, 3, 5, 8])})
        self.one("tile", "Tile", {"x": self.f(3, 4)}, (6, 12), {"s": np.array([2, 3])})
        self.one("depth-to-space", "DepthToSpace", {"x": self.f(1, 8, 3, 5)}, (1, 2, 6, 10), blocksize=2)
        self.one("space-to-depth", "SpaceToDepth", {"x": self.f(1, 2, 6, 10)}, (1, 8, 3, 5), blocksize=2)
        for mode in ("constant", "reflect", "edge", "wrap"):
            self.one(f"pad-{mode}", "Pad", {"x": self.f(2, 5, 6)}, (2, 8, 10), {"p": np.array([0, 1, 3, 0, 2, 1])}, mode=mode)
        for mode, coordinates in (("nearest", "asymmetric"), ("nearest", "half_pixel"), ("linear", "half_pixel"), ("linear", "align_corners"), ("linear", "pytorch_half_pixel")):
            self.add(f"resize-{mode}-{coordinates}", [n("Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode=coordinates)], {"x": self.f(1, 8, 5, 7)},
                     {"y": (F, (1, 8, 10, 21))}, {"s": np.array([1, 1, 2, 3], np.float32)})

    def contraction(self):
        n = helper.make_node
        for m, k, c in ((196, 256, 64), (77, 124, 211), (5, 8, 10), (1, 512, 1000), (3, 7, 5), (33, 30, 8)):
            self.one(f"matmul-{m}x{k}x{c}", "MatMul", {"a": self.f(m, k)}, (m, c), {"b": self.f(k, c)})
            self.one(f"matmul-run-{m}x{k}x{c}", "MatMul", {"a": self.f(m, k), "b": self.f(k, c)}, (m, c))
        self.one("matmul-batch", "MatMul", {"a": self.f(2, 3, 9, 16), "b": self.f(3, 16, 12)}, (2, 3, 9, 12))
        self.one("matmul-f16", "MatMul", {"a": self.f(20, 256, dtype=np.float16)}, (20, 40), {"b": self.f(256, 40, dtype=np.float16)}, dtype=H, tolerances=dict(rtol=1e-2, atol=5e-3))
        for ta in (0, 1):
            for tb in (0, 1):
                self.one(f"gemm-{ta}{tb}", "Gemm", {"a": self.f(*((12, 9) if ta else (9, 12)))}, (9, 20), {"b": self.f(*((20, 12) if tb else (12, 20))), "c": self.f(20)}, transA=ta, transB=tb, alpha=0.5, beta=2.0)
        self.integers()
        self.add("matmul-epilogue", [n("MatMul", ["a", "b"], ["m"]), n("Add", ["m", "c"], ["s"]), n("Relu", ["s"], ["r"]), n("Add", ["r", "z"], ["y"])], {"a": self.f(30, 16), "z": self.f(30, 24)},
                 {"y": (F, (30, 24))}, {"b": self.f(16, 24), "c": self.f(24)})
        self.add("matmul-epilogue-ragged", [n("MatMul", ["a", "b"], ["m"]), n("Add", ["m", "c"], ["s"]), n("Sigmoid", ["s"], ["y"])], {"a": self.f(30, 16)}, {"y": (F, (30, 23))},
                 {"b": self.f(16, 23), "c": self.f(23)})

    def bytes(self, *shape, unsigned=False):
        return self.r.integers(0, 256, shape).astype(np.uint8) if unsigned else self.r.integers(-128, 128, shape).astype(np.int8)

    def integers(self):
        """Products of bytes. onnxruntime's may saturate, so they are numpy's; convolutions, which it has for unsigned bytes alone, are its in float32, where they are exact."""
        n, i32 = helper.make_node, TensorProto.INT32
        for m, k, c, unsigned in ((37, 64, 40, True), (5, 20, 7, False), (8, 48, 64, False), (6, 15, 12, True), (9, 24, 20, False), (1, 64, 12, False)):
            a, b, za = self.bytes(m, k, unsigned=unsigned), self.bytes(k, c), np.array(117 if unsigned else 3, np.uint8 if unsigned else np.int8)
            want = (a.astype(np.int32) - int(za)) @ b.astype(np.int32)
            self.one(f"matmul-int8-{m}x{k}x{c}", "MatMulInteger", {"a": a}, (m, c), {"b": b, "za": za}, dtype=i32, tolerances=dict(want=[want]))
            self.add(f"matmul-int8-run-zero-{m}x{k}x{c}", [n("MatMulInteger", ["a", "b", "za"], ["y"])], {"a": a, "za": za}, {"y": (i32, (m, c))}, {"b": b}, want=[want])
        a, b = self.bytes(9, 32, unsigned=True), self.bytes(32, 12, unsigned=True)
        zb = self.bytes(12, unsigned=True)
        self.one("matmul-int8-zeros", "MatMulInteger", {"a": a}, (9, 12), {"b": b, "za": np.array(7, np.uint8), "zb": zb}, dtype=i32, tolerances=dict(want=[(a.astype(np.int32) - 7) @ (b.astype(np.int32) - zb)]))

        def conv(name, x, w, out, x_unsigned=False, w_unsigned=False, zero=5, known=True, **attributes):
            x, w = self.bytes(*x, unsigned=x_unsigned), self.bytes(*w, unsigned=w_unsigned)
            zx, zw = np.array(zero, x.dtype), np.array(131 if w_unsigned else 0, w.dtype)
            constants = {"w": w, "zx": zx, **({"zw": zw} if w_unsigned else {})}
            floats = model_of([n("Conv", ["x", "w"], ["y"], **attributes)], {"x": x.astype(np.float32) - zero}, {"y": (F, out)}, {"w": w.astype(np.float32) - float(zw)})
            want = reference(floats, [x.astype(np.float32) - zero])[0].astype(np.int32)
            node = n("ConvInteger", ["x", *constants], ["y"], **attributes)
            inputs = {"x": x} if known else {"x": x, "zx": constants.pop("zx")}
            self.add(f"conv-int8-{name}", [node], inputs, {"y": (i32, out)}, constants, want=[want])

        conv("1x1", (1, 24, 9, 11), (16, 24, 1, 1), (1, 16, 9, 11))
        conv("3x3", (1, 16, 13, 12), (24, 16, 3, 3), (1, 24, 13, 12), pads=[1, 1, 1, 1])
        conv("3x3-stride", (2, 32, 13, 15), (8, 32, 3, 3), (2, 8, 7, 8), pads=[1, 1, 1, 1], strides=[2, 2], x_unsigned=True)
        conv("first", (1, 3, 17, 16), (16, 3, 3, 3), (1, 16, 9, 8), pads=[1, 1, 1, 1], strides=[2, 2], zero=-9)
        conv("one-channel", (1, 1, 20, 10), (12, 1, 5, 4), (1, 12, 20, 9), pads=[2, 1, 2, 1])
        conv("unsigned-weights", (1, 16, 8, 8), (12, 16, 3, 3), (1, 12, 8, 8), pads=[1, 1, 1, 1], w_unsigned=True)
        conv("groups", (1, 16, 8, 9), (24, 8, 3, 3), (1, 24, 8, 9), pads=[1, 1, 1, 1], group=2)
        conv("depthwise", (1, 24, 13, 15), (24, 1, 3, 3), (1, 24, 13, 15), group=24, pads=[1, 1, 1, 1])
        conv("depthwise-stride", (2, 16, 14, 14), (16, 1, 5, 5), (2, 16, 7, 7), group=16, pads=[2, 2, 2, 2], strides=[2, 2], x_unsigned=True)
        conv("odd-channels", (1, 6, 7, 7), (10, 6, 3, 3), (1, 10, 5, 5))
        conv("rows-beyond-both-ends", (1, 16, 3, 8), (8, 16, 5, 5), (1, 8, 3, 8), pads=[2, 2, 2, 2])
        conv("rows-dilated", (1, 16, 9, 8), (8, 16, 3, 3), (1, 8, 9, 8), pads=[2, 1, 2, 1], dilations=[2, 1])
        conv("run-zero", (1, 16, 6, 8), (24, 16, 3, 3), (1, 24, 6, 8), pads=[1, 1, 1, 1], x_unsigned=True, zero=200, known=False)
        conv("run-zero-groups", (1, 16, 8, 9), (24, 8, 3, 3), (1, 24, 8, 9), pads=[1, 1, 1, 1], group=2, w_unsigned=True, known=False)
        for name, k, scale in (("few", 64, 0.05), ("many", 640, 0.2), ("fine", 256, 0.004)):
            self.quantised(name, 200, k, 48, scale)

    def quantised(self, name, m, k, c, scale):
        """A quantised product, exact to the bit: the sum times its scale and the bias in double, rounded to float32, then quantised."""
        n, f32 = helper.make_node, np.float32
        x, w = self.bytes(m, k), self.bytes(k, c)
        xs, ys, zx, zy = f32(0.037), f32(scale * 12), -3, 11
        ws = (self.r.random(c) * 0.01 + 0.001).astype(f32)
        bias = self.f(c)
        sums = (x.astype(np.int64) - zx) @ w.astype(np.int64)
        real = (sums * (np.float64(xs) * ws.astype(np.float64)) + bias.astype(np.float64)).astype(f32)
        want = np.clip(np.rint(real / ys) + zy, -128, 127).astype(np.int8)
        constants = {"w": w, "xs": np.array(xs), "zx": np.array(zx, np.int8), "ws": ws, "wz": np.zeros(c, np.int8), "b": bias, "ys": np.array(ys), "zy": np.array(zy, np.int8)}
        nodes = [n("DequantizeLinear", ["x", "xs", "zx"], ["r"]), n("DequantizeLinear", ["w", "ws", "wz"], ["v"], axis=1), n("Gemm", ["r", "v", "b"], ["s"]), n("QuantizeLinear", ["s", "ys", "zy"], ["y"])]
        self.add(f"quantised-int8-{name}", nodes, {"x": x}, {"y": (TensorProto.INT8, (m, c))}, constants, want=[want])

    def convolution(self):
        n = helper.make_node

        def conv(name, x, w, out, bias=True, tail=(), **attributes):
            c = {"w": self.f(*w) * 0.3}
            if bias:
                c["b"] = self.f(w[0])
            nodes = [n("Conv", ["x", *c], ["t0"], **attributes)]
            for i, op in enumerate(tail):
                nodes.append(n(op, [f"t{i}"], [f"t{i + 1}"]))
            self.add(f"conv-{name}", nodes, {"x": self.f(*x)}, {f"t{len(tail)}": (F, out)}, c)

        conv("3x3", (1, 32, 14, 14), (64, 32, 3, 3), (1, 64, 14, 14), pads=[1, 1, 1, 1], tail=("Relu",))
        conv("first", (1, 3, 23, 31), (16, 3, 3, 3), (1, 16, 12, 16), pads=[1, 1, 1, 1], strides=[2, 2])
        conv("1x1", (2, 24, 9, 7), (40, 24, 1, 1), (2, 40, 9, 7), bias=False, tail=("HardSwish",))
        conv("odd-channels", (1, 5, 8, 8), (7, 5, 3, 3), (1, 7, 6, 6))
        conv("grouped", (1, 16, 9, 9), (24, 4, 3, 3), (1, 24, 9, 9), group=4, pads=[1, 1, 1, 1])
        conv("grouped-odd", (1, 6, 9, 9), (9, 2, 3, 3), (1, 9, 9, 9), group=3, pads=[1, 1, 1, 1])
        conv("depthwise", (1, 24, 13, 15), (24, 1, 3, 3), (1, 24, 13, 15), group=24, pads=[1, 1, 1, 1], tail=("Relu",))
        conv("depthwise-stride", (2, 16, 14, 14), (16, 1, 5, 5), (2, 16, 7, 7), group=16, pads=[2, 2, 2, 2], strides=[2, 2])
        conv("depthwise-odd", (1, 6, 9, 9), (6, 1, 3, 3), (1, 6, 9, 9), group=6, pads=[1, 1, 1, 1])
        conv("dilated", (1, 8, 12, 12), (8, 8, 3, 3), (1, 8, 12, 12), dilations=[2, 2], pads=[2, 2, 2, 2])
        conv("same-lower", (1, 8, 11, 11), (8, 8, 2, 2), (1, 8, 6, 6), auto_pad="SAME_LOWER", strides=[2, 2])
        conv("1d", (1, 8, 50), (12, 8, 5), (1, 12, 50), pads=[2, 2])
        conv("3d", (1, 4, 5, 6, 7), (8, 4, 3, 3, 3), (1, 8, 5, 6, 7), pads=[1] * 6)
        x = self.f(1, 16, 10, 10)
        self.add("conv-residual", [n("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), n("Add", ["c", "x"], ["s"]), n("Relu", ["s"], ["y"])], {"x": x}, {"y": (F, x.shape)},
                 {"w": self.f(16, 16, 3, 3) * 0.3, "b": self.f(16)})
        self.one("conv-transposed", "ConvTranspose", {"x": self.f(1, 8, 5, 6)}, (1, 12, 10, 12), {"w": self.f(8, 12, 3, 3), "b": self.f(12)}, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
        self.one("conv-transposed-odd", "ConvTranspose", {"x": self.f(2, 3, 5, 6)}, (2, 5, 10, 12), {"w": self.f(3, 5, 2, 2)}, strides=[2, 2])
        self.add("conv-run-weights", [n("Conv", ["x", "w"], ["y"])], {"x": self.f(1, 8, 6, 6), "w": self.f(8, 8, 3, 3)}, {"y": (F, (1, 8, 4, 4))})
        self.add("conv-f16", [n("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])], {"x": self.f(1, 16, 8, 8, dtype=np.float16)}, {"y": (H, (1, 16, 8, 8))},
                 {"w": (self.f(16, 16, 3, 3) * 0.2).astype(np.float16), "b": self.f(16, dtype=np.float16)}, rtol=1e-2, atol=5e-3)

    def pooling(self):
        for c in (16, 5):
            self.one(f"maxpool-{c}", "MaxPool", {"x": self.f(1, c, 12, 14)}, (1, c, 6, 7), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
            self.one(f"avgpool-{c}", "AveragePool", {"x": self.f(1, c, 12, 14)}, (1, c, 6, 7), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
            self.one(f"avgpool-pad-{c}", "AveragePool", {"x": self.f(1, c, 12, 14)}, (1, c, 6, 7), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
            self.one(f"global-{c}", "GlobalAveragePool", {"x": self.f(2, c, 9, 11)}, (2, c, 1, 1))
            self.one(f"global-max-{c}", "GlobalMaxPool", {"x": self.f(2, c, 9, 11)}, (2, c, 1, 1))
        self.one("maxpool-ceil", "MaxPool", {"x": self.f(1, 8, 11, 11)}, (1, 8, 6, 6), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)

    def rows(self):
        for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"):
            self.one(f"{op}-last", op, {"x": self.f(6, 40)}, (6, 1), {"a": np.array([1])})
            self.one(f"{op}-first", op, {"x": self.f(40, 12)}, (12,), {"a": np.array([0])}, keepdims=0)
            self.one(f"{op}-all", op, {"x": self.f(3, 5, 24)}, (1, 1, 1))
        self.one("reduce-no-axes", "ReduceSum", {"x": self.f(3, 5, 8), "a": np.array([], np.int64)}, (1, 1, 1))
        self.one("reduce-long", "ReduceSum", {"x": self.f(2, 70001)}, (2, 1), {"a": np.array([1])})
        self.one("reduce-long-column", "ReduceSum", {"x": self.f(70001, 4)}, (1, 4), {"a": np.array([0])}, tolerances=dict(refused="loops of 70001 iterations"))
        self.one("reduce-middle", "ReduceMean", {"x": self.f(3, 100, 8)}, (3, 1, 8), {"a": np.array([1])})
        self.one("reduce-int", "ReduceMax", {"x": self.r.integers(-50, 50, (6, 20), dtype=np.int32)}, (6, 1), {"a": np.array([1])}, dtype=TensorProto.INT32)
        for shape, axis in (((16, 1000), -1), ((6, 10), -1), ((4, 77), 1), ((2, 30, 8), 1), ((2, 130, 5), 1)):
            for op in ("Softmax", "LogSoftmax"):
                self.one(f"{op}-{'x'.join(map(str, shape))}-{axis}", op, {"x": self.f(*shape) * 4}, shape, axis=axis)
        for c in (256, 50, 77):
            self.one(f"layernorm-{c}", "LayerNormalization", {"x": self.f(12, c) + 3}, (12, c), {"s": self.f(c), "b": self.f(c)}, axis=-1)
        self.one("instancenorm", "InstanceNormalization", {"x": self.f(2, 6, 9, 10)}, (2, 6, 9, 10), {"s": self.f(6), "b": self.f(6)})
        self.one("groupnorm", "GroupNormalization", {"x": self.f(2, 8, 5, 6)}, (2, 8, 5, 6), {"s": self.f(8), "b": self.f(8)}, num_groups=2)
        x = self.f(2, 8, 5, 6)
        self.one("batchnorm", "BatchNormalization", {"x": x}, x.shape, {"s": self.f(8), "b": self.f(8), "m": self.f(8), "v": np.abs(self.f(8)) + 0.1})

    def indexed(self):
        self.one("gather", "Gather", {"x": self.f(20, 8), "i": np.array([[3, -1], [0, 19]])}, (2, 2, 8))
        self.one("gather-axis", "Gather", {"x": self.f(5, 9, 3), "i": np.array([2, 8, 0, 1], np.int32)}, (5, 4, 3), axis=1)
        self.one("gather-constant", "Gather", {"x": self.f(5, 9, 4)}, (5, 4), {"i": np.array(2)}, axis=1)
        self.one("gather-elements", "GatherElements", {"x": self.f(4, 6), "i": self.r.integers(-6, 6, (4, 3))}, (4, 3), axis=1)

    def attributes(self):
        """What an operator's attributes and optional operands change."""
        n, i32 = helper.make_node, TensorProto.INT32
        x = self.f(2, 5, 6)
        self.one("pad-crop", "Pad", {"x": x}, (2, 7, 4), {"p": np.array([0, 2, -1, 0, 0, -1])})
        self.one("pad-value-axes", "Pad", {"x": x}, (2, 5, 9), {"p": np.array([1, 2]), "v": np.array(2.5, np.float32), "a": np.array([-1])})
        x = self.f(1, 4, 6, 7)
        for nearest in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
            self.add(f"resize-{nearest}", [n("Resize", ["x", "", "s"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode=nearest)], {"x": x}, {"y": (F, (1, 4, 15, 14))},
                     {"s": np.array([1, 1, 2.5, 2], np.float32)})
        for coordinates in ("half_pixel", "half_pixel_symmetric", "align_corners"):
            self.add(f"resize-sizes-{coordinates}", [n("Resize", ["x", "", "", "z"], ["y"], mode="linear", axes=[3, 2], coordinate_transformation_mode=coordinates)], {"x": x}, {"y": (F, (1, 4, 9, 3))},
                     {"z": np.array([3, 9])})
        for channels in (4, 3):
            x = self.f(1, channels, 11, 12)
            tag = f"-{channels}"
            self.one("avgpool-ceil" + tag, "AveragePool", {"x": x}, (1, channels, 6, 6), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0], ceil_mode=1, count_include_pad=1)
            self.one("avgpool-ceil-without" + tag, "AveragePool", {"x": x}, (1, channels, 6, 6), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0], ceil_mode=1)
            self.one("avgpool-dilated" + tag, "AveragePool", {"x": x}, (1, channels, 9, 10), kernel_shape=[3, 3], dilations=[2, 2], pads=[1, 1, 1, 1])
            self.one("maxpool-dilated" + tag, "MaxPool", {"x": x}, (1, channels, 9, 10), kernel_shape=[3, 3], dilations=[2, 2], pads=[1, 1, 1, 1])
            for auto in ("SAME_UPPER", "SAME_LOWER"):
                self.one(f"maxpool-{auto}{tag}", "MaxPool", {"x": x}, (1, channels, 6, 6), kernel_shape=[2, 2], strides=[2, 2], auto_pad=auto)
            w = self.f(8, channels, 3, 2)
            self.one("conv-upper" + tag, "Conv", {"x": x}, (1, 8, 6, 6), {"w": w}, auto_pad="SAME_UPPER", strides=[2, 2])
            self.one("conv-valid" + tag, "Conv", {"x": x}, (1, 8, 9, 11), {"w": w}, auto_pad="VALID")
            self.one("conv-one-side" + tag, "Conv", {"x": x}, (1, 8, 9, 13), {"w": w}, pads=[0, 2, 2, 1], dilations=[2, 2])
        self.one("maxpool-int8", "MaxPool", {"x": self.r.integers(-128, 0, (1, 4, 6, 6), dtype=np.int8)}, (1, 4, 3, 3), dtype=TensorProto.INT8, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0])
        self.one("reduce-negative", "ReduceSum", {"x": self.f(3, 7, 8)}, (3, 8), {"a": np.array([-2])}, keepdims=0)
        self.one("reduce-unsigned", "ReduceMin", {"x": self.r.integers(1, 255, (6, 20), dtype=np.uint8)}, (6, 1), {"a": np.array([-1])}, dtype=TensorProto.UINT8)
        self.one("gather-negative-axis", "Gather", {"x": self.f(5, 9, 3), "i": np.array([-1, 0])}, (5, 9, 2), axis=-1)
        self.one("gather-few", "Gather", {"x": self.f(5, 9, 4)}, (5, 3, 4), {"i": np.array([2, -1, 0])}, axis=1)
        self.one("gather-elements-first", "GatherElements", {"x": self.f(4, 6), "i": self.r.integers(-4, 4, (3, 6), dtype=np.int32)}, (3, 6))
        self.one("depth-to-space-crd", "DepthToSpace", {"x": self.f(1, 8, 3, 5)}, (1, 2, 6, 10), blocksize=2, mode="CRD")
        x = self.f(3, 4, 10)
        self.add("softmax-flat", [n("Softmax", ["x"], ["y"], axis=1)], {"x": x}, {"y": (F, x.shape)}, opset=11)
        self.one("layernorm-axis", "LayerNormalization", {"x": x}, x.shape, {"s": self.f(4, 10)}, axis=1, epsilon=0.5)
        y = self.f(2, 8, 5, 6)
        self.one("batchnorm-epsilon", "BatchNormalization", {"x": y}, y.shape, {"s": self.f(8), "b": self.f(8), "m": self.f(8), "v": np.abs(self.f(8))}, epsilon=0.5)
        for name, c in (("column", self.f(9, 1)), ("scalar", np.array(0.7, np.float32)), ("run", self.f(9, 20))):
            values = {"a": self.f(9, 12), "c": c}
            self.add(f"gemm-{name}", [n("Gemm", ["a", "b", "c"], ["y"], alpha=1.5, beta=-0.5)], values, {"y": (F, (9, 20))}, {"b": self.f(12, 20)})
        special = np.array([np.nan, -np.inf, np.inf, -3, 0.5, 7, -0.0, 1], np.float32)
        self.one("clip-nan", "Clip", {"x": special}, special.shape, {"l": np.array(-1, np.float32), "h": np.array(2, np.float32)})
        values = np.array([7, -7, 8, -8, 1, -1, 0, 2147483647], np.int32)
        for op, extra in (("Div", {}), ("Mod", {}), ("Mod", {"fmod": 1})):
            self.one(f"int-{op}{''.join(extra)}", op, {"x": values}, values.shape, {"d": np.array([3, 3, -3, -3, 2, 2, 5, -7], np.int32)}, dtype=i32, **extra)
        self.add("narrow", [n("Cast", ["x"], ["i"], to=TensorProto.INT8), n("Add", ["i", "i"], ["j"]), n("Cast", ["j"], ["y"], to=F)], {"x": np.array([1, -1, 100, -100, 127, -128, 5, -7], np.float32)}, {"y": (F, (8,))})

    def single(self):
        """What the CPU computes in double."""
        wide = np.concatenate([self.f(500) * 3, self.f(200) * 1e4, self.f(100) * 1e30, np.linspace(-1, 1, 101, dtype=np.float32), np.float32([0, -0.0, 1e-30, np.pi / 2, np.pi, 3.4e38, 1.17e-38, 1e-42, 31.415926])])
        special = np.float32([np.inf, -np.inf, np.nan])
        for op in ("Sin", "Cos", "Tan"):
            self.one(f"single-{op}", op, {"x": np.concatenate([wide, special])}, (len(wide) + 3,), tolerances=dict(rtol=2e-6, atol=1e-12))
        for op in ("Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh"):
            x = np.concatenate([wide, special])
            self.one(f"single-{op}", op, {"x": x}, x.shape, tolerances=dict(rtol=2e-6, atol=1e-12))
        x, p = np.abs(self.f(600)) * 4, self.f(600) * 4
        self.one("single-pow", "Pow", {"x": x, "p": p}, (600,), tolerances=dict(rtol=1e-5, atol=1e-12))
        x = np.float32([-2, -2, -2, 0, 0, 0, -0.0, 1, -1, -1, np.inf, -np.inf, -np.inf, np.nan, 2, 0.5, -8, 3])
        p = np.float32([3, 2, 0.5, 0, 2, -1, -3, np.nan, np.inf, 5, -1, 3, 2, 0, np.inf, np.inf, 1 / 3, 200])
        self.one("single-pow-special", "Pow", {"x": x, "p": p}, x.shape, tolerances=dict(rtol=1e-5, atol=0))
        self.one("single-pow-int", "Pow", {"x": self.f(4, 6), "p": self.r.integers(-5, 6, (4, 6))}, (4, 6), tolerances=dict(rtol=1e-5, atol=0))
        for c in (2, 3, 0.5, -1, 4, 2.5):
            self.one(f"single-pow-{c}", "Pow", {"x": np.abs(self.f(4, 8))}, (4, 8), {"p": np.array(c, np.float32)}, tolerances=dict(rtol=1e-5, atol=0))
        x, y = np.concatenate([self.f(300) * 100, self.f(200) * 1e30, special]), np.concatenate([self.f(500), self.f(3)])
        with np.errstate(all="ignore"):
            self.all.append(("single-fmod", model_of([helper.make_node("Mod", ["x", "y"], ["z"], fmod=1)], {"x": x, "y": y}, {"z": (F, x.shape)}), [x, y], dict(want=[np.fmod(x, y)], rtol=0, atol=0)))

    def positions(self):
        n = helper.make_node
        for op in ("ArgMax", "ArgMin"):
            for last in (0, 1):
                self.one(f"{op}-{last}", op, {"x": self.f(3, 7, 8)}, (3, 1, 8), dtype=I64, axis=1, select_last_index=last)
            self.one(f"{op}-flat", op, {"x": self.r.integers(0, 5, (4, 9), dtype=np.uint8)}, (4,), dtype=I64, axis=-1, keepdims=0)
        self.one("hardmax", "Hardmax", {"x": self.f(3, 6, 5)}, (3, 6, 5), axis=1)
        for largest in (1, 0):
            self.add(f"topk-{largest}", [n("TopK", ["x", "k"], ["v", "i"], axis=1, largest=largest)], {"x": self.r.integers(0, 6, (3, 11, 2)).astype(np.float32)}, {"v": (F, (3, 4, 2)), "i": (I64, (3, 4, 2))}, {"k": np.array([4])})
        self.add("topk-indices", [n("TopK", ["x", "k"], ["v", "i"])], {"x": self.r.integers(0, 6, (3, 11), dtype=np.int32)}, {"i": (I64, (3, 11))}, {"k": np.array([11])})
        for upper in (1, 0):
            self.one(f"trilu-{upper}", "Trilu", {"x": self.f(2, 5, 7)}, (2, 5, 7), {"k": np.array(upper * 3 - 2)}, upper=upper)
        for k in (-3, 2, 1 << 40):
            self.one(f"trilu-run-{k}", "Trilu", {"x": self.f(5, 6), "k": np.array(k)}, (5, 6))
        self.one("trilu-int64", "Trilu", {"x": np.arange(30).reshape(5, 6)}, (5, 6), dtype=I64, upper=0)
        self.one("eye", "EyeLike", {"x": self.f(4, 6)}, (4, 6), k=-1)
        for exclusive in (0, 1):
            for reverse in (0, 1):
                self.one(f"cumsum-{exclusive}{reverse}", "CumSum", {"x": self.f(3, 9, 4)}, (3, 9, 4), {"a": np.array(1)}, exclusive=exclusive, reverse=reverse)
        self.one("cumsum-int64", "CumSum", {"x": self.r.integers(-9, 9, (5, 6))}, (5, 6), {"a": np.array(-1)}, dtype=I64)
        for axis in (-1, 0, 1):
            shape = [3, 4]
            shape.insert(axis if axis >= 0 else 2, 5)
            self.add(f"onehot-{axis}", [n("OneHot", ["i", "d", "v"], ["y"], axis=axis)], {"i": self.r.integers(-7, 7, (3, 4)), "v": np.float32([0.5, 2])}, {"y": (F, shape)}, {"d": np.array(5)})
        i = np.uint32([0, 4, 5, 2**32 - 1])  # none of them is negative
        self.add("onehot-unsigned", [n("OneHot", ["i", "d", "v"], ["y"])], {"i": i, "v": np.float32([0.5, 2])}, {"y": (F, (4, 5))}, {"d": np.array(5)}, want=[np.where(i[:, None] == np.arange(5), np.float32(2), np.float32(0.5))])
        self.one("reverse-sequence", "ReverseSequence", {"x": self.f(4, 3, 5), "l": np.array([1, 4, 0])}, (4, 3, 5), time_axis=0, batch_axis=1)

    def scattered(self):
        n = helper.make_node
        for reduction in ("none", "add", "mul", "max", "min"):
            i = self.r.integers(-6, 6, (4, 3)) if reduction != "none" else np.stack([self.r.permutation(6)[:3] for _ in range(4)])
            self.one(f"scatter-elements-{reduction}", "ScatterElements", {"x": self.f(4, 6), "i": i, "u": self.f(4, 3)}, (4, 6), axis=1, reduction=reduction)
            i = self.r.integers(-4, 4, (5, 1)) if reduction != "none" else np.array([[1], [-1], [0]])
            self.one(f"scatter-nd-{reduction}", "ScatterND", {"x": self.f(4, 6), "i": i, "u": self.f(len(i), 6)}, (4, 6), reduction=reduction)
        self.one("scatter-nd-deep", "ScatterND", {"x": np.arange(24).reshape(4, 6), "i": np.array([[[1, 2], [3, -1]]]), "u": np.array([[-5, 7]])}, (4, 6), dtype=I64)
        self.one("gather-nd", "GatherND", {"x": self.f(3, 4, 5), "i": self.r.integers(-3, 3, (2, 6, 2))}, (2, 6, 5))
        self.one("gather-nd-batch", "GatherND", {"x": self.f(3, 4, 5), "i": self.r.integers(-4, 4, (3, 2, 1))}, (3, 2, 5), batch_dims=1)

    def sampled(self):
        x, grid = self.f(2, 3, 5, 6), self.f(2, 4, 7, 2)
        for mode in ("linear", "nearest", "cubic"):
            for padding in ("zeros", "border", "reflection"):
                for align in (0, 1):
                    self.one(f"gridsample-{mode}-{padding}-{align}", "GridSample", {"x": x, "g": grid}, (2, 3, 4, 7), mode=mode, padding_mode=padding, align_corners=align)
                    name, model, inputs, _ = self.all[-1]  # onnxruntime does not move a cubic's centre to the border, as the standard does
                    self.all[-1] = name, model, inputs, dict(want=ReferenceEvaluator(model).run(None, {"x": x, "g": grid}))
        image = self.f(1, 4, 6, 6)
        for storage in (0, 1):
            self.add(f"maxpool-indices-{storage}", [helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 1, 1], storage_order=storage)], {"x": image}, {"y": (F, (1, 4, 3, 3)), "i": (I64, (1, 4, 3, 3))})
        for p in (1, 2, 3):
            self.one(f"lppool-{p}", "LpPool", {"x": image}, (1, 4, 3, 3), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0], p=p)
            if p < 3:
                self.one(f"lpnorm-{p}", "LpNormalization", {"x": self.f(3, 70, 8)}, (3, 70, 8), axis=1, p=p)
        self.one("averagepool-float64", "AveragePool", {"x": np.full((1, 4, 6, 6), 1 / 3)}, (1, 4, 6, 6), dtype=TensorProto.DOUBLE, kernel_shape=[3, 3], pads=[1, 1, 1, 1], tolerances=dict(want=[np.full((1, 4, 6, 6), 1 / 3)], rtol=1e-15, atol=0))
        self.one("lrn", "LRN", {"x": self.f(2, 7, 5, 6)}, (2, 7, 5, 6), size=3, alpha=0.02, beta=0.6, bias=1.5)
        signal = self.f(2, 3, 30, 2)
        self.one("dft", "DFT", {"x": signal}, (2, 3, 30, 2), opset=20)
        self.one("dft-real", "DFT", {"x": signal[..., :1]}, (2, 3, 30, 2), opset=20)
        self.one("dft-inverse", "DFT", {"x": signal}, (2, 3, 30, 2), inverse=1, opset=20, tolerances=dict(refused="an inverse DFT"))
        for n in (16, 21, 40):
            self.one(f"dft-length-{n}", "DFT", {"x": signal}, (2, 3, n, 2), {"n": np.array(n)}, opset=20)
            self.one(f"rfft-{n}", "DFT", {"x": signal[..., :1]}, (2, 3, n // 2 + 1, 2), {"n": np.array(n)}, onesided=1, opset=20)
        self.one("stft", "STFT", {"x": self.f(2, 100, 1)}, (2, 11, 9, 2), {"s": np.array(8), "w": np.hanning(16).astype(np.float32), "n": np.array(16)}, onesided=1)
        x = self.f(3, 700) * 4
        self.add("dynamic-quantize", [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])], {"x": x}, {"q": (TensorProto.UINT8, (3, 700)), "s": (F, ()), "z": (TensorProto.UINT8, ())})
        zero = [np.zeros((4, 5), np.uint8), np.float32(0), np.uint8(0)]  # as the standard has it; onnxruntime's scale is 1
        self.add("dynamic-quantize-zero", [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])], {"x": np.zeros((4, 5), np.float32)}, {"q": (TensorProto.UINT8, (4, 5)), "s": (F, ()), "z": (TensorProto.UINT8, ())}, want=zero)
        self.add("layernorm-statistics", [helper.make_node("LayerNormalization", ["x", "s"], ["y", "m", "v"], axis=1)], {"x": self.f(4, 6, 8)}, {"y": (F, (4, 6, 8)), "m": (F, (4, 1, 1)), "v": (F, (4, 1, 1))}, {"s": self.f(6, 8)})

    def recurrent(self):
        """h = 70 is no multiple of the workgroup; the middle sequence ends early."""
        t, b, i, h = 5, 3, 6, 70
        for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
            for direction, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
                for extra in (({}, {"linear_before_reset": 1}) if op == "GRU" else ({}, {"input_forget": 1}) if op == "LSTM" else ({},)):
                    for full in (False, True):
                        x = {"x": self.f(t, b, i)}
                        c = {"w": self.f(d, gates * h, i) * 0.3, "r": self.f(d, gates * h, h) * 0.1}
                        names = ["x", "w", "r"]
                        if full:
                            c.update(b=self.f(d, 2 * gates * h) * 0.2)
                            x.update(l=np.array([5, 2, 4], np.int32), h0=self.f(d, b, h))
                            names += ["b", "l", "h0"]
                            if op == "LSTM":
                                x["c0"], c["p"] = self.f(d, b, h), self.f(d, 3 * h) * 0.2
                                names += ["c0", "p"]
                        outputs = {"y": (F, (t, d, b, h)), "yh": (F, (d, b, h)), **({"yc": (F, (d, b, h))} if op == "LSTM" else {})}
                        self.add(f"{op}-{direction}-{''.join(extra)}-{'full' if full else 'plain'}", [helper.make_node(op, names, list(outputs), hidden_size=h, direction=direction, **extra)], x, outputs, c)
        self.add("LSTM-clip", [helper.make_node("LSTM", ["x", "w", "r"], ["", "yh"], hidden_size=8, clip=0.3)], {"x": self.f(t, b, i)}, {"yh": (F, (1, b, 8))}, {"w": self.f(1, 32, i), "r": self.f(1, 32, 8)})

    def refusals(self):
        n = helper.make_node

        def refuse(name, why, op, x, outputs, constants=(), **attributes):
            self.add(f"refused-{name}", [n(op, ["x", *dict(constants)], list(outputs), **attributes)], {"x": x}, outputs, constants, refused=why)

        refuse("loops-in-a-row", "loops of 90000 iterations", "Softmax", self.f(30000, 8), {"y": (F, (30000, 8))}, axis=0)
        refuse("loops-in-loops", "loops of 90300 iterations", "AveragePool", self.f(1, 1, 300, 300), {"y": (F, (1, 1, 1, 1))}, kernel_shape=[300, 300])
        for name, why, attributes in (("cubic", "mode cubic", dict(mode="cubic")), ("antialias", "antialias", dict(mode="linear", antialias=1)), ("linear-outside", "exclude_outside", dict(mode="linear", exclude_outside=1))):
            self.add(f"refused-resize-{name}", [n("Resize", ["x", "", "s"], ["y"], **attributes)], {"x": self.f(1, 4, 6, 6)}, {"y": (F, (1, 4, 12, 12))}, {"s": np.array([1, 1, 2, 2], np.float32)}, refused=why)
        for t in (np.dtype(np.int32), np.dtype(np.float64)):
            self.add(f"refused-resize-{t}", [n("Resize", ["x", "", "s"], ["y"], mode="linear")], {"x": self.r.integers(0, 9, (1, 1, 4, 4)).astype(t)}, {"y": (helper.np_dtype_to_tensor_dtype(t), (1, 1, 8, 8))}, {"s": np.array([1, 1, 2, 2], np.float32)}, refused=f"linear interpolation of {t}")
        refuse("pad-crop-edge", "a Pad that crops in mode edge", "Pad", self.f(4, 6), {"y": (F, (4, 6))}, {"p": np.array([0, 1, 0, -1])}, mode="edge")
        refuse("product-int32", "a product of int32", "MatMul", self.r.integers(0, 9, (4, 8), dtype=np.int32), {"y": (TensorProto.INT32, (4, 4))}, {"b": self.r.integers(0, 9, (8, 4), dtype=np.int32)})
        refuse("softmax-double", "element type float64 needs the feature float64", "Softmax", self.f(4, 8, dtype=np.float64), {"y": (TensorProto.DOUBLE, (4, 8))})
        refuse("product-int8-deep", "an integer product over 60000 elements", "MatMulInteger", np.zeros((1, 60000), np.uint8), {"y": (TensorProto.INT32, (1, 4))}, {"b": np.full((60000, 4), 255, np.uint8)})
        many = {f"x{i}": self.f(2, 4) for i in range(64)}
        self.add("refused-buffers", [n("Concat", [*many], ["y"], axis=0)], many, {"y": (F, (128, 4))}, refused="65 buffers exceed the GPU's 64 a kernel")
        refuse("power-int32", "a power of integers", "Pow", np.arange(4, dtype=np.int32), {"y": (TensorProto.INT32, (4,))}, {"z": np.float32([1, 0, 2, 3])})
        refuse("modulo-zero", "an integer division by a tensor that may hold zero", "Mod", np.arange(4, dtype=np.int32), {"y": (TensorProto.INT32, (4,))}, {"z": np.array([1, 0, 2, 3], np.int32)})


def backend_cases(limit):
    """ONNX's backend cases in the cache: (name, model, inputs, outputs)."""
    for folder in sorted(glob.glob(os.path.join(CACHE, "conformance", "*", "*", "")))[:limit]:
        try:
            inputs, outputs = [[numpy_helper.to_array(onnx.load_tensor(f)) for f in sorted(glob.glob(os.path.join(folder, f"{kind}_*.pb")), key=lambda p: int(re.findall(r"\d+", os.path.basename(p))[0]))]
                               for kind in ("input", "output")]
        except Exception:  # noqa: BLE001: sequences, optionals, strings
            continue
        if all(a.dtype.kind in "fiub" for a in inputs + outputs):
            yield os.path.basename(os.path.dirname(folder)), os.path.join(folder, "model.onnx"), inputs, outputs


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--models", nargs="*", default=[])
    ap.add_argument("--backend", type=int, default=0)
    ap.add_argument("--verbose", action="store_true")
    ap.add_argument("filter", nargs="?", default="")
    a = ap.parse_args()
    gpu, tally = Gpu(a.build), Tally(a.verbose)
    if gpu.missing():
        tally.skip("gpu", f"{gpu.missing()} is missing")
        return tally.finish()
    if a.models:
        for path in a.models:
            r = np.random.default_rng(1)
            shapes = [(i, [d.dim_value or 1 for d in i.type.tensor_type.shape.dim]) for i in onnx.load(path, load_external_data=False).graph.input]
            inputs = [r.random(s).astype(helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)) for i, s in shapes]
            options = [w for i, s in shapes for d in i.type.tensor_type.shape.dim if d.dim_param for w in ("--dim", f"{d.dim_param}=1")]
            run_case(gpu, tally, os.path.basename(path), path, inputs, rtol=1e-3, atol=1e-4, options=options)
        return tally.finish()
    if a.backend:
        for name, model, inputs, outputs in backend_cases(a.backend):
            if re.search(a.filter, name):
                run_case(gpu, tally, name, model, inputs, outputs, rtol=1e-3, atol=1e-5)
        return tally.finish()
    for name, model, inputs, tolerances in Cases().build():
        if re.search(a.filter, name):
            run_case(Gpu(a.build, FEATURES + ",float64") if "float64" in name else gpu, tally, name, model, inputs, **{"refused": "", **tolerances})
            if "int8" in name:
                run_case(Gpu(a.build, DOT), tally, name + "-dot", model, inputs, **{"refused": "", **tolerances})
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
