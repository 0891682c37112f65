#!/usr/bin/env bash
# Prompt caching on the public traces: the hit rate rises with the pages given and never passes what
# an infinite cache finds (Mooncake conversation 37.4 % of tokens, Weka coding sessions 92.3 %);
# with plenty of pages it comes within 0.5 points (1 point) of it.
# label: ci
# timeout: 600
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
shared="${KVCAP_SHARED:-}"
[ -n "$shared" ] || { echo "skipped: KVCAP_SHARED is not set"; exit 77; }
agents="$source_root/scenarios/examples/glm-5.2-agents-8xh200.yaml"

# true_that WHAT FILE JQ-CONDITION
true_that() {
  [ "$(jq "$3" "$2")" = true ] || fail "$1: $3 is $(jq -c "$3" "$2")"
}
run() { # OUT SET...
  local out="$1" arguments=()
  shift
  for set in "$@"; do arguments+=(--set "$set"); done
  "$kvcap" run "$agents" "${arguments[@]}" --json >"$out" || fail "run $* exits with $?"
}
plain=(workload.classes=null workload.tenants=one workload.timeout=null
       pools.serve.scheduler.queue_limit=0)

mooncake="$shared/traces/mooncake/conversation_trace.jsonl"
for policy in vllm-0.19 sglang-0.5; do
  before=0
  for pages in 20000 100000 400000 8000000; do
    run mooncake.json "${plain[@]}" model=llama-3.1-70b pools.serve.weights=null \
      pools.serve.kv.format=bf16 pools.serve.kv.page_size=16 \
      pools.serve.scheduler.policy=$policy "workload.trace=$mooncake" workload.loop=open \
      "pools.serve.memory={rule: fixed, pages: $pages}"
    true_that "Mooncake, $policy, $pages pages" mooncake.json \
      ".prefix_cache.hit_token_ratio | . > $before and . <= 0.374"
    before="$(jq .prefix_cache.hit_token_ratio mooncake.json)"
  done
  true_that "Mooncake, $policy, plenty" mooncake.json '.prefix_cache.hit_token_ratio > 0.369'
  run weka.json "${plain[@]}" pools.serve.scheduler.policy=$policy workload.idle_cap=60s \
    "workload.trace=$shared/traces/weka-claude-code/traces" \
    'pools.serve.memory={rule: fixed, pages: 400000}'
  true_that "Weka, $policy, plenty" weka.json \
    '.prefix_cache.hit_token_ratio > 0.913 and .prefix_cache.hit_token_ratio <= 0.923'
done

finish "hit rates of the public traces: all as expected"
