/* kvcap db: what is in a results database, and whether it is whole.
 *
 *   kvcap db info FILE          one line a run, one a sweep
 *   kvcap db verify FILE        integrity, orphans, counts, hashes; exit 4 and every problem
 *   kvcap db digest FILE        SHA-256 of every table that says nothing of a machine
 *   kvcap db merge OUT IN...    the sweeps of several files in one
 *
 * All but merge open the file for reading only.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/check.h"
#include "engine/base/number.h"
#include "sim/cli/cli.h"
#include "sim/store/store_sweep.h"

enum { DB_SCHEMA = 1 };

struct db_arguments {
  bool json;
};

static const struct kc_option db_options[] = {
  {.key = "json", .type = KC_OPTION_FLAG, .offset = offsetof(struct db_arguments, json),
   .help = "print one JSON document"},
};

static const struct kc_cli_usage db_usage = {
  .name = "db",
  .synopsis = "info|verify|digest FILE [--json], or: merge OUT IN...",
  .about = "info lists the runs, sweeps and measurements of a results database; verify\n"
           "checks that the file is whole, that its rows belong together and that they still give\n"
           "each run's result_sha256; digest prints a SHA-256 of every table, machine facts\n"
           "apart; merge adds the sweeps of files (the shards of one, say) to OUT, whose rows\n"
           "depend neither on how points were dealt out to the files nor on their order. Runs\n"
           "are not merged.",
  .options = db_options,
  .option_count = sizeof db_options / sizeof db_options[0],
  .positional_min = 2,
  .positional_max = KC_CLI_POSITIONAL_MAX,
  .epilogue = "examples:\n  kvcap db info kvcap.db\n  kvcap db verify kvcap.db\n"
              "  kvcap db merge all.db shard-1.db shard-2.db",
};

/* ---- info ---- */

static json_t *json_scaled(kc_ps time_ps, double ps_per_unit)
{
  return time_ps == KC_PS_NEVER ? json_null() : json_real((double)time_ps / ps_per_unit);
}

static enum kc_err add_run(void *context, const struct kc_run_brief *run)
{
  KC_ASSERT(run->id > 0);
  json_t *row = json_pack(
      "{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:o, s:o}",
      "id", (json_int_t)run->id, "name", run->name, "model", run->model, "gpu", run->gpu,
      "version", run->version, "rows_kept", run->rows_kept, "result_sha256", run->result_sha256,
      "requests_total", (json_int_t)run->requests_total,
      "requests_completed", (json_int_t)run->requests_completed,
      "request_rows", (json_int_t)run->request_rows,
      "output_tokens", (json_int_t)run->output_tokens,
      "output_tok_s", (double)run->output_tok_s_micro / 1e6,
      "makespan_s", (double)run->makespan_ps / (double)KC_PS_PER_S,
      "ttft_p95_ms", json_scaled(run->ttft_p95_ps, (double)KC_PS_PER_MS),
      "tpot_p95_ms", json_scaled(run->tpot_p95_ps, (double)KC_PS_PER_MS),
      "oom_s", json_scaled(run->oom_ps, (double)KC_PS_PER_S));
  return row != NULL && json_array_append_new(context, row) == 0 ? KC_OK : KC_ERR_MEMORY;
}

/* "12.3", or "-" where there is none. */
static void format_ms(char out[24], kc_ps time_ps)
{
  if (time_ps == KC_PS_NEVER) {
    snprintf(out, 24, "-");
  } else {
    snprintf(out, 24, "%.1f", (double)time_ps / (double)KC_PS_PER_MS);
  }
}

/* The name comes last and whole: what tells two runs apart may be at its end. */
static enum kc_err print_run(void *context, const struct kc_run_brief *run)
{
  uint64_t *count = context;
  char ttft[24], tpot[24];
  if (*count == 0) {
    printf("%4s  %-12s %9s %9s %10s %11s %11s  %-3s  %s\n", "run", "gpu", "requests", "completed",
           "tok/s", "TTFT p95 ms", "TPOT p95 ms", "oom", "name");
  }
  *count += 1;
  format_ms(ttft, run->ttft_p95_ps);
  format_ms(tpot, run->tpot_p95_ps);
  printf("%4lld  %-12s %9lld %9lld %10.1f %11s %11s  %-3s  %s\n", (long long)run->id, run->gpu,
         (long long)run->requests_total, (long long)run->requests_completed,
         (double)run->output_tok_s_micro / 1e6, ttft, tpot,
         run->oom_ps == KC_PS_NEVER ? "no" : "yes", run->name);
  return KC_OK;
}

