/* Reading the requests of a stored run back, and keeping what a comparison found. */
#ifndef KC_SIM_STORE_STORE_COMPARE_H
#define KC_SIM_STORE_STORE_COMPARE_H

#include "sim/store/store.h"

/* A row of the run. `parted`: what its time was spent on is known (kv_wait_ps, host_ps, first);
 * runs of an earlier program do not say, and these are 0. */
struct kc_stored_request {
  struct kc_outcome outcome;   /* reason is not read */
  uint32_t input_tokens;
  bool parted;
};
struct kc_stored_sample {
  kc_ps time_ps;
  int64_t running, waiting;
};

/* *run_id 0 becomes the newest run; `trust` what its times are worth: "calibrated", "extrapolated",
 * "datasheet", or "unknown" of runs of an earlier program. KC_ERR_INPUT when there is no such run,
 * or when not all of its rows were kept. */
enum { KC_STORE_TRUST_BYTES = 16 };
enum kc_err kc_store_resolve_run(struct kc_store *store, int64_t *run_id,
                                 char trust[KC_STORE_TRUST_BYTES], struct kc_diag *diag);

/* In the order of the trace, and of time. Their error ends the walk and is returned. */
typedef enum kc_err (*kc_stored_request_visitor)(void *context, const struct kc_stored_request *r,
                                                 struct kc_diag *diag);
typedef enum kc_err (*kc_stored_sample_visitor)(void *context, const struct kc_stored_sample *s,
                                                struct kc_diag *diag);
enum kc_err kc_store_each_request(struct kc_store *store, int64_t run_id,
                                  kc_stored_request_visitor visit, void *context,
                                  struct kc_diag *diag);
enum kc_err kc_store_each_sample(struct kc_store *store, int64_t run_id,
                                 kc_stored_sample_visitor visit, void *context,
                                 struct kc_diag *diag);

/* One line of a comparison: a metric, a figure of it, and what both sides say. */
struct kc_stored_comparison {
  const char *metric, *figure;
  double a, b;              /* seconds */
};
/* Appends all lines under one new id, in one transaction; the table is made when it is not there.
 * */
enum kc_err kc_store_comparison(struct kc_store *store, const char *a, const char *b,
                                const struct kc_stored_comparison *line, size_t count,
                                int64_t *id, struct kc_diag *diag);

#endif
