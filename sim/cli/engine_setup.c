/* See engine_setup.h. Owns the engine's arena, KV pool and threads; the run and the model are
 * borrowed. Texts are given by the page keys where prompts are cached, because the pages of a
 * conversation's next turn then say what the last answer was; else the model reads its own words.
 */
#include "sim/cli/engine_setup.h"

#include <string.h>

#include "engine/base/check.h"
#include "engine/exec/rank.h"
#include "sim/cli/interrupt.h"

static const char model_config[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128,"
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 1,"
    " \"head_dim\": 16, \"vocab_size\": 192, \"max_position_embeddings\": 4194304,"
    " \"rope_theta\": 10000.0, \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": false,"
    " \"torch_dtype\": \"bfloat16\"}";

/* ---- the model ---- */

enum kc_err kc_engine_model_build(struct kc_engine_model *model, const struct kc_site *site,
                                  uint32_t positions, uint64_t seed, struct kc_diag *diag)
{
  struct kc_recipe recipe;
  struct kc_precision precision;
  const size_t bytes = strlen(model_config);
  KC_ASSERT(positions > 0);
  memset(model, 0, sizeof *model);
  model->seed = seed;
  model->tensor = 1;
  model->tiny = true;
  const struct kc_weight_source source = kc_synthetic_source(&model->seed);
  kc_precision_default(&precision);
  KC_TRY(kc_model_parse(&model->shapes, model_config, bytes, "the synthetic model", diag));
  KC_TRY(kc_recipe_parse(&recipe, &model->shapes, model_config, bytes, diag));
  return kc_weights_build(&model->weights, site, &recipe, &precision, positions, &source, diag);
}

enum kc_err kc_engine_model_build_own(struct kc_engine_model *model, const struct kc_site *site,
                                      const struct kc_scenario *scenario, uint32_t positions,
                                      struct kc_diag *diag)
{
  const struct kc_pool_spec *pool = &scenario->pool[0];
  struct kc_recipe recipe;
  KC_ASSERT(positions > 0 && scenario->pool_count > 0);
  memset(model, 0, sizeof *model);
  model->shapes = scenario->model;
  model->seed = scenario->seed;
  model->tensor = pool->memory.tensor > 0 ? pool->memory.tensor : 1;
  struct kc_weight_source source = kc_synthetic_source(&model->seed);
  source.interrupted = kc_interrupt_wanted;
  const struct kc_precision precision = kc_rank_precision(&model->shapes, &pool->precision);
  KC_TRY(kc_recipe_load(&recipe, &model->shapes, diag));
  KC_TRY(kc_recipe_shard(&recipe, model->tensor, diag));
  return kc_weights_build(&model->weights, site, &recipe, &precision, positions, &source, diag);
}

uint64_t kc_engine_model_parameters(const struct kc_engine_model *model)
{
  if (!model->tiny) return kc_model_parameters(&model->shapes);
  KC_ASSERT(!model->weights.recipe.tied_embedding); /* a tied one says its last word again */
  KC_ASSERT(model->weights.recipe.experts == 0);
  const struct kc_recipe *r = &model->weights.recipe;
  const uint64_t q = (uint64_t)r->heads * r->head_dim, kv = (uint64_t)r->kv_heads * r->head_dim;
  const uint64_t attention = (uint64_t)r->hidden * (2 * q + 2 * kv);
  const uint64_t layer = attention + 3ull * r->hidden * r->dense_width + 2ull * r->hidden;
  return 2ull * r->vocabulary * r->hidden + r->layers * layer + r->hidden;
}

void kc_engine_model_free(struct kc_engine_model *model)
{
  kc_weights_free(&model->weights);
  memset(model, 0, sizeof *model);
}

/* ---- the other ranks ---- */

static uint64_t all_reduce_ns(void *context, uint64_t bytes)
{
  const struct kc_engine_peers *peers = context;
  const struct kc_shape shape = {.elements = (double)bytes / 2, .gpus = (double)peers->tensor};
  KC_ASSERT(bytes > 0);
  const struct kc_op_time time =
      kc_profile_time(peers->kernels, &peers->device, KC_FAMILY_ALLREDUCE_GRAPH, &shape);
  return (uint64_t)(1000 * time.us);
}

struct kc_collective kc_engine_collective(const struct kc_engine_peers *peers)
{
  KC_ASSERT(peers->tensor > 0);
  if (peers->tensor == 1 || peers->kernels == NULL) return (struct kc_collective){0};
  return (struct kc_collective){(void *)(uintptr_t)peers, all_reduce_ns};
}

/* ---- the tap ---- */

static void add_text(void *context, const char *text, size_t bytes)
{
  struct kc_engine_log *log = context;
  KC_ASSERT(bytes > 0);
  kc_sha256_update(&log->sha, text, bytes);
  log->bytes += bytes;
  if (log->file != NULL) (void)fwrite(text, 1, bytes, log->file); /* kc_file_finish tells */
}

void kc_engine_log_end(struct kc_engine_log *log, char hex[KC_SHA256_HEX_BYTES])
{
  KC_ASSERT(log != NULL);
  kc_sha256_final_hex(&log->sha, hex);
}

static struct kc_decision_pair exec_row(const void *context, uint32_t slot, uint32_t index)
{
  const struct kc_page_ref ref = kc_exec_row(context, slot)[index];
  return (struct kc_decision_pair){ref.page, ref.tag};
}

/* Puts the tap before `inner`; its arrays come from the engine's arena. */
static enum kc_err tap(struct kc_engine *engine, struct kc_run *run,
                       const struct kc_executor *inner, struct kc_diag *diag)
{
  KC_ASSERT(inner->run != NULL);
  engine->tap.inner = *inner;
  engine->tap.write = add_text;
  engine->tap.write_context = &engine->log;
  kc_sha256_init(&engine->log.sha);
  if (kc_decision_init(&engine->tap, run->max_running, &engine->arena) != KC_OK) {
    return kc_fail(diag, KC_ERR_MEMORY, "the decision log needs more memory than was reserved");
  }
  run->replay.executor = kc_decision_executor(&engine->tap);
  return KC_OK;
}

enum kc_err kc_engine_attach_tap(struct kc_engine *engine, struct kc_run *run,
                                 struct kc_diag *diag)
{
  engine->predicted = run->replay.executor;
  KC_ASSERT(run->max_running > 0);
  KC_TRY(kc_arena_init(&engine->arena, kc_decision_need(run->max_running), diag));
  return tap(engine, run, &engine->predicted, diag);
}

/* ---- the engine ---- */

static uint64_t output_tokens(const struct kc_run *run)
{
  const struct kc_request *rows = run->sessions ? run->rows : run->requests;
  uint64_t sum = 0;
  if (run->scenario->workload.is_closed) {
    return (uint64_t)run->request_count * run->scenario->workload.closed.output_tokens;
  }
  for (uint32_t i = 0; i < run->request_count; i++) {
    if (rows[i].input_tokens >= run->replay.instance.sched.max_model_len) continue; /* refused */
    sum += kc_request_output(&rows[i], run->replay.instance.sched.max_model_len);
  }
  return sum;
}

static struct kc_prompts texts_of(struct kc_engine *engine, const struct kc_run *run,
                                  uint32_t vocabulary)
{
  const uint64_t seed = run->scenario->seed;
  const uint32_t page = run->replay.instance.sched.page_size;
  KC_ASSERT(page > 0);
  engine->prompts = (struct kc_synthetic_prompts){seed, vocabulary};
  engine->texts = (struct kc_content_prompts){seed, vocabulary, page, run->requests};
  return run->prefix_cache ? kc_prompts_of_contents(&engine->texts)
                           : kc_prompts_synthetic(&engine->prompts);
}

/* FP8 is FP8, everything else BF16; the summary says which. */
static enum kc_kv_format kept_as(enum kc_kv_format format)
{
  KC_ASSERT((unsigned)format < KC_KV_FORMATS);
  return format == KC_KV_FP8_E4M3 || format == KC_KV_FP8_G128 ? KC_KV_FP8_E4M3 : KC_KV_BF16;
}

static enum kc_err make_pool(struct kc_engine *engine, const struct kc_run *run,
                             const struct kc_engine_model *model, struct kc_diag *diag)
{
  const struct kc_precision *given = &run->scenario->pool[0].precision;
  const struct kc_cache_config cache = {.k_format = kept_as(given->k_format),
                                        .v_format = kept_as(given->v_format),
                                        .pages = run->pages,
                                        .page_tokens = run->replay.instance.sched.page_size,
                                        .site = model->weights.site};
  KC_ASSERT(run->pages > 0);
  return kc_cache_init(&engine->cache, &model->weights.recipe, &cache, diag);
}

enum kc_err kc_engine_attach(struct kc_engine *engine, struct kc_run *run,
                             const struct kc_engine_model *model, enum kc_engine_clock clock,
                             uint32_t threads, struct kc_diag *diag)
{
  const struct kc_instance_config *instance = &run->replay.instance;
  const struct kc_sched_config *sched = &instance->sched;
  engine->predicted = run->replay.executor;
  KC_TRY(make_pool(engine, run, model, diag));
  if (kc_site_is_host(&model->weights.site)) KC_TRY(kc_team_create(&engine->team, threads, diag));
  else threads = 1;
  engine->peers = (struct kc_engine_peers){run->kernels,
                                           kc_device_of(&run->scenario->pool[0].gpu),
                                           model->tensor};
  const struct kc_exec_config exec = {
      .site = model->weights.site, .weights = &model->weights, .cache = &engine->cache,
      .slots = sched->max_running,
      .row_entries = kc_exec_row_entries(sched->max_model_len, sched->page_size, run->pages),
      .pages = run->pages, .integrity = instance->integrity, .page_tokens = sched->page_size,
      .requests = run->requests, .request_count = run->request_count,
      .output_tokens = output_tokens(run), .max_model_len = sched->max_model_len,
      .prompts = texts_of(engine, run, model->weights.recipe.vocabulary),
      .collective = kc_engine_collective(&engine->peers), .end_token = -1,
      .stop = kc_interrupt_wanted,
      .team = engine->team, .threads = threads,
      .clock = clock == KC_ENGINE_VIRTUAL ? &engine->predicted : NULL,
      .probe = engine->fault_every > 0 ? &engine->probe : NULL};
  const struct kc_tag_faults_config faults = {
      .kinds = engine->fault_kinds, .every_steps = engine->fault_every, .seed = instance->seed,
      .slots = sched->max_running, .requests = run->request_count};
  size_t need = kc_exec_need(&exec);
  if (__builtin_add_overflow(need, kc_decision_need(sched->max_running) +
                             kc_tag_faults_need(&faults), &need)) {
    need = SIZE_MAX;
  }
  KC_TRY(kc_arena_init(&engine->arena, need, diag));
  KC_TRY(kc_exec_init(&engine->exec, &exec, &engine->arena, diag));
  if (engine->fault_every > 0) {
    KC_TRY(kc_tag_faults_init(&engine->faults, &faults, &engine->arena));
    engine->probe = kc_tag_faults_probe(&engine->faults);
  }
  const struct kc_executor executor = kc_exec_executor(&engine->exec);
  engine->tap.row = exec_row;
  engine->tap.row_context = &engine->exec;
  return tap(engine, run, &executor, diag);
}

void kc_engine_free(struct kc_engine *engine)
{
  kc_exec_deinit(&engine->exec);
  kc_cache_deinit(&engine->cache);
  if (engine->team != NULL) kc_team_destroy(engine->team);
  if (engine->arena.base != NULL) kc_arena_deinit(&engine->arena);
  memset(engine, 0, sizeof *engine);
}
