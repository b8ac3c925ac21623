#!/usr/bin/env bash
# A virtual environment for the value tests: exact versions, hashes checked.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/paths.sh"
stamp=$(sha256sum <"$here/requirements.txt" | cut -c1-16)
if [[ -x $tessera_python && $(cat "$tessera_venv/.stamp" 2>/dev/null) == "$stamp" ]]; then
  echo "python: $tessera_venv is ready"; exit 0
fi
# The hashes are those of the wheels for CPython 3.11, Debian 12's.
for p in python3 python3.11 /usr/bin/python3 ''; do
  [[ -n $p ]] || { echo "setup: no python 3.11 with venv and ensurepip found" >&2; exit 1; }
  "$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && break
done
echo "python: making $tessera_venv"
rm -rf "$tessera_venv"
mkdir -p "$TESSERA_CACHE"
"$p" -m venv "$tessera_venv"
"$tessera_python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r "$here/requirements.txt"
echo "$stamp" >"$tessera_venv/.stamp"
