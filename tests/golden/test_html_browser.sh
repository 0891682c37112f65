#!/usr/bin/env bash
# The HTML page in headless Chromium, at 390 and 1280 pixels, light and dark: it opens without a
# console message, is no wider than the window, its letters have a contrast of 4.5 to 1 and more,
# and nothing is lost in parsing. Screenshots stay in the build folder. label: ci timeout: 300
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
shots="${KVCAP_BUILD:?build folder}/screenshots"
examples="$source_root/scenarios/examples"
needs chromium
mkdir -p "$shots"

# browse WIDTH THEME ARGUMENTS...: each time with a profile of its own; what the page says on the
# console goes to stderr, in lines that hold "CONSOLE".
browse() {
  local width="$1" theme="$2" profile
  shift 2
  profile="$(mktemp -d "$scratch/profile.XXXXXX")"
  [ "$theme" = dark ] && set -- --force-dark-mode --blink-settings=preferredColorScheme=0 "$@"
  timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --hide-scrollbars \
    --user-data-dir="$profile" --window-size="$width,1400" --enable-logging=stderr --v=0 "$@"
}

"$kvcap" run "$examples/llama-3.1-8b-h100.yaml" --intervals 5 --db runs.db >/dev/null || exit 1
for format in bf16 fp8-e4m3; do
  "$kvcap" run "$examples/kimi-k2.6-decode-8xh200.yaml" --set "pools.decode.kv.format=$format" \
    --db runs.db >/dev/null || exit 1
done
"$kvcap" report runs.db --run 1 --html one.html >/dev/null || exit 1
"$kvcap" report runs.db --run 2,3 --html two.html >/dev/null || exit 1

gain="$source_root/scenarios/published/t04-kimi-gain.yaml"
"$kvcap" sweep "$gain" --vary workload.closed.input=2048..65536*2 \
  --vary workload.closed.concurrency=8..256*2 --vary pools.decode.kv.format=bf16,fp8-e4m3 \
  --db runs.db >/dev/null 2>&1 || exit 1
"$kvcap" report runs.db --sweep 1 --html sweep.html >/dev/null || exit 1
"$kvcap" plan "$examples/how-many-gpus.yaml" --gpu h100,h200,a100-80g --spare 1 --headroom 20 \
  --db runs.db >/dev/null 2>&1 || exit 1
"$kvcap" report runs.db --sweep 2 --html plan.html >/dev/null || exit 1

# A script in a copy measures what a reader would see. The copies stand in frames, because a window
# is never narrower than 500 pixels.
probe() {
  local page="$1" theme="$2" width said
  { sed '/<\/html>/d' "$page.html"
    printf '<script>'; cat "$source_root/tests/golden/html_probe.js"; printf '</script></html>\n'
  } >probed.html
  { echo '<!DOCTYPE html><meta name="color-scheme" content="light dark"><pre id="probe"></pre>'
    for width in 390 1280; do
      echo "<iframe src='probed.html' style='border:0;width:${width}px;height:900px'></iframe>"
    done
    echo '<script>onmessage = (e) => { probe.append("\u000aSAID " + e.data); }</script>'
  } >frames.html
  browse 1400 "$theme" --virtual-time-budget=5000 --dump-dom "file://$PWD/frames.html" \
    >dom.html 2>log.txt || fail "$page $theme: chromium ended with status $?"
  grep CONSOLE log.txt && fail "$page $theme: it speaks on the console"
  said="$(sed -n 's/^SAID //; s/&lt;/</g; s/&gt;/>/g; s/<\/pre>.*//; /^{/p' dom.html)"
  jq -es --argjson dark "$([ "$theme" = dark ] && echo true || echo false)" \
    --argjson figures "$(grep -o 'data-figure=' "$page.html" | wc -l)" \
    'sort_by(.width) | map(.width) == [390, 1280] and all(.found == [] and .dark == $dark
     and .figures == $figures and .pictures >= 5)' <<<"$said" >/dev/null ||
    fail "$page $theme: $said"
}

# shot PAGE WIDTH THEME
shot() {
  browse "$2" "$3" --window-size="$2,$(($2 == 390 ? 5600 : 3400))" \
    --screenshot="$shots/$1-$2-$3.png" "file://$PWD/$1.html" 2>log.txt
  [ -s "$shots/$1-$2-$3.png" ] || fail "no screenshot of $1 at $2, $3"
}

for page in one two sweep plan; do
  for theme in light dark; do
    probe "$page" "$theme"
    shot "$page" 390 "$theme"
    shot "$page" 1280 "$theme"
  done
done
browse 1280 light --no-pdf-header-footer --print-to-pdf="$shots/two.pdf" "file://$PWD/two.html" \
  2>log.txt || fail "the page cannot be printed"

# The probe itself: a page that is too wide and pale does not pass.
sed 's/<\/h1>/&<p style="width:2000px;color:#ddd;background:#fff">pale<\/p>/' one.html >pale.html
before="$failures"
probe pale light >pale.txt
if [ "$failures" -gt "$before" ]; then failures="$before"; else fail "a pale page passes"; fi
for problem in 'wider than the window' 'contrast 1'; do
  grep -q "$problem" pale.txt || fail "the probe does not say \"$problem\": $(cat pale.txt)"
done

finish "the pages open as they should; screenshots in $shots"
