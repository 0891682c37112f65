#!/usr/bin/env bash
# The longer tests, after tests/run.sh: tests marked `ci` (determinism matrix, installation, long
# property tests), property tests under the sanitizers, everything with the slow invariants, a build
# without asserts, clang, fuzzers.
# Together with tests/run.sh at most 35 minutes on 2 cores.
#
#   tests/ci.sh          KVCAP_FUZZ_RUNS sets the inputs of each fuzzer (100000)
set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash tests/support/install.sh
# shellcheck source=tests/support/steps.sh
. tests/support/steps.sh

build_preset release
test_build release --label-regex '^ci$'

build_preset asan
test_build asan --label-regex 'prop' --label-exclude 'ci|soak'

build_preset check
test_build check --label-regex 'unit|prop|fault' --label-exclude 'ci|soak'

# Asserts compiled out: nothing may depend on one being evaluated.
build_preset coverage
test_build coverage --label-regex 'unit' --label-exclude 'ci|soak'

# clang, libFuzzer, sanitizers. Each fuzzer starts from its corpus and keeps new inputs to itself.
build_preset fuzz
test_build fuzz --label-regex 'unit|fuzz' --label-exclude 'ci|soak'
shopt -s nullglob
fuzzers=(build/fuzz/tests/fuzz_*)
[ "${#fuzzers[@]}" -gt 0 ] || { echo "no fuzzers were built"; exit 1; }
for fuzzer in "${fuzzers[@]}"; do
  name="$(basename "$fuzzer")"
  say "fuzz: $name"
  mkdir -p "build/fuzz/found/$name"
  # A number of inputs and not a time, so that the same tree gives the same result.
  "$fuzzer" -seed=1 -max_len=4096 -runs="${KVCAP_FUZZ_RUNS:-100000}" -timeout=20 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/$name-" \
    "build/fuzz/found/$name" "tests/fuzz/corpus/${name#fuzz_}" >"build/fuzz/$name.log" 2>&1 ||
    { tail -n 60 "build/fuzz/$name.log"; exit 1; }
  grep -E 'number_of_executed_units|average_exec_per_sec' "build/fuzz/$name.log"
done

say "all tests passed"
