#!/usr/bin/env bash
# Public traces through the program, where they are at hand: each converts to the program's own
# format and back into the same figures; shards of sessions add up; an anonymised copy keeps every
# figure. Skipped without them. timeout: 300 label: ci
set -eu

root="${KVCAP_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
kvcap="${KVCAP:-$root/build/release/kvcap}"
shared="${KVCAP_SHARED:-$root/../shared}/traces"
[ -d "$shared/azure2023" ] || { echo "no public traces in $shared"; exit 77; }
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
failed=0
count=0

# The figures of a trace without what tells one file from another.
figures() {
  "$kvcap" trace info --json "$1" |
    grep -Ev '"(path|format|sha256|bytes|files|time_unit)":' |
    awk '/"notes": \{/ {skip = 1} !skip {print} skip && /\}/ {skip = 0}'
}

for trace in azure2023/AzureLLMInferenceTrace_code.csv azure2023/AzureLLMInferenceTrace_conv.csv \
  mooncake/conversation_trace.jsonl weka-claude-code/traces vidur/splitwise_code.csv \
  format-samples/BurstGPT_1.head.csv format-samples/qwen_bailian.example.jsonl; do
  [ -e "$shared/$trace" ] || continue
  count=$((count + 1))
  figures "$shared/$trace" >before
  "$kvcap" trace convert --zero-output floor "$shared/$trace" own.csv 2>/dev/null
  figures own.csv >after
  cmp before after || { echo "$trace: other figures after conversion"; failed=1; }
  "$kvcap" trace convert own.csv again.csv 2>/dev/null
  cmp own.csv again.csv || { echo "$trace: not the same bytes when converted twice"; failed=1; }
  "$kvcap" trace anonymise own.csv hidden.csv --seed 5 2>/dev/null
  figures hidden.csv >after
  cmp before after || { echo "$trace: other figures when anonymised"; failed=1; }
  rows=0
  for shard in 1 2 3; do
    "$kvcap" trace convert own.csv part.csv --shard "$shard/3" 2>/dev/null || continue
    rows=$((rows + $(wc -l <part.csv) - 1))
  done
  [ "$rows" -eq "$(($(wc -l <own.csv) - 1))" ] || { echo "$trace: shards do not add up"; failed=1; }
done

[ "$failed" -eq 0 ] && echo "$count public traces keep their figures"
exit "$failed"
