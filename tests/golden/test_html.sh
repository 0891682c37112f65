#!/usr/bin/env bash
# kvcap report --html: one self-contained page whose every number is the database's, with a text
# alternative for every picture, nothing from outside, and the same bytes every time. timeout: 120
# shellcheck disable=SC2016  # jq's variables
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
examples="$source_root/scenarios/examples"

"$kvcap" run "$examples/llama-3.1-8b-h100.yaml" --intervals 5 --db runs.db >/dev/null || exit 1
for format in bf16 fp8-e4m3; do
  "$kvcap" run "$examples/kimi-k2.6-decode-8xh200.yaml" --set "pools.decode.kv.format=$format" \
    --db runs.db >/dev/null || exit 1
done
"$kvcap" run "$examples/llama-3.1-8b-h100.yaml" --trace "$source_root/traces/samples/tiny.csv" \
  --set 'name=</title><script>alert("1 & 2")</script>'"'" --set 'slo=null' --set 'price=null' \
  --db runs.db >/dev/null || exit 1

"$kvcap" run "$examples/llama-3.1-70b-own-or-api.yaml" --db runs.db >/dev/null 2>&1 || exit 1
for runs in 1 2,3 1,2,3,4 4 5; do
  "$kvcap" report runs.db --run "$runs" --html "page-$runs.html" >/dev/null || fail "--run $runs"
  env LC_ALL=de_DE.UTF-8 TZ=Asia/Tokyo "$kvcap" report runs.db --run "$runs" --html again.html \
    >/dev/null
  cmp -s "page-$runs.html" again.html || fail "--run $runs: another page from the same database"
done

# Nothing from outside, no script, everything escaped, every picture with a text alternative.
check_document() {
  local page="$1" pictures titles
  grep -qiE '<script|javascript:|@import|src=|<object|<iframe|<base|url\(' "$page" &&
    fail "$page: a script or a reference"
  grep -oE '(href|xlink:href)="[^"]*"' "$page" | grep -vxE 'href="(#trust|data:,)"' &&
    fail "$page: a link to elsewhere"
  grep -oE 'https?://[^"< ]*' "$page" && fail "$page: an address"
  pictures="$(grep -c '<svg[^>]* role="img" aria-labelledby="p[0-9]*-t p[0-9]*-d">' "$page")"
  titles="$(grep -cE '<title id="p[0-9]+-t">[^<]+</title><desc id="p[0-9]+-d">[^<]+' "$page")"
  if [ "$pictures" -lt 4 ] || [ "$pictures" -ne "$titles" ]; then
    fail "$page: $pictures pictures, $titles of them with a text alternative"
  fi
  [ "$(grep -o '<svg' "$page" | wc -l)" -eq \
    $((pictures + $(grep -o '<svg[^>]* aria-hidden="true"' "$page" | wc -l))) ] ||
    fail "$page: a picture that is neither described nor ornament"
  grep -q '<html lang="en">' "$page" || fail "$page: no language"
  [ "$(grep -o '<h1' "$page" | wc -l)" -eq 1 ] || fail "$page: not one h1"
  grep -oE '<h[1-6]' "$page" | tr -dc '1-6\n' |
    awk '{ if ($1 > last + 1) bad = 1; last = $1 } END { exit bad }' ||
    fail "$page: headings skip a level"
  grep -oE '<th( [^>]*)?>' "$page" | grep -qv 'scope=' && fail "$page: a header cell without scope"
  [ -z "$(grep -oE 'id="[^"]*"' "$page" | sort | uniq -d)" ] || fail "$page: an id twice"
}

# Every element with data-figure: known, equal to the database, and rounded as it says. Changes and
# the parts of the bill that the document lacks are computed here from what is there.
sqlite3 runs.db "SELECT json_object('run', id, 'memory_other_gib', other_bytes / 1073741824.0,
  'memory_reserve_gib', reserve_bytes / 1073741824.0, 'memory_gib', memory_bytes / 1073741824.0,
  'memory_free_gib', max(0, memory_bytes - weights_bytes - kv_budget_bytes - other_bytes
  - reserve_bytes) / 1073741824.0, 'document', json(summary_json)) FROM run" >rows.json
jq -c --slurpfile rows rows.json -n -f <(
  printf 'def figures: '
  cat "$source_root/tests/golden/html_figures.jq"
  printf '; [$rows[] | {key: (.run | tostring), value: ((.document | figures)
          + (del(.document, .run)))}] | from_entries'
) >wanted.json || exit 1

