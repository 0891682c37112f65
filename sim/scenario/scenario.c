/* From a scenario as written to a scenario that can run: names become models, GPUs, policies; what
 * is not said gets its default; what contradicts itself is refused.
 *
 *   kc_document_load -> kc_document_set* -> kc_scenario_source_read -> resolve_* -> validate_pool
 *
 * Every stage adds to one list of problems and goes on where it can, so that a person sees all that
 * is wrong at once. A stage that needs what an earlier one failed to find is left out.
 */
#include "sim/scenario/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/cost/cost.h"
#include "sim/scenario/source.h"

/* What the stages share. */
struct resolving {
  struct kc_scenario *scenario;
  const struct kc_scenario_source *source;
  const struct kc_document *document;
  struct kc_diag_list *problems;
  bool has_model; /* the model was found and loaded */
};

/* Puts a problem that came without a place at a key; one with a place of its own stays there. */
static void forward(const struct resolving *r, const struct kc_node *map, const char *key,
                    const struct kc_diag *why)
{
  KC_ASSERT(why->code != KC_OK);
  if (why->path[0] != '\0') {
    kc_diag_list_add(r->problems, why->code, why->path, why->line, why->column, "%s", why->text);
    return;
  }
  kc_source_problem(r->document, map, key, r->problems, "%s: %s", key, why->text);
}

/* Source and scenario keep texts in arrays of equal size; a longer one would be our mistake. */
static void copy_text(char *out, size_t size, const char *text)
{
  const size_t length = strlen(text);
  KC_ASSERT(length < size);
  memcpy(out, text, length + 1);
}

/* ---- names to things ---- */

static void resolve_model(struct resolving *r)
{
  KC_ASSERT(!r->has_model);
  struct kc_diag why;
  char path[KC_DIAG_PATH_BYTES];
  if (r->source->model[0] == '\0') return;
  copy_text(r->scenario->model_name, sizeof r->scenario->model_name, r->source->model);
  if (kc_data_find("models", r->source->model, ".json", r->document->path, path, &why) != KC_OK ||
      kc_model_load(&r->scenario->model, path, &why) != KC_OK) {
    forward(r, r->document->root, "model", &why);
    return;
  }
  r->has_model = true;
}

/* "plain, vllm-0.24": profiles of a GPU file. */
static void profile_names(const struct kc_gpu *gpu, char *out, size_t size)
{
  size_t used = 0;
  out[0] = '\0';
  for (uint32_t i = 0; i < gpu->profile_count && used < size - 1; i++) {
    used += (size_t)snprintf(out + used, size - used, "%s%s", i == 0 ? "" : ", ",
                             gpu->profile[i].name);
  }
}

static bool resolve_gpu(struct resolving *r, struct kc_pool_spec *pool,
                        const struct kc_pool_source *source, const struct kc_node *map)
{
  KC_ASSERT(map->kind == KC_NODE_MAP);
  struct kc_diag why;
  char path[KC_DIAG_PATH_BYTES];
  if (source->gpu[0] == '\0') return false;
  copy_text(pool->gpu_name, sizeof pool->gpu_name, source->gpu);
  copy_text(pool->profile_name, sizeof pool->profile_name, source->profile);
  if (kc_data_find("gpus", source->gpu, ".yaml", r->document->path, path, &why) != KC_OK ||
      kc_gpu_load(&pool->gpu, path, &why) != KC_OK) {
    forward(r, map, "gpu", &why);
    return false;
  }
  if (kc_gpu_profile_variant(&pool->gpu, source->profile, &pool->profile)) return true;
  char names[1024];
  profile_names(&pool->gpu, names, sizeof names);
  kc_source_problem(r->document, map, "profile", r->problems,
                    "profile: \"%s\" is not a profile of %s; it has: %s", source->profile,
                    pool->gpu.name, names);
  return false;
}

static bool resolve_policy(struct resolving *r, struct kc_pool_spec *pool,
                           const struct kc_pool_source *source, const struct kc_node *map)
{
  KC_ASSERT(source->policy[0] != '\0');
  copy_text(pool->policy_name, sizeof pool->policy_name, source->policy);
  pool->policy = kc_policy_find(source->policy);
  if (pool->policy != NULL) return true;
  kc_source_problem(r->document, map, "scheduler.policy", r->problems,
                    "scheduler.policy: \"%s\" is not a policy of this version; known: %s",
                    source->policy, kc_policy_names());
  return false;
}

