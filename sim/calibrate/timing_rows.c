/* From the cells of a timing file to shapes (see timing_rows.h).
 *
 *   operation   columns it reads                                       family chosen by
 *   gemm        m n k                                                  gemm_dtype
 *   ..._attention  batch_size isl step num_heads ... window_size       kv_cache_dtype
 *   moe         num_tokens hidden_size ... distribution                moe_dtype
 *
 * A number is bound to a field of struct kc_shape by a row of a table; what is left (dtypes,
 * distribution, isl + step) has a few lines of its own. All times are milliseconds in the files. */
#include "sim/calibrate/timing_rows.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/number.h"

struct column_row {
  const char *name;
  size_t offset;      /* of the double in struct kc_shape */
  double low, high;
};

#define FIELD(NAME, MEMBER, LOW, HIGH) {NAME, offsetof(struct kc_shape, MEMBER), LOW, HIGH}

struct choice_row {
  const char *value;
  enum kc_family family;
};

struct operation {
  const char *name;
  const char *dtype;                /* column that chooses the family */
  struct choice_row choice[6];
  struct column_row column[12];
};

#define ATTENTION_COLUMNS                                                                 \
  FIELD("batch_size", batch, 1, 1e6), FIELD("isl", tokens, 0, 1e8),                       \
  FIELD("step", context, 0, 1e8), FIELD("num_heads", heads, 1, 1e5),                      \
  FIELD("num_key_value_heads", kv_heads, 1, 1e5), FIELD("head_dim", head_dim, 1, 1e5),    \
  FIELD("window_size", window, 0, 1e8)
#define MLA_COLUMNS                                                                       \
  FIELD("batch_size", batch, 1, 1e6), FIELD("isl", tokens, 0, 1e8),                       \
  FIELD("step", context, 0, 1e8), FIELD("num_heads", heads, 1, 1e5)

static const struct operation operations[] = {
    {"gemm", "gemm_dtype",
     {{"bfloat16", KC_FAMILY_GEMM_BF16}, {"fp8", KC_FAMILY_GEMM_FP8},
      {"fp8_block", KC_FAMILY_GEMM_FP8_BLOCK}},
     {FIELD("m", m, 1, 1e9), FIELD("n", n, 1, 1e9), FIELD("k", k, 1, 1e9)}},
    {"generation_attention", "kv_cache_dtype",
     {{"bfloat16", KC_FAMILY_GQA_DECODE_BF16}, {"fp8", KC_FAMILY_GQA_DECODE_FP8}},
     {ATTENTION_COLUMNS}},
    {"context_attention", "kv_cache_dtype",
     {{"bfloat16", KC_FAMILY_GQA_PREFILL_BF16}, {"fp8", KC_FAMILY_GQA_PREFILL_FP8}},
     {ATTENTION_COLUMNS}},
    {"generation_mla", "kv_cache_dtype",
     {{"bfloat16", KC_FAMILY_MLA_DECODE_BF16}, {"fp8", KC_FAMILY_MLA_DECODE_FP8}}, {MLA_COLUMNS}},
    {"context_mla", "kv_cache_dtype",
     {{"bfloat16", KC_FAMILY_MLA_PREFILL_BF16}, {"fp8", KC_FAMILY_MLA_PREFILL_FP8}},
     {MLA_COLUMNS}},
    {"mla_bmm", "bmm_dtype",
     {{"bfloat16", KC_FAMILY_MLA_BMM_BF16}, {"fp8", KC_FAMILY_MLA_BMM_FP8}},
     {FIELD("num_tokens", tokens, 1, 1e8), FIELD("num_heads", heads, 1, 1e5)}},
    {"moe", "moe_dtype",
     {{"bfloat16", KC_FAMILY_MOE_BF16}, {"fp8", KC_FAMILY_MOE_FP8},
      {"fp8_block", KC_FAMILY_MOE_FP8_BLOCK}, {"int4_wo", KC_FAMILY_MOE_INT4},
      {"w4a16_mxfp4", KC_FAMILY_MOE_MXFP4}},
     {FIELD("num_tokens", tokens, 1, 1e8), FIELD("hidden_size", hidden, 1, 1e7),
      FIELD("inter_size", inter, 1, 1e7), FIELD("topk", topk, 1, 1e4),
      FIELD("num_experts", experts, 1, 1e5), FIELD("moe_tp_size", tp, 1, 1e5),
      FIELD("moe_ep_size", ep, 1, 1e5)}},
    {"custom_allreduce", "backend", {{NULL, KC_FAMILIES}},
     {FIELD("message_size", elements, 1, 1e12), FIELD("num_gpus", gpus, 2, 1e5)}},
    {"dsa_generation_module", "kv_cache_dtype",
     {{"bfloat16", KC_FAMILY_DSA_DECODE_BF16}, {"fp8", KC_FAMILY_DSA_DECODE_FP8}}, {MLA_COLUMNS}},
};

