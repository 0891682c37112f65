#!/usr/bin/env bash
# kvcap report, end to end: the files, their columns, the same bytes twice, and what it says when
# something is missing. timeout: 300
# shellcheck disable=SC2317,SC2016  # functions called by name; names that must not expand
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
examples="$source_root/scenarios/examples"
plots="$source_root/reports/plots"
needs gnuplot

"$kvcap" run "$examples/llama-3.1-8b-h100.yaml" --db runs.db >/dev/null || exit 1
"$kvcap" run "$examples/kimi-k2.6-decode-8xh200.yaml" --db runs.db >/dev/null || exit 1
"$kvcap" run "$examples/llama-3.1-8b-h100.yaml" --trace "$source_root/traces/samples/tiny.csv" \
  --set 'name=Odd, "quoted" $(touch hacked) `id` @name_{sub} <b>' --db runs.db >/dev/null || exit 1

# The newest run, twice: the same files with the same bytes.
expect 0 '' "$kvcap" report runs.db --out one
cat >wanted <<'LIST'
one/summary.csv
one/memory.csv
one/timeline.csv
one/latency.csv
one/memory.svg
one/memory.png
one/timeline.svg
one/timeline.png
one/latency.svg
one/latency.png
LIST
cmp -s wanted out || fail "unexpected list of files: $(cat out)"
expect 0 '' "$kvcap" report --db runs.db --out two
diff -r one two >/dev/null || fail "the same run drawn twice differs"
expect 0 '' "$kvcap" report runs.db --run all --out all1
expect 0 '' env LC_ALL=de_DE.UTF-8 TZ=Asia/Tokyo "$kvcap" report runs.db --run 1,2,3 --out all2
diff -r all1 all2 >/dev/null || fail "all runs drawn twice differ"
while read -r file; do
  [ -s "$file" ] || fail "$file is empty"
done <wanted
for figure in memory timeline latency; do
  [ "$(head -c 8 one/$figure.png | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] ||
    fail "$figure.png is not a PNG"
  tail -n 1 "one/$figure.svg" | grep -q '</svg>' || tail -n 2 "one/$figure.svg" |
    grep -q '</svg>' || fail "$figure.svg has no end"
  grep -q "1: Llama 3.1 8B on one H100" "all1/$figure.svg" || fail "$figure.svg lacks run 1"
  grep -q "2: Kimi K2.6 decode" "all1/$figure.svg" || fail "$figure.svg lacks run 2"
done
[ ! -e hacked ] || fail "a run's name was executed"

# The order of --run is the order of the figures.
expect 0 '' "$kvcap" report runs.db --run 2,1 --out turned --format svg
[ "$(sed -n 2p turned/memory.csv | cut -d, -f1,2)" = \
  "0,2: Kimi K2.6 decode on one 8xH200 node · FP8 KV" ] ||
  fail "run 2 is not first: $(sed -n 2p turned/memory.csv)"
[ ! -e turned/memory.png ] || fail "--format svg drew a PNG"

# Columns; six parts a run that add up to the GPU's memory; distributions from 0 to 100 %.
[ "$(head -n 1 all1/memory.csv)" = "series,label,kind,size_gib,low_gib,high_gib" ] ||
  fail "memory.csv: $(head -n 1 all1/memory.csv)"
[ "$(head -n 1 all1/timeline.csv)" = \
  "series,label,time_s,running,waiting,pages_used,kv_used_percent,held_tokens" ] ||
  fail "timeline.csv: $(head -n 1 all1/timeline.csv)"
[ "$(head -n 1 all1/latency.csv)" = "series,label,metric,latency_ms,share_percent" ] ||
  fail "latency.csv: $(head -n 1 all1/latency.csv)"
[ "$(wc -l <all1/memory.csv)" -eq 19 ] || fail "memory.csv has not 3 x 6 rows"
[ "$(wc -l <all1/summary.csv)" -eq 4 ] || fail "summary.csv has not 3 rows"
awk -F, 'NR > 1 { if ($3 == "weights") edge = 0
                  if ($5 - edge > 1e-9 || edge - $5 > 1e-9) bad = 1
                  if ($6 - $5 - $4 > 1e-9 || $5 + $4 - $6 > 1e-9) bad = 1
                  edge = $6 } END { exit bad }' all1/memory.csv || fail "memory parts do not join"
# H100: 81,559 MiB as nvidia-smi reports it.
[ "$(awk -F, '$1 == 0 && $3 == "free" { printf "%.2f", $6 }' all1/memory.csv)" = 79.65 ] ||
  fail "the bar of run 1 does not end at the H100's memory"
awk -F, 'NR > 1 { key = $1 $3
                  if (key != last && NR > 2 && share != 100) bad = 1
                  if (key != last && $5 != 0) bad = 1
                  if (key == last && ($5 < share || $4 < ms)) bad = 1
                  last = key; share = $5; ms = $4 } END { exit bad || share != 100 }' \
  all1/latency.csv || fail "a distribution does not rise from 0 to 100 %"

# Names that a shell or gnuplot would take for commands are plain names.
for folder in '-out' '|touch hacked' '<touch hacked' '$(touch hacked)' 'a b/c'\''d"e'; do
  expect 0 '' "$kvcap" report runs.db "--out=$folder"
  [ -s "./$folder/latency.png" ] || fail "no figure in $folder"
done
[ ! -e hacked ] || fail "the name of a folder was executed"

# What is wrong with the call.
expect 3 'there is no run 9; the database holds 3 runs' "$kvcap" report runs.db --run 9
expect 3 'run 1 is given twice' "$kvcap" report runs.db --run 1,1
expect 2 '"1,x" is not a list of runs' "$kvcap" report runs.db --run 1,x
expect 2 'named twice' "$kvcap" report runs.db --db runs.db
expect 2 'format' "$kvcap" report runs.db --format pdf
expect 4 'there is no such file' "$kvcap" report nowhere.db
expect 4 'needs a folder' "$kvcap" report runs.db --out runs.db
expect 4 'cannot be made' "$kvcap" report runs.db --out runs.db/x
expect 0 '' "$kvcap" report --help

# Without gnuplot: the CSV files are there, and the package is named.
mkdir empty
expect 4 'install the package gnuplot-nox' env PATH="$scratch/empty" "$kvcap" report runs.db \
  --out bare
[ -s bare/latency.csv ] || fail "without gnuplot there is no CSV"

# The scripts by themselves: too few arguments 2; missing, empty and damaged data 1.
: >nothing.csv
for figure in memory timeline latency; do
  head -n 1 "one/$figure.csv" >header.csv
  expect 2 'usage: gnuplot' gnuplot -d -c "$plots/$figure.gp"
  expect 2 'usage: gnuplot' gnuplot -d -c "$plots/$figure.gp" "one/$figure.csv"
  for data in missing.csv nothing.csv header.csv; do
    gnuplot -d -c "$plots/$figure.gp" "$data" "wrong.svg" >out 2>err </dev/null
    [ "$?" -eq 1 ] || fail "$figure.gp with $data did not end with status 1"
  done
done

finish "reports are as they should be"
