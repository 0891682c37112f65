#!/usr/bin/env bash
# The tests of the emulated kernels once more, with ten times the scenes and thread orders.
# label: soak
# timeout: 1800
set -eu

build=${KVCAP_BUILD:?the build folder}
[ -x "$build/tests/test_emu_decode" ] || { echo "skipped: no emulator in this build"; exit 77; }
for test in rows pages decode prefill product; do
  KVCAP_LAB_SEEDS=200 "$build/tests/test_emu_$test"
done
