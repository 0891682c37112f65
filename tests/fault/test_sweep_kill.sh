#!/usr/bin/env bash
# A sweep's rows depend on nothing but its question: the same digests of every table from 1, 2 and 7
# shards, on 1, 2 and 8 threads, merged in any order; and from a database whose sweep was killed
# (kill -9) at random instants 20 times and went on each time.
# label: ci
# timeout: 300
#
#   tests/fault/test_sweep_kill.sh [SEED]     KILLS=200 ROWS=4000 for a soak
set -u

kvcap="${KVCAP:?path of the program}"
source_root="${KVCAP_SOURCE:?root of the source tree}"
seed="${1:-1}"
kills="${KILLS:-20}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
RANDOM="$seed"
cd "$scratch" || exit 1

fail() { echo "FAIL (seed $seed): $*"; exit 1; }

# 6 x 4 x 4 x 2 points, some of which do not fit, and some of which contradict themselves.
question=("$source_root/scenarios/examples/llama-3.1-8b-h100.yaml"
  --set "workload.limit=${ROWS:-400}" --vary 'workload.rate=1..32*2'
  --vary 'pools.serve.scheduler.max_running=16..128*2'
  --vary 'model=llama-3.1-8b,qwen3-8b,llama-3.1-70b,mixtral-8x7b'
  --vary 'pools.serve.parallel.tensor=1,3' --figures output_tok_s)
sweep() { "$kvcap" sweep "${question[@]}" "$@" >out 2>err; }
points=192

sweep --db whole.db --threads 1 || fail "the sweep does not run: $(cat err)"
cp out whole.out
"$kvcap" db digest whole.db >expected || fail "no digest"
grep -q " point  *$points rows" expected || fail "not $points points: $(cat expected)"

# $1: a database that should hold the same rows.
same() {
  "$kvcap" db digest "$1" >seen || fail "$1 has no digest"
  cmp -s expected seen || fail "$1 differs: $(diff expected seen)"
  "$kvcap" db verify "$1" >verdict 2>&1 || fail "$(cat verdict)"
}

for threads in 1 2 8; do
  for shards in 1 2 7; do
    files=()
    for ((k = 1; k <= shards; k++)); do
      sweep --db "s$k.db" --shard "$k/$shards" --threads "$threads" || fail "$(cat err)"
      if [ $((RANDOM % 2)) -eq 0 ]; then files+=("s$k.db"); else files=("s$k.db" "${files[@]}"); fi
    done
    "$kvcap" db merge merged.db "${files[@]}" >out || fail "merge of ${files[*]}"
    same merged.db
    rm -f s?.db* merged.db*
  done
done

# What is printed does not depend on threads, nor on what was known before.
sweep --threads 8 || fail "$(cat err)"
cmp -s out whole.out || fail "8 threads print something else"
sweep --db whole.db --threads 2 || fail "$(cat err)"
cmp -s out whole.out || fail "known points print something else"

# How long the sweep takes here, its writing included.
begin="$(date +%s%N)"
sweep --db timed.db --threads 2 || fail "$(cat err)"
life_us=$((($(date +%s%N) - begin) / 1000))

killed=0 finished=0 before=0 rows=0 parts=0
for ((round = 1; killed < kills; round++)); do
  [ "$round" -le $((6 * kills)) ] || fail "$killed of $round attempts were killed"
  "$kvcap" sweep "${question[@]}" --db killed.db --threads $((1 + RANDOM % 3)) >out 2>err &
  pid=$!
  wait_us=$((life_us / 5 + (RANDOM * 32768 + RANDOM) % (life_us / 2)))
  sleep "$(printf '%d.%06d' $((wait_us / 1000000)) $((wait_us % 1000000)))"
  kill -9 "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  case "$?" in
    0) finished=$((finished + 1)) && rm -f killed.db* && before=0 && continue ;;
    137) killed=$((killed + 1)) ;;
    *) fail "the sweep ended otherwise: $(cat err)" ;;
  esac
  if ! "$kvcap" db verify killed.db >verdict 2>&1; then
    grep -q -e 'is empty' -e 'no such file' verdict && [ "$before" -eq 0 ] && continue
    fail "$(cat verdict)"
  fi
  rows="$("$kvcap" db digest killed.db | sed -n 's/.* point  *\([0-9]*\) rows/\1/p')"
  [ "${rows:-0}" -ge "$before" ] || fail "$before points were there, now ${rows:-0}"
  before="${rows:-0}"
  [ "$before" -gt 0 ] && [ "$before" -lt "$points" ] && parts=$((parts + 1))
  if [ "$before" -eq "$points" ]; then same killed.db && rm -f killed.db* && before=0; fi
done
[ "$parts" -gt 0 ] || fail "no kill left a part of the points: the test proved little"
sweep --db killed.db --threads 2 || fail "$(cat err)"
cmp -s out whole.out || fail "the sweep that was killed prints something else"
same killed.db

# Interrupted once some points are stored, it says so, keeps them, and goes on.
rm -f killed.db*
question[2]="workload.limit=4000"
"$kvcap" sweep "${question[@]}" --db killed.db --threads 2 >out 2>err &
pid=$!
rows=0
while [ "${rows:-0}" -eq 0 ] && kill -0 "$pid" 2>/dev/null; do
  rows="$("$kvcap" db digest killed.db 2>/dev/null | sed -n 's/.* point  *\([0-9]*\) rows/\1/p')"
done
kill -INT "$pid"
wait "$pid"
status=$?
[ "$status" -eq 130 ] || fail "interrupted, the sweep ended with $status: $(cat err)"
grep -q "^kvcap: interrupted after [0-9]* of $points points$" err || fail "$(cat err)"
kept="$(sed -n 's/^kvcap: interrupted after \([0-9]*\) of .*/\1/p' err)"
rows="$("$kvcap" db digest killed.db | sed -n 's/.* point  *\([0-9]*\) rows/\1/p')"
[ "$rows" = "$kept" ] || fail "$kept points finished, $rows stored"

echo "$points points alike from 1, 2, 7 shards on 1, 2, 8 threads; $killed sweeps killed," \
  "$parts of them in the middle; $finished ended first"
