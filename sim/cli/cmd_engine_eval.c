/* kvcap engine eval: what a precision costs in quality, on a text.
 *
 *   checkpoint --quantise--> weights in W  \
 *                                           +--> kc_evaluate --> perplexity, KL to BF16
 *   text in windows --> paged KV in K      /
 *
 * The grid is weights x KV. BF16 with BF16 is computed first whatever is asked for, because the
 * others are compared with it; its logits are kept meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/check.h"
#include "engine/base/digest.h"
#include "engine/base/file.h"
#include "engine/exec/evaluate.h"
#include "sim/cli/cmd_engine.h"
#include "sim/cli/engine_model.h"
#include "sim/cli/run_output.h"

enum { EVAL_SCHEMA = 1, WEIGHTS = 4, KVS = 2, ROWS_MAX = WEIGHTS * KVS, METRICS = 4 };
enum { TEXT_BYTES_MAX = 64 << 20, LOGITS_MAX = 1 << 30 };

struct arguments {
  struct kc_option_list weights, kv;
  char text[KC_DIAG_PATH_BYTES], database[KC_DIAG_PATH_BYTES];
  bool text_given, database_given, json, quality;
  uint32_t window, threads;
  uint64_t bytes;
};

#define FIELD(name) offsetof(struct arguments, name)

static const struct kc_option options[] = {
    {.key = "text", .type = KC_OPTION_TEXT, .offset = FIELD(text),
     .size = sizeof(((struct arguments *)0)->text), .set_offset = FIELD(text_given),
     .values = "FILE",
     .help = "The text, read as bytes; without this option the held-out text of the tiny models."},
    {.key = "weights", .type = KC_OPTION_LIST, .offset = FIELD(weights),
     .values = "bf16|fp8|int4-g32|int4-g128",
     .help = "Hold attention, MLPs and experts in this format; repeatable, default all four."},
    {.key = "kv", .type = KC_OPTION_LIST, .offset = FIELD(kv), .values = "bf16|fp8-e4m3",
     .help = "Keep K and V in this format; repeatable, default both."},
    {.key = "window", .type = KC_OPTION_U32, .offset = FIELD(window), .min = 2, .max = 1 << 20,
     .fallback = "256", .unit = "tokens",
     .help = "The text is cut into sequences of this length."},
    {.key = "bytes", .type = KC_OPTION_U64, .offset = FIELD(bytes), .min = 0,
     .max = TEXT_BYTES_MAX, .fallback = "0", .unit = "bytes",
     .help = "Only so many bytes from the beginning of the text; 0 = all."},
    {.key = "threads", .type = KC_OPTION_U32, .offset = FIELD(threads), .min = 0,
     .max = KC_TEAM_MAX, .fallback = "0", .unit = "threads",
     .help = "Threads that compute; 0 = one for each processor. Figures do not depend on it."},
    {.key = "db", .type = KC_OPTION_TEXT, .offset = FIELD(database),
     .size = sizeof(((struct arguments *)0)->database), .set_offset = FIELD(database_given),
     .values = "FILE", .bare = "kvcap.db",
     .help = "Store the figures as measurements in this database."},
    {.key = "json", .type = KC_OPTION_FLAG, .offset = FIELD(json),
     .help = "Print one JSON document instead of the table."},
    {.key = "quality", .type = KC_OPTION_FLAG, .offset = FIELD(quality),
     .help = "Print the figures as a file of scenarios/quality, for `kvcap precision` to show."},
};

static const struct kc_cli_usage usage = {
    .name = "engine eval",
    .synopsis = "MODEL [options]",
    .about = "Measures how well a model predicts a text in each precision: perplexity, and the\n"
             "mean KL divergence to BF16 in nats a token. Prompts in chunks, then token by token\n"
             "over paged KV, as served. MODEL is a folder with config.json and safetensors whose\n"
             "256 tokens are bytes, or the name of one in scenarios/models.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .positional_min = 1,
    .positional_max = 1,
    .epilogue = "Examples:\n"
                "  kvcap engine eval tiny-gqa\n"
                "  kvcap engine eval scenarios/models/tiny-mla-moe --kv fp8-e4m3 --weights bf16\n"
                "  kvcap engine eval tiny-gqa --text book.txt --db --json\n"};

/* ---- the session ---- */

