#!/usr/bin/env python3
"""The vendor's compiler of an Ethos-U as a child process: what a bundle holds of it, and what happens where it misbehaves.

usage: vendor.py [--build DIR] [--only REGEX]

A quantised model goes to an Ethos-U by the real Vela and runs where the processor plays the NPU, with onnxruntime as the oracle; a host that does not
play refuses the bundle. Then Vela is a script that is missing, hangs, dies or talks nonsense: the compile ends with status 1, one error and nothing left
behind, or leaves the work to the processor where that was asked for. Last, a quantised public model on every Ethos-U that there is a description of.
"""
import argparse
import json
import os
import re
import stat
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

import fetch
from graphs import build, feeds_of
from harness import CACHE, Fault, Tally, Tools, error, oracle

PYTHON = os.path.join(CACHE, "venv-tosa", "bin", "python")
Q = " s{0} = Constant<value = float {{{1}}}>() z{0} = Constant<value = int8 {{{2}}}>()"
MODEL = ("g (float[1,8,10,10] x) => (float[1,8,10,10] y) {" + Q.format("a", 0.02, 3) + Q.format("w", 0.015625, 0) + Q.format("b", 0.05, -7)
         + """ xq = QuantizeLinear(x, sa, za) xd = DequantizeLinear(xq, sa, za) wq = QuantizeLinear($[8,8,3,3], sw, zw) wd = DequantizeLinear(wq, sw, zw)
  c = Conv<pads=[1,1,1,1]>(xd, wd) r = Relu(c) cq = QuantizeLinear(r, sb, zb) cd = DequantizeLinear(cq, sb, zb) y = Identity(cd) }""")
# Two convolutions, of which a file with the weights of both is over LARGE bytes.
CHAIN = ("g (float[1,64,1,1] x) => (float[1,64,1,1] y) {" + Q.format("a", 0.02, 3) + Q.format("w", 0.015625, 0) + Q.format("b", 0.05, -7) + Q.format("c", 0.1, 0)
         + """ xq = QuantizeLinear(x, sa, za) xd = DequantizeLinear(xq, sa, za) wq = QuantizeLinear($[64,64,1,1], sw, zw) wd = DequantizeLinear(wq, sw, zw)
  c = Conv(xd, wd) cq = QuantizeLinear(c, sb, zb) cd = DequantizeLinear(cq, sb, zb) vq = QuantizeLinear($[64,64,1,1], sw, zw) vd = DequantizeLinear(vq, sw, zw)
  d = Conv(cd, vd) dq = QuantizeLinear(d, sc, zc) y = DequantizeLinear(dq, sc, zc) }""")
LARGE = 9000
TARGET = "ethos-u55-256"
HELLO = """printf '{"version": "5.2.0"}\\n'; """
REGION = '{"address": 0, "size": 16, "region": 1, "element_size": 1, "shape": []}'


def answer(**changed):
    """A line that would pass, but for what is changed; no bytes follow."""
    values = {"commands": "4", "weights": "0", "weights_region": "0", "scratch": "64", "scratch_region": "1", "scratch_fast": "0", "scratch_fast_region": "0",
              "inputs": f"[{REGION}]", "outputs": f"[{REGION}]", "variables": "0", "cycles": "10", "macs": "1", "npu_ops": "1", "cpu_ops": "0", "clock_hz": "5e8"}
    values.update(changed)
    return "printf '{" + ", ".join(f'"{k}": {v}' for k, v in values.items()) + "}\\n'; "


# Name, the script behind `exec`ing nothing, a word of the error.
FAULTS = [
    ("says nothing", "exit 3", "status 3"),
    ("dies at once", "kill -SEGV $$", "signal 11"),
    ("hangs at once", "sleep 600", "no answer in time"),
    ("hangs, and its child too", "trap '' TERM; sleep 600 & sleep 600", "no answer in time"),
    ("another version", """printf '{"version": "4.5.0"}\\n'; cat >/dev/null""", "version is 4.5.0, 5.2.0 is needed"),
    ("no module", """printf '{"error": "ModuleNotFoundError: No module named ethosu"}\\n'""", "ModuleNotFoundError"),
    ("garbage for a greeting", "head -c 100000 /dev/urandom; echo", "nonsense"),
    ("endless greeting", "cat /dev/zero | tr '\\0' x", "more than"),
    ("hangs on the file", HELLO + "sleep 600", "no answer in time"),
    ("dies on the file", HELLO + "read line; kill -SEGV $$", "signal 11"),
    ("reads nothing and ends", HELLO + "exit 0", "status 0"),
    ("garbage for an answer", HELLO + "read line; head -c 1000 /dev/urandom | tr '\\n' x; echo; sleep 600", "no sense"),
    ("a list for an answer", HELLO + "read line; echo '[]'; sleep 600", "no sense"),
    ("negative sizes", HELLO + "read line; " + answer(commands="-1") + "sleep 600", "'commands' is -1"),
    ("giant sizes", HELLO + "read line; " + answer(weights="9000000000000000000") + "sleep 600", "'weights' is 9000000000000000000"),
    ("no clock", HELLO + "read line; " + answer(clock_hz="0") + "sleep 600", "clock_hz"),
    ("fewer bytes than said", HELLO + "read line; " + answer(commands="4000") + "printf abcd", "does not arrive"),
]


