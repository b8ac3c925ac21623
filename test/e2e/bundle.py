#!/usr/bin/env python3
"""What holds of a bundle as a file: the same bytes wherever it is compiled, and nothing of it can be changed or cut off unseen.

usage: bundle.py [--build DIR] [--bytes N]

N bytes (0: all) of a small bundle, the places decided by the commit, and 200 lengths are tried; the loader must refuse each with status 1.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import graphs
from harness import Fault, Refused, Tally, Tools, commit_seed, save_inputs

NAMES = ["conv_2d_dynamic", "attention_block", "if_captured"]


def model(name, path):
    import onnx
    g = next(g for g in graphs.GRAPHS if g[0] == name)
    m = graphs.build(g[0], g[1], g[4])
    onnx.save(m, path)
    return m, graphs.feeds_of(m, (g[2] or [None])[0], 1, g[5], g[6])


def reproducible(tools, tally, name):
    got = []
    with tempfile.TemporaryDirectory() as tmp:
        for folder in ("a", "another folder"):
            os.mkdir(os.path.join(tmp, folder))
            path = os.path.join(tmp, folder, "m.onnx")
            model(name, path)
            tools.call([tools.tessera, "compile", "m.onnx" if folder == "a" else path, "-o", path + ".tsr"], cwd=os.path.join(tmp, folder))
            got.append(open(path + ".tsr", "rb").read())
    if got[0] == got[1]:
        tally.ok(f"reproducible {name}")
    else:
        where = next((i for i, (x, y) in enumerate(zip(*got)) if x != y), min(map(len, got)))
        tally.fail(f"reproducible {name}", f"{len(got[0])} and {len(got[1])} bytes, first difference at {where}")


def damaged(tools, tally, count):
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "m.onnx")
        _, feeds = model("conv_1x1_residual", path)
        tools.compile(path, path + ".tsr")
        data = open(path + ".tsr", "rb").read()
        save_inputs(feeds, os.path.join(tmp, "in"))
        rng = random.Random(commit_seed())
        places = range(len(data)) if not count else sorted(rng.sample(range(len(data)), min(count, len(data))))
        lengths = sorted({0, 1, 2, 3, 7, 8, len(data) - 1, *(rng.randrange(len(data)) for _ in range(193))})

        def refused(k, change):
            name = os.path.join(tmp, f"{k}.tsr")
            with open(name, "wb") as f:
                f.write(change)
            p = subprocess.run([os.path.join(tools.bin, "tsr-run"), name, "--inputs", os.path.join(tmp, "in"), "--output-dir", tmp], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            os.unlink(name)
            return p.returncode, (p.stderr.strip().splitlines() or [""])[-1]

        def flip(i):
            return refused(i, data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1:])

        def cut(n):
            return refused(f"cut{n}", data[:n])

        status, why = refused("whole", data)
        if status:
            raise Fault(f"the whole bundle: status {status}: {why}")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for what, many, one in (("byte changed", places, flip), ("cut off", lengths, cut)):
                bad = [(i, s, why) for i, (s, why) in zip(many, pool.map(one, many)) if s != 1]
                if bad:
                    tally.fail(what, f"{len(bad)} of {len(many)} not refused; at {bad[0][0]}: status {bad[0][1]} {bad[0][2]}")
                else:
                    tally.ok(what, f"{len(many)} of {len(data)} places, all refused")


def depfile(tools, tally):
    """Bundle and depfile appear together or not at all."""
    import numpy as np
    import onnx
    from onnx import numpy_helper
    with tempfile.TemporaryDirectory() as tmp:
        at = lambda name: os.path.join(tmp, name)
        m = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y) { y = Mul(x, w) }')
        m.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "w"))
        onnx.save(m, at("m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)

        def attempt(out, deps):
            try:
                tools.compile(at("m.onnx"), out, "--depfile", deps)
                return True
            except Refused:
                return False

        def expect(name, condition):
            tally.ok(name) if condition else tally.fail(name, f"left {sorted(os.listdir(tmp))}")

        done = attempt(at("m.tsr"), at("m.d"))
        words = open(at("m.d")).read().replace("\\\n", " ").split() if done else []
        expect("depfile names what was read", words == [at("m.tsr") + ":", at("m.onnx"), at("w.bin")])
        before = set(os.listdir(tmp))
        os.mkdir(at("folder"))
        before.add("folder")
        expect("depfile cannot be written: no bundle", not attempt(at("n.tsr"), at("missing/n.d")) and set(os.listdir(tmp)) == before)
        expect("depfile is a folder: no bundle", not attempt(at("n.tsr"), at("folder")) and set(os.listdir(tmp)) == before)
        expect("bundle cannot be written: no depfile", not attempt(at("folder"), at("n.d")) and set(os.listdir(tmp)) == before)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--bytes", type=int, default=3000)
    a = ap.parse_args()
    tools, tally = Tools(a.build), Tally(verbose=True)
    for n in NAMES:
        try:
            reproducible(tools, tally, n)
        except (Refused, Fault) as why:
            tally.fail(f"reproducible {n}", str(why))
    try:
        depfile(tools, tally)
    except (Refused, Fault) as why:
        tally.fail("depfile", str(why))
    try:
        damaged(tools, tally, a.bytes)
    except (Refused, Fault) as why:
        tally.fail("damaged bundle", str(why))
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
