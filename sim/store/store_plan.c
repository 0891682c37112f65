/* Answers of plans (see store_plan.h). */
#include "sim/store/store_plan.h"

#include <math.h>

#include "sim/store/store_internal.h"

static const char writing[] = "storing the answer of a plan";

/* ---- binding; what is bound outlives the step ---- */

static void put_text(sqlite3_stmt *row, int at, const char *text)
{
  const int code = text == NULL ? sqlite3_bind_null(row, at)
                                : sqlite3_bind_text(row, at, text, -1, SQLITE_STATIC);
  KC_ASSERT(code == SQLITE_OK);
}

static void put_count(sqlite3_stmt *row, int at, uint64_t value)
{
  KC_ASSERT(value <= INT64_MAX);
  sqlite3_bind_int64(row, at, (int64_t)value);
}

static void put_point(sqlite3_stmt *row, int at, uint64_t number)
{
  KC_ASSERT(number <= INT64_MAX || number == KC_STORED_POINT_NONE);
  if (number != KC_STORED_POINT_NONE) put_count(row, at, number);
}

static void put_real(sqlite3_stmt *row, int at, bool known, double value)
{
  KC_ASSERT(!known || isfinite(value));
  if (known) sqlite3_bind_double(row, at, value);
}

/* ---- rows ---- */

/* Prepares `sql` with the sweep as its first value, binds with `fill`, runs and drops it. */
static enum kc_err insert(struct kc_store *store, const char *sql, int64_t sweep_id,
                          void (*fill)(sqlite3_stmt *row, const void *of), const void *of,
                          struct kc_diag *diag)
{
  sqlite3_stmt *row = NULL;
  KC_TRY(kc_store_prepare(store, sql, &row, writing, diag));
  sqlite3_bind_int64(row, 1, sweep_id);
  if (fill != NULL) fill(row, of);
  const int code = sqlite3_step(row);
  KC_ASSERT(code != SQLITE_ROW);
  const enum kc_err err = code == SQLITE_DONE ? KC_OK : kc_store_fail(store, code, writing, diag);
  sqlite3_finalize(row);
  return err;
}

static void fill_plan(sqlite3_stmt *row, const void *of)
{
  const struct kc_stored_plan *p = of;
  const bool limited = p->limited_by != NULL;
  KC_ASSERT(p->objective != NULL);
  put_text(row, 2, p->objective);
  put_count(row, 3, p->spare);
  put_real(row, 4, true, p->headroom);
  put_real(row, 5, true, p->lost);
  put_real(row, 6, p->budget_usd_hour > 0, p->budget_usd_hour);
  if (p->gpus_max > 0) put_count(row, 7, p->gpus_max);
  put_point(row, 8, p->winner);
  put_point(row, 9, p->as_bought);
  put_point(row, 10, p->runner_up);
  put_point(row, 11, p->near_miss);
  put_text(row, 12, p->limited_by);
  put_text(row, 13, p->nearest);
  put_real(row, 14, limited, p->prefill_share);
  put_real(row, 15, limited, p->decode_share);
  put_real(row, 16, limited, p->host_share);
  put_real(row, 17, limited, p->idle_share);
  put_real(row, 18, limited, p->memory_share);
  put_text(row, 19, p->command);
  put_text(row, 20, p->command_bought);
  const uint64_t counts[] = {p->combinations, p->no_fit, p->refused, p->candidates, p->runs,
                             p->runs_after, p->by_price, p->by_bound, p->by_twin, p->by_replicas,
                             p->by_faster};
  for (int i = 0; i < 11; i++) put_count(row, 21 + i, counts[i]);
  put_text(row, 32, p->why_no_fit);
  put_text(row, 33, p->why_refused);
}

struct place {
  uint32_t position;
  const void *of;
};

static void fill_requirement(sqlite3_stmt *row, const void *of)
{
  const struct place *place = of;
  const struct kc_stored_requirement *r = place->of;
  KC_ASSERT(r->text != NULL && r->figure != NULL);
  put_count(row, 2, place->position);
  put_text(row, 3, r->text);
  put_text(row, 4, r->figure);
  put_count(row, 5, r->wants_low);
  put_real(row, 6, true, r->limit);
}

