#!/usr/bin/env bash
# timeout: 120
# Models with windows: what a run takes from the pool for them is what its requests hold, no more
# requests run than fit with their windows, and `fit` says what it leaves out. Llama 4 Scout on
# eight H200: 12 layers keep every token and 36 at most 8,192 of them; one KV head of 128 per GPU
# and layer is 512 bytes a token in BF16.
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
needs jq

cat >scout.yaml <<'END'
name: Scout
model: llama-4-scout
pools:
  - name: serve
    gpu: h200
    parallel: {tensor: 8}
    kv: {page_size: 16}
    memory: {rule: vllm}
    scheduler: {policy: vllm-0.19}
workload:
  closed: {concurrency: 16, input: 1000, output: 24, requests: 16}
END
KVCAP_DATA="$source_root"
export KVCAP_DATA

# 16 requests of 1,024 tokens, 64 pages of 16 in each of 36 layers.
expect 0 '' "$kvcap" run scout.yaml --json
jq -e '(12 * 512 * 16) as $page | (16 * 36 * 1024 * 512) as $windows |
  .bounded_requests == 16 and .bounded_bytes == $windows and
  .pages == (.kv_budget_bytes / $page | floor) - ($windows / $page | ceil)' out >/dev/null ||
  fail "windows of short requests: $(jq -c '{bounded_requests, bounded_bytes, pages}' out)"

# Requests of 300,000 tokens: their windows are full, and as many run as fit with their pages.
expect 0 '' "$kvcap" run scout.yaml --json --set workload.closed.concurrency=100 \
  --set workload.closed.requests=100 --set workload.closed.input=299990 \
  --set workload.closed.output=10 --set pools.serve.role=decode
jq -e '(12 * 512 * 300000 + 36 * 512 * 8192) as $each |
  .bounded_requests == (.kv_budget_bytes / $each | floor) and
  .bounded_bytes == .bounded_requests * 36 * 512 * 8192 and
  .max_running <= .bounded_requests and .max_running >= .bounded_requests - 1' out >/dev/null ||
  fail "windows of long requests: $(jq -c '{bounded_requests, bounded_bytes, max_running}' out)"

# One more than fits is out of memory, as fit says; as many as fit are not.
long=(--set workload.closed.input=60000 --set workload.closed.output=500
  --set pools.serve.role=decode --set pools.serve.parallel.tensor=2)
expect 0 '' "$kvcap" fit scout.yaml --set pools.serve.parallel.tensor=2 --context 60500 --json
most=$(jq .concurrency_max out)
for requests in "$most" $((most + 1)); do
  expect 0 '' "$kvcap" run scout.yaml "${long[@]}" --set "workload.closed.concurrency=$requests" \
    --set "workload.closed.requests=$requests" --json
  said=$(jq '.oom != null' out)
  [ "$said" = "$([ "$requests" -gt "$most" ] && echo true || echo false)" ] ||
    fail "$requests requests where $most fit: out of memory $said"
done

# The default of 1,024 requests whose windows are more than the memory runs all the same.
expect 0 '' "$kvcap" run scout.yaml --set workload.closed=null \
  --set "workload.trace=$source_root/traces/samples/tiny.csv"
grep -q 'hold the windowed layers of 1,024 running requests' out || fail "no share: $(cat out)"
expect 0 '' "$kvcap" fit scout.yaml
grep -q 'with no request running: each takes 150,994,944 bytes of that' out ||
  fail "fit does not say what it leaves out: $(tail -n 3 out)"

# Every layer with a window: the pool charges each token, and says so.
cat >windows.json <<'END'
{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
 "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
 "max_position_embeddings": 32768, "num_local_experts": 8, "num_experts_per_tok": 2,
 "sliding_window": 64}
END
expect 0 '' "$kvcap" fit --model ./windows.json --gpu h200 --tensor 8
grep -q 'Every layer has a window' out || fail "windows are charged per token without a word"
finish "windows take what requests hold of them"
