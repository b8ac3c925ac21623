#!/usr/bin/env python3
"""Post-training quantisation of public models: onnxruntime runs what `tessera quantize` wrote, with its optimisations off, beside the float model.

usage: quantize.py [--build DIR] [-v] [ID ...]

Samples are seeded and smooth, as pictures are; calibration and evaluation share none. Checked: the signal-to-noise ratio of every output, that products
read integers, that activations keep their nodes, that our runtime gives each quantised value to one step as onnxruntime does, that the same bytes come out twice, that int16 activations are no worse; and refusals.
"""
import argparse
import json
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

import fetch
from harness import Fault, Refused, Tally, Tools, oracle

# Floors in dB of the worst output's median, a few below what was measured.
MODELS = {"dscnn_kws": (42, 44), "ppocr_cls": (20, 30), "blazeface_front_128": (11, 17)}
SHAPES = {"ppocr_cls": {"x": [1, 3, 48, 192]}}
PRODUCTS = {"Conv", "ConvTranspose", "MatMul", "Gemm"}


def smooth(shape, rng):
    """Waves of low frequency over the last two axes that are long."""
    out = np.zeros(shape)
    axes = [i for i, d in enumerate(shape) if d > 4] or [len(shape) - 1]
    for _ in range(12):
        wave = np.zeros(shape)
        for a in axes:
            grid = [1] * len(shape)
            grid[a] = shape[a]
            wave = wave + rng.uniform(0, 6) * np.linspace(0, 2 * np.pi, shape[a]).reshape(grid)
        channel = rng.standard_normal([d if i not in axes else 1 for i, d in enumerate(shape)])
        out += channel * np.cos(wave + rng.uniform(0, 6))
    return (out / 4 + 0.05 * rng.standard_normal(shape)).astype(np.float32)


def samples(ident, model, count, seed):
    rng = np.random.Generator(np.random.PCG64(seed))
    initial = {t.name for t in model.graph.initializer}
    inputs = [(i.name, [max(d.dim_value, 1) for d in i.type.tensor_type.shape.dim]) for i in model.graph.input if i.name not in initial]
    inputs = [(name, SHAPES.get(ident, {}).get(name, shape)) for name, shape in inputs]
    return [{name: smooth(shape, rng) for name, shape in inputs} for _ in range(count)]


def snr(want, got):
    noise = ((want - got).astype(np.float64) ** 2).sum()
    return 200.0 if noise == 0 else float(10 * np.log10((want.astype(np.float64) ** 2).sum() / noise))


def worst(float_path, quantised_path, feeds):
    a, b = oracle(float_path), oracle(quantised_path)
    each = [[snr(x, y) for x, y in zip(a.run(None, f), b.run(None, f))] for f in feeds]
    return min(np.median(np.array(each), axis=0))


def check_structure(before, after):
    made = {o: n for n in after.graph.node for o in n.output}
    integers = total = 0
    for n in after.graph.node:
        if n.op_type in PRODUCTS:
            total += 1
            integers += all(v in made and made[v].op_type == "DequantizeLinear" for v in n.input[:2])
    if integers < 0.8 * total:
        raise Fault(f"{integers} of {total} products read integers")
    for op in ("Relu", "Clip"):
        a, b = (sum(n.op_type == op for n in m.graph.node) for m in (before, after))
        if a != b:
            raise Fault(f"{a} {op} nodes became {b}")
    if [(o.name, o.type.tensor_type.elem_type) for o in before.graph.output] != [(o.name, o.type.tensor_type.elem_type) for o in after.graph.output]:
        raise Fault("the outputs are declared otherwise")


def cut(model, values):
    """Every quantised value becomes an output, and an input of those who read it: an error cannot go on behind it."""
    m = onnx.ModelProto()
    m.CopyFrom(model)
    del m.graph.output[:], m.graph.value_info[:]
    for name, v in values.items():
        kind = h.np_dtype_to_tensor_dtype(v.dtype)
        m.graph.output.append(h.make_tensor_value_info(name, kind, None))
        m.graph.input.append(h.make_tensor_value_info(name + ".in", kind, v.shape))
    for n in m.graph.node:
        for k, v in enumerate(n.input):
            if v in values:
                n.input[k] = v + ".in"
    return m