static void fill_candidate(sqlite3_stmt *row, const void *of)
{
  const struct kc_stored_candidate *c = ((const struct place *)of)->of;
  KC_ASSERT(c->replicas > 0 && c->excess >= 0);
  put_count(row, 2, c->number);
  put_text(row, 3, c->gpu);
  put_count(row, 4, c->replicas);
  put_count(row, 5, c->gpus_replica);
  put_count(row, 6, c->tensor);
  put_text(row, 7, c->weights);
  put_text(row, 8, c->kv);
  put_count(row, 9, c->page_size);
  put_count(row, 10, c->chunk);
  put_count(row, 11, c->max_running);
  put_count(row, 12, c->gpus);
  put_real(row, 13, c->priced, c->usd_hour);
  put_real(row, 14, true, c->excess);
  if (c->worst >= 0) put_count(row, 15, (uint64_t)c->worst);
}

static void fill_unit(sqlite3_stmt *row, const void *of)
{
  const struct place *place = of;
  const struct kc_stored_unit *u = place->of;
  const bool possible = u->number != KC_STORED_POINT_NONE;
  KC_ASSERT(possible || u->why != NULL);
  put_count(row, 2, place->position);
  put_text(row, 3, u->what);
  put_point(row, 4, u->number);
  put_text(row, 5, possible ? NULL : u->why);
  put_count(row, 6, u->gpus);
  put_real(row, 7, u->priced, u->usd_hour);
  put_real(row, 8, possible, u->excess);
}

/* ---- the answer ---- */

static const char forget[] = "DELETE FROM plan WHERE sweep_id = ?1"; /* the rest goes with it */
static const char add_plan[] =
  "INSERT INTO plan VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16,"
  " ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32,"
  " ?33)";
static const char add_requirement[] =
  "INSERT INTO plan_requirement VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
static const char add_candidate[] =
  "INSERT INTO plan_candidate VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14,"
  " ?15)";
static const char add_unit[] = "INSERT INTO plan_unit VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

static enum kc_err write_answer(struct kc_store *store, int64_t sweep_id,
                                const struct kc_stored_plan *plan, struct kc_diag *diag)
{
  KC_TRY(insert(store, forget, sweep_id, NULL, NULL, diag));
  KC_TRY(insert(store, add_plan, sweep_id, fill_plan, plan, diag));
  for (uint32_t i = 0; i < plan->requirement_count; i++) {
    const struct place place = {i, &plan->requirement[i]};
    KC_TRY(insert(store, add_requirement, sweep_id, fill_requirement, &place, diag));
  }
  for (uint32_t i = 0; i < plan->candidate_count; i++) {
    const struct place place = {i, &plan->candidate[i]};
    KC_TRY(insert(store, add_candidate, sweep_id, fill_candidate, &place, diag));
  }
  for (uint32_t i = 0; i < plan->unit_count; i++) {
    const struct place place = {i, &plan->unit[i]};
    KC_TRY(insert(store, add_unit, sweep_id, fill_unit, &place, diag));
  }
  return KC_OK;
}

enum kc_err kc_store_plan_write(struct kc_store *store, int64_t sweep_id,
                                const struct kc_stored_plan *plan, struct kc_diag *diag)
{
  KC_ASSERT(sweep_id > 0 && plan->objective != NULL);
  KC_TRY(kc_store_begin(store, writing, diag));
  return kc_store_finish(store, write_answer(store, sweep_id, plan, diag), writing, diag);
}

enum kc_err kc_store_plan_forget(struct kc_store *store, int64_t sweep_id, struct kc_diag *diag)
{
  KC_ASSERT(sweep_id > 0);
  KC_TRY(kc_store_begin(store, writing, diag));
  return kc_store_finish(store, insert(store, forget, sweep_id, NULL, NULL, diag), writing, diag);
}
