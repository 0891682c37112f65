#!/usr/bin/env bash
# The published headline from one command: FP8 KV on Kimi K2.6 over BF16, by the figures of
# Cloudflare's post of 2026-08-03 (2,192 over 1,558 tokens/s is +40.7 %, its inverse -28.9 %, out of
# memory at 64 in BF16) and the frontier of 11,240 tokens by hand.
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"

headline=("$source_root/scenarios/published/t04-kimi-gain.yaml" --weights scenario
  --concurrency "1,8,16,32,64")
"$kvcap" precision "${headline[@]}" --json >json 2>err || fail "$(cat err)"

# Values of a key, one a row of the table; "within A B C" is |A - B| <= C.
values() { sed -n "s/^ *\"$1\": \([^,]*\),*$/\1/p" json | tr '\n' ' '; }
within() { awk "BEGIN { d = $1 - $2; exit !(d <= $3 && -d <= $3) }"; }

[ "$(values largest_fit)" = "32 64 " ] || fail "largest loads: $(values largest_fit)"
read -r base fp8 <<<"$(values frontier)"
if ! within "$base" 60 1 || ! within "$fp8" 121 1; then fail "frontier: $base and $fp8"; fi
read -r none gain <<<"$(values throughput_change_percent)"
within "$gain" 40.7 2 || fail "gain $gain %, published 40.7 %"
read -r none cost <<<"$(values cost_change_percent)"
within "$cost" -28.9 2 || fail "cost $cost %, published -28.9 %"
[ "$none" = 0.0 ] || fail "the first row against itself: $none"
grep -q '"metric": "MMLU-Pro"' json || fail "no quality figures"
grep -q 'blog.cloudflare.com, 2026-08-03' json || fail "no source of the quality figures"

# The text says the same; threads and a database change nothing.
"$kvcap" precision "${headline[@]}" --threads 1 >one 2>err || fail "$(cat err)"
grep -q "^+$(printf '%.1f' "$gain") % peak throughput, $(printf '%.1f' "$cost") % cost" one ||
  fail "the sentence differs: $(cat one)"
"$kvcap" precision "${headline[@]}" --threads 4 --db p.db >two 2>err || fail "$(cat err)"
"$kvcap" precision "${headline[@]}" --db p.db >three 2>err || fail "$(cat err)"
for file in two three; do
  cmp -s one "$file" || fail "threads or the database change the table: $(diff one "$file")"
done
grep -q '10 of them there before' err || fail "points were computed again: $(cat err)"

# The picture, by the same command.
"$kvcap" precision "${headline[@]}" --plot plots >drawn 2>err || fail "$(cat err)"
head -n "$(wc -l <one)" drawn | cmp -s - one || fail "the table with pictures is another one"
for picture in sweep_gain sweep_peak sweep_memory; do
  [ "$(head -c 4 plots/$picture.png | tail -c 3)" = PNG ] || fail "no picture $picture"
done

# A model that nobody measured; K and V apart; a trace; a list of weights by class.
"$kvcap" precision "$source_root/scenarios/examples/llama-3.1-8b-h100.yaml" \
  --set workload.limit=50 --csv >csv 2>err || fail "$(cat err)"
grep -q '^scenario,k=bf16+v=fp8-e4m3,done,' csv || fail "K and V apart: $(cat csv)"
[ "$(wc -l <csv)" -gt 12 ] || fail "few rows: $(cat csv)"
"$kvcap" precision "$source_root/scenarios/examples/llama-3.1-8b-h100.yaml" --kv bf16 \
  --set workload.limit=50 --weights dense_mlp=int4-g128+attention=fp8,fp8 >text 2>err ||
  fail "$(cat err)"
grep -q '^unknown: no file of scenarios/quality says anything of llama-3.1-8b' text ||
  fail "quality is not unknown: $(cat text)"
finish "gain $gain % (published 40.7), cost $cost % (-28.9), fits 32 -> 64, frontier $base -> $fp8"
