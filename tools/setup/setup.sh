#!/usr/bin/env bash
# Everything that a build and its tests need, on Debian 12. Idempotent: a second
# run only looks. About three minutes and 3 GB from a bare machine.
#   setup.sh          packages, ONNX library, Python environment
#   setup.sh --full   also npm, by whose registry some of the public models come
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
extra=()
case "${1:-}" in
  '') ;;
  --full) command -v npm >/dev/null || extra+=(npm) ;;
  *) echo "usage: setup.sh [--full]" >&2; exit 2 ;;
esac
"$here/apt.sh" "${extra[@]}"
"$here/python.sh"
"$here/onnx.sh"