# hold_against_database PAGE RUNS: the rows of found.tsv against wanted.json.
hold_against_database() {
  jq -rR --slurpfile wanted wanted.json --arg runs "$2" '
    ($wanted[0]) as $all | ($runs | split(",")) as $run
    | (split("\t")) as [$id, $figure, $value, $text]
    | (if ($figure | startswith("change_")) and ($all[$id][$figure] == null)
       then ($figure[7:]) as $of | 100 * ($all[$run[1]][$of] / $all[$run[0]][$of] - 1)
       else $all[$id][$figure] end) as $is
    | ($text | sub("^ +"; "") | sub(" +$"; "")) as $shown
    | ($shown | if contains(".") then split(".")[1] | length else 0 end) as $digits
    | (pow(10; -$digits) / 2 * 1.000001) as $half
    | if $is == null then "\($figure) of \($id) is not in the database"
      elif (($value | tonumber) - $is | fabs) > 1e-9 * (1 + ($is | fabs))
      then "\($figure) of \($id): page \($value), database \($is)"
      elif (($shown | tonumber) - $is | fabs) > $half
      then "\($figure) of \($id): shown \($shown), database \($is)"
      else empty end' found.tsv >wrong.txt || fail "$1: jq"
  [ ! -s wrong.txt ] || fail "$1: $(cat wrong.txt)"
}

check_numbers() {
  local page="$1" runs="$2" found
  grep -oE 'data-run="[0-9]+" data-figure="[a-z0-9_]+" data-value="[^"]*">[^<]*<' "$page" |
    sed -E 's/data-run="(.*)" data-figure="(.*)" data-value="(.*)">(.*)</\1\t\2\t\3\t\4/' |
    tr -d ',%+' >found.tsv
  found="$(wc -l <found.tsv)"
  [ "$found" -eq "$(grep -o 'data-run=' "$page" | wc -l)" ] || fail "$page: an odd figure"
  [ "$found" -ge 40 ] || fail "$page: only $found figures"
  hold_against_database "$page" "$runs"
}

for runs in 1 2,3 1,2,3,4 4 5; do
  check_document "page-$runs.html"
  check_numbers "page-$runs.html" "$runs"
done
# The check itself: a page with one digit changed does not pass.
sed -E '0,/data-figure="ttft_p95_ms" data-value="1/s//data-figure="ttft_p95_ms" data-value="2/' \
  page-1.html >forged.html
cmp -s page-1.html forged.html && fail "nothing was forged"
before="$failures"
check_numbers forged.html 1 >/dev/null
if [ "$failures" -gt "$before" ]; then failures="$before"; else fail "a forged number passes"; fi

# The answer is there, in words and before everything else.
grep -q 'The model fits and memory never runs out. Both latency limits are met.' page-1.html ||
  fail "page 1 lacks its answer"
grep -q 'More KV memory is needed than there is' page-2,3.html || fail "page 2,3: no word of OOM"
grep -q 'No latency limit was stated' page-4.html || fail "page 4: a limit out of nowhere"
grep -q '&lt;script&gt;alert(&quot;1 &amp; 2&quot;)&lt;/script&gt;&#39;' page-4.html ||
  fail "page 4: the name is not escaped"
