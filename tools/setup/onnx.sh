#!/usr/bin/env bash
# Builds the ONNX C++ library (static, position independent) into the prefix,
# once: about 170 CPU seconds. The sources come out of the onnx wheel, whose
# exact version and sha256 pip checks; nothing of it is run. Needs python.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/paths.sh"
version=$(sed -n 's/^onnx==\([0-9.]*\).*/\1/p' "$here/onnx/requirements.txt")
stamp=$(cat "$here/onnx/requirements.txt" "$here/onnx/CMakeLists.txt" "$0" | sha256sum | cut -c1-16)
mkdir -p "$TESSERA_PREFIX"
exec 9>"$TESSERA_PREFIX/.lock"
flock 9
if [[ -f $TESSERA_PREFIX/.stamp && $(cat "$TESSERA_PREFIX/.stamp") == "$stamp" ]]; then
  echo "onnx: $version is in $TESSERA_PREFIX"; exit 0
fi
echo "onnx: building $version into $TESSERA_PREFIX"
# Always the same folder (the lock guards it): the compiler cache then knows the paths.
work=$TESSERA_CACHE/onnx-build
rm -rf "$work"
mkdir -p "$work/src"
trap 'rm -rf "$work"' EXIT
"$tessera_python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
  --python-version 3.11 --implementation cp --abi cp311 --platform manylinux_2_28_x86_64 \
  --require-hashes -r "$here/onnx/requirements.txt" -d "$work"
"$tessera_python" -m zipfile -e "$work"/onnx-*.whl "$work/src"
launcher=()
if command -v ccache >/dev/null; then
  launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
fi
run() { "$@" >>"$work/log" 2>&1 </dev/null || { tail -n 40 "$work/log" >&2; echo "setup: failed: $*" >&2; exit 1; }; }
run cmake -G Ninja -S "$here/onnx" -B "$work/build" -Wno-dev -DONNX_SOURCE_ROOT="$work/src" -DONNX_VERSION="$version" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" \
  -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 -DCMAKE_INSTALL_PREFIX="$TESSERA_PREFIX" "${launcher[@]}"
run cmake --build "$work/build" -j "${TESSERA_JOBS:-$(nproc)}"
run cmake --install "$work/build"
echo "$stamp" >"$TESSERA_PREFIX/.stamp"