/* ---- defaults ---- */

/* vLLM asks the device's name, as its engine/arg_utils.py does. */
static bool is_a100(const struct kc_gpu *gpu)
{
  return strcasestr(gpu->name, "a100") != NULL || strcasestr(gpu->title, "a100") != NULL;
}

/* What only some policies read; kc_source_check_policy_keys has seen to it that they do. */
static void fill_policy_keys(struct kc_pool_spec *pool, const struct kc_pool_source *source)
{
  struct kc_sched_config *sched = &pool->sched;
  KC_ASSERT(sched->page_size > 0);
  KC_ASSERT(sched->schedule_conservativeness >= 0);
  sched->order = (enum kc_queue_order)source->order;
  if (source->has_overlap) sched->overlap = source->overlap;
  if (source->has_mixed_chunk) sched->mixed_chunk = source->mixed_chunk;
  if (source->has_long_prefill_threshold) {
    sched->long_prefill_token_threshold = source->long_prefill_threshold;
  }
  if (source->has_chunked_prefill_size) sched->chunked_prefill_size = source->chunked_prefill_size;
  if (source->has_max_prefill_tokens) sched->max_prefill_tokens = source->max_prefill_tokens;
  if (source->has_conservativeness) sched->schedule_conservativeness = source->conservativeness;
  pool->max_running_given = source->has_max_running;
}

/* Policy defaults first, what the scenario says on top. */
static void fill_scheduler(struct kc_pool_spec *pool, const struct kc_pool_source *source,
                           const struct kc_model *model)
{
  struct kc_sched_config *sched = &pool->sched;
  KC_ASSERT(pool->policy != NULL);
  sched->role = pool->role;
  pool->policy->defaults(sched, pool->gpu.total_vllm_bytes, is_a100(&pool->gpu));
  sched->role = pool->role;
  sched->max_model_len = model->context_max;
  if (source->has_page_size) sched->page_size = source->page_size;
  if (source->has_max_running) sched->max_running = source->max_running;
  if (source->has_max_batched_tokens) sched->max_batched_tokens = source->max_batched_tokens;
  if (source->has_max_model_len) sched->max_model_len = source->max_model_len;
  if (source->has_chunked_prefill) sched->chunked_prefill = source->chunked_prefill;
  if (source->has_reserve_full_prompt) sched->reserve_full_prompt = source->reserve_full_prompt;
  fill_policy_keys(pool, source);
  sched->cap_count = kc_cost_caps(model, sched->cap);
}

static void fill_memory(struct kc_pool_spec *pool, const struct kc_pool_source *source,
                        const struct kc_model *model)
{
  KC_ASSERT(pool->sched.page_size > 0);
  KC_ASSERT(source->tensor > 0 && source->pipeline > 0);
  struct kc_memory_config *memory = &pool->memory;
  kc_memory_config_default(memory);
  memory->rule = (enum kc_memory_rule)source->rule;
  memory->kv_budget_bytes = source->has_kv_budget ? source->kv_budget_bytes : 0;
  memory->pages = source->has_pages ? source->pages : 0;
  memory->extra_bytes = source->extra_bytes;
  memory->page_size = pool->sched.page_size;
  memory->tensor = source->tensor;
  memory->pipeline = source->pipeline;
  memory->draft_layers = source->draft_layers;
  memory->max_running = pool->sched.max_running;
  memory->max_batched_tokens = pool->sched.max_batched_tokens;
  memory->fraction = 0;
  if (source->has_fraction) {
    memory->fraction = source->fraction;
  } else if (memory->rule != KC_RULE_FIXED) {
    memory->fraction = kc_memory_default_fraction(memory->rule, &pool->gpu, model, memory);
  }
}

/* ---- checks that need model or GPU ---- */

