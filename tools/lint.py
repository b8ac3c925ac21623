#!/usr/bin/env python3
"""Looks over the tree for what a compiler does not see: every path that a README names exists, every pass of a .td has a description."""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def readme_paths(name, text):
    for path in sorted(set(re.findall(r"`([A-Za-z0-9_.-]+/[A-Za-z0-9_./-]*)`", text))):
        if path.startswith(("build/", "../", "shared/")):
            continue
        if not any(os.path.exists(os.path.join(d, path)) for d in (TOP, os.path.join(TOP, os.path.dirname(name)))):
            yield f"names `{path}`, which does not exist"


def pass_descriptions(name, text):
    for m in re.finditer(r"^def (\w+)\s*:\s*Pass<.*?^}", text, re.M | re.S):
        if "let description" not in m[0] or "let summary" not in m[0]:
            yield f"pass {m[1]} lacks a summary or a description"


CHECKS = [(r"(^|/)[A-Z]\w*\.md$", readme_paths), (r"\.td$", pass_descriptions)]


def main():
    files = subprocess.run(["git", "-C", TOP, "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    good = bad = 0
    for name in files:
        for pattern, check in CHECKS:
            if not re.search(pattern, name) or not os.path.exists(os.path.join(TOP, name)):
                continue
            faults = list(check(name, open(os.path.join(TOP, name), errors="replace").read()))
            for f in faults:
                print(f"FAILED  {name}: {f}")
            good, bad = good + (not faults), bad + len(faults)
    print(f"{good} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
