/* Readers of measured requests (see serving_log.h).
 *
 *   text -> first object -> which format -> rows -> sorted by arrival
 *
 * Two clocks in a benchlog: arrival_time counts from 1970, the stages on a monotonic clock. Their
 * distance is taken from the request that was queued soonest after it arrived, so the reading is
 * that one request found the server idle. Keys of AIPerf follow its own documentation of
 * profile_export.jsonl.
 */
#include "sim/calibrate/serving_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/base/number.h"
#include "traces/readers/json_scan.h"

struct reading {
  struct kc_serving_log *log;
  struct kc_diag *diag;
  uint64_t line;
};

static enum kc_err bad(const struct reading *r, const char *key, const char *expected)
{
  return kc_fail_at(r->diag, KC_ERR_INPUT, r->log->path, r->line, 0, "%s: %s", key, expected);
}

static enum kc_err add_row(struct reading *r, const struct kc_log_request *row)
{
  struct kc_serving_log *log = r->log;
  if (log->count >= KC_LOG_ROWS_MAX) {
    return kc_fail_at(r->diag, KC_ERR_LIMIT, log->path, r->line, 0,
                      "more than %d requests; cut the file", KC_LOG_ROWS_MAX);
  }
  if (log->count == log->room) {
    const size_t room = log->room == 0 ? 512 : 2 * log->room;
    struct kc_log_request *grown = realloc(log->row, room * sizeof *grown);
    if (grown == NULL) return kc_fail(r->diag, KC_ERR_MEMORY, "no memory for the requests");
    log->row = grown;
    log->room = room;
  }
  log->row[log->count++] = *row;
  return KC_OK;
}

static enum kc_err add_gap(struct reading *r, double seconds)
{
  struct kc_serving_log *log = r->log;
  if (log->gap_count == log->gap_room) {
    const size_t room = log->gap_room == 0 ? 4096 : 2 * log->gap_room;
    double *grown = realloc(log->gap_s, room * sizeof *grown);
    if (grown == NULL) return kc_fail(r->diag, KC_ERR_MEMORY, "no memory for the token times");
    log->gap_s = grown;
    log->gap_room = room;
  }
  log->gap_s[log->gap_count++] = seconds;
  return KC_OK;
}

static bool as_number(const struct kc_json_value *value, double *out)
{
  return value->kind == KC_JSON_NUMBER && kc_parse_double(value->text, value->bytes, out);
}

static enum kc_err number(const struct reading *r, const struct kc_json_value *object,
                          const char *key, double *out)
{
  struct kc_json_value value;
  if (!kc_json_find(object, key, &value)) return bad(r, key, "is missing");
  return as_number(&value, out) ? KC_OK : bad(r, key, "is not a number");
}

static enum kc_err tokens(const struct reading *r, const char *key, double value, uint32_t *out)
{
  if (!(value >= 0 && value <= 4294967295.0)) return bad(r, key, "is not a number of tokens");
  *out = (uint32_t)value;
  return KC_OK;
}

/* ---- benchlog ---- */

enum { AT_ARRIVAL, AT_QUEUED, AT_SCHEDULED, AT_FIRST, AT_LAST, STAGES };

static enum kc_err benchlog_row(struct reading *r, const struct kc_json_value *object)
{
  static const char *const names[STAGES] = {"arrival_time", "queued_ts", "scheduled_ts",
                                            "first_token_ts", "last_token_ts"};
  double at[STAGES], input, output;
  struct kc_log_request row = {0};
  struct kc_json_value emulated;
  if (kc_json_find(object, "emulated", &emulated) && emulated.kind != KC_JSON_FALSE) {
    return bad(r, "emulated", "the log comes from an emulated device, which has no times; measure "
               "on a GPU");
  }
  for (int i = 0; i < STAGES; i++) KC_TRY(number(r, object, names[i], &at[i]));
  KC_TRY(number(r, object, "input_toks", &input));
  KC_TRY(number(r, object, "output_toks", &output));
  KC_TRY(tokens(r, "input_toks", input, &row.input_tokens));
  KC_TRY(tokens(r, "output_toks", output, &row.output_tokens));
  for (int i = AT_QUEUED; i < AT_LAST; i++) {
    if (at[i + 1] < at[i]) return bad(r, names[i + 1], "lies before the stage that it follows");
  }
  /* Until the clocks are matched (match_clocks), times stand on the server's clock. */
  row.arrival_s = at[AT_ARRIVAL];
  row.queue_s = at[AT_SCHEDULED];
  row.ttft_s = at[AT_FIRST];
  row.e2e_s = at[AT_LAST];
  row.ok = row.output_tokens > 0;
  KC_TRY(add_gap(r, at[AT_QUEUED])); /* taken out again by match_clocks */
  return add_row(r, &row);
}

