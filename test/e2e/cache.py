#!/usr/bin/env python3
"""`tessera run MODEL.onnx` keeps what it compiled: used again only for the same bytes and options, and never when it is damaged.

usage: cache.py [--build DIR]

Whether a bundle was compiled again shows in its inode: a new one is renamed onto the name.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
from onnx import TensorProto as T, helper, numpy_helper

from harness import Fault, Refused, Tally, Tools, load_value

X = np.array([[1.0, -2.0, 0.5]], np.float32)


def model(path, weights, external):
    """y = x * w, with w in a file beside the model."""
    w = numpy_helper.from_array(np.array(weights, np.float32), "w")
    x, y = (helper.make_tensor_value_info(n, T.FLOAT, ["n", len(weights)]) for n in "xy")
    m = helper.make_model(helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", [x], [y], [w]), opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(m, path, save_as_external_data=external, location="weights.bin", size_threshold=0)


class Place:
    """A folder with a model and a cache of its own."""

    def __init__(self, tools, folder, external=False):
        self.tools, self.folder = tools, folder
        self.path, self.home, self.out = (os.path.join(folder, n) for n in ("m.onnx", "home", "out"))
        self.cache = os.path.join(self.home, "tessera", "run")
        os.makedirs(self.out)
        np.save(os.path.join(folder, "x.npy"), X)
        self.weights = [2.0, 3.0, 4.0]
        model(self.path, self.weights, external)
        self.external = external

    def run(self, *options, home=None, out=None):
        out = out or self.out
        env = dict(os.environ, XDG_CACHE_HOME=self.home if home is None else home, HOME=self.folder)
        self.tools.call([self.tools.tessera, "run", self.path, os.path.join(self.folder, "x.npy"), "--output-dir", out, *options], env=env)
        got = load_value(os.path.join(out, "output_0"))
        if not np.array_equal(got, X * np.array(self.weights, np.float32)):
            raise Fault(f"y = {got.tolist()} with w = {self.weights}")

    def bundles(self):
        names = sorted(os.listdir(self.cache)) if os.path.isdir(self.cache) else []
        return {n: os.stat(os.path.join(self.cache, n), follow_symlinks=False).st_ino for n in names if n.endswith(".tsr")}

    def only(self, ending):
        found = [os.path.join(self.cache, n) for n in os.listdir(self.cache) if n.endswith(ending)]
        if len(found) != 1:
            raise Fault(f"{len(found)} files *{ending} in the cache")
        return found[0]


def expect(condition, what):
    if not condition:
        raise Fault(what)


def used_again(p):
    p.run()
    first = p.bundles()
    expect(len(first) == 1, f"{len(first)} bundles after the first run")
    p.run()
    expect(p.bundles() == first, "the second run compiled again")
    expect(not [n for n in os.listdir(p.cache) if n.endswith(".pending")], "an unfinished file stays in the cache")


def model_changes(p):
    p.run()
    first = p.bundles()
    p.weights = [5.0, 6.0, 7.0]
    model(p.path, p.weights, p.external)
    p.run()
    expect(len(p.bundles()) == 2 and first.items() < p.bundles().items(), "another model, but no other bundle")


def external_data_change(p):
    p.run()
    p.run()
    p.weights = [8.0, 9.0, 10.0]
    np.array(p.weights, np.float32).tofile(os.path.join(p.folder, "weights.bin"))
    p.run()
    expect(len(p.bundles()) == 2, "other weights, but no other bundle")


def weights_change_meanwhile(p):
    """Other weights take the place of those that a run has mapped: what it made is not kept as theirs."""
    count = 1 << 20  # small files are read, not mapped
    weights, other, x, out = (os.path.join(p.folder, n) for n in ("weights.bin", "other.bin", "x.npy", "out"))
    os.remove(weights)  # onnx appends
    model(p.path, [2.0] * count, True)
    np.save(x, np.ones((1, count), np.float32))
    words = [p.tools.tessera, "run", p.path, x, "--output-dir", out]
    env = dict(os.environ, XDG_CACHE_HOME=p.home)
    np.full(count, 3.0, np.float32).tofile(other)
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        if "weights.bin" in open(f"/proc/{process.pid}/maps").read():
            os.rename(other, weights)
            break
    expect(process.wait() == 0, "the run failed")
    expect(not os.path.exists(other), "the run was over before its weights were seen")
    p.tools.call(words, env=env)
    got = load_value(os.path.join(out, "output_0"))
    expect((got == 3).all(), f"y = {got.ravel()[0]}, as with the weights that were there before")


def options_differ(p):
    p.run()
    p.run("--dim", "n=1")
    expect(len(p.bundles()) == 2, "--dim gave no bundle of its own")


def no_cache(p):
    p.run("--no-cache")
    expect(not p.bundles(), "--no-cache left a bundle")


def damaged(change):
    def check(p):
        p.run()
        path = p.only(".tsr")
        change(p, path)
        before = p.bundles()
        p.run()
        after = p.bundles()
        expect(after.keys() == before.keys() and after != before, "was not compiled again")
        p.run()
        expect(p.bundles() == after, "was compiled a third time")
    return check


def cut(p, path):
    os.truncate(path, os.path.getsize(path) // 2)


def emptied(p, path):
    os.truncate(path, 0)


def flipped(p, path):
    data = bytearray(open(path, "rb").read())
    data[-1] ^= 1
    open(path, "wb").write(data)


def of_another_model(p, path):
    other = os.path.join(p.folder, "other.onnx")
    model(other, [0.0, 0.0, 0.0], False)
    p.tools.compile(other, path + ".new")
    os.rename(path + ".new", path)


def link(p, path):
    os.rename(path, os.path.join(p.folder, "elsewhere.tsr"))
    os.symlink(os.path.join(p.folder, "elsewhere.tsr"), path)


def hostile_list(text):
    def check(p):
        p.run()
        path = p.only(".files")
        open(path, "w").write(text)
        p.run()
        expect(open(path).read() != text, "the list was not written again")
    return check


def at_once(p):
    outs = [os.path.join(p.folder, f"out{k}") for k in range(4)]
    for o in outs:
        os.mkdir(o)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda o: p.run(out=o), outs))
    expect(len(p.bundles()) == 1, "not one bundle")


def nowhere_to_write(p):
    open(os.path.join(p.folder, "file"), "w").close()
    p.run(home=os.path.join(p.folder, "file", "below"))


def relative_home(p):
    p.run(home="relative")
    expect(os.path.isdir(os.path.join(p.folder, ".cache", "tessera", "run")), "not in ~/.cache")
    expect(not os.path.exists("relative"), "a relative XDG_CACHE_HOME was followed")


def folder_of_others(p):
    """A cache that others may write to is not trusted."""
    os.makedirs(p.cache)
    os.chmod(p.cache, 0o777)
    p.run()
    expect(not p.bundles(), "a folder that all may write was used")


def refused_leaves_nothing(p):
    open(p.path, "wb").write(b"\x08\x0a")
    try:
        p.run()
    except Refused:
        expect(not os.path.isdir(p.cache) or not os.listdir(p.cache), "a refused model left something in the cache")
        return
    raise Fault("was not refused")


CASES = [("used_again", used_again, False), ("used_again_external", used_again, True), ("model_changes", model_changes, False), ("external_data_change", external_data_change, True),
         ("weights_change_meanwhile", weights_change_meanwhile, True), ("options_differ", options_differ, False), ("no_cache", no_cache, False), ("cut", damaged(cut), False), ("emptied", damaged(emptied), False), ("flipped", damaged(flipped), False),
         ("of_another_model", damaged(of_another_model), False), ("link", damaged(link), False), ("hostile_list_up", hostile_list("../../secret\n"), True),
         ("hostile_list_device", hostile_list("/dev/zero\n"), True), ("hostile_list_folder", hostile_list("home\n"), True), ("at_once", at_once, False), ("nowhere_to_write", nowhere_to_write, False),
         ("relative_home", relative_home, False), ("folder_of_others", folder_of_others, False), ("refused_leaves_nothing", refused_leaves_nothing, False)]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    a = ap.parse_args()
    tools, tally = Tools(a.build), Tally()
    for name, check, external in CASES:
        with tempfile.TemporaryDirectory() as folder:
            tally.attempt(name, check, Place(tools, folder, external))
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
