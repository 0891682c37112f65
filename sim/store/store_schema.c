/* Schema of the results database, as SQL strings; store_open.c applies them. Sweeps are below.
 *
 *   run 1 --- 1 host          machine facts and paths, kept out of comparisons
 *    |
 *    +--- n request           one row per outcome, in the order in which requests ended
 *    +--- n timeline          state at sampled instants
 *    +--- n histogram         non-empty buckets [low_ps, high_ps) per metric
 *    +--- n violation         requests ended by the page-tag check, whatever rows are kept
 *    +--- n run_group         figures of the cold and the warm requests, of each class and tenant
 *
 *   n measurement             figures that machines gave, without a run
 *
 *   sweep 1 --- n point       a question and its answers (store_sweep.h)
 *    +--- 0..1 plan           what a plan concluded from them
 *
 * The row of a run is written last, so children refer to a parent that is not there yet: their
 * foreign keys are deferred to the commit, which then proves that no child is an orphan. Children
 * are WITHOUT ROWID and start their key with run_id: a run is one contiguous range of each tree,
 * written by appending, and the foreign-key search at the insert of the parent is a range scan.
 *
 * Times and durations are picoseconds (_ps), sizes bytes; NULL means "did not happen" or "not
 * covered". The seed is decimal text because SQLite's integers are signed and seeds are not.
 */
#include "sim/store/store_schema.h"

#define STATISTIC(name)                                                         \
  name "_count INTEGER NOT NULL CHECK (" name "_count >= 0),"                   \
  name "_mean_ps INTEGER," name "_p50_ps INTEGER," name "_p90_ps INTEGER,"      \
  name "_p95_ps INTEGER," name "_p99_ps INTEGER," name "_min_ps INTEGER,"       \
  name "_max_ps INTEGER,"

#define RUN_PARENT "run_id INTEGER NOT NULL REFERENCES run(id) DEFERRABLE INITIALLY DEFERRED,"

static const char first_schema[] =
  "CREATE TABLE run ("
  "id INTEGER PRIMARY KEY CHECK (id > 0),"
  "name TEXT NOT NULL, model TEXT NOT NULL, gpu TEXT NOT NULL, version TEXT NOT NULL,"
  "seed TEXT NOT NULL CHECK (seed NOT GLOB '*[^0-9]*'),"
  "scenario_sha256 TEXT NOT NULL, trace_sha256 TEXT,"
  "result_sha256 TEXT NOT NULL CHECK (length(result_sha256) = 64),"
  "rows_kept TEXT NOT NULL CHECK (rows_kept IN ('all', 'sampled', 'none')),"
  "page_size INTEGER NOT NULL, pages INTEGER NOT NULL, kv_token_bytes INTEGER NOT NULL,"
  "memory_bytes INTEGER NOT NULL, weights_bytes INTEGER NOT NULL,"
  "kv_budget_bytes INTEGER NOT NULL, other_bytes INTEGER NOT NULL,"
  "reserve_bytes INTEGER NOT NULL,"
  "requests_total INTEGER NOT NULL, requests_completed INTEGER NOT NULL,"
  "requests_rejected INTEGER NOT NULL, requests_failed INTEGER NOT NULL,"
  "requests_cancelled INTEGER NOT NULL, requests_timed_out INTEGER NOT NULL,"
  "input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,"
  "input_tokens_completed INTEGER NOT NULL, output_tokens_completed INTEGER NOT NULL,"
  STATISTIC("ttft") STATISTIC("tpot") STATISTIC("itl") STATISTIC("e2e")
  "makespan_ps INTEGER NOT NULL, busy_ps INTEGER NOT NULL,"
  "output_tok_s_micro INTEGER NOT NULL,"
  "steps INTEGER NOT NULL, preemptions INTEGER NOT NULL,"
  "tokens_clipped_requests INTEGER NOT NULL,"
  "max_running INTEGER NOT NULL, max_waiting INTEGER NOT NULL,"
  "kv_peak_tokens INTEGER NOT NULL, kv_peak_pages INTEGER NOT NULL,"
  "oom_ps INTEGER, oom_request INTEGER, oom_demand_pages INTEGER,"
  "scenario_text TEXT NOT NULL, summary_json TEXT NOT NULL,"
  "CHECK (requests_total = requests_completed + requests_rejected + requests_failed"
  " + requests_cancelled + requests_timed_out)"
  ") STRICT;"

  "CREATE TABLE host ("
  "run_id INTEGER PRIMARY KEY REFERENCES run(id) DEFERRABLE INITIALLY DEFERRED,"
  "commit_id TEXT, started_utc TEXT, machine TEXT, trace_path TEXT,"
  "host_seconds REAL NOT NULL, events_per_s REAL NOT NULL, rss_bytes INTEGER NOT NULL"
  ") STRICT;"

  "CREATE TABLE request ("
  RUN_PARENT
  "sequence INTEGER NOT NULL," /* 0, 1, ... in the order in which the requests ended */
  "request INTEGER NOT NULL,"  /* number in the trace, from 0 */
  "status TEXT NOT NULL, reason TEXT NOT NULL,"
  "arrival_ps INTEGER NOT NULL, first_token_ps INTEGER, end_ps INTEGER NOT NULL,"
  "resident_ps INTEGER NOT NULL,"
  "input_tokens INTEGER NOT NULL, max_tokens INTEGER NOT NULL,"
  "output_tokens INTEGER NOT NULL, preemptions INTEGER NOT NULL,"
  "PRIMARY KEY (run_id, sequence)"
  ") STRICT, WITHOUT ROWID;"

  "CREATE TABLE timeline ("
  RUN_PARENT
  "number INTEGER NOT NULL, time_ps INTEGER NOT NULL,"
  "running INTEGER NOT NULL, waiting INTEGER NOT NULL,"
  "pages_used INTEGER NOT NULL, held_tokens INTEGER NOT NULL,"
  "PRIMARY KEY (run_id, number)"
  ") STRICT, WITHOUT ROWID;"

  "CREATE TABLE histogram ("
  RUN_PARENT
  "metric TEXT NOT NULL CHECK (metric IN ('ttft', 'tpot', 'itl', 'e2e')),"
  "low_ps INTEGER NOT NULL, high_ps INTEGER NOT NULL, count INTEGER NOT NULL CHECK (count > 0),"
  "PRIMARY KEY (run_id, metric, low_ps)"
  ") STRICT, WITHOUT ROWID;"

  "CREATE TABLE violation ("
  RUN_PARENT
  "sequence INTEGER NOT NULL, request INTEGER NOT NULL, time_ps INTEGER NOT NULL,"
  "output_tokens INTEGER NOT NULL, reason TEXT NOT NULL,"
  "PRIMARY KEY (run_id, sequence)"
  ") STRICT, WITHOUT ROWID;";

