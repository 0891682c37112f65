#!/usr/bin/env bash
# label: ci
# timeout: 600
# kvcap plan against the whole grid on random small questions about sessions in closed loops: prefix
# caches that replicas divide, pools that evict, routers, both policies. There the rules "replicas"
# and "faster" assume most (a replica more can cost hits, a faster step changes who waits for whom),
# so what they decide is checked: the search must find the very candidate that running all of them
# finds. PLANS=N checks another number of them, FIRST=N begins with another one.
set -u

program="${KVCAP:-build/release/kvcap}"
examples="${KVCAP_SOURCE:-.}/scenarios/examples"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
failed=0 found=0 runs=0 grid=0

# pick VALUE...: one of them, to $picked; the same sequence from the same $seed
pick() {
  seed=$(((seed * 1103515245 + 12345) & 0x7fffffff))
  local at=$(((seed >> 8) % $# + 1))
  picked="${!at}"
}

# The question number $1, to the array `question`.
ask() {
  local limit
  seed=$(($1 * 7919 + 13))
  pick 6 8 10 14 18
  limit="$picked"
  pick agents sessions sessions
  if [ "$picked" = agents ]; then
    question=("$examples/glm-5.2-agents-8xh200.yaml" --set model=qwen3-32b
      --set pools.serve.weights=null --set "workload.limit=$limit" --set workload.classes=null
      --set workload.timeout=null --lost 5)
    pick 800 1500 3000
    question+=(--slo "ttft_p95_ms<=$picked")
    pick 18 25 35
  else
    question=("$examples/llama-3.1-8b-sessions.yaml" --set workload.loop=closed
      --set "workload.limit=$((2 * limit))")
    pick sglang-0.5 vllm-0.19 vllm-0.19
    question+=(--set "pools.serve.scheduler.policy=$picked")
    pick 60 150 400
    question+=(--slo "ttft_p95_ms<=$picked")
    pick 6 8 12
  fi
  question+=(--slo "tpot_p95_ms<=$picked" --set price=null)
  pick round-robin least-loaded prefix-aware session-affinity
  question+=(--set "router={policy: $picked}")
  pick 2000 6000 20000
  question+=(--set "pools.serve.memory={rule: fixed, pages: $picked}")
  pick h100,h200 h200,a100-80g h100,h200,b200
  question+=(--gpu "$picked")
  pick 1 1 1,2
  question+=(--tensor "$picked")
  pick bf16 bf16,fp8-e4m3
  question+=(--kv "$picked")
  pick checkpoint checkpoint,fp8
  question+=(--weights "$picked")
  pick 64 16,64 32,128
  question+=(--page-size "$picked")
  pick 2048 2048,8192 512,2048
  question+=(--chunk "$picked")
  pick 16,64 8,32 2,8
  question+=(--max-running "$picked")
  pick 1..3 1..4 1,2,3,4,6
  question+=(--replicas "$picked")
}

# number KEY: the number behind the last "KEY": in the document
number() { sed -n "s/^ *\"$1\": \([0-9a-z.]*\),*$/\1/p" "$scratch/plan.json" | tail -n 1; }

first="${FIRST:-1}"
for ((n = first; n < first + ${PLANS:-40}; n++)); do
  ask "$n"
  "$program" plan "${question[@]}" --exhaustive --threads 2 --json >"$scratch/plan.json" \
    2>"$scratch/why"
  if [ "$(number exhaustive_agrees)" != true ]; then
    echo "question $n: another winner: kvcap plan ${question[*]}"
    cat "$scratch/why"
    failed=1
    continue
  fi
  found=$((found + $(grep -c '^  "found": true' "$scratch/plan.json")))
  runs=$((runs + $(number runs))) grid=$((grid + $(number exhaustive_runs)))
done
echo "$found answers, $runs runs where the grids have $grid"
if [ "$found" -lt $((${PLANS:-40} / 2)) ]; then
  echo "expected that at least half of the questions have an answer"
  failed=1
fi
exit "$failed"
