#!/usr/bin/env bash
# Every shell script of the tree passes shellcheck.
set -eu

command -v shellcheck >/dev/null || { echo "shellcheck is not installed"; exit 77; }
cd "$KVCAP_SOURCE"
mapfile -t scripts < <(
  find . -name .git -prune -o -path ./build -prune -o -name '*.sh' -print | sort
  if [ -f .ci/run ]; then echo .ci/run; fi
)
[ "${#scripts[@]}" -gt 1 ] || { echo "no scripts found"; exit 1; }
shellcheck --shell=bash "${scripts[@]}"
echo "${#scripts[@]} scripts pass shellcheck"
