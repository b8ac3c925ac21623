"""Backend cases in every element type: one case of each operator, its operands converted to each type that the schema allows.

What is right comes from the same operator in a wider type: for a float type the model in double (or in float, where nothing computes double), with what
the operands really hold, rounded once at the end; for integers onnxruntime, or onnx.reference where it has no kernel. Where nobody can say, there is
no case.
"""
import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOATS = {TensorProto.FLOAT16: 2e-3, TensorProto.BFLOAT16: 2e-2, TensorProto.FLOAT: 1e-3, TensorProto.DOUBLE: 1e-7}
SMALL = {TensorProto.INT4: (-8, 7), TensorProto.UINT4: (0, 15), TensorProto.INT2: (-2, 1), TensorProto.UINT2: (0, 3)}
# Integers that are divided by, or exponents: not zero, not large.
DIVISORS = {("Div", 1), ("Mod", 1), ("Pow", 1), ("BitShift", 1)}
# Their sums in a narrow type depend on the order, or their value on a library's choice of generator.
SKIPPED = {"Dropout", "Bernoulli", "Multinomial", "CastLike", "QuantizeLinear"}


def tensor_types(constraint):
    """The element types of "tensor(...)" texts, but for strings and complex numbers."""
    names = [t[7:-1] for t in constraint.allowed_type_strs if t.startswith("tensor(")]
    kinds = {"float": "FLOAT", "double": "DOUBLE", "float8e8m0": "FLOAT8E8M0"}
    return [getattr(TensorProto, kinds.get(n, n.upper())) for n in names if n != "string" and not n.startswith("complex")]


def parameter(schema, formals, position):
    """The type parameter of the operand at a position, or none."""
    formal = formals[min(position, len(formals) - 1)]
    return formal.type_str if any(c.type_param_str == formal.type_str for c in schema.type_constraints) else None


def is_float(element):
    return element in FLOATS or "FLOAT" in TensorProto.DataType.Name(element)


def bounds(element):
    if element in SMALL:
        return SMALL[element]
    info = np.iinfo(helper.tensor_dtype_to_np_dtype(element))
    return int(info.min), int(info.max)


def converted(value, element, divides):
    """The array in another type, with other values where its own would all be zero or do not fit."""
    target = helper.tensor_dtype_to_np_dtype(element)
    if element == TensorProto.BOOL:
        return np.asarray(value) > np.median(value) if np.size(value) else value.astype(bool)
    wide = np.asarray(value).astype(np.float64)
    is_index = np.asarray(value).dtype.kind in "iu"
    if is_float(element):
        return wide.astype(np.float32).astype(target) if target.itemsize < 4 else wide.astype(target)
    if not is_index and np.size(wide) and np.max(np.abs(wide)) <= 4:
        wide = wide * 7
    low, high = bounds(element)
    wide = np.abs(wide) if low == 0 else wide
    wide = np.clip(np.rint(wide), max(low, -100), min(high, 100))
    if divides:
        wide = np.clip(np.where(wide == 0, 1, wide), max(low, -3), min(high, 3))
    return wide.astype(np.int64).astype(target)


