#!/usr/bin/env bash
# Puts what run.sh needs into one folder, for a GPU machine on which nothing can be installed:
#
#   tests/gpu/pack.sh FOLDER [BUILD]     BUILD: where it was built (default build/gpu, by run.sh's
#                                        own `build` part: program, module, emulator and tests)
#   KVCAP_BUILD=FOLDER tests/gpu/run.sh OUT      there
#
# A module that does not fit that machine's CUDA is built again there, by nvcc alone.
set -eu

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:?where to}
build=${2:-$source_dir/build/gpu}
mkdir -p "$folder/tests"
cp "$build/kvcap" "$folder/"
[ ! -e "$build/kvcap_cuda.so" ] || cp "$build/kvcap_cuda.so" "$folder/"
for file in kvcap_emu.so engine_emulated engine_decisions engine_faults \
  test_emu_{rows,pages,decode,prefill,product}; do
  [ ! -e "$build/tests/$file" ] || cp "$build/tests/$file" "$folder/tests/"
done
strip --strip-debug "$folder/kvcap" "$folder"/tests/* # symbols for people, and most of the bytes
library=$(ldconfig -p | sed -n 's/.*libcmocka\.so\.0 .*=> //p' | head -n 1)
[ -z "$library" ] || cp "$library" "$folder/tests/"
du -sh "$folder"
