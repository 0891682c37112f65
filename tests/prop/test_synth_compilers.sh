#!/usr/bin/env bash
# Synthetic traces have the same bytes with every compiler and level of optimisation: the program of
# test_synth_golden.c is compiled again and its digests are compared.
# label: ci
# timeout: 600
set -eu

source_root="${KVCAP_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
failed=0
legs=0

cd "$source_root"
sources=(tests/unit/traces_synth/test_synth_golden.c tests/unit/traces_synth/synth_support.c
  traces/synth/*.c traces/transform/*.c traces/readers/*.c engine/base/*.c)

# leg NAME COMPILER [FLAG...]: digests of one build against the first leg's.
leg() {
  local name="$1" compiler="$2"
  shift 2
  if ! command -v "$compiler" >/dev/null; then
    echo "$name: $compiler is not installed, left out"
    return
  fi
  "$compiler" -std=c17 -D_GNU_SOURCE -I. -ffp-contract=off "$@" -o "$scratch/$name" \
    "${sources[@]}" -lcmocka -lz -lyaml -lm
  "$scratch/$name" print >"$scratch/$name.txt"
  [ "$(grep -cE ' [0-9a-f]{64}$' "$scratch/$name.txt")" -ge 8 ] || exit 1
  legs=$((legs + 1))
  [ -e "$scratch/first.txt" ] || cp "$scratch/$name.txt" "$scratch/first.txt"
  if diff "$scratch/first.txt" "$scratch/$name.txt"; then
    echo "$name: same digests"
  else
    echo "$name: other digests than the first leg"
    failed=1
  fi
}

leg gcc-O0 gcc -O0
leg gcc-O3 gcc -O3
leg gcc-native gcc -O3 -march=native
leg clang-O2 clang -O2
[ "$legs" -ge 2 ] || { echo "skipped: fewer than two builds to compare"; exit 77; }
exit "$failed"
