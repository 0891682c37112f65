/* Plausible runs without the program: a toy server whose books are filled in by hand, so that the
 * tests of the store depend on nothing but its contract. */
#ifndef KC_TESTS_STORE_FIXTURE_H
#define KC_TESTS_STORE_FIXTURE_H

#include "sim/store/store.h"

struct fixture {
  struct kc_request *requests;
  struct kc_outcome *outcomes; /* in the order in which they ended */
  uint32_t count;
  struct kc_arena arena;
  struct kc_metrics *metrics;
  struct kc_replay_result result;
  struct kc_run_header header;
  struct kc_host_facts host;
  char document[8192];         /* what `run --json` would print of it */
};

struct fixture_plan {
  const char *name;
  uint64_t seed;
  uint32_t requests;
  uint32_t slots;            /* requests at once */
  uint64_t interval_us;      /* mean time between arrivals */
  uint64_t step_us;          /* of a step with nobody in it; each member adds 1 % */
  enum kc_request_rows rows;
};

/* Everything in `fixture` is released by fixture_free. Aborts when memory is short. */
void fixture_make(struct fixture *fixture, const struct fixture_plan *plan);
void fixture_free(struct fixture *fixture);

/* Tells a run that has begun every outcome, in order. */
enum kc_err fixture_tell(struct kc_store *store, const struct fixture *fixture,
                         struct kc_diag *diag);
/* end, with the fixture's books. */
enum kc_err fixture_end(struct kc_store *store, const struct fixture *fixture, int64_t *run_id,
                        struct kc_diag *diag);

/* begin, every outcome, end. On failure the run is aborted. */
enum kc_err fixture_store(struct kc_store *store, const struct fixture *fixture, int64_t *run_id,
                          struct kc_diag *diag);

#endif
