/* Rows of a sweep (see sweep_store.h). Around runs: it may allocate. */
#include "sim/plan/sweep_store.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"

/* ---- the store ---- */

enum kc_err kc_sweep_store_open(struct kc_sweep_store *out, const struct kc_sweep *sweep,
                                struct kc_diag *diag)
{
  KC_ASSERT(sweep->store != NULL);
  *out = (struct kc_sweep_store){.sweep = sweep};
  char *axes = kc_vary_text(sweep->grid);
  if (axes == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the sweep");
  const struct kc_question question = {
      .name = sweep->name, .path = sweep->path, .sets = sweep->sets,
      .set_count = sweep->set_count, .axes = axes, .kind = sweep->bill_only ? "bill" : "run",
      .points = sweep->grid->points};
  enum kc_err err = kc_question_begin(sweep->store, &question, &out->sweep_id, diag);
  free(axes);
  /* A bill is worked out sooner than it is looked up. */
  if (err == KC_OK && !sweep->bill_only) {
    err = kc_known_open(&out->known, sweep->store, diag);
  }
  if (err != KC_OK) kc_sweep_store_close(out);
  return err;
}

void kc_sweep_store_close(struct kc_sweep_store *store)
{
  KC_ASSERT(store != NULL);
  kc_known_close(&store->known);
}

/* ---- writing ---- */

enum kc_err kc_sweep_store_write(struct kc_sweep_store *store, struct kc_finished *batch,
                                 size_t count, struct kc_diag *diag)
{
  KC_ASSERT(batch != NULL && count > 0);
  enum kc_err err = KC_OK;
  size_t rows = 0;
  struct kc_point_row *row = malloc(count * sizeof *row);
  struct kc_stored_point *points = calloc(count, sizeof *points);
  if (row == NULL || points == NULL) {
    err = kc_fail(diag, KC_ERR_MEMORY, "no memory to store a batch of points");
  }
  for (size_t i = 0; err == KC_OK && i < count; i++) {
    if (batch[i].result->known) {
      err = kc_known_read(&store->known, store->sweep_id, batch[i].number, batch[i].result,
                          &batch[i].stored, diag);
    }
    if (err != KC_OK || batch[i].stored) continue;
    const char *sets[KC_VARY_SETS_MAX];
    const size_t own = kc_vary_sets(store->sweep->grid, batch[i].number, sets);
    kc_point_row_fill(&row[rows], batch[i].number, batch[i].result, sets, own, &points[rows]);
    rows++;
  }
  if (err == KC_OK && rows > 0) {
    err = kc_store_points_write(store->sweep->store, store->sweep_id, points, rows, diag);
  }
  free(row);
  free(points);
  return err;
}