/* Prompt caching, classes, tenants. `layout` is that of hash and document (KC_CANONICAL_LAYOUT):
 * runs stored before have 1, and what they lack is 0. */
static const char caching_schema[] =
  "ALTER TABLE run ADD COLUMN layout INTEGER NOT NULL DEFAULT 1;"
  "ALTER TABLE run ADD COLUMN prefix_cache INTEGER NOT NULL DEFAULT 0"
  " CHECK (prefix_cache IN (0, 1));"
  "ALTER TABLE run ADD COLUMN admitted_tokens INTEGER NOT NULL DEFAULT 0;"
  "ALTER TABLE run ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;"
  "ALTER TABLE run ADD COLUMN recached_tokens INTEGER NOT NULL DEFAULT 0;"
  "ALTER TABLE run ADD COLUMN warm_requests INTEGER NOT NULL DEFAULT 0;"
  "ALTER TABLE run ADD COLUMN pages_evicted INTEGER NOT NULL DEFAULT 0;"
  "ALTER TABLE run ADD COLUMN slo_met INTEGER NOT NULL DEFAULT 0;"
  "ALTER TABLE run ADD COLUMN contaminated INTEGER NOT NULL DEFAULT 0;"
  "ALTER TABLE request ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;"
  "ALTER TABLE request ADD COLUMN recached_tokens INTEGER NOT NULL DEFAULT 0;"
  "ALTER TABLE request ADD COLUMN contaminated INTEGER NOT NULL DEFAULT 0;"
  "ALTER TABLE request ADD COLUMN tenant INTEGER NOT NULL DEFAULT 0;"
  "ALTER TABLE request ADD COLUMN class INTEGER NOT NULL DEFAULT 0;"

  "CREATE TABLE run_group ("
  RUN_PARENT
  "kind TEXT NOT NULL CHECK (kind IN ('warmth', 'class', 'tenant')),"
  "number INTEGER NOT NULL, name TEXT NOT NULL,"
  "requests_total INTEGER NOT NULL, requests_completed INTEGER NOT NULL,"
  "requests_rejected INTEGER NOT NULL, requests_failed INTEGER NOT NULL,"
  "requests_cancelled INTEGER NOT NULL, requests_timed_out INTEGER NOT NULL,"
  "input_tokens INTEGER NOT NULL, admitted_tokens INTEGER NOT NULL,"
  "cached_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,"
  "output_tokens_asked INTEGER NOT NULL, slo_met INTEGER NOT NULL,"
  STATISTIC("ttft") STATISTIC("tpot") STATISTIC("e2e")
  "PRIMARY KEY (run_id, kind, number)"
  ") STRICT, WITHOUT ROWID;";

