#!/usr/bin/env bash
# kill -9 at random instants of `kvcap run --db`, 50 times: every acknowledged run (exit 0) is in
# the database, no run is there in part, and each has the same result as one that was left alone.
# timeout: 600
#
#   tests/fault/test_kill9.sh [SEED]     KILLS=1000 for a soak
set -u

kvcap="${KVCAP:?path of the program}"
source_root="${KVCAP_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
seed="${1:-1}"
kills="${KILLS:-50}"
scenario="$source_root/scenarios/examples/llama-3.1-8b-h100.yaml"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
database="$scratch/runs.db"
RANDOM="$seed"

fail() { echo "FAIL (seed $seed, round ${round:-0}): $*"; exit 1; }

# One run in the background, its number in $pid.
start() {
  "$kvcap" run "$scenario" --db "$database" --json >"$scratch/out" 2>"$scratch/err" &
  pid=$!
}

# Values of a key of `db info --json`, one a line.
info() { "$kvcap" db info "$database" --json | sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\).*/\1/p"; }

# A run left alone: the result to expect, and how long it takes.
begin="$(date +%s%N)"
start
wait "$pid" || fail "the scenario does not run: $(cat "$scratch/err")"
life_us=$((($(date +%s%N) - begin) / 1000))
expected="$(info result_sha256)"
rows="$(info request_rows)"
[ -n "$expected" ] || fail "no result_sha256 in db info"
[ "$rows" -gt 0 ] || fail "no request rows in db info"
rm "$database"

acknowledged=0
killed=0
for round in $(seq 1 "$kills"); do
  start
  wait_us=$(((RANDOM * 32768 + RANDOM) % (life_us * 2)))
  sleep "$(printf '%d.%06d' $((wait_us / 1000000)) $((wait_us % 1000000)))"
  kill -9 "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  status=$?
  case "$status" in
    0) acknowledged=$((acknowledged + 1)) ;;
    137) killed=$((killed + 1)) ;;
    *) fail "the run ended with status $status: $(cat "$scratch/err")" ;;
  esac
  [ -e "$database" ] || continue
  if ! verdict="$("$kvcap" db verify "$database" 2>&1)"; then
    # Killed before the first tables were made, nothing may be there yet; never later.
    case "$verdict" in
      *"is empty"*) [ "$acknowledged" -eq 0 ] && continue ;;
    esac
    fail "$verdict"
  fi
  stored="$(info id | wc -l)"
  [ "$stored" -ge "$acknowledged" ] || fail "$acknowledged runs acknowledged, $stored stored"
  [ "$stored" -le "$round" ] || fail "$stored runs stored after $round attempts"
done

for result in $(info result_sha256); do
  [ "$result" = "$expected" ] || fail "a stored run has result $result, expected $expected"
done
for count in $(info request_rows); do
  [ "$count" = "$rows" ] || fail "a stored run has $count request rows, expected $rows"
done
if command -v sqlite3 >/dev/null; then
  orphans="$(sqlite3 "$database" \
    'SELECT count(*) FROM request WHERE run_id NOT IN (SELECT id FROM run)')"
  [ "$orphans" = 0 ] || fail "$orphans request rows belong to no run"
  [ "$(sqlite3 "$database" 'PRAGMA integrity_check')" = ok ] || fail "integrity_check"
fi

# The next run goes on as if nothing had happened.
start
wait "$pid" || fail "the run after the kills failed: $(cat "$scratch/err")"
[ "$(info id | wc -l)" -gt "$acknowledged" ] || fail "the run after the kills is not there"
[ "$killed" -gt 0 ] || fail "no run was killed: the test proved nothing"
echo "$kills attempts: $killed killed, $acknowledged acknowledged, $(info id | wc -l) whole runs"
