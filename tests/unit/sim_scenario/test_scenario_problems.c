/* What is wrong with a scenario, said exactly: place and sentence of every problem, all at once.
 *
 * Each case changes one piece of a scenario that loads, and names every line that must come out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/scenario/scenario.h"

static const char base[] =
  "name: base\n"                                                              /*  1 */
  "model: llama-3.1-8b\n"                                                     /*  2 */
  "pools:\n"                                                                  /*  3 */
  "  - name: main\n"                                                          /*  4 */
  "    gpu: h100\n"                                                           /*  5 */
  "    parallel: {tensor: 1}\n"                                               /*  6 */
  "    kv: {format: bf16}\n"                                                  /*  7 */
  "    memory: {rule: vllm}\n"                                                /*  8 */
  "    scheduler: {policy: vllm-0.19}\n"                                      /*  9 */
  "workload:\n"                                                               /* 10 */
  "  closed: {concurrency: 4, input: 100, output: 10}\n"                      /* 11 */
  "seed: 1\n";                                                                /* 12 */

struct complaint {
  const char *find, *replace;
  const char *expected; /* lines "line:column: sentence\n" */
};

static const struct complaint complaints[] = {
  /* names */
  {"llama-3.1-8b", "llama-3.1-9b",
   "2:8: model: \"llama-3.1-9b\" is not known in models; the nearest name is \"llama-3.1-8b\"; "
   "searched DIR, DIR/models, SHARE/scenarios/models, SOURCE/scenarios/models\n"},
  {"gpu: h100", "gpu: h10",
   "5:10: gpu: \"h10\" is not known in gpus; the nearest name is \"h100\"; searched DIR, DIR/gpus, "
   "SHARE/scenarios/gpus, SOURCE/scenarios/gpus\n"},
  {"gpu: h100", "gpu: ./h100.yaml",
   "5:10: gpu: file \"./h100.yaml\" of gpus is not there: looked beside the scenario and in the "
   "current folder\n"},
  {"gpu: h100", "gpu: h100\n    profile: fast",
   "6:14: profile: \"fast\" is not a profile of h100; it has: plain, sglang-0.5.14\n"},
  {"vllm-0.19", "sglang-0.6",
   "9:25: scheduler.policy: \"sglang-0.6\" is not a policy of this version; known: vllm-0.19, "
   "sglang-0.5\n"},
  /* keys */
  {"seed: 1", "sede: 1", "12:7: sede is not a known key; did you mean seed?\n"},
  {"kv: {format", "kv: {fromat",
   "7:18: pools.main.kv.fromat is not a known key; did you mean pools.main.kv.format?\n"},
  {"kv: {format: bf16}", "page_size: 16",
   "7:16: pools.main.page_size is not a known key; did you mean pools.main.kv.page_size?\n"},
  {"model: llama-3.1-8b\n", "", "1:1: model is missing; expected text\n"},
  {"    gpu: h100\n", "", "4:5: pools.main.gpu is missing; expected text\n"},
  {"name: main\n    gpu", "gpu", "4:5: pools.0.name is missing; expected text\n"},
  {"name: main", "name: a.b",
   "4:11: pool name \"a.b\" holds a dot or an equals sign, which --set could not name\n"},
  {"seed: 1", "seed: -1", "12:7: seed: expected a whole number, got \"-1\"\n"},
  {"seed: 1", "seed: 1\nslo: {ttft_p95_ms: fast}",
   "13:20: slo.ttft_p95_ms: expected a number of milliseconds from 0 to 1000000000, got "
   "\"fast\"\n"},
  {"seed: 1", "seed: 1\nprice: 4.59", "13:8: price: expected a map of keys, got a single value\n"},
  /* pools */
  {"seed: 1", "seed: 1\nseed: 2",
   "13:1: key \"seed\" stands here for the second time (first in line 12); keep one\n"},
  {"  - name: main\n    gpu", "  main:\n    gpu",
   "4:3: pools: expected a list of pools, each starting with \"- name: ...\"\n"},
  {"workload:", "  - {name: b, gpu: h100}\nworkload:",
   "4:3: pools lists 2 pools; one pool is simulated for now: keep one\n"},
  {"gpu: h100", "gpu: h100\n    replicas: 257",
   "6:15: pools.main.replicas: expected a whole number of instances from 1 to 256, got "
   "\"257\"\n"},
  {"seed: 1", "seed: 1\nprice: {reserved: {share: 0.5}}",
   "13:19: price.reserved needs both share and gpu_hour_usd\n"},
  {"seed: 1", "seed: 1\nprice: {reserved: {share: 0.7, gpu_hour_usd: 2},\n"
   "        spot: {share: 0.5, gpu_hour_usd: 1}}",
   "13:8: price.reserved.share and price.spot.share are 1.2 together, more than all GPUs\n"},
  {"seed: 1", "seed: 1\nprice: {spot: {lost: 0.1}}",
   "13:22: price.spot.lost goes with price.spot.share\n"},
  {"seed: 1", "seed: 1\nprice: {api: {input_usd_per_mtok: 1}}",
   "13:14: price.api needs both input_usd_per_mtok and output_usd_per_mtok\n"},
  {"seed: 1", "seed: 1\nenergy: {pue: 0.9}",
   "13:15: energy.pue: expected a number from 1 to 10, got \"0.9\"\n"},
  {"seed: 1", "seed: 1\nrouter: {policy: random}",
   "13:18: router.policy: expected one of round-robin, least-loaded, session-affinity, "
   "prefix-aware, got \"random\"\n"},
  {"seed: 1", "seed: 1\nrouter: {overflow: 2}",
   "13:20: router.overflow goes with router.policy session-affinity or prefix-aware, and only with "
   "them\n"},
  {"seed: 1", "seed: 1\nrouter: {prefix_tokens: 100}",
   "13:25: router.prefix_tokens goes with router.policy session-affinity, and only with it\n"},
  {"gpu: h100", "gpu: h100\n    role: prefill",
   "6:11: pools.main.role: expected one of serve, decode, got \"prefill\"\n"},
  {"tensor: 1", "tensor: 3",
   "6:24: parallel.tensor 3 does not divide WHY of llama-3.1-8b; try another degree\n"},
  {"tensor: 1", "tensor: 128",
   "6:24: pools.main.parallel.tensor: expected a whole number of GPUs from 1 to 64, got \"128\"\n"},
  /* weights and KV */
  {"gpu: h100", "gpu: h100\n    weights: fp8",
   "6:14: weights: expected a map of tensor classes to formats, such as {routed_experts: "
   "int4-g32}\n"},
  {"gpu: h100", "gpu: h100\n    weights: {attention: [fp8]}",
   "6:26: weights.attention: expected the name of a format\n"},
  {"format: bf16", "format: fp8",
   "7:18: pools.main.kv.format: expected one of bf16, fp8-e4m3, fp8-g128, int8, fp4, got "
   "\"fp8\"\n"},
  {"format: bf16", "format: bf16, k_format: bf16, v_format: int8",
   "7:18: kv.format has no effect beside k_format and v_format; take it away\n"},
  {"kv: {format: bf16}", "kv: {prefix_cache: true}\n    role: decode",
   "7:24: kv.prefix_cache has no meaning in role decode, where prompts arrive with their KV; leave "
   "it out\n"},
  {"format: bf16", "prefix_cache: maybe",
   "7:24: pools.main.kv.prefix_cache: expected one of auto, true, false, got \"maybe\"\n"},
  {"format: bf16", "page_size: 0",
   "7:21: pools.main.kv.page_size: expected a whole number of tokens from 1 to 4096, got \"0\"\n"},
  {"format: bf16", "integrity: on",
   "7:21: pools.main.kv.integrity: expected one of off, batched, paranoid, got \"on\"\n"},
  /* memory */
  {"rule: vllm", "rule: vllm, fraction: 90",
   "8:36: pools.main.memory.fraction: expected a number from 0.01 to 1, got \"90\"\n"},
  {"rule: vllm", "rule: vllm, pages: 100",
   "8:33: memory.pages sets the pool outright, which goes with rule: fixed and not with rule: "
   "vllm; take one away\n"},
  {"rule: vllm", "rule: fixed", "8:20: memory.rule fixed needs memory.pages or memory.kv_budget\n"},
  {"rule: vllm", "pages: 10, kv_budget: 1GiB",
   "8:36: memory.kv_budget and memory.pages both set the pool; keep one\n"},
  {"rule: vllm", "pages: 10, fraction: 0.9",
   "8:35: memory.fraction does not apply when the pool is set outright; take it away\n"},
  {"rule: vllm", "kv_budget: lots",
   "8:25: pools.main.memory.kv_budget: expected a size such as 56GiB or 60129542144 from 1 B to "
   "1 TiB, got \"lots\"\n"},
  /* scheduler */
  {"policy: vllm-0.19", "max_running: 512, max_batched_tokens: 256",
   "9:55: scheduler.max_batched_tokens is 256 and scheduler.max_running 512; the first must not be "
   "smaller, because every running request decodes a token a step\n"},
  {"policy: vllm-0.19", "max_model_len: 131073",
   "9:32: scheduler.max_model_len is 131073, more than the 131072 tokens of context that "
   "llama-3.1-8b has\n"},
  {"policy: vllm-0.19", "chunked_prefill: maybe",
   "9:34: pools.main.scheduler.chunked_prefill: expected true or false, got \"maybe\"\n"},
  {"policy: vllm-0.19", "policy: sglang-0.5, reserve_full_prompt: true, queue: priority",
   "9:58: scheduler.reserve_full_prompt as given does not apply to policy sglang-0.5; take it "
   "away\n"
   "9:71: scheduler.queue as given does not apply to policy sglang-0.5 (vllm-0.19 has fcfs and "
   "priority, sglang-0.5 fcfs and lpm); take it away\n"},
  {"policy: vllm-0.19", "policy: vllm-0.19, mixed_chunk: true, queue: lpm",
   "9:49: scheduler.mixed_chunk as given does not apply to policy vllm-0.19; take it away\n"
   "9:62: scheduler.queue as given does not apply to policy vllm-0.19 (vllm-0.19 has fcfs and "
   "priority, sglang-0.5 fcfs and lpm); take it away\n"},
  {"gpu: h100", "gpu: h100\n    faults: {kinds: \"lost,found\"}",
   "6:21: faults.kinds: \"found\" is not a kind of fault; expected none, all, or some of "
   "lost,reused,swapped,stale,range\n"},
  {"gpu: h100", "gpu: h100\n    faults: {every_steps: 5}",
   "6:27: faults.every_steps has no effect without faults.kinds\n"},
  {"scheduler: {policy: vllm-0.19}", "scheduler: [1]",
   "9:16: pools.main.scheduler: expected a map of keys, got a list\n"},
  /* workload */
  {"workload:\n  closed: {concurrency: 4, input: 100, output: 10}\n", "",
   "1:1: workload is missing; expected workload: {trace: FILE} or {closed: {concurrency: N, input: "
   "TOKENS, output: TOKENS}}\n"},
  {"closed: {concurrency: 4, input: 100, output: 10}", "max_tokens: 10",
   "11:3: workload has neither closed nor trace; one of them says what arrives\n"},
  {"closed: {", "trace: DIR/t.csv\n  closed: {",
   "11:3: workload has both closed and trace; keep one (--set workload.closed=null takes the first "
   "away)\n"},
  {"concurrency: 4, ", "",
   "11:11: workload.closed.concurrency is missing; a closed workload needs concurrency, input and "
   "output\n"},
  {"output: 10", "output: 10, requests: 2",
   "11:62: workload.closed.requests is 2, fewer than the 4 of workload.closed.concurrency; raise "
   "it or leave it out\n"},
  {"output: 10", "output: 10, mode: burst",
   "11:58: workload.closed.mode: expected one of wave, steady, got \"burst\"\n"},
  {"output: 10", "output: 0",
   "11:48: workload.closed.output: expected a whole number of tokens from 1 to 1073741824, got "
   "\"0\"\n"},
  {"seed: 1", "  format: azure\nseed: 1",
   "12:11: workload.format does not apply to a closed workload; take it away\n"},
  {"seed: 1", "  zero_output: drop\nseed: 1",
   "12:16: workload.zero_output does not apply to a closed workload; take it away\n"},
  {"seed: 1", "  max_tokens: ratio 0\nseed: 1",
   "12:15: workload.max_tokens: expected trace, a whole number of tokens from 1 to 1073741824, or "
   "\"ratio R\" with R above 0, got \"ratio 0\"\n"},
  {"seed: 1", "  max_tokens: lots\nseed: 1",
   "12:15: workload.max_tokens: expected trace, a whole number of tokens from 1 to 1073741824, or "
   "\"ratio R\" with R above 0, got \"lots\"\n"},
  {"closed: {concurrency: 4, input: 100, output: 10}", "trace: t.csv\n  format: parquet",
   "12:11: workload.format: expected one of auto, FORMATS, got \"parquet\"\n"},
  {"closed: {concurrency: 4, input: 100, output: 10}", "trace: t.csv\n  loop: steady",
   "12:9: workload.loop: expected one of auto, open, closed, got \"steady\"\n"},
  {"closed: {concurrency: 4, input: 100, output: 10}", "trace: t.csv\n  rate: 0/3\n  sample: 5/4",
   "12:9: workload.rate: expected a fraction such as 3/4 or 0.75 above 0, got \"0/3\"\n"
   "13:11: workload.sample: expected a fraction such as 3/4 or 0.75 above 0 and at most 1, got "
   "\"5/4\"\n"},
  {"closed: {concurrency: 4, input: 100, output: 10}", "trace: t.csv\n  from: 2s\n  to: 2000ms",
   "13:7: workload.to must be later than workload.from; nothing arrives between them\n"},
  {"seed: 1", "  loop: closed\n  rate: 2\nseed: 1",
   "12:9: workload.loop does not apply to a closed workload; take it away\n"
   "13:9: workload.rate does not apply to a closed workload; take it away\n"},
  {"output: 10", "output: 10, shared_prefix: 101",
   "11:67: workload.closed.shared_prefix is 101 tokens, more than the 100 of the prompt\n"},
  {"seed: 1", "  tenants: 0\nseed: 1",
   "12:12: workload.tenants: expected one, session, kind, or a number from 1 to 65536, got "
   "\"0\"\n"},
  {"seed: 1", "  cancel: 1/50\nseed: 1",
   "12:11: workload.cancel says that clients give up, and cancel_after does not say when; add "
   "cancel_after, such as 5s\n"},
  {"seed: 1", "  classes: [{name: a, share: 3/2}]\nseed: 1",
   "12:30: workload.classes.0.share: expected a share such as 1/4 or 0.25, at most 1, got "
   "\"3/2\"\n"
   "12:12: workload.classes: the shares add up to less than 1 and no class takes the rest; leave "
   "share out of one of them\n"},
  {"seed: 1", "  classes: [{name: a}, {name: a, share: 1/2, kind: x}, {share: 1/4}]\nseed: 1",
   "12:52: workload.classes.1.kind: share and kind both say which requests class a takes; keep "
   "one\n"
   "12:56: workload.classes.2.name is missing; expected text\n"
   "12:12: workload.classes has two classes named \"a\"; results could not tell them apart\n"},
  {"seed: 1", "  classes: [{name: a, share: 2/3}, {name: b, share: 2/3}]\nseed: 1",
   "12:12: workload.classes: the shares add up to more than 1\n"},
  {"seed: 1", "  classes: [{name: a, share: 1/2}, {name: b, priority: 3}]\nseed: 1",
   "12:12: workload.classes: priorities have no effect without scheduler.queue: priority, which "
   "policy vllm-0.19 has\n"},
  {"seed: 1", "  classes: [{name: a, cancel_after: 3s}]\nseed: 1",
   "12:37: workload.classes.0.cancel_after has no effect without cancel, the share of clients who "
   "do\n"},
  {"seed: 1", "  classes: [{name: a, timeout: 0s}]\nseed: 1",
   "12:32: workload.classes.0.timeout and queue_timeout of 0 would give every request up at once; "
   "leave them out for no limit\n"},
  {"seed: 1", "  classes: 3\nseed: 1",
   "12:12: workload.classes: expected a list of 1 to 16 classes, each with a name\n"},
  {"closed: {concurrency: 4, input: 100, output: 10}", "trace: absent.csv",
   "11:10: workload.trace: trace \"absent.csv\" is not there: looked beside the scenario, in the "
   "current folder and in SHARE, SHARE/traces/samples, SOURCE, SOURCE/traces/samples\n"},
  {"closed: {concurrency: 4, input: 100, output: 10}", "closed: 4",
   "11:11: workload.closed: expected a map of keys, got a single value\n"},
  /* several at once: one run, one list */
  {"gpu: h100\n    parallel: {tensor: 1}", "gpu: h100\n    parallel: {tensor: 0, pipelines: 2}",
   "6:24: pools.main.parallel.tensor: expected a whole number of GPUs from 1 to 64, got \"0\"\n"
   "6:38: pools.main.parallel.pipelines is not a known key; did you mean "
   "pools.main.parallel.pipeline?\n"},
  {"model: llama-3.1-8b", "model: gpt\nsede: 2",
   "3:7: sede is not a known key; did you mean seed?\n"
   "2:8: model: \"gpt\" is not known in models; known are deepseek-v3, glm-5, glm-5.2, "
   "glm-5.2-bf16, gpt-oss-120b, kimi-k2, kimi-k2.5, kimi-k2.6, llama-3.1-70b, llama-3.1-8b, "
   "llama-4-scout, mixtral-8x7b, qwen3-30b-a3b, qwen3-32b, qwen3-8b; searched DIR, "
   "DIR/models, SHARE/scenarios/models, SOURCE/scenarios/models\n"},
};

