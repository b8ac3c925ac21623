#!/usr/bin/env python3
"""Small models that compilers got wrong, when ../shared/cases stands beside the clone.

usage: cases.py [--build DIR] [--update]

A refusal where a value is wanted is counted as skipped unless cases-pass.txt says that the case passed before; everything else that its judge does
not pass is a failure. --update writes cases-pass.txt.
"""
import argparse
import json
import os
import re
import subprocess
import sys

from harness import HERE, SHARED, Tally, Tools

LIST = os.path.join(HERE, "cases-pass.txt")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build")
    ap.add_argument("--update", action="store_true")
    a = ap.parse_args()
    script = os.path.join(SHARED, "cases", "run.py")
    tools, tally = Tools(a.build), Tally()
    if not os.path.exists(script):
        tally.skip("cases", "are not beside the clone")
        return tally.finish()
    ids = [c["id"] for c in json.load(open(os.path.join(SHARED, "cases", "cases.json")))]
    p = subprocess.run([sys.executable, script, "--cli", tools.tessera + " run {model} {inputs} --output-dir {outdir}"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    bad = {m[2]: (m[1], m[3]) for m in re.finditer(r"^(\w+) +(\S+)  (.*)$", p.stdout, re.M)}
    before = set(open(LIST).read().split()) if os.path.exists(LIST) else set()
    if p.returncode and not bad:
        tally.fail("cases", (p.stderr.strip().splitlines() or ["no report"])[-1])
    for i in ids:
        verdict, why = bad.get(i, ("pass", ""))
        if verdict == "pass":
            tally.ok(i)
        elif verdict == "refused" and i not in before:
            tally.skip(i, f"refused: {why}")
        else:
            tally.fail(i, f"{verdict}: {why}")
    if a.update:
        open(LIST, "w").write("".join(f"{i}\n" for i in ids if i not in bad))
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