static void validate_scheduler(struct resolving *r, const struct kc_pool_spec *pool,
                               const struct kc_node *map)
{
  KC_ASSERT(pool->policy != NULL);
  KC_ASSERT(r->has_model);
  const struct kc_sched_config *sched = &pool->sched;
  const uint32_t before = r->problems->count;
  if (pool->policy->server == KC_SERVER_VLLM &&
      sched->max_batched_tokens < sched->max_running) {
    kc_source_problem(r->document, map, "scheduler.max_batched_tokens", r->problems,
                      "scheduler.max_batched_tokens is %u and scheduler.max_running %u; the first "
                      "must not be smaller, because every running request decodes a token a step",
                      sched->max_batched_tokens, sched->max_running);
  }
  if (sched->max_model_len > r->scenario->model.context_max) {
    kc_source_problem(r->document, map, "scheduler.max_model_len", r->problems,
                      "scheduler.max_model_len is %llu, more than the %llu tokens of context that "
                      "%s has", (unsigned long long)sched->max_model_len,
                      (unsigned long long)r->scenario->model.context_max,
                      r->scenario->model.name);
  }
  if (r->problems->count > before) return;
  struct kc_diag why;
  if (pool->policy->validate(sched, &why) != KC_OK) forward(r, map, "scheduler", &why);
}

static void validate_formats(struct resolving *r, const struct kc_pool_spec *pool,
                             const struct kc_node *map)
{
  KC_ASSERT(r->has_model);
  if (!r->scenario->model.is_mla || pool->precision.k_format == pool->precision.v_format) return;
  kc_source_problem(r->document, map, "kv.v_format", r->problems,
                    "kv.k_format and kv.v_format differ, but %s keeps one latent for both (MLA); "
                    "use kv.format", r->scenario->model.name);
}

/* Lets the memory bill say what has no meaning: degrees that do not divide, and the like. */
static void validate_memory(struct resolving *r, const struct kc_pool_spec *pool,
                            const struct kc_node *map)
{
  KC_ASSERT(r->has_model);
  KC_ASSERT(kc_diag_list_result(r->problems) == KC_OK);
  struct kc_diag why;
  struct kc_fit fit;
  const char *part = NULL;
  if (!kc_model_tensor_degree_valid(&r->scenario->model, pool->memory.tensor, &part)) {
    kc_source_problem(r->document, map, "parallel.tensor", r->problems,
                      "parallel.tensor %u does not divide %s of %s; try another degree",
                      pool->memory.tensor, part == NULL ? "the shapes" : part,
                      r->scenario->model.name);
    return;
  }
  if (kc_fit_compute(&fit, &r->scenario->model, &pool->precision, &pool->gpu, &pool->memory,
                     &why) != KC_OK) {
    forward(r, map, "memory", &why);
  }
}

/* ---- the stages ---- */

/* Priorities that nobody looks at would change nothing, silently. */
static void check_priorities(struct resolving *r, const struct kc_pool_source *source)
{
  const struct kc_clients_spec *clients = &r->source->clients;
  KC_ASSERT(clients->class_count <= KC_CLASSES_MAX);
  for (uint32_t i = 1; i < clients->class_count; i++) {
    if (clients->class[i].priority == clients->class[0].priority) continue;
    if (source->order == KC_ORDER_PRIORITY) return;
    kc_source_problem(r->document, r->document->root, "workload.classes", r->problems,
                      "workload.classes: priorities have no effect without scheduler.queue: "
                      "priority, which policy vllm-0.19 has");
    return;
  }
}

static void resolve_pool(struct resolving *r, uint32_t index)
{
  KC_ASSERT(index < r->source->pool_count);
  const struct kc_pool_source *source = &r->source->pool[index];
  struct kc_pool_spec *pool = &r->scenario->pool[index];
  const struct kc_node *map = kc_source_pool(r->document);
  if (map == NULL) return; /* source.c has said so */
  copy_text(pool->name, sizeof pool->name, source->name);
  pool->role = (enum kc_role)source->role;
  pool->replicas = source->replicas;
  pool->precision = source->precision;
  pool->moe_skew = source->moe_skew;
  pool->integrity = (enum kc_integrity)source->integrity;
  pool->caching = (enum kc_caching)source->caching;
  pool->share_tenants = source->share_tenants;
  pool->queue_limit = source->queue_limit;
  pool->inject = (struct kc_inject_config){.kinds = source->fault_mask,
                                           .every_steps = source->fault_every_steps,
                                           .seed = r->source->seed};
  const bool has_gpu = resolve_gpu(r, pool, source, map);
  const bool has_policy = resolve_policy(r, pool, source, map);
  if (!has_policy) return;
  const uint32_t before = r->problems->count;
  kc_source_check_policy_keys(source, pool->policy, r->document, map, r->problems);
  check_priorities(r, source);
  if (!r->has_model || !has_gpu || r->problems->count > before) return;
  fill_scheduler(pool, source, &r->scenario->model);
  fill_memory(pool, source, &r->scenario->model);
  validate_scheduler(r, pool, map);
  validate_formats(r, pool, map);
  if (kc_diag_list_result(r->problems) == KC_OK) validate_memory(r, pool, map);
}