enum { OPERATIONS = sizeof operations / sizeof operations[0] };

/* Operations known, for messages. */
static const char *operation_names(void)
{
  return "gemm, generation_attention, context_attention, generation_mla, context_mla, mla_bmm, "
         "moe, custom_allreduce, dsa_generation_module";
}

void kc_timing_stem(const char *path, char *out, size_t size)
{
  const char *slash = strrchr(path, '/');
  const char *name = slash != NULL ? slash + 1 : path;
  const char *dot = strstr(name, ".csv");
  const size_t length = dot != NULL ? (size_t)(dot - name) : strlen(name);
  KC_ASSERT(size > 0);
  const size_t kept = length < size - 1 ? length : size - 1;
  memcpy(out, name, kept);
  out[kept] = '\0';
}

static const struct operation *find_operation(const char *path)
{
  char stem[64];
  kc_timing_stem(path, stem, sizeof stem);
  for (size_t i = 0; i < OPERATIONS; i++) {
    if (strcmp(operations[i].name, stem) == 0) return &operations[i];
  }
  return NULL;
}

/* The columns of one file, found once. */
struct binding {
  const struct operation *operation;
  const struct kc_timing_table *table;
  int field[12];
  int latency, dtype, kernel, arithmetic, distribution, model, gemm;
};

static enum kc_err need_column(const struct kc_timing_table *table, const char *name, int *out,
                               struct kc_diag *diag)
{
  *out = kc_timing_column(table, name);
  if (*out >= 0) return KC_OK;
  return kc_fail_at(diag, KC_ERR_INPUT, table->path, 1, 0,
                    "no column \"%s\"; a file of this name must have it", name);
}

static enum kc_err fail_name(const char *path, struct kc_diag *diag)
{
  return kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0,
                    "the file's name says no operation that is known; expected one of %s, dense, "
                    "per_sequence, attention, skew, followed by .csv or .csv.gz; or meta.yaml",
                    operation_names());
}

static enum kc_err bind(struct binding *b, const struct kc_timing_table *table,
                        struct kc_diag *diag)
{
  KC_ASSERT(table->columns > 0);
  *b = (struct binding){.operation = find_operation(table->path), .table = table,
                        .distribution = -1, .model = -1, .gemm = -1};
  if (b->operation == NULL) return fail_name(table->path, diag);
  KC_TRY(need_column(table, "latency_ms", &b->latency, diag));
  KC_TRY(need_column(table, b->operation->dtype, &b->dtype, diag));
  KC_TRY(need_column(table, "kernel_source", &b->kernel, diag));
  b->arithmetic = kc_timing_column(table, "attn_dtype");
  for (size_t i = 0; i < 12 && b->operation->column[i].name != NULL; i++) {
    KC_TRY(need_column(table, b->operation->column[i].name, &b->field[i], diag));
  }
  if (strcmp(b->operation->name, "moe") == 0) {
    KC_TRY(need_column(table, "distribution", &b->distribution, diag));
  }
  if (strcmp(b->operation->name, "dsa_generation_module") == 0) {
    KC_TRY(need_column(table, "architecture", &b->model, diag));
    KC_TRY(need_column(table, "gemm_type", &b->gemm, diag));
  }
  return KC_OK;
}

static bool ends_with(const struct kc_timing_cell *cell, const char *suffix)
{
  const size_t length = strlen(suffix);
  KC_ASSERT(length > 0);
  return cell->bytes >= length && memcmp(cell->text + cell->bytes - length, suffix, length) == 0;
}

static bool holds(const struct kc_timing_cell *cell, const char *word)
{
  return memmem(cell->text, cell->bytes, word, strlen(word)) != NULL;
}

static enum kc_err fail_value(const struct binding *b, size_t row, int column, const char *expected,
                              struct kc_diag *diag)
{
  const struct kc_timing_cell *cell = kc_timing_cell(b->table, row, column);
  return kc_fail_at(diag, KC_ERR_INPUT, b->table->path, kc_timing_line(row), (uint32_t)column + 1,
                    "%s is \"%.*s\"; expected %s", b->table->column[column],
                    (int)(cell->bytes < 40 ? cell->bytes : 40), cell->text, expected);
}

