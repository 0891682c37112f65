/* Axes and columns of a plan (see space.h). */
#include "sim/plan/space.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"

static const char *const axis_names[KC_AXES] = {"gpu",       "weights", "kv",         "tensor",
                                                "page-size", "chunk",   "max-running"};

const char *kc_plan_axis_name(enum kc_plan_axis_id axis)
{
  KC_ASSERT((unsigned)axis < KC_AXES);
  return axis_names[axis];
}

/* ---- what the command line lists ---- */

static bool is_number(enum kc_plan_axis_id axis)
{
  return axis == KC_AXIS_TENSOR || axis == KC_AXIS_PAGE || axis == KC_AXIS_CHUNK ||
         axis == KC_AXIS_CAP;
}

/* "routed_experts=int4-g32+default=bf16" or "fp8" -> "routed_experts=int4-g32,default=bf16". */
static enum kc_err check_weights(const char *value, struct kc_diag *diag)
{
  char text[KC_AXIS_VALUE_BYTES + 16];
  struct kc_precision precision;
  struct kc_diag why;
  if (strcmp(value, "checkpoint") == 0) return KC_OK;
  snprintf(text, sizeof text, "%s%s", strchr(value, '=') == NULL ? "default=" : "", value);
  for (char *at = text; *at != '\0'; at++) {
    if (*at == '+') *at = ',';
  }
  kc_precision_default(&precision);
  if (kc_precision_parse(&precision, text, &why) == KC_OK) return KC_OK;
  return kc_fail(diag, KC_ERR_USAGE, "--weights: %s", why.text);
}

/* "k=bf16+v=fp8-e4m3" -> the two formats' names. False when it is not of that form. */
static bool cut_kv(const char *value, char k[KC_AXIS_VALUE_BYTES], char v[KC_AXIS_VALUE_BYTES])
{
  const char *plus = strchr(value, '+');
  KC_ASSERT(strlen(value) < KC_AXIS_VALUE_BYTES);
  if (plus == NULL || strncmp(value, "k=", 2) != 0 || strncmp(plus, "+v=", 3) != 0) return false;
  snprintf(k, KC_AXIS_VALUE_BYTES, "%.*s", (int)(plus - value - 2), value + 2);
  snprintf(v, KC_AXIS_VALUE_BYTES, "%s", plus + 3);
  return true;
}

static enum kc_err check_kv(const char *value, struct kc_diag *diag)
{
  char k[KC_AXIS_VALUE_BYTES], v[KC_AXIS_VALUE_BYTES];
  enum kc_kv_format format;
  const bool apart = cut_kv(value, k, v);
  if (apart ? kc_kv_format_parse(k, &format) && kc_kv_format_parse(v, &format)
            : kc_kv_format_parse(value, &format)) {
    return KC_OK;
  }
  return kc_fail(diag, KC_ERR_USAGE, "--kv: \"%s\" is not a KV format; known: %s; K and V apart: "
                 "k=bf16+v=fp8-e4m3", value, kc_kv_format_names());
}

static enum kc_err check_value(enum kc_plan_axis_id axis, const char *value, struct kc_diag *diag)
{
  uint64_t number;
  const char *name = axis_names[axis];
  KC_ASSERT(value[0] != '\0');
  if (is_number(axis) && (!kc_parse_u64(value, strlen(value), &number) || number == 0 ||
                          number > UINT32_MAX)) {
    return kc_fail(diag, KC_ERR_USAGE, "--%s: expected whole numbers separated by commas, got "
                   "\"%s\"", name, value);
  }
  if (axis == KC_AXIS_KV) return check_kv(value, diag);
  return axis == KC_AXIS_WEIGHTS ? check_weights(value, diag) : KC_OK;
}

static void put_value(struct kc_plan_axis *axis, const char *value)
{
  KC_ASSERT(axis->count < KC_AXIS_VALUES_MAX);
  KC_ASSERT(strlen(value) < KC_AXIS_VALUE_BYTES);
  memcpy(axis->value[axis->count++], value, strlen(value) + 1);
}

