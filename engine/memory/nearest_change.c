/* The nearest single change that makes a model fit.
 *
 *   failed fit -> KV format -> weight format -> tensor degree -> GPU kind -> context -> concurrency
 *                 -> fraction;      the first dimension with a value that fits wins
 *
 * The order is by what the change costs the user. A number format is a flag and no hardware; a
 * degree is more of the same hardware; another GPU is other hardware; a shorter context or fewer
 * requests is less service; a larger fraction takes memory from the reserve that keeps the server
 * alive, so it comes last and stops at 0.95. Inside a dimension the smallest step comes first: the
 * widest format, the next degree, the GPU that the caller put first, the longest context, the most
 * requests.
 *
 * A KV format is tried only when the weights fit: it cannot help before that. Every candidate is
 * put through kc_fit_compute(); nothing is accepted by estimate.
 */
#include "engine/memory/budget.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"

struct search {
  struct kc_fit *fit; /* the failed one; receives the change */
  const struct kc_model *model;
  const struct kc_precision *precision;
  const struct kc_gpu *gpu;
  const struct kc_memory_config *config;
  struct kc_fit trial;
};

static bool fits_with(struct search *search, const struct kc_precision *precision,
                      const struct kc_gpu *gpu, const struct kc_memory_config *config)
{
  const enum kc_err err =
      kc_fit_compute(&search->trial, search->model, precision, gpu, config, NULL);
  return err == KC_OK && search->trial.fits;
}

static struct kc_change *found(struct search *search, enum kc_change_kind kind)
{
  KC_ASSERT(search->trial.fits);
  KC_ASSERT(!search->fit->has_change);
  search->fit->has_change = true;
  search->fit->change.kind = kind;
  return &search->fit->change;
}

/* ---- KV format ---- */

static uint64_t token_bytes(const struct search *search, const struct kc_precision *precision)
{
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < search->model->kv_group_count; i++) {
    const struct kc_kv_group *group = &search->model->kv_group[i];
    bytes += group->layers * kc_kv_group_token_bytes(group, precision->k_format,
                                                     precision->v_format, search->config->tensor);
  }
  return bytes;
}

static bool try_kv_format(struct search *search)
{
  if (strcmp(search->fit->phase, "load") == 0 || strcmp(search->fit->phase, "graphs") == 0) {
    return false;
  }
  /* The other 8-bit formats store scales beside, so they never fit where fp8-e4m3 does not. */
  static const enum kc_kv_format widest_first[] = {KC_KV_FP8_E4M3, KC_KV_FP4};
  const uint64_t now = token_bytes(search, search->precision);
  for (size_t i = 0; i < sizeof widest_first / sizeof widest_first[0]; i++) {
    struct kc_precision precision = *search->precision;
    precision.k_format = precision.v_format = widest_first[i];
    if (token_bytes(search, &precision) >= now) continue;
    if (!fits_with(search, &precision, search->gpu, search->config)) continue;
    struct kc_change *change = found(search, KC_CHANGE_KV);
    const char *name = kc_kv_format_name(widest_first[i]);
    change->precision = precision;
    snprintf(change->option, sizeof change->option, "--kv %s", name);
    snprintf(change->sentence, sizeof change->sentence, "hold the KV cache in %s", name);
    return true;
  }
  return false;
}

/* ---- weight format ---- */

static uint64_t checkpoint_bytes(const struct search *search, const struct kc_precision *precision)
{
  return kc_model_checkpoint_bytes(search->model, precision);
}

/* Puts `format` on those classes of the list where it saves bytes; returns whether any did. Classes
 * that the user left out stay out. */
static bool narrow_classes(const struct search *search, struct kc_precision *precision,
                           const enum kc_tensor_class *classes, size_t count,
                           enum kc_weight_format format)
{
  bool any = false;
  for (size_t i = 0; i < count; i++) {
    if (precision->weight[classes[i]] == KC_WEIGHT_NONE) continue;
    struct kc_precision narrow = *precision;
    narrow.weight[classes[i]] = format;
    if (checkpoint_bytes(search, &narrow) >= checkpoint_bytes(search, precision)) continue;
    *precision = narrow;
    any = true;
  }
  return any;
}

