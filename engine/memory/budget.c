/* The memory bill: rule -> usable bytes -> one bill per pipeline stage -> pool -> does it fit.
 *
 *   usable = (free or total) x fraction
 *   | weights | extra | activation + non-torch (vllm) |               KV budget                |
 *                                                     | bounded x requests | page | page | ... |
 *
 * All sums are exact integers; products that could pass 64 bits are made in 128 and held below 2^62
 * bytes. The deciding stage is the one whose pool is smallest, because every stage holds the KV of
 * its own layers for every token: one page is the same tokens on all of them.
 */
#include "engine/memory/budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/vtime.h"

/* No machine holds more; keeps every sum here far from overflow. */
#define BYTES_MAX (UINT64_C(1) << 62)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* Bytes of vLLM's dummy sampler run per sequence and vocabulary entry, in tenths: the logits in
 * FP32 and their sorted copies, which dominate the peak. Derived from start-up logs of vLLM 0.11 on
 * H100: 4.76 GiB for Llama 3.1 8B and 5.64 GiB for Qwen3 32B at 1024 sequences; within 2 % over
 * five models, and 1.19 GiB at 256 sequences on A100, where logs say 1.19 to 1.26. */
enum { SAMPLER_TENTH_BYTES = 389 };

/* What the arithmetic below needs, gathered once. */
struct bill {
  const struct kc_model *model;
  const struct kc_precision *precision;
  const struct kc_gpu *gpu;
  const struct kc_memory_config *config;
  uint64_t requests;        /* whose bounded KV and context must fit; 0 = none asked */
  uint64_t context_tokens;  /* in whole pages; 0 = none asked */
};

/* a * b, held at BYTES_MAX. */
static uint64_t times(uint64_t a, uint64_t b)
{
  const kc_u128 product = (kc_u128)a * b;
  return product > BYTES_MAX ? BYTES_MAX : (uint64_t)product;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
  KC_ASSERT(a <= BYTES_MAX);
  KC_ASSERT(b <= BYTES_MAX);
  return a + b > BYTES_MAX ? BYTES_MAX : a + b;
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
  KC_ASSERT(b > 0);
  return a / b + (a % b != 0);
}

static bool is_fixed(const struct kc_memory_config *config)
{
  return config->rule == KC_RULE_FIXED || config->kv_budget_bytes > 0 || config->pages > 0;
}

/* ---- defaults ---- */

void kc_memory_config_default(struct kc_memory_config *config)
{
  KC_ASSERT(config != NULL);
  memset(config, 0, sizeof *config);
  config->rule = KC_RULE_SGLANG;
  config->tensor = 1;
  config->pipeline = 1;
  KC_ASSERT(kc_memory_page_size(config) == 64);
}

uint32_t kc_memory_page_size(const struct kc_memory_config *config)
{
  KC_ASSERT(config != NULL);
  KC_ASSERT(config->page_size <= KC_PAGE_SIZE_MAX);
  if (config->page_size > 0) return config->page_size;
  return config->rule == KC_RULE_VLLM ? 16 : 64;
}

uint32_t kc_memory_default_max_running(const struct kc_gpu *gpu)
{
  KC_ASSERT(gpu != NULL);
  KC_ASSERT(gpu->memory_bytes > 0);
  /* vLLM, engine/arg_utils.py: the A100 is left out by name. */
  const bool is_a100 = strncmp(gpu->name, "a100", 4) == 0;
  return gpu->memory_bytes >= 70 * GIB && !is_a100 ? 1024 : 256;
}

/* SGLang 0.5, server_args.py (_handle_gpu_memory_settings): the prefill chunk and the largest batch
 * it captures graphs for, by board. */
static void sglang_sizes(uint64_t board_mib, uint32_t tensor, uint64_t *chunk,
                         uint64_t *graph_batch)
{
  static const struct {
    uint64_t below_gib, chunk, batch, batch_tp4;
  } row[] = {{20, 2048, 8, 8},      {35, 2048, 24, 80},    {60, 4096, 32, 160},
             {90, 8192, 256, 512},  {160, 8192, 256, 512}, {UINT64_MAX, 16384, 512, 512}};
  uint32_t i = 0;
  while (row[i].below_gib != UINT64_MAX && board_mib >= row[i].below_gib * 1024) i++;
  *chunk = row[i].chunk;
  *graph_batch = tensor >= 4 ? row[i].batch_tp4 : row[i].batch;
  KC_ASSERT(*chunk >= 2048);
}

