#!/usr/bin/env bash
# Configures and builds: build.sh [PRESET [TARGET ...]]; presets: dev, release
# (the default), asan. Programs land in build/PRESET/bin.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
. "$top/tools/setup/paths.sh"
preset=${1:-release}
shift || true
cd "$top"
cmake --preset "$preset" -DTESSERA_PREFIX="$TESSERA_PREFIX"
exec ninja -C "build/$preset" -j "${TESSERA_JOBS:-$(nproc)}" "$@"
