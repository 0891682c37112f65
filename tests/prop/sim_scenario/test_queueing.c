/* Queueing theory's corners. With one slot, constant steps and Poisson arrivals an instance is an
 * M/D/1 queue (fixed lengths) or, to within the step, an M/M/1 queue (geometric lengths). Mean time
 * in system, from Pollaczek and Khinchine:
 *
 *   M/D/1   T = S + rho S / (2 (1 - rho))        M/M/1   T = S / (1 - rho)
 *
 * Tolerances: 2 % and 4 %, about four standard errors of the mean over the requests used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/base/random.h"
#include "run_support.h"

enum { STEPS_MEAN = 200 };
#define STEP_PS (10 * KC_PS_PER_US)

/* Number of trials until success with probability 1 / mean: mean `mean`, >= 1. */
static uint32_t geometric(struct kc_random *random, uint32_t mean)
{
  uint32_t trials = 1;
  while (!kc_random_chance(random, 1, mean)) trials++;
  return trials;
}

static double mean_in_system_s(uint32_t count, double rho, bool exponential, uint64_t seed)
{
  struct test_run run = {.request_count = count};
  struct kc_random arrivals, lengths;
  kc_random_init(&arrivals, seed, "arrivals", 0);
  kc_random_init(&lengths, seed, "lengths", 0);
  test_instance_default(&run.instance, 4096);
  test_cost_constant(&run.cost, STEP_PS);
  run.instance.sched.max_running = 1;
  run.requests = calloc(count, sizeof *run.requests);
  assert_non_null(run.requests);
  const uint64_t gap_ps = (uint64_t)((double)(STEPS_MEAN * STEP_PS) / rho);
  kc_ps now_ps = 0;
  for (uint32_t i = 0; i < count; i++) {
    now_ps += (kc_ps)kc_random_exponential(&arrivals, gap_ps);
    const uint32_t output = exponential ? geometric(&lengths, STEPS_MEAN) : STEPS_MEAN;
    run.requests[i] = (struct kc_request){
        .arrival_ps = now_ps, .input_tokens = 1, .output_tokens = output, .max_tokens = output};
  }
  test_run_execute(&run);
  assert_int_equal(run.result.summary.requests_by_status[KC_STATUS_COMPLETED], count);
  assert_int_equal(run.result.summary.max_running, 1);
  free(run.requests);
  free(run.outcomes);
  return (double)run.result.summary.e2e.mean_ps / 1e12;
}

static void near(double measured, double expected, double tolerance)
{
  const double error = measured / expected - 1.0;
  if (error < -tolerance || error > tolerance) {
    print_error("measured %.6f s, closed form %.6f s, error %+.2f %%\n", measured, expected,
                100 * error);
    fail();
  }
}

static const double service_s = STEPS_MEAN * (double)STEP_PS / 1e12;

static void fixed_lengths_are_m_d_1(void **state)
{
  (void)state;
  const double rhos[] = {0.2, 0.5, 0.8};
  for (size_t i = 0; i < 3; i++) {
    const double rho = rhos[i];
    const double expected = service_s + rho * service_s / (2 * (1 - rho));
    near(mean_in_system_s(60000, rho, false, 11 + i), expected, 0.02);
  }
}

static void geometric_lengths_are_m_m_1(void **state)
{
  (void)state;
  const double rhos[] = {0.3, 0.7};
  for (size_t i = 0; i < 2; i++) {
    near(mean_in_system_s(100000, rhos[i], true, 31 + i), service_s / (1 - rhos[i]), 0.04);
  }
}

/* A request that meets an idle instance is served at once: the light corner is exact. */
static void light_load_waits_for_nobody(void **state)
{
  (void)state;
  near(mean_in_system_s(2000, 0.0001, false, 5), service_s, 0.001);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(fixed_lengths_are_m_d_1),
                                     cmocka_unit_test(geometric_lengths_are_m_m_1),
                                     cmocka_unit_test(light_load_waits_for_nobody)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
