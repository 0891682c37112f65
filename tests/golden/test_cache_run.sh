#!/usr/bin/env bash
# Prompt caching, end to end, on the shipped agents: hit rates against what an infinite cache would
# find (worked out here), tenants that do not share, classes and tenants in the database, faults
# that the page tags catch. timeout: 300
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
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

# ---- the shipped agents ----

# What an infinite cache of 64-token pages would find: leading ids of a row that an earlier row led
# with, 512 tokens each, but never the last token of the prompt.
ceiling="$(awk -F, 'NR > 1 {
    n = split($NF, id, " "); path = ""; lead = 1; hit = 0
    for (i = 1; i <= n; i++) {
      path = path " " id[i]
      if (lead && (path in seen)) hit = i; else lead = 0
      seen[path] = 1
    }
    tokens = hit * 512; if (tokens > $2 - 1) tokens = int(($2 - 1) / 64) * 64
    found += tokens; all += $2
  } END { printf "%.6f", found / all }' "$source_root/traces/samples/agents.csv")"
for policy in vllm-0.19 sglang-0.5; do
  run plenty.json "${plain[@]}" pools.serve.scheduler.policy=$policy \
    'pools.serve.memory={rule: fixed, pages: 400000}'
  true_that "$policy, plenty of pages" plenty.json \
    "(.prefix_cache.hit_token_ratio - $ceiling) | . > -0.005 and . < 0.0000005"
  true_that "$policy, plenty of pages" plenty.json '.prefix_cache.pages_evicted == 0'
  run tight.json "${plain[@]}" pools.serve.scheduler.policy=$policy \
    'pools.serve.memory={rule: fixed, pages: 4000}'
  true_that "$policy, few pages" tight.json \
    ".prefix_cache.hit_token_ratio < 0.9 * $ceiling and .prefix_cache.pages_evicted > 1000"
  run off.json "${plain[@]}" pools.serve.scheduler.policy=$policy pools.serve.kv.prefix_cache=false
  true_that "$policy, no cache" off.json '.prefix_cache.hit_token_ratio == null'
  paste -d' ' <(jq .ttft_ms.mean plenty.json) <(jq .ttft_ms.mean off.json) |
    awk '{ exit !($1 < $2 / 2) }' || fail "$policy: the cache does not halve the mean TTFT"
  # No two sessions share: what is left is what a session finds of its own.
  run alone.json "${plain[@]}" pools.serve.scheduler.policy=$policy workload.tenants=session \
    'pools.serve.memory={rule: fixed, pages: 400000}'
  paste -d' ' <(jq .prefix_cache.cached_tokens alone.json) \
    <(jq .prefix_cache.cached_tokens plenty.json) |
    awk '{ exit !($1 < $2 && $1 > 0) }' || fail "$policy: tenants share, or find nothing"
  run shared.json "${plain[@]}" pools.serve.scheduler.policy=$policy workload.tenants=session \
    pools.serve.kv.share_tenants=true 'pools.serve.memory={rule: fixed, pages: 400000}'
  [ "$(jq .prefix_cache.cached_tokens shared.json)" = \
    "$(jq .prefix_cache.cached_tokens plenty.json)" ] ||
    fail "$policy: share_tenants does not share"
done

# ---- classes and tenants, in the database ----

"$kvcap" run "$agents" --db --json >classes.json || fail "run with classes"
"$kvcap" db verify kvcap.db >verdict || fail "verify: $(cat verdict)"
for way in class tenant; do
  seen="$(sqlite3 kvcap.db "SELECT group_concat(requests_total || '/' || output_tokens) FROM
    (SELECT * FROM run_group WHERE kind = '$way' ORDER BY number)")"
  rows="$(sqlite3 kvcap.db "SELECT group_concat(n || '/' || o) FROM (SELECT count(*) AS n,
    sum(output_tokens) AS o FROM request GROUP BY $way ORDER BY $way)")"
  if [ -z "$seen" ] || [ "$seen" != "$rows" ]; then fail "by $way: groups say $seen, rows $rows"; fi
done
true_that classes classes.json '(.classes | length) == 2 and (.tenants | length) == 2'
true_that classes classes.json '.jain_index > 0.9 and .jain_index <= 1'

# ---- faults in pages ----

for policy in vllm-0.19 sglang-0.5; do
  faults=("${plain[@]}" "pools.serve.scheduler.policy=$policy"
          'pools.serve.faults={kinds: all, every_steps: 3000}')
  for check in batched paranoid; do
    run $check.json "${faults[@]}" pools.serve.kv.integrity=$check
    true_that "$policy, $check" $check.json '.contaminated == 0 and .faults.victims > 10'
    true_that "$policy, $check" $check.json '.faults.aborted_by_mistake == 0'
    true_that "$policy, $check" $check.json '.reasons.integrity == .faults.aborted_before_harm'
  done
  run unchecked.json "${faults[@]}" pools.serve.kv.integrity=off
  true_that "$policy, unchecked" unchecked.json '.contaminated > 0 and .reasons.integrity == null'
done

finish "prompt caching, end to end: all as expected"
