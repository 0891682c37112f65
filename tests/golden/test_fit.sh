#!/usr/bin/env bash
# kvcap fit from the outside: published figures, exit statuses, the nearest change put to use.
# timeout: 300
# Options are kept in variables and split on purpose; jq programs hold dollars.
# shellcheck disable=SC2086,SC2016
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
needs jq

# fit STATUS options...: runs, keeps the document in out, checks the exit status.
fit() {
  local want=$1
  shift
  "$kvcap" fit "$@" --json > out 2> err
  local got=$?
  [ $got -eq "$want" ] || fail "fit $*: exit $got, expected $want: $(cat err)"
}

# near KEY VALUE PERCENT: a number of the last document.
near() {
  jq -e --argjson want "$2" --argjson percent "$3" \
    "($1) as \$got | ((\$got - \$want) | fabs) <= \$want * \$percent / 100" \
    out > /dev/null || fail "$1 is $(jq "$1" out), expected $2 within $3 %"
}

# is FILTER: true of the last document.
is() { jq -e "$1" out > /dev/null || fail "not so: $1 in $(jq -c . out)"; }

# refused STATUS WORDS options...: exit status and a sentence on stderr that holds WORDS.
refused() {
  local want=$1 words=$2
  shift 2
  "$kvcap" fit "$@" > out 2> err
  local got=$?
  [ $got -eq "$want" ] || fail "fit $*: exit $got, expected $want"
  grep -qF -- "$words" err || fail "fit $*: \"$words\" is not in: $(cat err)"
  [ -s out ] && fail "fit $*: stdout is not empty"
}

gib='/1073741824'

# Kimi K2.6: 686,000 and 1.37 million tokens were published.
kimi="--model kimi-k2.6 --gpu h200 --tensor 8 --memory-rule sglang --fraction 0.85 --draft-layers 1"
fit 0 $kimi --kv bf16
near .kv_tokens 684186 0.3
near ".weights_per_gpu_bytes$gib" 71.79 0.3
near ".checkpoint_bytes$gib" 554.2 0.3
near .parameters 1026.85e9 0.2
is '.fits and .failing == null and .schema == 1 and .kv_tokens == .pages * .page_size'
is '([.weights_by_class_bytes[]] | add) == .weights_per_gpu_bytes'
is '.kv_budget_bytes == .usable_bytes - .weights_per_gpu_bytes'
pages=$(jq .pages out)
fit 0 $kimi --kv fp8-e4m3
near .kv_tokens 1368372 0.3
is ".pages == 2 * $pages or .pages == 2 * $pages + 1"

# GLM 5.2: 705 and 421 GiB checkpoints, 1.18 million tokens.
fit 0 --model glm-5.2 --gpu h200 --tensor 8
near ".checkpoint_bytes$gib" 703.9 0.3
fit 0 --model glm-5.2 --gpu h200 --tensor 8 --weights routed_experts=int4-g32,default=bf16
near ".checkpoint_bytes$gib" 419.9 0.3
fit 0 --model glm-5.2 --gpu h200 --tensor 8 --kv fp8-g128 --fraction 0.882 \
  --weights routed_experts=int4-g32,default=bf16,mtp=none
near .kv_tokens 1176735 1
is '.kv_bytes_per_token == 61464'

# Llama 4 Scout: global layers only.
fit 0 --model llama-4-scout --gpu h200 --kv-budget 56GiB
near .kv_tokens 1223338 0.01
is '.over_board and .memory_rule == "fixed" and .fraction == null'

# Llama 3.1 8B under vLLM's rule: its log says 51.38 GiB.
fit 0 --model llama-3.1-8b --gpu h100 --memory-rule vllm --context 8192
near ".kv_budget_bytes$gib" 51.38 1
is '.page_size == 16 and .concurrency_max == 51'

# Three replicas of it: the bill of one, an equal share of the requests asked for in each.
fit 0 --model llama-3.1-8b --gpu h100 --memory-rule vllm --context 8192 --concurrency 153 \
  --replicas 3
is '.replicas == 3 and .concurrency_max == 51'
fit 5 --model llama-3.1-8b --gpu h100 --memory-rule vllm --context 8192 --concurrency 154 \
  --replicas 3

# Stages: the fullest decides, the even deal stands beside it.
fit 0 --model kimi-k2.5 --gpu h100 --pipeline 8 --kv-budget 3.75GiB --page-size 1
is '.kv_tokens == 436906 and .kv_tokens_balanced == 458393 and (.stages | length) == 8'

