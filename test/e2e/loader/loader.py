#!/usr/bin/env python3
"""The loader core as an archive, and tsr-run as a program: size, symbols, file forms, exit codes, speed of the check.

usage: loader.py [--build DIR]
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import Fault, Refused, Tally, Tools  # noqa: E402

LIMIT = 64 * 1024


def archive(tally, path, what):
    """Code below 64 KB, nothing undefined, nothing initialised at start."""
    if not os.path.exists(path):
        return tally.skip(what, f"no {path}")
    undefined = [line.split()[-1] for line in subprocess.run(["llvm-nm-22", "-u", path], capture_output=True, text=True).stdout.splitlines() if " U " in line]
    sections = re.findall(r"^(\.\S+)\s+(\d+)", subprocess.run(["llvm-size-22", "-A", path], capture_output=True, text=True).stdout, re.M)
    text = sum(int(size) for name, size in sections if name.startswith(".text"))
    writable = [name for name, size in sections if int(size) and re.match(r"\.(data|bss|init_array|ctors|tdata|tbss)(?!\.rel\.ro)", name)]
    if undefined or writable or not 0 < text < LIMIT:
        tally.fail(what, f".text {text}, undefined {undefined}, writable {writable}")
    else:
        tally.ok(what, f".text {text} bytes, no undefined symbols, no writable data")


class Runner:
    def __init__(self, tools, tmp):
        self.tools, self.tmp, self.loader = tools, tmp, os.path.join(tools.bin, "tsr-run")

    def bundle(self, name, nodes, inputs, outputs, initializers=()):
        graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        path = os.path.join(self.tmp, name + ".onnx")
        onnx.save(model, path)
        self.tools.compile(path, path + ".tsr")
        return path + ".tsr"

    def run(self, *words):
        p = subprocess.run([self.loader, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return p.returncode, p.stdout, p.stderr

    def out(self, *words, form="npy"):
        folder = os.path.join(self.tmp, "out")
        for old in glob.glob(folder + "/*"):
            os.unlink(old)
        status, _, err = self.run(*words, "--output-dir", folder, "--output-format", form)
        if status:
            raise Fault(f"status {status}: {err.strip()}")
        path = os.path.join(folder, "output_0." + form)
        return np.load(path) if form == "npy" else onnx.load_tensor(path)


def tensor(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def forms(r, tally):
    """Every element type through .npy and .pb, raw and typed."""
    bundles = {}
    for name, kind, values in (
            ("float32", TensorProto.FLOAT, np.array([[1.5, -0.0, np.inf], [np.nan, 1e-45, 3]], np.float32)),
            ("float64", TensorProto.DOUBLE, np.array([[1.5, -2, 3], [4, 5, 1e300]])),
            ("float16", TensorProto.FLOAT16, np.array([[1, 2, 3], [4, 5, 6e-8]], np.float16)),
            ("int64", TensorProto.INT64, np.array([[1, -2, 3], [4, 5, -2**63]])),
            ("int32", TensorProto.INT32, np.array([[1, -2, 3], [4, 5, -2**31]], np.int32)),
            ("int8", TensorProto.INT8, np.array([[1, -2, 3], [4, 5, -128]], np.int8)),
            ("uint8", TensorProto.UINT8, np.array([[1, 2, 3], [4, 5, 255]], np.uint8)),
            ("bool", TensorProto.BOOL, np.array([[True, False, True], [False, False, True]]))):
        try:
            path = bundles[name] = r.bundle("id_" + name, [helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])],
                                            [tensor("x", kind, [2, 3])], [tensor("y", kind, [3, 2])])
            npy, fortran, raw, typed = (os.path.join(r.tmp, f) for f in ("x.npy", "f.npy", "raw.pb", "typed.pb"))
            np.save(npy, values)
            np.save(fortran, np.asfortranarray(values))
            onnx.save_tensor(numpy_helper.from_array(values, "x"), raw)
            flat = values.ravel()
            onnx.save_tensor(helper.make_tensor("x", kind, [2, 3], flat.view(np.float16) if name == "float16" else flat.tolist()), typed)
            for file in (npy, fortran, raw, typed, "x=" + npy):
                got = r.out(path, file)
                if got.dtype != values.dtype or got.shape != (3, 2) or got.tobytes() != values.T.tobytes():
                    raise Fault(f"{os.path.basename(file)}: {got.tolist()}")
            got = numpy_helper.to_array(r.out(path, raw, form="pb"))
            if got.dtype != values.dtype or got.tobytes() != values.T.tobytes():
                raise Fault(f".pb: {got.tolist()}")
            tally.ok(f"forms {name}")
        except (Fault, Refused) as why:
            tally.fail(f"forms {name}", str(why))
    return bundles["float32"]


def refusals(r, tally, bundle):
    """Exit codes, and a first line on stderr that says what is wrong."""
    good = os.path.join(r.tmp, "good.npy")
    np.save(good, np.zeros((2, 3), np.float32))
    wrong_type, wrong_shape, cut, text = (os.path.join(r.tmp, f) for f in ("t.npy", "s.npy", "cut.npy", "text.pb"))
    np.save(wrong_type, np.zeros((2, 3)))
    np.save(wrong_shape, np.zeros((3, 3), np.float32))
    open(cut, "wb").write(open(good, "rb").read()[:-1])
    open(text, "w").write("no tensor at all")
    broken = bundle + ".broken"
    data = bytearray(open(bundle, "rb").read())
    data[-1] ^= 1
    open(broken, "wb").write(data)
    for what, words, status, part in (
            ("no arguments", [], 2, "no bundle given"),
            ("unknown option", [bundle, "--fast"], 2, "unknown option --fast"),
            ("bad number", [bundle, good, "--bench", "0"], 2, "--bench needs a number"),
            ("twice", [bundle, "x=" + good, "x=" + good], 2, "given twice"),
            ("no input", [bundle], 1, "0 input files, needed: 1"),
            ("no such input", [bundle, "z=" + good], 1, "no input 'z'"),
            ("no such file", [bundle, good + ".gone"], 1, "cannot read"),
            ("type", [bundle, wrong_type], 1, "type float64, needed: float32"),
            ("shape", [bundle, wrong_shape], 1, "input 'x' axis 0: 3, needed: exactly 2"),
            ("cut file", [bundle, cut], 1, "23 bytes of elements, needed: 24"),
            ("no tensor", [bundle, text], 1, "neither a .npy file nor a TensorProto"),
            ("no bundle", [text, good], 1, "bundle size"),
            ("no bundle file", [bundle + ".gone", good], 1, "cannot open bundle"),
            ("variant", [bundle, good, "--variant", "z80"], 1, "'z80' asked for"),
            ("damaged", [broken, good], 1, "hash of segment"),
            ("damaged, checked", [broken, "--check"], 4, "hash of segment"),
            ("checked", [bundle, "--check"], 0, "all checks passed"),
            ("help", ["--help"], 0, "")):
        got, _, err = r.run(*words)
        first = err.splitlines()[0] if err else ""
        if got != status or part not in first or (status and not first.startswith("error: ")):
            tally.fail(f"exit code: {what}", f"status {got}, {first!r}")
        else:
            tally.ok(f"exit code: {what}")


class Values:
    """Files for the inputs of models that take strings, sequences and optionals."""

    def __init__(self, r):
        self.r = r
        strings, floats = (helper.make_tensor_type_proto(kind, ["n"]) for kind in (TensorProto.STRING, TensorProto.FLOAT))
        self.bundles = {name: self.identity(name, kind) for name, kind in (
            ("strings", strings), ("sequence", helper.make_sequence_type_proto(floats)), ("string_sequence", helper.make_sequence_type_proto(strings)),
            ("optional", helper.make_optional_type_proto(floats)),
            ("optional_sequence", helper.make_optional_type_proto(helper.make_sequence_type_proto(floats))))}

    def identity(self, name, kind):
        ends = [helper.make_value_info(end, kind) for end in "xy"]
        return self.r.bundle("id_" + name, [helper.make_node("Identity", ["x"], ["y"])], *([end] for end in ends))

    def file(self, data):
        path = os.path.join(self.r.tmp, "value")
        open(path, "wb").write(data if isinstance(data, bytes) else data.SerializeToString())
        return path

    @staticmethod
    def npy(descr, shape, data=b"", fortran=False):
        head = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
        return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + data

    @staticmethod
    def points(*rows):
        return Values.npy(f"<U{len(rows[0])}", (len(rows),), np.array(rows, np.uint32).tobytes())

    @staticmethod
    def strings(*texts, shape=None):
        return TensorProto(dims=shape or [len(texts)], data_type=TensorProto.STRING, string_data=texts)

    @staticmethod
    def sequence(*tensors, kind=1):
        return onnx.SequenceProto(elem_type=kind, tensor_values=tensors)


def values(r, tally):
    """Values that are no tensors, and files that hold none: refused by name, whatever they hold."""
    v = Values(r)
    one = numpy_helper.from_array(np.array([1, 2], np.float32))
    table = numpy_helper.from_array(np.zeros((2, 2), np.float32))
    whole = numpy_helper.from_array(np.array([1, 2]))
    text = v.strings(b"a", b"bc")
    number = v.npy("<f4", "(1,)", bytes(4))
    for name, what, data, part in (
            ("strings", "not UTF-8", v.strings(b"a\xff"), "not UTF-8"),
            ("strings", "a cut character", v.strings(b"a\xe2\x82"), "not UTF-8"),
            ("strings", "an overlong character", v.strings(b"\xc0\xaf"), "not UTF-8"),
            ("strings", "a surrogate", v.strings(b"\xed\xa0\x80"), "55296 is no code point"),
            ("strings", "beyond Unicode", v.strings(b"\xf4\x90\x80\x80"), "1114112 is no code point"),
            ("strings", "character 0", v.strings(b"a\0b"), "the character 0"),
            ("strings", "character 0 at the end", v.strings(b"a\0"), "the character 0"),
            ("strings", "another number", v.strings(b"a", b"b", shape=[3]), "2 strings for shape [3]"),
            ("strings", "a negative extent", v.strings(b"a", shape=[-1]), "negative dimension"),
            ("strings", "numbers", one, "needed: string"),
            ("strings", "a damaged message", text.SerializeToString()[:-1], "neither a .npy file nor a TensorProto"),
            ("strings", "very different lengths", v.strings(b"a" * (1 << 20), *[b""] * 2048), "characters in all"),
            ("strings", ".npy of numbers", number, "needed: a unicode array"),
            ("strings", ".npy with a surrogate", v.points([97, 0xd800]), "55296 is no code point"),
            ("strings", ".npy beyond Unicode", v.points([98, 0], [0x110000, 98]), "1114112 is no code point"),
            ("strings", ".npy of -1", v.points([0xffffffff]), "4294967295 is no code point"),
            ("strings", ".npy with character 0", v.points([97, 0, 98]), "the character 0"),
            ("strings", ".npy with character 0 first", v.points([0, 98]), "the character 0"),
            ("strings", ".npy of other bytes", v.npy("<U1", "(3,)", bytes(8)), "8 bytes of elements, needed: 12"),
            ("strings", ".npy too large", v.npy("<U16777216", "(1099511627776,)"), "is too large"),
            ("strings", ".npy too wide", v.npy("<U99999999", "(1,)"), "is not supported"),
            ("strings", ".npy of nothing, walked", v.npy("<U0", "(1048576, 67108864)", fortran=True), "rank"),
            ("sequence", "of no tensor", v.sequence(kind=2), "a sequence of what is no tensor"),
            ("sequence", "another element type", v.sequence(one, whole), "a sequence of int64, needed: float32"),
            ("sequence", "rank above the contract", v.sequence(one, table), "rank 2 in a sequence, needed: at most 1"),
            ("sequence", ".npy", number, "a sequence is given as a SequenceProto"),
            ("sequence", "a damaged tensor", v.sequence(one).SerializeToString()[:-1], "neither a .npy file nor a TensorProto"),
            ("sequence", "strings", v.sequence(text), "type string"),
            ("string_sequence", "of no tensor", v.sequence(kind=3), "a sequence of what is no tensor"),
            ("string_sequence", "of numbers", v.sequence(one), "needed: string"),
            ("string_sequence", "not UTF-8", v.sequence(v.strings(b"\xfe")), "not UTF-8"),
            ("string_sequence", "rank above the contract", v.sequence(v.strings(b"a", shape=[1, 1])), "rank 2 in a sequence, needed: at most 1"),
            ("optional", "another kind", onnx.OptionalProto(elem_type=3, sequence_value=v.sequence(one)), "another kind of value"),
            ("optional", "another type", onnx.OptionalProto(elem_type=1, tensor_value=whole), "type int64, needed: float32"),
            ("optional", ".npy of another rank", v.npy("<f4", "(1, 1)", bytes(4)), "rank"),
            ("optional_sequence", "another kind", onnx.OptionalProto(elem_type=1, tensor_value=one), "another kind of value"),
            ("optional_sequence", ".npy", number, "a sequence is given as a SequenceProto")):
        got, _, err = r.run(v.bundles[name], v.file(data))
        first = err.splitlines()[0] if err else ""
        if got != 1 or part not in first or not first.startswith("error: "):
            tally.fail(f"value: {name}: {what}", f"status {got}, {first!r}")
        else:
            tally.ok(f"value: {name}: {what}")
    tally.attempt("value: strings, sequences and optionals go through", through, v, faults=(Fault, Refused))


def through(v):
    """What is not to be refused comes out as it went in."""
    words = np.array(["", "a", "\u00e4\u20ac", "\U0001f600 b"])
    for data in (v.points(*([*map(ord, w), 0, 0, 0][:3] for w in words)), v.strings(*(w.encode() for w in words))):
        got = v.r.out(v.bundles["strings"], v.file(data))
        if got.tolist() != words.tolist():
            raise Fault(f"strings: {got.tolist()}")
    one, none = (numpy_helper.from_array(np.array(x, np.float32)) for x in ([1, 2], []))
    folder = os.path.join(v.r.tmp, "out")
    for name, sent in (("sequence", v.sequence(one, none, one)), ("sequence", v.sequence()), ("string_sequence", v.sequence(v.strings(b"a", b"bc"), v.strings(b"d"))),
                       ("optional", onnx.OptionalProto(elem_type=1, tensor_value=one)), ("optional", onnx.OptionalProto()),
                       ("optional_sequence", onnx.OptionalProto(elem_type=3, sequence_value=v.sequence(one)))):
        status, _, err = v.r.run(v.bundles[name], v.file(sent), "--output-dir", folder, "--output-format", "pb")
        if status:
            raise Fault(f"{name}: status {status}: {err.strip()}")
        got = type(sent).FromString(open(os.path.join(folder, "output_0.pb"), "rb").read())
        if plain_value(got) != plain_value(sent):
            raise Fault(f"{name}: {plain_value(got)}")


def plain_value(proto):
    if isinstance(proto, onnx.SequenceProto):
        return [numpy_helper.to_array(t).tolist() for t in proto.tensor_values]
    if proto.HasField("sequence_value"):
        return plain_value(proto.sequence_value)
    return numpy_helper.to_array(proto.tensor_value).tolist() if proto.HasField("tensor_value") else None


def options(r, tally, bundle):
    good, trace = os.path.join(r.tmp, "good.npy"), os.path.join(r.tmp, "trace.json")
    status, out, err = r.run(bundle, good, "--bench", 5, "--ns", "--threads", 2, "--poison", "--trace", trace)
    lines = out.split()
    events = json.load(open(trace))["traceEvents"] if status == 0 else []
    if status or len(lines) != 5 or not all(int(x) > 0 for x in lines) or not events or not all(e["args"]["ns"] >= 0 and e["cat"] for e in events):
        tally.fail("bench and trace", f"status {status}: {out!r} {err!r} {events}")
    else:
        tally.ok("bench and trace")
    status, out, _ = r.run(bundle, good)
    if status or not out.startswith("y: float32[3,2] 0 0"):
        tally.fail("summary", out)
    else:
        tally.ok("summary")


def speed(r, tally):
    """A bundle of 100 MB is checked in seconds."""
    weight = np.random.default_rng(0).standard_normal((25, 1024, 1024)).astype(np.float32)
    path = r.bundle("large", [helper.make_node("Add", ["x", "w"], ["y"])], [tensor("x", TensorProto.FLOAT, [1])],
                    [tensor("y", TensorProto.FLOAT, [25, 1024, 1024])], [numpy_helper.from_array(weight, "w")])
    start = time.time()
    status, _, err = r.run(path, "--check")
    seconds = time.time() - start
    size = os.path.getsize(path)
    if status or seconds > 5 or size < 100e6:
        tally.fail("check of 100 MB", f"status {status}, {seconds:.2f} s, {size} bytes {err}")
    else:
        tally.ok("check of 100 MB", f"{size / 1e6:.0f} MB in {seconds:.2f} s")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    a = ap.parse_args()
    tools, tally = Tools(a.build), Tally(verbose=True)
    lib = os.path.join(os.path.dirname(tools.bin), "lib")
    archive(tally, os.path.join(lib, "libtsr.a"), "core x86-64")
    archive(tally, os.path.join(lib, "aarch64", "libtsr.a"), "core AArch64")
    with tempfile.TemporaryDirectory() as tmp:
        r = Runner(tools, tmp)
        bundle = forms(r, tally)
        refusals(r, tally, bundle)
        values(r, tally)
        options(r, tally, bundle)
        speed(r, tally)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
