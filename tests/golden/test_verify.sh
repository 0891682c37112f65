#!/usr/bin/env bash
# kvcap verify and the profiles behind it, end to end: the published figures again from here, memory
# targets worked out by awk from published shapes, bounds that are missed, profiles that are what
# the fit makes, the plot. timeout: 300
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
published="$source_root/scenarios/published"
needs jq

# near WHAT SEEN EXPECTED PERCENT
near() {
  awk -v s="$2" -v e="$3" -v p="$4" 'BEGIN { d = s - e; if (d < 0) d = -d; size = e < 0 ? -e : e
    exit !(s != "" && s != "null" && d <= size * p / 100) }' ||
    fail "$1 is $2, expected $3 within $4 %"
}
# figure FILE WHAT KEY
figure() {
  jq -r --arg f "$1" --arg w "$2" --arg k "$3" \
    '.scenarios[] | select(.path | endswith($f)) | .figures[] | select(.what == $w) | .[$k]' \
    all.json
}

start=$(date +%s)
"$kvcap" verify --json >all.json || fail "verify ends with $?"
seconds=$(($(date +%s) - start))
[ "$seconds" -le 20 ] || fail "verify took $seconds s"
[ "$(jq '.outside' all.json)" = 0 ] || fail "figures lie outside their bounds"
"$kvcap" verify >all.txt || fail "verify as text ends with $?"

# The tables as published, and the bars: each row, and each row left out.
table() { # FILE BAR LEFT_OUT_BAR ROW:VALUE...
  local file="$1" bar="$2" left="$3" row at
  shift 3
  for row in "$@"; do
    at="${row%:*} concurrent"
    near "$file published, $at" "$(figure "$file" "$at" published)" "${row#*:}" 0
    near "$file $at" "$(figure "$file" "$at" predicted)" "${row#*:}" "$bar"
    [ "$(figure "$file" "$at" trust)" = calibrated ] || fail "$file: trust"
    near "$file left out $at" \
      "$(figure "$file" "$at, from the other rows" predicted)" "${row#*:}" "$left"
  done
}
table t02-kimi-decode-bf16.yaml 1.5 5 1:137 8:731 16:1106 32:1558
table t03-kimi-decode-fp8.yaml 1.5 5 1:125 8:689 16:1028 32:1489 64:2192
table t08-glm-decode-fp8.yaml 7 20 1:60 8:425 16:683 32:994 64:1672
table t09-glm-decode-int4.yaml 3 10 1:92 8:513 16:825 32:1267 64:1933

# Gain and cost from the predicted rows themselves.
bf16="$(figure t02-kimi-decode-bf16.yaml "32 concurrent" predicted)"
fp8="$(figure t03-kimi-decode-fp8.yaml "64 concurrent" predicted)"
near "peak gain" "$(figure t04-kimi-gain.yaml "peak throughput" predicted)" \
  "$(awk -v a="$fp8" -v b="$bf16" 'BEGIN { print 100 * (a / b - 1) }')" 0.1
awk -v a="$fp8" -v b="$bf16" 'BEGIN { g = 100 * (a / b - 1); c = 100 * (b / a - 1)
  exit !(g > 38.7 && g < 42.7 && c > -30.9 && c < -26.9) }' ||
  fail "gain or cost is off: $fp8, $bf16"

# Prefill, and the change from FP8 to INT4 weights.
near "prefill FP8" "$(figure t10-glm-prefill.yaml "prefill, FP8 weights" predicted)" 10160 1
near "prefill INT4" "$(figure t10-glm-prefill.yaml "prefill, INT4 weights" predicted)" 8660 1
awk -v d="$(figure t10-glm-prefill.yaml "INT4 over FP8" predicted)" \
  'BEGIN { exit !(d > -16.8 && d < -12.8) }' || fail "INT4 over FP8 in prefill is off"
for c in 1 4 8; do
  awk -v d="$(figure t11-integrity-cost.yaml "throughput, $c concurrent" predicted)" \
    'BEGIN { exit !(d <= 0 && d >= -1) }' || fail "the tag check at $c is off"
  [ "$(figure t11-integrity-cost.yaml "throughput, $c concurrent" kind)" = modelled ] ||
    fail "the tag check must say that it is modelled"
done

