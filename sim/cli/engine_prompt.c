/* Prompts through the engine: see engine_prompt.h.
 *
 *   prompts --> requests, all there at 0 --> instance (vllm-0.19) --> executor --> bytes
 *
 * The scheduler, page pool and executor are those that scenarios run on; the clock is the wall's.
 * With one prompt its bytes are printed as they come; with several, or as JSON, at the end.
 */
#include "sim/cli/engine_prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/exec/executor.h"
#include "engine/instance/instance.h"
#include "engine/sched/vllm_0_19.h"
#include "sim/cli/cli.h"
#include "sim/cli/engine_device.h"
#include "sim/cli/engine_model.h"
#include "sim/cli/interrupt.h"

enum { PROMPT_SCHEMA = 1, PROMPTS_MAX = KC_OPTION_LIST_MAX + 1, PAGE_TOKENS = 16 };

struct prompt {
  const char *text;
  size_t bytes;
};

struct session {
  const struct kc_engine_prompts *arguments;
  char model[KC_DIAG_PATH_BYTES];
  struct kc_checkpoint checkpoint;
  struct kc_file file;
  struct prompt prompt[PROMPTS_MAX];
  struct kc_request request[PROMPTS_MAX];
  uint32_t count, pages;
  uint32_t longest; /* tokens of a prompt and its answer */
  struct kc_weights weights;
  struct kc_cache cache;
  struct kc_accelerator device;
  struct kc_team *team; /* NULL on a device */
  uint32_t threads;
  struct kc_arena arena;
  struct kc_exec exec;
  struct kc_instance instance;
  bool streams; /* bytes are printed as they come */
  double host_seconds;
};

/* ---- prompts ---- */

static int32_t prompt_token(void *context, uint32_t request, uint32_t position)
{
  const struct session *s = context;
  KC_ASSERT(request < s->count);
  KC_ASSERT(position < s->prompt[request].bytes);
  return (unsigned char)s->prompt[request].text[position];
}

static enum kc_err add_prompt(struct session *s, const char *text, size_t bytes,
                              struct kc_diag *diag)
{
  const uint64_t context = s->checkpoint.recipe.context_max;
  const uint32_t tokens = s->arguments->tokens;
  if (bytes == 0) return kc_fail(diag, KC_ERR_INPUT, "a prompt is empty: it needs a byte at least");
  if (bytes + tokens > context) {
    return kc_fail(diag, KC_ERR_INPUT, "a prompt of %zu bytes and %u tokens more: the context of "
                   "%.100s is %llu tokens", bytes, tokens, s->model, (unsigned long long)context);
  }
  KC_ASSERT(s->count < PROMPTS_MAX);
  s->prompt[s->count] = (struct prompt){text, bytes};
  s->request[s->count++] = (struct kc_request){.input_tokens = (uint32_t)bytes,
                                               .output_tokens = tokens, .max_tokens = tokens};
  if (bytes + tokens > s->longest) s->longest = (uint32_t)(bytes + tokens);
  s->pages += (uint32_t)((bytes + tokens + PAGE_TOKENS - 1) / PAGE_TOKENS);
  return KC_OK;
}

static enum kc_err read_prompts(struct session *s, struct kc_diag *diag)
{
  const struct kc_engine_prompts *a = s->arguments;
  for (size_t i = 0; i < a->prompt.count; i++) {
    KC_TRY(add_prompt(s, a->prompt.item[i], strlen(a->prompt.item[i]), diag));
  }
  if (a->file == NULL) return KC_OK;
  KC_TRY(kc_file_open(&s->file, a->file, 1 << 20, diag));
  return add_prompt(s, s->file.data, s->file.bytes, diag);
}

/* ---- the engine ---- */

static enum kc_err open_model(struct session *s, struct kc_diag *diag)
{
  static const char *const weights[] = {"default=bf16", "default=fp8", "default=int4-g32",
                                        "default=int4-g128"};
  struct kc_precision precision;
  KC_TRY(kc_engine_checkpoint_open(&s->checkpoint, s->arguments->model, s->model, diag));
  KC_TRY(kc_engine_check_bytes(&s->checkpoint, diag));
  KC_TRY(read_prompts(s, diag));
  kc_precision_default(&precision);
  KC_TRY(kc_precision_parse(&precision, weights[s->arguments->weights], diag));
  KC_TRY(kc_engine_device_open(&s->device, (enum kc_engine_device)s->arguments->device, diag));
  KC_TRY(kc_checkpoint_build(&s->checkpoint, &s->device.site, &precision, s->longest, &s->weights,
                             diag));
  kc_engine_note_unused(&s->checkpoint, s->model);
  return KC_OK;
}

