#!/usr/bin/env bash
# Numbers that nobody stores, in every numeric column of every table: negative, the largest,
# infinite, nothing, text; one damage at a time, read through every command that reads a database.
# Any status is right but an assertion (134), a crash (139) and no end (124): what a file says is
# checked where it is read. KVCAP_SOAK=1 takes every damage, otherwise every other column gets one.
# timeout: 120
set -u

kvcap="${KVCAP:?path of the program}"
source_root="${KVCAP_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failures=0
soak="${KVCAP_SOAK:-0}"

# Pictures are not the question, so gnuplot draws nothing here.
mkdir bin
printf '#!/bin/sh\nexit 0\n' >bin/gnuplot
chmod +x bin/gnuplot
PATH="$scratch/bin:$PATH"

# Two runs, a sweep, a sweep of precisions, a plan.
scenario="$source_root/scenarios/examples/llama-3.1-8b-h100.yaml"
tiny="$source_root/traces/samples/tiny.csv"
cp "$scenario" s.yaml
for seed in 1 2; do
  "$kvcap" run s.yaml --trace "$tiny" --set seed=$seed --db good.db >/dev/null 2>&1
done
"$kvcap" sweep s.yaml --trace "$tiny" --vary workload.rate=1,2 \
  --vary pools.serve.parallel.tensor=1,3 --db good.db >/dev/null 2>&1
"$kvcap" plan s.yaml --trace "$tiny" --gpu h100,h200 --tensor 1 --replicas 1,2 --db good.db \
  >/dev/null 2>&1
[ "$(sqlite3 good.db 'SELECT (SELECT count(*) FROM run) + (SELECT count(*) FROM plan)')" = 3 ] ||
  { echo "the database to be damaged is not what it should be"; exit 1; }
plan="$(sqlite3 good.db 'SELECT sweep_id FROM plan')"
sweep="$(sqlite3 good.db "SELECT id FROM sweep WHERE id <> $plan")"
cp good.db other.db

# survives WHAT COMMAND...: runs it.
survives() {
  local what="$1" got
  shift
  timeout 20 "$kvcap" "$@" >out 2>err
  got=$?
  case $got in
    124 | 134 | 139)
      echo "FAIL: $what: $*: status $got: $(head -c 300 err)"
      failures=$((failures + 1)) ;;
  esac
}

# read_all WHAT TABLE: the commands that read the table.
read_all() {
  rm -rf merged.db figures
  case "$2" in
    sweep | point* | plan*)
      survives "$1" report bad.db --sweep "$sweep" --html page.html
      case "$2" in
        plan*) survives "$1" report bad.db --sweep "$plan" --html page.html ;;
        *) survives "$1" report bad.db --sweep "$sweep" --out figures --format svg ;;
      esac
      survives "$1" db merge merged.db other.db bad.db ;;
    *)
      survives "$1" compare bad.db:1 bad.db:2
      survives "$1" report bad.db --run all --html page.html
      [ "$2" = request ] || survives "$1" report bad.db --run 1,2 --out figures --format svg ;;
  esac
  survives "$1" db info bad.db
  survives "$1" db verify bad.db
}

sqlite3 good.db "SELECT m.name, c.name, c.type FROM sqlite_schema AS m, pragma_table_info(m.name) c
  WHERE m.type = 'table' AND c.type IN ('INTEGER', 'REAL') ORDER BY 1, c.cid" >columns
number=0 damages=0
while IFS='|' read -r table column type; do
  number=$((number + 1))
  values=(-1 9223372036854775807 NULL "'text'" 1)
  [ "$type" = REAL ] && values=(-1.5 9e999 -9e999 NULL 1e300)
  for i in "${!values[@]}"; do
    # Every other column gets one of them, another one than the one before.
    [ "$soak" = 1 ] || { [ $((number % 2)) = 0 ] && [ "$i" -eq $((number / 2 % 3)) ]; } || continue
    cp good.db bad.db
    # Refused by the table itself, or not: both are fine.
    sqlite3 bad.db "PRAGMA synchronous = OFF; PRAGMA ignore_check_constraints = ON;
      UPDATE OR IGNORE $table SET $column = ${values[i]} WHERE rowid IN
        (SELECT min(rowid) FROM $table)" >/dev/null 2>&1 ||
      sqlite3 bad.db "PRAGMA synchronous = OFF; PRAGMA ignore_check_constraints = ON;
        UPDATE OR IGNORE $table SET $column = ${values[i]}" >/dev/null 2>&1 || continue
    cmp -s good.db bad.db && continue
    damages=$((damages + 1))
    read_all "$table.$column = ${values[i]}" "$table"
  done
done <columns

# Bytes changed anywhere, from one seed.
flips=4
[ "$soak" = 0 ] || flips=1000
bytes=$(stat -c %s good.db) state=12345
for ((i = 0; i < flips; i++)); do
  cp good.db bad.db
  for ((k = 0; k < 3; k++)); do
    state=$(((state * 1103515245 + 12345) % 2147483648))
    # shellcheck disable=SC2059 # the byte itself
    printf "\\x$(printf %02x $((state / 7 % 256)))" |
      dd of=bad.db bs=1 seek=$((state / 3 % bytes)) conv=notrunc status=none
  done
  read_all "flip $i" run
  read_all "flip $i" point
  read_all "flip $i" plan
done

[ "$damages" -ge 40 ] || { echo "FAIL: only $damages damages"; failures=$((failures + 1)); }

# What is named when it is found.
# names STATUS PATTERN SQL COMMAND...
names() {
  local status="$1" pattern="$2" sql="$3" got
  shift 3
  cp good.db bad.db
  sqlite3 bad.db "PRAGMA ignore_check_constraints = ON; $sql"
  "$kvcap" "$@" >out 2>err
  got=$?
  [ "$got" -eq "$status" ] && [ "$(wc -l <err)" -eq 1 ] && grep -qE -- "$pattern" err && return
  echo "FAIL: $sql: $*: status $got: $(head -c 400 err)"
  failures=$((failures + 1))
}
names 4 'table request, request 0: it has an end before its arrival' \
  'UPDATE request SET end_ps = arrival_ps - 1 WHERE request = 0 AND arrival_ps > 0;
   UPDATE request SET arrival_ps = end_ps + 1 WHERE request = 0 AND run_id = 1' \
  compare bad.db:1 bad.db:2
where="table point_figure, sweep_id $sweep, number 0, figure output_tok_s"
names 4 "$where: column value holds" \
  "UPDATE point_figure SET value = 9e999 WHERE figure = 'output_tok_s' AND number = 0" \
  report bad.db --sweep "$sweep" --html page.html
names 4 'table run, id 2: column max_running holds -1, expected a whole number' \
  'UPDATE run SET max_running = -1 WHERE id = 2' report bad.db --html page.html

[ "$failures" = 0 ] || exit 1
echo "$damages damaged databases were read, and nothing fell over"
