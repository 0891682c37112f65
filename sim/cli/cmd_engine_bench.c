/* kvcap engine bench: how long the engine's operations take on this GPU.
 *
 *   engine/exec/bench.h --rows--> table, --json, --csv FOLDER (bench_csv.c), --db FILE
 *
 * The first suite reads memory as fast as it can be read: that is the ceiling which the others'
 * bandwidth is a share of. Figures of the emulated device are marked in every output.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/check.h"
#include "engine/exec/bench.h"
#include "engine/exec/dense_product.h"
#include "sim/cli/bench_csv.h"
#include "sim/cli/cmd_engine.h"
#include "sim/cli/engine_device.h"
#include "sim/store/store.h"

enum { BENCH_SCHEMA = 1, ROWS_MAX = 4096, SUBJECT_BYTES = 200 };

struct arguments {
  struct kc_option_list suites;
  uint32_t runs;
  double minutes;
  bool tiny, json, csv_given, database_given;
  char csv[KC_DIAG_PATH_BYTES], database[KC_DIAG_PATH_BYTES];
};

#define FIELD(name) offsetof(struct arguments, name)
#define TEXT(name) .offset = FIELD(name), .size = sizeof(((struct arguments *)0)->name)

static const struct kc_option options[] = {
    {.key = "suite", .type = KC_OPTION_LIST, .offset = FIELD(suites), .values = "NAME",
     .help = "Measure only this: stream, decode, latent, prefill, gemm, w4a16, moe, kv-write, "
             "tags; repeatable. stream is always measured."},
    {.key = "runs", .type = KC_OPTION_U32, .offset = FIELD(runs), .min = 1, .max = 101,
     .fallback = "15", .help = "Of each case; the median counts."},
    {.key = "minutes", .type = KC_OPTION_DOUBLE, .offset = FIELD(minutes), .fallback = "0",
     .min = 0, .max = 1440, .help = "Begin no case after so long; 0 = no limit."},
    {.key = "tiny", .type = KC_OPTION_FLAG, .offset = FIELD(tiny),
     .help = "Shapes of a few elements, which show that the bench works and nothing else."},
    {.key = "csv", .type = KC_OPTION_TEXT, TEXT(csv), .set_offset = FIELD(csv_given),
     .values = "FOLDER",
     .help = "Write bench.csv there, and a file for each operation that `kvcap calibrate kernels` "
             "reads."},
    {.key = "db", .type = KC_OPTION_TEXT, TEXT(database), .set_offset = FIELD(database_given),
     .values = "FILE", .help = "Append the figures to the table `measurement` of this database."},
    {.key = "json", .type = KC_OPTION_FLAG, .offset = FIELD(json),
     .help = "Print one JSON document instead of the table."},
};

static const struct kc_cli_usage usage = {
    .name = "engine bench",
    .synopsis = "[options]",
    .about = "Times the engine's operations on the GPU, one at a time: cold (L2 flushed before\n"
             "each run) and warm (ten in a row, divided by ten), in microseconds, GB/s, share of\n"
             "the measured read ceiling, and TFLOP/s. Exit status 7 when there is no GPU.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .epilogue = "Examples:\n"
                "  kvcap engine bench --suite decode --suite tags\n"
                "  kvcap engine bench --csv out && kvcap calibrate kernels out/gemm.csv \\\n"
                "      --gpu h200 --name kvcap-engine --hold-out 50\n"};

struct session {
  const struct arguments *arguments;
  struct kc_accelerator device;
  struct kc_bench_row *row; /* [ROWS_MAX] */
  size_t rows, failed;
  uint32_t skipped;
  double ceiling; /* bytes a microsecond */
  char utc[32];
};

/* ---- what was measured ---- */

static double bandwidth(const struct kc_bench_row *row)
{
  return row->cold_us > 0 ? row->bytes / row->cold_us : 0;
}