/* "routed_experts=int4-g32,mtp=none": every class that is not left to the checkpoint. */
static void print_weights(const struct kc_precision *precision, char *out, size_t size)
{
  size_t used = 0;
  out[0] = '\0';
  for (int c = 0; c < KC_TENSOR_CLASSES; c++) {
    if (precision->weight[c] == KC_WEIGHT_DEFAULT) continue;
    const int n = snprintf(out + used, size - used, "%s%s=%s", used == 0 ? "" : ",",
                           kc_tensor_class_name((enum kc_tensor_class)c),
                           kc_weight_format_name(precision->weight[c]));
    KC_ASSERT(n > 0 && (size_t)n < size - used);
    used += (size_t)n;
  }
}

static bool try_weights_of(struct search *search, const enum kc_tensor_class *classes, size_t count,
                           const char *what)
{
  static const enum kc_weight_format widest_first[] = {KC_WEIGHT_FP8, KC_WEIGHT_INT4_G32,
                                                       KC_WEIGHT_INT4_G128};
  for (size_t i = 0; i < sizeof widest_first / sizeof widest_first[0]; i++) {
    struct kc_precision precision = *search->precision;
    if (!narrow_classes(search, &precision, classes, count, widest_first[i])) continue;
    if (!fits_with(search, &precision, search->gpu, search->config)) continue;
    struct kc_change *change = found(search, KC_CHANGE_WEIGHTS);
    change->precision = precision;
    memcpy(change->option, "--weights ", 11);
    print_weights(&precision, change->option + 10, sizeof change->option - 10);
    snprintf(change->sentence, sizeof change->sentence, "hold %s in %s", what,
             kc_weight_format_name(widest_first[i]));
    return true;
  }
  return false;
}

/* Routed experts first: most bytes for the fewest tensors that change. Embedding, head, router and
 * norms are left alone, as every published recipe does. */
static bool try_weights(struct search *search)
{
  static const enum kc_tensor_class experts[] = {KC_CLASS_ROUTED_EXPERTS};
  static const enum kc_tensor_class linears[] = {KC_CLASS_ROUTED_EXPERTS, KC_CLASS_SHARED_EXPERTS,
                                                 KC_CLASS_DENSE_MLP, KC_CLASS_ATTENTION,
                                                 KC_CLASS_MTP};
  if (search->config->kv_budget_bytes > 0 || search->config->pages > 0) return false;
  if (search->model->experts > 0 && try_weights_of(search, experts, 1, "the routed experts")) {
    return true;
  }
  return try_weights_of(search, linears, sizeof linears / sizeof linears[0], "all linear layers");
}

/* ---- hardware ---- */

static bool try_tensor(struct search *search)
{
  struct kc_memory_config config = *search->config;
  for (config.tensor++; config.tensor <= KC_TENSOR_DEGREE_MAX; config.tensor++) {
    if (!fits_with(search, search->precision, search->gpu, &config)) continue;
    struct kc_change *change = found(search, KC_CHANGE_TENSOR);
    const uint32_t gpus = config.tensor * config.pipeline;
    const uint32_t nodes = (gpus + search->gpu->gpus_per_node - 1) / search->gpu->gpus_per_node;
    change->tensor = config.tensor;
    snprintf(change->option, sizeof change->option, "--tensor %u", config.tensor);
    snprintf(change->sentence, sizeof change->sentence,
             "split over %u GPUs instead of %u (%u node%s of %u)", gpus,
             search->config->tensor * config.pipeline, nodes, kc_plural(nodes),
             search->gpu->gpus_per_node);
    return true;
  }
  return false;
}

static bool try_gpu(struct search *search, const struct kc_gpu *gpus, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(gpus[i].name, search->gpu->name) == 0) continue;
    if (!fits_with(search, search->precision, &gpus[i], search->config)) continue;
    struct kc_change *change = found(search, KC_CHANGE_GPU);
    snprintf(change->gpu, sizeof change->gpu, "%s", gpus[i].name);
    snprintf(change->option, sizeof change->option, "--gpu %s", gpus[i].name);
    snprintf(change->sentence, sizeof change->sentence, "use %s", gpus[i].title);
    return true;
  }
  return false;
}

/* ---- less service ---- */

/* Sets what is searched for to `value`. */
typedef void set_field(struct kc_memory_config *config, uint64_t value);

static void set_context(struct kc_memory_config *config, uint64_t value)
{
  config->context = value * kc_memory_page_size(config);
}

