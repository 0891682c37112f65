#!/usr/bin/env bash
# kvcap report --sweep: the published headline as figure and table, files and bytes, regions, where
# memory ends and the peaks held against the points themselves, and what is wrong with a call.
# timeout: 180
# shellcheck disable=SC2016  # awk's and SQL's own signs
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
published="$source_root/scenarios/published"
plots="$source_root/reports/plots"
needs gnuplot

# The headline as reports/README.md says it, then a map, then a sweep without prices or contexts.
sed -n '/^    kvcap sweep .*t04-kimi-gain/,/^$/s/^    //p' "$source_root/reports/README.md" \
  >headline.sh
sed -i "s#^kvcap#'$kvcap'#; s#scenarios/published#'$published'#" headline.sh
bash headline.sh >/dev/null 2>&1 || fail "the command of reports/README.md: $(cat headline.sh)"
[ -s headline/sweep_gain.png ] || fail "no headline from $(cat headline.sh)"
gain="$published/t04-kimi-gain.yaml"
bf16='BF16: pools.decode.kv.format=bf16; pools.decode.profile=sglang-0.5-kimi-bf16-published'
fp8='FP8, "e4m3": pools.decode.kv.format=fp8-e4m3;
 pools.decode.profile=sglang-0.5-kimi-fp8-published'
"$kvcap" sweep "$gain" --case "$bf16" --case "$(tr -d '\n' <<<"$fp8")" \
  --vary workload.closed.input=4096,10240,40000 --vary workload.closed.concurrency=8,64,128 \
  --db map.db >/dev/null 2>&1 || fail "the map's sweep"
"$kvcap" sweep "$gain" --set price=null --vary pools.decode.kv.format=bf16,fp8-e4m3 --db map.db \
  >/dev/null 2>&1 || fail "the plain sweep"

# ---- the published headline ----
column() { awk -F, -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i; next }
                                 { print $c }' "$1" | tail -n 1; }
peak=headline/sweep_peak.csv
[ "$(wc -l <$peak)" -eq 3 ] || fail "sweep_peak.csv: $(cat $peak)"
awk -v more="$(column $peak output_change_percent)" -v cost="$(column $peak cost_change_percent)" \
  'BEGIN { exit !(more > 38.7 && more < 42.7 && cost > -30.9 && cost < -26.9) }' ||
  fail "not +40.7 % and -28.9 %, each within 2 points: $(cat $peak)"
for pair in "2 largest_load 32.0" "3 largest_load 64.0" "2 requests_fit 60.0" "3 requests_fit 121.0"
do
  read -r line name value <<<"$pair"
  [ "$(sed -n "1p;${line}p" $peak | column /dev/stdin "$name")" = "$value" ] ||
    fail "$name of series $((line - 2)) is not $value: $(cat $peak)"
done

# ---- files and bytes ----
expect 0 '' "$kvcap" report map.db --sweep 1 --out one
{ for name in points peak map frontier pareto cost memory gain; do echo "one/sweep_$name.csv"; done
  for name in peak map frontier pareto cost memory gain; do
    echo "one/sweep_$name.svg"
    echo "one/sweep_$name.png"
  done; } >wanted
