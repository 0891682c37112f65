/* kvcap engine rank: one rank of a model that is too large for one GPU, on one GPU.
 *
 *   config.json --shard--> weights, pool, decode steps (engine/exec/rank.h)
 *   profile's all-reduce --> what each layer waits for the other ranks
 *   bill of `kvcap fit`  --> beside what was measured: weights, page, pool, most requests
 *
 * --csv writes a table for each KV format that `kvcap calibrate serving --table` reads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/exec/rank.h"
#include "engine/memory/gpu.h"
#include "sim/calibrate/timing_rows.h"
#include "sim/cli/cmd_engine.h"
#include "sim/cli/engine_device.h"
#include "sim/cli/engine_setup.h"
#include "sim/cost/profile.h"
#include "sim/scenario/scenario.h"
#include "sim/store/store.h"

enum { RANK_SCHEMA = 1, BATCHES_MAX = 16, FORMATS = 2 };

struct arguments {
  uint32_t tensor, input, output, runs, batch_max;
  uint64_t pages;
  int page; /* index of page_sizes */
  char kv[32], gpu[KC_DIAG_PATH_BYTES], profile[64], weights[KC_DIAG_PATH_BYTES];
  char csv[KC_DIAG_PATH_BYTES], database[KC_DIAG_PATH_BYTES];
  bool weights_given, csv_given, database_given, json;
};

#define FIELD(name) offsetof(struct arguments, name)
#define TEXT(name) .offset = FIELD(name), .size = sizeof(((struct arguments *)0)->name)

static const struct kc_option options[] = {
    {.key = "tensor", .type = KC_OPTION_U32, .offset = FIELD(tensor), .min = 1, .max = 64,
     .fallback = "8", .help = "Tensor degree of the group that the rank belongs to."},
    {.key = "kv", .type = KC_OPTION_TEXT, TEXT(kv), .values = "FORMAT", .fallback = "both",
     .help = "Format of the KV pool: bf16, fp8-e4m3 (fp8-g128 for latents, which keep that), or "
             "both."},
    {.key = "weights", .type = KC_OPTION_TEXT, TEXT(weights), .set_offset = FIELD(weights_given),
     .values = "CLASS=FORMAT,...",
     .help = "Formats of the weights; the checkpoint's own if left out."},
    {.key = "batch-max", .type = KC_OPTION_U32, .offset = FIELD(batch_max), .min = 1, .max = 256,
     .fallback = "64", .unit = "requests",
     .help = "Steps of 1, 2, 4, 8, 12, 16, 24, 32, ... requests up to this."},
    {.key = "input", .type = KC_OPTION_U32, .offset = FIELD(input), .min = 1, .max = 1000000,
     .fallback = "10240", .unit = "tokens", .help = "Of each request's prompt."},
    {.key = "output", .type = KC_OPTION_U32, .offset = FIELD(output), .min = 2, .max = 1000000,
     .fallback = "1000", .unit = "tokens",
     .help = "Of each request; steps are timed with half of it there."},
    {.key = "page", .type = KC_OPTION_CHOICE, .offset = FIELD(page), .values = "16|32|64|128",
     .fallback = "64", .unit = "tokens", .help = "Of a KV page."},
    {.key = "pages", .type = KC_OPTION_U64, .offset = FIELD(pages), .max = UINT32_MAX,
     .fallback = "0",
     .help = "Of the pool; 0 = as many as there is room for."},
    {.key = "runs", .type = KC_OPTION_U32, .offset = FIELD(runs), .min = 1, .max = 101,
     .fallback = "15", .help = "Steps of each size; the median counts."},
    {.key = "gpu", .type = KC_OPTION_TEXT, TEXT(gpu), .values = "NAME", .fallback = "h200",
     .help = "GPU file whose profile says how long an all-reduce takes."},
    {.key = "profile", .type = KC_OPTION_TEXT, TEXT(profile), .values = "NAME",
     .fallback = "sglang-0.5.14", .help = "That profile."},
    {.key = "csv", .type = KC_OPTION_TEXT, TEXT(csv), .set_offset = FIELD(csv_given),
     .values = "FOLDER", .help = "Write rank-bf16.csv and rank-fp8.csv there."},
    {.key = "db", .type = KC_OPTION_TEXT, TEXT(database), .set_offset = FIELD(database_given),
     .values = "FILE", .help = "Append the figures to the table `measurement` of this database."},
    {.key = "json", .type = KC_OPTION_FLAG, .offset = FIELD(json),
     .help = "Print one JSON document instead of the table."},
};