static void on_row(void *context, const struct kc_bench_row *row)
{
  struct session *s = context;
  KC_ASSERT(row->operation != NULL);
  if (s->rows == ROWS_MAX) return;
  s->row[s->rows++] = *row;
  s->failed += row->status != KC_OP_OK;
  if (row->suite == KC_BENCH_STREAM && bandwidth(row) > s->ceiling) s->ceiling = bandwidth(row);
}

/* Time of one layer's matrices at m rows in a format; 0 when one is missing. */
static double layer_us(const struct session *s, const char *operation, const char *format,
                       uint64_t m)
{
  double sum = 0;
  KC_ASSERT(m > 0);
  for (size_t i = 0; i < s->rows; i++) {
    const struct kc_bench_row *r = &s->row[i];
    if (strcmp(r->operation, operation) != 0) continue;
    if (r->suite != KC_BENCH_W4A16 || r->shape.m != m || strcmp(r->format, format) != 0) continue;
    if (r->status != KC_OP_OK) return 0;
    sum += r->cold_us;
  }
  return sum;
}

static void shape_text(const struct kc_bench_shape *shape, char out[SUBJECT_BYTES])
{
  const struct {
    const char *name;
    uint64_t value;
  } part[] = {{"m", shape->m},           {"n", shape->n},
              {"k", shape->k},           {"batch", shape->batch},
              {"tokens", shape->tokens}, {"context", shape->context},
              {"heads", shape->heads},   {"kv", shape->kv_heads},
              {"dim", shape->head_dim},  {"hidden", shape->hidden},
              {"inter", shape->inter},   {"topk", shape->topk},
              {"experts", shape->experts}, {"tp", shape->tp},
              {"entries", shape->entries}};
  size_t used = 0;
  out[0] = '\0';
  for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
    if (part[i].value == 0) continue;
    const int wrote = snprintf(out + used, SUBJECT_BYTES - used, "%s%s=%llu", used > 0 ? " " : "",
                               part[i].name, (unsigned long long)part[i].value);
    KC_ASSERT(wrote > 0 && (size_t)wrote < SUBJECT_BYTES - used);
    used += (size_t)wrote;
  }
}

/* ---- printing ---- */

static void print_ratios(const struct session *s)
{
  static const uint64_t rows[] = {1, 8, 16, 32, 64};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const double plain = layer_us(s, "gemm", "bfloat16", rows[i]);
    const double g128 = layer_us(s, "gemm", "int4_g128", rows[i]);
    const double g32 = layer_us(s, "gemm", "int4_g32", rows[i]);
    if (plain <= 0 || g128 <= 0 || g32 <= 0) continue;
    printf("%sa layer's matrices at m = %-3llu  BF16 %.1f us; INT4 g128 %.2f times as fast, "
           "g32 %.2f\n", s->device.info.emulated ? "EMULATED: " : "",
           (unsigned long long)rows[i], plain, plain / g128, plain / g32);
  }
}

/* Where the way by BF16 begins to pay, beside where the engine begins to take it. */
static void print_routes(const struct session *s)
{
  static const uint64_t rows[] = {64, 128, 192, 256, 320, 512, 1024, 2048};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const double direct = layer_us(s, "gemm", "int4_g128", rows[i]);
    const double dense = layer_us(s, "gemm_dequantised", "int4_g128", rows[i]);
    if (direct <= 0 || dense <= 0) continue;
    printf("%sa layer's matrices at m = %-4llu INT4 g128 %.1f us, by way of BF16 %.1f us; a pass "
           "takes the %s\n", s->device.info.emulated ? "EMULATED: " : "",
           (unsigned long long)rows[i], direct, dense,
           rows[i] >= KC_DENSE_ROWS ? "second" : "first");
  }
}

