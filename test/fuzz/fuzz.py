#!/usr/bin/env python3
"""Fuzzes the importer, from the files of test/corpus/import.

usage: fuzz.py [--build DIR] [--seconds N] [--runs N] [--seed N] [--keep DIR]

Builds `import-fuzzer` where it is not, and runs it, up to N executions or seconds, whichever end first. What it tries follows from the seed, by
default the commit's: a finding of one machine is found again on another by the same commit and as many executions. A finding is a file that crashes
the importer, hangs it (10 s) or makes it take 2 GB: fix the importer and put the file into the corpus. --keep DIR holds what the fuzzer collects, for
a longer run in parts; it decides what comes next as well.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "test", "e2e"))
from harness import commit_seed


def fixed_addresses():
    """Hash tables of pointers have an order, which coverage sees: addresses that are the same in every run."""
    command = ["setarch", os.uname().machine, "-R"]
    return command if shutil.which("setarch") and subprocess.run([*command, "true"], capture_output=True).returncode == 0 else []


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", default=os.path.join(TOP, "build", "release"))
    ap.add_argument("--seconds", type=int, default=60)
    ap.add_argument("--runs", type=int, default=150000)
    ap.add_argument("--seed", type=int, default=commit_seed() % 2**31 or 1, help="0 is libFuzzer's word for any")
    ap.add_argument("--keep")
    a = ap.parse_args()
    subprocess.run(["ninja", "-C", a.build, "-j2", "import-fuzzer"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as tmp:
        collected = a.keep or os.path.join(tmp, "collected")
        os.makedirs(collected, exist_ok=True)
        corpus = os.path.join(TOP, "test", "corpus", "import")
        with open(os.path.join(tmp, "seeds"), "w") as f:  # in an order that is not the file system's
            f.write(",".join(os.path.join(corpus, name) for name in sorted(os.listdir(corpus))))
        p = subprocess.run([*fixed_addresses(), os.path.join(a.build, "bin", "import-fuzzer"), f"-seed={a.seed}", f"-runs={a.runs}", f"-max_total_time={a.seconds}",
                            "-rss_limit_mb=2048", "-timeout=10", "-max_len=65536", "-reload=0", f"-artifact_prefix={tmp}/", "-print_final_stats=1",
                            f"-seed_inputs=@{tmp}/seeds", collected],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:detect_odr_violation=0"})
        runs = re.search(r"stat::number_of_executed_units: *(\d+)", p.stderr)
        print(f"{runs[1] if runs else '?'} executions of at most {a.runs} from seed {a.seed}")
        findings = [f for f in os.listdir(tmp) if f.startswith(("crash-", "timeout-", "oom-"))]
        for f in findings:
            kept = os.path.join("/tmp", f)
            os.replace(os.path.join(tmp, f), kept)
            print(f"finding: {kept}")
        if p.returncode:
            print("\n".join(p.stderr.splitlines()[-60:]))
    print(f"{int(p.returncode == 0)} passed, {int(p.returncode != 0)} failed")
    return int(p.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