static char dir[] = "/tmp/kvcap_problems_XXXXXX";
static char scenario_path[64], trace_path[64];

static int make_folder(void **state)
{
  (void)state;
  unsetenv("KVCAP_DATA");
  if (mkdtemp(dir) == NULL) return 1;
  snprintf(scenario_path, sizeof scenario_path, "%s/s.yaml", dir);
  snprintf(trace_path, sizeof trace_path, "%s/t.csv", dir);
  FILE *out = fopen(trace_path, "w");
  if (out == NULL) return 1;
  fputs("arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,10\n", out);
  return fclose(out);
}

static int remove_folder(void **state)
{
  (void)state;
  remove(scenario_path);
  remove(trace_path);
  return rmdir(dir);
}

/* `text` with the first `find` replaced, or all of them; a heap string. */
static char *replaced(const char *text, const char *find, const char *replace, bool all)
{
  char *made = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&made, &bytes);
  assert_non_null(out);
  for (const char *hit = strstr(text, find); hit != NULL; hit = all ? strstr(text, find) : NULL) {
    fwrite(text, 1, (size_t)(hit - text), out);
    fputs(replace, out);
    text = hit + strlen(find);
  }
  fputs(text, out);
  fclose(out);
  return made;
}

/* "azure, vidur, ...": readers come and go, the sentence stays. */
static const char *format_names(void)
{
  static char names[256];
  size_t used = 0;
  for (size_t i = 0; kc_trace_format_name(i) != NULL; i++) {
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ",
                             kc_trace_format_name(i));
    assert_true(used < sizeof names);
  }
  return names;
}

