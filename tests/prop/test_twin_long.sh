#!/usr/bin/env bash
# The product against its plain twin: thousands of random runs of every kind (KVCAP_TWIN_RUNS says
# how many; 10,000 take about ten minutes), and more of the Mooncake trace than the quick run does.
# label: ci
# timeout: 900
set -eu
tests="${KVCAP_BUILD:?set KVCAP_BUILD to the build folder}/tests"
[ -x "$tests/test_twin" ] || { echo "the twin's tests are not built"; exit 77; }
for kind in 0 1 2 3 4 5; do
  "$tests/test_twin" --kind "$kind" --count "${KVCAP_TWIN_RUNS:-3000}"
done
"$tests/test_twin_mooncake" --rows 1500 || [ $? = 77 ]