static void match_clocks(struct kc_serving_log *log)
{
  KC_ASSERT(log->gap_count == log->count && log->count > 0);
  double offset = log->gap_s[0] - log->row[0].arrival_s;
  for (size_t i = 1; i < log->count; i++) {
    const double d = log->gap_s[i] - log->row[i].arrival_s;
    if (d < offset) offset = d;
  }
  for (size_t i = 0; i < log->count; i++) {
    struct kc_log_request *row = &log->row[i];
    const double arrival = row->arrival_s + offset;
    row->queue_s -= arrival;
    row->ttft_s -= arrival;
    row->e2e_s -= arrival;
    KC_ASSERT(row->e2e_s >= 0);
  }
  log->gap_count = 0;
}

/* ---- bench-result ---- */

enum { OF_INPUT, OF_OUTPUT, OF_TTFT, OF_ITLS, OF_START, LISTS };

static enum kc_err sum_gaps(struct reading *r, const struct kc_json_value *list, double *sum)
{
  struct kc_json_cursor cursor;
  struct kc_json_value item;
  double gap;
  *sum = 0;
  if (list->kind != KC_JSON_ARRAY) return bad(r, "itls", "expected one list a request");
  kc_json_open(&cursor, list);
  while (kc_json_next_item(&cursor, &item)) {
    if (!as_number(&item, &gap) || gap < 0) return bad(r, "itls", "holds what is no duration");
    *sum += gap;
    KC_TRY(add_gap(r, gap));
  }
  return cursor.fault == KC_JSON_OK ? KC_OK : bad(r, "itls", kc_json_fault_text(cursor.fault));
}

static enum kc_err result_row(struct reading *r, const struct kc_json_value item[LISTS],
                              bool has_start)
{
  double input, output, gaps = 0;
  struct kc_log_request row = {.queue_s = -1};
  if (!as_number(&item[OF_INPUT], &input) || !as_number(&item[OF_OUTPUT], &output) ||
      !as_number(&item[OF_TTFT], &row.ttft_s)) {
    return bad(r, "input_lens, output_lens, ttfts", "hold what is no number");
  }
  KC_TRY(tokens(r, "input_lens", input, &row.input_tokens));
  KC_TRY(tokens(r, "output_lens", output, &row.output_tokens));
  KC_TRY(sum_gaps(r, &item[OF_ITLS], &gaps));
  if (has_start && !as_number(&item[OF_START], &row.arrival_s)) {
    return bad(r, "start_times", "holds what is no number");
  }
  row.e2e_s = row.ttft_s + gaps;
  row.ok = row.output_tokens > 0 && row.ttft_s > 0;
  return add_row(r, &row);
}

static enum kc_err result_rows(struct reading *r, const struct kc_json_value *object)
{
  static const char *const names[LISTS] = {"input_lens", "output_lens", "ttfts", "itls",
                                           "start_times"};
  struct kc_json_value list, item[LISTS];
  struct kc_json_cursor cursor[LISTS];
  int lists = LISTS;
  for (int i = 0; i < LISTS; i++) {
    const bool there = kc_json_find(object, names[i], &list) && list.kind == KC_JSON_ARRAY;
    if (!there && i == OF_START) {
      lists = OF_START; /* older versions: all arrive at 0 */
      break;
    }
    if (!there) {
      return bad(r, names[i], "is no list; was the benchmark run with --save-detailed (vLLM) or "
                 "--output-details (SGLang)?");
    }
    kc_json_open(&cursor[i], &list);
  }
  r->log->has_arrivals = lists == LISTS;
  while (kc_json_next_item(&cursor[OF_INPUT], &item[OF_INPUT])) {
    for (int i = OF_OUTPUT; i < lists; i++) {
      if (!kc_json_next_item(&cursor[i], &item[i])) {
        return bad(r, names[i], "has fewer entries than input_lens");
      }
    }
    KC_TRY(result_row(r, item, lists == LISTS));
  }
  return cursor[OF_INPUT].fault == KC_JSON_OK
             ? KC_OK : bad(r, "input_lens", kc_json_fault_text(cursor[OF_INPUT].fault));
}

/* ---- aiperf ---- */