static void set_concurrency(struct kc_memory_config *config, uint64_t value)
{
  config->concurrency = (uint32_t)value;
}

/* Largest value in [1, below) that fits, or 0. What fits at n fits at every smaller n, because the
 * bytes asked for only shrink, so halving finds the edge. */
static uint64_t largest_fitting(struct search *search, set_field *set, uint64_t below)
{
  uint64_t low = 0;
  for (uint64_t high = below; high > low + 1;) {
    const uint64_t middle = low + (high - low) / 2;
    struct kc_memory_config config = *search->config;
    set(&config, middle);
    if (fits_with(search, search->precision, search->gpu, &config)) {
      low = middle;
    } else {
      high = middle;
    }
  }
  if (low == 0) return 0;
  struct kc_memory_config config = *search->config;
  set(&config, low);
  const bool fits = fits_with(search, search->precision, search->gpu, &config);
  KC_ASSERT(fits);
  return low;
}

static bool try_context(struct search *search)
{
  const uint64_t page = kc_memory_page_size(search->config);
  const uint64_t pages = search->config->context / page + (search->config->context % page != 0);
  const uint64_t best = largest_fitting(search, set_context, pages);
  if (best == 0) return false;
  struct kc_change *change = found(search, KC_CHANGE_CONTEXT);
  change->context = best * page;
  snprintf(change->option, sizeof change->option, "--context %llu",
           (unsigned long long)change->context);
  snprintf(change->sentence, sizeof change->sentence, "shorten requests to %llu tokens",
           (unsigned long long)change->context);
  return true;
}

static bool try_concurrency(struct search *search)
{
  const uint64_t best = largest_fitting(search, set_concurrency, search->config->concurrency);
  if (best == 0) return false;
  struct kc_change *change = found(search, KC_CHANGE_CONCURRENCY);
  change->concurrency = (uint32_t)best;
  snprintf(change->option, sizeof change->option, "--concurrency %u", change->concurrency);
  snprintf(change->sentence, sizeof change->sentence, "hold %u requests at once",
           change->concurrency);
  return true;
}

/* ---- less reserve ---- */

static bool try_fraction(struct search *search)
{
  if (search->fit->rule == KC_RULE_FIXED) return false;
  for (unsigned percent = (unsigned)(search->fit->fraction * 100) + 1; percent <= 95; percent++) {
    struct kc_memory_config config = *search->config;
    config.fraction = percent / 100.0;
    if (!fits_with(search, search->precision, search->gpu, &config)) continue;
    struct kc_change *change = found(search, KC_CHANGE_FRACTION);
    change->fraction = config.fraction;
    snprintf(change->option, sizeof change->option, "--fraction 0.%02u", percent);
    snprintf(change->sentence, sizeof change->sentence,
             "raise the memory fraction from %.4g to 0.%02u and have less reserve",
             search->fit->fraction, percent);
    return true;
  }
  return false;
}

/* Says what is left for KV, so that a change which barely fits is seen for what it is. */
static void add_room(struct search *search)
{
  struct kc_change *change = &search->fit->change;
  const size_t used = strlen(change->sentence);
  KC_ASSERT(search->trial.fits);
  snprintf(change->sentence + used, sizeof change->sentence - used,
           ", which leaves %llu tokens of KV", (unsigned long long)search->trial.kv_tokens);
}

enum kc_err kc_fit_nearest_change(struct kc_fit *fit, const struct kc_model *model,
                                  const struct kc_precision *precision, const struct kc_gpu *gpu,
                                  const struct kc_memory_config *config,
                                  const struct kc_gpu *gpus, uint32_t gpu_count)
{
  KC_ASSERT(fit != NULL && !fit->fits);
  KC_ASSERT(gpus != NULL || gpu_count == 0);
  struct search search = {.fit = fit, .model = model, .precision = precision, .gpu = gpu,
                          .config = config};
  memset(&fit->change, 0, sizeof fit->change);
  fit->has_change = false;
  (void)(try_kv_format(&search) || try_weights(&search) || try_tensor(&search) ||
         try_gpu(&search, gpus, gpu_count) || try_context(&search) || try_concurrency(&search) ||
         try_fraction(&search));
  if (fit->has_change) add_room(&search);
  return KC_OK;
}