/* Same file: reserve in MiB for activations, graphs and communication, and what is left of the
 * board, rounded to three digits. A model with a vision tower keeps 0.95 of that (the factor for a
 * tower whose size the server cannot tell, which is Kimi's case). */
static double sglang_default_fraction(const struct kc_gpu *gpu, const struct kc_model *model,
                                      const struct kc_memory_config *config)
{
  const uint64_t board = gpu->memory_bytes / MIB;
  KC_ASSERT(board > 0);
  uint64_t chunk, graph_batch;
  sglang_sizes(board, config->tensor, &chunk, &graph_batch);
  uint64_t reserve = 512 + chunk * 3 / 2 + 2 * graph_batch +
                     128 * (uint64_t)config->tensor * config->pipeline;
  if (board > 60 * 1024 && reserve < 10240) reserve = 10240;
  if (config->draft_layers > 0) reserve += 2048;
  const uint64_t left = reserve < board ? board - reserve : 0;
  uint64_t permille = (2000 * left + board) / (2 * board);
  if (permille < 100) permille = 100; /* degrees beyond what the formula was made for */
  const double fraction = (double)permille / 1000.0;
  return model->vision_layers > 0 ? fraction * 0.95 : fraction;
}

double kc_memory_default_fraction(enum kc_memory_rule rule, const struct kc_gpu *gpu,
                                  const struct kc_model *model,
                                  const struct kc_memory_config *config)
{
  KC_ASSERT(gpu != NULL && model != NULL);
  KC_ASSERT(config != NULL);
  if (rule == KC_RULE_FIXED) return 0;
  return rule == KC_RULE_VLLM ? 0.9 : sglang_default_fraction(gpu, model, config);
}

/* ---- what is asked ---- */

static enum kc_err check_degrees(const struct kc_model *model,
                                 const struct kc_memory_config *config, struct kc_diag *diag)
{
  const char *why = "";
  if (config->tensor < 1 || config->tensor > KC_TENSOR_DEGREE_MAX) {
    return kc_fail(diag, KC_ERR_INPUT, "tensor degree %u is out of range; expected 1 to %u",
                   config->tensor, (unsigned)KC_TENSOR_DEGREE_MAX);
  }
  if (!kc_model_tensor_degree_valid(model, config->tensor, &why)) {
    return kc_fail(diag, KC_ERR_INPUT,
                   "tensor degree %u does not divide %s of %s; choose a degree that does",
                   config->tensor, why, model->name);
  }
  const uint32_t stages_max = model->layers < KC_STAGES_MAX ? model->layers : KC_STAGES_MAX;
  if (config->pipeline < 1 || config->pipeline > stages_max) {
    return kc_fail(diag, KC_ERR_INPUT,
                   "%u pipeline stages are out of range; expected 1 to %u for the %u layers of %s",
                   config->pipeline, stages_max, model->layers, model->name);
  }
  if (config->draft_layers > KC_DRAFT_LAYERS_MAX) {
    return kc_fail(diag, KC_ERR_INPUT, "%u draft layers are out of range; expected 0 to %u",
                   config->draft_layers, (unsigned)KC_DRAFT_LAYERS_MAX);
  }
  return KC_OK;
}

static enum kc_err check_config(const struct kc_model *model,
                                const struct kc_memory_config *config, struct kc_diag *diag)
{
  KC_TRY(check_degrees(model, config, diag));
  if (!(config->fraction >= 0 && config->fraction <= 1)) {
    return kc_fail(diag, KC_ERR_INPUT, "memory fraction %g is out of range; expected more than 0 "
                   "and at most 1, or 0 for the framework's default", config->fraction);
  }
  if (config->page_size > KC_PAGE_SIZE_MAX) {
    return kc_fail(diag, KC_ERR_INPUT, "a page of %u tokens is out of range; expected 1 to %u",
                   config->page_size, (unsigned)KC_PAGE_SIZE_MAX);
  }
  if (config->kv_budget_bytes > 0 && config->pages > 0) {
    return kc_fail(diag, KC_ERR_INPUT, "both a KV budget in bytes and a number of pages are given; "
                   "each sets the pool outright, keep one");
  }
  if (config->rule == KC_RULE_FIXED && config->kv_budget_bytes == 0 && config->pages == 0) {
    return kc_fail(diag, KC_ERR_INPUT, "memory rule \"fixed\" derives nothing; give the KV budget "
                   "in bytes or the number of pages");
  }
  if (config->kv_budget_bytes > BYTES_MAX || config->extra_bytes > BYTES_MAX ||
      config->pages > UINT32_MAX || config->context > UINT32_MAX) {
    return kc_fail(diag, KC_ERR_INPUT, "a memory figure is out of range; expected at most 2^62 "
                   "bytes, 2^32 - 1 pages and 2^32 - 1 tokens of context");
  }
  return KC_OK;
}

