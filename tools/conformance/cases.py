"""The ONNX backend cases as plain files: DIR/FOLDER/CASE/{model.onnx, input_N.pb, output_N.pb, meta.json}.

The node cases are computed by the onnx package, the others copied from it. A case whose values depend on a random generator is left out. Those of the
folder `typed` are ours: one case of each operator in every other element type (typed.py).
"""
import hashlib
import json
import os
import shutil

import numpy as np
import onnx
from onnx import numpy_helper as nh

import typed

RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
KINDS = {"tensor_type": onnx.TensorProto, "sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto, "map_type": onnx.MapProto}


def is_random(model):
    ops = {n.op_type for n in model.graph.node}
    training = any(n.op_type == "Dropout" and len(n.input) > 2 and n.input[2] for n in model.graph.node)
    return bool(ops & RANDOM) or training


def proto(value, kind, name):
    if kind == "map_type":
        return nh.from_dict(value, name)
    if kind == "sequence_type":
        return nh.from_list(value, name)
    if kind == "optional_type":
        return nh.from_optional(value, name)
    return value if isinstance(value, onnx.TensorProto) else nh.from_array(np.asarray(value), name)


def type_name(info):
    """The element type of a graph's input or output, in lower case; the kind of what is no tensor."""
    kind = info.type.WhichOneof("value") or "tensor_type"
    return onnx.TensorProto.DataType.Name(info.type.tensor_type.elem_type).lower() if kind == "tensor_type" else kind[:-5]


def write(folder, name, model, values, rtol, atol, op, type=None):
    """`values`: {"input": [...], "output": [...]}, each a value or the bytes of a proto. `type`: what the case is about; the first operand's if none."""
    path = os.path.join(folder, name)
    os.makedirs(path)
    with open(os.path.join(path, "model.onnx"), "wb") as f:
        f.write(model.SerializeToString())
    meta = {"op": op, "type": type or type_name([*model.graph.input, *model.graph.output][0]), "rtol": rtol, "atol": atol, "input": [], "output": []}
    for tag, infos in (("input", model.graph.input), ("output", model.graph.output)):
        for i, v in enumerate(values[tag]):
            kind = infos[i].type.WhichOneof("value") or "tensor_type"
            with open(os.path.join(path, f"{tag}_{i}.pb"), "wb") as f:
                f.write(v if isinstance(v, bytes) else proto(v, kind, infos[i].name).SerializeToString())
            meta[tag].append(kind)
    with open(os.path.join(path, "meta.json"), "w") as f:
        json.dump(meta, f)


def node_cases(out, tests):
    ops = {c.name: c.model.graph.node[0].op_type for c in tests if "_expanded" not in c.name}
    for c in tests:
        if is_random(c.model):
            continue
        op = ops.get(c.name.split("_expanded")[0], c.model.graph.node[0].op_type)
        for k, (ins, outs) in enumerate(c.data_sets):
            write(os.path.join(out, "node"), c.name + (f"@{k}" if k else ""), c.model, {"input": ins, "output": outs}, c.rtol, c.atol, op)


def typed_cases(out, tests):
    for c in typed.chosen([c for c in tests if not is_random(c.model)]):
        for label, model, ins, outs, rtol, atol in typed.variants(c):
            write(os.path.join(out, "typed"), f"{c.name}__{label}", model, {"input": ins, "output": outs}, rtol, atol, c.model.graph.node[0].op_type, label.split("_", 1)[1])


def stored_cases(out, folder):
    data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", folder)
    for name in sorted(os.listdir(data)):
        source = os.path.join(data, name)
        if not os.path.isfile(os.path.join(source, "model.onnx")):
            continue
        model = onnx.load(os.path.join(source, "model.onnx"))
        if is_random(model):
            continue
        tol = json.load(open(os.path.join(source, "data.json"))) if os.path.exists(os.path.join(source, "data.json")) else {}
        for k, s in enumerate(sorted(x for x in os.listdir(source) if x.startswith("test_data_set"))):
            files = os.listdir(os.path.join(source, s))
            values = {tag: [open(os.path.join(source, s, f"{tag}_{i}.pb"), "rb").read() for i in range(sum(x.startswith(tag + "_") for x in files))]
                      for tag in ("input", "output")}
            main = max((n.op_type for n in model.graph.node), key=lambda o: (o not in ("Constant", "Identity"), o), default="")
            write(os.path.join(out, folder), name + (f"@{k}" if k else ""), model, values, tol.get("rtol", 1e-3), tol.get("atol", 1e-7), main)


def make(out):
    """Fills `out` once; its stamp names the onnx version."""
    stamp = os.path.join(out, "stamp")
    wanted = onnx.__version__ + " " + "".join(hashlib.sha256(open(f, "rb").read()).hexdigest()[:16] for f in (__file__, typed.__file__))
    if os.path.exists(stamp) and open(stamp).read() == wanted:
        return
    part = out + ".part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    from onnx.backend.test.loader import load_node_model_tests
    np.random.seed(0)
    with np.errstate(all="ignore"):
        tests = load_node_model_tests()
    node_cases(part, tests)
    typed_cases(part, tests)
    for folder in ("simple", "pytorch-converted", "pytorch-operator"):
        stored_cases(part, folder)
    with open(os.path.join(part, "stamp"), "w") as f:
        f.write(wanted)
    os.rename(part, out)


def load(path, kind):
    data = open(path, "rb").read()
    p = KINDS[kind].FromString(data)
    if kind == "sequence_type":
        return nh.to_list(p)
    if kind == "optional_type":
        return nh.to_optional(p)
    if kind == "map_type":
        return nh.to_dict(p)
    return nh.to_array(p)
