/* Random runs for the twins and for overload: a scheduler configuration, a pool, a step model and
 * requests, all drawn from one seed, with some dimensions switched to their extremes so that seeds
 * explore different corners. */
#ifndef KC_TESTS_PROP_SIM_SCENARIO_RANDOM_RUN_H
#define KC_TESTS_PROP_SIM_SCENARIO_RANDOM_RUN_H

#include "engine/base/random.h"
#include "run_support.h"

/* Draws everything but `wrap`. At most `requests_max` requests: fewer keep the first ones of the
 * same seed, so a failure shrinks by halving. vllm-0.19, first come first served, without cache.
 * Caller calls random_run_free. */
void random_run_draw(struct test_run *run, uint64_t seed, uint32_t requests_max);

/* The same with all that `policy` can do: prefix cache and contents that share beginnings, overlap,
 * orders, cancellation, timeouts, queue limit. */
void random_run_draw_policy(struct test_run *run, const char *policy, uint64_t seed,
                            uint32_t requests_max);

/* The same run, an open one, as sessions: rows get predecessors, now and then ones that stand
 * behind them, and waits from nothing to long. */
void random_run_draw_sessions(struct test_run *run, uint64_t seed, uint32_t requests_max);
void random_run_draw_policy_sessions(struct test_run *run, const char *policy, uint64_t seed,
                                     uint32_t requests_max);

/* Frees what was drawn. */
void random_run_free(struct test_run *run);

/* One line that says what was drawn. */
void random_run_print(const struct test_run *run);

/* Uniform in [low, high]. */
uint32_t random_between(struct kc_random *random, uint32_t low, uint32_t high);

/* Value of option `name` in the arguments, or `fallback`. Exits with status 2 on nonsense. */
uint64_t option_u64(int argc, char **argv, const char *name, uint64_t fallback);

#endif