/* What the times of a run are worth; NULL in runs of an earlier program. */
static const char trust_schema[] =
  "ALTER TABLE run ADD COLUMN trust TEXT"
  " CHECK (trust IN ('calibrated', 'extrapolated', 'datasheet'));"
  "ALTER TABLE run ADD COLUMN trust_basis TEXT"
  " CHECK (trust_basis IN ('datasheet', 'kernels', 'serving'));"
  "ALTER TABLE run ADD COLUMN outside_ps INTEGER CHECK (outside_ps >= 0);";

/* Figures that machines gave, outside of any run. Dates and devices are kept, so nothing here is
 * compared byte for byte. */
static const char measurement_schema[] =
  "CREATE TABLE measurement ("
  "id INTEGER PRIMARY KEY CHECK (id > 0),"
  "kind TEXT NOT NULL, subject TEXT NOT NULL, metric TEXT NOT NULL,"
  "value REAL NOT NULL, unit TEXT NOT NULL, device TEXT NOT NULL,"
  "measured_utc TEXT NOT NULL, version TEXT NOT NULL,"
  "emulated INTEGER NOT NULL CHECK (emulated IN (0, 1))"
  ") STRICT;";

/* What a request's time was spent on, beside holding a slot; NULL in runs of an earlier program.
 * Not part of result_sha256. */
static const char spent_schema[] =
  "ALTER TABLE request ADD COLUMN kv_wait_ps INTEGER CHECK (kv_wait_ps >= 0);"
  "ALTER TABLE request ADD COLUMN host_ps INTEGER CHECK (host_ps >= 0);"
  "ALTER TABLE request ADD COLUMN first_resident_ps INTEGER CHECK (first_resident_ps >= 0);"
  "ALTER TABLE request ADD COLUMN first_kv_wait_ps INTEGER CHECK (first_kv_wait_ps >= 0);"
  "ALTER TABLE request ADD COLUMN first_host_ps INTEGER CHECK (first_host_ps >= 0);";

/* Sweeps. Their rows say nothing of machines, threads or dates: the same question gives the same
 * bytes. Rows of a point follow the point's own row, so keys are checked at once. */
static const char sweep_schema[] =
  "CREATE TABLE sweep ("
  "id INTEGER PRIMARY KEY CHECK (id > 0),"
  "name TEXT NOT NULL,"
  "sweep_sha256 TEXT NOT NULL UNIQUE CHECK (length(sweep_sha256) = 64),"
  "scenario_sha256 TEXT NOT NULL, scenario_text TEXT NOT NULL,"
  "sets TEXT NOT NULL, axes TEXT NOT NULL,"
  "points INTEGER NOT NULL CHECK (points > 0)"
  ") STRICT;"

  "CREATE TABLE point ("
  "sweep_id INTEGER NOT NULL REFERENCES sweep(id),"
  "number INTEGER NOT NULL CHECK (number >= 0)," /* from 0, in the order of the nested loops */
  "status TEXT NOT NULL CHECK (status IN ('done', 'no_fit', 'refused', 'failed')),"
  "reason TEXT, trust TEXT, config_sha256 TEXT, result_sha256 TEXT,"
  "PRIMARY KEY (sweep_id, number)"
  ") STRICT, WITHOUT ROWID;"

  "CREATE TABLE point_set ("
  "sweep_id INTEGER NOT NULL, number INTEGER NOT NULL, position INTEGER NOT NULL,"
  "key TEXT NOT NULL, value TEXT NOT NULL,"
  "PRIMARY KEY (sweep_id, number, position),"
  "FOREIGN KEY (sweep_id, number) REFERENCES point(sweep_id, number) ON DELETE CASCADE"
  ") STRICT, WITHOUT ROWID;"

  "CREATE TABLE point_figure ("
  "sweep_id INTEGER NOT NULL, number INTEGER NOT NULL,"
  "figure TEXT NOT NULL, value REAL NOT NULL,"
  "PRIMARY KEY (sweep_id, number, figure),"
  "FOREIGN KEY (sweep_id, number) REFERENCES point(sweep_id, number) ON DELETE CASCADE"
  ") STRICT, WITHOUT ROWID;";

/* A digest of every point, and the answers of plans. The question of a plan is the row of a
 * sweep, what it ran are points; `number` and `winner` to `near_miss` name those. Shares are of
 * 1. */
