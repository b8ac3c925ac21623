#!/usr/bin/env bash
# Sets up, builds and tests, from a bare machine or any state after it.
#   test.sh          set-up, build, lit, Catch2, some value tests (minutes)
#   test.sh --full   every suite, the slow ones sampled by the commit's hash when
#                    time runs short: the public models and ONNX's backend cases
#                    against onnxruntime, AArch64 under an emulator
# Every suite runs, whatever failed before it. Logs: build/test-logs/SUITE.log.
# The last line is "N passed, N failed"; the status is 1 if anything failed.
set -uo pipefail
full=
case "${1:-}" in
  '') ;;
  --full) full=1 ;;
  *) echo "usage: tools/test.sh [--full]" >&2; exit 2 ;;
esac
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
. tools/setup/paths.sh
python=$tessera_python
export TESSERA_VELA_PYTHON=$tessera_tosa_venv/bin/python
build=build/release
logs=build/test-logs
mkdir -p "$logs"
start=$SECONDS passed=0 failed=0 rows=()
limit=$((full ? 75 * 60 : 24 * 60)) # seconds for all; what is left bounds each suite

left() { echo $((limit - (SECONDS - start))); }

# suite NAME COMMAND...: the command's last "N passed, N failed[, N skipped]" counts.
suite() {
  local name=$1 begin=$SECONDS status=0 line p f s room
  shift
  room=$(left)
  echo "== $name"
  timeout --kill-after=20 "$((room > 60 ? room : 60))" "$@" </dev/null >"$logs/$name.log" 2>&1
  status=$?
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$logs/$name.log" | tail -n 1)
  p=$(sed -n 's/^\([0-9]*\) passed.*/\1/p' <<<"$line")
  f=$(sed -n 's/.*, \([0-9]*\) failed.*/\1/p' <<<"$line")
  s=$(sed -n 's/.*, \([0-9]*\) skipped.*/\1/p' <<<"$line")
  p=${p:-0} f=${f:-0} s=${s:-0}
  if [[ $status -ne 0 && $f -eq 0 ]]; then
    f=1
    echo "$name: ended with status $status$([[ $status -eq 124 || $status -eq 137 ]] && echo ' (time)')"
  fi
  grep -q . "$logs/$name.log" && tail -n "$((f > 0 ? 80 : 12))" "$logs/$name.log" | cut -c1-400
  passed=$((passed + p)) failed=$((failed + f))
  rows+=("$(printf '%-12s %7s %8d %8d %8d' "$name" "$(awk -v s=$((SECONDS - begin)) 'BEGIN {printf "%.1f", s / 60}')" "$p" "$f" "$s")")
  [[ $f -eq 0 ]]
}

finish() {
  printf '\n%-12s %7s %8s %8s %8s\n' suite minutes passed failed skipped
  printf '%s\n' "${rows[@]}"
  printf '%-12s %7s\n' all "$(awk -v s=$((SECONDS - start)) 'BEGIN {printf "%.1f", s / 60}')"
  echo "$passed passed, $failed failed"
  exit $((failed > 0))
}

# Counts of a JUnit file, as a line that suite() reads.
junit() {
  "$python" - "$1" <<'P'
import sys, xml.etree.ElementTree as E
cases = list(E.parse(sys.argv[1]).iter("testcase"))
bad = sum(c.find("failure") is not None or c.find("error") is not None for c in cases)
skip = sum(c.find("skipped") is not None for c in cases)
print(f"{len(cases) - bad - skip} passed, {bad} failed" + (f", {skip} skipped" if skip else ""))
P
}

lit() {
  lit-22 -sv --xunit-xml-output "$logs/lit.xml" "$build/test/lit"
  local status=$?
  junit "$logs/lit.xml"
  return $status
}

unit() {
  "$build/bin/tessera-unit" --reporter console --reporter "JUnit::out=$logs/unit.xml"
  local status=$?
  junit "$logs/unit.xml"
  return $status
}
export -f lit unit junit
export python build logs