/* ---- what a token costs ---- */

static bool is_growing(const struct kc_kv_group *group)
{
  return group->kind != KC_KV_LINEAR && !group->bounded_store;
}

/* Growing groups are charged per token. Where a model has none, its windows are (see budget.h). */
static bool is_charged_per_token(const struct kc_model *model, const struct kc_kv_group *group)
{
  if (is_growing(group)) return true;
  if (group->kind == KC_KV_LINEAR) return false;
  for (uint32_t i = 0; i < model->kv_group_count; i++) {
    if (is_growing(&model->kv_group[i])) return false;
  }
  return true;
}

/* The last group that is charged per token: a draft head keeps its kind. NULL: there is none. */
static const struct kc_kv_group *draft_group(const struct kc_model *model)
{
  for (uint32_t i = model->kv_group_count; i-- > 0;) {
    if (is_charged_per_token(model, &model->kv_group[i])) return &model->kv_group[i];
  }
  return NULL;
}

static uint64_t layer_token_bytes(const struct bill *bill, const struct kc_kv_group *group)
{
  return kc_kv_group_token_bytes(group, bill->precision->k_format, bill->precision->v_format,
                                 bill->config->tensor);
}

static uint32_t group_layers_between(const struct kc_kv_group *group, uint32_t first,
                                     uint32_t count)
{
  KC_ASSERT(first + count <= KC_LAYERS_MAX);
  uint32_t layers = 0;
  for (uint32_t layer = first; layer < first + count; layer++) layers += group->layer_is[layer];
  return layers;
}

/* KV that one request keeps in one layer of a bounded group, in whole pages of the window. */
static uint64_t layer_request_bytes(const struct bill *bill, const struct kc_kv_group *group)
{
  if (group->kind == KC_KV_LINEAR) return group->state_bytes;
  const uint64_t page = kc_memory_page_size(bill->config);
  const uint64_t window = times(ceil_div(group->window, page), page);
  const bool is_short = bill->context_tokens > 0 && bill->context_tokens < window;
  return times(is_short ? bill->context_tokens : window, layer_token_bytes(bill, group));
}

static void add_stage_kv(struct kc_stage_bill *stage, const struct bill *bill, bool is_last)
{
  const struct kc_model *model = bill->model;
  KC_ASSERT(model->kv_group_count > 0);
  for (uint32_t i = 0; i < model->kv_group_count; i++) {
    const struct kc_kv_group *group = &model->kv_group[i];
    const uint64_t layers = group_layers_between(group, stage->layer_first, stage->layer_count);
    if (is_charged_per_token(model, group)) {
      stage->kv_token_bytes += layers * layer_token_bytes(bill, group);
    } else {
      stage->kv_request_bytes =
          plus(stage->kv_request_bytes, times(layers, layer_request_bytes(bill, group)));
    }
  }
  const struct kc_kv_group *draft = draft_group(model);
  if (is_last && draft != NULL) {
    stage->kv_token_bytes += bill->config->draft_layers * layer_token_bytes(bill, draft);
  }
}

uint64_t kc_fit_bounded_bytes(const struct kc_fit *fit, const struct kc_model *model,
                              const struct kc_precision *precision,
                              const struct kc_memory_config *config, uint64_t tokens)
{
  const struct kc_stage_bill *decides = &fit->stage[fit->stage_fullest];
  const uint64_t page = kc_memory_page_size(config);
  const struct bill bill = {.model = model, .precision = precision, .config = config,
                            .context_tokens = times(ceil_div(tokens, page), page)};
  struct kc_stage_bill stage = {.layer_first = decides->layer_first,
                                .layer_count = decides->layer_count};
  KC_ASSERT(tokens > 0 && fit->stage_count > 0);
  add_stage_kv(&stage, &bill, fit->stage_fullest + 1 == fit->stage_count);
  KC_ASSERT(stage.kv_token_bytes == decides->kv_token_bytes);
  return stage.kv_request_bytes;
}

/* ---- the bill ---- */

