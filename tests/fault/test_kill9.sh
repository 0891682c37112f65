#!/usr/bin/env bash
# kill -9 at random instants of `kvcap run --db`, until 50 runs were really killed: every
# acknowledged run (exit 0) is in the database, no run is there in part, and each has the same
# result as one that was left alone.
# timeout: 600
#
#   tests/fault/test_kill9.sh [SEED]     KILLS=1000 for a soak
#
# The workload has many short requests, so that most of a run's time goes into writing its rows. To
# tell where a kill struck, the process is stopped first and its lock looked up in /proc/locks:
#
#   0 ........ simulation ........ | ....... transaction ....... | .. print, close .. exit
#   killed before                    during (holds the lock)       after (the run is there)
set -u

kvcap="${KVCAP:?path of the program}"
seed="${1:-1}"
kills="${KILLS:-50}"
life_wanted_us=700000 # of one run
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
database="$scratch/runs.db"
base="$scratch/base.db" # one whole run, without request rows: quick to verify
RANDOM="$seed"

fail() { echo "FAIL (seed $seed, round ${round:-0}): $*"; exit 1; }

# A scenario of $1 requests.
write_scenario() {
  cat >"$scratch/scenario.yaml" <<END
name: many short requests
model: llama-3.1-8b
pools:
  - name: serve
    gpu: h100
    kv: {format: bf16, page_size: 16}
    memory: {rule: vllm, fraction: 0.9}
    scheduler: {policy: vllm-0.19}
workload:
  closed: {concurrency: 256, requests: $1, input: 16, output: 1}
seed: 1
END
}

# One run in the background, its number in $pid.
start() {
  "$kvcap" run "$scratch/scenario.yaml" --db "$database" --json >"$scratch/out" \
    2>"$scratch/err" &
  pid=$!
}

# How long a run takes here and now, in $life_us.
measure() {
  local begin
  rm -f "$database"*
  begin="$(date +%s%N)"
  start
  wait "$pid" || fail "the scenario does not run: $(cat "$scratch/err")"
  life_us=$((($(date +%s%N) - begin) / 1000))
}

# Values of a key of `db info --json`, one a line.
info() { "$kvcap" db info "$database" --json | sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\).*/\1/p"; }

# Does process $1 hold SQLite's write lock in WAL mode (byte 120 of the -shm file), or, while the
# first tables are made, any write lock on the database?
holds_lock() {
  local kind access pid first
  while read -r _ _ kind access pid _ first _; do
    [ "$kind $access $pid" = "ADVISORY WRITE $1" ] && [ "$first" != 128 ] && return 0
  done </proc/locks
  return 1
}

# Every stored run whole and right, none in part. $base_runs of them came with the file.
check() {
  local verdict result count number=0 wanted
  [ -e "$database" ] || return 0
  if ! verdict="$("$kvcap" db verify "$database" 2>&1)"; then
    # Killed before the first tables were made, nothing may be there yet; never later.
    case "$verdict" in
      *"is empty"*) [ "$acknowledged" -eq 0 ] && return 0 ;;
    esac
    fail "$verdict"
  fi
  stored="$(info id | wc -l)"
  for result in $(info result_sha256); do
    [ "$result" = "$expected" ] || fail "a stored run has result $result, expected $expected"
  done
  for count in $(info request_rows); do
    number=$((number + 1)) wanted="$requests"
    [ "$number" -gt "$base_runs" ] || wanted=0
    [ "$count" = "$wanted" ] || fail "run $number has $count request rows, not $wanted"
  done
}

# A run left alone: the result to expect, and how long it takes; then as many requests as fill the
# time wanted on this machine.
requests=100000
write_scenario "$requests"
measure
requests=$((requests * life_wanted_us / life_us))
[ "$requests" -ge 2000 ] || requests=2000
[ "$requests" -le 400000 ] || requests=400000
write_scenario "$requests"
measure
expected="$(info result_sha256)"
[ -n "$expected" ] || fail "no result_sha256 in db info"
acknowledged=1 base_runs=0
check
[ "$stored" -eq 1 ] || fail "$stored runs after one"
"$kvcap" run "$scratch/scenario.yaml" --db "$base" --rows none >"$scratch/out" 2>&1 ||
  fail "the scenario does not run: $(cat "$scratch/out")"

killed=0 before=0 during=0 after=0 finished=0
can_tell=no
[ -r /proc/locks ] && can_tell=yes
for ((round = 1; killed < kills; round++)); do
  [ "$round" -le $((4 * kills)) ] || fail "$killed of $round attempts were killed"
  # A small file to start from, and now and then none at all: verifying stays quick.
  rm -f "$database"*
  base_runs=0
  if [ $((round % 5)) -ne 0 ]; then
    cp "$base" "$database"
    base_runs=1
  fi
  acknowledged="$base_runs" stored="$base_runs"
  start
  wait_us=$(((RANDOM * 32768 + RANDOM) % life_us))
  sleep "$(printf '%d.%06d' $((wait_us / 1000000)) $((wait_us % 1000000)))"
  kill -STOP "$pid" 2>/dev/null
  locked=no
  [ "$can_tell" = yes ] && holds_lock "$pid" && locked=yes
  kill -9 "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  status=$?
  case "$status" in
    # How long a run lasts moves with what else the machine does: the span of the kills follows.
    0) acknowledged=$((acknowledged + 1)) finished=$((finished + 1)) life_us=$((life_us * 7 / 8)) ;;
    137) killed=$((killed + 1)) life_us=$((life_us * 21 / 20)) ;;
    *) fail "the run ended with status $status: $(cat "$scratch/err")" ;;
  esac
  check
  [ "$stored" -ge "$acknowledged" ] || fail "$acknowledged runs acknowledged, $stored stored"
  [ "$stored" -le $((base_runs + 1)) ] || fail "$stored runs stored after $base_runs and one"
  [ "$status" -eq 137 ] || continue
  if [ "$stored" -gt "$base_runs" ]; then
    after=$((after + 1))
  elif [ "$locked" = yes ]; then
    during=$((during + 1))
  else
    before=$((before + 1))
  fi
done

if command -v sqlite3 >/dev/null && [ -e "$database" ]; then
  tables="$(sqlite3 "$database" "SELECT count(*) FROM sqlite_schema WHERE name = 'request'")"
  [ "$tables" = 0 ] || orphans="$(sqlite3 "$database" \
    'SELECT count(*) FROM request WHERE run_id NOT IN (SELECT id FROM run)')"
  [ "${orphans:-0}" = 0 ] || fail "$orphans request rows belong to no run"
  [ "$(sqlite3 "$database" 'PRAGMA integrity_check')" = ok ] || fail "integrity_check"
fi

# The next run goes on as if nothing had happened.
start
wait "$pid" || fail "the run after the kills failed: $(cat "$scratch/err")"
former="$stored"
check
[ "$stored" -eq $((former + 1)) ] || fail "the run after the kills is not there"
if [ "$can_tell" = yes ]; then
  [ "$during" -gt 0 ] || fail "no run was killed in its transaction: the test proved little"
  where="$before before the transaction, $during in it, $after after it"
else
  where="$after after the transaction, the others before or in it"
fi
echo "$killed runs of $requests requests killed ($where);" \
  "$finished of $((round - 1)) attempts ended first"