cmp -s wanted out || fail "unexpected list of files: $(cat out)"
expect 0 '' env LC_ALL=de_DE.UTF-8 TZ=Asia/Tokyo "$kvcap" report map.db --sweep 1 --out two
diff -r one two >/dev/null || fail "the same sweep drawn twice differs"
while read -r file; do [ -s "$file" ] || fail "$file is empty"; done <wanted
for svg in one/*.svg; do
  grep -q 'BF16' "$svg" || fail "$svg lacks the first series"
  grep -q "FP8 · 'e4m3'" "$svg" || fail "$svg lacks the second series, or mangles its name"
done

# ---- what they say, against the points themselves ----
sqlite3 -csv map.db "SELECT number, max(iif(figure = 'oom', value, 0)),
  max(iif(figure = 'preemptions', value, 0)), max(iif(figure = 'max_waiting', value, 0)),
  max(iif(figure = 'max_running', value, 0)), max(iif(figure = 'kv_tokens', value, 0))
  FROM point_figure WHERE sweep_id = 1 GROUP BY number ORDER BY number" >points
# 18 points: case, then input, then concurrency; every request is one of the concurrency's.
awk -F, 'BEGIN { split("4096 10240 40000", input, " "); split("8 64 128", load, " ") }
  { i = int($1 / 3) % 3 + 1; l = $1 % 3 + 1
    region = $3 > 0.05 * load[l] ? "thrashing" : $2 > 0 ? "oom" : "safe"
    if (region == "safe" && $4 > 0.25 * $5) region = "queueing"
    printf "%d,%d,%s,%s,%s\n", $1, $1 / 9, input[i], load[l], region }' points | sort >wanted
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
  { print $at["point"] "," $at["series"] "," $at["across"] "," $at["load"] "," $at["region"] }' \
  one/sweep_map.csv | sort >got
cmp -s wanted got || fail "regions: $(diff wanted got)"
for region in safe oom thrashing; do
  grep -q "$region" got || fail "no point is $region: the sweep shows less than it should"
done
# Where memory ends: whole pages of 64 tokens, input and 1,000 output tokens.
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
  { pages = int(($at["across"] + 1000 + 63) / 64)
    pool = ($at["series"] == 0 ? 683584 : 1367168) / 64
    if (int(pool / pages) != $at["requests_fit"]) { print; bad = 1 } } END { exit bad }' \
  one/sweep_frontier.csv || fail "where memory ends"
# No point of a context is beaten by another in both and still marked.
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
  { a[NR] = $at["across"]; u[NR] = $at["output_tok_s_user"]; g[NR] = $at["output_tok_s_gpu"]
    b[NR] = $at["best"] }
  END { for (i in a) { beaten = 0
          for (j in a) {
            if (a[j] != a[i] || u[j] < u[i] || g[j] < g[i]) continue
            if (u[j] > u[i] || g[j] > g[i]) beaten = 1
          }
          if (b[i] == beaten) exit 1 } }' one/sweep_pareto.csv || fail "the best of both"

# ---- axes, by name and by themselves ----
expect 0 '' "$kvcap" report map.db --sweep 1 --across input --load concurrency --out named
diff -r one named >/dev/null || fail "the axes that are chosen are not those of the names"
expect 0 '' "$kvcap" report map.db --sweep 1 --across concurrency --load closed.input --out turned
[ "$(sed -n 2p turned/sweep_map.csv | cut -d, -f4)" = 8 ] || fail "the axes are not turned"
expect 0 '' "$kvcap" report map.db --sweep 2 --out plain
if [ -e plain/sweep_map.csv ] || [ -e plain/sweep_cost.csv ]; then fail "a map from nowhere"; fi
[ -s plain/sweep_memory.png ] || fail "no memory bill of the plain sweep"

# Rate by context: a trace for each length of prompt.
for tokens in 1000 8000; do
  "$kvcap" trace synth "$tokens.csv" --requests 100 --rate 1 --input "$tokens" --output 250 \
    --block-tokens 0 >/dev/null 2>&1
done
cp "$source_root/scenarios/examples/llama-3.1-8b-h100.yaml" here.yaml
"$kvcap" sweep here.yaml --vary workload.trace=8000.csv,1000.csv --vary workload.rate=1/2,20,100 \
  --set pools.serve.scheduler.max_running=64 --db map.db >/dev/null 2>&1 || fail "the rates' sweep"
expect 0 '' "$kvcap" report map.db --sweep 3 --out rates
cut -d, -f4,5,7,8,9 rates/sweep_map.csv >got
cat >wanted <<'MAP'
across,across_title,load,load_title,region
1000.csv,trace,1/2,request rate (times the trace's),safe
1000.csv,trace,20,request rate (times the trace's),safe
1000.csv,trace,100,request rate (times the trace's),queueing
8000.csv,trace,1/2,request rate (times the trace's),safe
8000.csv,trace,20,request rate (times the trace's),oom
8000.csv,trace,100,request rate (times the trace's),oom
MAP
cmp -s wanted got || fail "rate by context: $(diff wanted got)"
expect 3 'has no points in this file yet' bash -c \
  "cp map.db none.db && sqlite3 none.db 'DELETE FROM point' && '$kvcap' report none.db --sweep 3"

# A table of precisions is a sweep like any other; what does not fit has no line, and no picture
# fails.
"$kvcap" precision "$gain" --weights scenario,bf16,int4-g128 --kv bf16,fp8-e4m3 \
  --concurrency 16,32 --db precisions.db >/dev/null 2>&1 || fail "precisions"
expect 0 '' "$kvcap" report precisions.db --sweep 1 --out precisions
[ "$(wc -l <precisions/sweep_peak.csv)" -eq 5 ] || fail "peaks: $(cat precisions/sweep_peak.csv)"
expect 0 '' "$kvcap" report precisions.db --sweep 1 --html precisions.html
grep -q 'Does not fit: <b>weights bf16 · KV bf16</b>, <b>weights bf16 · KV fp8-e4m3</b>' \
  precisions.html || fail "the page does not say what does not fit"

# ---- what can be drawn is drawn ----
# drawn NAME STDERR SWEEP_ARGUMENTS...: every CSV but that of the points has its picture, but for
# the one that the note STDERR names.
drawn() {
  local name="$1" note="$2" csv
  shift 2
  "$kvcap" sweep "$@" --db "$name.db" >/dev/null 2>&1 || fail "$name: the sweep"
  expect 0 "$note" "$kvcap" report "$name.db" --sweep 1 --out "$name"
  for csv in "$name"/*.csv; do
    case "$csv" in *sweep_points.csv) continue ;; esac
    [ -s "${csv%.csv}.png" ] && [ -s "${csv%.csv}.svg" ] && continue
    grep -q "note: ${csv%.csv}.svg is left out: " err || fail "$csv has no picture: $(cat err)"
  done
}
here="here.yaml --set workload.limit=20"
# shellcheck disable=SC2086  # words
{
  drawn one-point '' $here --vary pools.serve.parallel.tensor=1,3
  drawn one-of-a-row '' $here --vary pools.serve.parallel.tensor=1,3 \
    --vary pools.serve.kv.format=bf16,fp8-e4m3
  drawn no-output 'sweep_gain.png is left out: no point has output' $here \
    --set pools.serve.scheduler.max_model_len=10 --vary seed=1,2
  drawn wide-loads '' $here --vary seed=0,7,18446744073709551615
  drawn zero-load '' $here --vary seed=0 --vary pools.serve.kv.format=bf16,fp8-e4m3
  drawn many-series '' $here --vary workload.rate=1,2 \
    --vary pools.serve.scheduler.max_running=1..9
}
# Nothing fits at the first value across.
drawn first-empty '' here.yaml --set workload.limit=20 --set model=llama-3.1-70b \
  --vary pools.serve.parallel.tensor=1,4 --vary workload.rate=1,2
# Any few rows of a table make a picture, or a reason.
for figure in map frontier pareto cost memory; do
  for rows in 2 2,3 5 '$'; do
    [ -e "one/sweep_$figure.csv" ] || fail "one/sweep_$figure.csv"
    { head -n 1 "one/sweep_$figure.csv"; sed -n "2,\$p" "one/sweep_$figure.csv" |
      sed -n "${rows}p"; } >few.csv
    [ "$(wc -l <few.csv)" -gt 1 ] || continue
    gnuplot -d -c "$plots/sweep_$figure.gp" few.csv few.svg >out 2>err </dev/null ||
      fail "sweep_$figure.gp, rows $rows: status $? and $(cat err)"
  done
done

# ---- what is wrong with the call ----
expect 3 'there is no sweep 9; the database holds 3' "$kvcap" report map.db --sweep 9
expect 2 'does not vary "rate"; it varies .*workload.closed.input' \
  "$kvcap" report map.db --sweep 1 --load rate
expect 2 'are the same key' "$kvcap" report map.db --sweep 1 --load input --across input
expect 2 'name it with --sweep' "$kvcap" report map.db --across input

# The scripts by themselves: too few arguments 2; missing, empty and damaged data 1.
: >nothing.csv
for figure in peak map frontier pareto cost memory gain; do
  head -n 1 "one/sweep_$figure.csv" >header.csv
  expect 2 'usage: gnuplot' gnuplot -d -c "$plots/sweep_$figure.gp"
  for data in missing.csv nothing.csv header.csv; do
    gnuplot -d -c "$plots/sweep_$figure.gp" "$data" wrong.svg >out 2>err </dev/null
    [ "$?" -eq 1 ] || fail "sweep_$figure.gp with $data did not end with status 1"
  done
done

finish "reports of sweeps are as they should be"