def array_of(value):
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def retyped(model, changes):
    """The model with other element types for its inputs and outputs, by name."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for v in [*copy.graph.input, *copy.graph.output]:
        if v.name in changes:
            v.type.tensor_type.elem_type = changes[v.name]
    return copy


def by_runtime(model, feeds):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def by_reference(model, feeds):
    from onnx.reference import ReferenceEvaluator
    return ReferenceEvaluator(model).run(None, feeds)


def computed(model, feeds):
    # Without VNNI onnxruntime's products of bytes saturate; it truncates what Resize makes of integers.
    op = model.graph.node[0].op_type
    for how in (by_reference, by_runtime) if "QLinear" in op or op == "Resize" else (by_runtime, by_reference):
        try:
            with np.errstate(all="ignore"):
                return how(model, feeds)
        except Exception:  # no kernel, no implementation: each library has its own words for it
            continue
    return None


def expected(model, feeds, names, element, results):
    """The outputs, in the types that the model declares; none if nobody can say."""
    finals = [helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type) for v in model.graph.output]
    outs = wider(model, feeds, names, element, results) if is_float(element) else computed(model, feeds)
    if outs is None or any(not isinstance(o, (np.ndarray, np.generic)) for o in outs):
        return None
    with np.errstate(all="ignore"):
        return [np.asarray(o).astype(t) for o, t in zip(outs, finals)]


def wider(model, feeds, names, element, results):
    for wide in (TensorProto.DOUBLE, TensorProto.FLOAT):
        if element == TensorProto.DOUBLE and wide == TensorProto.FLOAT:
            break
        changes = {n: wide for n in [*names, *results]}
        target = helper.tensor_dtype_to_np_dtype(wide)
        outs = computed(retyped(model, changes), {n: v.astype(target) if n in names else v for n, v in feeds.items()})
        if outs is not None:
            return outs
    return None


def is_legal(model):
    try:
        onnx.checker.check_model(model, full_check=True)
        return True
    except Exception:  # of several kinds
        return False


def variants(case):
    """(label, model, inputs, outputs, rtol, atol) for each parameter of the operator and each other type it may have."""
    model, (inputs, _) = case.model, case.data_sets[0]
    node = model.graph.node[0]
    schema = onnx.defs.get_schema(node.op_type, max(o.version for o in model.opset_import if o.domain == node.domain), node.domain)
    types = {v.name: v.type.tensor_type.elem_type for v in [*model.graph.input, *model.graph.output] if v.type.HasField("tensor_type")}
    arrays = {v.name: array_of(a) for v, a in zip(model.graph.input, inputs)}
    for constraint in schema.type_constraints:
        of = [n for i, n in enumerate(node.input) if n in types and parameter(schema, schema.inputs, i) == constraint.type_param_str]
        results = [n for i, n in enumerate(node.output) if n in types and parameter(schema, schema.outputs, i) == constraint.type_param_str]
        if not of or any(arrays[n].dtype.kind in "OUSc" for n in of):
            continue
        for element in tensor_types(constraint):
            if element == types[of[0]]:
                continue
            feeds = {n: converted(a, element, (node.op_type, list(node.input).index(n)) in DIVISORS) if n in of else a for n, a in arrays.items()}
            changed = retyped(model, {n: element for n in [*of, *results]})
            outs = expected(changed, feeds, of, element, results) if is_legal(changed) else None
            if outs is None:
                continue
            # Of the coarsest float type around.
            kinds = [v.type.tensor_type.elem_type for v in [*changed.graph.input, *changed.graph.output]]
            tolerance = max((FLOATS.get(k, 1e-3) for k in kinds if is_float(k)), default=1e-3)
            largest = max((float(np.max(np.abs(np.asarray(o).astype(np.float64)), initial=0, where=np.isfinite(np.asarray(o).astype(np.float64)))) for o in outs), default=0)
            yield (f"{constraint.type_param_str}_{TensorProto.DataType.Name(element).lower()}", changed, [feeds[v.name] for v in model.graph.input], outs, tolerance,
                   tolerance * (largest if math.isfinite(largest) else 1))


def chosen(tests):
    """Of each operator the case of one node with the most operands that are plain tensors."""
    best = {}
    for c in tests:
        g = c.model.graph
        plain = all(v.type.WhichOneof("value") == "tensor_type" for v in [*g.input, *g.output])
        if len(g.node) != 1 or not plain or g.node[0].op_type in SKIPPED or g.node[0].attribute and any(a.HasField("g") for a in g.node[0].attribute):
            continue
        if any(np.size(array_of(x)) > 50000 for x in c.data_sets[0][0]):
            continue
        key = (g.node[0].domain, g.node[0].op_type)
        if key not in best or len(g.input) > len(best[key].model.graph.input):
            best[key] = c
    return [best[k] for k in sorted(best)]
