#!/usr/bin/env bash
# The pool against its naive twin for 10^8 operations, and 10^6 faults of every class, with wide and
# with narrow tags.
# label: soak
# timeout: 3000
set -eu
tests="${KVCAP_BUILD:?set KVCAP_BUILD to the build folder}/tests"
[ -x "$tests/test_pool_random" ] || { echo "the pool's tests are not built"; exit 77; }
"$tests/test_pool_random" --ops 100000000 --seeds 256
"$tests/test_pool_inject" --faults 1000000 --seed 2
"$tests/test_pool_random_narrow" --ops 20000000 --seeds 128
"$tests/test_pool_inject_narrow" --faults 100000 --seed 3