static enum kc_err choose_family(const struct binding *b, size_t row, enum kc_family *out,
                                 struct kc_diag *diag)
{
  const struct kc_timing_cell *cell = kc_timing_cell(b->table, row, b->dtype);
  if (b->operation->choice[0].value == NULL) { /* all-reduce: "sglang_graph", "vllm_eager" */
    const bool graph = ends_with(cell, "_graph");
    if (!graph && !ends_with(cell, "_eager")) {
      return fail_value(b, row, b->dtype, "a name that ends in _graph or _eager", diag);
    }
    *out = graph ? KC_FAMILY_ALLREDUCE_GRAPH : KC_FAMILY_ALLREDUCE_EAGER;
    return KC_OK;
  }
  for (size_t i = 0; i < 6 && b->operation->choice[i].value != NULL; i++) {
    if (!kc_timing_is(cell, b->operation->choice[i].value)) continue;
    *out = b->operation->choice[i].family;
    if (*out == KC_FAMILY_GQA_PREFILL_FP8 && b->arithmetic >= 0 &&
        kc_timing_is(kc_timing_cell(b->table, row, b->arithmetic), "bfloat16")) {
      *out = KC_FAMILY_GQA_PREFILL_KV8;
    }
    if (*out == KC_FAMILY_MOE_BF16 && holds(kc_timing_cell(b->table, row, b->kernel), "cutlass")) {
      *out = KC_FAMILY_MOE_BF16_CUTLASS;
    }
    return KC_OK;
  }
  return fail_value(b, row, b->dtype, "a dtype that this operation is known in, such as bfloat16",
                    diag);
}

/* "balanced" -> 0, "power_law_1.01" -> 1.01. */
static enum kc_err read_skew(const struct binding *b, size_t row, double *out,
                             struct kc_diag *diag)
{
  static const char prefix[] = "power_law_";
  const size_t length = sizeof prefix - 1;
  const struct kc_timing_cell *cell = kc_timing_cell(b->table, row, b->distribution);
  *out = 0;
  KC_ASSERT(b->distribution >= 0);
  if (kc_timing_is(cell, "balanced")) return KC_OK;
  if (cell->bytes > length && memcmp(cell->text, prefix, length) == 0 &&
      kc_parse_double(cell->text + length, cell->bytes - length, out) && *out > 0 && *out < 10) {
    return KC_OK;
  }
  return fail_value(b, row, b->distribution, "balanced or power_law_ and an exponent", diag);
}

/* Hidden sizes of the two architectures with sparse attention, from their config.json. */
static enum kc_err read_dsa(const struct binding *b, size_t row, struct kc_shape *shape,
                            struct kc_diag *diag)
{
  const struct kc_timing_cell *model = kc_timing_cell(b->table, row, b->model);
  const struct kc_timing_cell *gemm = kc_timing_cell(b->table, row, b->gemm);
  const bool deepseek = kc_timing_is(model, "DeepseekV32ForCausalLM");
  if (!deepseek && !kc_timing_is(model, "GlmMoeDsaForCausalLM")) {
    return fail_value(b, row, b->model, "DeepseekV32ForCausalLM or GlmMoeDsaForCausalLM", diag);
  }
  KC_ASSERT(b->gemm >= 0);
  shape->hidden = deepseek ? 7168 : 6144;
  shape->gemm_fp8 = kc_timing_is(gemm, "fp8_block") ? 1 : 0;
  if (shape->gemm_fp8 <= 0 && !kc_timing_is(gemm, "bfloat16")) {
    return fail_value(b, row, b->gemm, "bfloat16 or fp8_block", diag);
  }
  shape->skip = holds(kc_timing_cell(b->table, row, b->kernel), "skip_indexer") ? 1 : 0;
  return KC_OK;
}

/* Files give the context as new tokens (isl) plus what stands before them (step). */
static enum kc_err finish_shape(const struct binding *b, size_t row, struct kc_shape *shape,
                                struct kc_diag *diag)
{
  const char *name = b->operation->name;
  if (strstr(name, "attention") != NULL || strstr(name, "_mla") != NULL || b->model >= 0) {
    shape->context += shape->tokens;
    if (shape->context < 1) return fail_value(b, row, b->field[1], "isl + step of 1 or more", diag);
  }
  if (b->distribution >= 0) KC_TRY(read_skew(b, row, &shape->skew, diag));
  if (b->model >= 0) KC_TRY(read_dsa(b, row, shape, diag));
  return KC_OK;
}

