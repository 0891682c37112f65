#!/usr/bin/env bash
# The order of a file's rows does not matter where their times differ, nor does the format: sorted,
# shuffled and converted copies of one trace give one result_sha256. Ties keep the file's order.
# timeout: 300
set -eu

root="${KVCAP_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
kvcap="${KVCAP:-$root/build/release/kvcap}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
failed=0

hash_of() {
  "$kvcap" run "$root/scenarios/examples/llama-3.1-8b-h100.yaml" --trace "$1" --json 2>/dev/null |
    sed -n 's/.*"result_sha256": "\([0-9a-f]*\)".*/\1/p'
}

same() { # NAME FILE: the run of FILE gives $expected
  local seen
  seen="$(hash_of "$2")"
  if [ -z "$seen" ] || [ "$seen" != "$expected" ]; then
    echo "$1: result_sha256 is ${seen:-missing}, expected $expected"
    failed=1
  fi
}

# 400 rows, one of each arrival.
sample="$root/traces/samples/conversation.csv"
awk -F, 'NR == 1 || (NR <= 600 && !seen[$1]++)' "$sample" | head -401 >sorted.csv
[ "$(wc -l <sorted.csv)" -eq 401 ] || { echo "the sample is too short"; exit 1; }
expected="$(hash_of sorted.csv)"
[ -n "$expected" ] || { echo "no result_sha256 of the sorted file"; exit 1; }

# By output, then input, then time backward: far from the order of arrival, and always the same.
{ head -1 sorted.csv; tail -n +2 sorted.csv | sort -t, -k3,3n -k2,2n -k1,1r; } >shuffled.csv
cmp -s sorted.csv shuffled.csv && { echo "the shuffled file is not shuffled"; exit 1; }
same shuffled shuffled.csv
{ head -1 sorted.csv; tail -n +2 sorted.csv | tac; } >reversed.csv
same reversed reversed.csv

"$kvcap" trace convert shuffled.csv own.csv 2>/dev/null
same "own format" own.csv
"$kvcap" trace convert sorted.csv vidur.csv --to vidur 2>/dev/null
same vidur vidur.csv
gzip -k shuffled.csv
same gzip shuffled.csv.gz

# Own format, written twice: the same bytes, whatever the order of the source.
"$kvcap" trace convert reversed.csv again.csv 2>/dev/null
cmp own.csv again.csv || failed=1

# Ties: rows of one arrival, exchanged, are another trace.
first="$(sed -n 2p sorted.csv)"
twin="${first%,*},999"
{ head -1 sorted.csv; echo "$first"; echo "$twin"; tail -n +3 sorted.csv; } >tie.csv
{ head -1 sorted.csv; echo "$twin"; echo "$first"; tail -n +3 sorted.csv; } >other-tie.csv
expected="$(hash_of tie.csv)"
if [ "$(hash_of other-tie.csv)" = "$expected" ]; then
  echo "exchanged ties give the same result: the order of ties is not the file's"
  failed=1
fi

[ "$failed" -eq 0 ] && echo "one result for every order and format"
exit "$failed"
