#!/usr/bin/env bash
# Public request traces: where each comes from, under which licence, and whether it is the file
# that is meant.
#
#   traces/fetch.sh --list               what there is; needs no network
#   traces/fetch.sh GROUP... [--to DIR]  downloads, checks the sha256, puts into DIR/GROUP (default
#                                        ./public-traces)
#   traces/fetch.sh --verify DIR         checks files fetched before
#
# Files come from a fixed commit of a public repository. A "-" for the digest means that nobody has
# checked the file: it is fetched, and its digest is printed instead of compared. A saved error page
# or a Git LFS pointer in place of the data is refused. Nothing here is run by the tests but --list.
# Exit status: 0 done, 1 a file is missing or not the one meant, 2 usage.
set -euo pipefail

# "= group licence repository", "@ commit folder", then one file a line: "sha256 name".
sources() {
  cat <<'SOURCES'
= azure2023 CC-BY-4.0 Azure/AzurePublicDataset
@ b469a113cedca53ddc3bdea71a143dc4b7d8700c data
54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6 AzureLLMInferenceTrace_code.csv
2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8 AzureLLMInferenceTrace_conv.csv
= azure2025 CC-BY-4.0 Azure/AzurePublicDataset
@ b469a113cedca53ddc3bdea71a143dc4b7d8700c data
- AzureLMMInferenceTrace_multimodal.csv.gz
= mooncake Apache-2.0 kvcache-ai/Mooncake
@ 3b5a594133958449a1feaf1c9e0fc1b553e34a28 FAST25-release/traces
b8cbb061a85206d729d91cdc2981f43c9e0d99209dce588d3af5f7934408b9df conversation_trace.jsonl
- synthetic_trace.jsonl
- toolagent_trace.jsonl
= vidur MIT microsoft/vidur
@ 7d47513363ec447a741ac5e47241580b47724fbf data/processed_traces
f266b907d109d471c61283ab69771c17ad79a18b33ff6e96aa546346f52767a6 splitwise_code.csv
= burstgpt CC-BY-4.0 HPMLL/BurstGPT
@ e92f533b6c85ea7f4164fb3d97d1aa2c3edacbc8 data
- BurstGPT_1.csv
= weka Apache-2.0 callanjfox/kv-cache-tester
@ 94f6046dfd9c0c8bc0cdb24a5aa6579bac8669bf traces
cfd45b93c58e16b1ae3cb177f91d45bb58590dc592e140e28e4155145746feb3 trace_0001.json
09912e673c0a8fb83db91c52aca6de5418ed179e6be313b72a8d5e23f3f9eaf7 trace_0002.json
dc7cd5e065bd3366840dbb904d147cae610f7f6c6d74dfaaf99ff4774e5342f0 trace_0007.json
002c1274f6f41acfb25f88c1de5c653aa0a6796eaefdaa500937ce336bb627a0 trace_0011.json
bbd437f46709abecb069ff057a16998126803316cd054ae5a986d1a587f99113 trace_0015.json
e5ce2bfcb0a976737fb1f93a01b1a578ca01f7f9e90f0369359d8e8ba112c026 trace_0016.json
b3e2fdd418914c9ff9a5f8ce4d7d45adb3312ab5514333259dcaabe83a78304b trace_0021.json
7933c11d52c064a44e32ce485a76c100782d1c7ad48cd98eed31d342c3b17354 trace_0024.json
84e843bd3a1c799b37bbb55e2f05699e6b3e05ed71c252cd06276a6d5e8c7a39 trace_0026.json
742e1dda7b10481d982db9f64ea7ad09e5bcf431561ffe95be68eabc12de12ca trace_0028.json
673ad282e34b2053370fb1c245db3604fa20da89f1e345186d936a36861bf3be trace_0034.json
375cb2b1a176bf0dff5304bfad8730c8ca895f5f538975aa66e0aba4af535a55 trace_0037.json
2d30e529c20e4c27bd365d602d1c544ebbf1155eac481e7a040535a0abbf4c8b trace_0039.json
0eac3ad6bdec9c0779b6df0a28ad5e89aaf1b32e34cceb501fa5dc1e4b3f31e5 trace_0040.json
e42e302e4a6ecad51db5958e8a07ae4dba50b371e3575edb419874059666d9b3 trace_0047.json
d730584470b932ce2fbf9f7f18d4713984a2c6f83c73abe5adb7954e94b1524e trace_0048.json
b7c6dd7197ac77fd1532ddfd0bcd5eafa85bdad133f96bfef86c3fd12c504c36 trace_0054.json
95efcacf884f03df4478c28f0445905c76ba5517a8dc564189d99d394471465c trace_0057.json
fcca8279384167df1990e5eaf0b2d7e87f1993b369cf9aa962a3bd36e071da4b trace_0060.json
5bfac86b20ce5ab43c6469794c91d9c64806aa1cef1bf50bc9d48aa0b3f9a251 trace_0068.json
9afd0a8a591a8696ba752c91b442d85a53e9fdc63cda5926c9edad2e27c8df87 trace_0274.json
389988c4309ffe1759bdc3559c69b3e5840d7d2e87a44e2a02754df9d015c201 trace_0277.json
a405e7bb126d0aedae10a78ab558a6753a01c7b78fc0a50523bd87bf1e79fbf7 trace_0282.json
035d48ef21ecff81233f258b5d547e6e272a3fade99bac958a40b6beeebd97c2 trace_0291.json
= tracelab CC-BY-4.0 uw-syfi/TraceLab
@ 0b8a262ba69602869133b65972d51a388bde45e1 example_sessions/sanitized
314c49483148fe68e230a683f739e3e6e68d478948ecf342739596f30af36b57 round_trace.jsonl
@ 0b8a262ba69602869133b65972d51a388bde45e1 replay/examples
cc1517d38aa314ed0182bc4fb4bcd34e7a9070b3fae2b9865bd8cd0fdd1c015e multi_session_example.csv
8afdf8d3ae742aa73a17ab93a4f11edafa6076fdfb47d0fb96d2c3defc6de8ab multi_session_large.csv
66ce858afdba777608398bd1c8e073feedcb26a6b4f1dfb7b40a10166efa917a session_workload_example.csv
= servegen Apache-2.0 alibaba/ServeGen
@ f891d1189eb32b3868dfc443800c4150548c282a data/reason/deepseek-r1
7473f4b3cd1fda824029ce61fecb4610a743e3141eeff7f90a93def35d9197fd chunk-0-trace.csv
f22c341e3b8d8c0518b47662374505ef57845d0bc180d3aa6a0e33b85c32d0d7 chunk-0-dataset.json
922c9730fb8754f8adb89a40877ee4151fce07cfa02d7f5c2eac3f5a1ba9ec3c chunk-1-trace.csv
f99544d9a4c65a17636d3f501f9074c9b07eca7a4fd92bb934eb6da82533a325 chunk-1-dataset.json
d995cbf84e3815b88ae6c16ca2f1412a2e04e5bd98ddaf3afba2c47246b19e25 chunk-2-trace.csv
58b31ef3e5f632e07bf06b9fb32c7fb5faa732aabe85e3fdcde9007afaa1bc19 chunk-2-dataset.json
85f28d5b39473ad8aa4fbbf51f3fcc344863ebaa273e04f76e02f940f93c9257 chunk-3-trace.csv
6189b3a4279276dccf48ad61c78e09781c0bde4eb3b935d94bfe9816b09420ba chunk-3-dataset.json
38439e945b84b7c3cff6c1c1fc76f3bca9325fc41a8481e9a10f5c4f5667c4d4 chunk-4-trace.csv
520cf61b2ffc32d428497c25a3a248c42e90ddbdca875f0645ece534a203c9b6 chunk-4-dataset.json
946180e0dd2edcc73f4b85786edb033bcd8de555b8d9a2465f9a1ce46a384dc9 chunk-5-trace.csv
b464ef884a72fbeae3e25691ddf65ef4ca457f476109dd0ba893d2f73e3759fc chunk-5-dataset.json
= llmservingsim-llama MIT casys-kaist/LLMServingSim
@ 5daddb21a545658d5150b535712d0494584b5278 bench/examples/RTXPRO6000/Llama-3.1-8B/vllm
0175b31b0ddc02b97eb6da1410dc80fc5900b8785c988e90cacee1021d644682 requests.jsonl
= llmservingsim-qwen MIT casys-kaist/LLMServingSim
@ 5daddb21a545658d5150b535712d0494584b5278 bench/examples/RTXPRO6000/Qwen3-32B/vllm
7751686bb9f927f5cd39adf901b2d0755b8f1a1182561c3df5446c927f95342f requests.jsonl
SOURCES
}

