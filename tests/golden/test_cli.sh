#!/usr/bin/env bash
# Golden tests of the command line: every folder of tests/golden/cases is one case. timeout: 300
#
#   cmd             shell script, run by bash in a folder of its own; `kvcap` is on the PATH
#   exit            expected exit status; absent: 0
#   stdout.exact    expected output, byte for byte; absent: nothing may be printed
#   stdout.glob     ... line by line, each a pattern (* ? []), a line `...` for any number of lines
#   stdout.ignore   ... not looked at (the file itself is empty)
#   stderr.*        the same for standard error
#   anything else   copied into the folder first: inputs of the case
#
# The folder also holds links to the tree's scenarios/ and traces/. The environment is fixed (locale
# C, TZ UTC, no terminal, no input). In the output only the path of the folder itself is replaced,
# by $CASE_FOLDER.
#
#   tests/golden/test_cli.sh [NAME...]             runs all cases, or those named
#   UPDATE=1 tests/golden/test_cli.sh [NAME...]    rewrites .exact and exit; read the diff after
#
# From the environment: KVCAP, the program (default: build/release/kvcap); CASES, another folder.
set -u

source_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
program="${KVCAP:-$source_root/build/release/kvcap}"
cases="${CASES:-$source_root/tests/golden/cases}"
update="${UPDATE:-0}"
failed=0
count=0

[ -x "$program" ] || { echo "$program is not there; build it first"; exit 1; }
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"
ln -s "$(realpath "$program")" "$scratch/bin/kvcap"

# Runs the case in $scratch/NAME; leaves NAME.stdout, NAME.stderr and NAME.exit beside it.
run_case() {
  local name="$1" folder="$scratch/$1" stream
  mkdir "$folder"
  find "$cases/$name" -mindepth 1 -maxdepth 1 ! -name cmd ! -name exit ! -name 'stdout.*' \
    ! -name 'stderr.*' -exec cp -r {} "$folder/" \;
  ln -s "$source_root/scenarios" "$source_root/traces" "$folder/"
  (
    cd "$folder" || exit 99
    exec env -i PATH="$scratch/bin:/usr/bin:/bin" LC_ALL=C TZ=UTC HOME="$folder" \
      timeout 60 bash "$cases/$name/cmd" </dev/null >"$folder.stdout" 2>"$folder.stderr"
  )
  echo "$?" >"$folder.exit"
  for stream in stdout stderr; do
    sed "s|$folder|\$CASE_FOLDER|g" "$folder.$stream" >"$folder.clean"
    mv "$folder.clean" "$folder.$stream"
  done
}

# glob_match PATTERN_FILE OUTPUT_FILE: true when the output matches line by line. `...` takes as few
# lines as it can; on a mismatch the last `...` takes one more.
glob_match() {
  local -a pattern output
  local p=0 o=0 star=-1 resume=0
  mapfile -t pattern <"$1"
  mapfile -t output <"$2"
  while [ "$o" -lt "${#output[@]}" ]; do
    if [ "$p" -lt "${#pattern[@]}" ] && [ "${pattern[p]}" = ... ]; then
      star=$p resume=$o p=$((p + 1))
    elif [ "$p" -lt "${#pattern[@]}" ] && glob_line "${output[o]}" "${pattern[p]}"; then
      p=$((p + 1)) o=$((o + 1))
    elif [ "$star" -ge 0 ]; then
      resume=$((resume + 1)) o=$resume p=$((star + 1))
    else
      return 1
    fi
  done
  while [ "$p" -lt "${#pattern[@]}" ] && [ "${pattern[p]}" = ... ]; do p=$((p + 1)); done
  [ "$p" -eq "${#pattern[@]}" ]
}

# shellcheck disable=SC2053 # the pattern is meant to be one
glob_line() { [[ "$1" == $2 ]]; }

# Prints what is wrong with one stream of a case, and returns 1; nothing and 0 when it is right.
check_stream() {
  local name="$1" stream="$2" actual="$scratch/$1.$2" expected="$cases/$1/$2"
  if [ -e "$expected.ignore" ]; then return 0; fi
  if [ -e "$expected.glob" ]; then
    glob_match "$expected.glob" "$actual" && return 0
    echo "$name: $stream does not match $stream.glob; expected (-) and seen (+):"
    diff -u --label "$stream.glob" --label seen "$expected.glob" "$actual"
    return 1
  fi
  if [ "$update" = 1 ]; then
    if [ -s "$actual" ]; then cp "$actual" "$expected.exact"; else rm -f "$expected.exact"; fi
    return 0
  fi
  if [ ! -e "$expected.exact" ]; then expected=/dev/null; else expected="$expected.exact"; fi
  cmp -s "$expected" "$actual" && return 0
  echo "$name: $stream differs; expected (-) and seen (+):"
  diff -u --label "$stream.exact" --label seen "$expected" "$actual"
  return 1
}

check_exit() {
  local name="$1" seen expected=0
  seen="$(cat "$scratch/$name.exit")"
  if [ "$update" = 1 ]; then
    if [ "$seen" = 0 ]; then rm -f "$cases/$name/exit"; else echo "$seen" >"$cases/$name/exit"; fi
    return 0
  fi
  [ -e "$cases/$name/exit" ] && expected="$(cat "$cases/$name/exit")"
  [ "$seen" = "$expected" ] && return 0
  echo "$name: exit status $seen, expected $expected"
  return 1
}

names=("$@")
if [ "${#names[@]}" -eq 0 ]; then
  for folder in "$cases"/*/; do names+=("$(basename "$folder")"); done
fi
for name in "${names[@]}"; do
  [ -f "$cases/$name/cmd" ] || { echo "$name: no file cmd in $cases/$name"; failed=1; continue; }
  count=$((count + 1))
  run_case "$name"
  check_exit "$name" || failed=1
  check_stream "$name" stdout || failed=1
  check_stream "$name" stderr || failed=1
done
if [ "$count" -eq 0 ]; then echo "no cases in $cases"; exit 1; fi
echo "$count cases run"
exit "$failed"