# Load: four H100 do not hold Kimi K2.6; the change offered, put at the end, does.
for fraction in "" "--fraction 0.9"; do
  fit 5 --model kimi-k2.6 --gpu h100 --tensor 4 $fraction
  is '.failing.phase == "load" and .failing.need_bytes > .failing.have_bytes'
  is '.failing as $f | $f.inequality | contains("\($f.need_bytes) B > \($f.have_bytes) B")'
  change=$(jq -r .failing.nearest_change out)
  fit 0 --model kimi-k2.6 --gpu h100 --tensor 4 $fraction $change
  is .fits
done
fit 5 --model kimi-k2.6 --gpu h100 --tensor 8 --fraction 0.9

# Growth: 64 requests of 11,240 tokens fit in FP8, not in BF16.
fit 5 $kimi --kv bf16 --context 11240 --concurrency 64
is '.failing.phase == "growth" and .failing.nearest_change == "--kv fp8-e4m3"'
fit 0 $kimi --kv bf16 --context 11240 --concurrency 64 --kv fp8-e4m3
fit 5 --model llama-3.1-8b --gpu h100 --pages 10 --page-size 16 --context 161
is '.failing.phase == "admission" and .failing.need_bytes == 11 * 16 * 131072'

# Every model and board at degrees 1 and 8: what is offered works, whatever it is.
offered=0
for model in "$KVCAP_SOURCE"/scenarios/models/*.json; do
  for gpu in "$KVCAP_SOURCE"/scenarios/gpus/*.yaml; do
    for tensor in 1 8; do
      ask="--model $(basename "$model" .json) --gpu $(basename "$gpu" .yaml) --tensor $tensor"
      "$kvcap" fit $ask --json > out 2> err
      status=$?
      [ $status -eq 0 ] && continue
      [ $status -eq 5 ] || { fail "fit $ask: exit $status: $(cat err)"; continue; }
      change=$(jq -r '.failing.nearest_change // ""' out)
      [ -n "$change" ] || continue
      offered=$((offered + 1))
      "$kvcap" fit $ask $change > /dev/null 2> err || fail "fit $ask $change: exit $?"
    done
  done
done
[ $offered -ge 20 ] || fail "only $offered changes were offered over all boards"

# From a scenario; what a scenario says is changed with --set, and so is the change spelled.
scenario=$KVCAP_SOURCE/scenarios/examples/kimi-k2.6-decode-8xh200.yaml
fit 0 "$scenario" --set pools.decode.kv.format=fp8-e4m3
near .kv_tokens 1368372 0.3
fit 0 --scenario "$scenario" --set pools.decode.kv.format=bf16
near .kv_tokens 684186 0.3
fit 5 "$scenario" --set pools.decode.gpu=h100 --set pools.decode.parallel.tensor=4
change=$(jq -r .failing.nearest_change out)
fit 0 "$scenario" --set pools.decode.gpu=h100 --set pools.decode.parallel.tensor=4 $change

# People get the same answer in words.
"$kvcap" fit $kimi --context 11240 > out 2> err || fail "the bill for people"
grep -qE '^Fits: [0-9,]+ tokens of KV \([0-9,]+ pages of 64\), 60 requests of 11,240 tokens$' \
  out || fail "no answer in: $(tail -1 out)"
"$kvcap" fit --model kimi-k2.6 --gpu h100 --tensor 4 > out 2> /dev/null
[ $? -eq 5 ] || fail "the refusal for people"
grep -q '^  --tensor 16$' out || fail "no change in: $(tail -3 out)"

# Refusals: 2 for the command line, 3 for what it says.
refused 2 "--model is missing" --gpu h100
refused 2 "--gpu is missing" --model qwen3-8b
refused 2 "did you mean --model" --modle qwen3-8b
refused 2 "--kv: expected one of" --model qwen3-8b --gpu h100 --kv fp9
refused 2 "each set the pool" --model qwen3-8b --gpu h100 --pages 5 --kv-budget 1GiB
refused 2 "does not apply when --pages" --model qwen3-8b --gpu h100 --pages 5 --fraction 0.9
refused 2 "does not apply here" --model qwen3-8b --gpu h100 --max-running 5
refused 2 "keeps one latent" --model kimi-k2 --gpu h200 --v-format bf16
refused 2 "none is given" --model qwen3-8b --gpu h100 --set seed=2
refused 2 "does not go with a scenario" "$scenario" --tensor 4
refused 2 "given twice" "$scenario" --scenario "$scenario"
refused 3 "the number of query heads" --model kimi-k2.6 --gpu h200 --tensor 3
refused 2 "the nearest name is" --model kimi-k2.7 --gpu h100
refused 3 "did you mean" --model kimi-k2.6 --gpu h200 --weights routed_expert=fp8
refused 3 "pipeline stages" --model llama-3.1-8b --gpu h100 --pipeline 33

finish "every bill is as worked out by hand"
