/* Results in SQLite: one of the recorder's sinks.
 *
 * STRICT tables, WAL, synchronous=FULL, foreign_keys=ON, application_id "kvcp", user_version = the
 * number of migrations applied. A newer file is refused.
 *
 * A run gathers its rows in memory while it goes on, and writes them in one transaction at its end,
 * the run row last: a killed process leaves whole runs or none, and any number of runs may go on at
 * once on one file, because each holds the lock only while it writes.
 */
#ifndef KC_SIM_STORE_STORE_H
#define KC_SIM_STORE_STORE_H

#include "sim/metrics/metrics.h"
#include "sim/replay/replay.h"

#define KC_STORE_APPLICATION_ID 0x6b766370
#define KC_STORE_SCHEMA 7

enum { KC_STORE_ROWS_MAX = 100000000 }; /* of one run, like the requests of a workload */

struct kc_store; /* one connection; one thread */

/* Opens or creates `path`, migrating an older file. Errors KC_ERR_STORE (not a database, from the
 * future, locked for 5 s, read-only, disk full), KC_ERR_FILE. */
enum kc_err kc_store_open(struct kc_store **store, const char *path, struct kc_diag *diag);
/* Opens an existing file for reading only, also one of the schema before this; leaves nothing
 * beside it. */
enum kc_err kc_store_open_read(struct kc_store **store, const char *path, struct kc_diag *diag);
void kc_store_close(struct kc_store *store); /* NULL is fine; rolls back a run left open */

enum kc_request_rows { KC_ROWS_ALL, KC_ROWS_SAMPLED, KC_ROWS_NONE };

/* What is known before the run starts. Strings are borrowed for the call. */
struct kc_run_header {
  const char *name, *scenario_text, *scenario_sha256, *trace_path, *trace_sha256;
  const char *model, *gpu, *version;
  uint64_t seed;
  enum kc_request_rows rows; /* SAMPLED keeps every 1024th request by number */
  bool prefix_cache;
  const char *const *class_name; /* [metrics' groups.config.class_count]; borrowed until the run has
                                    ended; NULL without groups */
  uint32_t page_size;
  uint64_t pages, kv_token_bytes;
  uint64_t weights_bytes, kv_budget_bytes, reserve_bytes, memory_bytes, other_bytes; /* per GPU */
};

/* Machine facts, kept out of byte comparison. */
struct kc_host_facts {
  const char *commit, *started_utc, *machine;
  double host_seconds, events_per_s;
  uint64_t rss_bytes;
};

/* Checks that the file can be written (a lock that somebody holds just now is no obstacle) and
 * keeps a copy of the header. Nothing is written yet and no lock is held. */
enum kc_err kc_store_run_begin(struct kc_store *store, const struct kc_run_header *header,
                               struct kc_diag *diag);
/* Recorder whose on_outcome gathers the rows of `request` and `violation` in memory, at worst about
 * 150 bytes a row. It must be in the run from the first outcome to the last, also when no rows are
 * kept. Its error (KC_ERR_MEMORY, KC_ERR_LIMIT) ends the run: abort then. */
struct kc_recorder kc_store_recorder(struct kc_store *store);
/* What the run's times are worth ("calibrated"), what they rest on ("kernels"), and how much of the
 * step time lay outside what was measured. Between begin and end; left NULL without it. */
enum kc_err kc_store_run_trust(struct kc_store *store, const char *trust, const char *basis,
                               kc_ps outside_ps, struct kc_diag *diag);
/* BEGIN IMMEDIATE, waiting up to 15 s for other writers; the id (*run_id), all rows, the run row
 * last; COMMIT. summary_json is the document that `run --json` prints. On failure the run is rolled
 * back and forgotten. */
enum kc_err kc_store_run_end(struct kc_store *store, const struct kc_metrics *metrics,
                             const struct kc_replay_result *result, const char *summary_json,
                             const struct kc_host_facts *host, int64_t *run_id,
                             struct kc_diag *diag);
/* Forgets the run; rolls back what was written of it. */
void kc_store_run_abort(struct kc_store *store);

