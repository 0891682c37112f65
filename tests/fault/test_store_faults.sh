#!/usr/bin/env bash
# Databases that are not what they should be, through the program: exit status 4 and one sentence
# that says what is wrong, for writing (run --db) and reading (db verify, db info, report); a result
# that cannot be stored is printed all the same. And several runs at once on one file.
# timeout: 300
# shellcheck disable=SC2317  # functions called by name, through expect and trap
set -u

kvcap="${KVCAP:?path of the program}"
source_root="${KVCAP_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
scenario="$source_root/scenarios/examples/llama-3.1-8b-h100.yaml"
tiny="$source_root/traces/samples/tiny.csv"
scratch="$(mktemp -d)"
mounted=""
cleanup() { [ -z "$mounted" ] || umount "$mounted"; chmod -R u+rwx "$scratch"; rm -rf "$scratch"; }
trap cleanup EXIT
chmod 755 "$scratch"
failures=0

# says PATTERN: in the last command's stderr; an empty pattern wants no stderr at all.
says() {
  if [ -z "$1" ]; then [ ! -s "$scratch/err" ]; else grep -qE -- "$1" "$scratch/err"; fi
}
# expect STATUS PATTERN COMMAND...: exit status, and a pattern in what it says on stderr.
expect() {
  local status="$1" pattern="$2" got
  shift 2
  "$@" >"$scratch/out" 2>"$scratch/err"
  got=$?
  if [ "$got" -ne "$status" ] || ! says "$pattern"; then
    echo "FAIL: $*"
    echo "  expected status $status and /$pattern/, got $got and: $(cat "$scratch/err")"
    failures=$((failures + 1))
  elif [ "$status" -ne 0 ] && [ "$(wc -l <"$scratch/err")" -ne 1 ]; then
    echo "FAIL: $*: more than one line: $(cat "$scratch/err")"
    failures=$((failures + 1))
  fi
}
store() { "$kvcap" run "$scenario" --trace "$tiny" --db "$1" --json; }
refused() { # refused PATTERN FILE: by writers and readers alike
  expect 4 "$1" store "$2"
  expect 4 "$1" "$kvcap" db verify "$2"
  expect 4 "$1" "$kvcap" db info "$2"
  expect 4 "$1" "$kvcap" report "$2" --out "$scratch/report"
}
skipped() { echo "skipped: $*"; }
problem() { echo "FAIL: $*"; failures=$((failures + 1)); }
# The last command's stdout must be what the run prints without a database.
printed() {
  "$kvcap" run "$@" --json >"$scratch/unstored"
  cmp -s "$scratch/out" "$scratch/unstored" || problem "run $*: the result was not printed whole"
}

expect 0 'kvcap: note: stored as run 1 of .*/good.db$' store "$scratch/good.db"
printed "$scenario" --trace "$tiny"
expect 0 'kvcap: note: stored as run 2 of .*/good.db$' store "$scratch/good.db"
expect 0 '' "$kvcap" db verify "$scratch/good.db"

# What the file is.
head -c 5000 "$source_root/scenarios/examples/llama-3.1-8b-h100.yaml" >"$scratch/text.db"
cp "$scratch/text.db" "$scratch/text.copy"
refused 'text.db: the file is not a results database' "$scratch/text.db"
cmp -s "$scratch/text.db" "$scratch/text.copy" || { echo "FAIL: text.db was changed"; failures=1; }
printf 'hello' >"$scratch/short.db"
refused 'short.db: the file has 5 bytes' "$scratch/short.db"
[ "$(cat "$scratch/short.db")" = hello ] || { echo "FAIL: short.db was changed"; failures=1; }
size="$(stat -c %s "$scratch/good.db")"
head -c $((size / 2)) "$scratch/good.db" >"$scratch/half.db"
refused 'half.db: the database is damaged or cut off' "$scratch/half.db"
mkdir "$scratch/folder.db"
refused 'folder.db: .*this is a folder' "$scratch/folder.db"
: >"$scratch/empty.db"
expect 4 'empty.db: the database is empty' "$kvcap" db info "$scratch/empty.db"
expect 0 'stored as run 1 of' store "$scratch/empty.db"
expect 4 'the folder for the database does not exist' store "$scratch/none/x.db"
expect 4 'there is no such file' "$kvcap" db verify "$scratch/none.db"