static const char *const weight_names[WEIGHTS] = {"bf16", "fp8", "int4-g32", "int4-g128"};
static const char *const kv_names[KVS] = {"bf16", "fp8-e4m3"};

struct row {
  uint32_t weights, kv; /* indices of the names */
  uint64_t weight_bytes, kv_token_bytes;
  struct kc_evaluation figures;
};

struct session {
  const struct arguments *arguments;
  char model[KC_DIAG_PATH_BYTES], text[KC_DIAG_PATH_BYTES];
  struct kc_checkpoint checkpoint;
  struct kc_file file;
  uint64_t bytes;
  char sha[KC_SHA256_HEX_BYTES];
  struct kc_team *team;
  uint32_t threads;
  float *logits; /* of BF16 with BF16 */
  struct row base, row[ROWS_MAX];
  uint32_t rows;
  double host_seconds;
};

/* Bit i: names[i] was asked for; all when nothing was. */
static enum kc_err wanted(const struct kc_option_list *list, const char *option,
                          const char *expected, const char *const *names, uint32_t count,
                          uint32_t *bits, struct kc_diag *diag)
{
  KC_ASSERT(count < 32);
  *bits = list->count == 0 ? (UINT32_C(1) << count) - 1 : 0;
  for (size_t i = 0; i < list->count; i++) {
    uint32_t n = 0;
    while (n < count && strcmp(list->item[i], names[n]) != 0) n++;
    if (n == count) {
      return kc_fail(diag, KC_ERR_USAGE, "--%s %.40s: expected one of %s", option, list->item[i],
                     expected);
    }
    *bits |= UINT32_C(1) << n;
  }
  return KC_OK;
}

static enum kc_err open_text(struct session *s, struct kc_diag *diag)
{
  const struct arguments *a = s->arguments;
  struct kc_sha256 sha;
  if (a->text_given) {
    snprintf(s->text, sizeof s->text, "%s", a->text);
  } else {
    KC_TRY(kc_data_find("models", "held-out", ".txt", NULL, s->text, diag));
  }
  KC_TRY(kc_file_open(&s->file, s->text, TEXT_BYTES_MAX, diag));
  s->bytes = a->bytes > 0 && a->bytes < s->file.bytes ? a->bytes : s->file.bytes;
  if (s->bytes < 2) {
    return kc_fail_at(diag, KC_ERR_INPUT, s->text, 0, 0,
                      "a text needs at least 2 bytes: one to begin with, one to predict");
  }
  kc_sha256_init(&sha);
  kc_sha256_update(&sha, s->file.data, s->bytes);
  kc_sha256_final_hex(&sha, s->sha);
  return KC_OK;
}

static enum kc_err open_session(struct session *s, const char *model, struct kc_diag *diag)
{
  const struct arguments *a = s->arguments;
  KC_TRY(kc_engine_checkpoint_open(&s->checkpoint, model, s->model, diag));
  KC_TRY(kc_engine_check_bytes(&s->checkpoint, diag));
  if (a->window > s->checkpoint.recipe.context_max) {
    return kc_fail(diag, KC_ERR_USAGE, "--window %u: the model's context is %llu tokens",
                   a->window, (unsigned long long)s->checkpoint.recipe.context_max);
  }
  KC_TRY(open_text(s, diag));
  const uint64_t cells = kc_evaluate_predictions(s->bytes, a->window) * 256;
  /* Windows are placed by their full length, so the last one takes as much room as the others. */
  const uint64_t room = (s->bytes + a->window - 1) / a->window * (a->window - 1) * 256;
  KC_ASSERT(room >= cells);
  if (room * sizeof *s->logits > LOGITS_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "the logits of %llu bytes of text are kept in memory and "
                   "take more than 1 GiB: use --bytes", (unsigned long long)s->bytes);
  }
  s->logits = malloc(room * sizeof *s->logits);
  if (s->logits == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the logits");
  s->threads = kc_engine_threads(a->threads);
  return kc_team_create(&s->team, s->threads, diag);
}

