"""Records shapes and small integer contents of real runs for shape-check.

  record.py cases DIR... > CASES.jsonl      conformance cases: model.onnx, input_N.pb, output_N.pb
  record.py models MANIFEST DIR > ...       the models of test/e2e/models.json, run with onnxruntime
                                            at its shapes; every intermediate tensor is an output
"""
import glob
import json
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper


def small(a):
    return a.size <= 256 and a.dtype.kind in "iub"


def entry(a):
    e = {"dims": list(a.shape)}
    if small(a):
        e["data"] = [int(x) for x in a.ravel()]
    return e


def load(path):
    t = onnx.TensorProto()
    t.ParseFromString(open(path, "rb").read())
    return numpy_helper.to_array(t)


def case(folder):
    model = onnx.load(os.path.join(folder, "model.onnx"), load_external_data=False)
    for p in list(model.graph.input) + list(model.graph.output):
        if p.type.WhichOneof("value") != "tensor_type":
            return None
    inputs = [load(p) for p in sorted(glob.glob(folder + "/input_*.pb"), key=lambda p: int(p.split("_")[-1][:-3]))]
    outputs = [load(p) for p in sorted(glob.glob(folder + "/output_*.pb"), key=lambda p: int(p.split("_")[-1][:-3]))]
    initial = {i.name for i in model.graph.initializer}
    names = [i.name for i in model.graph.input]
    if len(inputs) != len(names):
        names = [n for n in names if n not in initial]
        if len(inputs) != len(names):
            return None
    values = {o.name: list(a.shape) for o, a in zip(model.graph.output, outputs)}
    contents = {o.name: [int(x) for x in a.ravel()] for o, a in zip(model.graph.output, outputs) if small(a)}
    return {"model": os.path.join(folder, "model.onnx"), "inputs": [entry(a) for a in inputs], "values": values, "contents": contents}


def run_model(path, arrays):
    import onnxruntime as ort
    model = onnx.load(path)
    have = {o.name for o in model.graph.output}
    names = [o for n in model.graph.node for o in n.output if o and o not in have]
    for n in names:
        model.graph.output.append(onnx.ValueInfoProto(name=n))
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.log_severity_level = 4
    data = model.SerializeToString()
    session = ort.InferenceSession(data, o, providers=["CPUExecutionProvider"])
    wanted = [x.name for x in session.get_outputs()]
    result = session.run(wanted, arrays)
    values, contents = {}, {}
    for n, a in zip(wanted, result):
        if isinstance(a, np.ndarray):
            values[n] = list(a.shape)
            if small(a):
                contents[n] = [int(x) for x in a.ravel()]
    initial = {i.name for i in model.graph.initializer}
    order = [i.name for i in model.graph.input if i.name not in initial or i.name in arrays]
    return {"model": path, "inputs": [entry(arrays[n]) for n in order], "values": values, "contents": contents}


def main():
    if sys.argv[1] == "cases":
        for root in sys.argv[2:]:
            for model in sorted(glob.glob(root + "/*/model.onnx")):
                try:
                    r = case(os.path.dirname(model))
                except Exception as e:  # strings and the newest types have no numpy form
                    print("skip", model, str(e)[:80], file=sys.stderr)
                    continue
                if r:
                    print(json.dumps(r))
        return
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../test/e2e"))
    import models as zoo
    manifest = json.load(open(sys.argv[2]))
    for m in manifest["models"] if isinstance(manifest, dict) else manifest:
        path = os.path.join(sys.argv[3], m["file"])
        for k, sizes in enumerate(m["sizes"]):
            try:
                print(json.dumps(run_model(path, zoo.feeds_of(m, sizes, k))), flush=True)
            except Exception as e:
                print("skip", path, str(e)[:200], file=sys.stderr)


if __name__ == "__main__":
    main()
