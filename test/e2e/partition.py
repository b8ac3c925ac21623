#!/usr/bin/env python3
"""Placement by value: solver and judge over problem files with known optima, when these stand beside the clone.

usage: partition.py [--build DIR] [-v]
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import SHARED, Fault, Refused, Tally, Tools  # noqa: E402


def mutations(problem, solution, rng):
    """Solutions that are wrong in one place each."""
    n = len(problem["ops"])
    cost, choice, segment = solution["cost"], solution["choice"], solution["segment"]

    def but(**changes):
        return {**solution, **changes}

    def at(values, j, v):
        return values[:j] + [v] + values[j + 1:]

    yield but(cost=cost + 1)
    yield but(cost=cost - 1, lower_bound=cost - 1)
    yield but(sens=solution["sens"] + 1)
    yield but(lower_bound=cost + 1)
    yield but(status="feasible" if solution["status"] == "optimal" else "optimal")
    yield but(choice=choice[1:])
    yield but(segment=segment + [-1])
    yield {k: v for k, v in solution.items() if k != "choice"}
    for _ in range(3):
        j = rng.randrange(n)
        yield but(choice=at(choice, j, len(problem["ops"][j]["opt"])))
        yield but(segment=at(segment, j, 0 if segment[j] < 0 else -1))
    for j in rng.sample(range(n), min(n, 5)):
        for x, o in enumerate(problem["ops"][j]["opt"]):
            old = problem["ops"][j]["opt"][choice[j]]
            if o[:3] == old[:3] and o[3] != old[3]:
                yield but(choice=at(choice, j, x))


def instance(tools, tally, folder, known, tmp):
    """The cost that is known, a bound that is true, a judge that accepts it and nothing near it."""
    path, out = os.path.join(folder, known["file"]), os.path.join(tmp, "solution.json")
    try:
        tools.call([tools.tessera, "partition", path, "-o", out, "-q"])
        tools.call([tools.tessera, "partition", "--check", path, out])
    except (Refused, Fault) as e:
        return tally.fail(known["file"], e)
    problem, solution = json.load(open(path)), json.load(open(out))
    exact = known["proof"] == "enumeration"
    if solution["cost"] > known["optimum"] or (exact and solution["cost"] != known["optimum"]) or solution["lower_bound"] > known["optimum"]:
        return tally.fail(known["file"], f"cost {solution['cost']}, bound {solution['lower_bound']}; the optimum is {known['optimum']}")
    count = 0
    for wrong in mutations(problem, solution, random.Random(known["file"])):
        json.dump(wrong, open(out, "w"))
        status = subprocess.run([tools.tessera, "partition", "--check", path, out], capture_output=True).returncode
        if status != 4:
            return tally.fail(known["file"], f"a wrong solution has status {status}: {json.dumps(wrong)[:200]}")
        count += 1
    tally.ok(known["file"], f"cost {solution['cost']}, {solution['status']}, {count} mutations refused")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build")
    parser.add_argument("-v", "--verbose", action="store_true")
    arguments = parser.parse_args()
    tools, tally = Tools(arguments.build), Tally(arguments.verbose)
    folder = os.path.join(SHARED, "partition", "instances")
    if os.path.exists(os.path.join(folder, "index.json")):
        with tempfile.TemporaryDirectory() as tmp:
            for known in json.load(open(os.path.join(folder, "index.json"))):
                instance(tools, tally, folder, known, tmp)
    else:
        tally.skip("instances", f"no {folder}")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