static void on_token(void *context, uint32_t request, uint32_t index, int32_t token)
{
  const struct session *s = context;
  KC_ASSERT(token >= 0 && token < 256);
  if (!s->streams) return;
  if (index == 0) fwrite(s->prompt[request].text, 1, s->prompt[request].bytes, stdout);
  putchar(token);
  fflush(stdout);
}

static void on_step(void *context, const struct kc_step_report *report)
{
  (void)context, (void)report;
}

static void on_gap(void *context, kc_ps gap_ps)
{
  (void)context, (void)gap_ps;
}

static void on_end(void *context, const struct kc_outcome *outcome)
{
  (void)context;
  KC_ASSERT(outcome->status == KC_STATUS_COMPLETED); /* there is room for all of them */
}

static struct kc_exec_config exec_config(struct session *s, const struct kc_sched_config *sched)
{
  return (struct kc_exec_config){
      .site = s->device.site, .weights = &s->weights, .cache = &s->cache,
      .slots = sched->max_running,
      .row_entries = kc_exec_row_entries(sched->max_model_len, PAGE_TOKENS, s->pages),
      .pages = s->pages, .integrity = KC_INTEGRITY_BATCHED, .page_tokens = PAGE_TOKENS,
      .requests = s->request, .request_count = s->count,
      .output_tokens = (uint64_t)s->count * s->arguments->tokens,
      .max_model_len = sched->max_model_len,
      .prompts = {.context = s, .token = prompt_token}, .end_token = -1,
      .stop = kc_interrupt_wanted,
      .temperature = (float)s->arguments->temperature, .sample_seed = s->arguments->seed,
      .team = s->team, .threads = s->threads, .on_token = on_token, .on_token_context = s};
}

static enum kc_err build_engine(struct session *s, struct kc_diag *diag)
{
  const enum kc_kv_format format = s->arguments->kv == 0 ? KC_KV_BF16 : KC_KV_FP8_E4M3;
  const struct kc_cache_config cache = {.k_format = format, .v_format = format,
                                        .pages = s->pages, .page_tokens = PAGE_TOKENS,
                                        .site = s->device.site};
  struct kc_instance_config config = {.policy = &kc_policy_vllm_0_19, .pages = s->pages,
                                      .requests_max = s->count, .seed = s->arguments->seed,
                                      .integrity = KC_INTEGRITY_BATCHED};
  const struct kc_observer observer = {s, on_step, on_gap, on_end};
  config.policy->defaults(&config.sched, UINT64_C(80) << 30, false);
  config.sched.page_size = PAGE_TOKENS;
  config.sched.max_running = s->count;
  config.sched.max_model_len = s->checkpoint.recipe.context_max;
  config.sched.overlap = false; /* nobody waits for a scheduler here */
  KC_TRY(kc_cache_init(&s->cache, &s->weights.recipe, &cache, diag));
  s->threads = kc_site_is_host(&s->device.site) ? kc_engine_threads(s->arguments->threads) : 1;
  if (s->threads > 1) KC_TRY(kc_team_create(&s->team, s->threads, diag));
  const struct kc_exec_config exec = exec_config(s, &config.sched);
  KC_TRY(kc_arena_init(&s->arena, kc_exec_need(&exec) + kc_instance_need(&config), diag));
  KC_TRY(kc_exec_init(&s->exec, &exec, &s->arena, diag));
  const struct kc_executor executor = kc_exec_executor(&s->exec);
  return kc_instance_init(&s->instance, &config, s->request, &executor, &observer, &s->arena,
                          diag);
}

