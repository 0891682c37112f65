#!/usr/bin/env bash
# label: ci
# timeout: 300
# The one command for a GPU machine runs to its end where there is none: every part through the
# emulator, and everything it writes says so. Not a word about a GPU's speed may come of it.
set -eu

[ -e "$KVCAP_BUILD/tests/kvcap_emu.so" ] || { echo "no emulator in this build"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

KVCAP_GPU_EMULATE=1 KVCAP_GPU_MINUTES=4 \
  bash "$KVCAP_SOURCE/tests/gpu/run.sh" "$work" > "$work/said" 2>&1 ||
  { cat "$work/said"; cat "$work/report.txt"; exit 1; }
cat "$work/said"
for file in report.txt summary.csv bench.csv rank-bf16.csv rank-fp8.csv results.db logs.tar.gz; do
  [ -s "$work/$file" ] || { echo "$file was not written"; exit 1; }
done

head -n 1 "$work/report.txt" | grep -q '^EMULATED' || { echo "not marked"; exit 1; }
for part in check replay serve-tiny bench rank-tiny; do
  grep -q "^$part,passed," "$work/summary.csv" || { echo "$part did not run"; exit 1; }
done
[ "$(grep -c EMULATED "$work/report.txt")" -ge 4 ] || { echo "tables are not marked"; exit 1; }
if grep -E ',(failed|cut off)' "$work/summary.csv"; then exit 1; fi
grep -q "equal to the simulator's, byte for byte" "$work/report.txt" ||
  { echo "the replay does not say that decisions are equal"; exit 1; }
grep -q '^[0-9]* checks on emulated on the CPU, 0 failed\|   [0-9]* checks on emulated' \
  "$work/report.txt" || { echo "no checks"; exit 1; }
scenario=$KVCAP_SOURCE/scenarios/published/t02-kimi-decode-bf16.yaml
for format in bf16 fp8; do
  "$KVCAP" calibrate serving "$scenario" --table "$work/rank-$format.csv" --name none \
    > "$work/fit" 2>&1 && { echo "rank-$format.csv is fitted"; exit 1; }
  grep -q 'emulated device' "$work/fit" || { cat "$work/fit"; exit 1; }
done
emulated=$(sqlite3 "$work/results.db" 'SELECT count(*), sum(emulated) FROM measurement' \
  2> "$work/err" || echo skip)
[ "$emulated" = skip ] || [ "${emulated%|*}" = "${emulated#*|}" ] ||
  { echo "measurements that are not marked as emulated: $emulated"; exit 1; }
