#!/usr/bin/env bash
# Prints the profiles of scenarios/gpus/h200.yaml that were fitted to published tables, as the file
# holds them. A test compares the two, so a profile cannot differ from what this makes.
#
#   scenarios/published/fit_profiles.sh [KVCAP]
set -eu
program="${1:-kvcap}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
table="Cloudflare's table of 2026-08-03, blog.cloudflare.com/smaller-faster-safer-models, by"

# profile SCENARIO NAME [options]
profile() {
  local scenario="$1" name="$2"
  shift 2
  "$program" calibrate serving "$here/$scenario.yaml" --name "$name" --profile \
    --source "$table scenarios/published/fit_profiles.sh" "$@"
}

profile t02-kimi-decode-bf16 sglang-0.5-kimi-bf16-published
profile t03-kimi-decode-fp8 sglang-0.5-kimi-fp8-published
# Both GLM tables read the same keys and values with the same kernels. The FP8 curve is not smooth,
# so its fit holds what the INT4 table says of them: two terms for five rows, none at its bound.
profile t08-glm-decode-fp8 sglang-0.5-glm-fp8-published --fit host,weights --hold kv=0.3731
profile t09-glm-decode-int4 sglang-0.5-glm-int4-published

# Prefill: one constant from the FP8 row; the INT4 row keeps the arithmetic per second (all of it in
# BF16, at half the dense rate, hence twice the share) and adds the expansion of its weights.
profile t10-glm-prefill sglang-0.5-glm-fp8-prefill-published \
  --only "prefill, FP8 weights" --fit flops
profile t10-glm-prefill sglang-0.5-glm-int4-prefill-published \
  --only "prefill, INT4 weights" --fit expand --hold flops=0.18026