def check_steps(tools, path, feeds):
    """Each quantised value that our runtime makes of onnxruntime's values before it is within one step of onnxruntime's; and in one go, how many differ."""
    model = onnx.load(path)
    names = [n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"]
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    del whole.graph.output[:], whole.graph.value_info[:]
    whole.graph.output.extend(h.ValueInfoProto(name=v) for v in names)
    session = oracle(whole.SerializeToString())
    worst, apart, far, total = 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        for feed in feeds:
            want = dict(zip(names, session.run(None, feed)))
            onnx.save(cut(model, want), f"{tmp}/cut.onnx")
            got = tools.run(f"{tmp}/cut.onnx", {**feed, **{k + ".in": v for k, v in want.items()}}, len(names))
            for name, g in zip(names, got):
                away = np.abs(g.astype(np.int64) - want[name].astype(np.int64))
                worst, apart, total = max(worst, away.max()), apart + np.count_nonzero(away), total + away.size
                if away.max() > 1:
                    raise Fault(f"'{name}' is {away.max()} steps from onnxruntime's")
            for v in whole.graph.output:
                v.CopyFrom(h.make_tensor_value_info(v.name, h.np_dtype_to_tensor_dtype(want[v.name].dtype), None))
            onnx.save(whole, f"{tmp}/whole.onnx")
            for name, g in zip(names, tools.run(f"{tmp}/whole.onnx", feed, len(names))):
                far += np.count_nonzero(g != want[name])
    return f"{len(names)} quantised values: {worst} steps away at most, {apart / total:.1e} of elements; {far / total:.1e} where errors go on"


def check_model(tools, ident):
    path = os.path.join(fetch.MODELS, ident + ".onnx")
    model = onnx.load(path)
    with tempfile.TemporaryDirectory() as tmp:
        for i, f in enumerate(samples(ident, model, 12, 1)):
            np.savez(f"{tmp}/{i:02}.npz", **f)
        tools.call([tools.tessera, "quantize", path, "--calib", tmp, "-o", f"{tmp}/a.onnx", "--cache", f"{tmp}/ranges"])
        tools.call([tools.tessera, "quantize", path, "--calib", tmp, "-o", f"{tmp}/b.onnx", "--cache", f"{tmp}/ranges"])
        if open(f"{tmp}/a.onnx", "rb").read() != open(f"{tmp}/b.onnx", "rb").read():
            raise Fault("other bytes the second time, from the kept ranges")
        check_structure(model, onnx.load(f"{tmp}/a.onnx"))
        steps = check_steps(tools, f"{tmp}/a.onnx", samples(ident, model, 2, 2))
        feeds, floors = samples(ident, model, 12, 2), MODELS[ident]
        tools.call([tools.tessera, "quantize", path, "--calib", tmp, "-o", f"{tmp}/wide.onnx", "--scheme", "16x8", "--cache", f"{tmp}/ranges"])
        narrow, wide = worst(path, f"{tmp}/a.onnx", feeds), worst(path, f"{tmp}/wide.onnx", feeds)
        if narrow < floors[0] or wide < floors[1] or wide < narrow:
            raise Fault(f"8x8 {narrow:.1f} dB, 16x8 {wide:.1f} dB; floors {floors}")
        return f"8x8 {narrow:.1f} dB, 16x8 {wide:.1f} dB; {steps}"


def product(tmp, opset):
    rng = np.random.Generator(np.random.PCG64(3))
    w = nh.from_array(rng.standard_normal((64, 24)).astype(np.float32), "w")
    g = h.make_graph([h.make_node("MatMul", ["x", "w"], ["y"], name="product")], "g", [h.make_tensor_value_info("x", T.FLOAT, ["n", 64])],
                     [h.make_tensor_value_info("y", T.FLOAT, ["n", 24])], [w])
    m = h.make_model(g, opset_imports=[h.make_opsetid("", opset)], ir_version=10)
    onnx.save(m, f"{tmp}/m.onnx")
    base = rng.standard_normal((8, 64)).astype(np.float32)
    for i in range(8):
        np.save(f"{tmp}/{i}.npy", (rng.standard_normal((40, 8)) @ base + 0.2 * rng.standard_normal((40, 64))).astype(np.float32))
    return f"{tmp}/m.onnx", [{"x": (rng.standard_normal((40, 8)) @ base).astype(np.float32)}]


def check_weights(tools, opset):
    """Blocks of four bits: error feedback beats rounding to nearest, in each of the two forms; with zero points as well."""
    with tempfile.TemporaryDirectory() as tmp:
        path, feeds = product(tmp, opset)
        calib = f"{tmp}/c"
        os.mkdir(calib)
        for i in range(8):
            os.rename(f"{tmp}/{i}.npy", f"{calib}/{i}.npy")
        for extra in ([], ["--asymmetric"]):
            got = []
            for more in ([], ["--nearest"]):
                tools.call([tools.tessera, "quantize", path, "--calib", calib, "-o", f"{tmp}/q.onnx", "--scheme", "w4", *extra, *more])
                ops = {n.op_type for n in onnx.load(f"{tmp}/q.onnx").graph.node}
                if ("MatMulNBits" in ops) != (opset < 21):
                    raise Fault(f"operators {sorted(ops)} in operator set {opset}")
                got.append(worst(path, f"{tmp}/q.onnx", feeds))
            if got[0] < got[1] + 3:
                raise Fault(f"{extra}: {got[0]:.1f} dB with feedback, {got[1]:.1f} dB without")
        for scheme, floor in (("w8", 40), ("f16", 60), ("bf16", 45)):
            tools.call([tools.tessera, "quantize", path, "--calib", calib, "-o", f"{tmp}/q.onnx", "--scheme", scheme])
            if (dB := worst(path, f"{tmp}/q.onnx", feeds)) < floor:
                raise Fault(f"{scheme}: {dB:.1f} dB, at least {floor}")


def check_transposed(tools):
    """The groups of a ConvTranspose share scales; its bias becomes integers. Biases are corrected, and errors reported."""
    rng = np.random.Generator(np.random.PCG64(5))
    w = nh.from_array(rng.standard_normal((4, 3, 3, 3)).astype(np.float32), "w")
    b = nh.from_array(rng.standard_normal(6).astype(np.float32), "b")
    g = h.make_graph([h.make_node("ConvTranspose", ["x", "w", "b"], ["y"], name="up", group=2)], "g",
                     [h.make_tensor_value_info("x", T.FLOAT, [1, 4, 6, 6])], [h.make_tensor_value_info("y", T.FLOAT, [1, 6, 8, 8])], [w, b])
    with tempfile.TemporaryDirectory() as tmp:
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{tmp}/m.onnx")
        os.mkdir(f"{tmp}/c")
        for i in range(6):
            np.save(f"{tmp}/c/{i}.npy", rng.standard_normal((1, 4, 6, 6)).astype(np.float32))
        tools.call([tools.tessera, "quantize", f"{tmp}/m.onnx", "--calib", f"{tmp}/c", "-o", f"{tmp}/q.onnx", "--islands", 0, "--bias-correction", "--report", f"{tmp}/r"])
        after = onnx.load(f"{tmp}/q.onnx")
        made = {o: n.op_type for n in after.graph.node for o in n.output}
        node = next(n for n in after.graph.node if n.op_type == "ConvTranspose")
        if [made.get(v) for v in node.input] != ["DequantizeLinear"] * 3:
            raise Fault(f"ConvTranspose reads {[made.get(v) for v in node.input]}")
        if (dB := worst(f"{tmp}/m.onnx", f"{tmp}/q.onnx", [{"x": rng.standard_normal((1, 4, 6, 6)).astype(np.float32)}])) < 30:
            raise Fault(f"{dB:.1f} dB, at least 30")
        report = json.load(open(f"{tmp}/r/report.json"))
        one, fix = report["units"][0], report["bias_correction"]
        # The only unit: what is isolated is all that accumulates.
        if abs(one["isolated"]["snr_db"] - one["accumulated"]["snr_db"]) > (6 if fix["kept"] else 0.1) or one["isolated"]["cosine"] < 0.99:
            raise Fault(f"errors {one}, {fix}")
        calib = [{"x": np.load(f"{tmp}/c/{i}.npy")} for i in range(6)]
        tried = worst(f"{tmp}/m.onnx", f"{tmp}/q.onnx", calib)
        tools.call([tools.tessera, "quantize", f"{tmp}/m.onnx", "--calib", f"{tmp}/c", "-o", f"{tmp}/n.onnx", "--islands", 0, "--no-bias-correction", "--report", f"{tmp}/n"])
        if "bias_correction" in json.load(open(f"{tmp}/n/report.json")):
            raise Fault("--no-bias-correction corrects")
        if (left := worst(f"{tmp}/m.onnx", f"{tmp}/n.onnx", calib)) > tried + 0.2:
            raise Fault(f"{tried:.1f} dB with biases corrected, {left:.1f} without")


def check_correction(tools):
    """Biases are corrected without being asked where that gains and is cheap: inputs far from 0 make rounded weights err in one direction."""
    rng = np.random.Generator(np.random.PCG64(11))

    def sample():
        return (5 + 0.3 * rng.standard_normal((1, 8, 6, 6))).astype(np.float32)
    for count, tried in ((1, True), (26, False)):
        nodes, weights = [], []
        for i in range(count):
            w = rng.standard_normal((8, 8, 1, 1)).astype(np.float32)
            # Behind the first the inputs are near 1 and stay: means of the channels.
            weights += [nh.from_array(w if i == 0 else abs(w) / abs(w).sum(1, keepdims=True), f"w{i}"), nh.from_array(np.zeros(8, np.float32), f"b{i}")]
            nodes.append(h.make_node("Conv", [f"x{i}", f"w{i}", f"b{i}"], [f"x{i + 1}"], name=f"conv{i}"))
        g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x0", T.FLOAT, [1, 8, 6, 6])], [h.make_tensor_value_info(f"x{count}", T.FLOAT, [1, 8, 6, 6])], weights)
        with tempfile.TemporaryDirectory() as tmp:
            onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{tmp}/m.onnx")
            os.mkdir(f"{tmp}/c")
            for i in range(32):
                np.save(f"{tmp}/c/{i:02}.npy", sample())
            others, dB, said = [{"x0": sample()} for _ in range(8)], {}, {}
            for option in ((), ("--bias-correction",), ("--no-bias-correction",)):
                tools.call([tools.tessera, "quantize", f"{tmp}/m.onnx", "--calib", f"{tmp}/c", "-o", f"{tmp}/q.onnx", "--islands", 0, "--report", f"{tmp}/r", *option])
                said[option] = json.load(open(f"{tmp}/r/report.json")).get("bias_correction")
                dB[option] = worst(f"{tmp}/m.onnx", f"{tmp}/q.onnx", others)
            none, asked, without = dB.values()
            if asked < without + 1.5:
                raise Fault(f"{count} products: {asked:.1f} dB with biases corrected, {without:.1f} without, expected 1.5 more")
            if none != (asked if tried else without) or bool(said[()]) != tried:
                raise Fault(f"{count} products: {none:.1f} dB without an option ({said[()]}), {asked:.1f} corrected, {without:.1f} not")


def check_lengths(tools):
    """Attention over a cache, calibrated where the cache is long: as good on the first step, where one probability is 1."""
    rng = np.random.Generator(np.random.PCG64(7))
    w = nh.from_array(rng.standard_normal((32, 32)).astype(np.float32), "w")
    nodes = [h.make_node("MatMul", ["q", "k"], ["scores"]), h.make_node("Mul", ["scores", "f"], ["scaled"]), h.make_node("Softmax", ["scaled"], ["p"]),
             h.make_node("MatMul", ["p", "v"], ["context"]), h.make_node("MatMul", ["context", "w"], ["y"], name="out")]
    shape = {"q": [1, 4, 32], "k": [1, 32, "past"], "v": [1, "past", 32]}
    g = h.make_graph(nodes, "g", [h.make_tensor_value_info(n, T.FLOAT, s) for n, s in shape.items()],
                     [h.make_tensor_value_info("y", T.FLOAT, [1, 4, 32])], [w, nh.from_array(np.float32(32 ** -0.5), "f")])

    def feed(past):
        return {n: rng.standard_normal([past if d == "past" else d for d in s]).astype(np.float32) for n, s in shape.items()}
    with tempfile.TemporaryDirectory() as tmp:
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 21)], ir_version=10), f"{tmp}/m.onnx")
        os.mkdir(f"{tmp}/c")
        for i in range(8):
            np.savez(f"{tmp}/c/{i}.npz", **feed(64))
        for scheme, share in (("8x8", 2), ("16x8", 3)):
            said = tools.call([tools.tessera, "quantize", f"{tmp}/m.onnx", "--calib", f"{tmp}/c", "-o", f"{tmp}/q.onnx", "--islands", 0, "--scheme", scheme])
            made = {o: n.op_type for n in onnx.load(f"{tmp}/q.onnx").graph.node for o in n.output}
            integers = sum(made.get(n.input[0]) == "DequantizeLinear" for n in onnx.load(f"{tmp}/q.onnx").graph.node if n.op_type == "MatMul")
            if integers != share:
                raise Fault(f"{scheme}: {integers} of 3 products read integers, not {share}: {said}")
            for past in (64, 3, 1):
                dB = worst(f"{tmp}/m.onnx", f"{tmp}/q.onnx", [feed(past) for _ in range(4)])
                if dB < 22:
                    raise Fault(f"{scheme}: {dB:.1f} dB with a cache of {past}, at least 22")


