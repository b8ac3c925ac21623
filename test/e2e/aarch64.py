#!/usr/bin/env python3
"""Models by value on AArch64 under QEMU: NEON alone, SVE2 and SME2 at several vector lengths, from one bundle each.

usage: aarch64.py [--build DIR] [--budget SECONDS] [ID ...]

The loader is build/PRESET/bin/aarch64/tsr-run, linked statically (target tsr-run-aarch64). A processor without SME2 must be served by the other code of the bundle.
"""
import argparse
import os
import shutil
import sys
import tempfile
import time

import fetch
import models
from harness import Fault, Refused, Tally, Tools

TARGET = "generic-arm64-sme2"
CPUS = {
    "neon": "max,sve=off,sme=off",
    "sve2-128": "max,sme=off,sve-default-vector-length=16",
    "sve2-256": "max,sme=off,sve-default-vector-length=32",
    "sme2-256": "max,sme-default-vector-length=32",
    "sme2-512": "max,sme-default-vector-length=64",
    "sme2-512 without sve": "max,sve=off,sme-default-vector-length=64",
}
IDS = ["dscnn_kws", "autoencoder_ad", "silero_vad", "ppocr_cls", "blazeface_front_128"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--models", default=fetch.MODELS)
    ap.add_argument("--budget", type=float, default=1e9)
    ap.add_argument("ids", nargs="*")
    a = ap.parse_args()
    tools, tally, end = Tools(a.build), Tally(verbose=True), time.time() + a.budget
    loader, qemu = os.path.join(tools.bin, "aarch64", "tsr-run"), shutil.which("qemu-aarch64")
    if not qemu or not os.path.exists(loader):
        tally.skip("aarch64", "no qemu-aarch64" if not qemu else f"no {loader}")
        return tally.finish()
    os.makedirs(a.models, exist_ok=True)
    for e in fetch.manifest():
        if e["id"] not in (a.ids or IDS):
            continue
        try:
            path = fetch.fetch(e, a.models, os.path.join(a.models, "packages"))
        except OSError as why:
            tally.skip(e["id"], str(why))
            continue
        with tempfile.TemporaryDirectory() as tmp:
            bundle = os.path.join(tmp, "model.tsr")
            try:
                tools.compile(path, bundle, "--target", TARGET)
            except (Refused, Fault) as why:
                tally.fail(e["id"], f"compile for {TARGET}: {why}")
                continue
            for name, cpu in CPUS.items():
                if time.time() > end:
                    tally.skip(f"{e['id']} {name}", "out of budget")
                    continue
                row = {}
                try:
                    models.compare(tools, e, path, bundle, [(e["sizes"][-1], 77)], row, runner=[qemu, "-cpu", cpu, loader])
                    tally.ok(f"{e['id']} {name}", f"error {row['error']:.1e}")
                except (Refused, Fault) as why:
                    tally.fail(f"{e['id']} {name}", str(why))
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
