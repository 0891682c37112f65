/* The two axes of a sweep's pictures, as asked for or as its keys suggest. */
#include "sim/cli/report_sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/check.h"
#include "sim/store/store_cells.h"

/* The last words of keys that are a load, and of keys that are a context; the better ones first. */
static const char *const load_words[] = {"concurrency", "rate"};
static const char *const across_words[] = {"input", "context", "trace", "output", "max_model_len"};

static bool ends_with(const char *key, const char *word)
{
  const size_t length = strlen(key), end = strlen(word);
  KC_ASSERT(end > 0);
  if (length < end || strcmp(key + length - end, word) != 0) return false;
  return length == end || key[length - end - 1] == '.';
}

static const char *key_of(const struct kc_cells *keys, size_t row)
{
  const char *key = kc_cells_text(keys, row, "key");
  KC_ASSERT(key != NULL);
  return key;
}

/* The key that the user means: whole, or its end. */
static enum kc_err find(const struct kc_cells *keys, const char *option, const char *wanted,
                        const char **found, struct kc_diag *diag)
{
  char known[320] = "";
  KC_ASSERT(wanted[0] != '\0');
  for (size_t i = 0; i < keys->rows; i++) {
    if (ends_with(key_of(keys, i), wanted)) {
      *found = key_of(keys, i);
      return KC_OK;
    }
    const size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", key_of(keys, i));
  }
  return kc_fail(diag, KC_ERR_USAGE, "--%s: the sweep does not vary \"%.64s\"; it varies %s",
                 option, wanted, known[0] != '\0' ? known : "nothing");
}

/* The first axis that ends with one of the words; failing that any axis of numbers; but not
 * `taken`. NULL when there is none. */
static const char *suggest(const struct kc_cells *keys, const char *const *word, size_t words,
                           const char *taken)
{
  const char *numbers = NULL;
  KC_ASSERT(words > 0);
  for (size_t w = 0; w < words; w++) {
    for (size_t i = 0; i < keys->rows; i++) {
      const char *key = key_of(keys, i);
      const bool axis = kc_cells_number(keys, i, "axis") == 1;
      if (!axis || strcmp(key, taken) == 0) continue;
      if (ends_with(key, word[w])) return key;
      if (numbers == NULL && kc_cells_number(keys, i, "amounts") == 1) numbers = key;
    }
  }
  return numbers;
}

static enum kc_err choose_keys(struct kc_store *store, const char *views_sql, int64_t sweep_id,
                               const char *across, const char *load, const struct kc_cells *keys,
                               struct kc_diag *diag)
{
  const char *across_key = NULL, *load_key = NULL;
  if (across[0] != '\0') KC_TRY(find(keys, "across", across, &across_key, diag));
  if (load[0] != '\0') KC_TRY(find(keys, "load", load, &load_key, diag));
  if (load_key == NULL) {
    load_key = suggest(keys, load_words, sizeof load_words / sizeof load_words[0],
                       across_key != NULL ? across_key : "");
  }
  if (across_key == NULL) {
    across_key = suggest(keys, across_words, sizeof across_words / sizeof across_words[0],
                         load_key != NULL ? load_key : "");
  }
  if (across_key == NULL) across_key = "";
  if (load_key == NULL) load_key = "";
  if (across_key[0] != '\0' && strcmp(across_key, load_key) == 0) {
    return kc_fail(diag, KC_ERR_USAGE, "--across and --load are the same key, %s", load_key);
  }
  return kc_store_choose_sweep(store, views_sql, sweep_id, across_key, load_key, diag);
}

/* The scripts keep names in arrays of these sizes. */
static enum kc_err check_size(struct kc_store *store, struct kc_diag *diag)
{
  enum { SERIES_MAX = 64, PLACES_MAX = 4096 };
  struct kc_cells size;
  KC_TRY(kc_cells_read(&size, store, "sweep_size", diag));
  KC_ASSERT(size.rows == 1);
  const double points = kc_cells_number(&size, 0, "points");
  const double series = kc_cells_number(&size, 0, "series");
  const double places = fmax(kc_cells_number(&size, 0, "across"),
                             kc_cells_number(&size, 0, "loads"));
  kc_cells_free(&size);
  if (points == 0) {
    return kc_fail(diag, KC_ERR_INPUT, "the sweep has no points in this file yet; run it again");
  }
  if (series > SERIES_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "a picture shows at most %d series, and beside its axes the "
                   "sweep has %.0f; name other axes with --across and --load", SERIES_MAX, series);
  }
  if (places > PLACES_MAX) {
    return kc_fail(diag, KC_ERR_LIMIT, "a picture shows at most %d values along an axis, not %.0f",
                   PLACES_MAX, places);
  }
  return KC_OK;
}

static enum kc_err is_of_plan(struct kc_store *store, bool *of_plan, struct kc_diag *diag)
{
  struct kc_cells kind;
  KC_TRY(kc_cells_read(&kind, store, "sweep_kind", diag));
  KC_ASSERT(kind.rows == 1);
  *of_plan = kc_cells_number(&kind, 0, "of_plan") == 1;
  kc_cells_free(&kind);
  return KC_OK;
}

/* The views of a plan, and that its answer is there. */
static enum kc_err choose_plan(struct kc_store *store, const struct kc_report_question *question,
                               struct kc_diag *diag)
{
  struct kc_cells answer;
  if (question->across[0] != '\0' || question->load[0] != '\0') {
    return kc_fail(diag, KC_ERR_USAGE, "--across and --load are axes of a sweep, and sweep %lld is "
                   "what a plan ran; leave them out", (long long)question->sweep_id);
  }
  KC_TRY(kc_store_choose_sweep(store, question->plan_sql, question->sweep_id, "", "", diag));
  KC_TRY(kc_cells_read(&answer, store, "plan_question", diag));
  const bool there = answer.rows == 1;
  kc_cells_free(&answer);
  if (there) return KC_OK;
  return kc_fail(diag, KC_ERR_INPUT, "the plan of sweep %lld has no answer in this file: it was "
                 "interrupted, or stored by an older program; the same `kvcap plan` with --db adds "
                 "it and runs nothing that is stored", (long long)question->sweep_id);
}

enum kc_err kc_report_choose_sweep(struct kc_store *store,
                                   const struct kc_report_question *question, bool *of_plan,
                                   struct kc_diag *diag)
{
  struct kc_cells keys;
  const char *views_sql = question->sweep_sql, *across = question->across, *load = question->load;
  const int64_t sweep_id = question->sweep_id;
  KC_ASSERT(across != NULL && load != NULL);
  KC_TRY(kc_store_choose_sweep(store, views_sql, sweep_id, "", "", diag));
  KC_TRY(is_of_plan(store, of_plan, diag));
  if (*of_plan) return choose_plan(store, question, diag);
  KC_TRY(kc_cells_read(&keys, store, "sweep_key", diag));
  const enum kc_err err =
      choose_keys(store, views_sql, sweep_id, across, load, &keys, diag);
  kc_cells_free(&keys);
  return err == KC_OK ? check_size(store, diag) : err;
}
