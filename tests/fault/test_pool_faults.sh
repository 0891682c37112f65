#!/usr/bin/env bash
# The canary of the detectors of pool, table and prefix caches: each fault point switches one
# detector off, and then a property test has to fail, by itself or by a failed assertion. A test
# that still passes would not notice if the detector broke. Without a fault, all must pass.
# timeout: 300
set -u
tests="${KVCAP_BUILD:?set KVCAP_BUILD to the build folder}/tests"
[ -x "$tests/test_pool_random" ] || { echo "the pool's tests are not built"; exit 77; }

run_all() {
  "$tests/test_pool_random" --ops 64000 --seeds 64 &&
    "$tests/test_pool_inject" --faults 200 &&
    "$tests/test_table_random" 2000 &&
    "$tests/test_cache_random" --ops 20000 --seeds 64 &&
    "$tests/test_cache_inject" --faults 200
}

if ! run_all >/dev/null 2>&1; then
  echo "the tests fail although no fault is armed"
  exit 1
fi
if KVCAP_FAULT=pool-canary run_all >/dev/null 2>&1; then
  echo "this build has no fault points (KC_FAULTS is off)"
  exit 77
fi

status=0
for point in pool-skip-range-check pool-skip-state-check pool-skip-tag-check pool-skip-owner-check \
  pool-skip-checksum pool-skip-stack-check pool-skip-bump pool-skip-rollback pool-skip-balance \
  pool-skip-quarantine pool-skip-index-check pool-skip-refs-check table-skip-touch \
  cache-skip-key-check; do
  if KVCAP_FAULT="$point" run_all >/dev/null 2>&1; then
    echo "$point: NOT NOTICED"
    status=1
  else
    echo "$point: noticed"
  fi
done
exit "$status"
