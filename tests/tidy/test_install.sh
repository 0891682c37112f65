#!/usr/bin/env bash
# The program builds without its tests and with shared libraries, installs, and the installed copy
# finds its models, GPUs and examples with the source tree out of reach.
# label: ci
# timeout: 300
set -eu

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/source"
tar -C "$KVCAP_SOURCE" --exclude=./build --exclude=./.git -cf - . | tar -C "$scratch/source" -xf -

quietly() { "$@" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }; }
quietly cmake -S "$scratch/source" -B "$scratch/build" -DKC_TESTS=OFF -DKC_WARNINGS=ON \
  -DKC_STATIC_LIBRARIES=OFF \
  -DCMAKE_INSTALL_PREFIX="$scratch/prefix"
quietly cmake --build "$scratch/build" --parallel "$(nproc)"
quietly cmake --install "$scratch/build"
rm -rf "$scratch/source" "$scratch/build" "$scratch/log"
[ ! -e "$scratch/prefix/share/kvcap/tests" ] || { echo "tests were installed"; exit 1; }

cd /
kvcap="$scratch/prefix/bin/kvcap"
"$kvcap" version
"$kvcap" fit --model llama-3.1-8b --gpu h100 --json | jq --exit-status '.fits == true' >/dev/null
examples="$scratch/prefix/share/kvcap/scenarios/examples"
"$kvcap" run "$examples/kimi-k2.6-decode-8xh200.yaml" --json |
  jq --exit-status '.requests_completed == .requests_total' >/dev/null
"$kvcap" run "$examples/llama-3.1-8b-h100.yaml" --json |
  jq --exit-status '.requests_total > 0' >/dev/null # its trace is installed too
grep -q '^\.TH KVCAP' "$scratch/prefix/share/man/man1/kvcap.1"
bash -n "$scratch/prefix/share/bash-completion/completions/kvcap"
echo "the installed program runs on its own"
