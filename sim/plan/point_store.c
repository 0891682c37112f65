/* Points in the database (see point_store.h). Around runs: it may allocate. */
#include "sim/plan/point_store.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "engine/base/file.h"

enum { SCENARIO_BYTES_MAX = 1 << 20 };

struct kc_known_point {
  char config_sha256[KC_SHA256_HEX_BYTES];
  int64_t sweep_id;
  uint64_t number;
};

/* ---- the question ---- */

/* All that decides which points there are and what each asks, in one digest. */
static void digest(const struct kc_question *question, const char *scenario_sha256,
                   const char *sets, char hex[KC_SHA256_HEX_BYTES])
{
  struct kc_sha256 sha;
  const char *const part[] = {scenario_sha256, sets, question->axes, question->kind};
  kc_sha256_init(&sha);
  for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
    KC_ASSERT(part[i] != NULL);
    kc_sha256_update_u64(&sha, strlen(part[i]));
    kc_sha256_update(&sha, part[i], strlen(part[i]));
  }
  kc_sha256_final_hex(&sha, hex);
}

/* The changes of every point, one a line; heap. */
static char *join_sets(const struct kc_question *question)
{
  size_t bytes = 1, used = 0;
  for (size_t i = 0; i < question->set_count; i++) bytes += strlen(question->sets[i]) + 1;
  char *text = malloc(bytes);
  if (text == NULL) return NULL;
  for (size_t i = 0; i < question->set_count; i++) {
    const size_t length = strlen(question->sets[i]);
    memcpy(text + used, question->sets[i], length);
    used += length;
    text[used++] = '\n';
  }
  KC_ASSERT(used == bytes - 1);
  text[used] = '\0';
  return text;
}

static enum kc_err begin(struct kc_store *store, const struct kc_question *question,
                         const char *text, size_t bytes, int64_t *sweep_id, struct kc_diag *diag)
{
  struct kc_sha256 sha;
  char scenario_sha256[KC_SHA256_HEX_BYTES], sweep_sha256[KC_SHA256_HEX_BYTES];
  char *sets = join_sets(question), *copy = strndup(text, bytes);
  enum kc_err err = KC_ERR_MEMORY;
  kc_sha256_init(&sha);
  kc_sha256_update(&sha, text, bytes);
  kc_sha256_final_hex(&sha, scenario_sha256);
  if (sets == NULL || copy == NULL) {
    kc_fail(diag, KC_ERR_MEMORY, "no memory for the question's row");
  } else {
    digest(question, scenario_sha256, sets, sweep_sha256);
    const struct kc_sweep_header header = {
        .name = question->name, .sweep_sha256 = sweep_sha256, .scenario_sha256 = scenario_sha256,
        .scenario_text = copy, .sets = sets, .axes = question->axes, .points = question->points};
    err = kc_store_sweep_begin(store, &header, sweep_id, diag);
  }
  free(sets);
  free(copy);
  return err;
}

enum kc_err kc_question_begin(struct kc_store *store, const struct kc_question *question,
                              int64_t *sweep_id, struct kc_diag *diag)
{
  struct kc_file file;
  KC_ASSERT(store != NULL && question->axes != NULL);
  KC_TRY(kc_file_open(&file, question->path, SCENARIO_BYTES_MAX, diag));
  const enum kc_err err = begin(store, question, file.data, file.bytes, sweep_id, diag);
  kc_file_close(&file);
  return err;
}

/* ---- what is known ---- */

static enum kc_err add_known(void *context, const char *config_sha256, int64_t sweep_id,
                             uint64_t number)
{
  struct kc_known_points *out = context;
  if (strlen(config_sha256) != KC_SHA256_HEX_BYTES - 1) return KC_OK; /* not ours */
  if (out->count == out->room) {
    const size_t room = out->room == 0 ? 1024 : out->room * 2;
    struct kc_known_point *grown = realloc(out->point, room * sizeof *grown);
    if (grown == NULL) return KC_ERR_MEMORY;
    out->point = grown;
    out->room = room;
  }
  struct kc_known_point *known = &out->point[out->count++];
  KC_ASSERT(out->count <= out->room);
  memcpy(known->config_sha256, config_sha256, sizeof known->config_sha256);
  known->sweep_id = sweep_id;
  known->number = number;
  return KC_OK;
}

