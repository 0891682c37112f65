/* Rows of a sweep (see sweep_store.h). Around runs: it may allocate. */
#include "sim/plan/sweep_store.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"

enum { SCENARIO_BYTES_MAX = 1 << 20 };

struct kc_known {
  char config_sha256[KC_SHA256_HEX_BYTES];
  int64_t sweep_id;
  uint64_t number;
};

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

/* ---- what is known ---- */

static enum kc_err add_known(void *context, const char *config_sha256, int64_t sweep_id,
                             uint64_t number)
{
  struct kc_sweep_store *out = context;
  if (strlen(config_sha256) != KC_SHA256_HEX_BYTES - 1) return KC_OK; /* not ours */
  if (out->known_count == out->known_room) {
    const size_t room = out->known_room == 0 ? 1024 : out->known_room * 2;
    struct kc_known *grown = realloc(out->known, room * sizeof *grown);
    if (grown == NULL) return KC_ERR_MEMORY;
    out->known = grown;
    out->known_room = room;
  }
  struct kc_known *known = &out->known[out->known_count++];
  KC_ASSERT(out->known_count <= out->known_room);
  memcpy(known->config_sha256, config_sha256, sizeof known->config_sha256);
  known->sweep_id = sweep_id;
  known->number = number;
  return KC_OK;
}

static int by_hash(const void *a, const void *b)
{
  const struct kc_known *x = a, *y = b;
  const int order = memcmp(x->config_sha256, y->config_sha256, sizeof x->config_sha256);
  if (order != 0) return order;
  if (x->sweep_id != y->sweep_id) return x->sweep_id < y->sweep_id ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

/* The first known point of that hash, or NULL. */
static const struct kc_known *find(const struct kc_sweep_store *store, const char *config_sha256)
{
  size_t low = 0, high = store->known_count; /* the answer is in [low, high] */
  KC_ASSERT(strlen(config_sha256) == KC_SHA256_HEX_BYTES - 1);
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (strcmp(store->known[middle].config_sha256, config_sha256) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == store->known_count) return NULL;
  const struct kc_known *known = &store->known[low];
  return strcmp(known->config_sha256, config_sha256) == 0 ? known : NULL;
}

bool kc_sweep_store_knows(void *store, const char *config_sha256, struct kc_point_result *result)
{
  KC_ASSERT(store != NULL && result != NULL);
  result->known = find(store, config_sha256) != NULL;
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
    err = kc_store_each_known(sweep->store, add_known, out, diag);
    if (err == KC_ERR_MEMORY) kc_fail(diag, err, "no memory for the points of the database");
  }
  if (err != KC_OK) {
    kc_sweep_store_close(out);
    return err;
  }
  if (out->known_count > 0) qsort(out->known, out->known_count, sizeof *out->known, by_hash);
  return KC_OK;
}

void kc_sweep_store_close(struct kc_sweep_store *store)
{
  KC_ASSERT(store != NULL);
  free(store->known);
  store->known = NULL;
  store->known_count = store->known_room = 0;
}

/* ---- reading known points ---- */

static void read_status(struct kc_point_result *result, const struct kc_stored_point *point)
{
  result->status = KC_POINT_FAILED;
  KC_ASSERT(point->status != NULL && point->reason != NULL);
  for (int s = KC_POINT_DONE; s <= KC_POINT_FAILED; s++) {
    if (strcmp(kc_point_status_name((enum kc_point_status)s), point->status) == 0) {
      result->status = (enum kc_point_status)s;
    }
  }
  if (result->status == KC_POINT_DONE) return;
  kc_fail(&result->why, result->status == KC_POINT_NO_FIT ? KC_ERR_NO_FIT : KC_ERR_INPUT, "%s",
          point->reason);
}

static void read_trust(struct kc_point_result *result, const struct kc_stored_point *point)
{
  KC_ASSERT(point->trust != NULL);
  result->ran = point->trust[0] != '\0';
  for (int level = KC_LEVEL_CALIBRATED; level <= KC_LEVEL_DATASHEET; level++) {
    if (strcmp(kc_cost_level_name((enum kc_cost_level)level), point->trust) == 0) {
      result->trust.level = (enum kc_cost_level)level;
    }
  }
}

