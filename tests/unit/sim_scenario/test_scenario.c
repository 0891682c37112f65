/* Scenarios that load: defaults, overrides, the resolved text that loads again, where files are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/scenario/scenario.h"

/* ---- a folder of our own ---- */

static char dir[] = "/tmp/kvcap_scenario_XXXXXX";

static void path_in(char out[256], const char *name)
{
  assert_true(snprintf(out, 256, "%s/%s", dir, name) < 256);
}

static void write_file(const char *name, const char *text)
{
  char path[256];
  path_in(path, name);
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  fputs(text, out);
  assert_int_equal(fclose(out), 0);
}

static int make_folder(void **state)
{
  (void)state;
  unsetenv("KVCAP_DATA");
  if (mkdtemp(dir) == NULL) return 1;
  write_file("t.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,10\n");
  return 0;
}

static int remove_folder(void **state)
{
  (void)state;
  char command[64];
  snprintf(command, sizeof command, "rm -r %s", dir);
  return system(command);
}

struct loaded {
  struct kc_scenario scenario;
  struct kc_diag_list problems;
};

static struct loaded *load_path(const char *path, const char *const *sets, size_t set_count)
{
  struct loaded *loaded = malloc(sizeof *loaded);
  assert_non_null(loaded);
  if (kc_scenario_load(&loaded->scenario, path, sets, set_count, &loaded->problems) != KC_OK) {
    char line[1024];
    kc_diag_print(&loaded->problems.items[0], line, sizeof line);
    fail_msg("%u problems, first: %s", loaded->problems.count, line);
  }
  return loaded;
}

static struct loaded *load_text(const char *text, const char *const *sets, size_t set_count)
{
  char path[256];
  write_file("s.yaml", text);
  path_in(path, "s.yaml");
  return load_path(path, sets, set_count);
}

/* ---- defaults and values ---- */

static const char small[] =
  "model: llama-3.1-8b\n"
  "pools:\n"
  "  - {name: main, gpu: h100}\n"
  "workload: {closed: {concurrency: 4, input: 100, output: 10}}\n";

static void what_is_not_said_gets_its_default(void **state)
{
  (void)state;
  struct loaded *loaded = load_text(small, NULL, 0);
  const struct kc_scenario *s = &loaded->scenario;
  const struct kc_pool_spec *pool = &s->pool[0];
  assert_string_equal(s->name, "s"); /* the file's name */
  assert_int_equal(s->seed, 1);
  assert_int_equal(pool->role, KC_ROLE_SERVE);
  assert_int_equal(pool->replicas, 1);
  assert_int_equal(pool->memory.tensor, 1);
  assert_int_equal(pool->memory.pipeline, 1);
  assert_int_equal(pool->memory.draft_layers, 0);
  assert_int_equal(pool->memory.rule, KC_RULE_VLLM);
  assert_true(pool->memory.fraction == 0.9); /* vLLM 0.19, gpu_memory_utilization */
  assert_int_equal(pool->integrity, KC_INTEGRITY_BATCHED);
  assert_int_equal(pool->precision.k_format, KC_KV_BF16);
  assert_int_equal(pool->precision.v_format, KC_KV_BF16);
  assert_string_equal(pool->policy_name, "vllm-0.19");
  assert_string_equal(pool->profile.name, "plain");
  /* vLLM 0.19 engine/arg_utils.py: 1024 sequences and 8192 tokens from 70 GiB on, blocks of 16 */
  assert_int_equal(pool->sched.page_size, 16);
  assert_int_equal(pool->sched.max_running, 1024);
  assert_int_equal(pool->sched.max_batched_tokens, 8192);
  assert_int_equal(pool->sched.max_model_len, 131072);
  assert_true(pool->sched.chunked_prefill);
  assert_true(pool->sched.reserve_full_prompt);
  assert_int_equal(pool->memory.page_size, 16);
  assert_int_equal(pool->memory.max_running, 1024);
  assert_int_equal(pool->memory.max_batched_tokens, 8192);
  assert_true(s->workload.is_closed);
  assert_int_equal(s->workload.closed.requests, 4); /* the concurrency */
  assert_int_equal(s->workload.closed.mode, KC_CLOSED_WAVE);
  assert_int_equal(s->workload.max_tokens_rule, KC_MAX_TOKENS_TRACE);
  assert_true(s->price_known);
  assert_true(s->price_gpu_hour_usd == pool->gpu.price[0].usd_per_hour);
  free(loaded);
}

