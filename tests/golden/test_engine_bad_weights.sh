#!/usr/bin/env bash
# timeout: 60
# A checkpoint with a number that is none: `kvcap engine eval` and `engine run --model` refuse it,
# status 3, and name the tensor. One whose numbers are finite and far too large: eval says that its
# perplexity is no number.
set -eu

program="${KVCAP:-build/release/kvcap}"
source_root="${KVCAP_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cp "$source_root"/scenarios/models/tiny-gqa/{config.json,model.safetensors} "$scratch/"
file="$scratch/model.safetensors"
header="$(od -An -tu8 -N8 "$file" | tr -d ' ')"
begin="$(head -c $((header + 8)) "$file" | tail -c +9 |
  jq '."model.norm.weight".data_offsets[0]')"
at=$((8 + header + begin))

# put BYTES COUNT: two bytes, little endian, as the first COUNT weights of the last norm.
put() {
  for ((i = 0; i < $2; i++)); do printf '%b' "$1"; done |
    dd of="$file" bs=1 seek="$at" conv=notrunc status=none
}

# expect WORDS COMMAND...
expect() {
  local words=$1 got=0
  shift
  "$@" >"$scratch/out" 2>"$scratch/err" || got=$?
  if [ "$got" != 3 ] || [ -s "$scratch/out" ] || ! grep -q "$words" "$scratch/err"; then
    echo "$*: status $got"
    cat "$scratch/out" "$scratch/err"
    exit 1
  fi
}

for number in '\xc0\x7f' '\x80\xff'; do
  put "$number" 1
  expect 'tensor "model.norm.weight" holds NaN' "$program" engine eval "$scratch" --bytes 300
  expect 'tensor "model.norm.weight" holds NaN' "$program" engine run --model "$scratch" \
    --prompt 'In the beginning' --generate 4
done
put '\x7f\x7f' 128 # the largest bf16
expect 'perplexity on this text is no number' "$program" engine eval "$scratch" --bytes 300 \
  --weights bf16 --kv bf16
