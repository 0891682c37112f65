#!/usr/bin/env bash
# The demo: how many long requests does Kimi K2.6 decode at once on eight H200, and what does FP8
# KV change? Then a chat trace on Llama 3.1 8B. Installs what is missing, builds, runs, draws; ends
# with one page to look at and the answer.
#
#   scenarios/demo.sh        everything goes to build/demo
set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root="$PWD"
bash tests/support/install.sh
cmake --preset release --log-level=NOTICE >/dev/null
cmake --build --preset release --target kvcap --parallel "$(nproc)" >/dev/null

kvcap="$root/build/release/kvcap"
kimi="scenarios/published/t04-kimi-gain.yaml"
llama="scenarios/examples/llama-3.1-8b-h100.yaml"
out="build/demo"
rm -rf "$out"
mkdir -p "$out"

heading() { printf '\n== %s\n\n' "$*"; }

heading "1. What fits: Kimi K2.6 on 8 x H200 with BF16 KV"
"$kvcap" fit "$kimi" --set pools.decode.kv.format=bf16
printf '\nThe same with FP8 KV:\n'
"$kvcap" fit "$kimi" --set pools.decode.kv.format=fp8-e4m3 |
  tail -n 3

heading "2. A chat trace on Llama 3.1 8B, one H100"
"$kvcap" run "$llama" --db "$out/demo.db"

heading "3. Kimi K2.6 decode, 10,240 tokens in, 1,000 out: BF16 KV against FP8 KV"
"$kvcap" precision "$kimi" --weights scenario --kv bf16,fp8-e4m3 --concurrency 1,8,16,32,64 \
  --db "$out/demo.db" | tee "$out/precision.txt"

heading "4. Pictures, and one page of both"
"$kvcap" report "$out/demo.db" --run 1 --out "$out/plots"
"$kvcap" report "$out/demo.db" --sweep 1 --out "$out/plots"
"$kvcap" report "$out/demo.db" --run 1 --sweep 1 --html "$out/report.html"

heading "5. The answer"
tail -n 3 "$out/precision.txt"
echo "Open $out/report.html."
