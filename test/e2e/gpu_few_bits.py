"""Cases for gpu.py: products by weights of 2, 4 and 8 bits, which stay packed in memory. Values are onnxruntime's, and numpy's in double where its kernels for half floats round otherwise."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def packed(values, bits):
    """Rows of integers as bytes, the first in the low bits, each row a whole number of bytes."""
    per = 8 // bits
    padded = np.zeros((*values.shape[:-1], -(-values.shape[-1] // per) * per), np.uint8)
    padded[..., : values.shape[-1]] = values
    groups = padded.reshape(*padded.shape[:-1], -1, per)
    return np.bitwise_or.reduce(groups << (np.arange(per, dtype=np.uint8) * bits), -1).astype(np.uint8)


def n_bits(cases, name, rows, k, n, bits, block, zeros=None, bias=False, half=False, one=False, factor=None, most=None):
    """MatMulNBits; `zeros` is None, "packed" or "real"."""
    r, blocks, kind = cases.r, -(-k // block), np.float16 if half else np.float32
    x = r.standard_normal((*rows, k)).astype(kind)
    q, scale = r.integers(0, 1 << bits, (n, blocks, block)).astype(np.uint8), r.uniform(0.01, 0.1, (n, blocks)).astype(kind)
    zero = np.full((n, blocks), 1 << (bits - 1), np.uint8)
    constants = {"B": packed(q, bits), "scale": scale.reshape(-1)}
    names = ["x", "B", "scale"]
    if zeros == "packed":
        zero = np.full((n, blocks), 3, np.uint8) if one else r.integers(0, 1 << bits, (n, blocks)).astype(np.uint8)
        constants["zero"] = packed(zero, bits).reshape(-1)
        names.append("zero")
    elif zeros == "real":
        zero = r.uniform(1, 3, (n, blocks)).astype(kind)
        constants["zero"] = zero.reshape(-1)
        names.append("zero")
    addend = np.zeros(n, kind)
    if bias:
        constants["bias"] = addend = r.standard_normal(n).astype(kind)
        names += [""] * (5 - len(names)) + ["bias"]
    element = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    nodes = [helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", K=k, N=n, bits=bits, block_size=block)]
    if factor:
        constants["factor"] = np.array(factor, kind)
        nodes[0].output[0] = "unscaled"
        nodes.append(helper.make_node("Mul", ["unscaled", "factor"], ["y"]))
    graph = helper.make_graph(nodes, "g",
                              [helper.make_tensor_value_info("x", element, x.shape)], [helper.make_tensor_value_info("y", element, [*rows, n])],
                              [numpy_helper.from_array(v, c) for c, v in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
    weights = ((q - zero[..., None].astype(np.float64)) * scale[..., None].astype(np.float64)).reshape(n, -1)[:, :k]
    want = (x.astype(np.float64) @ weights.T + addend).astype(kind)
    tolerances = dict(want=[want], rtol=1e-2, atol=2e-3) if half else dict(want=[want] if zeros == "real" else None)
    cases.all.append((f"weights-{bits}-bits-{name}", model, [x], {**tolerances, "most_constants": most}))


def blocked(cases, name, dtype, m, k, n, block, axis=0, zeros=True, half=False, gemm=False, most=None):
    """MatMul, or Gemm with the weights turned, of a DequantizeLinear."""
    r, kind = cases.r, np.float16 if half else np.float32
    info = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.INT8: (-128, 128), TensorProto.UINT8: (0, 256)}[dtype]
    shape = (n, k) if gemm else (k, n)
    parameters = [s if a != axis else (-(-s // block) if block else s) for a, s in enumerate(shape)]
    if not block:
        parameters = [shape[axis]]
    integers = r.integers(*info, shape)
    tensor = lambda name, values: helper.make_tensor(name, dtype, values.shape, values.flatten().tolist())
    scale = r.uniform(0.01, 0.1, parameters).astype(kind)
    constants = [tensor("q", integers), numpy_helper.from_array(scale, "scale")]
    if zeros:
        constants.append(tensor("zero", r.integers(*info, parameters)))
    nodes = [helper.make_node("DequantizeLinear", ["q", "scale", *(["zero"] if zeros else [])], ["w"], axis=axis, **({"block_size": block} if block else {})),
             helper.make_node("Gemm", ["x", "w"], ["y"], transB=1) if gemm else helper.make_node("MatMul", ["x", "w"], ["y"])]
    element = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", element, [m, k])], [helper.make_tensor_value_info("y", element, [m, n])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = r.standard_normal((m, k)).astype(kind)
    cases.all.append((f"weights-{name}", model, [x], dict(rtol=1e-2, atol=2e-3, most_constants=most) if half else dict(most_constants=most)))


def add(cases):
    for bits in (4, 8):
        for block in (16, 32, 128, 256):
            k, n = 2 * block + (block // 2), 24
            blocks = 3
            most = k * n * bits // 8 + blocks * n * 5 + 4 * n * block  # integers, a scale and a zero point a block, the padding of words and columns
            for rows in ((1,), (9,)):
                n_bits(cases, f"{rows[0]}x{k}-by-{block}", rows, k, n, bits, block, most=most)
                n_bits(cases, f"{rows[0]}x{k}-by-{block}-zeros", rows, k, n, bits, block, zeros="packed", most=most)
        n_bits(cases, "batch-bias", (2, 3), 64, 40, bits, 32, zeros="packed", bias=True)
        n_bits(cases, "odd", (5,), 75, 13, bits, 32, zeros="packed", bias=True)
        n_bits(cases, "odd-row", (1,), 75, 13, bits, 16)
        n_bits(cases, "short", (4,), 9, 8, bits, 32)
        n_bits(cases, "one-zero", (6,), 64, 24, bits, 32, zeros="packed", one=True)
        n_bits(cases, "real-zeros", (6,), 64, 24, bits, 32, zeros="real")
        for rows in ((1,), (7,)):
            n_bits(cases, f"half-{rows[0]}", rows, 160, 32, bits, 64, zeros="packed", bias=True, half=True, most=4 * 3 * 160 * 32 // 8 if bits == 4 else None)
    n_bits(cases, "scaled", (2,), 64, 24, 4, 32, factor=0.125, most=64 * 32 // 2 + 2 * 32 * 4)
    n_bits(cases, "rows", (5,), 80, 24, 2, 32, zeros="packed")
    n_bits(cases, "decoder", (1,), 1024, 512, 4, 32, most=1024 * 512 * 5 // 8)
    t = TensorProto
    for m in (1, 10):
        blocked(cases, f"blocked-int4-{m}", t.INT4, m, 96, 40, 32, most=96 * 40 // 2 + 3 * 64 * 5 + 96 * 24 // 2)
        blocked(cases, f"blocked-uint4-gemm-{m}", t.UINT4, m, 96, 40, 16, axis=1, gemm=True)
        blocked(cases, f"blocked-uint8-{m}", t.UINT8, m, 64, 24, 16)
        blocked(cases, f"blocked-int8-half-{m}", t.INT8, m, 64, 24, 32, half=True)
        blocked(cases, f"columns-int8-{m}", t.INT8, m, 60, 24, 0, axis=1)
    blocked(cases, "blocked-int4-no-zeros", t.INT4, 6, 64, 24, 32, zeros=False)
    blocked(cases, "blocked-odd", t.INT4, 6, 60, 24, 12)  # blocks that words do not follow: as floats
    blocked(cases, "blocked-columns", t.INT4, 6, 32, 24, 8, axis=1)  # blocks across the columns: as floats
    blocked(cases, "steps-int8", t.INT8, 1, 32, 24, 0, axis=0)  # a scale a step: as floats
