#!/usr/bin/env bash
# The transcripts of README.md are what the program prints. timeout: 300
#
# A block fenced as ```console holds commands and their output:
#
#   $ kvcap fit SCENARIO \
#         --option                  a line that ends in a backslash or a bar goes on in the next
#   what the command prints, standard output and error together; paths below the tree
#   $ the next command
#
# All blocks run in order in one folder with links to the tree's scenarios/ and traces/, so that a
# later one may use a file that an earlier one wrote.
#
#   tests/golden/test_readme.sh               compares; shows the difference
#   UPDATE=1 tests/golden/test_readme.sh      rewrites the output in README.md; read the diff after
#
# From the environment: KVCAP, the program (default: build/release/kvcap); README, another file.
set -u

source_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
program="${KVCAP:-$source_root/build/release/kvcap}"
readme="${README:-$source_root/README.md}"

[ -x "$program" ] || { echo "$program is not there; build it first"; exit 1; }
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" "$scratch/folder"
ln -s "$(realpath "$program")" "$scratch/bin/kvcap"
ln -s "$source_root/scenarios" "$source_root/traces" "$scratch/folder/"

# execute COMMAND: in the common folder and a fixed environment.
execute() {
  (
    cd "$scratch/folder" || exit 99
    exec env -i PATH="$scratch/bin:/usr/bin:/bin" LC_ALL=C TZ=UTC HOME="$scratch/folder" \
      timeout 120 bash -c "$1" </dev/null 2>&1
  ) | sed "s|$source_root/||g; s/[[:space:]]*\$//"
}

inside=0 command='' count=0
: >"$scratch/README.md"
while IFS= read -r line || [ -n "$line" ]; do
  if [ "$inside" = 1 ] && [ "$line" = '```' ]; then inside=0; fi
  if [ "$inside" = 0 ] || [ -n "$command" ] || [ "${line:0:2}" = '$ ' ]; then
    printf '%s\n' "$line" >>"$scratch/README.md" # output of commands is written anew
  fi
  if [ "$line" = '```console' ]; then inside=1; fi
  [ "$inside" = 1 ] || continue
  if [ -n "$command" ]; then
    command+=$'\n'"$line"
  elif [ "${line:0:2}" = '$ ' ]; then
    command="${line:2}"
  fi
  if [ -n "$command" ] && [ "${line: -1}" != "\\" ] && [ "${line: -1}" != "|" ]; then
    count=$((count + 1))
    execute "$command" >>"$scratch/README.md"
    command=''
  fi
done <"$readme"

if [ "$count" = 0 ]; then
  echo "$readme holds no transcript: blocks are fenced as \`\`\`console, commands begin with '$ '"
  exit 1
fi
if [ "${UPDATE:-0}" = 1 ]; then
  cp "$scratch/README.md" "$readme"
  echo "$count commands run, README.md rewritten"
  exit 0
fi
diff -u --label README.md --label 'what the program prints' "$readme" "$scratch/README.md" || {
  echo "the transcripts are out of date; UPDATE=1 tests/golden/test_readme.sh rewrites them"
  exit 1
}
echo "$count commands print what the README says"
