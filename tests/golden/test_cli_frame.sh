#!/usr/bin/env bash
# The frame of the program: overview, help of every command, mistyped names, exit statuses, a full
# disk and a reader that goes away.
set -u
kvcap=${KVCAP:?set by ctest}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
failures=0

# expect NAME STATUS STDOUT_FIRST_LINE STDERR_FIRST_LINE COMMAND...
expect() {
  local name=$1 status=$2 out=$3 err=$4 got
  shift 4
  "$@" > "$work/out" 2> "$work/err"
  got=$?
  if [ "$got" != "$status" ] || [ "$(head -n 1 "$work/out")" != "$out" ] ||
    [ "$(head -n 1 "$work/err")" != "$err" ]; then
    echo "$name: status $got, expected $status"
    echo "  stdout: $(head -n 1 "$work/out")"
    echo "  stderr: $(head -n 1 "$work/err")"
    failures=$((failures + 1))
  fi
}

overview='kvcap: what fits, how many requests at once, how fast, and at what price'
expect nothing 2 '' "$overview" "$kvcap"
expect help 0 "$overview" '' "$kvcap" help
expect help-flag 0 "$overview" '' "$kvcap" --help
expect help-help 0 "$overview" '' "$kvcap" help help
# shellcheck disable=SC2016 # the backquotes are part of the message
expect near 2 '' 'kvcap: "rnu" is not a command; did you mean "run"? `kvcap help` lists them' \
  "$kvcap" rnu
# shellcheck disable=SC2016
expect far 2 '' 'kvcap: "frobnicate" is not a command; `kvcap help` lists them' "$kvcap" frobnicate
# shellcheck disable=SC2016
expect help-near 2 '' 'kvcap: "fti" is not a command; did you mean "fit"? `kvcap help` lists them' \
  "$kvcap" help fti
expect version 0 "kvcap $(cat "$KVCAP_SOURCE/VERSION")" '' "$kvcap" version
expect version-flag 0 "kvcap $(cat "$KVCAP_SOURCE/VERSION")" '' "$kvcap" --version
expect version-option 2 '' \
  'kvcap: --jsn is not an option of this command; did you mean --json?' "$kvcap" version --jsn
expect version-argument 2 '' \
  'kvcap: unexpected argument "x"; this command takes options alone' "$kvcap" version x
expect full-disk 4 '' \
  'kvcap: standard output could not be written: No space left on device; the output is incomplete' \
  bash -c "'$kvcap' version > /dev/full"
expect gone-reader 0 '' '' bash -c "set -o pipefail; '$kvcap' help | true"

printf '{\n  "schema": 1,\n  "version": "%s"\n}\n' "$(cat "$KVCAP_SOURCE/VERSION")" > "$work/want"
"$kvcap" version --json | cmp - "$work/want" || failures=$((failures + 1))

# A signal is answered with a word and 130, also where nothing is there to bring home.
# ended NAME COMMAND...: sends SIGTERM to it after a while.
ended() {
  local name=$1 child got
  shift
  "$@" > "$work/out" 2> "$work/err" < /dev/zero &
  child=$!
  sleep 0.5
  kill -TERM "$child"
  wait "$child"
  got=$?
  if [ "$got" != 130 ] || ! grep -qx 'kvcap: interrupted.*' "$work/err"; then
    echo "$name: status $got, expected 130, and: $(cat "$work/err")"
    failures=$((failures + 1))
  fi
}
ended synth "$kvcap" trace synth "$work/x.csv" --requests 20000000 --rate 1 --input 100 --output 250
ended lint "$kvcap" trace lint - --format azure
mkfifo "$work/fifo"
ended calibrate "$kvcap" calibrate kernels "$work/fifo" --gpu h100 --out "$work/x.yaml"

# Every command of the overview explains itself, both ways, with the same text.
commands=$("$kvcap" help | awk '/^  [a-z]/ && $1 != "help" {print $1}')
for command in $commands; do
  "$kvcap" help "$command" > "$work/a" 2> "$work/err" || failures=$((failures + 1))
  "$kvcap" "$command" --help > "$work/b" 2>> "$work/err" || failures=$((failures + 1))
  if ! cmp "$work/a" "$work/b" || [ -s "$work/err" ] ||
    ! head -n 1 "$work/a" | grep -q '^usage: kvcap '; then
    echo "help of $command is not what it should be"
    failures=$((failures + 1))
  fi
  if awk 'length > 100 {bad = 1} END {exit !bad}' "$work/a"; then
    echo "help of $command has lines over 100 columns"
    failures=$((failures + 1))
  fi
done
[ "$(echo "$commands" | wc -w)" -ge 5 ] || failures=$((failures + 1))

[ "$failures" = 0 ] || exit 1
echo "the frame holds"