/* What an older program stored, and no later one can check. */
struct kc_store_older {
  int64_t runs;   /* in another layout of hash and document: not recomputed */
  int64_t points; /* without a digest of their own */
};

/* integrity_check and foreign keys; the columns of every run row against its histograms and its
 * stored document; where all rows were kept also counts, sums, latencies and the hash again from
 * the rows; every point of a sweep against its digest. Problems are listed (KC_ERR_STORE, or
 * KC_ERR_MEMORY); returns kc_diag_list_result(problems). *older (may be NULL): what was left
 * out. */
enum kc_err kc_store_verify(struct kc_store *store, struct kc_store_older *older,
                            struct kc_diag_list *problems);

/* ---- measurements ---- */

/* One figure that a machine gave: a kernel's time, a model's perplexity. Belongs to no run. Strings
 * are borrowed for the call; when read, they are clean (kc_text_clean), valid during the visit. */
struct kc_measurement {
  const char *kind;         /* what was done: "eval", "bench" */
  const char *subject;      /* to what: "tiny-gqa weights=bf16 kv=fp8-e4m3" */
  const char *metric, *unit;
  double value;             /* finite */
  const char *device;       /* that computed it: "cpu", "NVIDIA H200" */
  const char *measured_utc; /* 2026-01-31T12:00:00Z */
  const char *version;      /* of the program */
  bool emulated;            /* the device was imitated: no times of it mean anything */
};

/* Appends all of them, or none. KC_ERR_STORE. */
enum kc_err kc_store_add_measurements(struct kc_store *store, const struct kc_measurement *list,
                                      size_t count, struct kc_diag *diag);

typedef enum kc_err (*kc_measurement_visitor)(void *context,
                                              const struct kc_measurement *measurement);

/* Calls `visit` for every measurement, oldest first; its error ends the walk and is returned. */
enum kc_err kc_store_each_measurement(struct kc_store *store, kc_measurement_visitor visit,
                                      void *context, struct kc_diag *diag);

/* ---- reading ---- */

/* A run in one line. Strings are valid during the call of the visitor; whatever the file holds,
 * they are UTF-8 without control characters (kc_text_clean). */
struct kc_run_brief {
  int64_t id;
  const char *name, *model, *gpu, *version, *rows_kept, *result_sha256;
  int64_t requests_total, requests_completed, request_rows;
  int64_t output_tokens, output_tok_s_micro;
  kc_ps makespan_ps, ttft_p95_ps, tpot_p95_ps, oom_ps; /* KC_PS_NEVER = none */
};
typedef enum kc_err (*kc_run_visitor)(void *context, const struct kc_run_brief *run);

/* Calls `visit` for every run, oldest first; its error ends the walk and is returned. */
enum kc_err kc_store_each_run(struct kc_store *store, kc_run_visitor visit, void *context,
                              struct kc_diag *diag);

/* Prepares for export: runs `views_sql` (TEMP views that read a TEMP table `chosen`) and fills
 * `chosen` with the given runs in the given order (series 0, 1, ...); `count` 0 is the newest run.
 * Errors KC_ERR_INPUT: a run that is not there, or given twice. */
enum kc_err kc_store_choose(struct kc_store *store, const char *views_sql, const int64_t *run_ids,
                            size_t count, struct kc_diag *diag);

/* The same for a sweep: runs `views_sql` (views that read a TEMP table `chosen_sweep`) and puts the
 * sweep and its two axes there in place of what was chosen before; `across_key` may be "". Errors
 * KC_ERR_INPUT: no such sweep. */
enum kc_err kc_store_choose_sweep(struct kc_store *store, const char *views_sql, int64_t sweep_id,
                                  const char *across_key, const char *load_key,
                                  struct kc_diag *diag);

/* Writes `SELECT * FROM view` as CSV (RFC 4180, header row, '.' as decimal sign) to `path`; *rows
 * (may be NULL) is their number without the header. `view` is a plain name. Errors KC_ERR_FILE. */
enum kc_err kc_store_export_csv(struct kc_store *store, const char *view, const char *path,
                                uint64_t *rows, struct kc_diag *diag);

#endif
