"""The vendor's toolkit for Rockchip's NPUs behind a socket: ONNX files in, blobs for the chip's runtime out.

Run by the interpreter of an environment in which the user has installed rknn-toolkit2, with -I -c. A request is one line of JSON (platform, bytes) and
that many bytes of ONNX; an answer one line of JSON and the bytes of its `blob`. The first line says which toolkit it is. Where each operator was placed
is in what the toolkit prints when it is verbose, and nowhere else.
"""
import json
import os
import re
import sys
import tempfile

answers = os.fdopen(os.dup(1), "wb")
log = tempfile.TemporaryFile()
os.dup2(log.fileno(), 1)
os.dup2(log.fileno(), 2)


def answer(values, blob=b""):
    answers.write(json.dumps(values).encode() + b"\n" + blob)
    answers.flush()


try:
    import importlib.metadata

    from rknn.api import RKNN
    answer({"version": importlib.metadata.version("rknn-toolkit2")})
except Exception as e:
    answer({"error": f"{type(e).__name__}: {e}"})
    sys.exit(1)

# D RKNN: [time] number  OpType  DataType  Target  shapes...  Cycles(DDR/NPU/Total)
ROW = re.compile(r"^D RKNN: \S+ \d+\s+(\S+)\s+(\S+)\s+(NPU|CPU|GPU)\s+\S+\s+\S+\s+(\d+)/(\d+)/(\d+)", re.M)
ERROR = re.compile(r"^(?:\x1b\[\d+m)?E RKNN: (.*)", re.M)


def said():
    log.flush()
    log.seek(0)
    text = log.read().decode(errors="replace")
    log.seek(0)
    log.truncate()
    return text


def built(platform, data, folder):
    model, blob = os.path.join(folder, "region.onnx"), os.path.join(folder, "region.rknn")
    with open(model, "wb") as f:
        f.write(data)
    kit = RKNN(verbose=True)
    try:
        for step, work in (("config", lambda: kit.config(target_platform=platform)), ("load_onnx", lambda: kit.load_onnx(model=model)),
                           ("build", lambda: kit.build(do_quantization=False)), ("export_rknn", lambda: kit.export_rknn(blob))):
            if work():
                errors = [e for e in ERROR.findall(said()) if "Unkown op target" not in e and "toolkit2 version" not in e]
                return {"refused": f"{step} fails" + (": " + errors[0][:300] if errors else "")}, b""
        rows = [r for r in ROW.findall(said()) if r[0] not in ("InputOperator", "OutputOperator")]
        with open(blob, "rb") as f:
            return {"ops": [[name, kind, where] for name, kind, where, *_ in rows]}, f.read()
    finally:
        kit.release()


while True:
    line = sys.stdin.buffer.readline()
    if not line:
        break
    request = json.loads(line)
    data = sys.stdin.buffer.read(request["bytes"])
    with tempfile.TemporaryDirectory() as folder:
        try:
            values, blob = built(request["platform"], data, folder)
        except Exception as e:
            values, blob = {"refused": f"{type(e).__name__}: {e}"[:300]}, b""
    answer({**values, "blob": len(blob)}, blob)