static bool listed(const struct kc_plan_axis *axis, const char *value)
{
  KC_ASSERT(axis->count <= KC_AXIS_VALUES_MAX);
  for (uint32_t i = 0; i < axis->count; i++) {
    if (strcmp(axis->value[i], value) == 0) return true;
  }
  return false;
}

enum kc_err kc_space_axis_parse(struct kc_plan_space *space, enum kc_plan_axis_id id,
                                const char *text, struct kc_diag *diag)
{
  struct kc_plan_axis *axis = &space->axis[id];
  KC_ASSERT((unsigned)id < KC_AXES);
  axis->count = 0;
  for (const char *at = text;; at++) {
    char value[KC_AXIS_VALUE_BYTES];
    const size_t length = strcspn(at, ",");
    if (length == 0 || length >= sizeof value) {
      return kc_fail(diag, KC_ERR_USAGE, "--%s: expected values separated by commas, got \"%s\"",
                     axis_names[id], text);
    }
    snprintf(value, sizeof value, "%.*s", (int)length, at);
    const bool own = strcmp(value, "scenario") == 0;
    if (!own) KC_TRY(check_value(id, value, diag));
    if (listed(axis, own ? "" : value)) {
      return kc_fail(diag, KC_ERR_USAGE, "--%s lists \"%s\" twice", axis_names[id], value);
    }
    if (axis->count == KC_AXIS_VALUES_MAX) {
      return kc_fail(diag, KC_ERR_USAGE, "--%s lists more than %d values", axis_names[id],
                     KC_AXIS_VALUES_MAX);
    }
    put_value(axis, own ? "" : value);
    at += length;
    if (*at == '\0') return KC_OK;
  }
}

enum kc_err kc_space_price_parse(struct kc_plan_space *space, const char *text,
                                 struct kc_diag *diag)
{
  double usd;
  const char *equals = strrchr(text, '=');
  KC_ASSERT(space->price.count <= KC_AXIS_VALUES_MAX);
  if (equals == NULL || equals == text || strlen(text) >= KC_AXIS_VALUE_BYTES ||
      !kc_parse_double(equals + 1, strlen(equals + 1), &usd) || usd <= 0) {
    return kc_fail(diag, KC_ERR_USAGE, "--price: expected a GPU and dollars an hour, such as "
                   "h100=2.50, got \"%.80s\"", text);
  }
  if (space->price.count == KC_AXIS_VALUES_MAX) {
    return kc_fail(diag, KC_ERR_USAGE, "--price was given more than %d times",
                   KC_AXIS_VALUES_MAX);
  }
  put_value(&space->price, text);
  return KC_OK;
}

static enum kc_err fail_replicas(const char *text, struct kc_diag *diag)
{
  return kc_fail(diag, KC_ERR_USAGE, "--replicas: expected a range such as 1..16 or ascending "
                 "numbers such as 1,2,4, at most %d of them and none above %d, got \"%s\"",
                 KC_PLAN_REPLICAS_MAX, KC_REPLICAS_MAX, text);
}

enum kc_err kc_space_replicas_parse(struct kc_plan_space *space, const char *text,
                                    struct kc_diag *diag)
{
  const char *dots = strstr(text, "..");
  space->replica_count = 0;
  if (dots != NULL) {
    uint64_t first, last;
    if (!kc_parse_u64(text, (size_t)(dots - text), &first) ||
        !kc_parse_u64(dots + 2, strlen(dots + 2), &last) || first == 0 || last < first ||
        last > KC_REPLICAS_MAX || last - first >= KC_PLAN_REPLICAS_MAX) {
      return fail_replicas(text, diag);
    }
    for (uint64_t r = first; r <= last; r++) {
      space->replicas[space->replica_count++] = (uint32_t)r;
    }
    return KC_OK;
  }
  for (const char *at = text;; at++) {
    uint64_t number;
    const size_t length = strcspn(at, ",");
    const uint32_t count = space->replica_count;
    if (!kc_parse_u64(at, length, &number) || number == 0 || number > KC_REPLICAS_MAX ||
        count == KC_PLAN_REPLICAS_MAX || (count > 0 && number <= space->replicas[count - 1])) {
      return fail_replicas(text, diag);
    }
    space->replicas[space->replica_count++] = (uint32_t)number;
    at += length;
    if (*at == '\0') return KC_OK;
  }
}

