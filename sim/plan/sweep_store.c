/* Rows of a sweep (see sweep_store.h). Around runs: it may allocate. */
#include "sim/plan/sweep_store.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"

enum { SCENARIO_BYTES_MAX = 1 << 20 };

/* ---- the question's row ---- */

/* All that decides which points there are and what each asks, in one digest. */
static void digest(const struct kc_sweep *sweep, const char *scenario_sha256, const char *sets,
                   const char *axes, char hex[KC_SHA256_HEX_BYTES])
{
  struct kc_sha256 sha;
  const char *const part[] = {scenario_sha256, sets, axes, sweep->bill_only ? "bill" : "run"};
  kc_sha256_init(&sha);
  for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
    KC_ASSERT(part[i] != NULL);
    kc_sha256_update_u64(&sha, strlen(part[i]));
    kc_sha256_update(&sha, part[i], strlen(part[i]));
  }
  kc_sha256_final_hex(&sha, hex);
}

/* The changes of every point, one a line; heap. */
static char *join_sets(const struct kc_sweep *sweep)
{
  size_t bytes = 1, used = 0;
  for (size_t i = 0; i < sweep->set_count; i++) bytes += strlen(sweep->sets[i]) + 1;
  char *text = malloc(bytes);
  if (text == NULL) return NULL;
  for (size_t i = 0; i < sweep->set_count; i++) {
    const size_t length = strlen(sweep->sets[i]);
    memcpy(text + used, sweep->sets[i], length);
    used += length;
    text[used++] = '\n';
  }
  KC_ASSERT(used == bytes - 1);
  text[used] = '\0';
  return text;
}

static enum kc_err begin(struct kc_sweep_store *out, const char *text, size_t bytes,
                         struct kc_diag *diag)
{
  const struct kc_sweep *sweep = out->sweep;
  struct kc_sha256 sha;
  char scenario_sha256[KC_SHA256_HEX_BYTES], sweep_sha256[KC_SHA256_HEX_BYTES];
  char *sets = join_sets(sweep), *axes = kc_vary_text(sweep->grid), *copy = strndup(text, bytes);
  enum kc_err err = KC_ERR_MEMORY;
  kc_sha256_init(&sha);
  kc_sha256_update(&sha, text, bytes);
  kc_sha256_final_hex(&sha, scenario_sha256);
  if (sets == NULL || axes == NULL || copy == NULL) {
    kc_fail(diag, KC_ERR_MEMORY, "no memory for the sweep");
  } else {
    digest(sweep, scenario_sha256, sets, axes, sweep_sha256);
    const struct kc_sweep_header header = {
        .name = sweep->name, .sweep_sha256 = sweep_sha256, .scenario_sha256 = scenario_sha256,
        .scenario_text = copy, .sets = sets, .axes = axes, .points = sweep->grid->points};
    err = kc_store_sweep_begin(sweep->store, &header, &out->sweep_id, diag);
  }
  free(sets);
  free(axes);
  free(copy);
  return err;
}

/* ---- the store ---- */

bool kc_sweep_store_knows(void *store, const char *config_sha256, struct kc_point_result *result)
{
  const struct kc_sweep_store *of = store;
  KC_ASSERT(store != NULL && result != NULL);
  result->known = kc_known_has(&of->known, config_sha256);
  return result->known;
}

enum kc_err kc_sweep_store_open(struct kc_sweep_store *out, const struct kc_sweep *sweep,
                                struct kc_diag *diag)
{
  struct kc_file file;
  KC_ASSERT(sweep->store != NULL);
  *out = (struct kc_sweep_store){.sweep = sweep};
  KC_TRY(kc_file_open(&file, sweep->path, SCENARIO_BYTES_MAX, diag));
  enum kc_err err = begin(out, file.data, file.bytes, diag);
  kc_file_close(&file);
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