def check_gated(tools):
    """What a gate makes is rotated where it is read by a product: 3 dB and more against the same product without a gate that is told from it."""
    rng = np.random.Generator(np.random.PCG64(19))
    w = {n: (rng.standard_normal(s) / s[0] ** 0.5).astype(np.float32) for n, s in (("gate", (64, 160)), ("up", (64, 160)), ("down", (160, 64)))}
    nodes = [h.make_node("LayerNormalization", ["x", "ones"], ["n"]), h.make_node("MatMul", ["n", "gate"], ["g"]), h.make_node("MatMul", ["n", "up"], ["u"]),
             h.make_node("Sigmoid", ["g"], ["s"]), h.make_node("Mul", ["g", "s"], ["t"]), h.make_node("Mul", ["t", "u"], ["m"]), h.make_node("MatMul", ["m", "down"], ["y"], name="last")]
    g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, "n", 64])], [h.make_tensor_value_info("y", T.FLOAT, [1, "n", 64])],
                     [nh.from_array(v, n) for n, v in w.items()] + [nh.from_array(np.ones(64, np.float32), "ones")])
    with tempfile.TemporaryDirectory() as tmp:
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{tmp}/m.onnx")
        os.mkdir(f"{tmp}/c")
        for i in range(16):
            np.save(f"{tmp}/c/{i:02}.npy", rng.standard_normal((1, 40, 64)).astype(np.float32))
        feeds = [{"x": rng.standard_normal((1, 40 + i, 64)).astype(np.float32)} for i in range(8)]
        dB = {}
        for scheme, more, products in (("8x8", ("--no-rotate",), 3), ("8x8", (), 4), ("16x8", (), 3)):
            tools.call([tools.tessera, "quantize", f"{tmp}/m.onnx", "--calib", f"{tmp}/c", "-o", f"{tmp}/q.onnx", "--islands", 0, "--scheme", scheme, *more])
            made = [n for n in onnx.load(f"{tmp}/q.onnx").graph.node if n.op_type == "MatMul"]
            if len(made) != products:
                raise Fault(f"{scheme} {more}: {len(made)} products, {products} expected: one more than before with 8 bits only")
            dB[scheme] = worst(f"{tmp}/m.onnx", f"{tmp}/q.onnx", feeds)
        # A tail of 256 steps alone: 30 dB.
        if dB["8x8"] < 33.5 or dB["16x8"] < dB["8x8"]:
            raise Fault(f"{dB} dB, at least 33.5")


