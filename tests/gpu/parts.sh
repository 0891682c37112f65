#!/usr/bin/env bash
# Parts of run.sh that are more than one command, each in a shell of its own so that it can be cut
# off:  parts.sh build | sanitizer TOOL | half FORMAT SCENARIO. Variables come from run.sh.
set -u

: "${source_dir:?from run.sh}" "${build:?}" "${work:?}" "${out:?}" "${kvcap:?}"

# The module alone, where CMake does not find what the program needs.
build_module() {
  local object=$build/objects file
  mkdir -p "$object"
  for file in "$source_dir"/kernels/cuda/*.cu; do
    echo "$file"
  done | xargs -P "$(nproc)" -I{} sh -c \
    "nvcc -arch=sm_90 -std=c++17 -O3 -I'$source_dir' -Xcompiler -fPIC -c {} \
      -o '$object'/\$(basename {}).o" || return 1
  for file in "$source_dir"/kernels/{cuda,ops,formats}/*.c; do
    cc -std=c17 -O2 -fPIC -D_GNU_SOURCE -ffp-contract=off -I"$source_dir" -c "$file" \
      -o "$object/$(basename "$file").o" || return 1
  done
  nvcc -arch=sm_90 -shared -o "$build/kvcap_cuda.so" "$object"/*.o -lcublasLt
}

# Everything; or the module alone.
build() {
  if command -v cmake > /dev/null && cmake -S "$source_dir" -B "$build" -DKC_CUDA=ON \
    -DCMAKE_BUILD_TYPE=Release > "$work/configure.log" 2>&1; then
    local goals=(kvcap kvcap_cuda kvcap_emu engine_emulated engine_decisions engine_faults)
    local test
    for test in rows pages decode prefill product; do goals+=("test_emu_$test"); done
    cmake --build "$build" --parallel "$(nproc)" --target "${goals[@]}" && return 0
  fi
  echo "the program cannot be built here; building the module alone"
  build_module
}

sanitizer() { # TOOL
  local tool
  tool=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  [ -x "$tool" ] || { echo "no compute-sanitizer"; return 77; }
  "$tool" --tool "$1" --error-exitcode 9 "$kvcap" engine check --device cuda
}

# half FORMAT SCENARIO: every other row of the rank's table is fitted; the simulator, under that
# fit, then says what the rest should have been.
half() {
  local table=$out/rank-$1.csv scenario=$source_dir/scenarios/published/$2.yaml gpu=$work/$1.yaml
  local requests measured predicted
  awk 'NR == 1 || NR % 2 == 0' "$table" > "$work/half-$1.csv"
  cp "$source_dir/scenarios/gpus/h200.yaml" "$gpu"
  "$kvcap" calibrate serving "$scenario" --table "$work/half-$1.csv" --name kvcap-engine ||
    return 1
  "$kvcap" calibrate serving "$scenario" --table "$work/half-$1.csv" --name kvcap-engine \
    --profile >> "$gpu" || return 1
  echo "requests  measured tok/s  predicted tok/s  error"
  awk 'NR > 1 && NR % 2 == 1' "$table" | while IFS=, read -r requests measured _; do
    predicted=$("$kvcap" run "$scenario" --set "pools.decode.gpu=$gpu" \
      --set pools.decode.profile=kvcap-engine --set "workload.closed.concurrency=$requests" \
      --json | sed -n 's/^ *"output_tok_s": \([0-9.]*\).*/\1/p' | head -n 1)
    awk -v n="$requests" -v m="$measured" -v p="$predicted" \
      'BEGIN { printf "%8d %15.1f %16.1f %+6.2f %%\n", n, m, p, m ? 100 * (p / m - 1) : 0 }'
  done
}

case ${1:-} in
  build) build ;;
  sanitizer) sanitizer "$2" ;;
  half) half "$2" "$3" ;;
  *) echo "parts.sh: build, sanitizer or half"; exit 2 ;;
esac
