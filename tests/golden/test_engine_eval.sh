#!/usr/bin/env bash
# label: ci
# timeout: 600
# `kvcap engine eval` on the trained models: the whole grid of a piece of the held-out text, the
# same for any number of threads; FP8 KV within 0.5 % of BF16's perplexity beside every weight
# format, on this piece and by the figures that are kept of the whole text; what is stored.
set -eu
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"

for model in tiny-gqa tiny-mla-moe; do
  folder="$source_root/scenarios/models/$model"
  "$kvcap" engine eval "$folder" --bytes 1500 --threads 1 --json --db m.db |
    jq 'del(.host)' >one.json
  "$kvcap" engine eval "$folder" --bytes 1500 --threads 3 --json | jq 'del(.host)' \
    >three.json
  cmp one.json three.json || fail "$model: other figures with other threads"

  ratios="$(jq -c '[.rows | group_by(.weights)[] |
    (map(select(.kv == "fp8-e4m3"))[0].perplexity / map(select(.kv == "bf16"))[0].perplexity)]' \
    one.json)"
  echo "$model, 1500 bytes: FP8 KV $ratios of the perplexity of BF16 KV"
  jq -en "$ratios | length == 4 and all(.[]; . > 0.995 and . < 1.005)" >/dev/null ||
    fail "$model: FP8 KV beyond 0.5 % on the piece"

  kept="$(sed -n '/weights: bf16, kv: fp8-e4m3/{n;s/.*value: \([-0-9.]*\).*/\1/p}' \
    "$source_root/scenarios/quality/$model.yaml")"
  echo "$model, whole text: FP8 KV $kept % more"
  jq -en "$kept | fabs < 0.5" >/dev/null || fail "$model: FP8 KV beyond 0.5 % on the whole text"
done
stored="$(sqlite3 m.db "SELECT count(*), count(DISTINCT subject), sum(emulated)
  FROM measurement WHERE kind = 'eval' AND device = 'cpu'")"
[ "$stored" = "64|16|0" ] || fail "stored: $stored, expected 64|16|0"
finish "both models keep their perplexity with FP8 KV"
