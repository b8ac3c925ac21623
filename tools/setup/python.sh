#!/usr/bin/env bash
# Virtual environments for the value tests: exact versions, hashes checked. The
# TOSA reference model has one of its own, as its pins exclude the others'.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/paths.sh"

# The hashes are those of the wheels for CPython 3.11, Debian 12's.
find_python() {
  for p in python3 python3.11 /usr/bin/python3 ''; do
    [[ -n $p ]] || { echo "setup: no python 3.11 with venv and ensurepip found" >&2; exit 1; }
    "$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && break
  done
}

environment() { # FOLDER REQUIREMENTS
  local stamp
  stamp=$(sha256sum <"$2" | cut -c1-16)
  if [[ -x $1/bin/python && $(cat "$1/.stamp" 2>/dev/null) == "$stamp" ]]; then
    echo "python: $1 is ready"
    return
  fi
  find_python
  echo "python: making $1"
  rm -rf "$1"
  mkdir -p "$TESSERA_CACHE"
  "$p" -m venv "$1"
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r "$2"
  echo "$stamp" >"$1/.stamp"
}
environment "$tessera_venv" "$here/requirements.txt"
environment "$tessera_tosa_venv" "$here/requirements-tosa.txt"