static void close_session(struct session *s)
{
  free(s->logits);
  if (s->team != NULL) kc_team_destroy(s->team);
  kc_file_close(&s->file);
  kc_checkpoint_close(&s->checkpoint);
}

/* ---- computing ---- */

/* One row of the grid; the base keeps its logits, the others are compared with them. */
static enum kc_err evaluate(struct session *s, struct kc_weights *weights, uint32_t kv,
                            bool is_base, struct row *row, struct kc_diag *diag)
{
  const enum kc_kv_format format = kv == 0 ? KC_KV_BF16 : KC_KV_FP8_E4M3;
  const struct kc_evaluate_config config = {.weights = weights, .kv_format = format,
                                            .text = (const unsigned char *)s->file.data,
                                            .bytes = s->bytes, .window = s->arguments->window,
                                            .team = s->team, .threads = s->threads,
                                            .keep = is_base ? s->logits : NULL,
                                            .against = is_base ? NULL : s->logits};
  KC_ASSERT(kv < KVS);
  KC_TRY(kc_evaluate(&config, &row->figures, diag));
  row->kv = kv;
  row->weight_bytes = weights->weight_bytes;
  const struct kc_cache_config cache = {.k_format = format, .v_format = format, .pages = 1,
                                        .page_tokens = 64};
  row->kv_token_bytes = kc_cache_page_bytes(&s->checkpoint.recipe, &cache) / 64;
  return KC_OK;
}

/* Rows with these weights; those with BF16 weights begin with the base. */
static enum kc_err evaluate_weights(struct session *s, uint32_t which, bool shown, uint32_t kvs,
                                    struct kc_diag *diag)
{
  struct kc_precision precision;
  struct kc_weights weights;
  char text[32];
  kc_precision_default(&precision);
  snprintf(text, sizeof text, "default=%s", weight_names[which]);
  KC_TRY(kc_precision_parse(&precision, text, diag));
  KC_TRY(kc_checkpoint_build(&s->checkpoint, NULL, &precision, s->arguments->window, &weights,
                             diag));
  if (which == 0) kc_engine_note_unused(&s->checkpoint, s->model);
  enum kc_err err = which == 0 ? evaluate(s, &weights, 0, true, &s->base, diag) : KC_OK;
  for (uint32_t kv = 0; kv < KVS && shown && err == KC_OK; kv++) {
    if ((kvs >> kv & 1) == 0) continue;
    struct row *row = &s->row[s->rows++];
    KC_ASSERT(s->rows <= ROWS_MAX);
    if (which == 0 && kv == 0) *row = s->base;
    else err = evaluate(s, &weights, kv, false, row, diag);
    row->weights = which;
  }
  kc_weights_free(&weights);
  return err;
}