# Memory from shapes, without the program. Kimi K2.6: 61 layers, latent 512 + rotary 64, one draft
# layer; 71.8 GiB of weights a rank of 8 (INT4 experts with BF16 scales of 32, the rest BF16; q_a,
# kv_a, router and vision tower replicated), 138.0 GiB free, fraction 0.85.
awk 'BEGIN {
  gib = 1073741824
  expert = 3 * 7168 * 2048; attention_split = 64 * 192 * 1536 + 64 * 256 * 512 + 64 * 128 * 7168
  attention_all = 7168 * 1536 + 7168 * 576
  plain = 61 * attention_split + 60 * expert + 3 * 7168 * 18432 + 2 * 163840 * 7168
  cut = 60 * 384 * expert * 0.5625 + 2 * plain
  all = 2 * (61 * attention_all + 60 * 384 * 7168) + 2 * 0.45e9
  room = 138.0 * gib * 0.85 - (cut / 8 + all)
  printf "%.0f %.0f\n", room / (62 * 576 * 2), room / (62 * 576)
}' >kimi.txt
read -r kimi_bf16 kimi_fp8 <kimi.txt
near "Kimi's pool in BF16" "$(figure t01-kimi-kv-pool.yaml "KV pool, BF16" predicted)" \
  "$kimi_bf16" 0.3
near "Kimi's pool in FP8" "$(figure t01-kimi-kv-pool.yaml "KV pool, FP8" predicted)" \
  "$kimi_fp8" 0.3
near "Kimi's pool as published" "$kimi_bf16" 686000 1
for format in BF16:32:60 FP8:64:121; do
  IFS=: read -r name largest frontier <<<"$format"
  near "the largest that fits in $name" \
    "$(figure t01-kimi-kv-pool.yaml "largest tested that fits, $name" predicted)" "$largest" 0
  near "frontier in $name" \
    "$(figure t01-kimi-kv-pool.yaml "frontier at 11,240 tokens, $name" predicted)" "$frontier" 2
done

# GLM 5.2: 75 MoE layers of 256 experts (and one more for token prediction), 3 dense, 78 of
# attention; FP8 with an FP32 scale per 128 x 128, embeddings, router and indexer in BF16.
awk 'BEGIN {
  gib = 1073741824
  expert = 3 * 6144 * 2048; routed = 76 * 256 * expert; shared = 76 * expert
  attention = 6144 * 2048 + 2048 * 64 * 256 + 6144 * 576 + 512 * 64 * 448 + 64 * 256 * 6144
  quantised = routed + shared + 79 * attention + 3 * 3 * 6144 * 12288
  indexer = 22 * (2048 * 32 * 128 + 6144 * 128 + 6144 * 32)
  plain = 2 * 154880 * 6144 + 76 * 256 * 6144 + indexer + 2 * 6144 * 6144
  fp8 = quantised * (1 + 4 / 16384) + 2 * plain
  int4 = routed * 0.5625 + 2 * (quantised - routed + plain)
  printf "%.2f %.2f\n", fp8 / gib, int4 / gib
}' >glm.txt
read -r glm_fp8 glm_int4 <glm.txt
near "GLM in FP8" "$(figure t05-glm-checkpoint.yaml "checkpoint, FP8" predicted)" "$glm_fp8" 0.1
near "GLM in INT4" "$(figure t05-glm-checkpoint.yaml "checkpoint, INT4 experts" predicted)" \
  "$glm_int4" 0.1
near "GLM in FP8 as published" "$glm_fp8" 705 0.3
near "GLM in INT4 as published" "$glm_int4" 421 0.3
near "GLM per GPU" "$(figure t05-glm-checkpoint.yaml "checkpoint / 8, FP8" predicted)" \
  "$(awk -v t="$glm_fp8" 'BEGIN { print t / 8 }')" 0.1
near "GLM's pool" "$(figure t07-glm-kv-pool.yaml "KV pool, FP8" predicted)" 1180000 1
near "Scout in 56 GiB" "$(figure t14-llama-4-scout-2xh200.yaml "tokens in 56 GiB" predicted)" \
  "$(awk 'BEGIN { print int(56 * 1073741824 / (12 * 8 * 128 * 2 * 2)) }')" 0.01
near "Kimi K2.5 in 30 GiB" "$(figure t15-kimi-k2.5-8xh100.yaml "tokens in 30 GiB" predicted)" \
  "$(awk 'BEGIN { print int(30 / 8 * 1073741824 / (61 * 576 * 2)) }')" 0.1