# The same as one line a file: group licence repository commit path sha256 name
table() {
  local first second third fourth
  local group='' licence='' repository='' commit='' folder=''
  while read -r first second third fourth; do
    case "$first" in
      =) group="$second" licence="$third" repository="$fourth" ;;
      @) commit="$second" folder="$third" ;;
      *) echo "$group $licence $repository $commit $folder/$second $first $second" ;;
    esac
  done < <(sources)
}

usage() {
  sed -n '2,/^set /p' "${BASH_SOURCE[0]}" | sed -n 's/^# \{0,1\}//p'
}

list() {
  local group licence repository commit path digest name
  while read -r group licence repository commit path digest name; do
    printf '%-20s %-10s %s\n' "$group" "$licence" "$name"
    printf '    https://github.com/%s/blob/%s/%s\n' "$repository" "$commit" "$path"
    printf '    sha256 %s\n' "$digest"
  done < <(table)
}

digest_of() {
  sha256sum "$1" | cut -d' ' -f1
}

# check FILE DIGEST: 0 when FILE is the data meant.
check() {
  local file="$1" digest="$2" got head
  head="$(head -c 64 "$file" | tr -d '\0')"
  case "$head" in
    "version https://git-lfs"*) echo "$file: a Git LFS pointer, not the data" >&2; return 1 ;;
    "<!DOCTYPE"* | "<html"* | "404:"*) echo "$file: a web page, not the data" >&2; return 1 ;;
  esac
  got="$(digest_of "$file")"
  if [ "$digest" = - ]; then
    echo "$file: not checked, its sha256 is $got" >&2
  elif [ "$got" != "$digest" ]; then
    echo "$file: sha256 is $got, expected $digest" >&2
    return 1
  fi
}

