#!/usr/bin/env python3
"""What our limits of an Ethos-U say of single TOSA operators beside what Vela and the hardware's documents say.

usage: ethosu.py [--build DIR] [-v]

The probes (shared/npu: graphs by probe.py, answers in verdicts.csv) are not part of the project; without them everything is skipped. A probe is placeable
if Vela compiles it, what it compiles breaks no documented register limit (column hw), and the TOSA reference model accepts the graph. At least 99 % of the
rows must agree, and all that do not must be of the kinds of targets/EthosU/Rationale.md, "Disagreements".
"""
import argparse
import collections
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

from harness import CACHE, SHARED, Tally, Tools

HERE = os.path.dirname(os.path.abspath(__file__))
PROBES = os.path.join(SHARED, "npu")
BUILDER = [os.path.join(CACHE, "venv-tosa", "bin", "python"), os.path.join(HERE, "ethosu_graphs.py"), PROBES]
# What we refuse although Vela compiles it. Besides, Vela does not always answer in time, and TOSA may leave a result open for the values of a graph.
STRICTER = re.compile(r"^(sum of absolute weights of an output channel \d+ exceeds \d+|bias \d+ exceeds 40 bits|an? (input|result) of the segment of type i48) \(")


def ask(tool, folder, numbers, accelerators):
    """{(number, accelerator): reasons}, empty where it is placeable; files that cannot be read are missing."""
    said = collections.defaultdict(list)
    options = [word for a in accelerators for word in ("--ethosu-check", a)]
    for at in range(0, len(numbers), 400):
        files = [os.path.join(folder, f"{n}.tosa") for n in numbers[at:at + 400]]
        p = subprocess.run([tool, "--tosa-read", *options, *files], capture_output=True, text=True, timeout=300)
        for line in p.stdout.splitlines():
            path, accelerator, reason = re.match(r"(\S+) (\S+): (.*)", line).groups()
            said[int(os.path.basename(path)[:-5]), accelerator] += [] if reason == "placeable" else [reason]
    return said


def compare(tally, accelerator, rows, said, numbers):
    agreed, unexplained = 0, []
    for row in rows:
        placeable = row["verdict"] == "npu" and not row["hw"] and row["spec"] == "valid"
        reasons = said.get((numbers.get((row["op"], row["params"])), accelerator))
        if reasons is not None and placeable == (not reasons):
            agreed += 1
        elif row["verdict"] != "timeout" and row["spec"] != "unpredictable" and not (reasons and all(STRICTER.match(r) for r in reasons)):
            unexplained.append(f"{row['op']} {row['params']}: {row['verdict']} {row['hw']}, ours {reasons}")
    what = f"{agreed} of {len(rows)} agree"
    if unexplained:
        tally.fail(accelerator, f"{what}; {len(unexplained)} unexplained: {'; '.join(unexplained[:3])}")
    else:
        tally.ok(accelerator, what)
    return agreed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build")
    parser.add_argument("-v", "--verbose", action="store_true")
    arguments = parser.parse_args()
    tools, tally = Tools(arguments.build), Tally(arguments.verbose)
    answers = os.path.join(PROBES, "verdicts.csv")
    if not os.path.exists(answers) or not os.path.exists(BUILDER[0]):
        tally.skip("verdicts", f"no {answers} or no {BUILDER[0]}")
        return tally.finish()
    rows = collections.defaultdict(list)
    for row in csv.DictReader(open(answers, newline="")):
        if row["format"] == "tosa":
            rows[row["accelerator"]].append(row)
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run([*BUILDER, tmp], check=True, stdout=subprocess.DEVNULL)
        numbers = {(op, parameters): n for op, parameters, n in json.load(open(os.path.join(tmp, "index.json")))}
        said = ask(os.path.join(tools.bin, "tessera-opt"), tmp, list(numbers.values()), sorted(rows))
    agreed = sum(compare(tally, a, rows[a], said, numbers) for a in sorted(rows))
    total = sum(map(len, rows.values()))
    what = f"{agreed} of {total} agree, {100 * agreed / total:.2f} %"
    tally.ok("rows", what) if agreed >= 0.99 * total else tally.fail("rows", what)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
