/* One point of a sweep, a search or a table: a scenario with some keys changed, and its figures.
 *
 *   scenario file + "key=value"... --load--> resolved scenario, bill --run--> figures, trust
 *                                       |
 *                                       +--hash--> config_sha256: what decides the figures
 *
 * Nothing here is global: points may be evaluated on any number of threads at once, each thread
 * with a kc_point of its own and all with one kc_inputs, so that a trace is read once.
 */
#ifndef KC_SIM_PLAN_POINT_H
#define KC_SIM_PLAN_POINT_H

#include "engine/base/digest.h"
#include "sim/scenario/figure.h"
#include "sim/scenario/scenario_run.h"

/* ---- step by step ---- */

/* A scenario with some keys changed: its bill and, when asked for, what a run of it gave. Large
 * (the scenario is in it): one a thread, on the heap. */
struct kc_point {
  struct kc_scenario scenario;
  struct kc_fit fit;            /* of the pool, whatever the requests */
  bool ran;
  struct kc_figure_set figures; /* of the bill; after a run of both */
  struct kc_cost_trust trust;   /* of the run */
  struct kc_cost_range seen;    /* its steps */
  char result_sha256[KC_SHA256_HEX_BYTES]; /* of the run */
};

/* Loads `path` with `sets`, and computes the bill. Problems of the file are in `problems`. */
enum kc_err kc_point_load(struct kc_point *point, const char *path, const char *const *sets,
                          size_t set_count, struct kc_diag_list *problems);

/* What decides the figures of a loaded point: SHA-256 of the resolved scenario, the digests of the
 * trace, the model, the GPU and the measured kernels, and the program's version. Errors: those of
 * reading trace and kernels; KC_ERR_MEMORY. */
enum kc_err kc_point_hash(const struct kc_point *point, struct kc_inputs *inputs,
                          const char *version, char hex[KC_SHA256_HEX_BYTES],
                          struct kc_diag *diag);

/* Runs it, again if it ran before. `inputs` may be NULL (files of its own), and so may
 * `interrupted`. KC_ERR_NO_FIT and the like as kc_run_prepare. */
enum kc_err kc_point_run(struct kc_point *point, struct kc_inputs *inputs,
                         bool (*interrupted)(void *context), struct kc_diag *diag);

/* ---- all at once ---- */

enum kc_point_status {
  KC_POINT_DONE,    /* the figures are there */
  KC_POINT_NO_FIT,  /* the model or its KV pool does not fit; the bill's figures are there */
  KC_POINT_REFUSED, /* the scenario contradicts itself or names what does not exist */
  KC_POINT_FAILED   /* the host: memory, a file, a ceiling. Worth another try */
};
const char *kc_point_status_name(enum kc_point_status status); /* "done", "no_fit", ... */

struct kc_point_spec {
  const char *path;        /* of the scenario */
  const char *const *sets; /* "key=value" */
  size_t set_count;
  bool bill_only;          /* nothing is run */
};

/* Plain values: may be copied, kept, and given to another thread. */
struct kc_point_result {
  enum kc_point_status status;
  struct kc_diag why;      /* unless DONE */
  struct kc_figure_set figures;
  bool ran;
  bool known;              /* the context knew it: whoever does fills in the rest */
  struct kc_cost_trust trust; /* if it ran */
  char config_sha256[KC_SHA256_HEX_BYTES]; /* "" when it could not be worked out */
  char result_sha256[KC_SHA256_HEX_BYTES]; /* "" unless it ran */
};

/* What the points of one piece of work share. */
struct kc_point_context {
  struct kc_inputs *inputs;
  const char *version;     /* of the program */
  bool (*interrupted)(void *context); /* may be NULL; asked from every thread */
  /* Asked with a point's hash before it is run; true when the result is known: it may fill it.
   * May be NULL. Called from every thread. The hash does not say whether it was to be run. */
  bool (*known)(void *known_context, const char *config_sha256, struct kc_point_result *result);
  void *known_context;
};

/* Evaluates a point. `scratch` is the caller's, one a thread; it holds the loaded point afterwards.
 * Whatever is wrong with the point is in result->status and why; the only error is
 * KC_ERR_INTERRUPTED. */
enum kc_err kc_point_evaluate(const struct kc_point_context *context,
                              const struct kc_point_spec *spec, struct kc_point *scratch,
                              struct kc_point_result *result);

#endif
