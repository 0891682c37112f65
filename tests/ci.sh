#!/usr/bin/env bash
# The longer tests, after tests/run.sh: tests marked `ci` (determinism matrix, installation, long
# property tests), property tests under the sanitizers, threads under theirs, everything with the
# slow invariants, a build without asserts, clang, fuzzers.
# Together with tests/run.sh at most 35 minutes on 2 cores.
#
#   tests/ci.sh          KVCAP_FUZZ_RUNS sets the inputs of each fuzzer and trace format (100000)
set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash tests/support/install.sh
# shellcheck source=tests/support/steps.sh
. tests/support/steps.sh

configure=(-DKC_CUDA=ON) # the GPU kernels are always compiled where nvcc is
build_preset release
configure=()
test_build release --label-regex '^ci$'

build_preset asan
test_build asan --label-regex 'prop' --label-exclude 'ci|soak'

build_preset check
test_build check --label-regex 'unit|prop|fault' --label-exclude 'ci|soak'

# Threads of a sweep.
build_preset tsan test_point test_sweep
test_build tsan --tests-regex '^unit\.(point|sweep)$'

# Asserts compiled out: nothing may depend on one being evaluated.
build_preset coverage
test_build coverage --label-regex 'unit' --label-exclude 'ci|soak'

# clang, libFuzzer, sanitizers. Each fuzzer starts from its corpus and keeps new inputs to itself.
build_preset fuzz
test_build fuzz --label-regex 'unit|fuzz' --label-exclude 'ci|soak'
shopt -s nullglob
fuzzers=(build/fuzz/tests/fuzz_*)
[ "${#fuzzers[@]}" -gt 0 ] || { echo "no fuzzers were built"; exit 1; }
run_fuzzer() { # NAME [FORMAT]: of a target that covers several trace formats, one of them
  local name="$1" log="$1${2:+-$2}"
  say "fuzz: $log"
  mkdir -p "build/fuzz/found/$log"
  # A number of inputs and not a time, so that the same tree gives the same result.
  env ${2:+KVCAP_FUZZ_FORMAT="$2"} "build/fuzz/tests/$name" -seed=1 -max_len=4096 \
    -runs="${KVCAP_FUZZ_RUNS:-100000}" -timeout=20 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/$log-" "build/fuzz/found/$log" \
    "tests/fuzz/corpus/${name#fuzz_}" >"build/fuzz/$log.log" 2>&1 ||
    { tail -n 60 "build/fuzz/$log.log"; exit 1; }
  grep -E 'number_of_executed_units|average_exec_per_sec| inputs, ' "build/fuzz/$log.log"
}
for fuzzer in "${fuzzers[@]}"; do run_fuzzer "$(basename "$fuzzer")"; done
for format in azure vidur; do run_fuzzer fuzz_trace "$format"; done
for format in mooncake bailian servegen kvcap-trace; do run_fuzzer fuzz_jsonl "$format"; done
for format in burstgpt tracelab tracelab-rounds weka llmservingsim benchlog bench-result aiperf; do
  run_fuzzer fuzz_reader "$format"
done

say "all tests passed"
