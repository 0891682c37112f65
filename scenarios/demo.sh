#!/usr/bin/env bash
# The demo: how many long requests does Kimi K2.6 decode at once on eight H200, and does FP8 KV
# change the answer? Then a chat trace on Llama 3.1 8B. Installs what is missing, builds, runs,
# draws; ends with the table, the plots and the answer in one line.
#
#   scenarios/demo.sh        everything goes to build/demo
set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root="$PWD"
bash tests/support/install.sh
cmake --preset release --log-level=NOTICE >/dev/null
cmake --build --preset release --target kvcap --parallel "$(nproc)" >/dev/null

kvcap="$root/build/release/kvcap"
kimi="scenarios/examples/kimi-k2.6-decode-8xh200.yaml"
llama="scenarios/examples/llama-3.1-8b-h100.yaml"
out="build/demo"
rm -rf "$out"
mkdir -p "$out"

heading() { printf '\n== %s\n\n' "$*"; }

# decode CONCURRENCY FORMAT: one wave of that many requests; the result as one JSON document.
decode() {
  "$kvcap" run "$kimi" --set "name=Kimi K2.6, $2 KV, $1 at once" \
    --set "pools.decode.kv.format=$2" --set "workload.closed.concurrency=$1" \
    --set "workload.closed.requests=$1" --db "$out/demo.db" --json >"$out/kimi-$2-$1.json"
}

# row CONCURRENCY FORMAT: one line of the table, tab separated.
row() {
  jq --raw-output --arg concurrency "$1" --arg format "$2" '
    [$concurrency, $format, (.output_tok_s | round), (.tpot_ms.mean * 100 | round / 100),
     .kv_peak_tokens, if .oom then "yes" else "no" end, .preemptions] | @tsv' \
    "$out/kimi-$2-$1.json"
}

# table: aligns tab-separated columns, numbers to the right.
table() { awk -F'\t' '{ for (i = 1; i <= NF; i++) printf "%14s", $i; print "" }'; }

heading "1. What fits: Kimi K2.6 on 8 x H200 with BF16 KV"
for format in bf16 fp8-e4m3; do
  "$kvcap" fit "$kimi" --set "pools.decode.kv.format=$format" >"$out/fit-$format.txt"
  "$kvcap" fit "$kimi" --set "pools.decode.kv.format=$format" --json >"$out/fit-$format.json"
done
cat "$out/fit-bf16.txt"
printf '\nThe same with FP8 KV:\n'
tail -n 3 "$out/fit-fp8-e4m3.txt"

heading "2. A chat trace on Llama 3.1 8B, one H100"
"$kvcap" run "$llama" --db "$out/demo.db"

heading "3. Kimi K2.6 decode on 8 x H200, 10,240 tokens in, 1,000 out"
printf 'concurrency\tKV format\ttok/s\tTPOT ms\tKV peak tok\tOOM\tpreemptions\n' >"$out/table.tsv"
for concurrency in 1 8 16 32 64; do
  for format in bf16 fp8-e4m3; do
    decode "$concurrency" "$format"
    row "$concurrency" "$format" >>"$out/table.tsv"
  done
done
table <"$out/table.tsv"

heading "4. Plots: the chat trace, and the two decode runs of 64 side by side"
# stored_run NAME_PART: the number of the stored run whose name holds the text.
stored_run() {
  "$kvcap" db info "$out/demo.db" --json |
    jq --arg part "$1" '.runs[] | select(.name | contains($part)) | .id'
}
"$kvcap" report "$out/demo.db" --run "$(stored_run 'Llama 3.1 8B')" --out "$out/plots-llama"
"$kvcap" report "$out/demo.db" --out "$out/plots-kimi" \
  --run "$(stored_run 'bf16 KV, 64'),$(stored_run 'fp8-e4m3 KV, 64')"

heading "5. The answer"
# answer FORMAT: "1,367,168 tokens fit, so 64 requests run at 2,581 tok/s".
answer() {
  jq --raw-output --slurpfile fit "$out/fit-$1.json" '
    def commas: tostring | [while(length > 0; .[:-3]) | .[-3:]] | reverse | join(",");
    "\($fit[0].kv_tokens | commas) tokens fit, " +
    if .oom then "too few for 64 requests: \(.preemptions) preemptions,"
    else "64 requests run" end +
    " at \(.output_tok_s | round | commas) tok/s"' "$out/kimi-$1-64.json"
}
gain="$(jq --slurp '(.[1].output_tok_s / .[0].output_tok_s - 1) * 100 | round' \
  "$out/kimi-bf16-64.json" "$out/kimi-fp8-e4m3-64.json")"
echo "With BF16 KV $(answer bf16); with FP8 KV $(answer fp8-e4m3), $gain % more."
echo "(Memory is derived to the byte; step times come from plain efficiencies, not measured.)"