def script(folder, body, interpreter="/bin/bash"):
    path = os.path.join(folder, "python")
    with open(path, "w") as f:
        f.write(f"#!{interpreter}\n{body}\n")
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def compile_with(tools, python, model, out, *options, target=TARGET):
    """Status, stderr, seconds."""
    start = time.time()
    p = subprocess.run([tools.tessera, "compile", model, "-o", out, "--target", target, "-q", *options], env={**os.environ, "TESSERA_VELA_PYTHON": python},
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    return p.returncode, p.stderr, time.time() - start


def left_behind(folder):
    """Processes that came from the folder's script."""
    p = subprocess.run(["pgrep", "-f", re.escape(folder)], capture_output=True, text=True)
    return p.stdout.split()


def run_emulated(tools, bundle, model):
    import onnx
    feeds = feeds_of(onnx.load(model), None, 0, None, None)
    got = tools.run(bundle, feeds, 1, "--emulate", "npu")
    e, why = error(got[0], oracle(model).run(None, feeds)[0])
    if why or not e <= 0.06:  # a step of 0.05 in values up to 6
        raise Fault(why or f"error {e:.2e}")


def misbehaves(tools, model, body, word):
    with tempfile.TemporaryDirectory() as tmp:
        python, out = script(tmp, body), os.path.join(tmp, "m.tsr")
        status, said, seconds = compile_with(tools, python, model, out, "--vendor-timeout", "3")
        if status != 1 or word not in said or said.count("error:") != 1:
            raise Fault(f"status {status}: {said[:300]}")
        if seconds > 60:
            raise Fault(f"{seconds:.0f} s")
        if sorted(os.listdir(tmp)) != ["python"]:
            raise Fault(f"left behind: {os.listdir(tmp)}")
        status, said, _ = compile_with(tools, python, model, out, "--vendor-timeout", "3", "--vendor-fault", "cpu")
        if status or not os.path.exists(out):
            raise Fault(f"with --vendor-fault cpu: status {status}: {said[:300]}")
        if left_behind(tmp):
            raise Fault(f"processes left: {left_behind(tmp)}")
        run_emulated(tools, out, model)


def missing(tools, model):
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "m.tsr")
        status, said, _ = compile_with(tools, os.path.join(tmp, "none"), model, out)
        if status != 1 or "cannot be started" not in said or "ethos-u-vela==5.2.0" not in said or os.listdir(tmp):
            raise Fault(f"status {status}: {said[:300]}, {os.listdir(tmp)}")


def refused_together(tools, _):
    """Each convolution is taken alone and both are not, also where the most that the NPU can do is asked for: the compile finds another way."""
    import onnx
    body = f"""import os, sys
call = "    serve(request, sys.stdin"
assert call in sys.argv[3]
text = sys.argv[3].replace(call, "    if request['bytes'] > {LARGE}:\\n        sys.stdin.buffer.read(request['bytes'])\\n        answer({{'refused': 'too large'}})\\n        continue\\n" + call)
os.execv({PYTHON!r}, [{PYTHON!r}, *sys.argv[1:3], text])"""
    with tempfile.TemporaryDirectory() as tmp:
        python, model, out = script(tmp, body, PYTHON), os.path.join(tmp, "m.onnx"), os.path.join(tmp, "m.tsr")
        onnx.save(build("chain", CHAIN, 21), model)
        for target in (TARGET, "ethos-u85-256"):
            status, said, _ = compile_with(tools, python, model, out, target=target)
            if status:
                raise Fault(f"{target}: status {status}: {said[:300]}")


def artefact(tools, model):
    """The bundle's segment is Vela's, for the accelerator that the device's kind names; two compiles are equal byte for byte."""
    with tempfile.TemporaryDirectory() as tmp:
        paths = [os.path.join(tmp, n) for n in ("a.tsr", "b.tsr")]
        for path in paths:
            status, said, _ = compile_with(tools, PYTHON, model, path, "--pin", "Conv:c=npu")
            if status:
                raise Fault(f"status {status}: {said[:300]}")
        first, second = (open(p, "rb").read() for p in paths)
        if first != second:
            raise Fault("two compiles differ")
        at = first.find(b"TSEU")
        if at < 0 or at % 65536:
            raise Fault("no artefact in the bundle")
        names = [first[at + 16 + 64 * i:at + 80 + 64 * i].split(b"\0")[0].decode() for i in range(4)]
        if names != [TARGET, "Ethos_U55_High_End_Embedded", "Shared_Sram", "5.2.0"]:
            raise Fault(f"made for {names}")
        commands, size = struct.unpack_from("<QQ", first, at + 272)
        if first[at + commands:at + commands + 4] != b"COP1" or size < 64:
            raise Fault("no command stream")
        run_emulated(tools, paths[0], model)
        shown = json.loads(subprocess.run([tools.tessera, "inspect", paths[0], "--format", "json"], capture_output=True, text=True, check=True).stdout)
        segment = next(s for s in shown["segments"] if s["kind"] == "device")
        if segment.get("accelerator") != TARGET or segment["command_bytes"] != size or "fault" in segment:
            raise Fault(f"inspect says {segment}")
        p = subprocess.run([os.path.join(tools.bin, "tsr-run"), paths[0], "x=" + os.path.join(tmp, "x.npy")], capture_output=True, text=True)
        if p.returncode != 1 or "ethos-u55-256/Ethos_U55_High_End_Embedded/Shared_Sram" not in p.stderr:
            raise Fault(f"a host without the NPU: status {p.returncode}: {p.stderr[:300]}")