static enum kc_err add_sweep(void *context, const struct kc_sweep_brief *sweep)
{
  KC_ASSERT(sweep->id > 0);
  json_t *row = json_pack("{s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "id",
                          (json_int_t)sweep->id, "name", sweep->name, "sweep_sha256",
                          sweep->sweep_sha256, "points", (json_int_t)sweep->points, "done",
                          (json_int_t)sweep->done, "no_fit", (json_int_t)sweep->no_fit, "refused",
                          (json_int_t)sweep->refused, "failed", (json_int_t)sweep->failed);
  return row != NULL && json_array_append_new(context, row) == 0 ? KC_OK : KC_ERR_MEMORY;
}

static enum kc_err print_sweep(void *context, const struct kc_sweep_brief *sweep)
{
  uint64_t *count = context;
  const int64_t here = sweep->done + sweep->no_fit + sweep->refused + sweep->failed;
  KC_ASSERT(sweep->points > 0);
  if (*count == 0) {
    printf("%5s %9s %9s %9s %9s %9s  %s\n", "sweep", "points", "here", "no fit", "refused",
           "failed", "name");
  }
  *count += 1;
  printf("%5lld %9lld %9lld %9lld %9lld %9lld  %s\n", (long long)sweep->id,
         (long long)sweep->points, (long long)here, (long long)sweep->no_fit,
         (long long)sweep->refused, (long long)sweep->failed, sweep->name);
  return KC_OK;
}

static enum kc_err add_measurement(void *context, const struct kc_measurement *m)
{
  json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:f, s:s, s:s, s:s, s:b}", "kind", m->kind,
                          "subject", m->subject, "metric", m->metric, "unit", m->unit, "value",
                          m->value, "device", m->device, "measured_utc", m->measured_utc,
                          "version", m->version, "emulated", (int)m->emulated);
  return row != NULL && json_array_append_new(context, row) == 0 ? KC_OK : KC_ERR_MEMORY;
}

static enum kc_err print_measurement(void *context, const struct kc_measurement *m)
{
  uint64_t *count = context;
  if (*count == 0) {
    printf("%-8s %14s %-12s %-20s  %s\n", "measured", "value", "unit", "metric", "of");
  }
  *count += 1;
  printf("%-8s %14.6g %-12s %-20s  %s, %s%s, %s\n", m->kind, m->value, m->unit, m->metric,
         m->subject, m->device, m->emulated ? " (emulated)" : "", m->measured_utc);
  return KC_OK;
}

static int info_json(struct kc_store *store)
{
  struct kc_diag diag = {0};
  json_t *runs = json_array(), *sweeps = json_array(), *measurements = json_array();
  enum kc_err err =
      runs == NULL || sweeps == NULL || measurements == NULL ? KC_ERR_MEMORY : KC_OK;
  if (err == KC_OK) err = kc_store_each_run(store, add_run, runs, &diag);
  if (err == KC_OK) err = kc_store_each_sweep(store, add_sweep, sweeps, &diag);
  if (err == KC_OK) err = kc_store_each_measurement(store, add_measurement, measurements, &diag);
  if (err != KC_OK) {
    json_decref(runs);
    json_decref(sweeps);
    json_decref(measurements);
    return err == KC_ERR_MEMORY ? kc_cli_print_json(NULL) : kc_cli_fail(&diag);
  }
  return kc_cli_print_json(json_pack("{s:i, s:i, s:o, s:o, s:o}", "schema", DB_SCHEMA,
                                     "database_schema", KC_STORE_SCHEMA, "runs", runs, "sweeps",
                                     sweeps, "measurements", measurements));
}

static int info(struct kc_store *store, const struct db_arguments *arguments)
{
  if (arguments->json) return info_json(store);
  struct kc_diag diag;
  uint64_t runs = 0, sweeps = 0, measurements = 0;
  if (kc_store_each_run(store, print_run, &runs, &diag) != KC_OK) return kc_cli_fail(&diag);
  if (kc_store_each_sweep(store, print_sweep, &sweeps, &diag) != KC_OK) return kc_cli_fail(&diag);
  if (kc_store_each_measurement(store, print_measurement, &measurements, &diag) != KC_OK) {
    return kc_cli_fail(&diag);
  }
  if (runs == 0 && sweeps == 0 && measurements == 0) printf("no runs\n");
  return 0;
}

