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
# Processor, the code that it must take by itself, and the code that it must refuse when asked for it.
CPUS = {
    "neon": ("max,sve=off,sme=off", "aarch64-neon", ["aarch64-sve2", "aarch64-sme2"]),
    "sve2-128": ("max,sme=off,sve-default-vector-length=16", "aarch64-sve2", ["aarch64-sme2"]),
    "sve2-256": ("max,sme=off,sve-default-vector-length=32", "aarch64-sve2", ["aarch64-sme2"]),
    "sme2-256": ("max,sme-default-vector-length=32", "aarch64-sme2", []),
    "sme2-512": ("max,sme-default-vector-length=64", "aarch64-sme2", []),
    "sme2-512 without sve": ("max,sve=off,sme-default-vector-length=64", "aarch64-sme2", ["aarch64-sve2"]),
}
IDS = ["dscnn_kws", "autoencoder_ad", "silero_vad", "ppocr_cls", "blazeface_front_128"]


def refused(tools, run, bundle, variant):
    try:
        tools.call([*run, bundle, "--variant", variant])
    except Refused as why:
        if "feature" in str(why):
            return
        raise Fault(f"{variant} refused for another reason: {why}")
    raise Fault(f"{variant} was not refused")


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
            for name, (cpu, variant, foreign) in CPUS.items():
                if time.time() > end:
                    tally.skip(f"{e['id']} {name}", "out of budget")
                    continue
                row, run = {}, [qemu, "-cpu", cpu, loader]
                try:
                    models.compare(tools, e, path, bundle, [(e["sizes"][-1], 77)], row, runner=run)
                    models.compare(tools, e, path, bundle, [(e["sizes"][0], 78)], row, runner=[*run, "--variant", variant])
                    for v in foreign:
                        refused(tools, run, bundle, v)
                    tally.ok(f"{e['id']} {name}", f"error {row['error']:.1e}")
                except (Refused, Fault) as why:
                    tally.fail(f"{e['id']} {name}", str(why))
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