# Changed by hand, the schema of another time, another program's file.
if command -v sqlite3 >/dev/null; then
  cp "$scratch/good.db" "$scratch/future.db"
  sqlite3 "$scratch/future.db" 'PRAGMA user_version = 99'
  refused 'future.db: the database has schema 99, written by a newer kvcap' "$scratch/future.db"
  sqlite3 "$scratch/notes.db" 'CREATE TABLE notes (text)'
  refused 'notes.db: the database belongs to another program' "$scratch/notes.db"
  cp "$scratch/good.db" "$scratch/edited.db"
  sqlite3 "$scratch/edited.db" 'UPDATE request SET end_ps = end_ps + 1
    WHERE run_id = 2 AND sequence = 0'
  expect 4 'the rows of run 2 give result_sha256' "$kvcap" db verify "$scratch/edited.db"
  cp "$scratch/good.db" "$scratch/orphan.db"
  sqlite3 "$scratch/orphan.db" 'DELETE FROM host; DELETE FROM timeline; DELETE FROM histogram;
    DELETE FROM run WHERE id = 1'
  "$kvcap" db verify "$scratch/orphan.db" 2>&1 | grep -q 'rows of table request belong to no run' ||
    { echo "FAIL: orphans were not found"; failures=1; }

  # Figures changed by hand, where no request was kept one by one.
  "$kvcap" run "$scenario" --rows none --db "$scratch/none-kept.db" >"$scratch/out" 2>&1
  expect 0 '' "$kvcap" db verify "$scratch/none-kept.db"
  for column in tpot_p99_ps itl_p50_ps output_tokens e2e_max_ps; do
    cp "$scratch/none-kept.db" "$scratch/edited.db"
    sqlite3 "$scratch/edited.db" "UPDATE run SET $column = $column + 1"
    "$kvcap" db verify "$scratch/edited.db" 2>&1 | grep -q "$column" ||
      problem "a change of $column was not found"
  done

  # A name that is not UTF-8.
  cp "$scratch/good.db" "$scratch/name.db"
  sqlite3 "$scratch/name.db" "UPDATE run SET name = CAST(x'41ff42' AS TEXT)"
  expect 0 '' "$kvcap" db info "$scratch/name.db" --json
  grep -q '"name": "A?B"' "$scratch/out" || problem "db info --json: $(cat "$scratch/out")"
  expect 0 '' "$kvcap" db info "$scratch/name.db"
  grep -q 'A?B$' "$scratch/out" || problem "db info: $(cat "$scratch/out")"

  # Another writer holds the database for longer than 15 s; readers are not held up.
  cp "$scratch/good.db" "$scratch/busy.db"
  mkfifo "$scratch/hold"
  sqlite3 "$scratch/busy.db" <"$scratch/hold" >"$scratch/holding" &
  holder=$!
  exec 9>"$scratch/hold"
  echo "BEGIN IMMEDIATE; SELECT 'held';" >&9
  for _ in $(seq 100); do grep -q held "$scratch/holding" && break; sleep 0.1; done
  begin="$(date +%s)"
  expect 4 'busy.db: another program has held the database for more than 15 s' store \
    "$scratch/busy.db"
  printed "$scenario" --trace "$tiny"
  [ $(($(date +%s) - begin)) -ge 14 ] || { echo "FAIL: it did not wait"; failures=1; }
  expect 0 '' "$kvcap" db verify "$scratch/busy.db"
  exec 9>&-
  wait "$holder"
  expect 0 'stored as run 3 of' store "$scratch/busy.db"
else
  skipped "sqlite3 is not installed: schema, foreign file, edits, lock"
fi

# Names are not cut: what differs may come last.
long_name="$(printf 'many words %.0s' 1 2 3 4 5 6 7 8 9)"
for last in one two; do
  "$kvcap" run "$scenario" --trace "$tiny" --set "name=$long_name$last" --db "$scratch/names.db" \
    >"$scratch/out" 2>&1
done
expect 0 '' "$kvcap" db info "$scratch/names.db"
[ "$(grep -cE 'words (one|two)( |$)' "$scratch/out")" -eq 2 ] ||
  problem "db info hides the end of names: $(cat "$scratch/out")"

