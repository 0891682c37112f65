/* What a sweep varies: axes of values, crossed or walked together, and the points they give.
 *
 *   --case "fp8: a=x; b=y"  --case "bf16: ..."   one axis of labelled groups of changes, outermost
 *   --vary "KEY=1,2,8..64*2"                     one axis for each, the first one slowest
 *
 *   point number --kc_vary_sets--> "key=value"... for kc_scenario_load
 *
 * Points are numbered from 0 in the order in which a person would write the nested loops.
 */
#ifndef KC_SIM_PLAN_VARY_H
#define KC_SIM_PLAN_VARY_H

#include "engine/base/diag.h"

enum {
  KC_VARY_AXES_MAX = 16,
  KC_VARY_VALUES_MAX = 100000,  /* of one axis */
  KC_VARY_POINTS_MAX = 1000000,
  KC_VARY_CASE_SETS_MAX = 16,   /* changes of one case */
  KC_VARY_SETS_MAX = KC_VARY_AXES_MAX + KC_VARY_CASE_SETS_MAX
};

/* One value of an axis: what it is called, and what it changes. */
struct kc_vary_value {
  char *label;         /* heap: "fp8-e4m3" */
  char *sets;          /* heap: "key=value", each with its NUL */
  uint32_t set_count;
};

struct kc_vary_axis {
  char *key;           /* heap: "pools.decode.kv.format"; "case" for the axis of cases */
  uint32_t count, room;
  struct kc_vary_value *value; /* heap */
};

struct kc_vary {
  bool has_cases;      /* axis[0] is theirs */
  uint32_t axis_count;
  struct kc_vary_axis axis[KC_VARY_AXES_MAX];
  bool zip;            /* the axes but that of the cases are walked together */
  uint64_t points;     /* known after kc_vary_finish */
};

void kc_vary_init(struct kc_vary *grid);
void kc_vary_free(struct kc_vary *grid);

/* "LABEL: key=value; key=value": one more case. Cases come before kc_vary_key. */
enum kc_err kc_vary_case(struct kc_vary *grid, const char *text, struct kc_diag *diag);

/* "KEY=ITEM,ITEM,...": one more axis. An item is a value as kc_document_set takes it (commas within
 * brackets, braces and quotes belong to it), or a range of numbers, its end included when met:
 *
 *   1..8      1, 2, ... 8        whole numbers
 *   0.1..0.5:0.1                 steps of 0.1
 *   8..64*2   8, 16, 32, 64      a factor above 1; whole numbers stay whole, rounded half up
 *   1/8..1/2*2, 1/4..1:1/4       fractions, each value exact and in lowest terms
 *
 * KC_ERR_USAGE for what is not that, an empty range, a value or key given twice; KC_ERR_LIMIT. */
enum kc_err kc_vary_key(struct kc_vary *grid, const char *text, struct kc_diag *diag);

/* KC_ERR_USAGE for one of these changes ("key=value", of every point) whose key is an axis: it
 * would never hold. */
enum kc_err kc_vary_check_sets(const struct kc_vary *grid, const char *const *sets, size_t count,
                               struct kc_diag *diag);

/* No more axes. KC_ERR_USAGE for a grid without axes, for a case that changes the key of an axis,
 * and for axes of unequal lengths with `zip`; KC_ERR_LIMIT for more than KC_VARY_POINTS_MAX
 * points. */
enum kc_err kc_vary_finish(struct kc_vary *grid, bool zip, struct kc_diag *diag);

/* Index of the axis' value at a point. */
uint32_t kc_vary_index(const struct kc_vary *grid, uint64_t point, uint32_t axis);
const char *kc_vary_label(const struct kc_vary *grid, uint64_t point, uint32_t axis);

/* The changes of a point, lent by the grid; returns their number. */
size_t kc_vary_sets(const struct kc_vary *grid, uint64_t point,
                    const char *sets[KC_VARY_SETS_MAX]);

/* All that the grid says, one line a value, as a heap string; NULL when memory ran out. Equal texts
 * are equal grids. */
char *kc_vary_text(const struct kc_vary *grid);

#endif
