/* kvcap compare: two answers to the same load, request by request.
 *
 *   FILE.db, FILE.db:RUN   a stored run (the newest, or by number)
 *   anything else          a measured log (sim/calibrate/serving_log.h)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/cli/compare_measurements.h"
#include "sim/cli/compare_print.h"
#include "sim/store/store_compare.h"

enum { COMPARE_SCHEMA = 2, COMPARE_LINES = 70 };

struct compare_arguments {
  bool linear, json, seconds, measurements, has_db;
  char db[KC_DIAG_PATH_BYTES];
};

#define FIELD(field) .offset = offsetof(struct compare_arguments, field)

static const struct kc_option options[] = {
  {.key = "linear", .type = KC_OPTION_FLAG, FIELD(linear),
   .help = "percentiles between ranks, as numpy makes them; else nearest rank"},
  {.key = "seconds", .type = KC_OPTION_FLAG, FIELD(seconds),
   .help = "running and waiting requests, second by second"},
  {.key = "measurements", .type = KC_OPTION_FLAG, FIELD(measurements),
   .help = "A and B are databases: their measured kernels, ranks and qualities, side by side"},
  {.key = "db", .type = KC_OPTION_TEXT, FIELD(db),
   .size = sizeof(((struct compare_arguments *)NULL)->db),
   .set_offset = offsetof(struct compare_arguments, has_db), .values = "FILE",
   .help = "keep the figures in the table comparison of this database"},
  {.key = "json", .type = KC_OPTION_FLAG, FIELD(json), .help = "print one JSON document"},
};

static const struct kc_cli_usage usage = {
  .name = "compare",
  .synopsis = "A B [options]",
  .about = "Compares two answers to the same load, request by request: stored runs (FILE.db or\n"
           "FILE.db:RUN) or measured logs (of vllm bench serve, sglang.bench_serving, AIPerf, or\n"
           "a per-request log): by metric, by what carries the difference (queue, KV wait,\n"
           "prefill, decode, host; a log knows the queue at most), the requests that differ most.",
  .options = options,
  .option_count = sizeof options / sizeof options[0],
  .positional_min = 2,
  .positional_max = 2,
  .epilogue = "examples:\n"
              "  kvcap compare requests.jsonl kvcap.db:3 --linear\n"
              "  kvcap compare kvcap.db:1 kvcap.db:2 --json\n"
              "  kvcap compare h200.db h100.db --measurements",
};

/* ---- a side ---- */

static bool is_database(const char *path)
{
  static const char magic[16] = "SQLite format 3";
  char head[sizeof magic] = {0};
  FILE *in = fopen(path, "rb");
  if (in == NULL) return false;
  const size_t got = fread(head, 1, sizeof head, in);
  fclose(in);
  return got == sizeof head && memcmp(head, magic, sizeof magic) == 0;
}

struct loading {
  struct kc_serving_log *log;
  size_t room;
};

