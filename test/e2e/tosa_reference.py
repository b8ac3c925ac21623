"""Runs a TOSA file on seeded inputs in the reference model, which may abort: a process of its own, in its own environment.

usage: tosa_reference.py FILE.tosa FOLDER SEED

Writes FOLDER/in/N.npy and FOLDER/out/N.npy in the order of the file's inputs and outputs.
"""
import os
import sys

sys.path.pop(0)  # the test beside this file has the name of a package
import numpy as np
import tosa_reference_model as model
from tosa.DType import DType
from tosa.TosaGraph import TosaGraph

TYPES = {DType.FP32: np.float32, DType.FP16: np.float16, DType.INT8: np.int8, DType.INT16: np.int16, DType.INT32: np.int32, DType.BOOL: np.bool_}


def value(dtype, shape, rng):
    if dtype in (np.float32, np.float16):
        return rng.standard_normal(shape).astype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    low, high = {np.int8: (-128, 128), np.int16: (-32768, 32768)}.get(dtype, (-1000, 1000))
    return rng.integers(low, high, shape).astype(dtype)


def main():
    path, folder, seed = sys.argv[1:]
    data = open(path, "rb").read()
    block = TosaGraph.GetRootAs(data, 0).Regions(0).Blocks(0)
    tensors = {block.Tensors(i).Name(): block.Tensors(i) for i in range(block.TensorsLength())}
    rng = np.random.Generator(np.random.PCG64(int(seed)))
    inputs = []
    for i in range(block.InputsLength()):
        t = tensors[block.Inputs(i)]
        inputs.append(value(TYPES[t.Type()], [int(d) for d in t.ShapeAsNumpy()], rng))
    outputs, status = model.run(data, inputs, tosa_level="EIGHTK")
    if status.name != "TOSA_VALID":
        sys.exit(f"the reference model says {status.name}")
    for kind, values in (("in", inputs), ("out", outputs)):
        os.makedirs(os.path.join(folder, kind), exist_ok=True)
        for i, v in enumerate(values):
            np.save(os.path.join(folder, kind, f"{i}.npy"), v)


if __name__ == "__main__":
    main()
