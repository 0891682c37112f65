#!/usr/bin/env bash
# The program links no CUDA and no MPI, starts without a driver, and says what is missing when a GPU
# is asked for: exit status 7, one sentence, what to do. Modules are opened when asked for.
set -eu

kvcap=${KVCAP:?set by ctest}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

needed=$(readelf -d "$kvcap" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
if echo "$needed" | grep -iE 'cuda|cublas|nvidia|mpi'; then echo "is linked"; exit 1; fi
[ "$(echo "$needed" | wc -w)" -ge 1 ] || { echo "readelf found nothing"; exit 1; }
if nm -D --undefined-only "$kvcap" | grep -E ' cu(da|blas)?[A-Z]'; then
  echo "CUDA is called"
  exit 1
fi

# expect STATUS WORDS COMMAND...
expect() {
  local status=$1 words=$2 got=0
  shift 2
  "$@" > "$work/out" 2> "$work/err" || got=$?
  [ "$got" = "$status" ] || { echo "$*: status $got, expected $status"; cat "$work/err"; exit 1; }
  grep -q -- "$words" "$work/err" || { echo "$*: said"; cat "$work/err"; exit 1; }
  [ "$(wc -l < "$work/err")" = 1 ] || { echo "$*: more than a sentence"; exit 1; }
}

"$kvcap" version > "$work/version"
expect 7 'cannot be opened.*--device cpu' env KVCAP_MODULE=/nowhere/kvcap_cuda.so "$kvcap" \
  engine check --device cuda
for command in bench "rank kimi-k2.6"; do # have no --device
  # shellcheck disable=SC2086 # words of the command
  expect 7 'cannot be opened' env KVCAP_MODULE=/nowhere/kvcap_cuda.so "$kvcap" engine $command
  if grep -q -- --device "$work/err"; then cat "$work/err"; exit 1; fi
done
expect 7 'is not a module of this version' env KVCAP_MODULE=libm.so.6 "$kvcap" engine check \
  --device cuda
if [ -e /dev/nvidiactl ]; then exit 0; fi
for command in "check --device cuda" "bench" "rank kimi-k2.6" \
  "run scenarios/examples/llama-3.1-8b-starved.yaml --device cuda"; do
  # shellcheck disable=SC2086 # words of the command
  (cd "$KVCAP_SOURCE" && expect 7 'a GPU was asked for' "$kvcap" engine $command)
  case $command in
    *--device*) grep -q -- ', or use --device cpu$' "$work/err" ;;
    *) ! grep -- --device "$work/err" ;;
  esac || { echo "engine $command: its advice"; cat "$work/err"; exit 1; }
done
