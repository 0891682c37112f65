#!/usr/bin/env bash
# The prefix caches against their naive twins for 10^7 operations, and 60,000 faults of every class
# in shared pages, with wide and with narrow tags.
# label: ci
# timeout: 600
set -eu
tests="${KVCAP_BUILD:?set KVCAP_BUILD to the build folder}/tests"
[ -x "$tests/test_cache_random" ] || { echo "the caches' tests are not built"; exit 77; }
"$tests/test_cache_random" --ops 10000000 --seeds 2000
"$tests/test_cache_inject" --faults 60000 --seed 2
"$tests/test_cache_random_narrow" --ops 2000000 --seeds 500
"$tests/test_cache_inject_narrow" --faults 20000 --seed 3
