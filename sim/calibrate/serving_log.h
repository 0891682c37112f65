/* What a server was measured to do with a load, request by request, whoever wrote the file.
 *
 *   benchlog      one JSON object a line, stage times on the server's clock (LLMServingSim's bench)
 *   bench-result  `vllm bench serve --save-detailed`, `sglang.bench_serving --output-details`
 *   aiperf        profile_export.jsonl: one JSON object a request, figures with their units
 *
 * Our own engine writes a benchlog too (kc_serving_log_write).
 *
 * The same file read as a trace (traces/) gives the load; this gives the answers. Row i of one is
 * row i of the other: both are in order of arrival, ties in the order of the file.
 */
#ifndef KC_SIM_CALIBRATE_SERVING_LOG_H
#define KC_SIM_CALIBRATE_SERVING_LOG_H

#include "engine/base/diag.h"
#include "engine/instance/instance.h"
#include "sim/metrics/metrics.h"

/* Seconds holding a slot, waiting for want of pages, and of the former the host's. */
struct kc_log_spent {
  double resident_s, kv_wait_s, host_s;
};

struct kc_log_request {
  double arrival_s;   /* from the first one's; 0 when the file has none */
  double ttft_s, e2e_s; /* from arrival */
  double queue_s;     /* waiting before the first token; < 0 = the file does not say */
  bool parted;        /* what its time was spent on is known: the two below */
  struct kc_log_spent first, whole; /* until the first token; until the end */
  uint32_t input_tokens, output_tokens;
  size_t place;       /* in the file, from 0 */
  bool ok;            /* ended well and has both times */
  bool failed;        /* the server did not answer it; a trace of the file flags it, too */
};

/* Why a request has no times. */
enum kc_log_failure {
  KC_LOG_ERROR,     /* the benchmark noted an error */
  KC_LOG_CANCELLED, /* the client gave up */
  KC_LOG_NO_OUTPUT, /* no token came back */
  KC_LOG_NO_TIMES,  /* answered, but nobody measured the first token; not `failed` */
  KC_LOG_FAILURES
};

struct kc_log_sample {
  double time_s, running, waiting; /* from the start of the measurement */
};

enum { KC_LOG_ROWS_MAX = 10000000, KC_LOG_BYTES_MAX = 1 << 30 };

struct kc_serving_log {
  char path[KC_DIAG_PATH_BYTES];
  const char *format;            /* "benchlog", "bench-result", "aiperf" */
  char trust[16];                /* of every figure of it: "measured"; of a run, what that is worth:
                                    "calibrated", "extrapolated", "datasheet", "unknown" */
  bool has_arrivals;
  struct kc_log_request *row;    /* heap */
  size_t count, room;
  size_t in_file;                /* requests of the file; `count` of them are kept */
  size_t failures[KC_LOG_FAILURES]; /* those that are not ok */
  size_t failure_number;         /* the first with an error, from 1 in the file; 0 = none */
  char failure_text[96];         /* its error, as the file has it */
  double *gap_s;                 /* heap: every gap between tokens that the file lists */
  size_t gap_count, gap_room;
  struct kc_log_sample *sample;  /* heap: timeseries.csv beside the file, if there is one */
  size_t sample_count;
};

/* KC_ERR_FILE; KC_ERR_INPUT with the line: no known format, a key that is missing, a time before
 * the one it must follow, a second bench-result, times of an emulated device. `*log` may be freed
 * after an error. */
enum kc_err kc_serving_log_read(struct kc_serving_log *log, const char *path,
                                struct kc_diag *diag);
/* The same of bytes in memory, plain or gzipped, without a series; `path` is for messages. */
enum kc_err kc_serving_log_parse(struct kc_serving_log *log, const char *path, const char *data,
                                 size_t bytes, struct kc_diag *diag);
void kc_serving_log_free(struct kc_serving_log *log);

/* How many requests of the file are not ok, and in words: "12 of 300 requests: 10 with an error
 * (the first is number 17: \"timed out\"), 2 without output". `out` is empty when all are ok. */
enum { KC_LOG_FAILURES_BYTES = 320 };
size_t kc_serving_log_failures(const struct kc_serving_log *log, char out[KC_LOG_FAILURES_BYTES]);

/* Takes the failed rows out, as a trace that drops failed and cancelled requests does. KC_ERR_INPUT
 * when nothing is left that has times. */
enum kc_err kc_serving_log_drop_failed(struct kc_serving_log *log, struct kc_diag *diag);

/* What our own server did with a request. `parted`: the outcome says what its time was spent on. */
struct kc_log_request kc_log_request_of(const struct kc_outcome *outcome, uint32_t input_tokens,
                                        bool parted);

/* A run's outcomes as they end: row i of the trace in row[i]. Borrowed; zeroed by the caller. */
struct kc_log_answers {
  struct kc_log_request *row;
  size_t count;
};
struct kc_recorder kc_log_recorder(struct kc_log_answers *answers);

/* Who answered; stands in every line. */
struct kc_log_origin {
  const char *device, *model;
  bool emulated; /* reading it back is refused: it has no times */
};

/* Writes the rows that are ok, in their order, as a benchlog whose two clocks both begin with the
 * run; *left_out is how many were not. Times are rounded to ns. KC_ERR_FILE, KC_ERR_USAGE as
 * kc_file_create. */
enum kc_err kc_serving_log_write(const struct kc_log_answers *answers,
                                 const struct kc_log_origin *origin, const char *path,
                                 size_t *left_out, struct kc_diag *diag);

/* ---- statistics ---- */

enum kc_log_metric { KC_LOG_TTFT, KC_LOG_TPOT, KC_LOG_ITL, KC_LOG_E2E, KC_LOG_METRICS };
const char *kc_log_metric_name(enum kc_log_metric metric); /* "TTFT" */

/* Seconds; TPOT needs two outputs. False when the request has no such figure (ITL never has). */
bool kc_log_value(const struct kc_log_request *request, enum kc_log_metric metric, double *out);

enum { KC_LOG_FIGURES = 5 }; /* mean, p50, p90, p95, p99 */
extern const char *const kc_log_figure_names[KC_LOG_FIGURES];

/* Of `count` >= 1 values, which it sorts. Nearest rank, or linear between ranks. */
void kc_log_figures(double *values, size_t count, bool linear, double out[KC_LOG_FIGURES]);

#endif
