#!/usr/bin/env bash
# label: ci
# timeout: 900
# No CUDA kernel spills registers: ptxas reports 0 bytes of spill stores and loads, and no stack
# frame, for every entry function. A file is compiled again only if a source is newer than its log.
set -eu

nvcc="$(sed -n 's/^KC_NVCC:FILEPATH=//p' "$KVCAP_BUILD/CMakeCache.txt")"
[ -x "$nvcc" ] || { echo "no nvcc"; exit 77; }
logs="$KVCAP_BUILD/spills"
mkdir -p "$logs"
newest="$(find "$KVCAP_SOURCE/kernels" \( -name '*.cuh' -o -name '*.h' \) -printf '%T@ %p\n' |
  sort -n | tail -1 | cut -d' ' -f2-)"

shopt -s nullglob
kernels=0
failed=0
for source in "$KVCAP_SOURCE"/kernels/cuda/*.cu; do
  log="$logs/$(basename "$source").log"
  architecture=sm_90
  case "$source" in *_sm90a.cu) architecture=sm_90a ;; esac
  if [ ! -s "$log" ] || [ "$source" -nt "$log" ] || [ "$newest" -nt "$log" ]; then
    rm -f "$log"
    "$nvcc" -arch="$architecture" -std=c++17 -O3 -I"$KVCAP_SOURCE" -cubin -Xptxas -v \
      "$source" -o "$logs/object.cubin" >"$logs/output" 2>&1 ||
      { cat "$logs/output"; echo "$source does not compile"; exit 1; }
    mv "$logs/output" "$log"
  fi
  # ptxas: "Compiling entry function 'NAME'", then "N bytes stack frame, N bytes spill stores, ..."
  awk -v file="$(basename "$source")" '
    /Compiling entry function/ { name = $0; sub(".*function .", "", name); sub(".[ ].*", "", name) }
    /bytes stack frame/ {
      count += 1
      if ($0 !~ / 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/) {
        print file ": " name ":" $0; bad += 1
      }
    }
    END { print count + 0 > "/dev/stderr"; exit (bad > 0) }' "$log" 2>"$logs/count" || failed=1
  kernels=$((kernels + $(cat "$logs/count")))
done
[ "$kernels" -gt 0 ] || { echo "no kernel was looked at"; exit 1; }
[ "$failed" -eq 0 ] || { echo "kernels spill registers"; exit 1; }
echo "$kernels kernels, no spills"
