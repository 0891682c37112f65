#!/usr/bin/env bash
# label: soak
# timeout: 3600
# scenarios/quality/tiny-*.yaml say what `kvcap engine eval` finds on the whole held-out text: made
# again, byte for byte. The BF16 perplexity in them is that of PyTorch on the same weights within
# 0.5 % (activations are bf16 here and FP32 there), and far below that of simple byte models.
set -eu
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"

for model in tiny-gqa tiny-mla-moe; do
  kept="$source_root/scenarios/quality/$model.yaml"
  "$kvcap" engine eval "$source_root/scenarios/models/$model" --quality >again.yaml
  diff "$kept" again.yaml || fail "$model: not what $kept says"
  seen="$(sed -n 's/^# .* it is \([0-9.]*[0-9]\)\. .*/\1/p' "$kept")"
  jq -r "\"$model: perplexity $seen; PyTorch \(.nll_nats | exp), pairs of bytes \" +
    \"\(.nll_nats_bigram | exp), untrained \(.nll_nats_untrained | exp)\"" \
    "$source_root/scenarios/models/$model/reference.json"
  jq -e "($seen / (.nll_nats | exp)) as \$ratio | \$ratio > 0.995 and \$ratio < 1.005 and
    $seen < (.nll_nats_bigram | exp) / 2 and $seen < (.nll_nats_untrained | exp) / 20" \
    "$source_root/scenarios/models/$model/reference.json" >/dev/null ||
    fail "$model: far from the reference"
done
finish "made again, and near the reference"