# A sweep's page: two cases by five loads. Each number is a figure of its point in the database;
# peaks and changes are worked out here from those.
gain="$source_root/scenarios/published/t04-kimi-gain.yaml"
"$kvcap" sweep "$gain" --name 'A & B' --vary workload.closed.concurrency=1,8,16,32,64 \
  --case 'BF16: pools.decode.profile=sglang-0.5-kimi-bf16-published' \
  --case "FP8: pools.decode.kv.format=fp8-e4m3; \
pools.decode.profile=sglang-0.5-kimi-fp8-published" \
  --db runs.db >/dev/null 2>&1 || fail "the sweep"
"$kvcap" report runs.db --sweep 1 --html sweep.html >/dev/null || fail "the sweep's page"
"$kvcap" report runs.db --sweep 1 --run 3 --html both.html >/dev/null || fail "the page of both"
check_document sweep.html
check_document both.html
check_numbers both.html 3
sqlite3 runs.db "SELECT json_object('point', sweep_id || '/' || number, 'number', number,
  'figures', json_group_object(figure, value)) FROM point_figure GROUP BY sweep_id, number" \
  >points.json
jq -cn --slurpfile rows points.json '
  [$rows[] | .figures + {point, series: (.number / 5 | floor),
                         load: [1, 8, 16, 32, 64][.number % 5],
                         kv_gpu_gib: (.figures.kv_room_gib / .figures.gpus)}] as $points
  | [range(2) as $s | $points | map(select(.series == $s and .oom == 0))
     | max_by(.output_tok_s) + {largest_load: (map(.load) | max)}] as $peaks
  | [$peaks[] | . + {output_change_percent: (100 * (.output_tok_s / $peaks[0].output_tok_s - 1)),
                     cost_change_percent: (100 * (.usd_per_mtok / $peaks[0].usd_per_mtok - 1))}]
    as $peaks
  | ($points + $peaks) | map({key: .point, value: .}) | from_entries' >wanted.json
for page in sweep.html both.html; do
  sed 's/data-run=/data-of-a-run=/g; s/data-point=/data-run=/g' "$page" >points.html
  grep -oE 'data-run="[0-9/]+" data-figure="[a-z0-9_]+" data-value="[^"]*">[^<]*<' points.html |
    sed -E 's/data-run="(.*)" data-figure="(.*)" data-value="(.*)">(.*)</\1\t\2\t\3\t\4/' |
    tr -d ',%+' >found.tsv
  [ "$(wc -l <found.tsv)" -ge 50 ] || fail "$page: only $(wc -l <found.tsv) figures of points"
  hold_against_database "$page" ''
done
grep -q 'A &amp; B' sweep.html || fail "the sweep's name is not escaped"
grep -q '<b>FP8</b> against <b>BF16</b> at the peak of each' sweep.html || fail "no answer"

# A series that never runs within memory has no peak, and is in the answer all the same.
"$kvcap" sweep "$gain" --vary workload.closed.concurrency=64,128 --case \
  'BF16: pools.decode.profile=sglang-0.5-kimi-bf16-published' --case "FP8: \
pools.decode.kv.format=fp8-e4m3; pools.decode.profile=sglang-0.5-kimi-fp8-published" \
  --db starved.db >/dev/null 2>&1 || fail "the sweep of what has no room"
"$kvcap" report starved.db --sweep 1 --html starved.html >/dev/null || fail "its page"
sqlite3 starved.db "SELECT 1 / (sum(value) = 3 AND min(number) = 0) FROM point_figure
  WHERE figure = 'oom' AND value = 1 AND number IN (0, 1, 3)" >/dev/null ||
  fail "the sweep does not starve BF16"
grep -q 'at every load that was run: <b>BF16</b> from load 64 on\.' starved.html ||
  fail "the page is silent about BF16"
check_document starved.html

