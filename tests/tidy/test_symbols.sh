#!/usr/bin/env bash
# The libraries below sim/cli hold no writable data: no mutable globals, no function-static state.
# nm types: b B = zeroed data, d D = initialised data, C = common. Sanitizers and coverage add
# their own, so such builds are skipped. Read-only tables of pointers lie in .data.rel.ro, which the
# linker makes read-only before main; nm calls them d as well, so those are told apart by section.
set -eu

for option in KC_SANITIZE:STRING KC_COVERAGE:BOOL; do
  value="$(sed -n "s/^$option=//p" "$KVCAP_BUILD/CMakeCache.txt")"
  case "$value" in
    '' | OFF) ;;
    *) echo "instrumented build (${option%%:*}=$value)"; exit 77 ;;
  esac
done

shopt -s nullglob
# Not the emulator of GPU kernels, which tests alone link: threadIdx and its kin must be reachable
# from code that has no parameter for them, so it keeps one pointer a host thread.
libraries=("$KVCAP_BUILD"/lib{kernels_{formats,ops,ref},engine_*,sim_*,traces_*}.a)
[ "${#libraries[@]}" -gt 0 ] || { echo "no libraries in $KVCAP_BUILD"; exit 1; }

# System V format: name|value|class|type|size|line|section
offenders="$(nm --format=sysv "${libraries[@]}" | tr -d ' ' |
  awk -F'|' '/\.o\]:$/ { file = $0; sub("Symbolsfrom.*/", "", file) }
    $3 ~ /^[bBdDC]$/ && $7 !~ /^\.data\.rel\.ro/ { print file, $1, "(" $3 ", " $7 ")" }')"
if [ -n "$offenders" ]; then
  echo "writable symbols below sim/cli; pass state in a struct instead:"
  echo "$offenders"
  exit 1
fi
echo "${#libraries[@]} libraries, no writable symbols"
