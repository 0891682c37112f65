/* Fits a few terms of a profile to requests that a server was measured to answer, by simulating
 * them.
 *
 *   scenario (its workload is the log as a trace) --run with candidate terms--> times per request
 *   first N requests: predicted against measured --minimise (GSL, simplex)--> terms
 *   the whole log, most of it unseen           --one more run--> what the fit is worth
 *
 * All requests of the log are offered in every run, because the first ones share the server with
 * the later; the answers of the first N alone are looked at by the fit.
 */
#ifndef KC_SIM_CALIBRATE_REPLAY_FIT_H
#define KC_SIM_CALIBRATE_REPLAY_FIT_H

#include "sim/calibrate/serving_log.h"
#include "sim/scenario/scenario_run.h"

enum kc_replay_term {
  KC_REPLAY_HOST,    /* host_step_us */
  KC_REPLAY_PROMPT,  /* prompt_step_us */
  KC_REPLAY_SCALE,   /* kernel_scale */
  KC_REPLAY_SPREAD,  /* spread_share */
  KC_REPLAY_LINK,    /* link_efficiency */
  KC_REPLAY_LATENCY, /* link_latency_us */
  KC_REPLAY_WEIGHTS, /* bandwidth_efficiency: plain profiles */
  KC_REPLAY_KV,      /* kv_efficiency: plain profiles */
  KC_REPLAY_FLOPS,   /* flops_efficiency: plain profiles */
  KC_REPLAY_TERMS
};
const char *kc_replay_term_name(enum kc_replay_term term); /* "host", "prompt", ... */
bool kc_replay_term_parse(const char *name, size_t length, enum kc_replay_term *out);
bool kc_replay_term_is_time(enum kc_replay_term term);     /* microseconds; else a factor */

enum { KC_REPLAY_FREE_MAX = 5, KC_REPLAY_FIRST_MAX = 10000 };

/* What a run rests on. */
struct kc_replay_worth {
  struct kc_cost_range seen;  /* its steps */
  enum kc_cost_level level;
};

struct kc_replay_fit {
  struct kc_scenario *scenario;      /* borrowed; its profile is changed, and holds the best at the
                                        end */
  const struct kc_serving_log *log;  /* borrowed */
  uint32_t first;                    /* requests that the fit may look at */
  uint32_t free_count;
  enum kc_replay_term free[KC_REPLAY_FREE_MAX];

  /* ---- results ---- */
  struct kc_log_request *predicted;  /* heap, [log->count]: of the best run */
  struct kc_replay_worth worth;      /* of that run */
  double best[KC_REPLAY_FREE_MAX];
  bool at_bound[KC_REPLAY_FREE_MAX];
  uint32_t rows;                     /* requests that the fit saw */
  uint32_t runs;                     /* simulations it took */
  bool has_interval;
  double low[KC_REPLAY_FREE_MAX], high[KC_REPLAY_FREE_MAX]; /* 5 % and 95 % of the bootstrap */
  double residual_median_percent, residual_largest_percent; /* of TPOT and E2E, without sign */
  double left_out_median_percent, left_out_largest_percent; /* each request predicted without it */
  double flat[KC_REPLAY_FREE_MAX];   /* change in percent of each term that moves answers least */
  double flat_effect_percent;        /* and by how much it moves them, root of the mean square */
};

/* KC_ERR_INPUT when log and workload are not the same requests, or when the terms cannot be fitted
 * to so few; KC_ERR_USAGE for a term that has no effect on this scenario. `*fit` is prepared by the
 * caller up to the results. */
enum kc_err kc_replay_fit_run(struct kc_replay_fit *fit, struct kc_diag *diag);
void kc_replay_fit_free(struct kc_replay_fit *fit);

/* One run of the scenario as it stands: times of every request, in the order of the trace, and
 * what they are worth. */
enum kc_err kc_replay_predict(const struct kc_scenario *scenario, struct kc_log_request *out,
                              size_t count, struct kc_replay_worth *worth, struct kc_diag *diag);

/* What was fitted, as an entry of a GPU file. Its measurement is the whole log: all
 * of it was answered, and the report says how well all of it is predicted. */
void kc_replay_profile(const struct kc_replay_fit *fit, const char *name, const char *source,
                       struct kc_gpu_profile *out);

#endif