/* Names of this machine's folders in an expectation. */
static char *placed(const char *expected, const char *why)
{
  const char *const pairs[][2] = {{"DIR", dir}, {"SHARE", KVCAP_SHARE_DIR},
                                  {"SOURCE", KVCAP_SOURCE_DIR}, {"WHY", why},
                                  {"FORMATS", format_names()}};
  char *text = replaced(expected, "", "", false);
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    char *next = replaced(text, pairs[i][0], pairs[i][1], true);
    free(text);
    text = next;
  }
  return text;
}

static void write_scenario(const char *text)
{
  FILE *out = fopen(scenario_path, "w");
  assert_non_null(out);
  fputs(text, out);
  assert_int_equal(fclose(out), 0);
}

/* "line:column: sentence\n" for each problem; a heap string. */
static char *said(const struct kc_diag_list *problems)
{
  char *made = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&made, &bytes);
  assert_non_null(out);
  for (uint32_t i = 0; i < problems->count && i < KC_DIAG_LIST_MAX; i++) {
    const struct kc_diag *diag = &problems->items[i];
    fprintf(out, "%lu:%u: %s\n", (unsigned long)diag->line, diag->column, diag->text);
  }
  fclose(out);
  return made;
}

static void every_problem_has_place_and_sentence(void **state)
{
  (void)state;
  struct kc_scenario *scenario = malloc(sizeof *scenario);
  struct kc_diag_list *problems = malloc(sizeof *problems);
  assert_true(scenario != NULL && problems != NULL);
  const char *why = NULL;
  write_scenario(base);
  assert_int_equal(kc_scenario_load(scenario, scenario_path, NULL, 0, problems), KC_OK);
  assert_false(kc_model_tensor_degree_valid(&scenario->model, 3, &why));
  unsigned failures = 0;
  char reason[128];
  snprintf(reason, sizeof reason, "%s", why);
  for (size_t i = 0; i < sizeof complaints / sizeof complaints[0]; i++) {
    assert_non_null(strstr(base, complaints[i].find)); /* the case does change something */
    char *at = placed(complaints[i].replace, reason);
    char *text = replaced(base, complaints[i].find, at, false);
    char *want = placed(complaints[i].expected, reason);
    write_scenario(text);
    const enum kc_err err = kc_scenario_load(scenario, scenario_path, NULL, 0, problems);
    char *got = said(problems);
    if (err == KC_OK || strcmp(got, want) != 0) {
      print_error("case %zu (%s), code %d:\n--- want\n%s--- got\n%s", i, complaints[i].replace,
                  (int)err, want, got);
      failures++;
    }
    free(at);
    free(text);
    free(want);
    free(got);
  }
  free(scenario);
  free(problems);
  assert_int_equal(failures, 0);
}