/* ---- verify ---- */

static enum kc_err count_run(void *context, const struct kc_run_brief *run)
{
  uint64_t *totals = context;
  totals[0] += 1;
  totals[1] += (uint64_t)run->request_rows;
  return KC_OK;
}

static json_t *problems_json(const struct kc_diag_list *problems)
{
  json_t *list = json_array();
  for (uint32_t i = 0; i < problems->count && i < KC_DIAG_LIST_MAX; i++) {
    json_array_append_new(list, json_string(problems->items[i].text));
  }
  return list;
}

static enum kc_err count_sweep(void *context, const struct kc_sweep_brief *sweep)
{
  uint64_t *totals = context;
  KC_ASSERT(sweep->id > 0);
  totals[2] += 1;
  totals[3] += (uint64_t)(sweep->done + sweep->no_fit + sweep->refused + sweep->failed);
  return KC_OK;
}

/* `totals`: runs and request rows, sweeps and points. */
static int print_verdict(const struct kc_diag_list *problems, const uint64_t totals[4],
                         const struct kc_store_older *older, const char *path,
                         const struct db_arguments *arguments)
{
  KC_ASSERT(problems != NULL);
  if (arguments->json) {
    const int status = kc_cli_print_json(
        json_pack("{s:i, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "schema", DB_SCHEMA, "ok",
                  problems->count == 0, "runs", (json_int_t)totals[0], "request_rows",
                  (json_int_t)totals[1], "sweeps", (json_int_t)totals[2], "points",
                  (json_int_t)totals[3], "older_runs",
                  (json_int_t)older->runs, "older_points", (json_int_t)older->points,
                  "problem_count", (json_int_t)problems->count, "problems",
                  problems_json(problems)));
    if (status != 0) return status;
  }
  if (problems->count > 0) return kc_cli_fail_list(problems);
  if (!arguments->json) {
    printf("%s: intact: %llu run%s, %llu request row%s", path, (unsigned long long)totals[0],
           kc_plural(totals[0]), (unsigned long long)totals[1], kc_plural(totals[1]));
    if (totals[2] > 0) {
      printf(", %llu sweep%s, %llu point%s", (unsigned long long)totals[2], kc_plural(totals[2]),
             (unsigned long long)totals[3], kc_plural(totals[3]));
    }
    putchar('\n');
    if (older->runs > 0) {
      printf("%lld of the runs were stored by an older program; their hashes and documents were "
             "not recomputed\n", (long long)older->runs);
    }
    if (older->points > 0) {
      printf("%lld of the points were stored by an older program, without a digest; whether their "
             "figures were changed cannot be said\n",
             (long long)older->points);
    }
  }
  return 0;
}

static int verify(struct kc_store *store, const char *path, const struct db_arguments *arguments)
{
  struct kc_diag diag;
  struct kc_diag_list problems;
  uint64_t totals[4] = {0};
  struct kc_store_older older = {0};
  if (kc_store_verify(store, &older, &problems) == KC_OK &&
      (kc_store_each_run(store, count_run, totals, &diag) != KC_OK ||
       kc_store_each_sweep(store, count_sweep, totals, &diag) != KC_OK)) {
    return kc_cli_fail(&diag);
  }
  return print_verdict(&problems, totals, &older, path, arguments);
}

/* ---- digest ---- */

static enum kc_err add_table(void *context, const char *table, uint64_t rows, const char *sha256)
{
  KC_ASSERT(table != NULL && sha256 != NULL);
  json_t *row = json_pack("{s:s, s:I, s:s}", "table", table, "rows", (json_int_t)rows, "sha256",
                          sha256);
  return row != NULL && json_array_append_new(context, row) == 0 ? KC_OK : KC_ERR_MEMORY;
}

static enum kc_err print_table(void *context, const char *table, uint64_t rows,
                               const char *sha256)
{
  (void)context;
  KC_ASSERT(table != NULL && sha256 != NULL);
  printf("%s  %-12s %10llu rows\n", sha256, table, (unsigned long long)rows);
  return KC_OK;
}

