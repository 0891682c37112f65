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

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/base/number.h"
#include "traces/readers/json_scan.h"
#include "traces/readers/trace_gzip.h"
#include "traces/readers/trace_sniff.h"

#define SECONDS_MAX 9223372.0
#define CLOCK_MAX 1e11 /* seconds of a clock; beyond, a double has no microseconds */
#define TOO_LONG "is longer than 106 days, which is as long as a run can be"

struct reading {
  struct kc_serving_log *log;
  struct kc_diag *diag;
  uint64_t line;
  uint64_t base_ns; /* aiperf: of the first record */
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
  log->row[log->count] = *row;
  log->row[log->count].place = log->count;
  if (row->input_tokens == 0) log->row[log->count].input_tokens = 1; /* as a trace counts it */
  log->count++;
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

/* Notes why `row` has no times. `said`: the error, or NULL. */
static void fail_row(struct reading *r, struct kc_log_request *row, enum kc_log_failure why,
                     const struct kc_json_value *said)
{
  struct kc_serving_log *log = r->log;
  KC_ASSERT((unsigned)why < KC_LOG_FAILURES);
  row->ok = false;
  row->failed = why != KC_LOG_NO_TIMES;
  log->failures[why]++;
  if (why != KC_LOG_ERROR || log->failure_number > 0) return;
  log->failure_number = log->count + 1;
  if (said == NULL) return;
  snprintf(log->failure_text, sizeof log->failure_text, "%.*s",
           said->bytes < sizeof log->failure_text ? (int)said->bytes : 95, said->text);
  kc_text_clean(log->failure_text);
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

/* A run lasts 106 days at most (engine/base/vtime.h), so a time beyond is a mistake of the file. */
static bool too_long(double seconds)
{
  return !(seconds <= SECONDS_MAX);
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
  double at[STAGES] = {0}, input, output;
  struct kc_log_request row = {.ok = true};
  struct kc_json_value emulated;
  if (kc_json_find(object, "emulated", &emulated) && emulated.kind != KC_JSON_FALSE) {
    return bad(r, "emulated", "the log comes from an emulated device, which has no times; measure "
               "on a GPU");
  }
  KC_TRY(number(r, object, names[AT_ARRIVAL], &at[AT_ARRIVAL]));
  for (int i = AT_QUEUED; i < STAGES; i++) {
    struct kc_json_value stage;
    if (kc_json_find(object, names[i], &stage) && stage.kind == KC_JSON_NULL) row.ok = false;
    else KC_TRY(number(r, object, names[i], &at[i]));
  }
  for (int i = 0; i < STAGES; i++) {
    if (!(fabs(at[i]) <= CLOCK_MAX)) return bad(r, names[i], "is no clock in seconds");
  }
  KC_TRY(number(r, object, "input_toks", &input));
  KC_TRY(number(r, object, "output_toks", &output));
  KC_TRY(tokens(r, "input_toks", input, &row.input_tokens));
  KC_TRY(tokens(r, "output_toks", output, &row.output_tokens));
  for (int i = AT_QUEUED; i < AT_LAST && row.ok; i++) {
    if (at[i + 1] < at[i]) return bad(r, names[i + 1], "lies before the stage that it follows");
    if (too_long(at[i + 1] - at[i])) return bad(r, names[i + 1], TOO_LONG);
  }
  /* Until the clocks are matched (match_clocks), times stand on the server's clock. */
  row.arrival_s = at[AT_ARRIVAL];
  row.queue_s = at[AT_SCHEDULED];
  row.ttft_s = at[AT_FIRST];
  row.e2e_s = at[AT_LAST];
  if (row.output_tokens == 0) fail_row(r, &row, KC_LOG_NO_OUTPUT, NULL);
  else if (!row.ok) fail_row(r, &row, KC_LOG_NO_TIMES, NULL);
  KC_TRY(add_gap(r, at[AT_QUEUED])); /* taken out again by match_clocks */
  return add_row(r, &row);
}

static void match_clocks(struct kc_serving_log *log)
{
  KC_ASSERT(log->gap_count == log->count && log->count > 0);
  double offset = INFINITY;
  for (size_t i = 0; i < log->count; i++) {
    const double d = log->gap_s[i] - log->row[i].arrival_s;
    if (log->row[i].ok && d < offset) offset = d;
  }
  for (size_t i = 0; i < log->count; i++) {
    struct kc_log_request *row = &log->row[i];
    const double arrival = row->arrival_s + offset;
    if (!row->ok) continue;
    row->queue_s -= arrival;
    row->ttft_s -= arrival;
    row->e2e_s -= arrival;
    KC_ASSERT(row->e2e_s >= 0);
  }
  log->gap_count = 0;
}

/* ---- bench-result ---- */

enum { OF_INPUT, OF_OUTPUT, OF_TTFT, OF_ITLS, OF_START, OF_ERROR, LISTS };

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

/* A request that failed has 0 tokens and times of 0, or an error beside what came before it. */
static enum kc_err result_row(struct reading *r, const struct kc_json_value item[LISTS],
                              const bool there[LISTS])
{
  double input, output, gaps = 0;
  struct kc_log_request row = {.queue_s = -1, .ok = true};
  KC_ASSERT(there[OF_INPUT] && there[OF_OUTPUT] && there[OF_TTFT]);
  if (!as_number(&item[OF_INPUT], &input) || !as_number(&item[OF_OUTPUT], &output) ||
      !as_number(&item[OF_TTFT], &row.ttft_s)) {
    return bad(r, "input_lens, output_lens, ttfts", "hold what is no number");
  }
  KC_TRY(tokens(r, "input_lens", input, &row.input_tokens));
  KC_TRY(tokens(r, "output_lens", output, &row.output_tokens));
  if (there[OF_START] && (!as_number(&item[OF_START], &row.arrival_s) ||
                          !(fabs(row.arrival_s) <= CLOCK_MAX))) {
    return bad(r, "start_times", "holds what is no number of seconds");
  }
  if (there[OF_ERROR] && item[OF_ERROR].kind == KC_JSON_STRING && item[OF_ERROR].bytes > 0) {
    fail_row(r, &row, KC_LOG_ERROR, &item[OF_ERROR]);
  } else if (row.output_tokens == 0) {
    fail_row(r, &row, KC_LOG_NO_OUTPUT, NULL);
  } else if (row.ttft_s <= 0) {
    fail_row(r, &row, KC_LOG_NO_TIMES, NULL);
  } else {
    KC_TRY(sum_gaps(r, &item[OF_ITLS], &gaps));
  }
  row.e2e_s = row.ttft_s + gaps;
  if (too_long(row.e2e_s)) return bad(r, "ttfts, itls", TOO_LONG);
  return add_row(r, &row);
}

static enum kc_err result_rows(struct reading *r, const struct kc_json_value *object)
{
  static const char *const names[LISTS] = {"input_lens", "output_lens", "ttfts", "itls",
                                           "start_times", "errors"};
  struct kc_json_value list, item[LISTS];
  struct kc_json_cursor cursor[LISTS];
  bool there[LISTS];
  for (int i = 0; i < LISTS; i++) {
    there[i] = kc_json_find(object, names[i], &list) && list.kind == KC_JSON_ARRAY;
    if (there[i]) kc_json_open(&cursor[i], &list);
    if (there[i] || i == OF_START || i == OF_ERROR) continue; /* older versions: all arrive at 0 */
    return bad(r, names[i], "is no list; was the benchmark run with --save-detailed (vLLM) or "
               "--output-details (SGLang)?");
  }
  r->log->has_arrivals = there[OF_START];
  while (kc_json_next_item(&cursor[OF_INPUT], &item[OF_INPUT])) {
    for (int i = OF_OUTPUT; i < LISTS; i++) {
      if (there[i] && !kc_json_next_item(&cursor[i], &item[i])) {
        return bad(r, names[i], "has fewer entries than input_lens");
      }
    }
    KC_TRY(result_row(r, item, there));
  }
  return cursor[OF_INPUT].fault == KC_JSON_OK
             ? KC_OK : bad(r, "input_lens", kc_json_fault_text(cursor[OF_INPUT].fault));
}

/* ---- aiperf ---- */

/* What one of a metric's unit is in seconds; 0 = no unit of time. A bare number is milliseconds. */
static double seconds_of_unit(const struct kc_json_value *figure)
{
  static const struct { const char *unit; double seconds; } units[] = {
    {"ms", 1e-3}, {"s", 1}, {"sec", 1}, {"us", 1e-6}, {"ns", 1e-9}};
  struct kc_json_value unit;
  KC_ASSERT(figure->text != NULL);
  if (figure->kind == KC_JSON_NUMBER) return 1e-3;
  if (figure->kind != KC_JSON_OBJECT || !kc_json_find(figure, "unit", &unit)) return 0;
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    if (kc_json_is(&unit, units[i].unit)) return units[i].seconds;
  }
  return 0;
}

/* {"value": 51.2, "unit": "ms"} in seconds. */
static enum kc_err duration(const struct reading *r, const struct kc_json_value *metrics,
                            const char *key, double *out)
{
  struct kc_json_value figure, value;
  KC_ASSERT(metrics->kind == KC_JSON_OBJECT);
  if (!kc_json_find(metrics, key, &figure)) return bad(r, key, "is missing");
  value = figure;
  const double unit = seconds_of_unit(&figure);
  const bool found = figure.kind != KC_JSON_OBJECT || kc_json_find(&figure, "value", &value);
  if (unit > 0 && found && as_number(&value, out) && *out >= 0) {
    *out *= unit;
    return too_long(*out) ? bad(r, key, TOO_LONG) : KC_OK;
  }
  return bad(r, key, "expected a value of 0 or more with its unit (ms, s, us, ns)");
}

/* The gaps between the chunks of an answer, which a benchmark lists when asked to. */
static enum kc_err chunk_gaps(struct reading *r, const struct kc_json_value *metrics)
{
  static const char key[] = "inter_chunk_latency";
  struct kc_json_value figure, list, item;
  struct kc_json_cursor cursor;
  double gap;
  KC_ASSERT(metrics->kind == KC_JSON_OBJECT);
  if (!kc_json_find(metrics, key, &figure) || figure.kind != KC_JSON_OBJECT ||
      !kc_json_find(&figure, "value", &list) || list.kind != KC_JSON_ARRAY) {
    return KC_OK;
  }
  const double unit = seconds_of_unit(&figure);
  if (unit <= 0) return bad(r, key, "expected a unit (ms, s, us, ns)");
  kc_json_open(&cursor, &list);
  while (kc_json_next_item(&cursor, &item)) {
    if (!as_number(&item, &gap) || gap < 0) return bad(r, key, "holds what is no duration");
    KC_TRY(add_gap(r, gap * unit));
  }
  return cursor.fault == KC_JSON_OK ? KC_OK : bad(r, key, kc_json_fault_text(cursor.fault));
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

static enum kc_err aiperf_answer(struct reading *r, const struct kc_json_value *metrics,
                                 struct kc_log_request *row)
{
  struct kc_json_value first;
  KC_ASSERT(row->ok && !row->failed);
  if (metrics->kind != KC_JSON_OBJECT) return bad(r, "metrics", "is no object");
  KC_TRY(count_of(r, metrics, "input_sequence_length", &row->input_tokens));
  KC_TRY(count_of(r, metrics, "output_sequence_length", &row->output_tokens));
  KC_TRY(duration(r, metrics, "request_latency", &row->e2e_s));
  if (row->output_tokens == 0) {
    fail_row(r, row, KC_LOG_NO_OUTPUT, NULL);
    return KC_OK;
  }
  if (!kc_json_find(metrics, "time_to_first_token", &first) || first.kind == KC_JSON_NULL) {
    fail_row(r, row, KC_LOG_NO_TIMES, NULL); /* the answer was not streamed */
    return KC_OK;
  }
  KC_TRY(duration(r, metrics, "time_to_first_token", &row->ttft_s));
  if (row->e2e_s < row->ttft_s) return bad(r, "request_latency", "is less than the first token's");
  return chunk_gaps(r, metrics);
}

static enum kc_err aiperf_row(struct reading *r, const struct kc_json_value *object)
{
  struct kc_json_value metrics, metadata, value;
  struct kc_log_request row = {.queue_s = -1, .ok = true};
  uint64_t start;
  KC_ASSERT(object->kind == KC_JSON_OBJECT);
  if (!kc_json_find(object, "metrics", &metrics)) return bad(r, "metrics", "is missing");
  if (!kc_json_find(object, "metadata", &metadata) || metadata.kind != KC_JSON_OBJECT) {
    return bad(r, "metadata", "is missing");
  }
  if (!kc_json_find(&metadata, "request_start_ns", &value)) {
    return bad(r, "request_start_ns", "is missing");
  }
  if (value.kind != KC_JSON_NUMBER || kc_json_u64(&value, &start) != KC_JSON_OK ||
      start > INT64_MAX) {
    return bad(r, "request_start_ns", "is not a whole number of ns");
  }
  /* Of 19 digits, more than a double has: counted from the first record's. */
  if (r->log->count == 0) r->base_ns = start;
  row.arrival_s = (double)((int64_t)start - (int64_t)r->base_ns) * 1e-9;
  if (kc_json_find(&metadata, "was_cancelled", &value) && value.kind == KC_JSON_TRUE) {
    fail_row(r, &row, KC_LOG_CANCELLED, NULL);
  } else if (kc_json_find(object, "error", &value) && value.kind != KC_JSON_NULL) {
    struct kc_json_value message = value;
    if (value.kind == KC_JSON_OBJECT && !kc_json_find(&value, "message", &message)) message = value;
    fail_row(r, &row, KC_LOG_ERROR, &message);
  } else {
    KC_TRY(aiperf_answer(r, &metrics, &row));
  }
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
  } else if (kc_json_find(object, "request_throughput", &value)) {
    return kc_fail_at(r->diag, KC_ERR_INPUT, r->log->path, r->line, 0,
                      "holds figures of a whole benchmark and no request; run it with "
                      "--save-detailed (vLLM) or --output-details (SGLang), or give AIPerf's "
                      "profile_export.jsonl");
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
  if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* byte-order mark of UTF-8 */
    text += 3;
    bytes -= 3;
  }
  const char *at = text, *end = text + bytes;
  r->line = 1;
  for (;;) {
    while (at < end && (*at == '\n' || *at == '\r' || *at == ' ' || *at == '\t')) {
      r->line += *at++ == '\n';
    }
    if (at == end) return KC_OK;
    struct kc_json_value object;
    const char *const start = at;
    enum kc_json_fault fault = kc_json_scan(&at, end, &object);
    if (fault == KC_JSON_OK) fault = kc_json_check(&object);
    if (fault != KC_JSON_OK) return bad(r, "not JSON", kc_json_fault_text(fault));
    KC_TRY(read_object(r, &object));
    for (const char *c = start; c < at; c++) r->line += *c == '\n';
  }
}

static int by_arrival(const void *a, const void *b)
{
  const struct kc_log_request *x = a, *y = b;
  if (x->arrival_s != y->arrival_s) return x->arrival_s < y->arrival_s ? -1 : 1;
  return (x->place > y->place) - (x->place < y->place); /* as the trace's rows: ties keep order */
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

enum kc_err kc_serving_log_parse(struct kc_serving_log *log, const char *path, const char *data,
                                 size_t bytes, struct kc_diag *diag)
{
  char *inflated = NULL;
  enum kc_err err = KC_OK;
  KC_ASSERT(log != NULL && path != NULL);
  memset(log, 0, sizeof *log);
  snprintf(log->path, sizeof log->path, "%s", path);
  snprintf(log->trust, sizeof log->trust, "measured");
  struct reading r = {.log = log, .diag = diag, .line = 1};
  if (kc_trace_is_gzip(data, bytes)) {
    err = kc_gzip_whole(data, bytes, KC_LOG_BYTES_MAX, path, &inflated, &bytes, diag);
  }
  const char *text = inflated != NULL ? inflated : data;
  const char *other = err == KC_OK ? kc_trace_sniff(text, bytes) : NULL;
  if (other != NULL) err = kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0, "this is %s", other);
  if (err == KC_OK) err = read_text(&r, text, bytes);
  free(inflated);
  if (err == KC_OK && log->count == 0) {
    err = kc_fail_at(diag, KC_ERR_INPUT, path, 0, 0, "holds no request; expected a measured log");
  }
  if (err != KC_OK) return err;
  log->in_file = log->count;
  if (strcmp(log->format, "benchlog") == 0) match_clocks(log);
  qsort(log->row, log->count, sizeof log->row[0], by_arrival);
  const double first = log->row[0].arrival_s;
  for (size_t i = 0; i < log->count; i++) log->row[i].arrival_s -= first;
  return KC_OK;
}

enum kc_err kc_serving_log_read(struct kc_serving_log *log, const char *path,
                                struct kc_diag *diag)
{
  struct kc_file file;
  memset(log, 0, sizeof *log);
  KC_TRY(kc_file_open(&file, path, KC_LOG_BYTES_MAX, diag));
  const enum kc_err err = kc_serving_log_parse(log, path, file.data, file.bytes, diag);
  kc_file_close(&file);
  if (err == KC_OK) read_series(log);
  return err;
}

/* ---- failures ---- */

size_t kc_serving_log_failures(const struct kc_serving_log *log, char out[KC_LOG_FAILURES_BYTES])
{
  static const char *const words[KC_LOG_FAILURES] = {"with an error", "cancelled",
                                                     "without output",
                                                     "without a time to the first token"};
  const char *const quote = log->failure_text[0] != '\0' ? "\"" : "";
  const size_t size = KC_LOG_FAILURES_BYTES;
  size_t all = 0, used;
  for (int i = 0; i < KC_LOG_FAILURES; i++) all += log->failures[i];
  out[0] = '\0';
  if (all == 0) return 0;
  used = (size_t)snprintf(out, size, "%zu of %zu requests", all, log->in_file);
  const size_t head = used;
  for (int i = 0; i < KC_LOG_FAILURES; i++) {
    if (log->failures[i] == 0) continue;
    used += (size_t)snprintf(out + used, size - used, "%s %zu %s", used == head ? ":" : ",",
                             log->failures[i], words[i]);
    if (i != KC_LOG_ERROR) continue;
    used += (size_t)snprintf(out + used, size - used, " (the first is number %zu%s%s%s%s)",
                             log->failure_number, quote[0] != '\0' ? ": " : "", quote,
                             log->failure_text, quote);
  }
  KC_ASSERT(used < size && all <= log->in_file);
  return all;
}

enum kc_err kc_serving_log_drop_failed(struct kc_serving_log *log, struct kc_diag *diag)
{
  char why[KC_LOG_FAILURES_BYTES];
  size_t kept = 0, timed = 0;
  for (size_t i = 0; i < log->count; i++) timed += log->row[i].ok;
  if (timed == 0) {
    kc_serving_log_failures(log, why);
    return kc_fail_at(diag, KC_ERR_INPUT, log->path, 0, 0, "no request was answered and timed, so "
                      "there is nothing to fit: %s", why);
  }
  for (size_t i = 0; i < log->count; i++) {
    if (!log->row[i].failed) log->row[kept++] = log->row[i];
  }
  KC_ASSERT(kept >= timed);
  log->count = kept;
  const double first = log->row[0].arrival_s;
  for (size_t i = 0; i < kept; i++) log->row[i].arrival_s -= first;
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