static void an_a100_gets_smaller_batches(void **state)
{
  (void)state;
  const char *const sets[] = {"pools.main.gpu=a100-80g"};
  struct loaded *loaded = load_text(small, sets, 1);
  assert_int_equal(loaded->scenario.pool[0].sched.max_running, 256);
  assert_int_equal(loaded->scenario.pool[0].sched.max_batched_tokens, 2048);
  free(loaded);
}

/* Every key that the tables know, said once. */
static const char full[] =
  "name: 'all \"keys\" \\ here'\n"
  "model: qwen3-30b-a3b\n"
  "pools:\n"
  "  - name: p0\n"
  "    role: decode\n"
  "    gpu: h200\n"
  "    profile: plain\n"
  "    replicas: 3\n"
  "    parallel: {tensor: 2, pipeline: 2}\n"
  "    weights: {routed_experts: int4-g32, default: fp8, attention: bf16}\n"
  "    kv: {k_format: fp8-e4m3, v_format: int8, page_size: 32, prefix_cache: false,\n"
  "         integrity: off}\n"
  "    memory: {rule: sglang, fraction: 0.875, extra: 1GiB}\n"
  "    draft: {layers: 2}\n"
  "    scheduler: {policy: vllm-0.19, max_running: 100, max_batched_tokens: 3000,\n"
  "                max_model_len: 20000, chunked_prefill: false, reserve_full_prompt: false}\n"
  "router: {policy: session-affinity, overflow: 1.25, prefix_tokens: 512}\n"
  "workload:\n"
  "  trace: t.csv\n"
  "  format: vidur\n"
  "  loop: open\n"
  "  unit: ms\n"
  "  block_tokens: 64\n"
  "  tail: floor\n"
  "  zero_output: floor\n"
  "  missing_output: 7\n"
  "  failed: drop\n"
  "  cancelled: drop\n"
  "  from: 90s\n"
  "  to: 1.5h\n"
  "  skip: 11\n"
  "  limit: 5k\n"
  "  sample: 0.25\n"
  "  idle_cap: 2min\n"
  "  rate: 6/4\n"
  "  spread: 250ms\n"
  "  max_tokens: ratio 1.7\n"
  "slo: {ttft_p95_ms: 0.1, tpot_p95_ms: 33.3}\n"
  "price:\n"
  "  gpu_hour_usd: 1.23\n"
  "  reserved: {share: 0.25, gpu_hour_usd: 0.75}\n"
  "  spot: {share: 0.125, gpu_hour_usd: 0.5, lost: 0.1}\n"
  "  cold_start: 90s\n"
  "energy: {usd_per_kwh: 0.11, pue: 1.4}\n"
  "seed: 18446744073709551615\n";

static void expect_trace_keys(const struct kc_workload_spec *work)
{
  const struct kc_trace_options *options = &work->trace_options;
  const struct kc_transform *transform = &work->transform;
  assert_string_equal(options->format, "vidur");
  assert_int_equal(work->loop, KC_LOOP_OPEN);
  assert_int_equal(options->time_unit, KC_UNIT_MS);
  assert_int_equal(options->block_tokens, 64);
  assert_int_equal(options->tail, KC_TAIL_FLOOR);
  assert_int_equal(options->zero_output, KC_ZERO_OUTPUT_FLOOR);
  assert_int_equal(options->missing_output_tokens, 7);
  assert_int_equal(options->failed, KC_ROW_DROP);
  assert_int_equal(options->cancelled, KC_ROW_DROP);
  assert_true(transform->open_loop);
  assert_int_equal(transform->from_ps, 90 * KC_PS_PER_S);
  assert_int_equal(transform->to_ps, 5400 * KC_PS_PER_S);
  assert_int_equal(transform->skip_rows, 11);
  assert_int_equal(transform->limit_rows, 5000);
  assert_int_equal(transform->sample.numerator, 1);
  assert_int_equal(transform->sample.denominator, 4);
  assert_int_equal(transform->idle_cap_ps, 120 * KC_PS_PER_S);
  assert_int_equal(transform->rate.numerator, 3);
  assert_int_equal(transform->rate.denominator, 2);
  assert_int_equal(transform->spread_ps, 250 * KC_PS_PER_MS);
  assert_true(transform->seed == UINT64_MAX);
}

