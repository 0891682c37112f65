#!/usr/bin/env bash
# One result from every build: a fixed suite of runs gives the same result_sha256 under two
# compilers, four optimisation levels and two instruction sets; and under another locale, time zone,
# working folder, environment size and address layout. The hashes are committed.
# label: ci
# timeout: 1500
#
#   UPDATE=1 tests/prop/test_determinism.sh     rewrites tests/golden/result_hashes.txt
set -eu

source_root="${KVCAP_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
expected="$source_root/tests/golden/result_hashes.txt"
azure="${KVCAP_SHARED:-$source_root/../shared}/traces/azure2023/AzureLLMInferenceTrace_conv.csv"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
failed=0

# hash_of NAME COMMAND...: one line `name sha256`.
hash_of() {
  local name="$1" hash
  shift
  hash="$("$@" --json | jq --raw-output .result_sha256)"
  [[ "$hash" =~ ^[0-9a-f]{64}$ ]] || { echo "$name: no result from $*" >&2; exit 1; }
  echo "$name $hash"
}

# suite PROGRAM [ARGUMENT...]: the whole suite, in a fixed order.
suite() {
  local scenario
  for scenario in "$source_root"/scenarios/examples/*.yaml; do
    hash_of "$(basename "$scenario" .yaml)" "$@" run "$scenario"
  done
  if [ -f "$azure" ]; then
    hash_of azure-2023-conversation "$@" run \
      "$source_root/scenarios/examples/llama-3.1-8b-h100.yaml" --trace "$azure"
  fi
}

# compare NAME FILE: the file's hashes against the first leg's.
compare() {
  if cmp -s "$scratch/first" "$2"; then
    echo "$1: same $(wc -l <"$2") hashes"
  else
    echo "$1: other results than the first build:"
    diff "$scratch/first" "$2" || true
    failed=1
  fi
}

# leg NAME COMPILER FLAGS: builds the program alone and runs the suite.
leg() {
  local build="$scratch/build-$1"
  if ! command -v "$2" >/dev/null; then
    echo "$1: skipped, no $2"
    return
  fi
  cmake -S "$source_root" -B "$build" -DKC_TESTS=OFF -DCMAKE_C_COMPILER="$2" \
    -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="$3" >"$scratch/log" 2>&1 ||
    { cat "$scratch/log"; exit 1; }
  cmake --build "$build" --target kvcap --parallel "$(nproc)" >/dev/null || exit 1
  suite "$build/kvcap" >"$scratch/hashes-$1"
  [ -e "$scratch/first" ] || cp "$scratch/hashes-$1" "$scratch/first"
  compare "$1" "$scratch/hashes-$1"
}

leg gcc-O2 gcc -O2
leg gcc-O0 gcc -O0
leg gcc-O3 gcc -O3
leg clang-O0 clang -O0
leg clang-O2 clang -O2
leg clang-O3 clang -O3
flags="$(sed -n 's/^flags[^:]*: //p' /proc/cpuinfo | head -n 1)"
if [[ " $flags " == *" avx2 "* && " $flags " == *" fma "* && " $flags " == *" bmi2 "* ]]; then
  leg gcc-x86-64-v3 gcc "-O2 -march=x86-64-v3"
  leg clang-x86-64-v3 clang "-O2 -march=x86-64-v3"
else
  echo "x86-64-v3: skipped, this processor lacks it"
fi

# The same program in other surroundings. A locale that is not installed falls back to C, which
# still changes the environment; the libm without FMA is glibc's own choice by a tunable.
program="$scratch/build-gcc-O2/kvcap"
surroundings() {
  local name="$1"
  shift
  (cd "$scratch" && suite env "$@" "$program") >"$scratch/hashes-$name"
  compare "$name" "$scratch/hashes-$name"
}
surroundings locale LC_ALL=de_DE.UTF-8 TZ=Pacific/Auckland
surroundings environment "PADDING=$(printf 'x%.0s' {1..20000})"
surroundings libm-without-fma GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2,-AVX2_Usable
for repeat in 1 2 3; do surroundings "again-$repeat" TZ=UTC; done

if [ "${UPDATE:-0}" = 1 ]; then
  {
    echo "# result_sha256 of each example and of the Azure 2023 conversation trace, as every build"
    echo "# gives it. tests/prop/test_determinism.sh compares; UPDATE=1 rewrites."
    cat "$scratch/first"
  } >"$expected"
fi
# A trace that this machine lacks has no line in `first`; its committed line is left alone.
while read -r name hash; do
  if ! grep -qx "$name $hash" "$expected"; then
    echo "$name: $hash is not the committed hash ($(sed -n "s/^$name //p" "$expected"))"
    failed=1
  fi
done <"$scratch/first"
exit "$failed"
