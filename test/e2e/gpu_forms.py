"""Cases for gpu.py: attributes, element types and operands that a kernel might pass over. Values are onnxruntime's, or the standard's reference where that differs or has no kernel."""
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

n = helper.make_node
KINDS = {np.dtype(k): helper.np_dtype_to_tensor_dtype(np.dtype(k)) for k in ("f4", "f2", "f8", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8", "?")}


def reference(model, inputs):
    import onnxruntime as ort

    return ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)


class Forms:
    def __init__(self, cases):
        self.cases, self.r = cases, cases.r

    def f(self, *shape, kind=np.float32):
        return self.r.standard_normal(shape).astype(kind)

    def i(self, low, high, *shape, kind=np.int64):
        return self.r.integers(low, high, shape).astype(kind)

    def add(self, name, op, inputs, shapes, constants=(), kinds=None, standard=False, opset=21, names=None, refused=None, **attributes):
        """`shapes`: of the results; element types are the first operand's unless `kinds` says otherwise."""
        shapes = shapes if isinstance(shapes, list) else [shapes]
        first = next(iter(inputs.values())).dtype
        outputs = {f"y{k}": (KINDS[np.dtype((kinds or [])[k] if kinds else first)], s) for k, s in enumerate(shapes) if s is not None}
        node = n(op, names or [*inputs, *dict(constants)], [f"y{k}" if s is not None else "" for k, s in enumerate(shapes)], **attributes)
        half = any(a.dtype == np.float16 for a in [*inputs.values(), *dict(constants).values()])
        tolerances = dict(rtol=4e-3, atol=2e-3) if half else {}
        self.cases.add(f"form-{name}", [node], inputs, outputs, constants, opset, **tolerances, **({"refused": refused} if refused else {}))
        if standard:
            case = self.cases.all[-1]
            case[3]["want"] = ReferenceEvaluator(case[1]).run(None, inputs)

    def build(self):
        self.sampled()
        self.sorted()
        self.indexed()
        self.rows()
        self.recurrent()
        self.windows()
        self.elements()

    def sampled(self):
        x, g = self.f(2, 3, 4, 5, 6), self.f(2, 3, 4, 5, 3)
        for mode in ("linear", "nearest"):
            for padding in ("zeros", "border", "reflection"):
                self.add(f"gridsample-volume-{mode}-{padding}", "GridSample", {"x": x, "g": g}, (2, 3, 3, 4, 5), mode=mode, padding_mode=padding, align_corners=int(padding == "border"))
        self.add("gridsample-int32", "GridSample", {"x": self.i(-9, 9, 1, 2, 4, 5, kind="i4"), "g": self.f(1, 3, 3, 2)}, (1, 2, 3, 3), mode="nearest", standard=True)
        self.add("gridsample-int32-linear", "GridSample", {"x": self.i(-9, 9, 1, 2, 4, 5, kind="i4"), "g": self.f(1, 3, 3, 2)}, (1, 2, 3, 3), refused="int32")
        self.add("gridsample-half", "GridSample", {"x": self.f(1, 2, 4, 5, kind="f2"), "g": self.f(1, 3, 3, 2, kind="f2")}, (1, 2, 3, 3), standard=True)
        for coordinates in ("half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners", "pytorch_half_pixel"):
            for nearest in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
                self.add(f"resize-{coordinates}-{nearest}", "Resize", {"x": self.f(1, 2, 6, 7)}, (1, 2, 4, 16), {"s": np.array([4, 16])}, names=["x", "", "", "s"], axes=[2, 3], nearest_mode=nearest, coordinate_transformation_mode=coordinates)
            self.add(f"resize-linear-{coordinates}", "Resize", {"x": self.f(1, 2, 6, 7, kind="f2" if coordinates == "asymmetric" else "f4")}, (1, 2, 4, 17), {"s": np.array([1, 2, 4, 17])}, names=["x", "", "", "s"], mode="linear", coordinate_transformation_mode=coordinates)
        self.add("resize-uint8", "Resize", {"x": self.i(0, 255, 1, 3, 5, 5, kind="u1")}, (1, 3, 12, 12), {"s": np.float32([1, 1, 2.5, 2.5])}, names=["x", "", "s"])
        self.add("resize-crop", "Resize", {"x": self.f(1, 1, 5, 5)}, (1, 1, 4, 4), {"r": np.float32([0, 0, 0.2, 0.2, 1, 1, 1.4, 1.4]), "z": np.array([1, 1, 4, 4])}, names=["x", "r", "", "z"], coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0, mode="linear", refused="tf_crop_and_resize")
        self.add("resize-aspect", "Resize", {"x": self.f(1, 1, 4, 6)}, (1, 1, 6, 9), {"s": np.array([6, 12])}, names=["x", "", "", "s"], axes=[2, 3], keep_aspect_ratio_policy="not_larger", refused="keep_aspect_ratio_policy")

    def sorted(self):
        nan = np.float32([[1, np.nan, 3, -np.inf], [np.nan, np.nan, 2, 5], [np.inf, 0, -0.0, 1]])
        for largest in (0, 1):
            self.add(f"topk-nan-{largest}", "TopK", {"x": nan}, [(3, 3), (3, 3)], {"k": np.array([3])}, kinds=["f4", "i8"], largest=largest, standard=False)
            self.add(f"topk-first-axis-{largest}", "TopK", {"x": self.i(0, 255, 7, 3, kind="u1")}, [(4, 3), (4, 3)], {"k": np.array([4])}, kinds=["u1", "i8"], axis=-2, largest=largest, sorted=1)
        self.add("topk-half", "TopK", {"x": self.f(3, 9, kind="f2")}, [(3, 2), (3, 2)], {"k": np.array([2])}, kinds=["f2", "i8"])
        self.add("argmax-nan", "ArgMax", {"x": nan}, (3, 1), kinds=["i8"], axis=1, standard=True)
        self.add("argmin-int8", "ArgMin", {"x": self.i(-9, 9, 4, 6, kind="i1")}, (6,), kinds=["i8"], axis=-2, keepdims=0, select_last_index=1)
        for kind in ("f2", "f8", "i4", "u4"):
            x = self.i(0, 5, 3, 6, 2).astype(kind)
            self.add(f"cumsum-{kind}", "CumSum", {"x": x}, x.shape, {"a": np.array([-2], np.int32).reshape(())}, exclusive=1, reverse=1, standard=True, **({"refused": "float64"} if kind == "f8" else {}))
        self.add("cumprod", "CumProd", {"x": self.f(3, 5)}, (3, 5), {"a": np.array(1)}, exclusive=1, opset=26, standard=True)

    def indexed(self):
        self.add("gather-elements-negative", "GatherElements", {"x": self.f(4, 6, 3), "i": self.i(-6, 6, 4, 2, 3)}, (4, 2, 3), axis=-2)
        self.add("gather-nd-half", "GatherND", {"x": self.f(4, 6, kind="f2"), "i": self.i(-4, 4, 3, 1)}, (3, 6))
        self.add("gather-bool", "Gather", {"x": self.f(5, 6) > 0, "i": self.i(-6, 6, 2, 2, kind="i4")}, (5, 2, 2), axis=-1)
        for kind in ("f2", "i1", "u1", "i8"):
            self.add(f"scatter-elements-add-{kind}", "ScatterElements", {"x": self.i(0, 9, 4, 6).astype(kind), "i": self.i(-6, 6, 4, 5), "u": self.i(0, 9, 4, 5).astype(kind)}, (4, 6), axis=-1, reduction="add", standard=True)
        self.add("scatter-nd-bool", "ScatterND", {"x": self.f(4, 6) > 0, "i": np.array([[1, 2], [3, -1]]), "u": np.array([True, False])}, (4, 6))
        self.add("scatter-nd-max-uint8", "ScatterND", {"x": self.i(0, 255, 4, 6, kind="u1"), "i": np.array([[1], [1]]), "u": self.i(0, 255, 2, 6, kind="u1")}, (4, 6), reduction="max", standard=True)
        self.add("onehot-float", "OneHot", {"i": np.float32([0, 1, -1, 7]), "v": np.int32([3, -4])}, (4, 3), {"d": np.array(3, np.float32)}, names=["i", "d", "v"], kinds=["i4"], standard=True)
        self.add("reverse-sequence-batch", "ReverseSequence", {"x": self.f(3, 5, 2), "l": np.array([5, 1, 3])}, (3, 5, 2), time_axis=1, batch_axis=0)
        self.add("trilu-bool", "Trilu", {"x": self.f(2, 4, 4) > 0}, (2, 4, 4), upper=0, standard=True)
        self.add("eye-dtype", "EyeLike", {"x": self.f(4, 6)}, (4, 6), kinds=["i8"], dtype=TensorProto.INT64, k=2)
        for mode in ("constant", "reflect", "edge", "wrap"):
            self.add(f"pad-axes-{mode}", "Pad", {"x": self.f(2, 5, 6)}, (2, 8, 10), {"p": np.array([1, 2, 3, 1]), "v": np.array(2.5, np.float32), "a": np.array([-1, 1])}, mode=mode, opset=19)
        self.add("pad-int", "Pad", {"x": self.i(-9, 9, 3, 4, kind="i1")}, (4, 3), {"p": np.array([1, -1, 0, 0]), "v": np.array(-7, np.int8)})
        self.add("split-parts", "Split", {"x": self.f(3, 11)}, [(3, 4), (3, 4), (3, 3)], axis=-1, num_outputs=3)

    def rows(self):
        self.add("layernorm-half", "LayerNormalization", {"x": self.f(4, 12, kind="f2")}, [(4, 12), (4, 1), (4, 1)], {"s": self.f(12, kind="f2")}, kinds=["f2", "f4", "f4"])
        self.add("rmsnorm", "RMSNormalization", {"x": self.f(2, 3, 12)}, (2, 3, 12), {"s": self.f(3, 12)}, axis=-2, epsilon=0.1, opset=23, standard=True)
        self.add("groupnorm", "GroupNormalization", {"x": self.f(2, 6, 5)}, (2, 6, 5), {"s": self.f(6), "b": self.f(6)}, num_groups=3, epsilon=0.1, standard=True)
        self.add("instancenorm", "InstanceNormalization", {"x": self.f(2, 6, 5)}, (2, 6, 5), {"s": self.f(6), "b": self.f(6)}, epsilon=0.1)
        self.add("batchnorm-matrix", "BatchNormalization", {"x": self.f(7, 6)}, (7, 6), {"s": self.f(6), "b": self.f(6), "m": self.f(6), "v": np.abs(self.f(6))})
        for op in ("Softmax", "LogSoftmax"):
            self.add(f"{op}-half", op, {"x": self.f(3, 7, 5, kind="f2")}, (3, 7, 5), axis=-2)
        x = self.f(2, 7, 5, 6)  # onnxruntime has odd sizes only
        squares = np.stack([(x[:, max(0, c - 1) : c + 3].astype(np.float64) ** 2).sum(1) for c in range(7)], 1)
        self.add("lrn-even", "LRN", {"x": x}, x.shape, size=4, alpha=0.02)
        self.cases.all[-1][3]["want"] = [(x / (1 + 0.02 / 4 * squares) ** 0.75).astype(np.float32)]
        for kind in ("i4", "f2"):
            x = self.i(-9, 9, 3, 4, 5).astype(kind)
            for op in ("ReduceSum", "ReduceMax", "ReduceProd", "ReduceMean", "ReduceL1", "ReduceSumSquare"):
                x = x if op != "ReduceProd" else (x % 3).astype(kind)
                unserved = kind == "i4" and op in ("ReduceMean", "ReduceL1")
                self.add(f"{op}-{kind}", op, {"x": x}, (4,), {"a": np.array([-1, 0])}, keepdims=0, **({"refused": f"{op} of int32"} if unserved else {}))
        self.add("reduce-no-axes", "ReduceSum", {"x": self.f(3, 4)}, (3, 4), noop_with_empty_axes=1, refused="a reduction over no axes")

    def recurrent(self):
        t, b, i, h = 4, 3, 5, 6
        for op, gates, usual in (("LSTM", 4, 3), ("GRU", 3, 2), ("RNN", 1, 1)):
            def case(name, d=1, layout=0, kind="f4", results=None, **attributes):
                x = {"x": self.f(*((b, t, i) if layout else (t, b, i)), kind=kind), "l": np.array([4, 1, 3], np.int32), "h0": self.f(*((b, d, h) if layout else (d, b, h)), kind=kind)}
                c = {"w": self.f(d, gates * h, i, kind=kind) * np.array(0.3, kind), "r": self.f(d, gates * h, h, kind=kind) * np.array(0.3, kind)}
                state = (b, d, h) if layout else (d, b, h)
                names = ["x", "w", "r", "", "l", "h0"]
                self.add(f"{op}-{name}", op, x, [(b, t, d, h) if layout else (t, d, b, h), state], c, names=names, hidden_size=h, **({"layout": 1} if layout else {}), **attributes)
                if layout or kind == "f2":  # which onnxruntime does not have: its float32, the batch in the second place
                    turned = {k: (v.swapaxes(0, 1) if layout and k != "l" else v).astype(v.dtype if k == "l" else "f4") for k, v in x.items()}
                    graph = helper.make_graph([n(op, names, ["y", "yh"], hidden_size=h, **attributes)], "g", [helper.make_tensor_value_info(k, KINDS[v.dtype], v.shape) for k, v in turned.items()],
                                              [helper.make_tensor_value_info(k, TensorProto.FLOAT, None) for k in ("y", "yh")], [numpy_helper.from_array(v.astype("f4"), k) for k, v in c.items()])
                    y, yh = reference(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), turned)
                    self.cases.all[-1][3]["want"] = [v.astype(kind) for v in ((y.transpose(2, 0, 1, 3), yh.swapaxes(0, 1)) if layout else (y, yh))]
            if op != "LSTM":
                case("relu", activations=["Relu"] * usual)
            else:
                case("relu", activations=["Sigmoid", "Relu", "Tanh"])
            case("batch-first", layout=1)
            case("batch-first-both", d=2, layout=1, direction="bidirectional")
            case("half", kind="f2")
            case("alpha", activations=["LeakyRelu"] * usual, activation_alpha=[0.1] * usual, refused="activation leakyrelu")
            case("two-activations", d=2, direction="bidirectional", activations=(["Sigmoid", "Tanh", "Tanh"][:usual] + ["Relu"] * usual), refused="differ with the direction")
            case("clip-both", d=2, direction="bidirectional", clip=0.2)

    def windows(self):
        x = self.f(1, 4, 7, 9)
        self.add("maxpool-1d", "MaxPool", {"x": self.f(2, 3, 11)}, [(2, 3, 6), (2, 3, 6)], kinds=["f4", "i8"], kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=1)
        self.add("maxpool-3d", "MaxPool", {"x": self.f(1, 2, 5, 6, 7)}, (1, 2, 3, 3, 4), kernel_shape=[2, 2, 2], strides=[2, 2, 2], auto_pad="SAME_UPPER")
        self.add("maxpool-dilated-indices", "MaxPool", {"x": x}, [(1, 4, 5, 7), (1, 4, 5, 7)], kinds=["f4", "i8"], kernel_shape=[2, 2], dilations=[2, 2])
        self.add("lppool-ceil", "LpPool", {"x": x}, (1, 4, 4, 5), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, p=3)
        self.add("averagepool-half", "AveragePool", {"x": self.f(1, 4, 7, 9, kind="f2")}, (1, 4, 4, 5), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        w = self.f(4, 3, 3, 2)
        for name, shape, attributes in (("plain", (1, 3, 9, 10), {}), ("strides", (1, 3, 15, 18), dict(strides=[2, 2])), ("padding", (1, 3, 14, 19), dict(strides=[2, 2], pads=[1, 0, 1, 0], output_padding=[1, 1])), ("dilated", (1, 3, 11, 11), dict(dilations=[2, 2])),
                                        ("shape", (1, 3, 14, 18), dict(strides=[2, 2], output_shape=[14, 18], auto_pad="SAME_UPPER")), ("lower", (1, 3, 14, 18), dict(strides=[2, 2], auto_pad="SAME_LOWER"))):
            self.add(f"convtranspose-{name}", "ConvTranspose", {"x": x}, shape, {"w": w, "b": self.f(3)}, **attributes)
        self.add("stft-no-window", "STFT", {"x": self.f(1, 40, 1)}, (1, 7, 16, 2), {"s": np.array(4), "n": np.array(16)}, names=["x", "s", "", "n"], onesided=0)
        self.add("dft-axis", "DFT", {"x": self.f(2, 6, 5, 1)}, (2, 4, 5, 2), {"a": np.array(1)}, names=["x", "", "a"], onesided=1, opset=20)

    def elements(self):
        x = self.f(3, 8) * 3
        for op, attributes in (("LeakyRelu", dict(alpha=0.3)), ("Elu", dict(alpha=0.4)), ("Selu", dict(alpha=1.2, gamma=0.9)), ("Celu", dict(alpha=0.7)), ("HardSigmoid", dict(alpha=0.3, beta=0.4)), ("ThresholdedRelu", dict(alpha=0.8)),
                               ("Shrink", dict(lambd=0.9, bias=0.3)), ("Gelu", dict(approximate="tanh")), ("IsInf", dict(detect_negative=0))):
            values = np.where(x > 4, np.float32(np.inf), np.where(x < -4, -np.float32(np.inf), x)) if op == "IsInf" else x
            self.add(f"{op}-attributes", op, {"x": values}, x.shape, kinds=["?"] if op == "IsInf" else None, **attributes)
        for direction in ("LEFT", "RIGHT"):
            self.add(f"bitshift-{direction}", "BitShift", {"x": self.i(0, 255, 9, kind="u1"), "s": self.i(0, 7, 9, kind="u1")}, (9,), direction=direction)
        self.add("quantize-axis", "QuantizeLinear", {"x": x}, x.shape, {"s": np.abs(self.f(3)) + np.float32(0.01), "z": self.i(0, 99, 3, kind="u1")}, kinds=["u1"], axis=0)
        self.add("quantize-int16", "QuantizeLinear", {"x": x * 1000}, x.shape, {"s": np.array(0.1, np.float32), "z": np.array(-7, np.int16)}, kinds=["i2"])
        self.add("dequantize-int32", "DequantizeLinear", {"x": self.i(-999, 999, 3, 8, kind="i4")}, (3, 8), {"s": np.abs(self.f(8))}, kinds=["f4"], axis=-1)
        blocks = {"s": np.abs(self.f(3, 2)) + np.float32(0.01)}
        self.add("quantize-blocks", "QuantizeLinear", {"x": x}, x.shape, blocks, kinds=["i1"], axis=1, block_size=4, output_dtype=TensorProto.INT8, refused="scales for blocks")
        for equation, shapes, out in (("bij,bjk->bik", ((2, 3, 4), (2, 4, 5)), (2, 3, 5)), ("ij->ji", ((3, 4),), (4, 3)), ("ii->i", ((4, 4),), (4,)), ("bhid,bhjd->bhij", ((2, 2, 3, 4), (2, 2, 5, 4)), (2, 2, 3, 5)), ("...ij,...jk->...ik", ((2, 3, 4), (2, 4, 5)), (2, 3, 5)), ("ij,k->", ((3, 4), (2,)), ())):
            self.add(f"einsum-{equation}", "Einsum", {f"x{k}": self.f(*s) for k, s in enumerate(shapes)}, out, equation=equation)


def add(cases):
    Forms(cases).build()