static void every_key_arrives(void **state)
{
  (void)state;
  char trace[256];
  path_in(trace, "t.csv");
  struct loaded *loaded = load_text(full, NULL, 0);
  const struct kc_scenario *s = &loaded->scenario;
  const struct kc_pool_spec *pool = &s->pool[0];
  assert_string_equal(s->name, "all \"keys\" \\ here");
  assert_string_equal(s->model.name, "qwen3-30b-a3b");
  assert_string_equal(pool->name, "p0");
  assert_int_equal(pool->role, KC_ROLE_DECODE);
  assert_int_equal(pool->sched.role, KC_ROLE_DECODE);
  assert_string_equal(pool->gpu.name, "h200");
  assert_int_equal(pool->memory.tensor, 2);
  assert_int_equal(pool->memory.pipeline, 2);
  assert_int_equal(pool->memory.draft_layers, 2);
  assert_int_equal(pool->precision.weight[KC_CLASS_ROUTED_EXPERTS], KC_WEIGHT_INT4_G32);
  assert_int_equal(pool->precision.weight[KC_CLASS_ATTENTION], KC_WEIGHT_BF16);
  assert_int_equal(pool->precision.weight[KC_CLASS_SHARED_EXPERTS], KC_WEIGHT_FP8);
  assert_int_equal(pool->precision.weight[KC_CLASS_LM_HEAD], KC_WEIGHT_DEFAULT);
  assert_int_equal(pool->precision.k_format, KC_KV_FP8_E4M3);
  assert_int_equal(pool->precision.v_format, KC_KV_INT8);
  assert_int_equal(pool->integrity, KC_INTEGRITY_OFF);
  assert_int_equal(pool->memory.rule, KC_RULE_SGLANG);
  assert_true(pool->memory.fraction == 0.875);
  assert_int_equal(pool->memory.extra_bytes, 1 << 30);
  assert_int_equal(pool->sched.page_size, 32);
  assert_int_equal(pool->sched.max_running, 100);
  assert_int_equal(pool->sched.max_batched_tokens, 3000);
  assert_int_equal(pool->sched.max_model_len, 20000);
  assert_false(pool->sched.chunked_prefill);
  assert_false(pool->sched.reserve_full_prompt);
  assert_false(s->workload.is_closed);
  assert_string_equal(s->workload.trace_path, trace);
  expect_trace_keys(&s->workload);
  assert_int_equal(s->workload.max_tokens_rule, KC_MAX_TOKENS_RATIO);
  assert_true(s->workload.max_tokens_ratio == 1.7);
  assert_true(s->slo_ttft_p95_ms == 0.1 && s->slo_tpot_p95_ms == 33.3);
  assert_true(s->price.on_demand_usd == 1.23);
  assert_true(s->price_gpu_hour_usd == 0.625 * 1.23 + 0.25 * 0.75 + 0.125 * (0.5 / 0.9));
  assert_true(s->seed == UINT64_MAX);
  free(loaded);
}