static double now_s(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static enum kc_err run_grid(struct session *s, uint32_t weights, uint32_t kvs,
                            struct kc_diag *diag)
{
  const double begin = now_s();
  KC_ASSERT(weights != 0 && kvs != 0);
  for (uint32_t w = 0; w < WEIGHTS; w++) {
    const bool shown = (weights >> w & 1) != 0;
    if (shown || w == 0) KC_TRY(evaluate_weights(s, w, shown, kvs, diag));
  }
  s->host_seconds = now_s() - begin;
  return KC_OK;
}

/* ---- what came of it ---- */

static double ratio(const struct session *s, const struct row *row)
{
  KC_ASSERT(s->base.figures.perplexity > 0);
  return row->figures.perplexity / s->base.figures.perplexity;
}

static void print_table(const struct session *s)
{
  char n[3][32];
  printf("%s: %s parameters, %u layers, %s\n", s->model,
         kc_run_grouped(s->checkpoint.parameters, n[0]), s->checkpoint.recipe.layers,
         s->checkpoint.recipe.mla ? "latent attention" : "grouped attention");
  printf("text: %s bytes of %s in windows of %u, %s predictions\n\n",
         kc_run_grouped(s->bytes, n[0]), s->text, s->arguments->window,
         kc_run_grouped(s->base.figures.predictions, n[1]));
  printf("%-10s %-9s %11s %9s %12s %11s %12s %10s\n", "weights", "KV", "perplexity", "ratio",
         "KL nats/tok", "same token", "weight bytes", "KV B/token");
  for (uint32_t i = 0; i < s->rows; i++) {
    const struct row *r = &s->row[i];
    printf("%-10s %-9s %11.5f %9.5f %12.6f %9.2f %% %12s %10s\n", weight_names[r->weights],
           kv_names[r->kv], r->figures.perplexity, ratio(s, r), r->figures.kl,
           100 * r->figures.same, kc_run_grouped(r->weight_bytes, n[0]),
           kc_run_grouped(r->kv_token_bytes, n[1]));
  }
  const struct kc_evaluation *f = &s->base.figures;
  printf("\nBF16: %s tokens in chunks, %s one by one; %s page-tag checks, %llu violations\n",
         kc_run_grouped(f->chunk_rows, n[0]), kc_run_grouped(f->decode_rows, n[1]),
         kc_run_grouped(f->checks, n[2]), (unsigned long long)f->violations);
}

static json_t *row_json(const struct session *s, const struct row *r)
{
  const struct kc_evaluation *f = &r->figures;
  return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I}", "weights",
                   weight_names[r->weights], "kv", kv_names[r->kv], "perplexity", f->perplexity,
                   "perplexity_ratio", ratio(s, r), "nll_nats", f->nll, "kl_nats", f->kl,
                   "same_token", f->same, "weight_bytes", (json_int_t)r->weight_bytes,
                   "kv_token_bytes", (json_int_t)r->kv_token_bytes, "tag_checks",
                   (json_int_t)f->checks, "tag_entries", (json_int_t)f->entries,
                   "tag_violations", (json_int_t)f->violations);
}

static int print_json(const struct session *s)
{
  json_t *rows = json_array();
  for (uint32_t i = 0; i < s->rows && rows != NULL; i++) {
    if (json_array_append_new(rows, row_json(s, &s->row[i])) == 0) continue;
    json_decref(rows);
    rows = NULL;
  }
  return kc_cli_print_json(json_pack(
      "{s:i, s:o, s:I, s:s, s:{s:o, s:I, s:s}, s:i, s:I, s:o, s:{s:f, s:i}}", "schema",
      EVAL_SCHEMA, "model", kc_cli_json_string(s->model), "parameters",
      (json_int_t)s->checkpoint.parameters, "device", "cpu", "text", "path",
      kc_cli_json_string(s->text), "bytes", (json_int_t)s->bytes, "sha256", s->sha, "window",
      (int)s->arguments->window, "predictions", (json_int_t)s->base.figures.predictions, "rows",
      rows, "host", "seconds", s->host_seconds, "threads", (int)s->threads));
}

