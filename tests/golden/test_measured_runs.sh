#!/usr/bin/env bash
# Two measured runs of vLLM 0.19 (casys-kaist/LLMServingSim) are predicted from their first 30
# requests: mean and percentiles of TTFT, TPOT and E2E of all 300, each within a bound. label: ci
# timeout: 300
#
# The bound of Llama is wide. At least 12 of its prompts, none among the first 30, took the time of
# prompts shorter by hundreds of tokens: later turns of conversations whose earlier turns were
# cached. The log does not say what prompts hold, so a run computes them all, and comes out slow.
# That this is the reason is shown last: with prefixes made up for those 12 prompts, as long as
# their prefill times betray, the same fit meets 2 %. That is no prediction, because it looks at the
# whole run; the published workload lists token ids, with which it would be one.
set -u

logs="${KVCAP_SHARED:-/nowhere}/traces/vllm-measured"
[ -d "$logs" ] || exit 77
export KVCAP_DATA="$KVCAP_SOURCE/scenarios"
failed=0

# check SCENARIO LOG BOUND [OPTION...]: the figures, none further off than BOUND percent.
check() {
  local output
  output="$("$KVCAP" calibrate serving "$KVCAP_SOURCE/scenarios/measured/$1.yaml" \
    --log "$logs/$2/requests.jsonl" --fit-first 30 --linear "${@:4}")" || { failed=1; return; }
  echo "$output" | awk -v name="$1" -v bound="$3" '
    /^the whole log/ {on = 1}
    on && $NF == "%" {
      seen++; off = $(NF - 1) + 0; if (off < 0) off = -off
      if (off > largest) largest = off
      if (off > bound) {print name ": " $0; bad = 1}
    }
    /mean stage/ {on = 0}
    END {
      printf "%s: %d figures, largest difference %.2f %% of %s %%\n", name, seen, largest, bound
      exit bad || seen != 15
    }' || failed=1
}

# The requests of a log with token ids, all different but for the prefixes REQUEST:TOKENS of HITS:
# those are of the last earlier request that is long enough, is not in HITS itself, and was done
# with its prompt.
with_contents() { # LOG HITS
  awk -v hits="$2" '
    BEGIN {
      n = split(hits, pair, " ")
      for (i = 1; i <= n; i++) { split(pair[i], p, ":"); hit[p[1]] = p[2] }
    }
    function field(name,   at) {
      at = index($0, "\"" name "\": ")
      return substr($0, at + length(name) + 4) + 0
    }
    {
      i = NR - 1; input[i] = field("input_toks"); first[i] = field("first_token_ts")
      arrival = field("arrival_time"); if (i == 0) start = arrival
      own = (i in hit) ? hit[i] : 0; donor = i
      for (j = i - 1; own > 0 && donor == i && j >= 0; j--)
        if (!(j in hit) && input[j] >= own + 16 && first[j] < field("scheduled_ts")) donor = j
      printf "{\"input_toks\": %d, \"output_toks\": %d, ", input[i], field("output_toks")
      printf "\"arrival_time_ns\": %.0f, \"input_tok_ids\": [", (arrival - start) * 1e9
      for (k = 0; k < input[i]; k++)
        printf "%s%d", (k > 0 ? "," : ""), (k < own ? donor : i) * 100003 + k
      print "]}"
    }' "$1"
}

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
check qwen3-32b-2xrtx-pro-6000 RTXPRO6000_Qwen3-32B 2
check llama-3.1-8b-rtx-pro-6000 RTXPRO6000_Llama-3.1-8B 3.5
with_contents "$logs/RTXPRO6000_Llama-3.1-8B/requests.jsonl" "128:880 139:960 140:432 158:560 \
174:1296 188:704 235:880 237:1296 265:592 280:832 281:816 285:704" >"$scratch/contents.jsonl"
check llama-3.1-8b-rtx-pro-6000 RTXPRO6000_Llama-3.1-8B 2 --trace "$scratch/contents.jsonl"
exit $failed