/* ---- what the scenario says ---- */

static void put_alternative(struct kc_plan_axis *axis, uint32_t own, uint32_t value)
{
  char text[16];
  KC_ASSERT(value > 0);
  if (own == value) return;
  snprintf(text, sizeof text, "%u", value);
  put_value(axis, text);
}

static void complete_tensor(struct kc_plan_axis *axis, const struct kc_scenario *scenario)
{
  char text[16];
  for (uint32_t degree = 1; degree <= 8; degree *= 2) {
    if (!kc_model_tensor_degree_valid(&scenario->model, degree, NULL)) continue;
    snprintf(text, sizeof text, "%u", degree);
    put_value(axis, text);
  }
  snprintf(text, sizeof text, "%u", scenario->pool[0].memory.tensor);
  if (!listed(axis, text)) put_value(axis, text);
}

static void complete_axes(struct kc_plan_space *space, const struct kc_scenario *scenario)
{
  const struct kc_pool_spec *pool = &scenario->pool[0];
  for (int id = 0; id < KC_AXES; id++) {
    struct kc_plan_axis *axis = &space->axis[id];
    if (axis->count > 0) continue;
    if (id == KC_AXIS_TENSOR) {
      complete_tensor(axis, scenario);
      continue;
    }
    put_value(axis, "");
    if (id == KC_AXIS_CHUNK && pool->role == KC_ROLE_SERVE) { /* else there are no prompts */
      const uint32_t own = space->server == KC_SERVER_SGLANG ? pool->sched.chunked_prefill_size
                                                             : pool->sched.max_batched_tokens;
      put_alternative(axis, own, 2048);
      put_alternative(axis, own, 8192);
    } else if (id == KC_AXIS_CAP) {
      put_alternative(axis, pool->sched.max_running, 64);
      put_alternative(axis, pool->sched.max_running, 256);
    } else if (id == KC_AXIS_KV && pool->precision.k_format == KC_KV_BF16) {
      put_value(axis, kc_kv_format_name(KC_KV_FP8_E4M3));
    }
  }
}

/* What a listed GPU lacks. The scenario's own kind is written as no change. */
static enum kc_err complete_gpus(struct kc_plan_space *space, const struct kc_scenario *scenario,
                                 struct kc_diag *diag)
{
  struct kc_plan_axis *axis = &space->axis[KC_AXIS_GPU];
  const struct kc_pool_spec *pool = &scenario->pool[0];
  struct kc_gpu *gpu = malloc(sizeof *gpu);
  enum kc_err err = gpu == NULL ? kc_fail(diag, KC_ERR_MEMORY, "no memory for a GPU file") : KC_OK;
  for (uint32_t i = 0; err == KC_OK && i < axis->count; i++) {
    char path[KC_DIAG_PATH_BYTES];
    if (strcmp(axis->value[i], pool->gpu_name) == 0) axis->value[i][0] = '\0';
    if (axis->value[i][0] == '\0') continue;
    err = kc_data_find_option("--gpu", "gpus", axis->value[i], ".yaml", scenario->path, path, diag);
    if (err == KC_OK) err = kc_gpu_load(gpu, path, diag);
    if (err != KC_OK) break;
    struct kc_gpu_profile profile;
    space->plain[i] = !kc_gpu_profile_variant(gpu, pool->profile_name, &profile);
  }
  free(gpu);
  return err;
}

