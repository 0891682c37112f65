#!/usr/bin/env bash
# The head of the scripts in tests/golden that run the program; sourced, not run. From here on the
# script is in a folder of its own, which is gone when it ends.
#
#   kvcap, source_root   the program and the tree, as ctest names them (KVCAP, KVCAP_SOURCE)
#   scratch              the folder
#
# A script says what is wrong with `fail WORDS`, goes on, and ends with `finish WORDS`.
set -u
source_root="${KVCAP_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
# shellcheck disable=SC2034 # the scripts use it
kvcap="${KVCAP:-$source_root/build/release/kvcap}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failures=0

fail() { echo "FAIL: $*"; failures=$((failures + 1)); }

# finish WORDS: status 1 after a failure; without one the words, and status 0.
finish() {
  [ "$failures" -eq 0 ] && echo "$*"
  exit "$((failures > 0))"
}

# needs TOOL...: skips the test where one is not installed.
needs() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
  done
}

# expect STATUS PATTERN COMMAND...: exit status, and a pattern in stderr ("" = nothing on stderr).
# Leaves the files out and err.
expect() {
  local status="$1" pattern="$2" got
  shift 2
  "$@" >out 2>err
  got=$?
  [ "$got" -eq "$status" ] || fail "$*: status $got, expected $status: $(cat err)"
  if [ -z "$pattern" ]; then
    [ ! -s err ] || fail "$*: unexpected on stderr: $(cat err)"
  else
    grep -qE -- "$pattern" err || fail "$*: expected /$pattern/ on stderr: $(cat err)"
  fi
}
