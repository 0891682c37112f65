#!/usr/bin/env bash
# timeout: 60
# The manual page and the completion say what --help says: every command, every option; the page
# is roff without a warning, and bash completes commands, parts, options and values.
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"

expect 0 '' "$kvcap" help --man
mv out kvcap.1
expect 0 '' "$kvcap" help --completion
mv out kvcap.bash
expect 2 'did you mean|not a command' "$kvcap" help --mann

if command -v groff >/dev/null; then
  groff -man -Tutf8 -ww -z kvcap.1 2>warnings || fail "groff refuses the page"
  [ ! -s warnings ] || fail "groff warns: $(head -n 3 warnings)"
fi

# Commands and their parts, as the overviews list them.
listed() { awk '/^  [a-z]/ && $1 != "help" { print $1 }' "$1"; }
"$kvcap" help >overview
listed overview >commands
: >names
while read -r name; do
  "$kvcap" "$name" --help >help
  if grep -q '^usage: kvcap [a-z]* PART' help; then listed help | sed "s/^/$name /" >>names
  else echo "$name" >>names; fi
done <commands
[ "$(wc -l <names)" -gt 20 ] || fail "only these commands: $(cat names)"

complete_line() { # WORDS...: what bash offers for the last of them
  COMP_WORDS=(kvcap "$@")
  # shellcheck disable=SC2034 # the completion reads it
  COMP_CWORD=$#
  COMPREPLY=()
  _kvcap
  printf '%s\n' "${COMPREPLY[@]}" | sort
}
# shellcheck disable=SC1091 # made above
. ./kvcap.bash

sed 's/\\-/-/g' kvcap.1 >plain
while read -r name; do
  # shellcheck disable=SC2086 # "db" or "trace info": words
  "$kvcap" $name --help | sed -n 's/^  --\([a-z0-9-]*\).*/--\1/p' | sort -u >options
  # shellcheck disable=SC2086
  complete_line $name -- >offered
  comm -23 options offered | grep . && fail "$name: the completion lacks these"
  awk -v head=".SS kvcap $name " 'index($0, ".SS ") == 1 { inside = index($0, head) == 1 }
    inside && /^\.BI --/ { print $2 }' plain | sort -u >paged
  comm -23 options paged | grep -v '^--help$' && fail "$name: the page lacks these"
done <names

is() { # EXPECTED WORDS...
  local expected="$1" got
  shift
  got="$(complete_line "$@" | tr '\n' ' ')"
  [ "$got" = "$expected " ] || fail "completion of \"$*\": $got, expected $expected"
}
is 'run' ru
is "$(sort commands | tr '\n' ' ' | sed 's/ $//')" ''
is 'info' trace inf
is '--replicas' fit --rep
is 'all none sampled' run --rows ''
is 'wall' engine run --clock = w
is 'virtual wall' engine run --clock =
is '' run 'scen'
is '' run --trace ''
finish "the manual page and the completion hold what --help says"
