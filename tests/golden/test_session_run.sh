#!/usr/bin/env bash
# Sessions, end to end: the shipped sample replayed, and the database read from outside. Every
# request that waits for another comes exactly its wait after the other's end; results name the rows
# of the trace; loop: open brings the recorded times back. timeout: 120
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
scenario="$source_root/scenarios/examples/llama-3.1-8b-sessions.yaml"
sample="$source_root/traces/samples/sessions.csv"

# same WHAT SEEN EXPECTED
same() { [ "$2" = "$3" ] || fail "$1 is $2, expected $3"; }
# ask DATABASE SQL: the rows of the trace are in table `trace`, from 0.
ask() {
  sqlite3 :memory: -cmd '.mode csv' -cmd ".import $scratch/trace.csv trace" -cmd '.mode list' \
    -cmd "ATTACH '$1' AS stored" "$2"
}

# The sample with its row numbers, by a tool of its own.
awk -F, -v OFS=, '{ print (NR == 1 ? "row" : NR - 2), $0 }' "$sample" >trace.csv

named='SELECT count(DISTINCT request), min(request), max(request) FROM request'
for loop in closed open; do
  "$kvcap" run "$scenario" --set "workload.loop=$loop" --db "$loop.db" --json >"$loop.json" ||
    exit 1
  same "loop" "$(jq -r .trace.loop "$loop.json")" "$loop"
  same "requests of the $loop run" "$(jq .requests_completed "$loop.json")" 40
  same "rows named by the $loop run" "$(sqlite3 "$loop.db" "$named")" '40|0|39'
  "$kvcap" db verify "$loop.db" >/dev/null || fail "the rows of the $loop run do not verify"
done
"$kvcap" run "$scenario" --set workload.loop=auto --json >auto.json || exit 1
same "the hash with loop auto" "$(jq -r .result_sha256 auto.json)" \
  "$(jq -r .result_sha256 closed.json)"

waits="SELECT count(*) FROM trace JOIN request r ON r.request = CAST(row AS INTEGER)
  JOIN request p ON p.request = CAST(after AS INTEGER)
  WHERE after <> '' AND r.arrival_ps = p.end_ps + CAST(wait_ps AS INTEGER)"
starts="SELECT count(*) FROM trace JOIN request r ON request = CAST(row AS INTEGER)
  WHERE r.arrival_ps = CAST(trace.arrival_ps AS INTEGER)"
lengths="SELECT count(*) FROM trace JOIN request r ON request = CAST(row AS INTEGER)
  WHERE r.input_tokens = CAST(trace.input_tokens AS INTEGER)
  AND r.output_tokens = CAST(trace.output_tokens AS INTEGER)"
waiting="$(awk -F, 'NR > 1 && $6 != ""' trace.csv | wc -l)"
same "requests that wait" "$(jq .trace.waiting_rows closed.json)" "$waiting"
same "requests that came their wait after the other's end" "$(ask closed.db "$waits")" "$waiting"
same "requests that came at their recorded time" \
  "$(ask closed.db "$starts AND after = ''")" $((40 - waiting))
same "requests of the open run at their recorded time" "$(ask open.db "$starts")" 40
same "requests with the lengths of their row" "$(ask closed.db "$lengths")" 40
same "requests that no longer wait" "$(jq .trace.changes.opened open.json)" "$waiting"

# Infinite cache: leading ids of a row that an earlier row led with, counted here from the text.
reuse="$(awk -F, 'NR > 1 {
  n = split($NF, id, " "); path = ""; lead = 1
  for (i = 1; i <= n; i++) {
    path = path " " id[i]
    if (lead && (path in seen)) { reused++; tokens += i * 512 <= $2 ? 512 : $2 - (i - 1) * 512 }
    else lead = 0
    seen[path] = 1
  }
  blocks += n; input += $2
} END { printf "%d %d %d %d", blocks, reused, input, tokens }' "$sample")"
same "infinite cache" "$(jq -r '.trace.infinite_cache
  | "\(.blocks) \(.blocks_reused) \(.tokens) \(.tokens_reused)"' closed.json)" "$reuse"
# With pages for all, the run finds nearly that: whole pages of 16 tokens, and never the last token.
found="$(jq .prefix_cache.cached_tokens closed.json)"
ideal="${reuse##* }"
if [ "$found" -gt "$ideal" ] || [ "$found" -lt $((ideal * 99 / 100)) ]; then
  fail "the run found $found tokens cached, an infinite cache $ideal"
fi
"$kvcap" run "$scenario" --set pools.serve.kv.prefix_cache=false --json >off.json || exit 1
same "the hit ratio without a cache" "$(jq .cache_hit_token_ratio off.json)" null

# What a person reads.
"$kvcap" run "$scenario" --set workload.rate=2 --set workload.limit=30 >text || exit 1
for line in 'loop: closed, ' 'applied: limit 30 rate x2$' ' rows beyond the limit dropped$' \
  'prefix ids of 512 tokens (by the format), tail ceil (by the format)'; do
  grep -q -- "$line" text || fail "the summary lacks /$line/: $(cat text)"
done

# A trace that cannot say who waits.
"$kvcap" run "$scenario" --trace "$source_root/traces/samples/tiny.csv" >out 2>err
same "exit status for a trace without sessions" $? 3
grep -q 'workload.loop: closed needs a trace that says which request waits for which' err ||
  fail "unexpected message: $(cat err)"
"$kvcap" run "$scenario" --trace "$source_root/traces/samples/tiny.csv" \
  --set workload.loop=auto --json | jq -e '.trace.loop == "open"' >/dev/null ||
  fail "tiny.csv is not replayed in open loop"

# Rows that wait in a circle.
printf '%s\n' arrival_ps,input_tokens,output_tokens,after,wait_ps 0,10,2,,0 5,10,2,2,1 \
  6,10,2,1,1 >circle.csv
"$kvcap" run "$scenario" --trace circle.csv >out 2>err
same "exit status for a circle" $? 3
finish "sessions, end to end: all as expected"