static const struct kc_cli_usage usage = {
    .name = "engine rank",
    .synopsis = "MODEL [options]",
    .about = "Runs one tensor-parallel rank of MODEL (a name or a config.json) on one GPU, with\n"
             "synthetic weights and the time of an all-reduce in place of the other ranks; times\n"
             "its decode steps with and without the page-tag check, and finds the largest KV pool\n"
             "that the GPU has room for. Exit status 7 without a GPU, 5 when it does not fit.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .positional_min = 1,
    .positional_max = 1,
    .epilogue = "Examples:\n"
                "  kvcap engine rank kimi-k2.6 --tensor 8 --csv out\n"
                "  kvcap calibrate serving t02-kimi-decode-bf16 --table out/rank-bf16.csv\n"};

static const uint32_t page_sizes[] = {16, 32, 64, 128}; /* as --page has them */

struct steps {
  enum kc_kv_format format;
  struct kc_rank_memory memory;
  uint64_t page_billed, pages_predicted; /* by the bill */
  uint32_t count;
  uint32_t batch[BATCHES_MAX];
  struct kc_rank_time time[BATCHES_MAX];
  uint32_t refused; /* the first batch that the pool had no room for; 0: none */
};

struct session {
  const struct arguments *arguments;
  struct kc_accelerator device;
  struct kc_model model;
  struct kc_recipe recipe;
  struct kc_precision asked, precision;
  struct kc_gpu gpu;
  struct kc_profile *kernels;
  struct kc_engine_peers peers;
  uint64_t billed, ballast; /* weights by the bill; those of them that the engine does not run */
  struct steps steps[FORMATS];
  size_t formats;
  char utc[32];
};

static uint32_t page_tokens(const struct session *s)
{
  KC_ASSERT((size_t)s->arguments->page < sizeof page_sizes / sizeof page_sizes[0]);
  return page_sizes[s->arguments->page];
}

/* ---- what stands for the other ranks ---- */

static enum kc_err load_collectives(struct session *s, struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  struct kc_gpu_profile profile;
  KC_TRY(kc_data_find_option("--gpu", "gpus", s->arguments->gpu, ".yaml", NULL, path, diag));
  KC_TRY(kc_gpu_load(&s->gpu, path, diag));
  if (!kc_gpu_profile_variant(&s->gpu, s->arguments->profile, &profile)) {
    return kc_fail(diag, KC_ERR_INPUT, "%.100s has no profile %.60s", path, s->arguments->profile);
  }
  KC_ASSERT(s->kernels == NULL);
  if (profile.kernels[0] == '\0') {
    KC_TRY(kc_profile_datasheet(&s->kernels, &profile, diag));
  } else {
    KC_TRY(kc_kernels_find(&s->gpu, profile.kernels, s->model.name, s->arguments->tensor, path,
                           diag));
    KC_TRY(kc_profile_load(&s->kernels, path, diag));
  }
  s->peers = (struct kc_engine_peers){s->kernels, kc_device_of(&s->gpu), s->arguments->tensor};
  return KC_OK;
}

/* ---- the model ---- */

/* Bytes of a rank's weights by class, and of the classes that the engine has no operations for. */
static void bill(struct session *s)
{
  uint64_t by_class[KC_TENSOR_CLASSES];
  KC_ASSERT(s->arguments->tensor > 0);
  s->billed = kc_model_rank_class_bytes(&s->model, &s->asked, s->arguments->tensor, 0, 1,
                                        by_class);
  s->ballast = by_class[KC_CLASS_VISION] + by_class[KC_CLASS_MTP] + by_class[KC_CLASS_INDEXER];
}

static enum kc_err load_model(struct session *s, const char *name, struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  KC_TRY(kc_data_find("models", name, ".json", NULL, path, diag));
  KC_TRY(kc_model_load(&s->model, path, diag));
  KC_TRY(kc_recipe_load(&s->recipe, &s->model, diag));
  kc_precision_default(&s->asked);
  if (s->arguments->weights_given) {
    KC_TRY(kc_precision_parse(&s->asked, s->arguments->weights, diag));
  }
  s->precision = kc_rank_precision(&s->model, &s->asked);
  KC_ASSERT(s->recipe.layers > 0);
  bill(s);
  return kc_recipe_shard(&s->recipe, s->arguments->tensor, diag);
}

/* ---- measuring ---- */

