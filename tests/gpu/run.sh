#!/usr/bin/env bash
# Everything that is to be seen on a GPU, in one command:
#
#   tests/gpu/run.sh [OUT]        OUT: folder for the results (default $OUT, then build/gpu-results)
#
#   KVCAP_GPU_MINUTES   minutes for all of it (default 25); parts that time does not allow are named
#   KVCAP_BUILD         a build to take the program and its tests from, or a folder made by pack.sh
#                       where nothing can be installed (default build/gpu, which is built first)
#   KVCAP_GPU_EMULATE   1: take the emulator even where there is a GPU
#
# Parts run one after another; one that fails is reported and the others run all the same. Results:
#   report.txt          what was seen, readable, with date, card and driver; the bars beside it
#   summary.csv         a line for each part
#   bench.csv, rank-*.csv, results.db      figures
#   serve-8b.jsonl                         when each request of the replay was answered
#   logs.tar.gz         output of every part, and the files that `kvcap calibrate` read
# Exit status 1 when a part failed.
#
# Without a GPU the same parts run on the emulator with tiny shapes: it shows that this script and
# what it calls work, and no figure of it is one of a GPU. Everything it writes says EMULATED.
set -u

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=${1:-${OUT:-$source_dir/build/gpu-results}}
minutes=${KVCAP_GPU_MINUTES:-25}
build=${KVCAP_BUILD:-$source_dir/build/gpu}
begin=$(date +%s)
mkdir -p "$out/work" || exit 4
out=$(cd "$out" && pwd)
work=$out/work
report=$out/report.txt
summary=$out/summary.csv
failed=0
: > "$report"
echo "part,status,seconds" > "$summary"

emulated=0
if [ "${KVCAP_GPU_EMULATE:-0}" = 1 ] ||
  { [ ! -e /dev/nvidiactl ] && ! nvidia-smi -L > "$work/gpus.log" 2>&1; }; then
  emulated=1
fi

say() { printf '%s\n' "$*" | tee -a "$report"; }
left() { echo $((minutes * 60 - ($(date +%s) - begin))); }

# part NAME SECONDS_AT_MOST COMMAND...: runs it with a limit, keeps its output, tells how it ended.
part() {
  local name=$1 limit=$2 status=0 start seconds
  shift 2
  start=$(date +%s)
  if [ "$(left)" -lt 15 ]; then
    say "== $name: left out, the time is up"
    echo "$name,left out,0" >> "$summary"
    return 0
  fi
  [ "$(left)" -ge "$limit" ] || limit=$(left)
  timeout --kill-after=5 "$limit" "$@" > "$work/$name.log" 2>&1 || status=$?
  seconds=$(($(date +%s) - start))
  case $status in
    0) say "== $name: passed in $seconds s"; echo "$name,passed,$seconds" >> "$summary" ;;
    77) say "== $name: skipped ($(tail -n 1 "$work/$name.log"))"
      echo "$name,skipped,$seconds" >> "$summary" ;;
    124 | 137) say "== $name: FAILED, cut off after $seconds s"
      echo "$name,cut off,$seconds" >> "$summary"; failed=1 ;;
    *) say "== $name: FAILED with status $status"
      tail -n 12 "$work/$name.log" | sed 's/^/   /' | tee -a "$report"
      echo "$name,failed $status,$seconds" >> "$summary"; failed=1 ;;
  esac
  return $status
}

# Lines of a part's output that belong into the report.
show() { [ ! -s "$work/$1.log" ] || sed 's/^/   /' "$work/$1.log" >> "$report"; }

# ---- what is here ----

if [ $emulated = 1 ]; then
  say "EMULATED: no GPU was found; kernels run on the CPU, and no figure below is one of a GPU"
else
  say "GPU: $(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm \
    --format=csv,noheader | head -n 1)"
fi
say "date: $(date -u +%Y-%m-%dT%H:%M:%SZ)  version: $(cat "$source_dir/VERSION")  minutes: $minutes"

# ---- building ----

kvcap=$build/kvcap
parts=$source_dir/tests/gpu/parts.sh
export source_dir build work out kvcap
# True when the module opens on this machine's driver and libraries.
usable() {
  KVCAP_MODULE="$build/kvcap_cuda.so" "$kvcap" engine bench --tiny --runs 1 --suite stream \
    > "$work/usable.log" 2>&1
  [ $? != 7 ]
}
if [ ! -x "$kvcap" ] || { [ $emulated = 0 ] && ! usable; }; then
  bash "$source_dir/tests/support/install.sh" > "$work/install.log" 2>&1 || true
  part build 900 bash "$parts" build