/* How the trace is read, and what is done to it then. */
static void fill_trace(struct kc_workload_spec *workload, const struct kc_scenario_source *source)
{
  KC_ASSERT(!source->is_closed);
  KC_ASSERT(source->rate_fraction.denominator > 0 && source->sample_fraction.denominator > 0);
  struct kc_trace_options *options = &workload->trace_options;
  options->format = kc_trace_format_literal(source->format);
  options->zero_output = (enum kc_zero_output)source->zero_output;
  options->time_unit = (enum kc_time_unit)source->time_unit;
  options->block_tokens = source->block_tokens;
  options->tail = (enum kc_tail_rule)source->tail;
  options->failed = (enum kc_row_policy)source->failed;
  options->cancelled = (enum kc_row_policy)source->cancelled;
  options->missing_output_tokens = source->missing_output_tokens;
  workload->loop = (enum kc_loop)source->loop;
  struct kc_transform *transform = &workload->transform;
  transform->from_ps = source->from_ps;
  transform->skip_rows = source->skip_rows;
  transform->spread_ps = source->spread_ps;
  transform->rate = source->rate_fraction;
  transform->sample = source->sample_fraction;
  transform->open_loop = workload->loop == KC_LOOP_OPEN;
  transform->seed = source->seed;
  if (source->has_to) transform->to_ps = source->to_ps;
  if (source->has_limit) transform->limit_rows = source->limit_rows;
  if (source->has_idle_cap) transform->idle_cap_ps = source->idle_cap_ps;
}

static void resolve_workload(struct resolving *r)
{
  KC_ASSERT(!r->source->is_closed || r->source->requests >= r->source->concurrency ||
            r->problems->count > 0);
  const struct kc_scenario_source *source = r->source;
  struct kc_workload_spec *workload = &r->scenario->workload;
  workload->is_closed = source->is_closed;
  workload->max_tokens_rule = source->max_tokens_rule;
  workload->max_tokens_count = source->max_tokens_count;
  workload->max_tokens_ratio = source->max_tokens_ratio;
  workload->shared_prefix_tokens = source->shared_prefix_tokens;
  workload->clients = source->clients;
  kc_trace_options_default(&workload->trace_options);
  kc_transform_default(&workload->transform);
  if (source->is_closed) {
    workload->closed = (struct kc_closed_config){
      .concurrency = source->concurrency, .requests = source->requests,
      .input_tokens = source->input_tokens, .output_tokens = source->output_tokens,
      .mode = (enum kc_closed_mode)source->mode};
    return;
  }
  if (!source->has_trace) return;
  struct kc_diag why;
  copy_text(workload->trace_name, sizeof workload->trace_name, source->trace);
  copy_text(workload->trace_format, sizeof workload->trace_format, source->format);
  fill_trace(workload, source);
  /* A name in the file is meant from the file's place, one on the command line from here. */
  const struct kc_node *node = kc_node_get(kc_node_get(r->document->root, "workload"), "trace");
  KC_ASSERT(node != NULL);
  if (node->line == 0 && kc_trace_exists(source->trace)) {
    copy_text(workload->trace_path, sizeof workload->trace_path, source->trace);
    return;
  }
  if (kc_trace_find(source->trace, r->document->path, workload->trace_path, &why) != KC_OK) {
    forward(r, r->document->root, "workload.trace", &why);
  }
}

