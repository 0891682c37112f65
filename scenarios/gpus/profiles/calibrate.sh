#!/usr/bin/env bash
# Makes the profiles of this folder from the public timings they rest on: some minutes each.
#
#   KVCAP=build/release/kvcap scenarios/gpus/profiles/calibrate.sh TIMINGS [NAME...]
#
# TIMINGS holds GPU/FRAMEWORK/*.csv.gz: h200_sxm and h100_sxm from ai-dynamo/aiconfigurator,
# rtx-pro-6000 from casys-kaist/LLMServingSim. NAME: part of a profile's path, to make only those.
set -eu

kvcap="${KVCAP:-kvcap}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
timings="${1:?folder of timings}"
shift

wanted() { # PROFILE NAMES...
  local profile="$1" name
  shift
  [ "$#" -eq 0 ] && return 0
  for name in "$@"; do case "$profile" in *"$name"*) return 0 ;; esac; done
  return 1
}

while read -r folder gpu name tensor kind; do
  files=("$timings/$folder"/*.csv.gz)
  if [ "$kind" = layers ]; then
    files+=("$timings/$folder/meta.yaml")
    out="$gpu/$name/$(basename "$folder").yaml"
    shapes=(--model "$(basename "$folder" "-tp$tensor")")
    source="casys-kaist/LLMServingSim at 5daddb21, profiler/perf"
  else
    out="$gpu/$gpu-$name.yaml"
    shapes=()
    source="ai-dynamo/aiconfigurator at 095f58a51"
  fi
  wanted "$out" "$@" || continue
  mkdir -p "$(dirname "$here/$out")"
  "$kvcap" calibrate kernels "${files[@]}" --gpu "$gpu" --name "$name" --tensor "$tensor" \
    "${shapes[@]}" --source "$source" --out "$here/$out"
done <<'LIST'
rtx-pro-6000/vllm-0.19/llama-3.1-8b-tp1 rtx-pro-6000 vllm-0.19 1 layers
rtx-pro-6000/vllm-0.19/qwen3-32b-tp2 rtx-pro-6000 vllm-0.19 2 layers
h200_sxm/sglang-0.5.14 h200 sglang-0.5.14 1 kernels
h200_sxm/vllm-0.24.0 h200 vllm-0.24 1 kernels
h100_sxm/sglang-0.5.14 h100 sglang-0.5.14 1 kernels
LIST