static void overrides_win(void **state)
{
  (void)state;
  const char *const sets[] = {
    "pools.main.kv.format=fp8-e4m3", "pools.0.memory={pages: 77}", "seed=9",
    "workload.closed=null", "workload.trace=t.csv", "workload.max_tokens=4k"};
  struct loaded *loaded = load_text(small, sets, sizeof sets / sizeof sets[0]);
  const struct kc_scenario *s = &loaded->scenario;
  assert_int_equal(s->pool[0].precision.k_format, KC_KV_FP8_E4M3);
  assert_int_equal(s->pool[0].precision.v_format, KC_KV_FP8_E4M3);
  assert_int_equal(s->pool[0].memory.rule, KC_RULE_FIXED); /* follows from pages */
  assert_int_equal(s->pool[0].memory.pages, 77);
  assert_int_equal(s->seed, 9);
  assert_false(s->workload.is_closed);
  assert_null(s->workload.trace_options.format); /* detect */
  assert_int_equal(s->workload.max_tokens_rule, KC_MAX_TOKENS_COUNT);
  assert_int_equal(s->workload.max_tokens_count, 4000);
  free(loaded);
}

/* ---- the resolved text ---- */

static void assert_same_pool(const struct kc_pool_spec *a, const struct kc_pool_spec *b)
{
  assert_string_equal(a->name, b->name);
  assert_int_equal(a->role, b->role);
  assert_string_equal(a->gpu_name, b->gpu_name);
  assert_string_equal(a->gpu.path, b->gpu.path);
  assert_string_equal(a->profile_name, b->profile_name);
  assert_string_equal(a->profile.name, b->profile.name);
  assert_int_equal(a->replicas, b->replicas);
  assert_int_equal(a->integrity, b->integrity);
  assert_ptr_equal(a->policy, b->policy);
  assert_memory_equal(&a->precision, &b->precision, sizeof a->precision);
  assert_int_equal(a->memory.rule, b->memory.rule);
  assert_true(a->memory.fraction == b->memory.fraction);
  assert_true(a->memory.kv_budget_bytes == b->memory.kv_budget_bytes);
  assert_true(a->memory.pages == b->memory.pages);
  assert_true(a->memory.extra_bytes == b->memory.extra_bytes);
  assert_int_equal(a->memory.page_size, b->memory.page_size);
  assert_int_equal(a->memory.tensor, b->memory.tensor);
  assert_int_equal(a->memory.pipeline, b->memory.pipeline);
  assert_int_equal(a->memory.draft_layers, b->memory.draft_layers);
  assert_int_equal(a->memory.max_running, b->memory.max_running);
  assert_int_equal(a->memory.max_batched_tokens, b->memory.max_batched_tokens);
  assert_int_equal(a->sched.role, b->sched.role);
  assert_int_equal(a->sched.page_size, b->sched.page_size);
  assert_int_equal(a->sched.max_running, b->sched.max_running);
  assert_int_equal(a->sched.max_batched_tokens, b->sched.max_batched_tokens);
  assert_true(a->sched.max_model_len == b->sched.max_model_len);
  assert_int_equal(a->sched.chunked_prefill, b->sched.chunked_prefill);
  assert_int_equal(a->sched.reserve_full_prompt, b->sched.reserve_full_prompt);
  assert_int_equal(a->sched.cap_count, b->sched.cap_count);
  assert_memory_equal(a->sched.cap, b->sched.cap, sizeof a->sched.cap);
}

static void assert_same_trace(const struct kc_trace_options *a, const struct kc_trace_options *b)
{
  assert_ptr_equal(a->format, b->format);
  assert_int_equal(a->zero_output, b->zero_output);
  assert_int_equal(a->time_unit, b->time_unit);
  assert_int_equal(a->block_tokens, b->block_tokens);
  assert_int_equal(a->tail, b->tail);
  assert_int_equal(a->failed, b->failed);
  assert_int_equal(a->cancelled, b->cancelled);
  assert_int_equal(a->missing_output_tokens, b->missing_output_tokens);
}