static int digest(struct kc_store *store, const struct db_arguments *arguments)
{
  struct kc_diag diag = {0};
  KC_ASSERT(store != NULL);
  if (!arguments->json) {
    const enum kc_err err = kc_store_each_table(store, print_table, NULL, &diag);
    return err == KC_OK ? 0 : kc_cli_fail(&diag);
  }
  json_t *tables = json_array();
  const enum kc_err err = kc_store_each_table(store, add_table, tables, &diag);
  if (err != KC_OK) {
    json_decref(tables);
    return err == KC_ERR_MEMORY ? kc_cli_print_json(NULL) : kc_cli_fail(&diag);
  }
  return kc_cli_print_json(json_pack("{s:i, s:o}", "schema", DB_SCHEMA, "tables", tables));
}

/* ---- merge ---- */

/* Runs are not merged, and nothing is silent. */
static void tell_runs(const char *path)
{
  struct kc_store *store = NULL;
  struct kc_diag diag;
  uint64_t totals[2] = {0, 0};
  char name[KC_DIAG_PATH_BYTES];
  if (kc_store_open_read(&store, path, &diag) != KC_OK) return; /* the merge says why */
  const enum kc_err err = kc_store_each_run(store, count_run, totals, &diag);
  kc_store_close(store);
  if (err != KC_OK || totals[0] == 0) return;
  snprintf(name, sizeof name, "%s", path);
  kc_text_clean(name);
  kc_cli_note("%llu run%s of %s stay%s there; only sweeps are merged",
              (unsigned long long)totals[0], kc_plural(totals[0]), name,
              totals[0] == 1 ? "s" : "");
}

static int merge(const char *out, const char *const *from, size_t count)
{
  struct kc_store *store = NULL;
  struct kc_diag diag;
  uint64_t sweeps = 0;
  KC_ASSERT(out != NULL);
  if (count == 0) {
    kc_fail(&diag, KC_ERR_USAGE, "too few arguments; expected: kvcap db merge OUT IN...");
    return kc_cli_fail(&diag);
  }
  for (size_t i = 0; i < count; i++) {
    if (strcmp(from[i], out) != 0) continue;
    kc_fail(&diag, KC_ERR_USAGE, "%s is to be merged into itself; name another OUT", out);
    return kc_cli_fail(&diag);
  }
  for (size_t i = 0; i < count; i++) tell_runs(from[i]);
  const bool made = access(out, F_OK) != 0; /* by this merge, which takes it away if it fails */
  enum kc_err err = kc_store_open(&store, out, &diag);
  if (err == KC_OK) err = kc_store_merge(store, from, count, &diag);
  if (err == KC_OK) err = kc_store_each_sweep(store, print_sweep, &sweeps, &diag);
  kc_store_close(store);
  if (err != KC_OK && made) (void)unlink(out);
  if (err != KC_OK) return kc_cli_fail(&diag);
  if (sweeps == 0) printf("no sweeps\n");
  return 0;
}

/* ---- the command ---- */

/* What is done with one file. */
static int read_file(const char *what, const char *path, const struct db_arguments *arguments)
{
  struct kc_store *store = NULL;
  struct kc_diag diag;
  KC_ASSERT(what != NULL && path != NULL);
  if (kc_store_open_read(&store, path, &diag) != KC_OK) return kc_cli_fail(&diag);
  const int status = strcmp(what, "verify") == 0   ? verify(store, path, arguments)
                     : strcmp(what, "digest") == 0 ? digest(store, arguments)
                                                   : info(store, arguments);
  kc_store_close(store);
  return status;
}

int kc_cmd_db(int argc, char **argv)
{
  KC_ASSERT(argc >= 1);
  struct db_arguments arguments = {0};
  struct kc_diag diag;
  const char *given[KC_CLI_POSITIONAL_MAX];
  size_t count;
  const int status = kc_cli_arguments(&db_usage, &arguments, argc, argv, given, &count);
  if (status >= 0) return status;
  const char *what = given[0];
  if (strcmp(what, "merge") == 0) {
    if (!arguments.json) return merge(given[1], given + 2, count - 2);
    kc_fail(&diag, KC_ERR_USAGE, "--json does not apply to merge; ask `kvcap db info`");
    return kc_cli_fail(&diag);
  }
  if (strcmp(what, "info") != 0 && strcmp(what, "verify") != 0 && strcmp(what, "digest") != 0) {
    kc_fail(&diag, KC_ERR_USAGE, "\"%.32s\" is not something `kvcap db` does; expected info, "
            "verify, digest or merge", what);
    return kc_cli_fail(&diag);
  }
  if (count > 2) {
    kc_fail(&diag, KC_ERR_USAGE, "`kvcap db %s` takes one file", what);
    return kc_cli_fail(&diag);
  }
  return read_file(what, given[1], &arguments);
}
