#!/usr/bin/env bash
# timeout: 300
# The engine and odd input: keys of a config.json that change the computation are honoured or
# refused by name; tensors that nobody reads are counted; what a device's kernels do not take is bad
# input; work for hours is refused with its size; a reader that goes away ends the program.
set -eu

program="${KVCAP:-build/release/kvcap}"
source_root="${KVCAP_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
build="${KVCAP_BUILD:-$source_root/build/release}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "$*"
  cat "$scratch/out" "$scratch/err"
  exit 1
}

# expect STATUS WORDS COMMAND...: nothing on standard output after a refusal.
expect() {
  local status=$1 words=$2 got=0
  shift 2
  "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || got=$?
  [ "$got" = "$status" ] || fail "$*: status $got, not $status"
  [ -z "$words" ] || grep -qF -- "$words" "$scratch/err" || fail "$*: does not say $words"
  [ "$status" -lt 2 ] || [ ! -s "$scratch/out" ] || fail "$*: printed something"
  [ "$status" -lt 2 ] || [ "$(wc -l <"$scratch/err")" = 1 ] || fail "$*: more than one sentence"
}

answer=(--prompt 'In the beginning' --generate 12)

# copy MODEL: into $scratch/model
copy() {
  mkdir -p "$scratch/model"
  cp "$source_root/scenarios/models/$1"/{config.json,model.safetensors} "$scratch/model/"
}

# with FILTER: the config that jq makes of the model's own.
with() {
  jq "$1" "$source_root/scenarios/models/$model/config.json" >"$scratch/model/config.json"
}

# ---- keys ----

model='tiny-gqa'
copy "$model"
"$program" engine run --model tiny-gqa "${answer[@]}" >"$scratch/plain"

# The same base in the place where transformers 5 has it, and another one.
with 'del(.rope_theta) | .rope_parameters = {rope_theta: 10000.0, rope_type: "default"}'
"$program" engine run --model "$scratch/model" "${answer[@]}" >"$scratch/other"
cmp "$scratch/plain" "$scratch/other"
with 'del(.rope_theta) | .rope_parameters = {rope_theta: 30.0, rope_type: "default"}'
"$program" engine run --model "$scratch/model" "${answer[@]}" >"$scratch/other"
! cmp -s "$scratch/plain" "$scratch/other" || fail "rope_parameters.rope_theta is not read"

for key in '.hidden_act = "gelu":"hidden_act" is "gelu"' \
  '.attention_bias = true:"attention_bias" is true' '.mlp_bias = true:"mlp_bias" is true' \
  '.sliding_window = 64:"sliding_window" is 64 and in use' \
  '.rope_scaling = {rope_type: "linear", factor: 2}:"rope_scaling" has type "linear"' \
  '.rope_scaling = {factor: 2}:"rope_scaling.factor" is a key' \
  '.partial_rotary_factor = 0.5:"partial_rotary_factor"' '.head_dim = 512:"head_dim" is 512'; do
  with "${key%%:\"*}"
  expect 3 "$scratch/model/config.json" "$program" engine run --model "$scratch/model" \
    "${answer[@]}"
  expect 3 "\"${key#*:\"}" "$program" engine eval "$scratch/model" --bytes 300
done

# An untied model said to be tied has a head that nobody reads.
with '.tie_word_embeddings = true'
expect 0 '1 of the' "$program" engine run --model "$scratch/model" "${answer[@]}"
grep -qF 'the first is "lm_head.weight"' "$scratch/err" || fail "the unused head is not named"
expect 0 '' "$program" engine eval "$scratch/model" --bytes 300 --kv bf16
[ "$(grep -c 'belong to no layer' "$scratch/err")" = 1 ] || fail "eval: not one note"

model='tiny-mla-moe'
copy "$model"
for key in '.n_group = 3:"n_group" is 3' '.n_group = 4 | .topk_group = 5:"topk_group" is 5' \
  '.scoring_func = "other":"scoring_func" is "other"' \
  'del(.topk_method):"topk_method" is missing'; do
  with "${key%%:\"*}"
  expect 3 "\"${key#*:\"}" "$program" engine run --model "$scratch/model" "${answer[@]}"
done

# ---- a device's kernels ----