/* Where the rule starts: total, free, the fraction and what is usable of it. */
static void fill_usable(struct kc_fit *fit, const struct bill *bill)
{
  const struct kc_gpu *gpu = bill->gpu;
  const struct kc_memory_config *config = bill->config;
  const bool alone = config->tensor * config->pipeline == 1;
  fit->rule = is_fixed(config) ? KC_RULE_FIXED : config->rule;
  fit->total_bytes = gpu->total_vllm_bytes;
  fit->pre_bytes = alone ? gpu->free_sglang_bytes : gpu->free_sglang_tp_bytes;
  fit->extra_bytes = config->extra_bytes;
  fit->memory_confirmed = true;
  if (fit->rule == KC_RULE_FIXED) return;
  fit->fraction_is_default = config->fraction == 0;
  fit->fraction = fit->fraction_is_default
                      ? kc_memory_default_fraction(fit->rule, gpu, bill->model, config)
                      : config->fraction;
  const uint64_t base = fit->rule == KC_RULE_VLLM ? fit->total_bytes : fit->pre_bytes;
  const double part = (double)base * fit->fraction;
  fit->usable_bytes = (uint64_t)part;
  if (fit->rule == KC_RULE_VLLM) {
    fit->memory_confirmed = gpu->total_confirmed;
    if ((double)fit->usable_bytes < part) fit->usable_bytes++; /* vLLM rounds up */
    fit->max_running =
        config->max_running > 0 ? config->max_running : kc_memory_default_max_running(gpu);
    fit->activation_bytes =
        times((uint64_t)fit->max_running * bill->model->vocabulary, SAMPLER_TENTH_BYTES) / 10;
    fit->non_torch_bytes = alone ? gpu->non_torch_bytes : gpu->non_torch_tp_bytes;
  } else {
    fit->memory_confirmed = alone ? gpu->free_confirmed : gpu->free_tp_confirmed;
  }
  if (fit->usable_bytes > base) fit->usable_bytes = base;
  fit->reserve_bytes = base - fit->usable_bytes;
}

/* Everything that a stage holds besides KV. */
static uint64_t stage_other_bytes(const struct kc_fit *fit, const struct kc_stage_bill *stage)
{
  return plus(plus(stage->weights_bytes, fit->extra_bytes),
              plus(fit->activation_bytes, fit->non_torch_bytes));
}

/* Budget of a stage; negative when what must be there already is too much. */
static int64_t stage_budget(const struct kc_fit *fit, const struct bill *bill,
                            const struct kc_stage_bill *stage)
{
  const uint64_t page_bytes = times(stage->kv_token_bytes, fit->page_size);
  if (bill->config->pages > 0) {
    return (int64_t)plus(times(bill->config->pages, page_bytes),
                         times(bill->requests, stage->kv_request_bytes));
  }
  if (fit->rule == KC_RULE_FIXED) return (int64_t)bill->config->kv_budget_bytes;
  return (int64_t)fit->usable_bytes - (int64_t)stage_other_bytes(fit, stage);
}

static void fill_stage(struct kc_fit *fit, const struct bill *bill, uint32_t index)
{
  KC_ASSERT(index < fit->stage_count);
  struct kc_stage_bill *stage = &fit->stage[index];
  kc_model_stage_layers(bill->model, index, fit->stage_count, &stage->layer_first,
                        &stage->layer_count);
  stage->weights_bytes = kc_model_rank_weight_bytes(bill->model, bill->precision,
                                                    bill->config->tensor, index, fit->stage_count);
  add_stage_kv(stage, bill, index + 1 == fit->stage_count);
  const int64_t budget = stage_budget(fit, bill, stage);
  stage->kv_budget_bytes = budget > 0 ? (uint64_t)budget : 0;
  const uint64_t bounded = times(bill->requests, stage->kv_request_bytes);
  const uint64_t page_bytes = times(stage->kv_token_bytes, fit->page_size);
  if (bounded > stage->kv_budget_bytes || budget <= 0) {
    stage->pages = 0;
  } else if (page_bytes == 0) {
    stage->pages = UINT64_MAX;
  } else {
    stage->pages = (stage->kv_budget_bytes - bounded) / page_bytes;
  }
}

/* Least pages, then least budget, then most weights. */
static bool is_tighter(const struct kc_stage_bill *a, const struct kc_stage_bill *b)
{
  if (a->pages != b->pages) return a->pages < b->pages;
  if (a->kv_budget_bytes != b->kv_budget_bytes) return a->kv_budget_bytes < b->kv_budget_bytes;
  return a->weights_bytes > b->weights_bytes;
}

