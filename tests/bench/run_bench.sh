#!/usr/bin/env bash
# Builds the release benchmarks, runs them all and prints one JSON document.
#
#   tests/bench/run_bench.sh [NAME...]     NAME: events for bench_events; default: all
#
# A benchmark prints JSON objects, one a line. Seconds on a shared machine are noisy; instruction
# counts are not. So where valgrind is present, every line of counted.txt (a name and arguments) is
# run under callgrind too, and the instructions of the whole process join the document; two lines
# that differ in steps alone give the cost of the steps between.
set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build="${KVCAP_BUILD:-build/release}"
if [ -z "${KVCAP_BUILD:-}" ]; then
  cmake --preset release >&2
  cmake --build --preset release --parallel "$(nproc)" >&2
fi

lines="$(mktemp)"
trap 'rm -f "$lines"' EXIT

# count_instructions NAME ARGUMENT...
count_instructions() {
  local name="$1"
  shift
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$build/bench/bench_$name" "$@" 2>&1 \
    >/dev/null | sed -n 's/^==[0-9]*== Collected : *//p' |
    jq -c --arg bench "$name" --arg arguments "$*" \
      '{bench: $bench, arguments: $arguments, instructions: .}'
}

wanted() { [ "${#names[@]}" -eq 0 ] || [[ " ${names[*]} " == *" $1 "* ]]; }

names=("$@")
found=0
for source in tests/bench/*/bench_*.c; do
  name="$(basename "$source" .c)"
  name="${name#bench_}"
  wanted "$name" || continue
  found=$((found + 1))
  echo "bench: $name" >&2
  "$build/bench/bench_$name" >>"$lines"
done
[ "$found" -gt 0 ] || { echo "no benchmark of that name" >&2; exit 2; }

if command -v valgrind >/dev/null; then
  while read -r name arguments; do
    if [[ "$name" == '#'* ]] || ! wanted "$name"; then continue; fi
    echo "instructions: $name $arguments" >&2
    # shellcheck disable=SC2086 # several arguments
    count_instructions "$name" $arguments >>"$lines"
  done <tests/bench/counted.txt
fi

jq --slurp --arg version "$(cat VERSION)" \
  --arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
  --arg compiler "$(sed -n 's/^CMAKE_C_COMPILER:[^=]*=//p' "$build/CMakeCache.txt")" \
  '{schema: 1, version: $version, host: {cpu: $cpu, compiler: $compiler}, results: .}' "$lines"