static void assert_same_transform(const struct kc_transform *a, const struct kc_transform *b)
{
  assert_int_equal(a->open_loop, b->open_loop);
  assert_int_equal(a->from_ps, b->from_ps);
  assert_int_equal(a->to_ps, b->to_ps);
  assert_int_equal(a->idle_cap_ps, b->idle_cap_ps);
  assert_int_equal(a->spread_ps, b->spread_ps);
  assert_int_equal(a->skip_rows, b->skip_rows);
  assert_int_equal(a->limit_rows, b->limit_rows);
  assert_memory_equal(&a->sample, &b->sample, sizeof a->sample);
  assert_memory_equal(&a->rate, &b->rate, sizeof a->rate);
  assert_true(a->seed == b->seed);
}

static void assert_same(const struct kc_scenario *a, const struct kc_scenario *b)
{
  assert_string_equal(a->name, b->name);
  assert_string_equal(a->model_name, b->model_name);
  assert_string_equal(a->model.path, b->model.path);
  assert_string_equal(a->model.sha256, b->model.sha256);
  assert_int_equal(a->pool_count, b->pool_count);
  assert_same_pool(&a->pool[0], &b->pool[0]);
  assert_memory_equal(&a->router, &b->router, sizeof a->router);
  assert_int_equal(a->workload.is_closed, b->workload.is_closed);
  assert_memory_equal(&a->workload.closed, &b->workload.closed, sizeof a->workload.closed);
  assert_string_equal(a->workload.trace_name, b->workload.trace_name);
  assert_string_equal(a->workload.trace_path, b->workload.trace_path);
  assert_string_equal(a->workload.trace_format, b->workload.trace_format);
  assert_same_trace(&a->workload.trace_options, &b->workload.trace_options);
  assert_same_transform(&a->workload.transform, &b->workload.transform);
  assert_int_equal(a->workload.loop, b->workload.loop);
  assert_int_equal(a->workload.max_tokens_rule, b->workload.max_tokens_rule);
  assert_true(a->workload.max_tokens_count == b->workload.max_tokens_count);
  assert_true(a->workload.max_tokens_ratio == b->workload.max_tokens_ratio);
  assert_true(a->slo_ttft_p95_ms == b->slo_ttft_p95_ms);
  assert_true(a->slo_tpot_p95_ms == b->slo_tpot_p95_ms);
  assert_true(a->price_gpu_hour_usd == b->price_gpu_hour_usd);
  assert_int_equal(a->price_known, b->price_known);
  assert_memory_equal(&a->price, &b->price, sizeof a->price);
  assert_memory_equal(&a->energy, &b->energy, sizeof a->energy);
  assert_true(a->seed == b->seed);
}

/* The text loads to the same scenario, and says the same again. */
static void assert_round_trip(const struct loaded *first)
{
  char *text = kc_scenario_resolved(&first->scenario);
  assert_non_null(text);
  struct loaded *second = load_text(text, NULL, 0);
  assert_same(&first->scenario, &second->scenario);
  char *again = kc_scenario_resolved(&second->scenario);
  assert_string_equal(text, again);
  free(text);
  free(again);
  free(second);
}

static void resolved_text_loads_again(void **state)
{
  (void)state;
  static const char *const variants[][3] = {
    {"seed=2", "seed=2", "seed=2"},
    {"pools.main.memory={pages: 100}", "pools.main.draft.layers=3", "price.gpu_hour_usd=0.1"},
    {"pools.main.memory={kv_budget: 3GiB}", "workload.max_tokens=5", "name=x # y"},
    {"pools.main.memory={rule: sglang}", "workload.max_tokens=ratio 0.33333333333333333",
     "seed=0"},
    {"pools.main.kv={k_format: int8}", "slo.ttft_p95_ms=1234567.125", "pools.main.name=p q"},
    {"pools.main.weights={vision: none, mtp: none}", "workload.closed.mode=steady",
     "workload.closed.requests=1M"},
  };
  struct loaded *loaded = load_text(full, NULL, 0);
  assert_round_trip(loaded);
  free(loaded);
  for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
    loaded = load_text(small, variants[i], 3);
    assert_round_trip(loaded);
    free(loaded);
  }
}