/* Tokens if every layer and every byte of budget could be dealt out evenly. */
static void fill_balanced(struct kc_fit *fit, const struct bill *bill)
{
  kc_i128 budget = 0;
  kc_u128 token_bytes = 0;
  for (uint32_t i = 0; i < fit->stage_count; i++) {
    const struct kc_stage_bill *stage = &fit->stage[i];
    budget += stage_budget(fit, bill, stage);
    budget -= times(bill->requests, stage->kv_request_bytes);
    token_bytes += stage->kv_token_bytes;
  }
  KC_ASSERT(token_bytes > 0);
  if (budget <= 0) return;
  const kc_u128 pages = (kc_u128)budget / (token_bytes * fit->page_size);
  fit->kv_tokens_balanced = times((uint64_t)pages, fit->page_size);
}

static void fill_stages(struct kc_fit *fit, const struct bill *bill)
{
  fit->stage_count = bill->config->pipeline;
  for (uint32_t i = 0; i < fit->stage_count; i++) fill_stage(fit, bill, i);
  for (uint32_t i = 1; i < fit->stage_count; i++) {
    if (is_tighter(&fit->stage[i], &fit->stage[fit->stage_fullest])) fit->stage_fullest = i;
  }
  const struct kc_stage_bill *stage = &fit->stage[fit->stage_fullest];
  KC_ASSERT(stage->layer_count > 0);
  fit->weights_bytes = stage->weights_bytes;
  fit->kv_budget_bytes = stage->kv_budget_bytes;
  fit->kv_token_bytes = stage->kv_token_bytes;
  fit->kv_request_bytes = stage->kv_request_bytes;
  fit->kv_bounded_bytes = times(bill->requests, stage->kv_request_bytes);
  fit->pages = stage->pages;
  fit->kv_tokens = fit->pages * fit->page_size;
  fit->over_board = fit->rule == KC_RULE_FIXED &&
                    plus(stage_other_bytes(fit, stage), stage->kv_budget_bytes) > fit->total_bytes;
  const uint64_t sum =
      kc_model_rank_class_bytes(bill->model, bill->precision, bill->config->tensor,
                                fit->stage_fullest, fit->stage_count, fit->class_bytes);
  KC_ASSERT(sum == fit->weights_bytes);
  (void)sum;
  fill_balanced(fit, bill);
}

/* Bytes that one request of the asked context holds on a stage. */
static uint64_t request_bytes(const struct bill *bill, const struct kc_stage_bill *stage)
{
  return plus(stage->kv_request_bytes, times(bill->context_tokens, stage->kv_token_bytes));
}

static void fill_concurrency(struct kc_fit *fit, const struct bill *bill)
{
  if (bill->context_tokens == 0) return;
  uint64_t most = UINT32_MAX;
  for (uint32_t i = 0; i < fit->stage_count; i++) {
    const struct kc_stage_bill *stage = &fit->stage[i];
    /* A pool given in pages was widened by the bounded KV of the requests asked for. */
    const uint64_t each = bill->config->pages > 0 ? times(bill->context_tokens,
                                                          stage->kv_token_bytes)
                                                  : request_bytes(bill, stage);
    const uint64_t room = bill->config->pages > 0
                              ? times(bill->config->pages,
                                      times(stage->kv_token_bytes, fit->page_size))
                              : stage->kv_budget_bytes;
    if (each > 0 && room / each < most) most = room / each;
  }
  fit->concurrency_max = most;
}

/* ---- what fails ---- */

static void set_failure(struct kc_fit *fit, const char *phase, uint64_t need, uint64_t have)
{
  KC_ASSERT(strlen(phase) < sizeof fit->phase);
  KC_ASSERT(need > have);
  snprintf(fit->phase, sizeof fit->phase, "%s", phase);
  fit->need_bytes = need;
  fit->have_bytes = have;
  fit->fits = false;
}

