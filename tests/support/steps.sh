#!/usr/bin/env bash
# Shared by the test scripts that build and run presets; sourced, not run.
set -eu

# Every build and test run uses this many processes.
jobs="${KVCAP_JOBS:-$(nproc)}"

# say TEXT...: a heading with the seconds since the script began.
say() { printf '\n=== %s (%d s)\n' "$*" "$SECONDS"; }

# What build_preset adds to a preset: KC_CUDA=ON compiles the GPU kernels where nvcc is found, which
# takes minutes and needs no GPU.
configure=()

# build_preset PRESET [TARGET...]
build_preset() {
  local preset="$1"
  shift
  say "build: $preset"
  cmake --preset "$preset" --log-level=NOTICE "${configure[@]}"
  cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"} >/dev/null
}

# test_build PRESET CTEST_OPTION...: fails when no test matches.
test_build() {
  local preset="$1"
  shift
  say "test: $preset $*"
  ctest --test-dir "build/$preset" --parallel "$jobs" --output-on-failure --no-tests=error "$@"
}