# Six runs at once make one new file: all must get in. The instants are those of the machine; the
# unit tests go through them one by one.
for round in 1 2 3 4 5 6 7 8 9 10; do
  rm -f "$scratch/new.db"*
  at_once=()
  for _ in 1 2 3 4 5 6; do
    store "$scratch/new.db" >/dev/null 2>>"$scratch/new.err" &
    at_once+=($!)
  done
  for child in "${at_once[@]}"; do
    wait "$child" || problem "round $round: $(grep -v note: "$scratch/new.err")"
  done
  [ "$("$kvcap" db info "$scratch/new.db" --json | grep -c '"id":')" -eq 6 ] ||
    problem "round $round: six runs at once, not all stored"
done

# Two long runs at once: one is stopped in its middle, and the other begins and ends meanwhile.
cp "$scratch/good.db" "$scratch/two.db"
"$kvcap" run "$source_root/scenarios/examples/llama-3.1-70b-fp8-2xh100.yaml" \
  --set workload.closed.requests=150000 --rows none --db "$scratch/two.db" --json \
  >"$scratch/long.out" 2>"$scratch/long.err" &
long=$!
for _ in $(seq 200); do [ -e "$scratch/two.db-wal" ] && break; sleep 0.01; done
sleep 0.05
kill -STOP "$long"
expect 0 'stored as run 3 of' store "$scratch/two.db"
kill -CONT "$long"
wait "$long" || problem "the stopped run: $(cat "$scratch/long.err")"
grep -q 'stored as run 4 of' "$scratch/long.err" || problem "it was not the last to end"
expect 0 '' "$kvcap" db verify "$scratch/two.db"

# Permissions, as somebody who is not root.
plain=()
if [ "$(id -u)" -eq 0 ]; then
  plain=(setpriv --reuid 65534 --regid 65534 --clear-groups)
fi
if [ "$(id -u)" -ne 0 ] || "${plain[@]}" test -x "$kvcap" 2>/dev/null; then
  as_plain_store() { "${plain[@]}" "$kvcap" run "$scenario" --trace "$tiny" --db "$1" --json; }
  mkdir "$scratch/locked"
  cp "$scratch/good.db" "$scratch/locked/runs.db"
  chmod 444 "$scratch/locked/runs.db"
  chmod 555 "$scratch/locked"
  expect 4 'runs.db: the database cannot be written' as_plain_store "$scratch/locked/runs.db"
  expect 4 'new.db: the database cannot be opened' as_plain_store "$scratch/locked/new.db"
  expect 0 '' "${plain[@]}" "$kvcap" db verify "$scratch/locked/runs.db"
  chmod 000 "$scratch/locked/runs.db"
  expect 4 'runs.db: the database cannot be opened' "${plain[@]}" "$kvcap" db verify \
    "$scratch/locked/runs.db"
else
  skipped "the program cannot be run as another user: permissions"
fi

# A disk of 1 MiB: runs go in until it is full, then each is refused and the earlier ones stay.
mkdir "$scratch/disk"
if mount -t tmpfs -o size=1m tmpfs "$scratch/disk" 2>/dev/null; then
  mounted="$scratch/disk"
  whole=0
  while "$kvcap" run "$scenario" --db "$scratch/disk/runs.db" >/dev/null 2>"$scratch/err"; do
    whole=$((whole + 1))
    [ "$whole" -lt 100 ] || { echo "FAIL: 1 MiB holds 100 runs?"; failures=1; break; }
  done
  [ "$whole" -ge 1 ] || { echo "FAIL: not one run fits: $(cat "$scratch/err")"; failures=1; }
  expect 4 'runs.db: the disk is full while storing run [0-9]+, which needs at least [0-9]+ bytes' \
    "$kvcap" run "$scenario" --db "$scratch/disk/runs.db" --json
  printed "$scenario"
  expect 0 '' "$kvcap" db verify "$scratch/disk/runs.db"
  [ "$("$kvcap" db info "$scratch/disk/runs.db" --json | grep -c '"id":')" -eq "$whole" ] ||
    { echo "FAIL: the earlier runs are not intact"; failures=1; }
else
  skipped "no permission to mount a small disk: disk full"
fi

[ "$failures" -eq 0 ] && echo "all refused as they should be"
exit "$((failures > 0))"