static void print_table(const struct session *s)
{
  const bool emulated = s->device.info.emulated;
  printf("%s%s, %s\n", emulated ? "EMULATED, no times of a GPU: " : "",
         kc_engine_device_name(&s->device), s->utc);
  printf("%-21s %-9s %-58s %10s %10s %8s %8s %8s\n", "operation", "format", "shape", "cold us",
         "warm us", "GB/s", "ceiling", "TFLOP/s");
  for (size_t i = 0; i < s->rows; i++) {
    const struct kc_bench_row *r = &s->row[i];
    char shape[SUBJECT_BYTES];
    shape_text(&r->shape, shape);
    printf("%-21s %-9s %-58s ", r->operation, r->format, shape);
    if (r->status != KC_OP_OK) {
      printf("could not run (%d)\n", (int)r->status);
      continue;
    }
    printf("%10.2f %10.2f %8.1f %6.1f %% %8.2f\n", r->cold_us, r->warm_us, 1e-3 * bandwidth(r),
           s->ceiling > 0 ? 100 * bandwidth(r) / s->ceiling : 0,
           r->cold_us > 0 ? 1e-6 * r->flops / r->cold_us : 0);
  }
  print_ratios(s);
  print_routes(s);
  printf("%s%zu cases, %zu could not run, %u left out for lack of time; ceiling %.1f GB/s\n",
         emulated ? "EMULATED: " : "", s->rows, s->failed, s->skipped, 1e-3 * s->ceiling);
}

static json_t *row_json(const struct session *s, const struct kc_bench_row *r)
{
  char shape[SUBJECT_BYTES];
  shape_text(&r->shape, shape);
  KC_ASSERT(s->ceiling >= 0);
  return json_pack("{s:s, s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:f}", "operation", r->operation,
                   "format", r->format, "shape", shape, "ran", r->status == KC_OP_OK, "cold_us",
                   r->cold_us, "warm_us", r->warm_us, "gb_per_s", 1e-3 * bandwidth(r),
                   "ceiling_share", s->ceiling > 0 ? bandwidth(r) / s->ceiling : 0.0,
                   "tflop_per_s", r->cold_us > 0 ? 1e-6 * r->flops / r->cold_us : 0.0);
}

static int print_json(const struct session *s)
{
  json_t *rows = json_array();
  for (size_t i = 0; i < s->rows && rows != NULL; i++) {
    if (json_array_append_new(rows, row_json(s, &s->row[i])) == 0) continue;
    json_decref(rows);
    rows = NULL;
  }
  return kc_cli_print_json(json_pack(
      "{s:i, s:o, s:b, s:i, s:i, s:f, s:s, s:I, s:I, s:o}", "schema", BENCH_SCHEMA, "device",
      kc_cli_json_string(kc_engine_device_name(&s->device)), "emulated",
      (int)s->device.info.emulated, "driver", s->device.info.driver_version, "runtime",
      s->device.info.runtime_version, "ceiling_gb_per_s", 1e-3 * s->ceiling, "measured_utc",
      s->utc, "failed", (json_int_t)s->failed, "skipped", (json_int_t)s->skipped, "rows", rows));
}

/* ---- storing ---- */

static enum kc_err store_rows(const struct session *s, struct kc_diag *diag)
{
  const size_t most = 2 * s->rows;
  struct kc_measurement *list = calloc(most + 1, sizeof *list);
  char(*subject)[2 * SUBJECT_BYTES] = calloc(s->rows + 1, sizeof *subject);
  size_t count = 0;
  struct kc_store *store = NULL;
  enum kc_err err = KC_OK;
  if (list == NULL || subject == NULL) err = kc_fail(diag, KC_ERR_MEMORY, "no memory to store");
  for (size_t i = 0; i < s->rows && err == KC_OK; i++) {
    const struct kc_bench_row *r = &s->row[i];
    char shape[SUBJECT_BYTES];
    if (r->status != KC_OP_OK) continue;
    shape_text(&r->shape, shape);
    snprintf(subject[i], sizeof subject[i], "%s %s %s", r->operation, r->format, shape);
    struct kc_measurement m = {.kind = "bench", .subject = subject[i], .metric = "cold",
                               .unit = "us", .value = r->cold_us,
                               .device = kc_engine_device_name(&s->device),
                               .measured_utc = s->utc, .version = KVCAP_VERSION,
                               .emulated = s->device.info.emulated};
    list[count++] = m;
    m.metric = "warm";
    m.value = r->warm_us;
    list[count++] = m;
  }
  KC_ASSERT(count <= most);
  if (err == KC_OK) err = kc_store_open(&store, s->arguments->database, diag);
  if (err == KC_OK) {
    err = kc_store_add_measurements(store, list, count, diag);
    kc_store_close(store);
  }
  free(subject);
  free(list);
  return err;
}