/* "a/b/llama.yaml" -> "llama". */
static void name_from_path(const char *path, char *out, size_t size)
{
  KC_ASSERT(path[0] != '\0');
  const char *slash = strrchr(path, '/');
  const char *base = slash == NULL ? path : slash + 1;
  const char *dot = strrchr(base, '.');
  const size_t length = dot == NULL || dot == base ? strlen(base) : (size_t)(dot - base);
  snprintf(out, size, "%.*s", (int)length, base);
}

static void resolve_rest(struct resolving *r)
{
  KC_ASSERT(r->source->pool_count <= KC_POOLS_MAX);
  const struct kc_scenario_source *source = r->source;
  struct kc_scenario *scenario = r->scenario;
  copy_text(scenario->path, sizeof scenario->path, r->document->path);
  copy_text(scenario->sha256, sizeof scenario->sha256, r->document->sha256);
  copy_text(scenario->name, sizeof scenario->name, source->name);
  if (source->name[0] == '\0') {
    name_from_path(scenario->path, scenario->name, sizeof scenario->name);
  }
  scenario->pool_count = source->pool_count;
  scenario->router = (struct kc_router_spec){
      .policy = (enum kc_router_policy)source->router_policy,
      .overflow = source->overflow_fraction,
      .prefix_tokens = source->router_prefix_tokens};
  scenario->slo_ttft_p95_ms = source->slo_ttft_p95_ms;
  scenario->slo_tpot_p95_ms = source->slo_tpot_p95_ms;
  scenario->seed = source->seed;
  scenario->expect_count = kc_expect_read(scenario->expect,
                                          kc_node_get(r->document->root, "expect"),
                                          r->document->path, r->problems);
}

static void resolve_price(struct resolving *r)
{
  struct kc_scenario *scenario = r->scenario;
  const struct kc_gpu *gpu = &scenario->pool[0].gpu;
  struct kc_price_spec *price = &scenario->price;
  *price = r->source->price;
  scenario->energy = r->source->energy;
  price->on_demand_known = r->source->has_price || gpu->price_count > 0;
  if (!r->source->has_price && gpu->price_count > 0) {
    price->on_demand_usd = gpu->price[0].usd_per_hour;
  }
  if (r->problems->count > 0) return; /* shares may be anything */
  scenario->price_known = kc_price_mix(price, &scenario->price_gpu_hour_usd);
}

/* Applies the overrides; false when one of them could not be. */
static bool apply_sets(struct kc_document *document, const char *const *sets, size_t set_count,
                       struct kc_diag_list *problems)
{
  KC_ASSERT(document->root != NULL);
  for (size_t i = 0; i < set_count; i++) {
    struct kc_diag why;
    if (kc_document_set(document, sets[i], &why) == KC_OK) continue;
    kc_diag_list_add(problems, why.code, why.path, why.line, why.column, "%s", why.text);
  }
  return problems->count == 0;
}

static void resolve(struct resolving *r)
{
  resolve_rest(r);
  resolve_model(r);
  resolve_workload(r);
  for (uint32_t i = 0; i < r->scenario->pool_count; i++) resolve_pool(r, i);
  resolve_price(r);
}

enum kc_err kc_scenario_load(struct kc_scenario *scenario, const char *path,
                             const char *const *sets, size_t set_count,
                             struct kc_diag_list *problems)
{
  KC_ASSERT(scenario != NULL && path != NULL);
  KC_ASSERT(sets != NULL || set_count == 0);
  struct kc_diag why;
  struct kc_document document;
  memset(scenario, 0, sizeof *scenario);
  kc_diag_list_init(problems);
  if (kc_document_load(&document, path, &why) != KC_OK) {
    return kc_diag_list_add(problems, why.code, why.path, why.line, why.column, "%s", why.text);
  }
  struct kc_scenario_source *source = malloc(sizeof *source);
  if (source == NULL) {
    kc_document_free(&document);
    return kc_diag_list_add(problems, KC_ERR_MEMORY, path, 0, 0, "the host ran out of memory");
  }
  if (apply_sets(&document, sets, set_count, problems)) {
    kc_scenario_source_read(source, &document, problems);
    struct resolving r = {.scenario = scenario, .source = source, .document = &document,
                          .problems = problems};
    resolve(&r);
  }
  free(source);
  kc_document_free(&document);
  return kc_diag_list_result(problems);
}