static void predict(const struct session *s, struct steps *steps)
{
  const struct kc_rank_memory *m = &steps->memory;
  const uint64_t taken = s->billed + m->scratch_bytes;
  /* The engine's FP8 records of latents carry their scales and a BF16 rotary part. */
  const bool records = s->recipe.mla && steps->format == KC_KV_FP8_E4M3;
  const enum kc_kv_format kept = records ? KC_KV_FP8_G128 : steps->format;
  KC_ASSERT(m->page_bytes > 0);
  steps->page_billed = page_tokens(s) * kc_model_kv_token_bytes(&s->model, kept, kept,
                                                                    s->arguments->tensor);
  steps->pages_predicted =
      m->free_before > taken ? (m->free_before - taken) / steps->page_billed : 0;
}

/* Requests of input + output tokens that a pool of so many pages holds. */
static uint64_t requests_in(const struct session *s, uint64_t pages)
{
  const uint64_t tokens = (uint64_t)s->arguments->input + s->arguments->output;
  KC_ASSERT(page_tokens(s) > 0);
  return pages / ((tokens + page_tokens(s) - 1) / page_tokens(s));
}

/* Each has a graph of its own size. */
static const uint32_t batches[BATCHES_MAX] = {1,  2,  4,  8,  12, 16,  24,  32,
                                              40, 48, 56, 64, 96, 128, 192, 256};

static enum kc_err time_batches(struct session *s, struct kc_rank *rank, struct steps *steps,
                                struct kc_diag *diag)
{
  const struct arguments *a = s->arguments;
  const uint32_t context = a->input + a->output / 2;
  for (uint32_t i = 0; i < BATCHES_MAX && batches[i] <= a->batch_max; i++) {
    const uint32_t batch = batches[i];
    struct kc_rank_time *time = &steps->time[steps->count];
    if (batch > requests_in(s, steps->memory.pages)) { /* a request could not grow to its end */
      steps->refused = batch;
      return KC_OK;
    }
    KC_TRY(kc_rank_time(rank, batch, context, a->runs, time, diag));
    steps->batch[steps->count++] = batch;
  }
  KC_ASSERT(steps->count <= BATCHES_MAX);
  return KC_OK;
}

static enum kc_err measure(struct session *s, enum kc_kv_format format, struct kc_diag *diag)
{
  const struct arguments *a = s->arguments;
  struct steps *steps = &s->steps[s->formats];
  struct kc_rank *rank = NULL;
  const struct kc_rank_config config = {
      .site = s->device.site, .recipe = &s->recipe, .precision = &s->precision,
      .kv_format = format, .page_tokens = page_tokens(s), .batch_max = a->batch_max,
      .context_max = a->input + a->output, .ballast_bytes = s->ballast, .pages = a->pages,
      .collective = kc_engine_collective(&s->peers)};
  KC_ASSERT(s->formats < FORMATS);
  *steps = (struct steps){.format = format};
  KC_TRY(kc_rank_create(&rank, &config, &steps->memory, diag));
  predict(s, steps);
  const enum kc_err err = time_batches(s, rank, steps, diag);
  kc_rank_destroy(rank);
  s->formats += err == KC_OK;
  return err;
}

/* ---- printing ---- */

static const char *format_name(const struct session *s, const struct steps *steps)
{
  if (steps->format == KC_KV_BF16) return "bf16";
  return s->recipe.mla ? "fp8-g128" : "fp8-e4m3";
}

static double gib(uint64_t bytes)
{
  return (double)bytes / (double)(UINT64_C(1) << 30);
}

static double off(double measured, double predicted)
{
  return predicted > 0 ? 100 * (measured / predicted - 1) : 0;
}

static void print_memory(const struct session *s, const struct steps *steps)
{
  const struct kc_rank_memory *m = &steps->memory;
  const uint64_t held = m->weight_bytes + s->ballast;
  KC_ASSERT(s->billed > 0);
  printf("\nKV %s\n", format_name(s, steps));
  printf("  weights     %.3f GiB, by the bill %.3f (%+.2f %%); %.3f of them only held, not run\n",
         gib(held), gib(s->billed), off((double)held, (double)s->billed), gib(s->ballast));
  printf("  page        %llu bytes, by the bill %llu (%+.2f %%)\n",
         (unsigned long long)m->page_bytes, (unsigned long long)steps->page_billed,
         off((double)m->page_bytes, (double)steps->page_billed));
  if (m->pages_largest > 0) {
    printf("  pool        %llu pages at most (%.3f GiB), predicted %llu (%+.2f %%)\n",
           (unsigned long long)m->pages_largest, gib(m->pages_largest * m->page_bytes),
           (unsigned long long)steps->pages_predicted,
           off((double)m->pages_largest, (double)steps->pages_predicted));
    printf("  requests    %llu of %u + %u tokens at most, predicted %llu\n",
           (unsigned long long)requests_in(s, m->pages_largest), s->arguments->input,
           s->arguments->output, (unsigned long long)requests_in(s, steps->pages_predicted));
  }
}

