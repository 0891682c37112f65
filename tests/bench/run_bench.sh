#!/usr/bin/env bash
# Builds the release benchmarks, runs them all and prints one JSON document.
#
#   tests/bench/run_bench.sh [NAME...]     NAME: events for bench_events; default: all
#
# A benchmark prints JSON objects, one a line. Seconds on a shared machine are noisy; instruction
# counts are not. So the opening comment of a benchmark may hold lines `callgrind: ARGUMENTS`: where
# valgrind is present it is run with those arguments under callgrind too, and the instructions of
# the whole process join the document.
set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build="${KVCAP_BUILD:-build/release}"
if [ -z "${KVCAP_BUILD:-}" ]; then
  cmake --preset release >&2
  cmake --build --preset release >&2
fi

lines="$(mktemp)"
trap 'rm -f "$lines"' EXIT

# count_instructions NAME PROGRAM ARGUMENTS
count_instructions() {
  local arguments
  read -r -a arguments <<<"$3"
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$2" "${arguments[@]}" 2>&1 >/dev/null |
    sed -n 's/^==[0-9]*== Collected : *//p' |
    jq -c --arg bench "$1" --arg arguments "$3" \
      '{bench: $bench, arguments: $arguments, instructions: .}'
}

found=0
for source in tests/bench/*/bench_*.c; do
  name="$(basename "$source" .c)"
  name="${name#bench_}"
  if [ "$#" -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  found=$((found + 1))
  program="$build/bench/bench_$name"
  echo "bench: $name" >&2
  "$program" >>"$lines"
  if command -v valgrind >/dev/null; then
    while read -r arguments; do
      count_instructions "$name" "$program" "$arguments" >>"$lines"
    done < <(sed -n '1,/\*\//s/^.*callgrind: *\(.*[^ ]\) *$/\1/p' "$source")
  fi
done
[ "$found" -gt 0 ] || { echo "no benchmark of that name" >&2; exit 2; }

jq --slurp --arg version "$(cat VERSION)" \
  --arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
  --arg compiler "$(sed -n 's/^CMAKE_C_COMPILER:[^=]*=//p' "$build/CMakeCache.txt")" \
  '{schema: 1, version: $version, host: {cpu: $cpu, compiler: $compiler}, results: .}' "$lines"
