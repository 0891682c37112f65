#!/usr/bin/env bash
# Kernel times in a results database are what `kvcap calibrate kernels` reads from CSV files: the
# same rows give the same profile. Figures of an emulated device are refused, whatever they say.
set -eu
# shellcheck source=tests/support/golden.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/golden.sh"
needs sqlite3

"$kvcap" run "$source_root/scenarios/examples/llama-3.1-8b-starved.yaml" \
  --set workload.limit=2 --db m.db > out
"$kvcap" calibrate kernels m.db --gpu h200 2> err && { echo "no times, and no error"; exit 1; }
grep -q 'holds no kernel times' err || { cat err; exit 1; }

# Times that never were: 3 us, and what bandwidth or arithmetic asks for.
echo gemm_dtype,m,n,k,kernel_source,latency_ms > gemm.csv
for m in 1 8 64 512 2048 8192; do
  for n in 4096 6144 28672; do
    for k in 4096 14336; do
      us=$(awk -v m=$m -v n=$n -v k=$k 'BEGIN {
        t = n * k * 2 / 4.2e6; f = 2 * m * n * k / 7e8; printf "%.3f", 3 + (f > t ? f : t) }')
      echo "INSERT INTO measurement (kind, subject, metric, unit, device, measured_utc, version,
        value, emulated) VALUES ('bench', 'gemm bfloat16 m=$m n=$n k=$k', 'cold', 'us', 'made up',
        '2026-01-01T00:00:00Z', '0', $us, EMULATED);"
      ms=$(awk -v us="$us" 'BEGIN { printf "%.6f", us / 1000 }')
      echo "bfloat16,$m,$n,$k,kvcap,$ms" >> gemm.csv
    done
  done
done > rows.sql
cp m.db emulated.db
sed 's/EMULATED/0/' rows.sql | sqlite3 m.db
sed 's/EMULATED/1/' rows.sql | sqlite3 emulated.db

"$kvcap" calibrate kernels gemm.csv --gpu h200 --name made-up --out csv.yaml > csv.txt
"$kvcap" calibrate kernels m.db --gpu h200 --name made-up --out db.yaml > db.txt
cmp csv.txt db.txt
cmp csv.yaml db.yaml
grep -q '^  gemm-bf16 ' db.txt || { cat db.txt; exit 1; }

# Side by side: the same figures, then half of them at twice the time; the newest counts.
"$kvcap" compare m.db m.db --measurements > same.txt
[ "$(grep -c ' 1\.0000 us$' same.txt)" = 36 ] || { cat same.txt; exit 1; }
cp m.db other.db
sqlite3 other.db "INSERT INTO measurement (kind, subject, metric, unit, device, measured_utc,
  version, value, emulated) SELECT kind, subject, metric, unit, device, measured_utc, version,
  2 * value, 0 FROM measurement WHERE id % 2 = 0;
  DELETE FROM measurement WHERE subject LIKE '% m=1 %'"
"$kvcap" compare m.db other.db --measurements > other.txt
[ "$(grep -c ' 2\.0000 us$' other.txt)" = 15 ] || { cat other.txt; exit 1; }
grep -q '^6 of a alone, 0 of b alone$' other.txt || { cat other.txt; exit 1; }
"$kvcap" compare m.db emulated.db --measurements | grep -q '36 EMULATED'
"$kvcap" compare m.db other.db --measurements --json | grep -q '"only_a": 6'

"$kvcap" calibrate kernels emulated.db --gpu h200 2> err && { echo "emulated is fitted"; exit 1; }
grep -q '36 measurements come from an emulated device' err || { cat err; exit 1; }
mkdir emulated
sed '2,$s/,[^,]*\(,[^,]*\)$/,emulated\1/' gemm.csv > emulated/gemm.csv
for evaluate in "" "--evaluate csv.yaml"; do
  # shellcheck disable=SC2086 # words
  "$kvcap" calibrate kernels emulated/gemm.csv --gpu h200 $evaluate 2> err &&
    { echo "an emulated CSV is taken"; exit 1; }
  grep -q '36 measurements come from an emulated device' err || { cat err; exit 1; }
done