static enum kc_err take_request(void *context, const struct kc_stored_request *r,
                                struct kc_diag *diag)
{
  struct loading *l = context;
  KC_ASSERT(l->log != NULL);
  const size_t row = r->outcome.request;
  if (row >= KC_LOG_ROWS_MAX) return kc_fail(diag, KC_ERR_LIMIT, "the run has too many requests");
  if (row >= l->room) {
    size_t room = l->room == 0 ? 1024 : l->room;
    while (room <= row) room *= 2;
    struct kc_log_request *grown = realloc(l->log->row, room * sizeof *grown);
    if (grown == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the requests");
    memset(grown + l->room, 0, (room - l->room) * sizeof *grown);
    l->log->row = grown;
    l->room = room;
  }
  l->log->row[row] = kc_log_request_of(&r->outcome, r->input_tokens, r->parted);
  if (row >= l->log->count) l->log->count = row + 1;
  return KC_OK;
}

static enum kc_err take_sample(void *context, const struct kc_stored_sample *s,
                               struct kc_diag *diag)
{
  struct loading *l = context;
  struct kc_serving_log *log = l->log;
  if (log->sample_count % 256 == 0) {
    void *grown = realloc(log->sample, (log->sample_count + 256) * sizeof log->sample[0]);
    if (grown == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the timeline");
    log->sample = grown;
  }
  log->sample[log->sample_count++] = (struct kc_log_sample){
      (double)s->time_ps / 1e12, (double)s->running, (double)s->waiting};
  return KC_OK;
}

static enum kc_err load_run(struct kc_serving_log *log, const char *path, int64_t run,
                            struct kc_diag *diag)
{
  struct kc_store *store = NULL;
  struct loading loading = {log, 0};
  memset(log, 0, sizeof *log);
  KC_TRY(kc_store_open_read(&store, path, diag));
  enum kc_err err = kc_store_resolve_run(store, &run, log->trust, diag);
  if (err == KC_OK) err = kc_store_each_request(store, run, take_request, &loading, diag);
  if (err == KC_OK) err = kc_store_each_sample(store, run, take_sample, &loading, diag);
  kc_store_close(store);
  snprintf(log->path, sizeof log->path, "%.*s:%lld", (int)(sizeof log->path - 24), path,
           (long long)run);
  log->format = "run";
  log->has_arrivals = true;
  return err;
}

static enum kc_err load_side(struct kc_serving_log *log, const char *text, struct kc_diag *diag)
{
  char path[KC_DIAG_PATH_BYTES];
  uint64_t run = 0;
  memset(log, 0, sizeof *log);
  if (is_database(text)) return load_run(log, text, 0, diag);
  const char *colon = strrchr(text, ':');
  if (!kc_file_exists(text) && colon != NULL && (size_t)(colon - text) < sizeof path) {
    snprintf(path, sizeof path, "%.*s", (int)(colon - text), text);
    if (is_database(path)) {
      if (kc_parse_u64(colon + 1, strlen(colon + 1), &run) && run > 0 && run <= INT64_MAX) {
        return load_run(log, path, (int64_t)run, diag);
      }
      return kc_fail(diag, KC_ERR_USAGE, "\"%.200s\": expected the number of a run after the "
                     "colon; kvcap db info lists them", text);
    }
  }
  return kc_serving_log_read(log, text, diag);
}

/* Rows are joined by position. A run of the log may have left out what failed in it: then the log
 * leaves it out as well. */
static enum kc_err align(struct kc_serving_log *log, const struct kc_serving_log *run,
                         struct kc_diag *diag)
{
  size_t failed = 0;
  for (size_t i = 0; i < log->count; i++) failed += log->row[i].failed;
  KC_ASSERT(failed <= log->count);
  if (failed == 0 || log->count - failed != run->count) return KC_OK;
  return kc_serving_log_drop_failed(log, diag);
}

/* ---- the command ---- */

static enum kc_err keep(const char *db, const struct kc_comparison *c,
                        const struct kc_serving_log *a, const struct kc_serving_log *b,
                        struct kc_diag *diag)
{
  struct kc_stored_comparison line[KC_LOG_METRICS * KC_LOG_FIGURES];
  struct kc_store *store = NULL;
  size_t count = 0;
  int64_t id = 0;
  for (int m = 0; m < KC_LOG_METRICS; m++) {
    for (int k = 0; k < KC_LOG_FIGURES; k++) {
      if (!c->figure[m][k].there) continue;
      line[count++] = (struct kc_stored_comparison){
          kc_log_metric_name((enum kc_log_metric)m), kc_log_figure_names[k], c->figure[m][k].a,
          c->figure[m][k].b};
    }
  }
  KC_TRY(kc_store_open(&store, db, diag));
  const enum kc_err err = kc_store_comparison(store, a->path, b->path, line, count, &id, diag);
  kc_store_close(store);
  if (err == KC_OK) kc_cli_note("kept as comparison %lld of %s", (long long)id, db);
  return err;
}

static int print_text(const struct kc_comparison *c, const struct kc_serving_log *a,
                      const struct kc_serving_log *b, const struct compare_arguments *args)
{
  printf("  a  %s (%s, %zu requests; %s)\n  b  %s (%s, %zu requests; %s)\n"
         "  %zu requests on both sides", a->path, a->format, a->count, a->trust, b->path, b->format,
         b->count, b->trust, c->rows);
  if (c->only_a + c->only_b > 0) {
    printf("; %zu answered by a alone, %zu by b", c->only_a, c->only_b);
  }
  printf("\n\n");
  kc_compare_print_figures(c, "a", a->trust, "b", b->trust);
  kc_compare_print_stages(c, a->trust, b->trust);
  if (args->seconds) kc_compare_print_seconds(a, b, COMPARE_LINES);
  return 0;
}

static int print(const struct kc_comparison *c, const struct kc_serving_log *a,
                 const struct kc_serving_log *b, const struct compare_arguments *args)
{
  if (!args->json) return print_text(c, a, b, args);
  json_t *root = kc_compare_json(c, a, b);
  json_object_set_new(root, "schema", json_integer(COMPARE_SCHEMA));
  return kc_cli_print_json(root);
}

int kc_cmd_compare(int argc, char **argv)
{
  struct compare_arguments args = {0};
  const char *side[2];
  size_t given;
  struct kc_diag diag = {0};
  struct kc_serving_log a = {0}, b = {0};
  struct kc_comparison comparison;
  int status = kc_cli_arguments(&usage, &args, argc, argv, side, &given);
  if (status >= 0) return status;
  KC_ASSERT(given == 2);
  if (args.measurements && (args.linear || args.seconds || args.has_db)) {
    kc_fail(&diag, KC_ERR_USAGE, "--measurements compares no requests; leave out --linear, "
            "--seconds and --db");
    return kc_cli_fail(&diag);
  }
  if (args.measurements) return kc_compare_measurements(side[0], side[1], args.json);
  enum kc_err err = load_side(&a, side[0], &diag);
  if (err == KC_OK) err = load_side(&b, side[1], &diag);
  if (err == KC_OK) err = align(&a, &b, &diag);
  if (err == KC_OK) err = align(&b, &a, &diag);
  if (err == KC_OK) err = kc_compare(&comparison, &a, &b, args.linear, &diag);
  if (err == KC_OK && args.has_db) err = keep(args.db, &comparison, &a, &b, &diag);
  if (err == KC_OK) {
    kc_compare_note_failures(&a, "without an answer to compare");
    kc_compare_note_failures(&b, "without an answer to compare");
  }
  status = err == KC_OK ? print(&comparison, &a, &b, &args) : kc_cli_fail(&diag);
  kc_serving_log_free(&a);
  kc_serving_log_free(&b);
  return status;
}