/* {"value": 51.2, "unit": "ms"} in seconds; a bare number is milliseconds. */
static enum kc_err duration(const struct reading *r, const struct kc_json_value *metrics,
                            const char *key, double *out)
{
  static const struct { const char *unit; double seconds; } units[] = {
    {"ms", 1e-3}, {"s", 1}, {"sec", 1}, {"us", 1e-6}, {"ns", 1e-9}};
  struct kc_json_value figure, value, unit;
  if (!kc_json_find(metrics, key, &figure)) return bad(r, key, "is missing");
  if (figure.kind == KC_JSON_NUMBER && as_number(&figure, out)) {
    *out *= 1e-3;
    return KC_OK;
  }
  if (figure.kind == KC_JSON_OBJECT && kc_json_find(&figure, "value", &value) &&
      as_number(&value, out) && kc_json_find(&figure, "unit", &unit)) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
      if (!kc_json_is(&unit, units[i].unit)) continue;
      *out *= units[i].seconds;
      return KC_OK;
    }
  }
  return bad(r, key, "expected a value with its unit (ms, s, us, ns)");
}

static enum kc_err count_of(const struct reading *r, const struct kc_json_value *metrics,
                            const char *key, uint32_t *out)
{
  struct kc_json_value figure, value;
  double number_of = 0;
  if (!kc_json_find(metrics, key, &figure)) return bad(r, key, "is missing");
  value = figure;
  if (figure.kind == KC_JSON_OBJECT && !kc_json_find(&figure, "value", &value)) {
    return bad(r, key, "has no value");
  }
  return as_number(&value, &number_of) ? tokens(r, key, number_of, out)
                                       : bad(r, key, "is not a number");
}

static enum kc_err aiperf_row(struct reading *r, const struct kc_json_value *object)
{
  struct kc_json_value metrics, metadata, error;
  struct kc_log_request row = {.queue_s = -1};
  double start;
  if (!kc_json_find(object, "metrics", &metrics) || metrics.kind != KC_JSON_OBJECT) {
    return bad(r, "metrics", "is missing");
  }
  if (!kc_json_find(object, "metadata", &metadata) || metadata.kind != KC_JSON_OBJECT) {
    return bad(r, "metadata", "is missing");
  }
  KC_TRY(number(r, &metadata, "request_start_ns", &start));
  row.arrival_s = start * 1e-9;
  row.ok = !kc_json_find(object, "error", &error) || error.kind == KC_JSON_NULL;
  if (!row.ok) return add_row(r, &row);
  KC_TRY(duration(r, &metrics, "time_to_first_token", &row.ttft_s));
  KC_TRY(duration(r, &metrics, "request_latency", &row.e2e_s));
  KC_TRY(count_of(r, &metrics, "input_sequence_length", &row.input_tokens));
  KC_TRY(count_of(r, &metrics, "output_sequence_length", &row.output_tokens));
  if (row.e2e_s < row.ttft_s) return bad(r, "request_latency", "is less than the first token's");
  return add_row(r, &row);
}

/* ---- any of them ---- */

static enum kc_err choose(struct reading *r, const struct kc_json_value *object)
{
  struct kc_json_value value;
  r->log->has_arrivals = true;
  if (kc_json_find(object, "first_token_ts", &value)) {
    r->log->format = "benchlog";
  } else if (kc_json_find(object, "input_lens", &value)) {
    r->log->format = "bench-result";
  } else if (kc_json_find(object, "metrics", &value)) {
    r->log->format = "aiperf";
  } else {
    return kc_fail_at(r->diag, KC_ERR_INPUT, r->log->path, r->line, 0,
                      "no measured requests: expected a per-request log with first_token_ts, the "
                      "detailed result of vllm bench serve or sglang.bench_serving, or AIPerf's "
                      "profile_export.jsonl");
  }
  return KC_OK;
}

static enum kc_err read_object(struct reading *r, const struct kc_json_value *object)
{
  const bool first = r->log->format == NULL;
  if (object->kind != KC_JSON_OBJECT) return bad(r, "the line", "expected a JSON object");
  if (first) KC_TRY(choose(r, object));
  if (strcmp(r->log->format, "benchlog") == 0) return benchlog_row(r, object);
  if (strcmp(r->log->format, "aiperf") == 0) return aiperf_row(r, object);
  if (first) return result_rows(r, object);
  return kc_fail_at(r->diag, KC_ERR_INPUT, r->log->path, r->line, 0,
                    "another run begins here (a benchmark appends to its file); each has a clock "
                    "of its own: cut the file to one run");
}

