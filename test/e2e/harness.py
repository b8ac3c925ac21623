"""What the value tests share: the programs under test, the oracle, seeded inputs, the comparison, the count.

A test never compares our output with our output: the oracle is onnxruntime with every optimisation switched off.
"""
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
CACHE = os.environ.get("TESSERA_CACHE") or os.path.expanduser("~/.cache/tessera")
# Large test data that the project does not carry, when it stands beside the clone.
SHARED = os.environ.get("TESSERA_SHARED") or os.path.join(os.path.dirname(TOP), "shared")
DTYPES = {"float": np.float32, "double": np.float64, "float16": np.float16, "int64": np.int64, "int32": np.int32, "int8": np.int8, "uint8": np.uint8,
          "bool": np.bool_}


class Refused(Exception):
    """Exit status 1: the model or its data is refused. The text is the first reason, `said` all of them."""

    def __init__(self, why, said):
        super().__init__(why)
        self.said = said


class Fault(Exception):
    """Every other status, a signal, a timeout: never right."""


class Tools:
    def __init__(self, build=None, timeout=600):
        self.bin = os.path.join(os.path.abspath(build or os.path.join(TOP, "build", "release")), "bin")
        self.tessera, self.timeout = os.path.join(self.bin, "tessera"), timeout
        if not os.path.exists(self.tessera):
            sys.exit(f"{self.tessera} is not built: run tools/build.sh")

    def call(self, words, **kw):
        try:
            p = subprocess.run([str(w) for w in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=self.timeout, **kw)
        except subprocess.TimeoutExpired:
            raise Fault(f"over {self.timeout} s: {' '.join(map(str, words[:3]))}")
        except OSError as e:
            raise Fault(str(e))
        if p.returncode == 0:
            return p.stdout
        lines = [x.strip() for x in p.stderr.splitlines() if x.strip()]
        why = next((x for x in lines if "error" in x.lower()), lines[-1] if lines else "no message")[:300]
        if p.returncode == 1:
            raise Refused(why, p.stderr)
        raise Fault(f"status {p.returncode}: {why}")

    def compile(self, model, out, *options):
        """Compiles; returns the seconds that it took."""
        start = time.time()
        self.call([self.tessera, "compile", model, "-o", out, *options])
        return time.time() - start

    def run(self, what, feeds, outputs, *options, runner=None):
        """Runs a bundle (or a model) on {name: array} in the order of the model's inputs; returns the outputs in the model's order."""
        with tempfile.TemporaryDirectory() as tmp:
            save_inputs(feeds, os.path.join(tmp, "in"))
            out = os.path.join(tmp, "out")
            os.mkdir(out)
            self.call([*(runner or [self.tessera, "run"]), what, "--inputs", os.path.join(tmp, "in"), "--output-dir", out, *options])
            return [load_value(os.path.join(out, f"output_{i}")) for i in range(outputs)]


def save_inputs(feeds, folder):
    os.makedirs(folder, exist_ok=True)
    for i, v in enumerate(feeds.values()):
        np.save(os.path.join(folder, f"{i}.npy"), v)


def load_value(stem):
    """output_N.npy, or a proto for what .npy cannot hold."""
    if os.path.exists(stem + ".npy"):
        return np.load(stem + ".npy")
    if not os.path.exists(stem + ".pb"):
        raise Fault(f"no {os.path.basename(stem)}.npy or .pb was written")
    import onnx
    from onnx import numpy_helper as nh
    data = open(stem + ".pb", "rb").read()
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(data)
        if tensor.data_type:
            return nh.to_array(tensor)
    except Exception:
        pass
    return nh.to_list(onnx.SequenceProto.FromString(data))


def oracle(model, optimised=False):
    import onnxruntime as ort
    so = ort.SessionOptions()
    so.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL if optimised else ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    so.intra_op_num_threads = so.inter_op_num_threads = 1
    so.log_severity_level = 4
    return ort.InferenceSession(model, so, providers=["CPUExecutionProvider"])


def array(spec, sizes, rng):
    """A seeded input by its specification: dims (numbers, or names of `sizes`), dtype, generator."""
    shape = [sizes[d] if isinstance(d, str) else d for d in spec["dims"]]
    kind = spec["gen"]
    if kind == "normal":
        v = rng.standard_normal(shape) * spec["scale"]
    elif kind == "uniform":
        v = rng.uniform(spec["low"], spec["high"], shape)
    elif kind == "ints":
        v = rng.integers(spec["low"], spec["high"], shape)
    elif kind == "range":
        v = np.arange(int(np.prod(shape))).reshape(shape) + spec["start"]
    else:
        v = np.full(shape, spec["value"])
    return np.asarray(v).astype(DTYPES[spec["dtype"]])


def plain(value):
    """A sequence of maps (what classifiers give) as a table of its values."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return np.array([list(d.values()) for d in value], np.float32)  # map(int64, tensor(float))
    return value


def error(got, want):
    """Largest difference relative to the largest magnitude expected; infinite, with the reason, where that says nothing."""
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return np.inf, "another sequence"
        return max((error(g, w) for g, w in zip(got, want)), default=(0.0, ""))
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return np.inf, f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if want.dtype.kind not in "fc":
        bad = int(np.count_nonzero(got != want))
        return (np.inf, f"{bad} of {want.size} values differ") if bad else (0.0, "")
    if want.size == 0:
        return 0.0, ""
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    got, want = got.astype(wide), want.astype(wide)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return np.inf, "NaN or infinity differs"
    if not finite.any():
        return 0.0, ""
    top = np.abs(want[finite]).max()
    worst = np.abs(got[finite] - want[finite]).max()
    return (float(worst / top) if top else float(worst)), ""


class Tally:
    """Counts, and ends with the line that tools/test.sh reads."""

    def __init__(self, verbose=False):
        self.passed = self.failed = self.skipped = 0
        self.verbose = verbose

    def ok(self, name, note=""):
        self.passed += 1
        if self.verbose:
            print("ok     ", name, note, flush=True)

    def fail(self, name, why):
        self.failed += 1
        print("FAILED ", name, why, flush=True)

    def skip(self, name, why):
        self.skipped += 1
        print("skipped", name, why, flush=True)

    def attempt(self, name, work, *arguments, faults=None):
        """One test: `work` raises what is wrong."""
        try:
            work(*arguments)
        except Refused as why:
            self.fail(name, f"refused: {why}")
        except (faults or Fault) as why:
            self.fail(name, why)
        else:
            self.ok(name)

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed" + (f", {self.skipped} skipped" if self.skipped else ""), flush=True)
        return 1 if self.failed else 0


def commit_seed():
    """A number that changes with each commit: which part of a slow suite is run."""
    p = subprocess.run(["git", "-C", TOP, "rev-parse", "HEAD"], capture_output=True, text=True)
    return int(p.stdout.strip()[:12], 16) if p.returncode == 0 else 0