if [ -e "$build/tests/kvcap_emu.so" ]; then
  export KVCAP_MODULE="$build/tests/kvcap_emu.so"
  starved="$source_root/scenarios/examples/llama-3.1-8b-starved.yaml"
  tiny=(--device cuda --set workload.limit=1)
  expect 3 'pages of 8 tokens' "$program" engine run "$starved" "${tiny[@]}" \
    --set pools.serve.kv.page_size=8
  expect 3 'is to be mxfp4' "$program" engine rank "$source_root/tests/gpu/tiny-rank.json" \
    --tensor 2 --weights routed_experts=mxfp4
  expect 3 'router=int4-g32' "$program" engine rank "$source_root/tests/gpu/tiny-rank.json" \
    --tensor 1 --weights router=int4-g32
  expect 2 'from 0 to 4294967295' "$program" engine rank "$source_root/tests/gpu/tiny-rank.json" \
    --tensor 1 --pages 5000000000
  KVCAP_EMU_MIB=1 expect 1 '' "$program" engine check --device cuda
  grep -q 'FAILED memory .*no room' "$scratch/out" || fail "why the check failed is not said"
  unset KVCAP_MODULE
fi

# ---- hours ----

# One request of 1,000 + 200 tokens of Llama 3.1 8B, by its shapes: 2 operations for each of the
# parameters that are not the embedding, 4 for each pair, head and element of it.
printf 'timestamp,input_tokens,output_tokens\n0,1000,200\n' >"$scratch/one.csv"
want="$(awk 'BEGIN {
  h = 4096; layer = h * (h + 2 * 1024 + h) + 3 * h * 14336 + 2 * h
  token = 2 * (32 * layer + h + 128256 * h)
  printf "%.0f", (1200 * token + 1200 * 1201 / 2 * 4 * 32 * 32 * 128) / 1e12 }')"
expect 8 "the run is $want TFLOP" "$program" engine run \
  "$source_root/scenarios/examples/llama-3.1-8b-h100.yaml" --trace "$scratch/one.csv" \
  --shapes scenario --limit-tflop 2
expect 2 '--limit-tflop' "$program" engine run --model tiny-gqa "${answer[@]}" --limit-tflop 2

expect 2 '0, or a number from 0.001' "$program" engine run --model tiny-gqa "${answer[@]}" \
  --temperature 1e-30

# A context of a billion tokens costs what the prompt's length does. (Sanitizers want all there is.)
space=262144
! grep -q '^KC_SANITIZE:STRING=.' "$build/CMakeCache.txt" 2>/dev/null || space=unlimited
model='tiny-gqa'
copy "$model"
with '.max_position_embeddings = 1000000000'
(ulimit -v "$space" && "$program" engine run --model "$scratch/model" "${answer[@]}" --threads 1) \
  >"$scratch/other"
cmp "$scratch/plain" "$scratch/other"

# ---- nobody waits, nobody reads ----

now() { date +%s%N; }

# A prompt of 2,048 tokens through 200 million parameters is one step of a minute and more: it ends
# soon after a signal, in the weights as in the step.
jq -n '{model_type: "llama", hidden_size: 1024, intermediate_size: 4096, num_hidden_layers: 12,
  num_attention_heads: 16, num_key_value_heads: 4, vocab_size: 4096, head_dim: 64,
  max_position_embeddings: 16384, torch_dtype: "bfloat16"}' >"$scratch/large.json"
printf 'timestamp,input_tokens,output_tokens\n0,2048,4\n' >"$scratch/one.csv"
for after in 0.3 6; do
  got=0
  begin=$(now)
  timeout --signal=INT "$after" "$program" engine run --shapes scenario --threads 1 \
    --trace "$scratch/one.csv" --set "model=$scratch/large.json" \
    "$source_root/scenarios/examples/llama-3.1-8b-starved.yaml" \
    --set pools.serve.memory.pages=200 >"$scratch/out" 2>"$scratch/err" || got=$?
  [ "$got" = 124 ] || fail "interrupted after $after s: status $got"
  grep -q 'kvcap: interrupted' "$scratch/err" || fail "interrupted after $after s: not said"
  [ $(($(now) - begin)) -lt 20000000000 ] || fail "interrupted after $after s: not soon"
done
long=(--prompt 'In the beginning' --generate 490 --threads 1)
begin=$(now)
"$program" engine run --model tiny-gqa "${long[@]}" >/dev/null
whole=$(($(now) - begin))
begin=$(now)
"$program" engine run --model tiny-gqa "${long[@]}" | head -c 1 >/dev/null
cut=$(($(now) - begin))
[ $((3 * cut)) -lt "$whole" ] ||
  { echo "a closed pipe did not end the answer: $cut of $whole ns"; exit 1; }
expect 4 'standard output could not be written' \
  bash -c "'$program' engine run --model tiny-gqa --prompt In --generate 9 >/dev/full"
