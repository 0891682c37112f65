/* See engine_twin.h. */
#include "engine_twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char twin_config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 32,"
    " \"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"num_key_value_heads\": 1,"
    " \"head_dim\": 16, \"vocab_size\": 64, \"max_position_embeddings\": 262144,"
    " \"torch_dtype\": \"bfloat16\"}";

static void die(const char *what, const struct kc_diag *diag)
{
  fprintf(stderr, "%s: %s\n", what, diag->text);
  exit(1);
}

static void add_text(void *context, const char *text, size_t bytes)
{
  struct twin_log *log = context;
  if (log->bytes + bytes > log->capacity) {
    log->capacity = 2 * (log->bytes + bytes) + 65536;
    log->text = realloc(log->text, log->capacity);
    if (log->text == NULL) abort();
  }
  memcpy(log->text + log->bytes, text, bytes);
  log->bytes += bytes;
}

static struct kc_decision_pair exec_row(const void *context, uint32_t slot, uint32_t index)
{
  const struct kc_page_ref ref = kc_exec_row(context, slot)[index];
  return (struct kc_decision_pair){ref.page, ref.tag};
}

static struct kc_prompts prompts_of(struct twin_engine *e)
{
  const uint32_t page = e->instance->sched.page_size;
  e->prompts = (struct kc_synthetic_prompts){e->instance->seed, 64};
  e->texts = (struct kc_content_prompts){e->instance->seed, 64, page, e->requests};
  if (e->text == TWIN_KEYED) return kc_prompts_of_contents(&e->texts);
  struct kc_prompts prompts = kc_prompts_synthetic(&e->prompts);
  prompts.whole = e->text == TWIN_OWN;
  return prompts;
}

static void make_engine(struct twin_engine *e, struct kc_diag *diag)
{
  const struct kc_instance_config *instance = e->instance;
  const struct kc_sched_config *sched = &instance->sched;
  const struct kc_cache_config cache = {KC_KV_BF16, KC_KV_BF16, instance->pages,
                                        sched->page_size, 0, 0, e->model->site};
  if (kc_cache_init(&e->cache, &e->model->weights.recipe, &cache, diag) != KC_OK) {
    die("cache", diag);
  }
  const bool host = kc_site_is_host(&e->model->site);
  const struct kc_exec_config exec = {
      .site = e->model->site, .weights = &e->model->weights, .cache = &e->cache,
      .slots = sched->max_running,
      .row_entries = kc_exec_row_entries(sched->max_model_len, sched->page_size, instance->pages),
      .pages = instance->pages, .integrity = KC_INTEGRITY_BATCHED, .page_tokens = sched->page_size,
      .requests = e->requests, .request_count = e->request_count,
      .output_tokens = e->output_tokens, .max_model_len = sched->max_model_len,
      .prompts = prompts_of(e), .end_token = -1, .team = host ? e->model->team : NULL,
      .threads = host ? TWIN_THREADS : 1, .block_rows = e->block_rows, .clock = &e->predicted,
      .probe = e->fault_every > 0 ? &e->probe : NULL};
  const struct kc_tag_faults_config faults = {
      .kinds = e->fault_kinds, .every_steps = e->fault_every, .seed = instance->seed,
      .slots = sched->max_running, .requests = e->request_count};
  if (kc_arena_init(&e->arena, kc_exec_need(&exec) + kc_decision_need(sched->max_running) +
                    kc_tag_faults_need(&faults), diag) != KC_OK ||
      kc_exec_init(&e->exec, &exec, &e->arena, diag) != KC_OK) {
    die("engine", diag);
  }
  if (e->fault_every > 0) {
    if (kc_tag_faults_init(&e->faults, &faults, &e->arena) != KC_OK) abort();
    e->probe = kc_tag_faults_probe(&e->faults);
  }
  e->tap.inner = kc_exec_executor(&e->exec);
  e->tap.row = exec_row;
  e->tap.row_context = &e->exec;
}

/* Stands between instance and predicted executor: a tap, and the engine where it is real. */
struct kc_executor twin_wrap(void *context, const struct kc_executor *executor)
{
  struct twin_engine *e = context;
  struct kc_diag diag = {0};
  const uint32_t slots = e->instance->sched.max_running;
  e->predicted = *executor;
  e->tap = (struct kc_decision_tap){
      .inner = *executor, .write = add_text, .write_context = &e->log};
  if (e->real) {
    make_engine(e, &diag);
  } else if (kc_arena_init(&e->arena, kc_decision_need(slots), &diag) != KC_OK) {
    die("tap", &diag);
  }
  if (kc_decision_init(&e->tap, slots, &e->arena) != KC_OK) abort();
  return kc_decision_executor(&e->tap);
}

void twin_engine_free(struct twin_engine *engine)
{
  if (engine->real) {
    kc_exec_deinit(&engine->exec);
    kc_cache_deinit(&engine->cache);
  }
  kc_arena_deinit(&engine->arena);
  free(engine->log.text);
}

void twin_model_make(struct twin_model *model, const struct kc_site *site)
{
  static struct kc_model shapes;
  static const uint64_t seed = 3;
  struct kc_recipe recipe;
  struct kc_precision precision;
  struct kc_diag diag = {0};
  const size_t bytes = strlen(twin_config);
  const struct kc_weight_source source = kc_synthetic_source(&seed);
  kc_precision_default(&precision);
  model->site = site != NULL ? *site : kc_site_host();
  if (kc_model_parse(&shapes, twin_config, bytes, "tiny.json", &diag) != KC_OK ||
      kc_recipe_parse(&recipe, &shapes, twin_config, bytes, &diag) != KC_OK ||
      kc_weights_build(&model->weights, &model->site, &recipe, &precision, 131072, &source,
                       &diag) != KC_OK ||
      kc_team_create(&model->team, TWIN_THREADS, &diag) != KC_OK) {
    die("set-up", &diag);
  }
}

const struct kc_site *twin_open_device(int argc, char **argv, struct kc_accelerator *device)
{
  struct kc_diag diag = {0};
  for (int i = 1; i + 1 < argc; i++) {
    if (strcmp(argv[i], "--module") != 0) continue;
    if (kc_accelerator_open(device, argv[i + 1], 0, &diag) == KC_OK) return &device->site;
    fprintf(stderr, "%s\n", diag.text);
    exit(2);
  }
  return NULL;
}

bool twin_has_kernels(const struct twin_model *model, uint32_t page_tokens)
{
  if (kc_site_is_host(&model->site)) return true;
  return page_tokens >= 16 && page_tokens <= 128 && (page_tokens & (page_tokens - 1)) == 0;
}

void twin_model_free(struct twin_model *model)
{
  kc_team_destroy(model->team);
  kc_weights_free(&model->weights);
}

static void show_difference(const struct twin_log *a, const struct twin_log *b)
{
  size_t at = 0, start = 0;
  while (at < a->bytes && at < b->bytes && a->text[at] == b->text[at]) {
    if (a->text[at++] == '\n') start = at;
  }
  printf("  simulator: %.*s\n", (int)strcspn(a->text + start, "\n"), a->text + start);
  printf("  engine:    %.*s\n", (int)strcspn(b->text + start, "\n"), b->text + start);
}

bool twin_logs_equal(struct twin_log *simulated, struct twin_log *computed)
{
  add_text(simulated, "", 1);
  add_text(computed, "", 1);
  if (simulated->bytes == computed->bytes &&
      memcmp(simulated->text, computed->text, simulated->bytes) == 0) {
    return true;
  }
  show_difference(simulated, computed);
  return false;
}