def check_depthwise(tools):
    """16 bits: weights of convolutions in groups are rounded by what they read, far from 0, and biases take the mean."""
    rng = np.random.Generator(np.random.PCG64(23))
    nodes, weights = [h.make_node("Relu", ["x"], ["v0"])], []
    for i in range(3):
        weights += [nh.from_array(rng.standard_normal((16, 1, 3, 3)).astype(np.float32), f"w{i}"), nh.from_array(rng.standard_normal(16).astype(np.float32), f"b{i}")]
        nodes.append(h.make_node("Conv", [f"v{i}", f"w{i}", f"b{i}"], [f"v{i + 1}"], name=f"conv{i}", group=16))
    g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", T.FLOAT, [1, 16, 12, 12])], [h.make_tensor_value_info("v3", T.FLOAT, [1, 16, 6, 6])], weights)

    def sample():
        return (3 + smooth((1, 16, 12, 12), rng)).astype(np.float32)
    with tempfile.TemporaryDirectory() as tmp:
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{tmp}/m.onnx")
        os.mkdir(f"{tmp}/c")
        for i in range(16):
            np.save(f"{tmp}/c/{i:02}.npy", sample())
        feeds, dB = [{"x": sample()} for _ in range(8)], []
        for option in ((), ("--nearest",)):
            tools.call([tools.tessera, "quantize", f"{tmp}/m.onnx", "--calib", f"{tmp}/c", "-o", f"{tmp}/q.onnx", "--islands", 0, "--scheme", "16x8", "--no-bias-correction", *option])
            dB.append(worst(f"{tmp}/m.onnx", f"{tmp}/q.onnx", feeds))
        if dB[0] < dB[1] + 3:
            raise Fault(f"{dB[0]:.1f} dB with feedback, {dB[1]:.1f} without, expected 3 more")