static void print_steps(const struct session *s, const struct steps *steps)
{
  const bool emulated = s->device.info.emulated;
  printf("  %8s %12s %12s %12s %10s %s\n", "requests", "device ms", "wall ms", "tok/s", "check",
         emulated ? "EMULATED" : "");
  for (uint32_t i = 0; i < steps->count; i++) {
    const struct kc_rank_time *t = &steps->time[i];
    printf("  %8u %12.3f %12.3f %12.1f %+8.2f %%%s\n", steps->batch[i], 1e-3 * t->device_us,
           1e-3 * t->wall_us, 1e6 * steps->batch[i] / t->wall_us,
           off(t->device_us, t->unchecked_us), t->graph ? "" : " (no graph)");
  }
  if (steps->refused > 0) {
    printf("  %8u does not fit: out of memory\n", steps->refused);
  }
  KC_ASSERT(steps->count <= BATCHES_MAX);
}

static void print_text(const struct session *s)
{
  const struct arguments *a = s->arguments;
  KC_ASSERT(s->formats <= FORMATS);
  printf("%s%s: one rank of %u on %s, %s\n",
         s->device.info.emulated ? "EMULATED, no times of a GPU: " : "", s->model.name, a->tensor,
         kc_engine_device_name(&s->device), s->utc);
  printf("steps at %u tokens a request; all-reduce by %s of %s\n", a->input + a->output / 2,
         a->profile, a->gpu);
  for (size_t i = 0; i < s->formats; i++) {
    print_memory(s, &s->steps[i]);
    print_steps(s, &s->steps[i]);
  }
}

static json_t *steps_json(const struct session *s, const struct steps *steps)
{
  const struct kc_rank_memory *m = &steps->memory;
  json_t *rows = json_array();
  for (uint32_t i = 0; i < steps->count && rows != NULL; i++) {
    const struct kc_rank_time *t = &steps->time[i];
    json_t *row = json_pack("{s:i, s:f, s:f, s:f, s:f, s:b}", "requests", (int)steps->batch[i],
                            "device_us", t->device_us, "wall_us", t->wall_us, "unchecked_us",
                            t->unchecked_us, "tok_s", 1e6 * steps->batch[i] / t->wall_us, "graph",
                            (int)t->graph);
    if (json_array_append_new(rows, row) == 0) continue;
    json_decref(rows);
    rows = NULL;
  }
  KC_ASSERT(m->page_bytes > 0);
  return json_pack(
      "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:o}", "kv", format_name(s, steps),
      "weight_bytes", (json_int_t)(m->weight_bytes + s->ballast), "weight_bytes_billed",
      (json_int_t)s->billed, "page_bytes", (json_int_t)m->page_bytes, "page_bytes_billed",
      (json_int_t)steps->page_billed, "pages", (json_int_t)m->pages, "pages_largest",
      (json_int_t)m->pages_largest, "pages_predicted", (json_int_t)steps->pages_predicted,
      "requests_largest", (json_int_t)requests_in(s, m->pages_largest), "requests_predicted",
      (json_int_t)requests_in(s, steps->pages_predicted), "refused", (int)steps->refused, "steps",
      rows);
}

static int print_json(const struct session *s)
{
  json_t *list = json_array();
  for (size_t i = 0; i < s->formats && list != NULL; i++) {
    if (json_array_append_new(list, steps_json(s, &s->steps[i])) == 0) continue;
    json_decref(list);
    list = NULL;
  }
  return kc_cli_print_json(json_pack(
      "{s:i, s:o, s:o, s:b, s:s, s:i, s:i, s:i, s:o}", "schema", RANK_SCHEMA, "model",
      kc_cli_json_string(s->model.name), "device",
      kc_cli_json_string(kc_engine_device_name(&s->device)), "emulated",
      (int)s->device.info.emulated, "measured_utc", s->utc, "tensor", (int)s->arguments->tensor,
      "input", (int)s->arguments->input, "output", (int)s->arguments->output, "pools", list));
}

/* ---- keeping ---- */