/* A price of what nobody lists would change nothing, silently. */
static enum kc_err check_prices(const struct kc_plan_space *space, struct kc_diag *diag)
{
  KC_ASSERT(space->own_gpu[0] != '\0');
  for (uint32_t i = 0; i < space->price.count; i++) {
    const char *text = space->price.value[i];
    char gpu[KC_AXIS_VALUE_BYTES];
    snprintf(gpu, sizeof gpu, "%.*s", (int)(strrchr(text, '=') - text), text);
    const bool own = strcmp(gpu, space->own_gpu) == 0;
    if (own ? listed(&space->axis[KC_AXIS_GPU], "") : listed(&space->axis[KC_AXIS_GPU], gpu)) {
      continue;
    }
    return kc_fail(diag, KC_ERR_USAGE, "--price names %s, which is not among the GPUs to choose "
                   "from; list it with --gpu", gpu);
  }
  return KC_OK;
}

enum kc_err kc_space_complete(struct kc_plan_space *space, const struct kc_scenario *scenario,
                              struct kc_diag *diag)
{
  const struct kc_pool_spec *pool = &scenario->pool[0];
  if (scenario->pool_count != 1) {
    return kc_fail_at(diag, KC_ERR_INPUT, scenario->path, 0, 0, "has %u pools; a plan is made for "
                      "one pool: write a scenario for each", scenario->pool_count);
  }
  KC_ASSERT(strlen(pool->name) < sizeof space->pool);
  memcpy(space->pool, pool->name, strlen(pool->name) + 1);
  snprintf(space->own_gpu, sizeof space->own_gpu, "%s", pool->gpu_name);
  space->mixed_price = scenario->price.reserved.share > 0 || scenario->price.spot.share > 0;
  space->kv_apart = pool->precision.k_format != pool->precision.v_format;
  space->server = pool->policy->server;
  complete_axes(space, scenario);
  if (space->replica_count == 0) KC_TRY(kc_space_replicas_parse(space, "1..32", diag));
  KC_TRY(complete_gpus(space, scenario, diag));
  return check_prices(space, diag);
}

/* ---- columns ---- */

uint32_t kc_space_columns(const struct kc_plan_space *space)
{
  uint64_t count = 1;
  for (int id = 0; id < KC_AXES; id++) {
    KC_ASSERT(space->axis[id].count > 0);
    count *= space->axis[id].count;
    if (count > UINT32_MAX) return UINT32_MAX;
  }
  return (uint32_t)count;
}

void kc_space_column(const struct kc_plan_space *space, uint32_t column, uint32_t at[KC_AXES])
{
  KC_ASSERT(column < kc_space_columns(space));
  for (int id = KC_AXES - 1; id >= 0; id--) {
    at[id] = column % space->axis[id].count;
    column /= space->axis[id].count;
  }
  KC_ASSERT(column == 0);
}

void kc_sets_add(struct kc_plan_sets *sets, const char *format, ...)
{
  va_list arguments;
  KC_ASSERT(sets->count < KC_PLAN_SETS_MAX);
  va_start(arguments, format);
  const int length = vsnprintf(sets->text[sets->count], KC_PLAN_SET_BYTES, format, arguments);
  va_end(arguments);
  KC_ASSERT(length > 0 && length < KC_PLAN_SET_BYTES);
  sets->count++;
}

/* "a=b+c=d" -> "{a: b, c: d}", "fp8" -> "{default: fp8}". */
void kc_space_add_weights(const char *pool, const char *value, struct kc_plan_sets *sets)
{
  char map[2 * KC_AXIS_VALUE_BYTES];
  size_t used = 0;
  if (strcmp(value, "checkpoint") == 0) {
    kc_sets_add(sets, "pools.%s.weights=null", pool);
    return;
  }
  if (strchr(value, '=') == NULL) {
    kc_sets_add(sets, "pools.%s.weights={default: %s}", pool, value);
    return;
  }
  for (const char *at = value; *at != '\0' && used + 4 < sizeof map; at++) {
    const char *piece = *at == '=' ? ": " : *at == '+' ? ", " : NULL;
    used += (size_t)snprintf(map + used, sizeof map - used, "%s", piece != NULL ? piece : "");
    if (piece == NULL) map[used++] = *at;
  }
  map[used] = '\0';
  kc_sets_add(sets, "pools.%s.weights={%s}", pool, map);
}