static enum kc_err read_point(void *context, const struct kc_stored_point *point)
{
  struct kc_point_result *result = context;
  struct kc_diag ignored;
  enum kc_figure figure;
  KC_ASSERT(result->known);
  read_status(result, point);
  read_trust(result, point);
  if (strlen(point->result_sha256) == KC_SHA256_HEX_BYTES - 1) {
    memcpy(result->result_sha256, point->result_sha256, sizeof result->result_sha256);
  }
  for (uint32_t i = 0; i < point->figure_count; i++) {
    const struct kc_stored_figure *stored = &point->figure[i];
    if (kc_figure_parse(stored->name, strlen(stored->name), &figure, &ignored) == KC_OK) {
      kc_figure_put(&result->figures, figure, stored->value);
    }
  }
  return KC_OK;
}

/* Fills a known result from the database; `stored` when it is this very row. */
static enum kc_err read_known(struct kc_sweep_store *store, struct kc_finished *finished,
                              struct kc_diag *diag)
{
  struct kc_point_result *result = finished->result;
  const struct kc_known *known = find(store, result->config_sha256);
  KC_ASSERT(known != NULL);
  const struct kc_known *end = store->known + store->known_count;
  for (const struct kc_known *k = known;
       k < end && strcmp(k->config_sha256, result->config_sha256) == 0; k++) {
    if (k->sweep_id != store->sweep_id || k->number != finished->number) continue;
    finished->stored = true;
    known = k;
  }
  return kc_store_each_point(store->sweep->store, known->sweep_id, known->number, read_point,
                             result, diag);
}

/* ---- writing ---- */

/* What a stored point borrows while it is written. */
struct row {
  struct kc_stored_pair set[KC_SWEEP_SETS_MAX];
  struct kc_stored_figure figure[KC_FIGURES];
  char keys[KC_VARY_SETS_MAX][128];
};

/* The point's own changes: keys and values apart. */
static uint32_t fill_sets(const struct kc_sweep *sweep, uint64_t number, struct row *row)
{
  const char *sets[KC_VARY_SETS_MAX];
  const size_t count = kc_vary_sets(sweep->grid, number, sets);
  for (size_t i = 0; i < count; i++) {
    const char *equals = strchr(sets[i], '=');
    KC_ASSERT(equals != NULL);
    const size_t bytes = (size_t)(equals - sets[i]);
    const size_t kept = bytes < sizeof row->keys[i] ? bytes : sizeof row->keys[i] - 1;
    memcpy(row->keys[i], sets[i], kept);
    row->keys[i][kept] = '\0';
    row->set[i] = (struct kc_stored_pair){row->keys[i], equals + 1};
  }
  return (uint32_t)count;
}

static void fill_row(const struct kc_sweep *sweep, const struct kc_finished *finished,
                     struct row *row, struct kc_stored_point *out)
{
  const struct kc_point_result *result = finished->result;
  *out = (struct kc_stored_point){
      .number = finished->number, .status = kc_point_status_name(result->status),
      .reason = result->status == KC_POINT_DONE ? "" : result->why.text,
      .trust = result->ran ? kc_cost_level_name(result->trust.level) : "",
      .config_sha256 = result->config_sha256, .result_sha256 = result->result_sha256,
      .set = row->set, .figure = row->figure};
  out->set_count = fill_sets(sweep, finished->number, row);
  KC_ASSERT(out->set_count > 0);
  for (int f = 0; f < KC_FIGURES; f++) {
    if (!result->figures.known[f]) continue;
    row->figure[out->figure_count++] = (struct kc_stored_figure){
        kc_figure_name((enum kc_figure)f), result->figures.value[f]};
  }
}

enum kc_err kc_sweep_store_write(struct kc_sweep_store *store, struct kc_finished *batch,
                                 size_t count, struct kc_diag *diag)
{
  KC_ASSERT(batch != NULL && count > 0);
  enum kc_err err = KC_OK;
  size_t rows = 0;
  struct row *row = malloc(count * sizeof *row);
  struct kc_stored_point *points = calloc(count, sizeof *points);
  if (row == NULL || points == NULL) {
    err = kc_fail(diag, KC_ERR_MEMORY, "no memory to store a batch of points");
  }
  for (size_t i = 0; err == KC_OK && i < count; i++) {
    if (batch[i].result->known) err = read_known(store, &batch[i], diag);
    if (err != KC_OK || batch[i].stored) continue;
    fill_row(store->sweep, &batch[i], &row[rows], &points[rows]);
    rows++;
  }
  if (err == KC_OK && rows > 0) {
    err = kc_store_points_write(store->sweep->store, store->sweep_id, points, rows, diag);
  }
  free(row);
  free(points);
  return err;
}
