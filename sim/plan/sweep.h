/* Evaluates the points of a grid on several threads.
 *
 *   worker, worker, ...  --results--> ring of slots --main thread--> database, in batches
 *                                                                 \-> emit, in the order of numbers
 *
 * Workers take the next number as they come free; one thread, the caller's, writes and emits. What
 * is emitted and stored does not depend on the number of threads. A point whose hash the database
 * has is not run again.
 */
#ifndef KC_SIM_PLAN_SWEEP_H
#define KC_SIM_PLAN_SWEEP_H

#include "sim/plan/vary.h"
#include "sim/plan/point.h"
#include "sim/store/store_sweep.h"

enum { KC_SWEEP_THREADS_MAX = 256, KC_SWEEP_BASE_SETS_MAX = 72 };

struct kc_sweep {
  /* ---- the question ---- */
  const char *path;             /* of the scenario */
  const char *name;             /* of the sweep */
  const char *const *sets;      /* of every point, before its own; at most KC_SWEEP_BASE_SETS_MAX */
  size_t set_count;
  const struct kc_vary *grid;   /* finished */
  bool bill_only;               /* the memory bill alone, nothing is run */
  /* ---- how ---- */
  uint64_t shard, shards;       /* 1 <= shard <= shards: points with number % shards == shard - 1 */
  uint32_t threads;             /* 1 to KC_SWEEP_THREADS_MAX */
  struct kc_inputs *inputs;
  const char *version;          /* of the program */
  bool (*interrupted)(void *context); /* asked from every thread; may be NULL */
  struct kc_store *store;       /* NULL: nothing is stored */
  /* ---- who is told, on the caller's thread; each may be NULL ---- */
  void *context;
  enum kc_err (*emit)(void *context, uint64_t number, const struct kc_point_result *result,
                      struct kc_diag *diag);
  void (*progress)(void *context, uint64_t finished, uint64_t all); /* ten times a second */
};

struct kc_sweep_totals {
  uint64_t points;              /* of this shard */
  uint64_t by_status[4];        /* enum kc_point_status */
  uint64_t known;               /* of them, taken from the database */
};

/* Changes of a point: those of all, then its own. Returns their number; lent by sweep and grid. */
enum { KC_SWEEP_SETS_MAX = KC_SWEEP_BASE_SETS_MAX + KC_VARY_SETS_MAX };
size_t kc_sweep_sets(const struct kc_sweep *sweep, uint64_t number,
                     const char *sets[KC_SWEEP_SETS_MAX]);

/* Runs it. Whatever is wrong with a point is its result; errors are KC_ERR_INTERRUPTED (finished
 * points are stored and emitted), those of the store and of emit, KC_ERR_MEMORY, KC_ERR_FILE when
 * the scenario cannot be read. `totals` counts what was finished in any case. */
enum kc_err kc_sweep_run(const struct kc_sweep *sweep, struct kc_sweep_totals *totals,
                         struct kc_diag *diag);

#endif