static void resolved_text_is_this(void **state)
{
  (void)state;
  const char *const sets[] = {"pools.main.memory={pages: 100}", "price.gpu_hour_usd=2.5"};
  struct loaded *loaded = load_text(small, sets, 2);
  char *text = kc_scenario_resolved(&loaded->scenario);
  char want[2048];
  snprintf(want, sizeof want,
           "name: \"s\"\n"
           "model: \"llama-3.1-8b\" # sha256 %s\n"
           "pools:\n"
           "  - name: \"main\"\n"
           "    role: serve\n"
           "    gpu: \"h100\"\n"
           "    profile: \"plain\"\n"
           "    replicas: 1\n"
           "    parallel: {tensor: 1, pipeline: 1}\n"
           "    kv: {k_format: bf16, v_format: bf16, page_size: 16, prefix_cache: auto, "
           "share_tenants: false, integrity: batched}\n"
           "    memory: {rule: fixed, pages: 100, extra: 0}\n"
           "    draft: {layers: 0}\n"
           "    scheduler:\n"
           "      policy: \"vllm-0.19\"\n"
           "      max_running: 1024\n"
           "      max_model_len: 131072\n"
           "      chunked_prefill: true\n"
           "      overlap: true\n"
           "      queue: fcfs\n"
           "      queue_limit: 0\n"
           "      max_batched_tokens: 8192\n"
           "      reserve_full_prompt: true\n"
           "      long_prefill_token_threshold: 0\n"
           "router: {policy: round-robin}\n"
           "workload:\n"
           "  closed: {concurrency: 4, input: 100, output: 10, requests: 4, mode: wave, "
           "shared_prefix: 0}\n"
           "  max_tokens: trace\n"
           "  tenants: one\n"
           "slo: {ttft_p95_ms: 0, tpot_p95_ms: 0}\n"
           "price:\n"
           "  gpu_hour_usd: 2.5\n"
           "seed: 1\n", loaded->scenario.model.sha256);
  assert_string_equal(text, want);
  free(text);
  free(loaded);
}

/* ---- the shipped examples ---- */

static void every_example_loads_and_round_trips(void **state)
{
  (void)state;
  char folder[256];
  snprintf(folder, sizeof folder, "%s/scenarios/examples", KVCAP_SOURCE_DIR);
  DIR *listing = opendir(folder);
  assert_non_null(listing);
  int examples = 0;
  for (const struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
    char path[600];
    if (strstr(entry->d_name, ".yaml") == NULL) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    struct loaded *loaded = load_path(path, NULL, 0);
    assert_round_trip(loaded);
    free(loaded);
    examples++;
  }
  closedir(listing);
  assert_true(examples >= 5);
}

/* ---- finding files ---- */

static void names_are_found_in_order(void **state)
{
  (void)state;
  char data[256], beside[256], found[KC_DIAG_PATH_BYTES], want[KC_DIAG_PATH_BYTES];
  struct kc_diag diag;
  path_in(data, "data");
  path_in(beside, "here/s.yaml");
  assert_int_equal(kc_data_find("gpus", "h100", ".yaml", beside, found, &diag), KC_OK);
  snprintf(want, sizeof want, "%s/scenarios/gpus/h100.yaml", KVCAP_SOURCE_DIR);
  assert_string_equal(found, want);
  /* $KVCAP_DATA comes before the source tree, with or without scenarios/ */
  mkdir(data, 0755);
  path_in(want, "data/scenarios");
  mkdir(want, 0755);
  path_in(want, "data/scenarios/gpus");
  mkdir(want, 0755);
  write_file("data/scenarios/gpus/h100.yaml", "x: 1\n");
  setenv("KVCAP_DATA", data, 1);
  assert_int_equal(kc_data_find("gpus", "h100", ".yaml", beside, found, &diag), KC_OK);
  path_in(want, "data/scenarios/gpus/h100.yaml");
  assert_string_equal(found, want);
  path_in(want, "data/gpus");
  mkdir(want, 0755);
  write_file("data/gpus/h100.yaml", "x: 1\n");
  assert_int_equal(kc_data_find("gpus", "h100", ".yaml", beside, found, &diag), KC_OK);
  path_in(want, "data/gpus/h100.yaml");
  assert_string_equal(found, want);
  /* beside the scenario comes first */
  path_in(want, "here");
  mkdir(want, 0755);
  write_file("here/h100.yaml", "x: 1\n");
  assert_int_equal(kc_data_find("gpus", "h100", ".yaml", beside, found, &diag), KC_OK);
  path_in(want, "here/h100.yaml");
  assert_string_equal(found, want);
  /* a path is taken beside the scenario, never by name */
  assert_int_equal(kc_data_find("gpus", "./h100.yaml", ".yaml", beside, found, &diag), KC_OK);
  assert_int_equal(kc_data_find("gpus", "absent.yaml", ".yaml", beside, found, &diag), KC_ERR_FILE);
  assert_int_equal(kc_data_find("gpus", "absent", ".yaml", beside, found, &diag), KC_ERR_INPUT);
  unsetenv("KVCAP_DATA");
}

