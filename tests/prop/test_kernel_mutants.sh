#!/usr/bin/env bash
# Breaks the kernels on purpose, one line at a time, and expects a test in the emulator to fail each
# time: kernels_emu/mutants.txt. The unbroken kernels must pass first. With an argument, only the
# mutants whose names hold it.
# label: soak
# timeout: 1800
set -eu

source_dir=${KVCAP_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
cxx=${CXX:-c++}
cc=${CC:-cc}
command -v "$cxx" >/dev/null || { echo "skipped: no C++ compiler"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tests=$source_dir/tests/prop/kernels_emu
mkdir -p "$work/object" "$work/mutant/kernels"

compile_c() { "$cc" -std=c17 -O1 -D_GNU_SOURCE -ffp-contract=off -I"$source_dir" -I"$tests" "$@"; }
compile_cu() {
  "$cxx" -x c++ -std=c++17 -O1 -DKC_EMU -D_GNU_SOURCE -ffp-contract=off "$@"
}

for file in "$source_dir"/kernels/{emu,ops,ref,cuda,formats}/*.c \
  "$source_dir"/engine/base/{random,check}.c "$tests"/*.c; do
  compile_c -c "$file" -o "$work/object/$(basename "$file" .c).o"
done
for file in "$source_dir"/kernels/cuda/*.cu; do
  case $file in *_device.cu | *_sm90a.cu) continue ;; esac
  compile_cu -I"$source_dir" -c "$file" -o "$work/object/$(basename "$file").o"
done

# link TEST [OBJECTS]: the test with these objects in place of those of the same name.
link() {
  local test=$1 objects=() object
  shift
  for object in "$work"/object/*.o; do
    case $(basename "$object") in test_*) continue ;; esac
    [ -e "$work/changed/$(basename "$object")" ] || objects+=("$object")
  done
  "$cc" "$work/object/$test.o" "${objects[@]}" "$@" -lcmocka -lm -lstdc++ -o "$work/$test"
}

for test in test_emu_decode test_emu_prefill test_emu_product test_emu_pages test_emu_rows; do
  link "$test"
  "$work/$test" >"$work/log" 2>&1 || { cat "$work/log"; echo "FAILED unbroken: $test"; exit 1; }
done

# A changed header changes every kernel that the test could run; only one is needed to die.
kernels_of() {
  case $1:$2 in
    attention.cuh:test_emu_decode) echo decode.cu ;;
    words.cuh:test_emu_rows) echo elementwise.cu ;;
    *) echo "$1" ;;
  esac
}

pattern=${1:-}
count=0
survivors=0
run_mutant() { # NAME TEST FILE FROM TO
  local name=$1 test=$2 file=$3 from=$4 to=$5 text kernel
  text=$(cat "$source_dir/kernels/cuda/$file")
  if [ "${text/"$from"/}" = "$text" ]; then
    echo "FAILED: $name: $file has no such line"
    survivors=$((survivors + 1))
    return
  fi
  rm -rf "$work/mutant/kernels" "$work/changed"
  mkdir -p "$work/mutant/kernels/cuda" "$work/changed"
  printf '%s\n' "${text/"$from"/"$to"}" >"$work/mutant/kernels/cuda/$file"
  kernel=$(kernels_of "$file" "$test")
  [ "$kernel" = "$file" ] ||
    cp "$source_dir/kernels/cuda/$kernel" "$work/mutant/kernels/cuda/$kernel"
  compile_cu -I"$work/mutant" -I"$source_dir" -c "$work/mutant/kernels/cuda/$kernel" \
    -o "$work/changed/$kernel.o"
  link "$test" "$work/changed/$kernel.o"
  count=$((count + 1))
  if timeout 300 "$work/$test" >"$work/log" 2>&1; then
    echo "SURVIVED: $name"
    survivors=$((survivors + 1))
  else
    echo "killed: $name: $(grep -m1 -o 'seed .*' "$work/log" || tail -n1 "$work/log")"
  fi
}

name='' test='' file='' from='' to=''
flush() {
  if [ -n "$from" ] && [[ $name == *"$pattern"* ]]; then
    run_mutant "$name" "$test" "$file" "${from%$'\n'}" "${to%$'\n'}"
  fi
  name='' test='' file='' from='' to=''
}
while IFS= read -r line || [ -n "$line" ]; do
  case $line in
    '#'*) ;;
    '') flush ;;
    -*) from+=${line#-}$'\n' ;;
    +*) to+=${line#+}$'\n' ;;
    *) if [ -z "$name" ]; then name=$line; else read -r test file <<<"$line"; fi ;;
  esac
done <"$tests/mutants.txt"
flush

echo "$count mutants, $survivors not killed"
[ "$survivors" -eq 0 ] && { [ "$count" -ge 12 ] || [ -n "$pattern" ]; }
