#!/usr/bin/env bash
# The quick tests: installs what is missing, builds the release and the sanitizer preset, runs every
# test that is not marked `ci` or `soak`. At most 12 minutes on 2 cores.
#
#   tests/run.sh
set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash tests/support/install.sh
# shellcheck source=tests/support/steps.sh
. tests/support/steps.sh

build_preset release
test_build release --label-exclude 'ci|soak'

# The same code under AddressSanitizer and UndefinedBehaviorSanitizer, fault points compiled in.
build_preset asan
test_build asan --label-regex 'unit|fault|fuzz|golden' --label-exclude 'ci|soak'

say "quick tests passed"
