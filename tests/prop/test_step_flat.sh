#!/usr/bin/env bash
# label: ci
# timeout: 600
# The instructions of a step, page grants apart, are the same within 20 % from batch 8 to 4,096.
# Counted by callgrind: the difference between waves of 2,000 and of 1,000 steps is 1,000 steps.
set -u
bench="$KVCAP_BUILD/bench/bench_step"
command -v valgrind >/dev/null || { echo "valgrind is not installed"; exit 77; }
[ -x "$bench" ] || { echo "bench_step is not built"; exit 77; }
"$bench" 8 10 4096 || exit 1

count() # BATCH STEPS PAGE_SIZE [POLICY] -> instructions
{
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bench" "$@" 2>&1 |
    awk '/Collected/ {print $4}'
}

probe=$(count 8 10 4096)
[ -n "$probe" ] || { echo "callgrind does not run this build"; exit 77; }
# measure [POLICY]: vllm-0.19 unless named
measure()
{
  local low="" high="" batch short long paged_short paged_long step grant
  for batch in 8 64 512 4096; do
    short=$(count $batch 1000 4096 "$@")
    long=$(count $batch 2000 4096 "$@")
    paged_short=$(count $batch 1000 16 "$@")
    paged_long=$(count $batch 2000 16 "$@")
    step=$(( (long - short) / 1000 ))
    grant=$(( ((paged_long - paged_short) - (long - short)) * 16 / (1000 * batch) ))
    echo "${1:-vllm-0.19}, batch $batch: $step instructions a step, $grant more a page grant"
    if [ -z "$low" ] || [ $step -lt $low ]; then low=$step; fi
    if [ -z "$high" ] || [ $step -gt $high ]; then high=$step; fi
  done
  echo "from $low to $high instructions a step"
  [ $(( high * 100 )) -le $(( low * 120 )) ] || { echo "not flat within 20 %"; exit 1; }
}

measure
measure sglang-0.5
