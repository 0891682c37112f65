#!/usr/bin/env bash
# label: ci
# timeout: 600
# The gallery: every file of scenarios/examples opens with the question that it answers, and the
# commands that it gives for the answer are run as they stand. A command may end with 1 or 5, where
# the answer is "no"; a usage error, bad input or a message of an error is a failure. Commands with
# my-trace.csv are for the reader's own.
set -u

root="${KVCAP_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
program="${KVCAP:-$root/build/release/kvcap}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"
ln -s "$(realpath "$program")" "$scratch/bin/kvcap"
ln -s "$root/scenarios" "$root/traces" "$scratch/"
failed=0
count=0

# commands FILE: those of the opening comment, one a line, continuation lines joined
commands() {
  sed -n '/^#/!q; s/^#   *\(kvcap .*\)$/\1/p; s/^#       *\(-.*\)$/\1/p' "$1" |
    sed -e ':join' -e '/\\$/{N; s/ *\\\n */ /; b join' -e '}'
}

for file in "$root"/scenarios/examples/*.yaml; do
  name="$(basename "$file")"
  if ! head -n 1 "$file" | grep -q '^# Question: '; then
    echo "$name: the first line should be \"# Question: ...\""
    failed=1
  fi
  commands "$file" >"$scratch/commands"
  if ! grep -q "scenarios/examples/$name" "$scratch/commands"; then
    echo "$name: the opening comment gives no command with this file"
    failed=1
  fi
  while read -r command; do
    case "$command" in *my-trace.csv*) continue ;; esac
    count=$((count + 1))
    (cd "$scratch" && PATH="$scratch/bin:$PATH" bash -c "$command") \
      >"$scratch/out" 2>"$scratch/err" </dev/null
    status=$?
    case "$status" in 0 | 1 | 5) [ -s "$scratch/out" ] && continue ;; esac
    echo "$name: status $status of: $command"
    cat "$scratch/err"
    failed=1
  done <"$scratch/commands"
done
echo "$count commands run"
[ "$count" -ge 20 ] || failed=1
exit "$failed"
