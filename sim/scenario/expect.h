/* What a scenario is expected to give: figures that somebody published, and how near is near.
 *
 *   expect:
 *     - {what: "8 requests", set: "workload.closed.concurrency=8", metric: output_tok_s,
 *        value: 731, within_percent: 1.5, kind: calibrated, source: "..."}
 *
 * `set` changes the scenario for this figure alone (assignments separated by semicolons), so one
 * file can state a whole table. With `against`, the figure is the relative change in percent from
 * the scenario changed by `against` to the one changed by `set`, and bounds are in points.
 */
#ifndef KC_SIM_SCENARIO_EXPECT_H
#define KC_SIM_SCENARIO_EXPECT_H

#include "engine/base/diag.h"
#include "engine/base/node.h"
#include "sim/scenario/figure.h"

enum { KC_EXPECT_MAX = 32 };

/* A metric is a figure (sim/scenario/figure.h), or the largest number of `among` that the pool
 * holds. */
enum { KC_EXPECT_LARGEST_FIT = KC_FIGURES };

enum kc_expect_kind {
  KC_EXPECT_DERIVED,    /* no fitted figure takes part */
  KC_EXPECT_CALIBRATED, /* the profile was fitted to this very figure */
  KC_EXPECT_LEFT_OUT,   /* fitted to its neighbours, not to this one */
  KC_EXPECT_MODELLED    /* from a model that nothing was fitted for and nobody measured */
};

struct kc_expect {
  char what[64];
  int metric, kind;              /* as above; int because the option table sets them */
  double value;                  /* as published */
  double within_percent, within; /* bounds: of the value; in its unit (points with `against`) */
  double at_least, at_most;
  bool has_within_percent, has_within, has_at_least, has_at_most;
  bool has_against;
  char set[256], against[256];
  char among[64];                /* largest_fit: "1 8 16" */
  char source[160];
};

/* Reads the list under `expect` (NULL: none). Problems are appended; returns the number read. */
uint32_t kc_expect_read(struct kc_expect expect[KC_EXPECT_MAX], const struct kc_node *list,
                        const char *path, struct kc_diag_list *problems);

const char *kc_expect_metric_name(int metric);
const char *kc_expect_metric_unit(int metric);                   /* "tok/s", "GiB" */
const char *kc_expect_kind_name(enum kc_expect_kind kind);       /* "left-out" */
bool kc_expect_needs_run(int metric);

/* How far a prediction is from the published value: in percent of it, or in points with `against`;
 * and whether that is within the bounds (always, when there are none). */
double kc_expect_error(const struct kc_expect *expect, double predicted);
bool kc_expect_has_bound(const struct kc_expect *expect);
bool kc_expect_holds(const struct kc_expect *expect, double predicted);

/* The figure that `expect` names. KC_ERR_INPUT when the set does not know it (no price, no fixed
 * request length); `name` is the scenario's, for the message. */
enum kc_err kc_expect_value(const struct kc_expect *expect, const struct kc_figure_set *figures,
                            const char *name, double *value, struct kc_diag *diag);

/* Cuts "a=b; c=d" into assignments; `text` is overwritten and lent. Returns their number, at most
 * `max`; SIZE_MAX when there are more. */
size_t kc_expect_sets(char *text, const char **sets, size_t max);

#endif