# The resolved text holds the list and gives the same again.
"$kvcap" run "$published/t04-kimi-gain.yaml" --show --set pools.0.moe.skew=1.2 >show1.yaml ||
  fail "the resolved scenario is not shown"
"$kvcap" run show1.yaml --show >show2.yaml || fail "the resolved scenario does not load"
cmp -s show1.yaml show2.yaml || fail "the resolved scenario gives another one"
[ "$(grep -c '  - {what: ' show1.yaml)" -eq 2 ] || fail "the resolved scenario lacks the figures"

# A bound that is missed ends with 1 and says so; a figure that cannot be had, too.
sed 's/value: 1106,/value: 1200,/' "$published/t02-kimi-decode-bf16.yaml" >missed.yaml
"$kvcap" verify ./missed.yaml >missed.txt
[ $? -eq 1 ] || fail "a figure outside its bound does not end with 1"
grep -q "16 concurrent .*1,200 .*OUTSIDE" missed.txt || fail "the missed figure is not named"
sed 's/fraction: 0.85/fraction: 0.4/' "$published/t02-kimi-decode-bf16.yaml" >none.yaml
"$kvcap" verify ./none.yaml >none.txt
[ $? -eq 1 ] || fail "figures of what does not fit do not end with 1"
grep -q "does not fit" none.txt || fail "why there is no figure is not said"
"$kvcap" verify ./absent.yaml >/dev/null 2>err
[ $? -eq 4 ] || fail "an absent scenario ends with another status"

# The profiles of the GPU file are what the fit makes, byte for byte.
"$published/fit_profiles.sh" "$kvcap" >made.yaml || fail "fit_profiles.sh ends with $?"
awk '/Fitted to published tables/ { on = 1; next } on' "$source_root/scenarios/gpus/h200.yaml" \
  >kept.yaml
diff made.yaml kept.yaml >diff.txt ||
  fail "profiles differ from what fit_profiles.sh makes: $(head diff.txt)"

# A model that the fit never saw runs, and every figure says what it is worth.
"$kvcap" run "$source_root/scenarios/examples/llama-3.1-8b-h100.yaml" --set pools.0.gpu=h200 \
  --set pools.0.profile=sglang-0.5-kimi-bf16-published --set workload.limit=50 --db far.db \
  --json >far.json 2>/dev/null || fail "a model outside the fit does not run"
marks='[.trust.times, .ttft_ms.trust, .tpot_ms.trust, .itl_ms.trust, .e2e_ms.trust] | unique[]'
[ "$(jq -r "$marks" far.json)" = extrapolated ] ||
  fail "a figure of a model outside the fit does not say so"
if command -v sqlite3 >/dev/null; then
  [ "$(sqlite3 far.db 'SELECT trust, trust_basis, outside_ps > 0 FROM run')" = \
    'extrapolated|serving|1' ] || fail "the database does not say so"
fi

# A table in a file gives what the expect list gives.
printf 'concurrency,tok_s\n1,137\n8,731\n16,1106\n32,1558\n' >rates.csv
"$kvcap" calibrate serving t02-kimi-decode-bf16 --json >list.json || fail "calibrate from the list"
"$kvcap" calibrate serving t02-kimi-decode-bf16 --table rates.csv --json >table.json ||
  fail "calibrate from a table"
cmp -s list.json table.json || fail "a table and the expect list give different fits"

# The plot: same bytes twice, all four tables in it.
if command -v gnuplot >/dev/null; then
  for folder in one two; do "$kvcap" verify --plot $folder >/dev/null || fail "no plot"; done
  diff -r one two >/dev/null || fail "the same figures drawn twice differ"
  for name in "Kimi K2.6 decode on 8xH200 · BF16 KV" "Kimi K2.6 decode on 8xH200 · FP8 KV" \
    "GLM 5.2 decode on 8xH200 · FP8 weights" "GLM 5.2 decode on 8xH200 · INT4 weights"; do
    grep -q "$name" one/decode_tables.svg || fail "decode_tables.svg lacks $name"
  done
  [ "$(wc -l <one/decode_tables.csv)" -eq 39 ] || fail "decode_tables.csv has not 38 rows"
fi

finish "published figures, fits and plot are as they should be"