fetch() {
  local wanted="$1" folder="$2" failed=0 found=0
  local group licence repository commit path digest name partial
  while read -r group licence repository commit path digest name; do
    [ "$group" = "$wanted" ] || continue
    found=1
    mkdir -p "$folder/$group"
    partial="$folder/$group/$name.partial"
    if ! curl --fail --silent --show-error --location --retry 3 --output "$partial" \
      "https://raw.githubusercontent.com/$repository/$commit/$path"; then
      rm -f "$partial"
      failed=1
    elif check "$partial" "$digest"; then
      mv "$partial" "$folder/$group/$name"
      echo "$folder/$group/$name ($licence)"
    else
      rm -f "$partial"
      failed=1
    fi
  done < <(table)
  if [ "$found" -eq 0 ]; then
    echo "no group \"$wanted\"; --list shows them" >&2
    return 2
  fi
  return "$failed"
}

verify() {
  local folder="$1" failed=0 seen=0
  local group licence repository commit path digest name
  while read -r group licence repository commit path digest name; do
    [ -e "$folder/$group/$name" ] || continue
    seen=$((seen + 1))
    check "$folder/$group/$name" "$digest" || failed=1
  done < <(table)
  echo "$seen files checked"
  [ "$seen" -gt 0 ] && [ "$failed" -eq 0 ]
}

groups=()
folder=public-traces
while [ "$#" -gt 0 ]; do
  case "$1" in
    --list) list; exit 0 ;;
    --help) usage; exit 0 ;;
    --verify) [ "$#" -eq 2 ] || { usage >&2; exit 2; }; verify "$2"; exit ;;
    --to) [ "$#" -ge 2 ] || { usage >&2; exit 2; }; folder="$2"; shift 2 ;;
    -*) usage >&2; exit 2 ;;
    *) groups+=("$1"); shift ;;
  esac
done
[ "${#groups[@]}" -gt 0 ] || { usage >&2; exit 2; }
status=0
for group in "${groups[@]}"; do
  fetch "$group" "$folder" || status=$?
done
exit "$status"