fi
[ -x "$kvcap" ] || { say "no program: build it and set KVCAP_BUILD"; exit 1; }
export LD_LIBRARY_PATH="$build/tests:${LD_LIBRARY_PATH:-}"
if [ $emulated = 1 ]; then
  export KVCAP_MODULE="$build/tests/kvcap_emu.so" KVCAP_EMU_MIB=48
else
  export KVCAP_MODULE="$build/kvcap_cuda.so"
fi
[ -e "$KVCAP_MODULE" ] || { say "no module $KVCAP_MODULE"; exit 1; }
export KVCAP_BUILD=$build KVCAP_DATA="$source_dir/scenarios"

# ---- is it right ----

part check 120 "$kvcap" engine check --device cuda
show check

seeds=5 scale=8 # scenes a test, and how many times the emulator's shapes
if [ $emulated = 1 ]; then seeds=1 scale=1; fi
for test in rows pages decode prefill product; do
  [ -x "$build/tests/test_emu_$test" ] || { say "== ops-$test: skipped, not built"; continue; }
  part "ops-$test" 120 env KVCAP_LAB_MODULE="$KVCAP_MODULE" KVCAP_LAB_SEEDS=$seeds \
    KVCAP_LAB_SCALE=$scale \
    "$build/tests/test_emu_$test"
done
if [ $emulated = 0 ] && [ -x "$build/tests/engine_emulated" ]; then
  part passes 120 "$build/tests/engine_emulated"
  show passes
fi
for test in decisions faults; do
  if [ $emulated = 1 ] || [ ! -x "$build/tests/engine_$test" ]; then continue; fi
  part "$test" 120 "$build/tests/engine_$test" --runs 100 --module "$KVCAP_MODULE"
  show "$test"
done

scenario=$source_dir/scenarios/examples/llama-3.1-8b-starved.yaml
requests=200
[ $emulated = 0 ] || requests=1
part replay 240 "$kvcap" engine run "$scenario" --set "workload.limit=$requests" --device cuda
show replay
if [ $emulated = 0 ]; then
  part replay-wall 120 "$kvcap" engine run "$scenario" --set "workload.limit=$requests" \
    --device cuda --clock wall
  show replay-wall
fi

# The engine with the shapes of a model: MLA and experts on the emulator; Llama 8B on a GPU, where
# the simulator's own answer stands beside what was measured.
if [ $emulated = 1 ]; then
  part serve-tiny 120 "$kvcap" engine run "$scenario" --shapes scenario --device cuda \
    --clock wall --requests "$work/serve-tiny.jsonl" \
    --set "model=$source_dir/tests/gpu/tiny-rank.json" --set workload.limit=1 \
    --set pools.serve.scheduler.max_model_len=4096 --set pools.serve.parallel.tensor=2
  show serve-tiny
  part serve-tiny-marked 20 grep -c '"emulated": true' "$work/serve-tiny.jsonl"
else
  # Its first half of requests calibrates, the other half is predicted.
  serve=(--set pools.serve.gpu=h200 --set "workload.limit=100")
  part serve-8b 240 "$kvcap" engine run "$scenario" --shapes scenario --device cuda --clock wall \
    --requests "$out/serve-8b.jsonl" "${serve[@]}"
  part serve-8b-predicted 60 "$kvcap" run "$scenario" "${serve[@]}"
  show serve-8b
  show serve-8b-predicted
  if [ -s "$out/serve-8b.jsonl" ]; then
    "$kvcap" run "$scenario" "${serve[@]}" --show > "$work/serve-8b.yaml"
    part serve-8b-half 120 "$kvcap" calibrate serving "$work/serve-8b.yaml" \
      --log "$out/serve-8b.jsonl" --fit-first 50
    show serve-8b-half
  fi
fi

# ---- how fast is it ----

bench=(--csv "$work/csv" --db "$out/results.db")
if [ $emulated = 1 ]; then
  part bench 120 "$kvcap" engine bench --tiny --runs 1 "${bench[@]}"
else
  part bench 300 "$kvcap" engine bench --runs 11 --minutes $(((minutes + 4) / 5)) "${bench[@]}"
fi
show bench
[ ! -e "$work/csv/bench.csv" ] || cp "$work/csv/bench.csv" "$out/"

# ---- what fits ----

rank() { # NAME SECONDS MODEL ARGUMENTS...
  local name=$1 seconds=$2
  shift 2
  part "$name" "$seconds" "$kvcap" engine rank "$@" --db "$out/results.db" --csv "$work/$name"
  show "$name"
}
if [ $emulated = 1 ]; then
  rank rank-tiny 120 "$source_dir/tests/gpu/tiny-rank.json" --tensor 2 --runs 1 --batch-max 2 \
    --input 60 --output 8 --weights routed_experts=int4-g32
  kimi=rank-tiny
