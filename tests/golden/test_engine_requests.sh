#!/usr/bin/env bash
# timeout: 60
# `kvcap engine run --clock wall --requests FILE`: a line for each request that completed, with the
# lengths that the trace says and times in their order that end when the run ends; `trace`,
# `compare` and `calibrate serving` read it. Predicted times are not written, and the log of an
# emulated device is refused by whoever would use its times.
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
needs jq

scenario="$source_root/scenarios/examples/llama-3.1-8b-h100.yaml"
trace="$source_root/traces/samples/tiny.csv"
starved="$source_root/scenarios/examples/llama-3.1-8b-starved.yaml"

expect 0 '' "$kvcap" engine run "$scenario" --trace "$trace" --clock wall \
  --requests log.jsonl --json
jq -s --slurpfile run out '
  length == $run[0].requests_completed and
  (map(.output_toks) | add) == $run[0].tokens.produced and
  all(.arrival_time <= .queued_ts and .queued_ts <= .scheduled_ts and
      .scheduled_ts < .first_token_ts and .first_token_ts <= .last_token_ts) and
  all(.device == "cpu" and .model == "synthetic" and (has("emulated") | not)) and
  (((map(.last_token_ts) | max) - (map(.arrival_time) | min) - $run[0].times.makespan_s) | fabs)
    < 1e-6' log.jsonl >said || fail "the log cannot be read"
[ "$(cat said)" = true ] || fail "the log does not say what the run did: $(cat log.jsonl out)"

# The lengths, by the trace itself: arrival, input, output in the columns that its header names.
"$kvcap" trace convert "$trace" plain.csv 2>/dev/null || fail "the trace cannot be converted"
lengths() { # FILE: "input output" of each row of a canonical trace
  awk -F, '/^#/ { next } !at { for (i = 1; i <= NF; i++) { if ($i ~ /^input/) a = i
           if ($i ~ /^output/) b = i } at = 1; next } { print $a, $b }' "$1"
}
jq -r '"\(.input_toks) \(.output_toks)"' log.jsonl >logged
lengths plain.csv | diff - logged || fail "other lengths than the trace's"

expect 0 'stored as run 1' "$kvcap" run "$scenario" --trace "$trace" --db runs.db
expect 0 '' "$kvcap" compare log.jsonl runs.db:1
grep -q '5 requests on both sides' out || fail "compare finds other requests: $(cat out)"
"$kvcap" calibrate serving "$scenario" --log log.jsonl --fit-first 5 --fit host >out 2>err ||
  fail "calibrate does not read it: $(cat err)"

expect 2 'add --clock wall' "$kvcap" engine run "$scenario" --trace "$trace" --requests none.jsonl
[ ! -e none.jsonl ] || fail "predicted times were written as measured ones"
expect 2 'do not go with it' "$kvcap" engine run --model tiny-gqa --prompt x --requests none.jsonl
expect 4 'cannot be written' "$kvcap" engine run "$scenario" --trace "$trace" --clock wall \
  --requests /dev/full

module="$(dirname "$kvcap")/tests/kvcap_emu.so"
if [ -e "$module" ]; then
  KVCAP_MODULE="$module" KVCAP_EMU_MIB=48 "$kvcap" engine run "$starved" \
    --set workload.limit=1 --clock wall --device cuda --requests emulated.jsonl >out 2>err ||
    fail "the emulator did not run: $(cat err)"
  jq -es 'all(.emulated == true)' emulated.jsonl >/dev/null || fail "the log does not say EMULATED"
  expect 3 'emulated device, which has no times' "$kvcap" compare emulated.jsonl runs.db:1
  expect 3 'emulated device, which has no times' "$kvcap" calibrate serving "$scenario" \
    --log emulated.jsonl
fi
finish "measured requests are written as they were"