static void traces_are_found_in_order(void **state)
{
  (void)state;
  char data[256], beside[256], found[KC_DIAG_PATH_BYTES], want[KC_DIAG_PATH_BYTES];
  struct kc_diag diag;
  path_in(data, "tdata");
  path_in(beside, "s.yaml");
  mkdir(data, 0755);
  path_in(want, "tdata/traces");
  mkdir(want, 0755);
  path_in(want, "tdata/traces/samples");
  mkdir(want, 0755);
  write_file("tdata/traces/samples/only-here.csv", "");
  assert_int_equal(kc_trace_find("only-here.csv", beside, found, &diag), KC_ERR_FILE);
  setenv("KVCAP_DATA", data, 1);
  assert_int_equal(kc_trace_find("only-here.csv", beside, found, &diag), KC_OK);
  path_in(want, "tdata/traces/samples/only-here.csv");
  assert_string_equal(found, want);
  assert_int_equal(kc_trace_find("traces/samples/only-here.csv", beside, found, &diag), KC_OK);
  assert_string_equal(found, want);
  write_file("only-here.csv", "");
  assert_int_equal(kc_trace_find("only-here.csv", beside, found, &diag), KC_OK);
  path_in(want, "only-here.csv");
  assert_string_equal(found, want);
  assert_int_equal(kc_trace_find("/nowhere/x.csv", beside, found, &diag), KC_ERR_FILE);
  assert_string_equal(diag.text, "trace \"/nowhere/x.csv\" is not there");
  assert_int_equal(kc_trace_find("tdata/traces", beside, found, &diag), KC_OK); /* a folder */
  path_in(want, "tdata/traces");
  assert_string_equal(found, want);
  unsetenv("KVCAP_DATA");
}

static void a_trace_of_the_command_line_is_meant_from_here(void **state)
{
  (void)state;
  char was[512], here[256];
  const char *const sets[] = {"workload.closed=null", "workload.trace=t.csv"};
  assert_non_null(getcwd(was, sizeof was));
  path_in(here, "elsewhere");
  mkdir(here, 0755);
  write_file("elsewhere/t.csv", "");
  assert_int_equal(chdir(here), 0);
  struct loaded *loaded = load_text(small, sets, 2);
  assert_string_equal(loaded->scenario.workload.trace_path, "t.csv");
  free(loaded);
  assert_int_equal(chdir(was), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_is_not_said_gets_its_default),
    cmocka_unit_test(an_a100_gets_smaller_batches),
    cmocka_unit_test(every_key_arrives),
    cmocka_unit_test(overrides_win),
    cmocka_unit_test(resolved_text_loads_again),
    cmocka_unit_test(resolved_text_is_this),
    cmocka_unit_test(every_example_loads_and_round_trips),
    cmocka_unit_test(names_are_found_in_order),
    cmocka_unit_test(traces_are_found_in_order),
    cmocka_unit_test(a_trace_of_the_command_line_is_meant_from_here),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