static int by_hash(const void *a, const void *b)
{
  const struct kc_known_point *x = a, *y = b;
  const int order = memcmp(x->config_sha256, y->config_sha256, sizeof x->config_sha256);
  if (order != 0) return order;
  if (x->sweep_id != y->sweep_id) return x->sweep_id < y->sweep_id ? -1 : 1;
  return (x->number > y->number) - (x->number < y->number);
}

/* The first known point of that hash, or NULL. */
static const struct kc_known_point *find(const struct kc_known_points *known,
                                         const char *config_sha256)
{
  size_t low = 0, high = known->count; /* the answer is in [low, high] */
  KC_ASSERT(strlen(config_sha256) == KC_SHA256_HEX_BYTES - 1);
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (strcmp(known->point[middle].config_sha256, config_sha256) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == known->count) return NULL;
  const struct kc_known_point *point = &known->point[low];
  return strcmp(point->config_sha256, config_sha256) == 0 ? point : NULL;
}

bool kc_known_answer(void *known, const char *config_sha256, struct kc_point_result *result)
{
  const struct kc_known_points *points = known;
  (void)result; /* kc_known_read fills it, on the thread of the database */
  KC_ASSERT(points->count == 0 || points->point != NULL);
  return find(points, config_sha256) != NULL;
}

enum kc_err kc_known_open(struct kc_known_points *known, struct kc_store *store,
                          struct kc_diag *diag)
{
  KC_ASSERT(store != NULL);
  *known = (struct kc_known_points){.store = store};
  const enum kc_err err = kc_store_each_known(store, add_known, known, diag);
  if (err == KC_ERR_MEMORY) kc_fail(diag, err, "no memory for the points of the database");
  if (err != KC_OK) {
    kc_known_close(known);
    return err;
  }
  if (known->count > 0) qsort(known->point, known->count, sizeof *known->point, by_hash);
  return KC_OK;
}

void kc_known_close(struct kc_known_points *known)
{
  KC_ASSERT(known != NULL);
  free(known->point);
  known->point = NULL;
  known->count = known->room = 0;
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

enum kc_err kc_known_read(const struct kc_known_points *known, int64_t sweep_id, uint64_t number,
                          struct kc_point_result *result, bool *own, struct kc_diag *diag)
{
  const struct kc_known_point *point = find(known, result->config_sha256);
  KC_ASSERT(point != NULL);
  const struct kc_known_point *end = known->point + known->count;
  for (const struct kc_known_point *k = point;
       k < end && strcmp(k->config_sha256, result->config_sha256) == 0; k++) {
    if (k->sweep_id != sweep_id || k->number != number) continue;
    if (own != NULL) *own = true;
    point = k;
  }
  return kc_store_each_point(known->store, point->sweep_id, point->number, read_point, result,
                             diag);
}

/* ---- the row of a point ---- */

void kc_point_row_fill(struct kc_point_row *row, uint64_t number,
                       const struct kc_point_result *result, const char *const *sets,
                       size_t set_count, struct kc_stored_point *out)
{
  KC_ASSERT(set_count <= KC_POINT_ROW_SETS_MAX);
  *out = (struct kc_stored_point){
      .number = number, .status = kc_point_status_name(result->status),
      .reason = result->status == KC_POINT_DONE ? "" : result->why.text,
      .trust = result->ran ? kc_cost_level_name(result->trust.level) : "",
      .config_sha256 = result->config_sha256, .result_sha256 = result->result_sha256,
      .set_count = (uint32_t)set_count, .set = row->set, .figure = row->figure};
  for (size_t i = 0; i < set_count; i++) { /* keys and values apart */
    const char *equals = strchr(sets[i], '=');
    KC_ASSERT(equals != NULL);
    const size_t bytes = (size_t)(equals - sets[i]);
    const size_t kept = bytes < sizeof row->keys[i] ? bytes : sizeof row->keys[i] - 1;
    memcpy(row->keys[i], sets[i], kept);
    row->keys[i][kept] = '\0';
    row->set[i] = (struct kc_stored_pair){row->keys[i], equals + 1};
  }
  for (int f = 0; f < KC_FIGURES; f++) {
    if (!result->figures.known[f]) continue;
    row->figure[out->figure_count++] = (struct kc_stored_figure){
        kc_figure_name((enum kc_figure)f), result->figures.value[f]};
  }
}