else
  rank rank-kimi 300 kimi-k2.6 --tensor 8
  rank rank-llama-8b 120 llama-3.1-8b --tensor 1 --input 1000 --output 100
  kimi=rank-kimi
fi
for format in bf16 fp8; do
  [ ! -e "$work/$kimi/rank-$format.csv" ] || cp "$work/$kimi/rank-$format.csv" "$out/"
done

# ---- what is missing in memory and order ----

if [ $emulated = 0 ]; then
  part memcheck 240 bash "$parts" sanitizer memcheck
  part racecheck 300 bash "$parts" sanitizer racecheck
else
  say "== memcheck, racecheck: the emulator watches shared memory and order by itself"
fi

# ---- half of it predicts the other half ----

for file in "$work"/csv/{gemm,generation_attention,context_attention,generation_mla,moe}.csv; do
  [ -e "$file" ] || continue
  name=calibrate-$(basename "$file" .csv)
  if [ $emulated = 1 ]; then # two rows of nothing are no fit: only that the file is read
    part "$name" 20 bash -c "head -n 2 '$file' | grep -q latency_ms"
  else
    part "$name" 60 "$kvcap" calibrate kernels "$file" --gpu h200 --hold-out 50
  fi
  show "$name"
done
if [ $emulated = 0 ]; then
  [ ! -e "$out/rank-bf16.csv" ] || part half-bf16 60 bash "$parts" half bf16 t02-kimi-decode-bf16
  [ ! -e "$out/rank-fp8.csv" ] || part half-fp8 60 bash "$parts" half fp8 t03-kimi-decode-fp8
  show half-bf16
  show half-fp8
fi

# ---- the bars ----

bars() {
  awk -F, -v emulated=$emulated '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["status"] != 0 { next }
    {
      what = $at["operation"] " " $at["format"]; share = 100 * $at["ceiling_share"]
      tflops = $at["tflop_per_s"]; us = $at["cold_us"]
    }
    $at["operation"] == "empty_launch" { empty = us }
    what ~ /^read_stream/ && $at["gb_per_s"] > stream { stream = $at["gb_per_s"] }
    $at["operation"] == "generation_attention" && $at["heads"] == 32 && $at["context"] == 8192 &&
      ($at["batch"] == 32 || $at["batch"] == 64) { decode[$at["format"], $at["batch"]] = share
                                                   time[$at["format"], $at["batch"]] = us }
    $at["operation"] == "gemm" && $at["m"] >= 2048 && tflops > best[$at["format"]] {
      best[$at["format"]] = tflops
    }
    what == "gemm int4_g128" { direct[$at["m"]] += us; matrices[$at["m"]] += 1 }
    what == "gemm_dequantised int4_g128" { dense[$at["m"]] += us; matrices[$at["m"]] -= 1 }
    $at["operation"] == "tag_check" && $at["entries"] == 65536 { tags = us; warm = $at["warm_us"] }
    END {
      if (emulated) { print "EMULATED: no bar applies"; exit }
      printf "read ceiling                           %8.1f GB/s\n", stream
      for (b = 32; b <= 64; b += 32) {
        printf "decode bf16 batch %d at 8k   bar 85 %%  %8.1f %% of the ceiling\n", b,
               decode["bfloat16", b]
        printf "decode fp8  batch %d at 8k   bar 70 %%  %8.1f %%; %.2f of the bf16 time\n", b,
               decode["fp8", b], time["bfloat16", b] ? time["fp8", b] / time["bfloat16", b] : 0
      }
      printf "cuBLASLt bf16                 bar 650   %8.1f TFLOP/s\n", best["bfloat16"]
      printf "cuBLASLt fp8                  bar 950   %8.1f TFLOP/s\n", best["fp8"]
      for (m in dense) {
        if (matrices[m] == 0 && dense[m] <= direct[m] && (pays == "" || m + 0 < pays)) pays = m + 0
      }
      printf "INT4 by way of BF16 pays from m = %s on; KC_DENSE_ROWS should be near it\n", pays
      printf "tag check of 64k entries      bar 5 us  %8.2f us cold, %.2f warm;", tags, warm
      printf " an empty launch %.2f\n", empty
    }' "$out/bench.csv"
}
if [ -e "$out/bench.csv" ]; then
  say ""
  say "bars"
  bars 2>&1 | tee -a "$report"
  [ $emulated = 1 ] || grep "layer's matrices" "$work/bench.log" | tee -a "$report"
fi

tar -C "$out" -czf "$out/logs.tar.gz" work && rm -rf "$work"
count() { grep -cE "$1" "$summary"; }
say ""
say "$(count ',passed,') parts passed, $(count ',(failed|cut off)') failed," \
  "$(count ',(left out|skipped)') left out; $(($(date +%s) - begin)) s; results in $out"
exit $failed