void kc_space_add_kv(const char *pool, const char *value, bool was_apart,
                     struct kc_plan_sets *sets)
{
  char k[KC_AXIS_VALUE_BYTES], v[KC_AXIS_VALUE_BYTES];
  KC_ASSERT(value[0] != '\0');
  if (cut_kv(value, k, v)) {
    kc_sets_add(sets, "pools.%s.kv.format=null", pool);
    kc_sets_add(sets, "pools.%s.kv.k_format=%s", pool, k);
    kc_sets_add(sets, "pools.%s.kv.v_format=%s", pool, v);
    return;
  }
  if (was_apart) kc_sets_add(sets, "pools.%s.kv.k_format=null", pool);
  if (was_apart) kc_sets_add(sets, "pools.%s.kv.v_format=null", pool);
  kc_sets_add(sets, "pools.%s.kv.format=%s", pool, value);
}

/* NULL: none was given. */
static const char *price_of(const struct kc_plan_space *space, const char *gpu)
{
  const size_t length = strlen(gpu);
  KC_ASSERT(length > 0);
  for (uint32_t i = 0; i < space->price.count; i++) {
    const char *text = space->price.value[i];
    if (strncmp(text, gpu, length) == 0 && text[length] == '=') return text + length + 1;
  }
  return NULL;
}

static void add_gpu(const struct kc_plan_space *space, uint32_t at, struct kc_plan_sets *sets)
{
  const char *value = space->axis[KC_AXIS_GPU].value[at];
  const char *price = price_of(space, value[0] != '\0' ? value : space->own_gpu);
  KC_ASSERT(at < space->axis[KC_AXIS_GPU].count);
  if (price != NULL) kc_sets_add(sets, "price.gpu_hour_usd=%s", price);
  if (value[0] == '\0') return;
  /* The scenario's prices are of its own kind; of others their files know one. */
  if (price == NULL) kc_sets_add(sets, "price.gpu_hour_usd=null");
  if (space->mixed_price) {
    kc_sets_add(sets, "price.reserved=null");
    kc_sets_add(sets, "price.spot=null");
  }
  kc_sets_add(sets, "pools.%s.gpu=%s", space->pool, value);
  if (space->plain[at]) kc_sets_add(sets, "pools.%s.profile=plain", space->pool);
}

void kc_space_sets(const struct kc_plan_space *space, uint32_t column, struct kc_plan_sets *sets)
{
  uint32_t at[KC_AXES];
  const char *pool = space->pool;
  kc_space_column(space, column, at);
  add_gpu(space, at[KC_AXIS_GPU], sets);
  for (int id = 0; id < KC_AXES; id++) {
    const char *value = space->axis[id].value[at[id]];
    if (value[0] == '\0' || id == KC_AXIS_GPU) continue;
    if (id == KC_AXIS_WEIGHTS) {
      kc_space_add_weights(pool, value, sets);
    } else if (id == KC_AXIS_KV) {
      kc_space_add_kv(pool, value, space->kv_apart, sets);
    } else if (id == KC_AXIS_CHUNK) {
      kc_sets_add(sets, "pools.%s.scheduler.%s=%s", pool,
                  space->server == KC_SERVER_SGLANG ? "chunked_prefill_size" : "max_batched_tokens",
                  value);
    } else {
      const char *key = id == KC_AXIS_TENSOR ? "parallel.tensor"
                        : id == KC_AXIS_PAGE ? "kv.page_size"
                                             : "scheduler.max_running";
      kc_sets_add(sets, "pools.%s.%s=%s", pool, key, value);
    }
  }
}