static enum kc_err read_text(struct reading *r, const char *text, size_t bytes)
{
  if (bytes == 0) text = ""; /* an empty file has no bytes to point at */
  const char *at = text, *end = text + bytes;
  r->line = 1;
  for (;;) {
    while (at < end && (*at == '\n' || *at == '\r' || *at == ' ' || *at == '\t')) {
      r->line += *at++ == '\n';
    }
    if (at == end) return KC_OK;
    struct kc_json_value object;
    const char *const start = at;
    const enum kc_json_fault fault = kc_json_scan(&at, end, &object);
    if (fault != KC_JSON_OK) return bad(r, "not JSON", kc_json_fault_text(fault));
    KC_TRY(read_object(r, &object));
    for (const char *c = start; c < at; c++) r->line += *c == '\n';
  }
}

static int by_arrival(const void *a, const void *b)
{
  const struct kc_log_request *x = a, *y = b;
  return (x->arrival_s > y->arrival_s) - (x->arrival_s < y->arrival_s);
}

/* Insertion from the back: stable, and logs are nearly sorted already. Long ones that are not go
 * through qsort, ties by position being the order of equal keys in practice rare. */
static void sort_rows(struct kc_serving_log *log)
{
  bool sorted = true;
  for (size_t i = 1; i < log->count; i++) {
    sorted = sorted && log->row[i - 1].arrival_s <= log->row[i].arrival_s;
  }
  if (sorted) return;
  if (log->count > 20000) {
    qsort(log->row, log->count, sizeof log->row[0], by_arrival);
    return;
  }
  for (size_t i = 1; i < log->count; i++) {
    const struct kc_log_request row = log->row[i];
    size_t k = i;
    for (; k > 0 && log->row[k - 1].arrival_s > row.arrival_s; k--) log->row[k] = log->row[k - 1];
    log->row[k] = row;
  }
}

/* ---- the series beside it ---- */

/* "t,...,running,waiting,...": the columns are found by name. A file that is none is no series. */
static void read_series(struct kc_serving_log *log)
{
  char path[KC_DIAG_PATH_BYTES + 16];
  const char *slash = strrchr(log->path, '/');
  const int folder = slash == NULL ? 0 : (int)(slash - log->path + 1);
  snprintf(path, sizeof path, "%.*stimeseries.csv", folder, log->path);
  FILE *in = fopen(path, "r");
  if (in == NULL) return;
  char line[1024];
  int column[3] = {-1, -1, -1};
  static const char *const names[3] = {"t", "running", "waiting"};
  while (fgets(line, sizeof line, in) != NULL && log->sample_count < 1000000) {
    double value[3] = {0, 0, 0};
    bool header = log->sample == NULL;
    int index = 0, found = 0;
    for (char *cell = line; *cell != '\0'; index++) {
      const size_t length = strcspn(cell, ",\r\n");
      for (int k = 0; k < 3; k++) {
        const bool named = strlen(names[k]) == length && memcmp(cell, names[k], length) == 0;
        if (header && named) column[k] = index;
        if (!header && column[k] == index) found += kc_parse_double(cell, length, &value[k]);
      }
      cell += length;
      if (*cell != ',') break;
      cell++;
    }
    if (header && (column[0] < 0 || column[1] < 0 || column[2] < 0)) break;
    if (header || log->sample_count % 256 == 0) {
      void *grown = realloc(log->sample, (log->sample_count + 257) * sizeof log->sample[0]);
      if (grown == NULL) break;
      log->sample = grown;
    }
    if (!header && found == 3) {
      log->sample[log->sample_count++] = (struct kc_log_sample){value[0], value[1], value[2]};
    }
  }
  fclose(in);
}

enum kc_err kc_serving_log_read(struct kc_serving_log *log, const char *path,
                                struct kc_diag *diag)
{
  struct kc_file file;
  KC_ASSERT(log != NULL && path != NULL);
  memset(log, 0, sizeof *log);
  snprintf(log->path, sizeof log->path, "%s", path);
  KC_TRY(kc_file_open(&file, path, KC_LOG_BYTES_MAX, diag));
  struct reading r = {log, diag, 1};
  enum kc_err err = read_text(&r, file.data, file.bytes);
  kc_file_close(&file);
  if (err == KC_OK && log->count == 0) {
    err = kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0, "holds no request; expected a measured log");
  }
  if (err != KC_OK) return err;
  if (strcmp(log->format, "benchlog") == 0) match_clocks(log);
  sort_rows(log);
  const double first = log->row[0].arrival_s;
  for (size_t i = 0; i < log->count; i++) log->row[i].arrival_s -= first;
  read_series(log);
  return KC_OK;
}

void kc_serving_log_free(struct kc_serving_log *log)
{
  KC_ASSERT(log != NULL);
  free(log->row);
  free(log->gap_s);
  free(log->sample);
  memset(log, 0, sizeof *log);
}
