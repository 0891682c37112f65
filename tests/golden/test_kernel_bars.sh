#!/usr/bin/env bash
# Kernel profiles on the public timings: each family of both H200 frameworks on rows that no fit
# saw, and the H100 predicted from the H200's fit and the datasheet alone. label: soak timeout: 1500
#
# The bars: median at most 6 %, p90 at most 20 % (seed 1, 20 % of the rows); H100 median at most
# 12 %. Skips (77) without KVCAP_SHARED/kernel-timings.
set -u
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
timings="${KVCAP_SHARED:-/nowhere}/kernel-timings"
[ -d "$timings" ] || { echo "skipped: no timings in $timings"; exit 77; }
needs jq
profiles="$source_root/scenarios/gpus/profiles"

# hold FILE MEDIAN P90 COUNT: every family of the JSON within both bounds, COUNT families or more
hold() {
  jq -r '.families[] | [.family, .scored.rows, .scored.median, .scored.p90] | @tsv' "$1" |
    awk -v m="$2" -v p="$3" -v n="$4" '
      { printf "  %-18s %7d rows  median %5.2f %%  p90 %5.2f %%\n", $1, $2, 100 * $3, 100 * $4
        if ($2 == 0 || $3 > m || $4 > p) { print "  ^ outside"; bad = 1 } }
      END { exit bad || NR < n }' || fail "$1: a family is outside the bounds, or there are too few"
}

# Fits anew; what comes out must also be what is shipped, as far as its predictions go.
refit() { # FOLDER PROFILE FAMILIES
  echo "$1, rows kept out"
  "$kvcap" calibrate kernels "$timings/h200_sxm/$1"/*.csv.gz --gpu h200 --name x --json \
    --out "$scratch/$2" >"$scratch/$2.json" || fail "$1: the fit ends with $?"
  hold "$scratch/$2.json" 0.06 0.20 "$3"
  "$kvcap" calibrate kernels "$timings/h200_sxm/$1"/*.csv.gz --gpu h200 --json \
    --evaluate "$scratch/$2" >"$scratch/fresh.json" || fail "$1: scoring ends with $?"
  "$kvcap" calibrate kernels "$timings/h200_sxm/$1"/*.csv.gz --gpu h200 --json \
    --evaluate "$profiles/h200/$2" >"$scratch/shipped.json" || fail "$2: scoring ends with $?"
  jq -n --slurpfile a "$scratch/fresh.json" --slurpfile b "$scratch/shipped.json" '
    [$a[0].families, $b[0].families | map({(.family): .scored.median}) | add] as [$x, $y] |
    ($x | keys) == ($y | keys) and ([$x | keys[] | ($x[.] - $y[.]) | fabs] | max) < 0.002' |
    grep -qx true || fail "$2: the shipped profile is not what the fit makes"
}

refit sglang-0.5.14 h200-sglang-0.5.14.yaml 23
refit vllm-0.24.0 h200-vllm-0.24.yaml 17

echo "h100 from the fit of the h200"
"$kvcap" calibrate kernels "$timings/h100_sxm/sglang-0.5.14"/*.csv.gz --gpu h100 --json \
  --evaluate "$profiles/h200/h200-sglang-0.5.14.yaml" >"$scratch/h100.json" ||
  fail "h100 ends with $?"
hold "$scratch/h100.json" 0.12 1 23

finish "every family within its bounds"