static void count_kernel(struct kc_samples *samples, enum kc_family family,
                         const struct kc_timing_cell *cell)
{
  uint32_t i = 0;
  for (; i < samples->kernel_count; i++) {
    if (samples->kernel[i].family == family && kc_timing_is(cell, samples->kernel[i].name)) break;
  }
  KC_ASSERT(i <= KC_KERNEL_NAMES_MAX);
  if (i == KC_KERNEL_NAMES_MAX) return; /* only names for people are lost */
  if (i == samples->kernel_count) {
    struct kc_kernel_name *kernel = &samples->kernel[samples->kernel_count++];
    const size_t length = cell->bytes < sizeof kernel->name ? cell->bytes : sizeof kernel->name - 1;
    *kernel = (struct kc_kernel_name){.family = family};
    memcpy(kernel->name, cell->text, length);
    kc_text_clean(kernel->name);
  }
  samples->kernel[i].rows++;
}

/* Room for `wanted` samples altogether. */
static enum kc_err reserve(struct kc_samples *samples, size_t wanted, struct kc_diag *diag)
{
  KC_ASSERT(samples->count <= samples->capacity);
  if (wanted <= samples->capacity) return KC_OK;
  struct kc_sample *larger = realloc(samples->sample, wanted * sizeof *larger);
  if (larger == NULL) {
    return kc_fail(diag, KC_ERR_MEMORY, "out of memory: %zu measured rows", wanted);
  }
  samples->sample = larger;
  samples->capacity = wanted;
  return KC_OK;
}

/* Every sample comes in here, with the name of who measured it. */
static enum kc_err take(struct kc_samples *samples, const struct kc_sample *sample,
                        const struct kc_timing_cell *kernel, struct kc_diag *diag)
{
  KC_ASSERT(sample->us > 0);
  if (kc_timing_is(kernel, KC_KERNEL_EMULATED)) {
    samples->emulated++;
    return KC_OK;
  }
  if (samples->count == samples->capacity) {
    KC_TRY(reserve(samples, 2 * samples->capacity + 64, diag));
  }
  count_kernel(samples, sample->family, kernel);
  samples->sample[samples->count++] = *sample;
  return KC_OK;
}

enum kc_err kc_samples_add(struct kc_samples *samples, const struct kc_sample *sample,
                           const char *kernel, struct kc_diag *diag)
{
  const struct kc_timing_cell cell = {kernel, (uint32_t)strlen(kernel)};
  KC_ASSERT(cell.bytes > 0);
  return take(samples, sample, &cell, diag);
}

static enum kc_err add_row(struct kc_samples *samples, const struct binding *b, size_t row,
                           struct kc_diag *diag)
{
  struct kc_sample sample = {0};
  double ms;
  KC_TRY(choose_family(b, row, &sample.family, diag));
  for (size_t i = 0; i < 12 && b->operation->column[i].name != NULL; i++) {
    const struct column_row *column = &b->operation->column[i];
    double *field = (double *)((char *)&sample.shape + column->offset);
    KC_TRY(kc_timing_number(b->table, row, b->field[i], column->low, column->high, field, diag));
  }
  KC_TRY(finish_shape(b, row, &sample.shape, diag));
  KC_TRY(kc_timing_number(b->table, row, b->latency, 1e-6, 1e7, &ms, diag));
  sample.us = ms * 1000.0;
  return take(samples, &sample, kc_timing_cell(b->table, row, b->kernel), diag);
}

enum kc_err kc_samples_add_table(struct kc_samples *samples, const struct kc_timing_table *table,
                                 struct kc_diag *diag)
{
  struct binding binding;
  KC_TRY(bind(&binding, table, diag));
  const size_t met = samples->count + samples->emulated;
  KC_TRY(reserve(samples, samples->count + table->rows, diag));
  for (size_t row = 0; row < table->rows; row++) {
    KC_TRY(add_row(samples, &binding, row, diag));
  }
  KC_ASSERT(samples->count + samples->emulated == met + table->rows);
  return KC_OK;
}

enum kc_err kc_samples_read(struct kc_samples *samples, const char *path, struct kc_diag *diag)
{
  struct kc_timing_table table;
  KC_ASSERT(path != NULL);
  if (find_operation(path) == NULL) return fail_name(path, diag); /* before it is read */
  KC_TRY(kc_timing_table_load(&table, path, diag));
  const enum kc_err err = kc_samples_add_table(samples, &table, diag);
  kc_timing_table_free(&table);
  return err;
}

void kc_samples_free(struct kc_samples *samples)
{
  free(samples->sample);
  *samples = (struct kc_samples){0};
}