def command_line(tools, model):
    """The command stream and the weights are those of the vendor's own program on the segment's TOSA file."""
    with tempfile.TemporaryDirectory() as tmp:
        bundle, file = os.path.join(tmp, "m.tsr"), os.path.join(tmp, "m.tosa")
        for target, wanted in (("ethos-u55-256", ["ethos-u55-256", "Ethos_U55_High_End_Embedded", "Shared_Sram"]),
                               ("ethos-u65-512", ["ethos-u65-512", "Ethos_U65_High_End", "Dedicated_Sram_384KB"]),
                               ("ethos-u85-256", ["ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"])):
            status, said, _ = compile_with(tools, PYTHON, model, bundle, "--pin", "Conv:c=npu", target=target)
            if status:
                raise Fault(f"status {status}: {said[:300]}")
            data = open(bundle, "rb").read()
            at = data.find(b"TSEU")
            parts = [data[at + a:at + a + n] for a, n in (struct.unpack_from("<QQ", data, at + 272 + 16 * i) for i in range(3))]
            with open(file, "wb") as f:
                f.write(parts[2])
            p = subprocess.run([os.path.join(os.path.dirname(PYTHON), "vela"), file, "--accelerator-config", wanted[0], "--config", "Arm/vela.ini",
                                "--system-config", wanted[1], "--memory-mode", wanted[2], "--output-dir", tmp, "--output-format", "raw"],
                               capture_output=True, text=True, timeout=300)
            if p.returncode:
                raise Fault(f"vela: {p.stdout[-300:]}{p.stderr[-300:]}")
            raw = np.load(os.path.join(tmp, "m_vela.npz"), allow_pickle=True)
            for name, ours in (("cmd_data", parts[0]), ("weight_data", parts[1])):
                if raw[name].tobytes() != ours:
                    raise Fault(f"{target}: {name} differs from Vela's own")


def public_model(tools, target):
    """A quantised public model, most of it on the target's NPU, by value and byte for byte the same in two compiles."""
    path = os.path.join(fetch.MODELS, "dscnn_kws_int8.onnx")
    with tempfile.TemporaryDirectory() as tmp:
        bundles = []
        for name in ("a.tsr", "b.tsr"):
            bundles.append(os.path.join(tmp, name))
            tools.call([tools.tessera, "compile", path, "-o", bundles[-1], "--target", target, "-q"], env={**os.environ, "TESSERA_VELA_PYTHON": PYTHON})
        first, second = (open(b, "rb").read() for b in bundles)
        if first != second or b"TSEU" not in first:
            raise Fault("two compiles differ" if first != second else "nothing of it is on the NPU")
        session = oracle(path)
        x = np.random.default_rng(1).normal(size=session.get_inputs()[0].shape).astype(np.float32)
        feeds = {session.get_inputs()[0].name: x}
        got, want = tools.run(bundles[0], feeds, 1, "--emulate", "npu"), session.run(None, feeds)
        e, why = error(got[0], want[0])
        if why or not e <= 0.1:  # as models.py holds quantised models to
            raise Fault(why or f"error {e:.2e}")


def main():
    import onnx
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    tools, tally = Tools(a.build), Tally()
    with tempfile.TemporaryDirectory() as tmp:
        model = os.path.join(tmp, "model.onnx")
        onnx.save(build("vendor", MODEL, 21), model)
        tests = [("artefact", artefact, ()), ("command line", command_line, ()), ("missing", missing, ()), ("refused together", refused_together, ())] + [(name, misbehaves, (body, word)) for name, body, word in FAULTS]
        for name, work, arguments in tests:
            if re.search(a.only, name):
                tally.attempt(name, work, tools, model, *arguments)
        for target in [line.split()[0] for line in tools.call([tools.tessera, "targets", "list"]).splitlines() if line.startswith("ethos-u")]:
            if not os.path.exists(os.path.join(fetch.MODELS, "dscnn_kws_int8.onnx")):
                tally.skip(target, "no model: run test/e2e/fetch.py")
            elif re.search(a.only, target):
                tally.attempt(target, public_model, tools, target)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
