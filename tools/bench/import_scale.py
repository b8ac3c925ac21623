#!/usr/bin/env python3
"""How import scales: a model of many nodes with large external weights.

    import_scale.py DIR [--nodes 5000] [--bytes 1e9] [--embedded] [--run tessera-opt]

Writes DIR/scale.onnx (and scale.data, a sparse file), and with --run imports it and prints
seconds and peak memory. --embedded keeps the weights in the model itself.
"""
import argparse
import concurrent.futures
import os
import subprocess
import time


def build(folder, nodes, total, embedded):
    import numpy as np
    from onnx import TensorProto, helper

    width = 512
    layers = nodes // 3
    each = int(total) // layers // 4 // width * width  # floats a layer, whole rows
    inner = each // width
    graph_nodes, weights, offset, x = [], [], 0, "x"
    for i in range(layers):
        # Shapes alternate so that each weight is used as it is.
        rows, cols = (width, inner) if i % 2 == 0 else (inner, width)
        weight = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[rows, cols])
        if embedded:
            weight.raw_data = np.full(rows * cols, i, np.float32).tobytes()
        else:
            weight.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "scale.data"), ("offset", offset), ("length", rows * cols * 4)):
                weight.external_data.add(key=key, value=str(value))
        offset += rows * cols * 4
        weights.append(weight)
        graph_nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"], name=f"layer{i}/matmul"))
        graph_nodes.append(helper.make_node("Relu", [f"m{i}"], [f"r{i}"], name=f"layer{i}/relu"))
        graph_nodes.append(helper.make_node("Identity", [f"r{i}"], [f"i{i}"], name=f"layer{i}/identity"))
        x = f"i{i}"
    last = width if layers % 2 == 0 else inner
    graph = helper.make_graph(graph_nodes, "scale", [helper.make_tensor_value_info("x", 1, ["n", width])],
                              [helper.make_tensor_value_info(x, 1, ["n", last])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = os.path.join(folder, "scale.onnx")
    with open(path, "wb") as f:
        f.write(model.SerializeToString())
    with open(os.path.join(folder, "scale.data"), "wb") as f:
        f.truncate(0 if embedded else offset)
    return path, len(graph_nodes), offset


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--bytes", type=float, default=1e9)
    parser.add_argument("--embedded", action="store_true")
    parser.add_argument("--run", help="path of tessera-opt")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    # In a process of its own: a child starts with the peak memory of its parent.
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        path, nodes, size = pool.submit(build, args.folder, args.nodes, args.bytes, args.embedded).result()
    print(f"{path}: {nodes} nodes, {size / 1e9:.2f} GB of weights")
    if args.run:
        begin = time.time()
        child = subprocess.Popen([args.run, "--import", "--quiet", path])
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise SystemExit("import failed")
        print(f"import: {time.time() - begin:.2f} s, {usage.ru_utime + usage.ru_stime:.2f} s of processor, "
              f"peak {usage.ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