static const char plan_schema[] =
  "ALTER TABLE point ADD COLUMN point_sha256 TEXT;"

  "CREATE TABLE plan ("
  "sweep_id INTEGER PRIMARY KEY REFERENCES sweep(id),"
  "objective TEXT NOT NULL CHECK (objective IN ('usd', 'gpus', 'goodput', 'output_tok_s')),"
  "spare INTEGER NOT NULL, headroom REAL NOT NULL, lost REAL NOT NULL,"
  "budget_usd_hour REAL, gpus_max INTEGER,"
  "winner INTEGER, as_bought INTEGER, runner_up INTEGER, near_miss INTEGER,"
  "limited_by TEXT, nearest TEXT, prefill_share REAL, decode_share REAL, host_share REAL,"
  "idle_share REAL, memory_share REAL, command TEXT, command_bought TEXT,"
  "combinations INTEGER NOT NULL, no_fit INTEGER NOT NULL, refused INTEGER NOT NULL,"
  "candidates INTEGER NOT NULL, runs INTEGER NOT NULL, runs_after INTEGER NOT NULL,"
  "by_price INTEGER NOT NULL, by_bound INTEGER NOT NULL, by_twin INTEGER NOT NULL,"
  "by_replicas INTEGER NOT NULL, by_faster INTEGER NOT NULL,"
  "why_no_fit TEXT, why_refused TEXT"
  ") STRICT;"

  "CREATE TABLE plan_requirement ("
  "sweep_id INTEGER NOT NULL REFERENCES plan(sweep_id) ON DELETE CASCADE,"
  "position INTEGER NOT NULL, text TEXT NOT NULL, figure TEXT NOT NULL,"
  "wants_low INTEGER NOT NULL CHECK (wants_low IN (0, 1)), limit_value REAL NOT NULL,"
  "PRIMARY KEY (sweep_id, position)"
  ") STRICT, WITHOUT ROWID;"

  /* GPUs and price as bought, spare replicas and all; `replicas` are those that serve. */
  "CREATE TABLE plan_candidate ("
  "sweep_id INTEGER NOT NULL REFERENCES plan(sweep_id) ON DELETE CASCADE,"
  "number INTEGER NOT NULL, gpu TEXT NOT NULL, replicas INTEGER NOT NULL,"
  "gpus_replica INTEGER NOT NULL, tensor INTEGER NOT NULL, weights TEXT NOT NULL,"
  "kv TEXT NOT NULL, page_size INTEGER NOT NULL, chunk INTEGER NOT NULL,"
  "max_running INTEGER NOT NULL, gpus INTEGER NOT NULL, usd_hour REAL,"
  "excess REAL NOT NULL," /* worst figure / its limit; above 1 misses */
  "worst INTEGER,"        /* position of that requirement; NULL: requests were lost, or none ran */
  "PRIMARY KEY (sweep_id, number),"
  "FOREIGN KEY (sweep_id, number) REFERENCES point(sweep_id, number) ON DELETE CASCADE"
  ") STRICT, WITHOUT ROWID;"

  "CREATE TABLE plan_unit ("
  "sweep_id INTEGER NOT NULL REFERENCES plan(sweep_id) ON DELETE CASCADE,"
  "position INTEGER NOT NULL, what TEXT NOT NULL,"
  "number INTEGER, why TEXT," /* its point; or what is in the way of it */
  "gpus INTEGER NOT NULL, usd_hour REAL, excess REAL,"
  "PRIMARY KEY (sweep_id, position)"
  ") STRICT, WITHOUT ROWID;";

const char *const kc_store_migration[KC_STORE_SCHEMA] = {
  first_schema, caching_schema, trust_schema, measurement_schema, spent_schema, sweep_schema,
  plan_schema};

/* Temporary objects come before those of the file where a name is looked up. */
const char kc_store_shim[] =
  "CREATE TEMP VIEW point AS SELECT *, NULL AS point_sha256 FROM main.point;"
  "CREATE TEMP TABLE plan (sweep_id, objective, spare, headroom, lost, budget_usd_hour, gpus_max,"
  " winner, as_bought, runner_up, near_miss, limited_by, nearest, prefill_share, decode_share,"
  " host_share, idle_share, memory_share, command, command_bought, combinations, no_fit, refused,"
  " candidates, runs, runs_after, by_price, by_bound, by_twin, by_replicas, by_faster, why_no_fit,"
  " why_refused);"
  "CREATE TEMP TABLE plan_requirement (sweep_id, position, text, figure, wants_low, limit_value);"
  "CREATE TEMP TABLE plan_candidate (sweep_id, number, gpu, replicas, gpus_replica, tensor,"
  " weights, kv, page_size, chunk, max_running, gpus, usd_hour, excess, worst);"
  "CREATE TEMP TABLE plan_unit (sweep_id, position, what, number, why, gpus, usd_hour, excess)";