static enum kc_err write_csv(const struct session *s, const struct steps *steps,
                             struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  const char *folder = s->arguments->csv;
  const int length = snprintf(path, sizeof path, "%s/rank-%s.csv", folder,
                              steps->format == KC_KV_BF16 ? "bf16" : "fp8");
  KC_TRY(kc_file_make_folder(folder, diag));
  if ((size_t)length >= sizeof path) {
    return kc_fail(diag, KC_ERR_LIMIT, "the name of the folder is too long");
  }
  FILE *file;
  KC_TRY(kc_file_create(&file, path, diag));
  fputs("concurrency,tok_s,input,output,kernel_source\n", file);
  for (uint32_t i = 0; i < steps->count; i++) {
    fprintf(file, "%u,%.3f,%u,%u,%s\n", steps->batch[i],
            1e6 * steps->batch[i] / steps->time[i].wall_us, s->arguments->input,
            s->arguments->output, s->device.info.emulated ? KC_KERNEL_EMULATED : "kvcap");
  }
  KC_ASSERT(length > 0);
  return kc_file_finish(file, path, diag);
}

static enum kc_err store_steps(const struct session *s, const struct steps *steps,
                               struct kc_diag *diag)
{
  struct kc_measurement list[BATCHES_MAX];
  char subject[BATCHES_MAX][KC_MODEL_NAME_BYTES + 96];
  struct kc_store *store = NULL;
  KC_ASSERT(steps->count <= BATCHES_MAX);
  for (uint32_t i = 0; i < steps->count; i++) {
    snprintf(subject[i], sizeof subject[i], "%s rank of %u kv=%s requests=%u context=%u",
             s->model.name, s->arguments->tensor, format_name(s, steps), steps->batch[i],
             s->arguments->input + s->arguments->output / 2);
    list[i] = (struct kc_measurement){.kind = "rank", .subject = subject[i],
                                      .metric = "decode_step", .unit = "us",
                                      .value = steps->time[i].device_us,
                                      .device = kc_engine_device_name(&s->device),
                                      .measured_utc = s->utc, .version = KVCAP_VERSION,
                                      .emulated = s->device.info.emulated};
  }
  KC_TRY(kc_store_open(&store, s->arguments->database, diag));
  const enum kc_err err = kc_store_add_measurements(store, list, steps->count, diag);
  kc_store_close(store);
  return err;
}

/* ---- the command ---- */

static void note_date(char out[32])
{
  struct timespec now;
  struct tm date;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &date);
  strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &date);
}

/* Names are those of scenarios. */
static enum kc_err wanted_formats(const char *name, bool *bf16, bool *fp8, struct kc_diag *diag)
{
  enum kc_kv_format format = KC_KV_BF16;
  const bool both = strcmp(name, "both") == 0;
  const bool known = both || kc_kv_format_parse(name, &format);
  *fp8 = both || (known && (format == KC_KV_FP8_E4M3 || format == KC_KV_FP8_G128));
  *bf16 = both || (known && format == KC_KV_BF16);
  KC_ASSERT(diag != NULL);
  if (*bf16 || *fp8) return KC_OK;
  return kc_fail(diag, KC_ERR_USAGE, "--kv %.30s: the engine keeps KV as bf16, fp8-e4m3 or, of "
                 "latents, fp8-g128; expected one of these, or both", name);
}

static enum kc_err run(struct session *s, const char *name, struct kc_diag *diag)
{
  const struct arguments *a = s->arguments;
  bool bf16 = false, fp8 = false;
  KC_TRY(wanted_formats(a->kv, &bf16, &fp8, diag));
  KC_TRY(load_model(s, name, diag));
  KC_TRY(load_collectives(s, diag));
  KC_TRY(kc_engine_device_open(&s->device, KC_ENGINE_GPU, diag));
  note_date(s->utc);
  if (bf16) KC_TRY(measure(s, KC_KV_BF16, diag));
  if (fp8) KC_TRY(measure(s, KC_KV_FP8_E4M3, diag));
  for (size_t i = 0; i < s->formats; i++) {
    if (a->csv_given) KC_TRY(write_csv(s, &s->steps[i], diag));
    if (a->database_given) KC_TRY(store_steps(s, &s->steps[i], diag));
  }
  return KC_OK;
}

int kc_cmd_engine_rank(int argc, char **argv)
{
  struct arguments a = {0};
  struct kc_diag diag = {0};
  const char *model[1];
  const int usage_status = kc_cli_arguments(&usage, &a, argc, argv, model, NULL);
  if (usage_status >= 0) return usage_status;
  struct session *s = calloc(1, sizeof *s);
  int status = 0;
  if (s == NULL) {
    kc_fail(&diag, KC_ERR_MEMORY, "no memory for a rank");
    return kc_cli_fail(&diag);
  }
  s->arguments = &a;
  if (run(s, model[0], &diag) != KC_OK) status = kc_cli_fail(&diag);
  else if (a.json) status = print_json(s);
  else print_text(s);
  kc_profile_destroy(s->kernels);
  kc_accelerator_close(&s->device);
  free(s);
  return status;
}