/* For planners: what each precision cost this model, as a file of scenarios/quality. */
static void print_quality(const struct session *s)
{
  const char *slash = strrchr(s->text, '/');
  char n[2][32];
  printf("# Made by `kvcap engine eval %s --quality`: perplexity on %s bytes of\n"
         "# %s (sha256 %.16s), in windows of %u, by a model of %s parameters;\n"
         "# with bf16 weights and KV it is %.6f. Quantisation costs a small model more than "
         "a large one.\n",
         s->model, kc_run_grouped(s->bytes, n[0]), slash == NULL ? s->text : slash + 1, s->sha,
         s->arguments->window, kc_run_grouped(s->checkpoint.parameters, n[1]),
         s->base.figures.perplexity);
  printf("quality:\n");
  for (uint32_t i = 0; i < s->rows; i++) {
    const struct row *r = &s->row[i];
    if (r->weights == 0 && r->kv == 0) continue;
    printf("  - {model: any, weights: %s, kv: %s, metric: perplexity, unit: \"%% more\",\n"
           "     better: lower, value: %.4f, base: 0, against: \"bf16 weights and KV\",\n"
           "     source: \"%s, a model of %s parameters: kvcap engine eval %s\"}\n",
           weight_names[r->weights], kv_names[r->kv], 100 * (ratio(s, r) - 1), s->model,
           kc_run_grouped(s->checkpoint.parameters, n[1]), s->model);
  }
}

static enum kc_err store_rows(const struct session *s, struct kc_diag *diag)
{
  struct kc_measurement list[ROWS_MAX * METRICS];
  char subject[ROWS_MAX][KC_DIAG_PATH_BYTES + 96], utc[32];
  size_t count = 0;
  struct timespec now;
  struct tm date;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &date);
  strftime(utc, sizeof utc, "%Y-%m-%dT%H:%M:%SZ", &date);
  for (uint32_t i = 0; i < s->rows; i++) {
    const struct row *r = &s->row[i];
    const struct {
      const char *name, *unit;
      double value;
    } metric[METRICS] = {{"perplexity", "1", r->figures.perplexity},
                         {"perplexity_ratio", "1", ratio(s, r)},
                         {"kl", "nats/token", r->figures.kl},
                         {"same_token", "1", r->figures.same}};
    snprintf(subject[i], sizeof subject[i], "%s weights=%s kv=%s text=%.12s window=%u", s->model,
             weight_names[r->weights], kv_names[r->kv], s->sha, s->arguments->window);
    for (int m = 0; m < METRICS; m++) {
      list[count++] = (struct kc_measurement){
          .kind = "eval", .subject = subject[i], .metric = metric[m].name, .unit = metric[m].unit,
          .value = metric[m].value, .device = "cpu", .measured_utc = utc,
          .version = KVCAP_VERSION};
    }
  }
  struct kc_store *store = NULL;
  KC_TRY(kc_store_open(&store, s->arguments->database, diag));
  const enum kc_err err = kc_store_add_measurements(store, list, count, diag);
  kc_store_close(store);
  return err;
}

/* ---- the command ---- */

int kc_cmd_engine_eval(int argc, char **argv)
{
  struct arguments a = {0};
  struct session s = {.arguments = &a};
  struct kc_diag diag = {0};
  const char *model[1];
  uint32_t weights = 0, kvs = 0;
  const int usage_status = kc_cli_arguments(&usage, &a, argc, argv, model, NULL);
  if (usage_status >= 0) return usage_status;
  enum kc_err err = wanted(&a.weights, "weights", "bf16, fp8, int4-g32, int4-g128", weight_names,
                           WEIGHTS, &weights, &diag);
  if (err == KC_OK) err = wanted(&a.kv, "kv", "bf16, fp8-e4m3", kv_names, KVS, &kvs, &diag);
  if (err == KC_OK) err = open_session(&s, model[0], &diag);
  if (err == KC_OK) err = run_grid(&s, weights, kvs, &diag);
  if (err == KC_OK && a.database_given) err = store_rows(&s, &diag);
  int status = 0;
  if (err != KC_OK) status = kc_cli_fail(&diag);
  else if (a.quality) print_quality(&s);
  else if (a.json) status = print_json(&s);
  else print_table(&s);
  close_session(&s);
  return status;
}