# Pages of plans: one that found something, with a spare replica and headroom, and one that found
# nothing. What each figure must be comes from the figures of the points, the requirements and the
# prices as they stand here, from `plan --json`, and for the next units from its list.
chat="$examples/how-many-gpus.yaml"
# plan_page NAME WANTED_STATUS PRICES_JSON LIMITS_JSON ARGUMENTS...
plan_page() {
  local name="$1" wanted="$2" prices="$3" limits="$4" spare sweep
  shift 4
  "$kvcap" plan "$chat" --set workload.limit=120 --gpu h100,h200 --db runs.db --json "$@" \
    >"$name.json" 2>err
  [ $? -eq "$wanted" ] || fail "plan $name: $(cat err)"
  sweep="$(sqlite3 runs.db 'SELECT max(id) FROM sweep')"
  "$kvcap" report runs.db --sweep "$sweep" --html "$name.html" >/dev/null || fail "page of $name"
  check_document "$name.html"
  spare="$(jq '.winner.spare // 0' "$name.json")"
  sqlite3 runs.db "SELECT json_object('id', sweep_id || '/' || number,
    'gpu', coalesce((SELECT value FROM point_set s WHERE s.sweep_id = f.sweep_id
                     AND s.number = f.number AND key GLOB 'pools.*.gpu'), 'h100'),
    'replicas', coalesce((SELECT value FROM point_set s WHERE s.sweep_id = f.sweep_id
                          AND s.number = f.number AND key GLOB 'pools.*.replicas'), '1'),
    'figures', json_group_object(figure, value)) FROM point_figure f WHERE sweep_id = $sweep
    GROUP BY sweep_id, number" >points.json
  jq -cn --slurpfile rows points.json --slurpfile plan "$name.json" --argjson prices "$prices" \
    --argjson limits "$limits" --argjson spare "$spare" --arg sweep "$sweep" '
    ($plan[0]) as $p
    | [$rows[] | .figures as $f | (.replicas | tonumber) as $r
       | [$limits | to_entries[] | 100 * $f[.key] / .value] as $used
       | (($f.gpus / $r) * ($r + $spare)) as $gpus
       | {key: .id, value: ($f + {gpus: $gpus, bought: ($r + $spare),
            usd_hour: ($gpus * $prices[.gpu]), used_percent: ($used | max)}
            + ([$used | to_entries[] | {("used_\(.key)_percent"): .value}] | add // {}))}]
      + [{key: $sweep, value: {candidates: $p.search.candidates, spare: $spare,
            runs: $p.search.runs, combinations: $p.search.combinations,
            no_fit: $p.search.combinations_no_fit,
            by_price: $p.search.decided_by.price, by_bound: $p.search.decided_by.bound,
            by_twin: $p.search.decided_by.twin, by_replicas: $p.search.decided_by.replicas,
            by_faster: $p.search.decided_by.faster,
            by_assumption: ($p.search.decided_by.faster + $p.search.decided_by.replicas),
            headroom_percent: 20,
            prefill_percent: (100 * ($p.limits.prefill // 0)),
            decode_percent: (100 * ($p.limits.decode // 0)),
            host_percent: (100 * ($p.limits.host // 0)),
            idle_percent: (100 * ($p.limits.idle // 0))}}]
    | from_entries' >wanted.json || fail "$name: what is wanted"
  jq -cn --slurpfile plan "$name.json" --arg sweep "$sweep" '
    ($plan[0]) as $p | [$p.units | to_entries[]
      | {key: "\($sweep)/\(.key)", value: {gpus: ($p.winner.gpus + .value.gpus_more),
         usd_hour: .value.usd_hour, used_percent: (100 * (.value.limit_used // 0))}}]
    | from_entries' >units.json || fail "$name: units"
  for kind in candidate plan point unit; do
    sed -E "s/data-$kind=/data-thing=/g" "$name.html" >kind.html
    grep -oE 'data-thing="[0-9/]+" data-figure="[a-z0-9_]+" data-value="[^"]*">[^<]*<' kind.html |
      sed -E 's/data-thing="(.*)" data-figure="(.*)" data-value="(.*)">(.*)</\1\t\2\t\3\t\4/' |
      tr -d ',%+' >found.tsv
    [ "$(wc -l <found.tsv)" -eq "$(grep -o 'data-thing=' kind.html | wc -l)" ] ||
      fail "$name: an odd figure of a $kind"
    [ $kind != unit ] || mv units.json wanted.json
    hold_against_database "$name.html, $kind" ''
    [ $kind = unit ] || [ "$(wc -l <found.tsv)" -ge 5 ] || fail "$name: too few figures of a $kind"
  done
}
plan_page found 0 '{"h100": 3.99, "h200": 4.59}' '{"ttft_p95_ms": 1000, "tpot_p95_ms": 50}' \
  --spare 1 --headroom 20
plan_page nothing 1 '{"h100": 3.99, "h200": 4.59}' '{"ttft_p95_ms": 1, "tpot_p95_ms": 50}' \
  --slo 'ttft_p95_ms<=1' --slo 'tpot_p95_ms<=50' --replicas 1..4
# A budget that leaves no candidate, and GPUs without a price.
"$kvcap" plan "$chat" --set workload.limit=40 --budget-usd-hour 1 --db odd.db >/dev/null 2>&1
"$kvcap" plan "$chat" --set workload.limit=40 --gpu mi300x --objective gpus --db odd.db \
  >/dev/null 2>&1 || fail "a plan without prices"
"$kvcap" report odd.db --sweep 1 --html none.html >/dev/null || fail "the page of no candidate"
grep -q 'leave no candidate' none.html || fail "none.html does not say that nothing is left"
grep -q 'Candidates that were run\|Pictures' none.html && fail "none.html has empty sections"
"$kvcap" report odd.db --sweep 2 --html gpus.html >/dev/null || fail "the page without prices"
check_document gpus.html
grep -q 'no price known' gpus.html || fail "gpus.html has a price"
grep -q 'Price against' gpus.html && fail "gpus.html draws prices"
# The winner is the one of the document, in words and by its number.
jq -r '.winner | "\(.replicas + .spare)</b> (\(.spare) spare) × \(.gpus / (.replicas + .spare)) \(
  .gpu), tensor \(.tensor), weights \(.weights), KV \(.kv), page \(.page_size), chunk \(.chunk
  ), max running \(.max_running)"' found.json | tr -d '\n' >words.txt
grep -qF "$(cat words.txt)" found.html || fail "the page names another winner than $(cat words.txt)"
jq -r '"It is limited by <b>\(.limits.name)</b>"' found.json >words.txt
grep -qF "$(cat words.txt)" found.html || fail "the page says another limit"
grep -q 'Nothing that may be bought meets this' nothing.html || fail "nothing.html: found something"
grep -q 'best there is</b>; misses ttft_<wbr>p95_<wbr>ms&lt;=1' nothing.html ||
  fail "nothing.html: no best"
[ "$(grep -c '<tr><th scope="row"><span class="chip' found.html)" -eq \
  "$(jq .search.runs found.json)" ] || fail "found.html: not every candidate that was run"
# Its commands give its figures: of the winner as judged, and as bought.
cp "$chat" how-many-gpus.yaml
export KVCAP_DATA="$source_root/scenarios"
for of in winner as_bought; do
  title="$([ $of = winner ] && echo 'its figures' || echo 'spare replicas, under')"
  grep -A1 "<h3>.*$title" found.html | sed -n 's/.*<code>kvcap \(.*\)<\/code>.*/\1/p' |
    sed "s/&#39;/'/g" >command.txt
  sed -i "s|^run how-many-gpus.yaml|run $chat|" command.txt
  eval "set -- $(cat command.txt)"
  "$kvcap" "$@" --json >run.json 2>/dev/null || fail "the command of the $of: $(cat command.txt)"
  jq -e --slurpfile p found.json --arg of "$of" \
    '.result_sha256 == $p[0][$of].result_sha256' run.json >/dev/null ||
    fail "the command of the $of gives another result"
done
unset KVCAP_DATA
# The plan that the page says gives the same answer.
sed -n '/^<pre><code>kvcap plan SCENARIO/,/<\/code>/p' found.html |
  sed "s/^<pre><code>kvcap //; s/<\/code>.*//; s/&#39;/'/g; s/&lt;/</g; s/&gt;/>/g" |
  sed "s|SCENARIO|$chat|" >command.txt
eval "set -- $(cat command.txt)"
"$kvcap" "$@" --json >again.json 2>/dev/null
cmp -s <(jq '.winner' found.json) <(jq '.winner' again.json) ||
  fail "the plan of the page has another winner"
# Figures and axes are not for plans.
"$kvcap" plan "$chat" --set workload.limit=40 --gpu h200 --db plan.db >/dev/null 2>&1
"$kvcap" report plan.db --sweep 1 --html plan.html >/dev/null || fail "the page of the only plan"
grep -q 'The cheapest deployment' plan.html || fail "plan.html is no plan"
"$kvcap" report plan.db --sweep 1 --out nowhere 2>err && fail "figures of a plan"
grep -q 'add --html FILE' err || fail "figures of a plan: $(cat err)"
"$kvcap" report plan.db --sweep 1 --load rate --html x.html 2>err && fail "axes of a plan"
grep -q 'leave them out' err || fail "axes of a plan: $(cat err)"
sqlite3 plan.db 'PRAGMA foreign_keys = ON; DELETE FROM plan'
"$kvcap" report plan.db --sweep 1 --html x.html 2>err && fail "a plan without an answer"
grep -q 'has no answer in this file' err || fail "without an answer: $(cat err)"
"$kvcap" plan "$chat" --set workload.limit=40 --gpu h200 --db plan.db 2>/dev/null >/dev/null
"$kvcap" report plan.db --sweep 1 --html again.html >/dev/null ||
  fail "the page of the plan asked again"
cmp -s plan.html again.html || fail "the plan asked again has another page"
"$kvcap" db verify plan.db >/dev/null || fail "plan.db is not intact"
# What is changed in an answer is noticed.
for change in 'UPDATE plan SET winner = 99999' \
  'UPDATE plan_requirement SET limit_value = 1 WHERE position = 0' \
  "UPDATE plan_candidate SET usd_hour = 0.01 WHERE number = (SELECT runner_up FROM plan)" \
  "UPDATE point_figure SET value = value + 1 WHERE number = (SELECT winner FROM plan)"; do
  cp plan.db changed.db
  sqlite3 changed.db "$change"
  "$kvcap" db verify changed.db >/dev/null 2>&1 && fail "not noticed: $change"
done

# What a page says of runs without answers and of limits by class, as `run` says it.
s="$source_root/scenarios/examples/llama-3.1-8b-h100.yaml"
told() { # told PAGE PATTERN: in the words of its answer
  sed -n '/<h2>The answer/,/<h2>Pictures\|<table/p' "$1" | sed 's/<[^>]*>/ /g; s/  */ /g' >words
  grep -qE -- "$2" words || fail "$1 does not say \"$2\" but: $(cut -c1-500 words)"
}
"$kvcap" run "$s" --set workload.limit=50 --set workload.timeout=1ms --db odd.db >/dev/null 2>&1
"$kvcap" report odd.db --html odd.html >/dev/null || fail "the page of timeouts"
told odd.html 'time to first token is missed, as 50 requests had no answer'
told odd.html 'time per output token is met is not known: no request was completed'
told odd.html 'missed: limit 1,000 ms, 50 without an answer'
told odd.html 'not known: limit 50 ms'
grep -q 'no limit stated\|: met' odd.html && fail "odd.html: a limit that is met, or none"
"$kvcap" run "$s" --set workload.limit=20 --set pools.serve.scheduler.max_model_len=10 \
  --db odd.db >/dev/null 2>&1
"$kvcap" report odd.db --html odd.html >/dev/null || fail "the page of rejections"
told odd.html 'First token, p95 – ms not known: limit 1,000 ms'
"$kvcap" run "$(dirname "$s")/glm-5.2-agents-8xh200.yaml" --db odd.db >/dev/null 2>&1
"$kvcap" report odd.db --html odd.html >/dev/null || fail "the page of classes"
told odd.html 'Classes state limits of their own: [0-9,]+ of 1,200 requests'
told odd.html 'limits by class'
grep -q 'No latency limit\|no limit stated' odd.html && fail "odd.html: classes have no limits"
grep -q 'The picture samples the run; its highest values lie between the samples' odd.html ||
  fail "odd.html: peaks that no picture shows"

# A sweep that runs nothing, one of which no point has memory enough, and one of layouts.
"$kvcap" sweep "$s" --bill --vary pools.serve.gpu=h100,h200 --db odd-sweep.db >/dev/null 2>&1
"$kvcap" report odd-sweep.db --sweep 1 --html odd.html >/dev/null || fail "the page of bills"
told odd.html 'Nothing was run; of 2 points 2 fit in memory'
precision() { "$kvcap" precision "$s" --weights scenario --kv bf16,fp8-e4m3 "$@"; }
precision --set workload.rate=60 --db odd-sweep.db >text 2>/dev/null
"$kvcap" report odd-sweep.db --sweep 2 --html odd.html >/dev/null || fail "the page of an overload"
told odd.html 'None keeps the SLO. It is missed by KV bf16 , first token p95 [0-9,]+ ms against'
grep -q '^No precision keeps the SLO' text || fail "precision: $(tail -n 5 text)"
pattern='s/^+\([0-9.]*\) % throughput, \(-[0-9.]*\) % cost.*/\1 % , a token costs \2/p'
gain="$(sed -n "$pattern" text)"
[ -n "$gain" ] || fail "no gain in $(tail -n 2 text)"
told odd.html "output .$gain %"
precision --db odd-sweep.db --set slo.tpot_p95_ms=10 >/dev/null 2>&1
"$kvcap" report odd-sweep.db --sweep 3 --html odd.html >/dev/null || fail "the page of a small load"
told odd.html 'The SLO is kept by KV fp8-e4m3 .* It is missed by KV bf16 , each token p95 10.5 ms'
told odd.html 'None gives noticeably more output than KV bf16'
"$kvcap" sweep "$s" --set workload.limit=100 --vary pools.serve.parallel.tensor=1,2,4 \
  --db odd-sweep.db >/dev/null 2>&1
"$kvcap" report odd-sweep.db --sweep 4 --html odd.html >/dev/null || fail "the page of layouts"
told odd.html 'The most output: [0-9,]+ tok/s at tensor 4, a million'
grep -q 'at load\|>load<' odd.html && fail "odd.html calls a tensor degree a load"

# What the page says how to do gives what it says: the same result again.
sqlite3 runs.db 'SELECT scenario_text FROM run WHERE id = 3' >run-3.yaml
result="$(sqlite3 runs.db 'SELECT result_sha256 FROM run WHERE id = 3')"
"$kvcap" run run-3.yaml | grep -q "$result" || fail "run 3 does not come out again"

# What is wrong with the call.
refused() {
  local status="$1" pattern="$2"
  shift 2
  "$kvcap" report runs.db "$@" 2>err
  [ $? -eq "$status" ] || fail "$*: not status $status"
  grep -q "$pattern" err || fail "$*: $(cat err)"
}
refused 4 'the file cannot be written' --html /nowhere/page.html
refused 8 'at most 4 runs' --run all --html five.html
[ ! -e five.html ] || fail "a page of five runs"

finish "pages are as they should be"
