#!/usr/bin/env bash
# label: ci
# timeout: 600
# kvcap plan against the whole grid, on seven questions: of at least 2,000 candidates each,
# the search must find the very one that running all of them finds, with at most 10 % of the runs.
# Every run counts, of the whole trace or of a faster one; what is run for the details of the answer
# (next units, limits) does not depend on the grid and is printed beside it.
#
#   chat     dense model, vllm, three GPUs of different price       the batch cap and chunk matter
#   large    70B, tensor degrees, formats that do and do not fit    memory decides much
#   experts  mixture of experts, three requirements                 the step model is not convex
#   agents   sglang with a radix cache, sessions in a closed loop   replicas divide the cache
#   decode   MLA model, prompts in place, a closed loop             a rate is demanded
#   tokens   the first with a price per token                       more replicas miss it
#   loop     the last with a price per token                        likewise, without arrivals
#
# Traces are short and pages large, so that ten thousand runs take seconds.
set -u

program="${KVCAP:-build/release/kvcap}"
examples="${KVCAP_SOURCE:-.}/scenarios/examples"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
failed=0

# number KEY: the number behind the last "KEY": in the document
number() { sed -n "s/^ *\"$1\": \([0-9a-z.]*\),*$/\1/p" "$scratch/plan.json" | tail -n 1; }

check() {
  local name="$1" runs all candidates agrees used
  shift
  "$program" plan "$@" --exhaustive --threads 2 --json >"$scratch/plan.json" 2>"$scratch/why"
  local status=$?
  runs="$(number runs)" all="$(number exhaustive_runs)" candidates="$(number candidates)"
  agrees="$(number exhaustive_agrees)"
  if [ "$status" != 0 ] || [ "$agrees" != true ]; then
    echo "$name: status $status, agrees: ${agrees:-unknown}"
    cat "$scratch/why"
    failed=1
    return
  fi
  used=$((1000 * runs / all))
  printf '%-8s %5d candidates, %5d runs of the whole grid, %4d of the search (%d.%d %%), %s\n' \
    "$name" "$candidates" "$all" "$runs" $((used / 10)) $((used % 10)) \
    "$(number runs_for_details) for the details"
  if [ "$all" -lt 2000 ] || [ $((10 * runs)) -gt "$all" ]; then
    echo "$name: expected at least 2000 runs of the grid, and of the search at most a tenth"
    failed=1
  fi
}

check chat "$examples/llama-3.1-8b-h100.yaml" \
  --set workload.limit=80 --set workload.rate=16 --set pools.serve.scheduler.max_model_len=16384 \
  --gpu h100,h200,a100-80g --tensor 1,2 --kv bf16,fp8-e4m3 --weights checkpoint,fp8 \
  --page-size 256 --chunk 1024,2048,8192 --max-running 16,64,256 --replicas 1..10 \
  --slo 'ttft_p95_ms<=300' --slo 'tpot_p95_ms<=16'

check large "$examples/llama-3.1-70b-fp8-2xh100.yaml" --trace conversation.csv \
  --set workload.limit=80 --set workload.rate=2 \
  --gpu h100,h200,b200 --tensor 1,2,4,8 --kv bf16,fp8-e4m3 --weights checkpoint,fp8,int4-g32 \
  --page-size 256 --chunk 2048,8192 --max-running 32,256 --replicas 1..8 \
  --slo 'ttft_p95_ms<=1000' --slo 'tpot_p95_ms<=25'

check experts "$examples/llama-3.1-8b-h100.yaml" --set model=qwen3-30b-a3b \
  --set workload.limit=80 --set workload.rate=24 --set pools.serve.scheduler.max_model_len=16384 \
  --gpu h100,h200,a100-80g,b200 --tensor 1,2,4 --kv bf16,fp8-e4m3 --weights checkpoint,fp8 \
  --page-size 256 --chunk 1024,4096 --max-running 32,128,512 --replicas 1..8 \
  --slo 'ttft_p95_ms<=400' --slo 'tpot_p95_ms<=20' --slo 'e2e_p95_ms<=15000'

check agents "$examples/glm-5.2-agents-8xh200.yaml" --set model=qwen3-32b \
  --set pools.serve.weights=null --set workload.limit=40 --set workload.classes=null \
  --set workload.timeout=null --set price=null \
  --gpu h200,h100,b200 --tensor 1,2,4 --kv bf16,fp8-e4m3 --weights checkpoint,fp8 \
  --page-size 128,256 --chunk 2048,8192 --max-running 16,64 --replicas 1..8 \
  --slo 'ttft_p95_ms<=1500' --slo 'tpot_p95_ms<=25' --lost 5

wave=(--set 'workload.closed={concurrency: 96, input: 10240, output: 60, requests: 96}'
  --set price=null
  --gpu 'h200,b200' --tensor '8,16' --kv 'bf16,fp8-e4m3' --weights 'scenario,routed_experts=fp8'
  --page-size '64,128,256' --chunk scenario --max-running '16,32,64,128' --replicas 1..12)
check decode "$examples/kimi-k2.6-decode-8xh200.yaml" "${wave[@]}" \
  --slo 'tpot_p95_ms<=25' --slo 'output_tok_s>=3500'

check tokens "$examples/llama-3.1-8b-h100.yaml" \
  --set workload.limit=80 --set workload.rate=16 --set pools.serve.scheduler.max_model_len=16384 \
  --gpu h100,h200,a100-80g --tensor 1,2 --kv bf16,fp8-e4m3 --weights checkpoint,fp8 \
  --page-size 256 --chunk 1024,2048,8192 --max-running 16,64,256 --replicas 1..10 \
  --slo 'ttft_p95_ms<=300' --slo 'tpot_p95_ms<=16' --slo 'usd_per_mtok<=0.22'

check loop "$examples/kimi-k2.6-decode-8xh200.yaml" "${wave[@]}" \
  --slo 'tpot_p95_ms<=25' --slo 'usd_per_mtok<=5'

exit "$failed"
