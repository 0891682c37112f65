/* See compare_measurements.h. Figures are sorted by what they say, so that both sides are walked
 * once; of equals the last one written stands.
 */
#include "sim/cli/compare_measurements.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/store/store.h"

enum { MEASUREMENTS_SCHEMA = 1, KEY_BYTES = 512, FIGURES_MAX = 1000000 };

struct figure {
  char key[KEY_BYTES]; /* kind, subject and metric */
  char unit[32];
  double value;
  bool emulated;
  size_t number; /* in the order of writing */
};

struct side {
  const char *path;
  struct figure *figure; /* heap */
  size_t count, room;
  struct kc_diag *diag;
};

/* ---- reading ---- */

static enum kc_err take(void *context, const struct kc_measurement *m)
{
  struct side *side = context;
  KC_ASSERT(m->kind != NULL);
  if (side->count == FIGURES_MAX) {
    return kc_fail(side->diag, KC_ERR_LIMIT, "more than %d measurements", FIGURES_MAX);
  }
  if (side->count == side->room) {
    side->room = 2 * side->room + 256;
    struct figure *grown = realloc(side->figure, side->room * sizeof *grown);
    if (grown == NULL) return kc_fail(side->diag, KC_ERR_MEMORY, "no memory for measurements");
    side->figure = grown;
  }
  struct figure *f = &side->figure[side->count];
  snprintf(f->key, sizeof f->key, "%s %s %s", m->kind, m->subject, m->metric);
  snprintf(f->unit, sizeof f->unit, "%s", m->unit);
  f->value = m->value;
  f->emulated = m->emulated;
  f->number = side->count++;
  return KC_OK;
}

static int by_key(const void *a, const void *b)
{
  const struct figure *x = a, *y = b;
  const int order = strcmp(x->key, y->key);
  return order != 0 ? order : x->number < y->number ? -1 : 1;
}

/* Sorted, and one of each key. */
static enum kc_err load(struct side *side, struct kc_diag *diag)
{
  struct kc_store *store = NULL;
  size_t kept = 0;
  side->diag = diag;
  KC_TRY(kc_store_open_read(&store, side->path, diag));
  const enum kc_err err = kc_store_each_measurement(store, take, side, diag);
  kc_store_close(store);
  KC_TRY(err);
  if (side->count == 0) {
    return kc_fail_at(diag, KC_ERR_INPUT, side->path, 0, 0, "holds no measurements; `kvcap engine "
                      "bench`, `rank` and `eval` write them with --db");
  }
  qsort(side->figure, side->count, sizeof *side->figure, by_key);
  for (size_t i = 0; i < side->count; i++) {
    const bool last = i + 1 == side->count ||
                      strcmp(side->figure[i].key, side->figure[i + 1].key) != 0;
    if (last) side->figure[kept++] = side->figure[i];
  }
  side->count = kept;
  KC_ASSERT(kept > 0);
  return KC_OK;
}

/* ---- both ---- */

struct pair {
  const struct figure *a, *b; /* NULL: not on that side */
};

/* Walks both sides by key. False at the end. */
static bool next_pair(const struct side *a, const struct side *b, size_t *i, size_t *j,
                      struct pair *pair)
{
  KC_ASSERT(*i <= a->count && *j <= b->count);
  if (*i == a->count && *j == b->count) return false;
  const int order = *i == a->count   ? 1
                    : *j == b->count ? -1
                                     : strcmp(a->figure[*i].key, b->figure[*j].key);
  *pair = (struct pair){order <= 0 ? &a->figure[*i] : NULL, order >= 0 ? &b->figure[*j] : NULL};
  *i += order <= 0;
  *j += order >= 0;
  return true;
}

static double ratio_of(const struct pair *pair)
{
  KC_ASSERT(pair->a != NULL && pair->b != NULL);
  return pair->a->value > 0 ? pair->b->value / pair->a->value : 0;
}

static void print_text(const struct side *a, const struct side *b)
{
  size_t i = 0, j = 0, only_a = 0, only_b = 0, emulated = 0;
  struct pair pair;
  KC_ASSERT(a->count > 0 && b->count > 0);
  printf("  a  %s (measured)\n  b  %s (measured)\n\n", a->path, b->path);
  printf("%-78s %14s %14s %8s\n", "measurement", "a", "b", "b / a");
  while (next_pair(a, b, &i, &j, &pair)) {
    only_a += pair.b == NULL;
    only_b += pair.a == NULL;
    if (pair.a == NULL || pair.b == NULL) continue;
    emulated += pair.a->emulated || pair.b->emulated;
    printf("%-78s %14.4f %14.4f %8.4f %s%s\n", pair.a->key, pair.a->value, pair.b->value,
           ratio_of(&pair), pair.a->unit,
           pair.a->emulated || pair.b->emulated ? " EMULATED" : "");
  }
  printf("\n%zu of a alone, %zu of b alone", only_a, only_b);
  if (emulated > 0) printf("; %zu EMULATED, which are no times of a GPU", emulated);
  printf("\n");
}

static int print_json(const struct side *a, const struct side *b)
{
  size_t i = 0, j = 0, only_a = 0, only_b = 0;
  struct pair pair;
  json_t *rows = json_array();
  KC_ASSERT(a->count > 0 && b->count > 0);
  while (rows != NULL && next_pair(a, b, &i, &j, &pair)) {
    only_a += pair.b == NULL;
    only_b += pair.a == NULL;
    if (pair.a == NULL || pair.b == NULL) continue;
    json_t *row = json_pack("{s:s, s:s, s:f, s:f, s:f, s:b}", "measurement", pair.a->key, "unit",
                            pair.a->unit, "a", pair.a->value, "b", pair.b->value, "ratio",
                            ratio_of(&pair), "emulated",
                            (int)(pair.a->emulated || pair.b->emulated));
    if (json_array_append_new(rows, row) == 0) continue;
    json_decref(rows);
    rows = NULL;
  }
  return kc_cli_print_json(json_pack("{s:i, s:o, s:o, s:I, s:I, s:o}", "schema",
                                     MEASUREMENTS_SCHEMA, "a", kc_cli_json_string(a->path), "b",
                                     kc_cli_json_string(b->path), "only_a", (json_int_t)only_a,
                                     "only_b", (json_int_t)only_b, "measurements", rows));
}

int kc_compare_measurements(const char *path_a, const char *path_b, bool json)
{
  struct side a = {.path = path_a}, b = {.path = path_b};
  struct kc_diag diag = {0};
  int status = 0;
  KC_ASSERT(path_a != NULL && path_b != NULL);
  enum kc_err err = load(&a, &diag);
  if (err == KC_OK) err = load(&b, &diag);
  if (err != KC_OK) status = kc_cli_fail(&diag);
  else if (json) status = print_json(&a, &b);
  else print_text(&a, &b);
  free(a.figure);
  free(b.figure);
  return status;
}