static void problems_of_set_say_so(void **state)
{
  (void)state;
  static const struct {
    const char *set;
    const char *expected;
  } cases[] = {
    {"seed", "\"seed\" is not an assignment; expected key=value, such as "
             "pools.decode.kv.format=bf16"},
    {"pools.other.gpu=h200", "pools has no item \"other\"; it has: main"},
    {"sede=1", "sede is not a known key; did you mean seed?"},
    {"pools.main.gpu=h1000000", "gpu: \"h1000000\" is not known in gpus; "},
    {"pools.main.kv.page_size=0", "pools.main.kv.page_size: expected a whole number of tokens from "
                                  "1 to 4096, got \"0\""},
    {"workload.trace=t.csv", "workload has both closed and trace; "},
  };
  struct kc_scenario *scenario = malloc(sizeof *scenario);
  struct kc_diag_list *problems = malloc(sizeof *problems);
  assert_true(scenario != NULL && problems != NULL);
  write_scenario(base);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_int_not_equal(kc_scenario_load(scenario, scenario_path, &cases[i].set, 1, problems),
                         KC_OK);
    if (strncmp(problems->items[0].text, cases[i].expected, strlen(cases[i].expected)) != 0) {
      fail_msg("--set %s: %s", cases[i].set, problems->items[0].text);
    }
    if (i != 5) assert_string_equal(problems->items[0].path, "--set");
  }
  free(scenario);
  free(problems);
}

static void a_missing_file_is_a_file_error(void **state)
{
  (void)state;
  struct kc_scenario *scenario = malloc(sizeof *scenario);
  struct kc_diag_list *problems = malloc(sizeof *problems);
  assert_true(scenario != NULL && problems != NULL);
  assert_int_equal(kc_scenario_load(scenario, "/nowhere/s.yaml", NULL, 0, problems), KC_ERR_FILE);
  assert_int_equal(problems->count, 1);
  assert_string_equal(problems->items[0].path, "/nowhere/s.yaml");
  free(scenario);
  free(problems);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_problem_has_place_and_sentence),
    cmocka_unit_test(problems_of_set_say_so),
    cmocka_unit_test(a_missing_file_is_a_file_error),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