/* ---- the command ---- */

static enum kc_err wanted(const struct kc_option_list *list, uint32_t *out, struct kc_diag *diag)
{
  static const struct {
    const char *name;
    enum kc_bench_suite suite;
  } names[] = {{"stream", KC_BENCH_STREAM},   {"decode", KC_BENCH_DECODE},
               {"latent", KC_BENCH_LATENT},   {"prefill", KC_BENCH_PREFILL},
               {"gemm", KC_BENCH_GEMM},       {"w4a16", KC_BENCH_W4A16},
               {"moe", KC_BENCH_MOE},         {"kv-write", KC_BENCH_KV_WRITE},
               {"tags", KC_BENCH_TAGS}};
  *out = list->count == 0 ? KC_BENCH_ALL : KC_BENCH_STREAM;
  for (size_t i = 0; i < list->count; i++) {
    size_t n = 0;
    while (n < sizeof names / sizeof names[0] && strcmp(names[n].name, list->item[i]) != 0) n++;
    if (n == sizeof names / sizeof names[0]) {
      return kc_fail(diag, KC_ERR_USAGE, "--suite %.40s: expected stream, decode, latent, prefill, "
                     "gemm, w4a16, moe, kv-write or tags", list->item[i]);
    }
    *out |= names[n].suite;
  }
  return KC_OK;
}

static void note_date(char out[32])
{
  struct timespec now;
  struct tm date;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &date);
  strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &date);
}

static enum kc_err measure(struct session *s, struct kc_diag *diag)
{
  const struct arguments *a = s->arguments;
  struct kc_bench_config config = {.runs = a->runs, .tiny = a->tiny, .seconds = 60 * a->minutes,
                                   .on_row = on_row, .context = s};
  KC_TRY(wanted(&a->suites, &config.suites, diag));
  KC_TRY(kc_engine_device_open(&s->device, KC_ENGINE_GPU, diag));
  note_date(s->utc);
  s->row = calloc(ROWS_MAX, sizeof *s->row);
  if (s->row == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the figures");
  config.site = s->device.site;
  KC_TRY(kc_bench_run(&config, &s->skipped, diag));
  const struct kc_bench_csv csv = {.row = s->row, .rows = s->rows, .ceiling = s->ceiling,
                                   .device = kc_engine_device_name(&s->device),
                                   .emulated = s->device.info.emulated, .utc = s->utc};
  if (a->csv_given) KC_TRY(kc_bench_csv_write(&csv, a->csv, diag));
  return a->database_given ? store_rows(s, diag) : KC_OK;
}

int kc_cmd_engine_bench(int argc, char **argv)
{
  struct arguments a = {0};
  struct session s = {.arguments = &a};
  struct kc_diag diag = {0};
  int status = 0;
  const int usage_status = kc_cli_arguments(&usage, &a, argc, argv, NULL, NULL);
  if (usage_status >= 0) return usage_status;
  if (measure(&s, &diag) != KC_OK) status = kc_cli_fail(&diag);
  else if (a.json) status = print_json(&s);
  else print_table(&s);
  free(s.row);
  kc_accelerator_close(&s.device);
  return status != 0 ? status : s.failed > 0;
}