/* Weights, or weights and activations, pass what the fraction leaves. True when that failed. */
static bool fails_before_kv(struct kc_fit *fit)
{
  if (fit->rule == KC_RULE_FIXED) return false;
  const uint64_t load = plus(fit->weights_bytes, fit->extra_bytes);
  const uint64_t all = plus(load, plus(fit->activation_bytes, fit->non_torch_bytes));
  const char *base = fit->rule == KC_RULE_VLLM ? "total" : "free";
  const uint64_t whole = fit->rule == KC_RULE_VLLM ? fit->total_bytes : fit->pre_bytes;
  if (load > fit->usable_bytes) {
    set_failure(fit, "load", load, fit->usable_bytes);
    snprintf(fit->inequality, sizeof fit->inequality,
             "weights %" PRIu64 " + extra %" PRIu64 " = %" PRIu64 " B > %" PRIu64
             " B = %s %" PRIu64 " x %.4g", fit->weights_bytes, fit->extra_bytes, load,
             fit->usable_bytes, base, whole, fit->fraction);
    return true;
  }
  if (all <= fit->usable_bytes) return false;
  set_failure(fit, "graphs", all, fit->usable_bytes);
  snprintf(fit->inequality, sizeof fit->inequality,
           "weights %" PRIu64 " + extra %" PRIu64 " + activation %" PRIu64 " + non-torch %" PRIu64
           " = %" PRIu64 " B > %" PRIu64 " B = %s %" PRIu64 " x %.4g", fit->weights_bytes,
           fit->extra_bytes, fit->activation_bytes, fit->non_torch_bytes, all, fit->usable_bytes,
           base, whole, fit->fraction);
  return true;
}

/* Stage `index` does not hold `requests` of the asked context (a page each if none is asked). */
static bool fails_requests(struct kc_fit *fit, const struct bill *bill, uint32_t index,
                           uint64_t requests, const char *phase)
{
  const struct kc_stage_bill *stage = &fit->stage[index];
  const uint64_t tokens = bill->context_tokens > 0 ? bill->context_tokens : fit->page_size;
  const uint64_t growing = times(tokens, stage->kv_token_bytes);
  const uint64_t need = times(requests, plus(stage->kv_request_bytes, growing));
  if (need <= stage->kv_budget_bytes) return false;
  set_failure(fit, phase, need, stage->kv_budget_bytes);
  snprintf(fit->inequality, sizeof fit->inequality,
           "%" PRIu64 " x (%" PRIu64 " tokens x %" PRIu64 " + bounded %" PRIu64 ") = %" PRIu64
           " B > %" PRIu64 " B = KV budget", requests, tokens, stage->kv_token_bytes,
           stage->kv_request_bytes, need, stage->kv_budget_bytes);
  return true;
}

static void decide(struct kc_fit *fit, const struct bill *bill)
{
  fit->fits = true;
  if (fails_before_kv(fit)) return;
  const uint64_t requests = bill->requests > 0 ? bill->requests : 1;
  for (uint32_t i = 0; i < fit->stage_count; i++) {
    if (fails_requests(fit, bill, i, 1, "admission")) return;
  }
  for (uint32_t i = 0; i < fit->stage_count; i++) {
    if (fails_requests(fit, bill, i, requests, "growth")) return;
  }
  KC_ASSERT(fit->pages > 0);
}

enum kc_err kc_fit_compute(struct kc_fit *fit, const struct kc_model *model,
                           const struct kc_precision *precision, const struct kc_gpu *gpu,
                           const struct kc_memory_config *config, struct kc_diag *diag)
{
  KC_ASSERT(fit != NULL && model != NULL && precision != NULL);
  KC_ASSERT(gpu != NULL && config != NULL);
  memset(fit, 0, sizeof *fit);
  KC_TRY(check_config(model, config, diag));
  if (draft_group(model) == NULL) {
    return kc_fail(diag, KC_ERR_INPUT, "no layer of %s keeps KV per token, so a token pool has no "
                   "meaning for it", model->name);
  }
  const uint64_t page = kc_memory_page_size(config);
  struct bill bill = {.model = model, .precision = precision, .gpu = gpu, .config = config,
                      .requests = config->concurrency,
                      .context_tokens = times(ceil_div(config->context, page), page)};
  if (bill.requests == 0 && config->context > 0) bill.requests = 1;
  fit->page_size = (uint32_t)page;
  fit->checkpoint_bytes = kc_model_checkpoint_bytes(model, precision);
  fit->parameters = kc_model_parameters(model);
  for (uint32_t i = 0; i < model->kv_group_count; i++) {
    const struct kc_kv_group *group = &model->kv_group[i];
    fit->windows_per_token |= group->bounded_store && is_charged_per_token(model, group);
  }
  fill_usable(fit, &bill);
  fill_stages(fit, &bill);
  fill_concurrency(fit, &bill);
  decide(fit, &bill);
  return KC_OK;
}
