#!/usr/bin/env bash
# From a bare Debian 12 machine to a published network that runs: sets up, builds,
# fetches the Magika file-type model from its package, audits and compiles it, and
# classifies three files through the loader, with onnxruntime's scores beside.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
. tools/setup/paths.sh
say() { printf '\n== %s\n' "$*"; }
minutes() { awk -v s=$SECONDS 'BEGIN {printf "%.1f minutes", s / 60}'; }

say "set-up: packages, ONNX library, Python environment"
tools/setup/setup.sh
say "build ($(minutes) so far)"
mkdir -p build
tools/build.sh release >build/quickstart.log 2>&1 || { tail -n 40 build/quickstart.log; exit 1; }
say "the Magika model, from its package ($(minutes) so far)"
model=$("$tessera_python" test/e2e/fetch.py magika)
echo "$model"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tessera=build/release/bin/tessera

say "audit: what can run, and where"
"$tessera" audit "$model"
say "compile"
"$tessera" compile "$model" -o "$work/magika.tsr"
"$tessera" inspect "$work/magika.tsr" | sed -n '1,24p' | cut -c1-150
say "run: three files through the loader"
printf 'int main() { return 0; }\n' >"$work/x.c"
clang-22 "$work/x.c" -o "$work/program"
"$tessera_python" test/e2e/magika.py "$work/magika.tsr" markdown=README.md cpp=compiler/Import/Import.cpp elf="$work/program"
say "done in $(minutes)"