static double now_s(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static enum kc_err run(struct session *s, struct kc_diag *diag)
{
  const double begin = now_s();
  KC_TRY(build_engine(s, diag));
  kc_interrupt_catch();
  for (uint32_t i = 0; i < s->count; i++) kc_instance_arrive(&s->instance);
  while (kc_instance_busy(&s->instance)) {
    if (ferror(stdout) != 0) return KC_OK; /* nobody reads on, or kc_cli_finish says why */
    if (kc_interrupt_wanted(NULL)) {
      return kc_fail(diag, KC_ERR_INTERRUPTED, "interrupted; what was printed is cut off");
    }
    KC_TRY(kc_instance_begin_step(&s->instance, diag));
    if (s->instance.in_step) kc_instance_end_step(&s->instance);
  }
  s->host_seconds = now_s() - begin;
  return kc_instance_finish(&s->instance, diag);
}

static void close_session(struct session *s)
{
  kc_exec_deinit(&s->exec);
  if (s->arena.base != NULL) kc_arena_deinit(&s->arena);
  if (s->team != NULL) kc_team_destroy(s->team);
  kc_cache_deinit(&s->cache);
  kc_weights_free(&s->weights);
  kc_accelerator_close(&s->device);
  if (s->file.data != NULL) kc_file_close(&s->file);
  kc_checkpoint_close(&s->checkpoint);
}

/* ---- what came of it ---- */

static void print_texts(const struct session *s)
{
  if (s->streams) {
    putchar('\n');
    return;
  }
  for (uint32_t i = 0; i < s->count; i++) {
    uint32_t count;
    const int32_t *token = kc_exec_output(&s->exec, i, &count);
    if (i > 0) puts("---");
    fwrite(s->prompt[i].text, 1, s->prompt[i].bytes, stdout);
    for (uint32_t t = 0; t < count; t++) putchar(token[t]);
    putchar('\n');
  }
}

/* `text` is null where the bytes are no UTF-8. */
static json_t *request_json(const struct session *s, uint32_t request)
{
  uint32_t count;
  const int32_t *token = kc_exec_output(&s->exec, request, &count);
  json_t *tokens = json_array();
  char *text = calloc(count + 1, 1);
  for (uint32_t t = 0; t < count && text != NULL && tokens != NULL; t++) {
    text[t] = (char)token[t];
    if (json_array_append_new(tokens, json_integer(token[t])) != 0) break;
  }
  json_t *said = text == NULL ? NULL : json_stringn(text, count);
  json_t *asked = json_stringn(s->prompt[request].text, s->prompt[request].bytes);
  free(text);
  return json_pack("{s:o, s:i, s:o, s:o}", "prompt", asked != NULL ? asked : json_null(),
                   "prompt_tokens", (int)s->prompt[request].bytes, "text",
                   said != NULL ? said : json_null(), "tokens", tokens);
}

static int print_json(const struct session *s)
{
  static const char *const weights[] = {"bf16", "fp8", "int4-g32", "int4-g128"};
  const struct kc_engine_prompts *a = s->arguments;
  const uint64_t *counter = s->exec.host.counter;
  json_t *requests = json_array();
  for (uint32_t i = 0; i < s->count && requests != NULL; i++) {
    if (json_array_append_new(requests, request_json(s, i)) == 0) continue;
    json_decref(requests);
    requests = NULL;
  }
  json_t *tags = json_pack("{s:I, s:I, s:I, s:I}", "checks",
                           (json_int_t)counter[KC_COUNT_CHECKS], "entries",
                           (json_int_t)counter[KC_COUNT_ENTRIES], "violations",
                           (json_int_t)counter[KC_COUNT_EVENTS], "writes",
                           (json_int_t)counter[KC_COUNT_WRITES]);
  json_t *host = json_pack("{s:f, s:i}", "seconds", s->host_seconds, "threads", (int)s->threads);
  return kc_cli_print_json(json_pack(
      "{s:i, s:o, s:o, s:s, s:s, s:f, s:I, s:I, s:o, s:o, s:o}", "schema", PROMPT_SCHEMA, "model",
      kc_cli_json_string(s->model), "device",
      kc_cli_json_string(kc_engine_device_name(&s->device)), "weights", weights[a->weights], "kv",
      a->kv == 0 ? "bf16" : "fp8-e4m3", "temperature", a->temperature, "seed",
      (json_int_t)(a->seed & INT64_MAX), "steps", (json_int_t)s->exec.steps, "page_tags", tags,
      "requests", requests, "host", host));
}

int kc_engine_run_prompts(const struct kc_engine_prompts *prompts)
{
  struct kc_diag diag = {0};
  struct session *s = calloc(1, sizeof *s);
  if (s == NULL) {
    kc_fail(&diag, KC_ERR_MEMORY, "no memory for the run");
    return kc_cli_fail(&diag);
  }
  s->arguments = prompts;
  enum kc_err err = open_model(s, &diag);
  s->streams = s->count == 1 && !prompts->json;
  if (err == KC_OK) err = run(s, &diag);
  int status = 0;
  if (err != KC_OK) {
    if (s->streams && s->exec.tokens > 0) putchar('\n');
    status = kc_cli_fail(&diag);
  } else if (prompts->json) {
    status = print_json(s);
  } else {
    print_texts(s);
  }
  close_session(s);
  free(s);
  return status;
}
