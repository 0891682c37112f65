/* The precision table: formats of weights against formats of keys and values, for one scenario.
 *
 *   --weights, --kv --> rows --case of a sweep--> x concurrency (closed workloads) --> points
 *                                                                                      |
 *   frontier and largest load that fits, the fastest point that fits, change against row 0
 *
 * A row is one precision. Of a closed workload every listed concurrency is run, and the row is
 * judged by the fastest one whose requests fit and which keeps the SLO; a trace is run once.
 *
 * A profile that was fitted to a serving measurement in one KV format says little of another: where
 * the GPU file has a fit of the same measurement (model, tensor degree, contexts) in the row's
 * format, the row uses that one, and says so.
 */
#ifndef KC_SIM_PLAN_PRECISION_TABLE_H
#define KC_SIM_PLAN_PRECISION_TABLE_H

#include "sim/plan/quality.h"
#include "sim/plan/sweep.h"
#include "sim/scenario/require.h"

enum { KC_PRECISION_ROWS_MAX = 96, KC_PRECISION_CONTEXTS_MAX = 8 };

struct kc_precision_row {
  char weights[128], kv[128];    /* as listed: "scenario", "fp8", "k=bf16+v=fp8-e4m3" */
  struct kc_diag why;            /* code != KC_OK: the scenario refuses it; no more is known */
  struct kc_fit fit;
  uint64_t holds[KC_PRECISION_CONTEXTS_MAX]; /* requests of each context that the pool holds */
  char profile[KC_PROFILE_NAME_BYTES];
  bool other_profile;            /* not the scenario's own */
  bool foreign;                  /* the profile was fitted with other weights: extrapolated */
  bool as_shipped;               /* the weights are those of the checkpoint, whatever their name */
  /* Of a closed workload: requests of its length that the pool holds, and the largest number listed
   * that ran without asking for more KV than there is; 0 = none. */
  uint64_t frontier;
  uint32_t largest;
  uint32_t largest_tried;
  /* The fastest point that fits and keeps the SLO, or the one point of a trace; -1 = none. */
  int64_t best;
  uint32_t best_concurrency;
  /* What a trace's point misses, or, where no point is left, the fastest that fits; NULL = none. */
  const struct kc_requirement *missed;
};

struct kc_precision_table {
  const char *path;              /* and what is changed in every row: the question's */
  const char *const *sets;
  size_t set_count;
  struct kc_scenario *scenario;  /* heap: as it stands */
  struct kc_fit own;             /* its bill */
  bool closed;
  uint64_t length;               /* closed: tokens of one request */
  uint32_t context_count;
  uint64_t context[KC_PRECISION_CONTEXTS_MAX];
  uint32_t slo_count;
  struct kc_requirement slo[KC_REQUIREMENTS_MAX];
  uint32_t row_count;
  struct kc_precision_row *row;  /* heap */
  struct kc_vary vary;           /* cases are the rows; the second axis is the concurrency */
  struct kc_point_result *result; /* heap: [vary.points], as the sweep emits them */
  struct kc_quality_list *quality; /* heap */
};

/* Lists are texts as on the command line; NULL = the usual ones. `concurrency` is what follows the
 * "=" of kc_vary_key; an error for a trace. */
struct kc_precision_question {
  const char *path;
  const char *const *sets;
  size_t set_count;
  const char *weights, *kv, *concurrency, *contexts;
  const char *const *slo;        /* "ttft_p95_ms<=500"; none: the scenario's slo */
  size_t slo_count;
};

/* Loads the scenario in every precision and makes the points. Rows whose weights and KV take the
 * same room as an earlier row's are left out of the usual lists. Errors as kc_scenario_load (the
 * first problem), KC_ERR_USAGE for the lists. */
enum kc_err kc_precision_table_open(struct kc_precision_table *table,
                              const struct kc_precision_question *question, struct kc_diag *diag);
void kc_precision_table_close(struct kc_precision_table *table);

/* For kc_sweep.emit: keeps a result. `context` is the table. */
enum kc_err kc_precision_table_take(void *context, uint64_t number,
                              const struct kc_point_result *result, struct kc_diag *diag);

/* Judges the rows, once all results were taken. */
void kc_precision_table_judge(struct kc_precision_table *table);

/* The result by which a row is judged; NULL = none. */
const struct kc_point_result *kc_precision_table_best(const struct kc_precision_table *table,
                                                      uint32_t row);

/* What the times of that result are worth. */
enum kc_cost_level kc_precision_table_trust(const struct kc_precision_table *table, uint32_t row);

/* Change of a figure of that result against row 0, in percent; false when either lacks it. */
bool kc_precision_table_change(const struct kc_precision_table *table, uint32_t row,
                               enum kc_figure figure, double *percent);

#endif