def check_wild(tools):
    """A few samples with rare large values, all of them beside those that the search is spread over: clipping is judged by them as well."""
    rng = np.random.Generator(np.random.PCG64(29))
    w = nh.from_array(rng.standard_normal((64, 32)).astype(np.float32), "w")
    g = h.make_graph([h.make_node("MatMul", ["x", "w"], ["y"], name="product")], "g", [h.make_tensor_value_info("x", T.FLOAT, [64, 64])],
                     [h.make_tensor_value_info("y", T.FLOAT, [64, 32])], [w])

    def sample(wild):
        x = rng.standard_normal((64, 64)).astype(np.float32)
        if wild:
            x.reshape(-1)[rng.choice(4096, 4, replace=False)] = (20, -20, 20, -20)
        return x
    with tempfile.TemporaryDirectory() as tmp:
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), f"{tmp}/m.onnx")
        os.mkdir(f"{tmp}/c")
        for i in range(32):
            np.save(f"{tmp}/c/{i:02}.npy", sample(i in (5, 13, 27)))
        feeds, dB = [{"x": sample(True)} for _ in range(8)], []
        for option in ((), ("--ranges", "percentile")):
            tools.call([tools.tessera, "quantize", f"{tmp}/m.onnx", "--calib", f"{tmp}/c", "-o", f"{tmp}/q.onnx", "--islands", 0, *option])
            dB.append(worst(f"{tmp}/m.onnx", f"{tmp}/q.onnx", feeds))
        if dB[0] < 20 or dB[1] > 15:
            raise Fault(f"{dB[0]:.1f} dB on wild samples, at least 20; {dB[1]:.1f} dB by percentile, at most 15")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("ids", nargs="*")
    ap.add_argument("--build")
    ap.add_argument("-v", "--verbose", action="store_true")
    a = ap.parse_args()
    tools, tally = Tools(a.build), Tally(a.verbose)
    for ident in a.ids or MODELS:
        if not os.path.exists(os.path.join(fetch.MODELS, ident + ".onnx")):
            tally.skip(ident, "the model is not there")
            continue
        try:
            tally.ok(ident, check_model(tools, ident))
        except (Fault, Refused) as why:
            tally.fail(ident, why)
    if not a.ids:
        for opset in (17, 21):
            tally.attempt(f"weights_{opset}", check_weights, tools, opset, faults=(Fault, Refused))
        tally.attempt("correction", check_correction, tools, faults=(Fault, Refused))
        tally.attempt("gated", check_gated, tools, faults=(Fault, Refused))
        tally.attempt("wild", check_wild, tools, faults=(Fault, Refused))
        tally.attempt("depthwise", check_depthwise, tools, faults=(Fault, Refused))
        tally.attempt("lengths", check_lengths, tools, faults=(Fault, Refused))
        tally.attempt("transposed", check_transposed, tools, faults=(Fault, Refused))
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
