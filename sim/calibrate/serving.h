/* Fits the host term and a few efficiencies of a profile to a serving measurement.
 *
 *   rows of a table (requests at once, tokens/s) --one run each--> makespan, linear in the unknowns
 *   --bounded fit (GSL)--> efficiencies --> again, until nothing moves
 *
 * Step times are sums of terms "time at full rate / efficiency" and of the host term, so a run's
 * makespan is linear in host time and in 1/efficiency as long as every operation stays on its side
 * of max(bytes, flops). The model that is fitted is the simulator itself: nothing is copied here.
 */
#ifndef KC_SIM_CALIBRATE_SERVING_H
#define KC_SIM_CALIBRATE_SERVING_H

#include "sim/plan/point.h"

enum kc_serving_term {
  KC_TERM_HOST,    /* host_step_us, >= 0 */
  KC_TERM_WEIGHTS, /* bandwidth_efficiency; this and the next ones in (0, 1] */
  KC_TERM_KV,      /* kv_efficiency */
  KC_TERM_FLOPS,   /* flops_efficiency */
  KC_TERM_EXPAND,  /* expand_efficiency */
  KC_SERVING_TERMS
};
const char *kc_serving_term_name(enum kc_serving_term term); /* "host", "weights", ... */
bool kc_serving_term_parse(const char *name, size_t length, enum kc_serving_term *out);

enum { KC_SERVING_ROWS_MAX = 32, KC_SERVING_FREE_MAX = 4 };

struct kc_serving_row {
  char label[24];            /* "concurrency 8" */
  struct kc_expect expect;   /* metric (a rate), value as measured, `set` of the point */
  struct kc_point *point;    /* loaded; owned by the fit */
};

/* host in us, the others as efficiencies. */
struct kc_serving_values {
  double value[KC_SERVING_TERMS];
};

struct kc_serving_fit {
  char path[KC_DIAG_PATH_BYTES]; /* of the scenario */
  bool is_free[KC_SERVING_TERMS]; /* fitted; the others are held at `start` */
  struct kc_serving_values start;
  double op_latency_us;
  bool squares;                  /* least squares; else the largest error is made small */
  char ignored[96];              /* columns of the table that are not read; "" = none */
  uint32_t row_count;
  struct kc_serving_row row[KC_SERVING_ROWS_MAX];

  /* ---- results ---- */
  struct kc_serving_values best;
  bool at_bound[KC_SERVING_TERMS];
  double predicted[KC_SERVING_ROWS_MAX];     /* rates of `best` */
  double residual_percent[KC_SERVING_ROWS_MAX];
  double residual_max, residual_median;      /* of them, without sign */
  bool has_left_out;                         /* enough rows to spare one */
  struct kc_serving_values left_out[KC_SERVING_ROWS_MAX];
  double left_out_percent[KC_SERVING_ROWS_MAX]; /* of the row that was kept out */
  bool has_interval;                         /* more rows than unknowns */
  double low[KC_SERVING_TERMS], high[KC_SERVING_TERMS]; /* 5 % and 95 % of the bootstrap */
  /* The change of the unknowns, in percent of each, that moves the rates least, and by how much it
   * moves the rate it moves most when the largest of them is 10 %. */
  double flat[KC_SERVING_TERMS], flat_effect_percent;
  struct kc_cost_range seen;                 /* steps of the runs of all rows */
};

/* Reads rows from the expect list of a scenario: those of kind `calibrated` that are rates of a run
 * and stand on their own; with `only` (may be NULL) just the one whose `what` it is. `fit` is
 * initialised here. Loads one point a row. */
enum kc_err kc_serving_load(struct kc_serving_fit *fit, const char *path, const char *only,
                            struct kc_diag *diag);
/* The same with rows from a CSV table (kc_timing_table): concurrency,tok_s and optionally
 * input,output; also kernel_source, of which KC_KERNEL_EMULATED is refused. */
enum kc_err kc_serving_load_table(struct kc_serving_fit *fit, const char *path, const char *table,
                                  struct kc_diag *diag);
void kc_serving_free(struct kc_serving_fit *fit);

/* Changes the input length of every row's workload, to ask whether the data could tell. */
enum kc_err kc_serving_assume_input(struct kc_serving_fit *fit, uint32_t input_tokens,
                                    struct kc_diag *diag);

/* Fits. Errors: KC_ERR_INPUT (fewer rows than unknowns, a row that cannot be run), KC_ERR_USAGE (no
 * effect of an unknown on any row), KC_ERR_MEMORY. */
enum kc_err kc_serving_run(struct kc_serving_fit *fit, struct kc_diag *diag);

/* Only the parameters and the residuals: no rows left out, no bootstrap. */
enum kc_err kc_serving_run_quick(struct kc_serving_fit *fit, struct kc_diag *diag);

/* The profile as an entry of a GPU file, numbers rounded as they are written. */
void kc_serving_profile(const struct kc_serving_fit *fit, const char *name, const char *source,
                        struct kc_gpu_profile *out);

#endif
