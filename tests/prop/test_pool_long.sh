#!/usr/bin/env bash
# The pool against its naive twin for 2 * 10^7 operations, and 10^5 faults of every class, with wide
# and with narrow tags.
# label: ci
# timeout: 600
set -eu
tests="${KVCAP_BUILD:?set KVCAP_BUILD to the build folder}/tests"
[ -x "$tests/test_pool_random" ] || { echo "the pool's tests are not built"; exit 77; }
"$tests/test_pool_random" --ops 20000000 --seeds 256
"$tests/test_pool_inject" --faults 100000 --seed 2
"$tests/test_pool_random_narrow" --ops 5000000 --seeds 128
"$tests/test_pool_inject_narrow" --faults 100000 --seed 3