suite setup tools/setup/setup.sh ${full:+--full} || finish
suite lint "$python" tools/lint.py
suite build tools/build.sh release all ${full:+tsr-run-aarch64} || finish
if [[ -n $(find test/lit -name '*.mlir' -o -name '*.onnxtxt' -o -name '*.test' | head -n 1) ]]; then suite lit bash -c lit; fi
if [[ -x $build/bin/tessera-unit ]]; then suite unit bash -c unit; fi
if [[ -x $build/bin/tessera ]]; then
  suite loader "$python" test/e2e/loader/loader.py
  suite graphs "$python" test/e2e/graphs.py
  suite partition "$python" test/e2e/partition.py
  suite devices "$python" test/e2e/devices.py
  suite vulkan "$python" test/e2e/vulkan.py ${full:+--runs 1000}
  suite cache "$python" test/e2e/cache.py
  suite trees "$python" test/e2e/trees.py
  suite ethosu "$python" test/e2e/ethosu.py
  suite quantize "$python" test/e2e/quantize.py
  suite report "$python" test/e2e/report.py --table "$logs/report.md"
  suite quantised "$python" test/e2e/quantised_graphs.py ${full:+--all --budget $(($(left) / 8))}
  suite precision "$python" test/e2e/precision.py
  suite gpu "$python" test/e2e/gpu.py
  suite rknn "$python" test/e2e/rknn.py
  if [[ -z $full ]]; then
    suite bundle "$python" test/e2e/bundle.py --bytes 300
    suite tosa "$python" test/e2e/tosa.py --only '^(int8_conv|int8_add|conv_depthwise|attention|movement|resize_linear)'
    suite tosa-random "$python" test/e2e/tosa_random.py --sample --budget 120
    suite models "$python" test/e2e/models.py magika silero_vad ppocr_cls
    suite conformance "$python" -W ignore tools/conformance/run.py --budget 180
  else
    suite bundle "$python" test/e2e/bundle.py
    suite contrib "$python" test/e2e/contrib.py
    suite versions "$python" test/e2e/versions.py
    suite hostile "$python" test/e2e/hostile.py
    suite vendor "$python" test/e2e/vendor.py
    suite integer-sums "$python" test/e2e/integer_sums.py
    suite fuzz "$python" test/fuzz/fuzz.py --runs 60000 --seconds 240
    suite cases "$python" test/e2e/cases.py
    suite verdicts "$python" -W ignore test/e2e/verdicts.py --targets 5 --budget $(($(left) / 6))
    suite tosa "$python" test/e2e/tosa.py --models --budget $(($(left) / 8))
    suite tosa-random "$python" test/e2e/tosa_random.py --quantise dscnn_kws,blazeface_front_128 --budget $(($(left) / 8))
    suite aarch64 "$python" test/e2e/aarch64.py --budget $(($(left) / 4))
    suite gpu-cases "$python" -W ignore tools/conformance/run.py --gpu --budget $(($(left) / 24))
    suite gpu-models "$python" test/e2e/vulkan.py --seconds 100 --models dscnn_kws autoencoder_ad oww_melspectrogram blazeface_front_128
    suite arm-cases "$python" -W ignore tools/conformance/run.py --aarch64 max,sme=off --count 300 --budget $(($(left) / 10))
    suite arm-quantised "$python" test/e2e/quantised_graphs.py --aarch64 --count 120 --budget $(($(left) / 10))
    suite arm-kernels "$python" test/e2e/aarch64_kernels.py --budget $(($(left) / 10))
    suite models "$python" test/e2e/models.py --bench 3 --budget $(($(left) / 2)) --table "$logs/models.md" --json "$logs/models.json"
    [[ -f $logs/models.md ]] && cat "$logs/models.md"
    suite conformance "$python" -W ignore tools/conformance/run.py --budget $(($(left) * 3 / 4))
  fi
fi
finish
