#!/usr/bin/env bash
# Where trace commands write: an input is never overwritten, a link is followed, a pipe is written
# to, a folder with a pipe in it does not hang, and no part of a file is left behind.
set -eu

kvcap="${KVCAP:?set KVCAP to the program}"
sample="${KVCAP_SOURCE:?set KVCAP_SOURCE to the source tree}/traces/samples/tiny.csv"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$sample" one.csv

refused() { # WORDS COMMAND...: exit 2, and a sentence with the words
  local words="$1" status=0
  shift
  "$@" >/dev/null 2>said || status=$?
  if [ "$status" != 2 ] || ! grep -q "$words" said; then
    echo "not refused: $*"
    cat said
    exit 1
  fi
}

refused "is also an input" "$kvcap" trace convert one.csv ./one.csv
refused "is also an input" "$kvcap" trace anonymise one.csv one.csv
refused "is also an input" "$kvcap" trace synth one.csv --like one.csv
cmp one.csv "$sample"

mkdir folder
cp one.csv folder/a.csv
refused "in the folder that is read" "$kvcap" trace convert folder folder/b.csv
mkfifo folder/pipe.csv
timeout 10 "$kvcap" trace info folder >/dev/null

mkdir target
echo old >target/real.csv
ln -s target/real.csv link.csv
"$kvcap" trace convert one.csv link.csv --to azure 2>/dev/null
if [ ! -L link.csv ] || ! grep -q TIMESTAMP target/real.csv; then
  echo "the link was replaced"
  exit 1
fi

mkfifo pipe
cat pipe >through &
"$kvcap" trace convert one.csv pipe --to azure 2>/dev/null
wait
if [ ! -p pipe ] || ! cmp through target/real.csv; then
  echo "the pipe was replaced"
  exit 1
fi

# Nobody reads on: no complaint, no claim. A full disk is one.
"$kvcap" trace synth many.csv --rate 1000 --requests 20000 2>/dev/null
for command in "convert many.csv -" "convert many.csv - --to vidur" "anonymise many.csv -" \
  "synth - --rate 1000 --requests 20000"; do
  # shellcheck disable=SC2086 # words
  { "$kvcap" trace $command 2>said && status=0 || status=$?; echo "$status" >status; } |
    head -n 1 >first
  if [ "$(cat status)" != 0 ] || grep -q "written\|disk" said || [ ! -s first ]; then
    echo "closed pipe: trace $command: exit $(cat status)"
    cat said
    exit 1
  fi
done
if [ -w /dev/full ]; then
  status=0
  "$kvcap" trace convert many.csv - >/dev/full 2>said || status=$?
  if [ "$status" != 4 ] || ! grep -q "No space left\|could not be written" said; then
    echo "full standard output: exit $status"
    cat said
    exit 1
  fi
fi

echo precious >out.csv.partial
"$kvcap" trace convert one.csv out.csv 2>/dev/null
[ "$(cat out.csv.partial)" = precious ] || { echo "another file was overwritten"; exit 1; }

# Interrupted while it writes: the old file stands, nothing lies beside it.
echo old >big.csv
"$kvcap" trace synth big.csv --rate 1000000 --requests 6000000 2>/dev/null &
synth=$!
while kill -0 "$synth" 2>/dev/null && ! compgen -G 'big.csv.*' >/dev/null; do sleep 0.02; done
kill -TERM "$synth" 2>/dev/null || true
status=0
wait "$synth" || status=$?
if [ "$status" = 130 ]; then
  [ "$(cat big.csv)" = old ] || { echo "an interrupted run replaced its output"; exit 1; }
fi
if compgen -G 'big.csv.*' >/dev/null; then echo "a part was left behind"; exit 1; fi
echo "outputs are safe (the interrupted run ended with $status)"
