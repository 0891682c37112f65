#!/usr/bin/env bash
# kvcap trace synth and trace plot, end to end: the same bytes twice, files that the program reads
# back, options that do not apply, figures drawn twice, and the list of public traces.
# timeout: 300
# shellcheck disable=SC2317  # functions called by name
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
plots="$source_root/reports/plots"

synth() { "$kvcap" trace synth "$@"; }
# rows FILE: as `trace info` counts them.
rows() { "$kvcap" trace info "$1" --json 2>/dev/null | jq '.traces[0].rows'; }

# By rate, in three formats.
expect 0 '500 rows' synth rate.csv --requests 500 --rate 2.5 --preset code
[ "$(rows rate.csv)" = 500 ] || fail "rate.csv has $(rows rate.csv) rows"
expect 0 '500 rows' synth again.csv --requests 500 --rate 2.5 --preset code
cmp -s rate.csv again.csv || fail "equal options give other bytes"
expect 0 '500 rows' synth other.csv --requests 500 --rate 2.5 --preset code --seed 2
cmp -s rate.csv other.csv && fail "another seed gives the same bytes"
for format in azure vidur; do
  expect 0 '500 rows' synth "$format.csv" --requests 500 --rate 2.5 --preset code --to "$format"
  [ "$(rows "$format.csv")" = 500 ] || fail "$format.csv has $(rows "$format.csv") rows"
done
expect 0 '3 rows' synth - --requests 3 --arrivals constant --rate 4 --input 10 --output 2
printf "arrival_ps,input_tokens,output_tokens\n0,10,2\n250000000000,10,2\n500000000000,10,2\n" \
  >wanted
cmp -s out wanted || fail "three requests a quarter of a second apart: $(cat out)"
expect 0 'rows over' synth week.csv --duration 7d --rate 0.02 --arrivals weibull --shape 0.5 \
  --diurnal 0.8 --weekend 0.3 --burst-every 12h --burst-length 5min --burst-factor 20

# Lengths from a histogram.
printf 'input_tokens,output_tokens,weight\n7,3,2\n9,1,5\n' >pairs
expect 0 '100 rows' synth pairs.csv --requests 100 --lengths pairs
[ "$(cut -d, -f2,3 pairs.csv | sed 1d | sort -u | tr '\n' ' ')" = "7,3 9,1 " ] || fail "pairs.csv"
expect 0 '40 rows' synth alike.csv --requests 40 --rate 9 --lengths-like pairs.csv
[ "$(cut -d, -f2,3 alike.csv | sed 1d | sort -u | tr '\n' ' ')" = "7,3 9,1 " ] || fail "alike.csv"
printf 'input_tokens,output_tokens,weight\n7,3,x\n' >pairs
expect 3 'pairs:2:5: .*whole number' synth bad.csv --lengths pairs
[ ! -e bad.csv ] || fail "a failed command left a file"

# Sessions, and a look-alike of them.
expect 0 '800 rows' synth agents.csv --preset agent --requests 800 --rate 0.2 --think 5s
"$kvcap" trace info agents.csv --json >info.json 2>/dev/null
jq -e '.traces[0].sessions.count > 0' info.json >/dev/null || fail "no sessions in $(cat info.json)"
expect 2 'no place' synth agents-azure.csv --preset agent --requests 10 --to azure
expect 0 'sessions of agents.csv are not modelled' synth like.csv --like agents.csv --seed 3
grep -q 'median input tokens: [0-9]*, the source [0-9]*$' err || fail "no comparison: $(cat err)"
[ "$(rows like.csv)" = 800 ] || fail "like.csv has $(rows like.csv) rows"
expect 0 '50 rows' synth short.csv --like rate.csv --requests 50

# A pool of one client.
mkdir pool
printf '0,2,1.5,Gamma,0.44,1\n600,0,0,,0,0\n' >pool/chunk-3-trace.csv
printf '{"0": {"input_tokens": "{20: 1.0}", "output_tokens": "{4: 1.0}"}}' \
  >pool/chunk-3-dataset.json
printf '0,1,1,Gamma,1,1\n' >pool/chunk-4-trace.csv
expect 0 '1 of 2 clients left out' synth pool.csv --servegen pool
[ "$(rows pool.csv)" -gt 900 ] || fail "pool.csv has $(rows pool.csv) rows"
printf '0,2,1.5,Pareto,0.44,1\n' >pool/chunk-3-trace.csv
expect 3 'chunk-3-trace.csv:1:9: .*family' synth pool.csv --servegen pool

# Options that do not go together.
expect 2 '--rate does not apply to --like' synth x.csv --like rate.csv --rate 3
expect 2 '--think does not apply to --servegen' synth x.csv --servegen pool --think 3s
expect 2 '--from does not apply' synth x.csv --from 3s
expect 2 'two sources' synth x.csv --like rate.csv --servegen pool
expect 2 'need --shape or --cv' synth x.csv --arrivals gamma
expect 2 'for --arrivals gamma or weibull' synth x.csv --cv 2
expect 2 'from 0.0001 to 10000' synth x.csv --arrivals gamma --shape 0.00001
expect 2 'go together' synth x.csv --input 3
expect 2 'come from one of' synth x.csv --preset code --input 3 --output 4
expect 2 'conversation, code, reasoning or agent' synth x.csv --preset chat
expect 2 'bursts need --burst-every' synth x.csv --burst-factor 2
expect 2 'would mix' synth - --json
expect 4 'none/x.csv' synth none/x.csv
expect 8 '106 days' synth x.csv --rate 0.000001 --requests 100

# Figures, twice; prefix reuse only where there are ids.
if command -v gnuplot >/dev/null; then
  expect 0 '' "$kvcap" trace plot agents.csv --out one
  expect 0 '' env LC_ALL=de_DE.UTF-8 TZ=Asia/Tokyo "$kvcap" trace plot agents.csv --out two
  diff -r one two >/dev/null || fail "the same trace drawn twice differs"
  for figure in arrivals lengths reuse; do
    for kind in csv svg png; do
      [ -s "one/trace_$figure.$kind" ] || fail "trace_$figure.$kind is empty or missing"
    done
    head -1 "one/trace_$figure.csv" >"$figure-empty.csv"
    gnuplot -d -c "$plots/trace_$figure.gp" "$figure-empty.csv" x.svg >/dev/null 2>&1
    [ $? -eq 1 ] || fail "trace_$figure.gp without data does not end with 1"
    gnuplot -d -c "$plots/trace_$figure.gp" >/dev/null 2>&1
    [ $? -eq 2 ] || fail "trace_$figure.gp without arguments does not end with 2"
  done
  expect 0 'reuse is unknown' "$kvcap" trace plot rate.csv --out plain --figure-format svg
  [ ! -e plain/trace_reuse.svg ] || fail "reuse was drawn for a trace without ids"
  [ ! -e plain/trace_lengths.png ] || fail "PNG was drawn though only SVG was asked for"
  printf 'arrived_at,num_prefill_tokens,num_decode_tokens\n5.0,7,7\n' >one.csv
  expect 0 'earliest arrival moved to 0' \
    "$kvcap" trace plot one.csv --out single --figure-format svg
fi

# The list of public traces needs no network.
expect 0 '' bash "$source_root/traces/fetch.sh" --list
grep -q 'sha256 [0-9a-f]\{64\}$' out || fail "fetch.sh --list shows no digests"
expect 2 'GROUP' bash "$source_root/traces/fetch.sh"

finish "all as expected"
