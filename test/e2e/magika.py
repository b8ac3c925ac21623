#!/usr/bin/env python3
"""Classifies files with the Magika model through a bundle and the loader, beside onnxruntime on the same bytes.

usage: magika.py BUNDLE LABEL=FILE ... [--build DIR]

The model sees 1024 bytes of either end of a file, each taken from a block of 4096 bytes without the white space around it, and the number 256 where a
file is too short; the sizes and the labels are in the configuration that its package ships. 1 if a file is not given the LABEL expected of it, or the
two scores differ.
"""
import argparse
import json
import os
import sys

import numpy as np

import fetch
from harness import Tally, Tools, oracle


def features(path, config):
    size = os.path.getsize(path)
    take = min(config["block_size"], size)
    with open(path, "rb") as f:
        begin = f.read(take).lstrip()[: config["beg_size"]]
        f.seek(size - take)
        end = f.read(take).rstrip()[-config["end_size"]:]
    pad = [config["padding_token"]]
    block = list(begin) + pad * (config["beg_size"] - len(begin)) + pad * (config["end_size"] - len(end)) + list(end)
    return np.array([block], np.int32)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("bundle")
    ap.add_argument("files", nargs="+", metavar="LABEL=FILE")
    ap.add_argument("--build")
    a = ap.parse_args()
    entry = next(e for e in fetch.manifest() if e["id"] == "magika")
    packages = os.path.join(fetch.MODELS, "packages")
    model = fetch.fetch(entry, fetch.MODELS, packages)
    folder = os.path.dirname(entry["source"]["member"])
    config = json.loads(fetch.member(fetch.download(entry["source"], packages), folder + "/config.min.json"))
    labels, tools, tally, session = config["target_labels_space"], Tools(a.build), Tally(), oracle(model)
    print(f"{'file':<28} {'tessera':>24} {'onnxruntime':>24}")
    for word in a.files:
        want, path = word.split("=", 1)
        x = features(path, config)
        ours, theirs = tools.run(a.bundle, {"bytes": x}, 1)[0][0], session.run(None, {"bytes": x})[0][0]
        k, j = int(ours.argmax()), int(theirs.argmax())
        print(f"{os.path.basename(path):<28} {labels[k]:>15} {ours[k]:.6f} {labels[j]:>15} {theirs[j]:.6f}", flush=True)
        if labels[k] == want and k == j and np.abs(ours - theirs).max() <= 1e-4:
            tally.ok(path)
        else:
            tally.fail(path, f"expected {want}, scores differ by up to {np.abs(ours - theirs).max():.1e}")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
