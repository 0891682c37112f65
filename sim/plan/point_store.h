/* Points in the database: the row of the question they answer, what is known already, and the row
 * of a finished point.
 *
 *   scenario, changes, axes --begin--> row of the sweep
 *   database --open--> index of hashes --has (any thread)--> this point need not be run
 *                                     `-read (one thread)--> its figures
 *   result + changes --row--> what kc_store_points_write takes
 */
#ifndef KC_SIM_PLAN_POINT_STORE_H
#define KC_SIM_PLAN_POINT_STORE_H

#include "sim/plan/point.h"
#include "sim/store/store_sweep.h"

enum { KC_POINT_ROW_SETS_MAX = 64 };

/* What points are asked of: a sweep, a plan, a highest rate. */
struct kc_question {
  const char *name;             /* as people read it */
  const char *path;             /* of the scenario */
  const char *const *sets;      /* "key=value", of every point */
  size_t set_count;
  const char *axes;             /* what is varied, and what is asked of it */
  const char *kind;             /* "run", "bill", "plan", "rate" */
  uint64_t points;              /* of the whole question */
};

/* Finds or makes its row. Equal questions, by the scenario's bytes, changes, axes and kind, are one
 * row. Errors of the store; KC_ERR_FILE, KC_ERR_MEMORY. */
enum kc_err kc_question_begin(struct kc_store *store, const struct kc_question *question,
                              int64_t *sweep_id, struct kc_diag *diag);

struct kc_known_point;

/* The finished points of a database, by hash. All-zero knows nothing. */
struct kc_known_points {
  struct kc_store *store;       /* borrowed until closed */
  struct kc_known_point *point; /* heap, sorted by hash */
  size_t count, room;
};

/* Reads the hashes. Errors of the store; KC_ERR_MEMORY. */
enum kc_err kc_known_open(struct kc_known_points *known, struct kc_store *store,
                          struct kc_diag *diag);
void kc_known_close(struct kc_known_points *known); /* all-zero is fine */

/* Whether a finished point has that hash, for kc_point_context.known; `known` is a struct
 * kc_known_points. O(log n); any thread. */
bool kc_known_answer(void *known, const char *config_sha256, struct kc_point_result *result);

/* Fills a result, whose hash is known, from the database. *own (may be NULL): the row is this very
 * point's, so there is nothing to write. One thread. */
enum kc_err kc_known_read(const struct kc_known_points *known, int64_t sweep_id, uint64_t number,
                          struct kc_point_result *result, bool *own, struct kc_diag *diag);

/* What a stored point borrows while it is written. */
struct kc_point_row {
  struct kc_stored_pair set[KC_POINT_ROW_SETS_MAX];
  struct kc_stored_figure figure[KC_FIGURES];
  char keys[KC_POINT_ROW_SETS_MAX][128];
};

/* Fills *out from a result and the changes of the point, "key=value", at most
 * KC_POINT_ROW_SETS_MAX. Everything is lent by the arguments. */
void kc_point_row_fill(struct kc_point_row *row, uint64_t number,
                       const struct kc_point_result *result, const char *const *sets,
                       size_t set_count, struct kc_stored_point *out);

#endif
