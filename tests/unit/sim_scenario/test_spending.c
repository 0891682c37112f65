/* Money and energy of runs against arithmetic done here, from what the summary says.
 *
 *   every run          parts add up to the whole; prices per token times tokens give it back
 *   a mix              the price of the GPU-hour by hand
 *   an API             one that asks what the GPUs cost: even at the rate that was served
 *   replicas           twice the GPUs and half the load each: the same busy hours, more idle ones
 * timeout: 300 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/scenario/figure.h"
#include "sim/scenario/spending.h"

#define SETS(...) (const char *const[]){__VA_ARGS__}, \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

struct case_of {
  struct kc_scenario scenario;
  struct kc_run run;
  struct kc_spending spending;
  struct kc_figure_set figures;
};

static struct case_of *execute(const char *name, const char *const *sets, size_t count)
{
  char path[512];
  struct kc_diag_list problems;
  struct kc_diag diag = {0};
  struct case_of *c = calloc(1, sizeof *c);
  const char *source = getenv("KVCAP_SOURCE");
  assert_non_null(c);
  snprintf(path, sizeof path, "%s/scenarios/examples/%s.yaml",
           source != NULL ? source : KVCAP_SOURCE_DIR, name);
  if (kc_scenario_load(&c->scenario, path, sets, count, &problems) != KC_OK) {
    fail_msg("%s", problems.items[0].text);
  }
  if (kc_run_prepare(&c->run, &c->scenario, &diag) != KC_OK) fail_msg("%s", diag.text);
  if (kc_run_execute(&c->run, &diag) != KC_OK) fail_msg("%s", diag.text);
  kc_run_spending(&c->run, &c->spending);
  kc_figures_of_run(&c->run, &c->figures);
  return c;
}

static void release(struct case_of *c)
{
  kc_run_deinit(&c->run);
  free(c);
}

static void expect_near(double value, double expected)
{
  const double away = fabs(value - expected);
  if (away > 1e-9 * fabs(expected) + 1e-12) fail_msg("%.15g instead of %.15g", value, expected);
}

static void expect_whole(const struct case_of *c)
{
  const struct kc_spending *s = &c->spending;
  const struct kc_summary *sum = &c->run.result.summary;
  expect_near(s->busy_hours + s->idle_hours + s->cold_hours, s->gpu_hours);
  expect_near(s->prefill_share + s->cached_share + s->decode_share, 1);
  expect_near(s->prefill_usd.value + s->cached_usd.value + s->decode_usd.value +
              s->idle_usd.value + s->cold_usd.value, s->usd.value);
  expect_near(s->usd.value, s->gpu_hour_usd.value * s->gpu_hours);
  expect_near(s->output_mtok_usd.value * (double)sum->output_tokens / 1e6, s->usd.value);
  /* Idle and cold hours are spread, so the three prices per token give the whole back. */
  const double computed = (double)(sum->admitted_tokens - sum->cached_tokens);
  if (c->scenario.pool[0].role == KC_ROLE_SERVE) {
    expect_near((s->input_mtok_usd.value * computed +
                 s->cached_mtok_usd.value * (double)sum->cached_tokens +
                 s->decode_mtok_usd.value * (double)sum->output_tokens) / 1e6, s->usd.value);
  }
  assert_true(c->figures.known[KC_FIGURE_USD_TOTAL]);
  expect_near(c->figures.value[KC_FIGURE_USD_TOTAL], s->usd.value);
  expect_near(c->figures.value[KC_FIGURE_GPU_HOURS], s->gpu_hours);
}

static void parts_add_up(void **state)
{
  (void)state;
  struct case_of *c = execute("llama-3.1-8b-h100", SETS("workload.limit=500"));
  const struct kc_summary *s = &c->run.result.summary;
  expect_whole(c);
  expect_near(c->spending.gpu_hours, (double)s->makespan_ps / 3.6e15); /* one GPU */
  expect_near(c->spending.gpu_hour_usd.value, 3.99);
  assert_true(c->spending.prefill_share > 0 && c->spending.decode_share > 0);
  assert_true(c->spending.cached_share == 0 && !c->spending.cached_mtok_usd.known);
  assert_false(c->spending.api_usd.known);
  release(c);
  c = execute("glm-5.2-agents-8xh200", SETS("workload.limit=300"));
  expect_whole(c);
  assert_true(c->spending.cached_share > 0);
  /* A token that was found costs far less than one that was computed. */
  assert_true(c->spending.cached_mtok_usd.value < c->spending.input_mtok_usd.value / 5);
  release(c);
}

static void decoding_alone_has_no_prompts_to_pay(void **state)
{
  (void)state;
  struct case_of *c = execute("kimi-k2.6-decode-8xh200", SETS("workload.closed.output=50"));
  expect_whole(c);
  assert_true(c->spending.decode_share == 1);
  assert_false(c->spending.input_mtok_usd.known);
  expect_near(c->spending.decode_mtok_usd.value, c->spending.output_mtok_usd.value);
  release(c);
}

/* Half reserved at 2, a fifth spot at 1 of which a tenth is lost, the rest at 4:
 * 0.5 x 2 + 0.2 x 1 / 0.9 + 0.3 x 4. */
static void a_mix_is_weighted(void **state)
{
  (void)state;
  struct case_of *c = execute(
      "llama-3.1-8b-h100",
      SETS("workload.limit=100", "price.gpu_hour_usd=4", "price.reserved.share=0.5",
           "price.reserved.gpu_hour_usd=2", "price.spot.share=0.2", "price.spot.gpu_hour_usd=1",
           "price.spot.lost=0.1", "price.cold_start=90s"));
  expect_whole(c);
  expect_near(c->spending.gpu_hour_usd.value, 1 + 0.2 / 0.9 + 1.2);
  expect_near(c->spending.cold_hours, 90.0 / 3600);
  release(c);
  /* All reserved: the price on demand does not matter. */
  c = execute("llama-3.1-8b-fleet-4xl40s",
              SETS("workload.limit=100", "price.reserved.share=1",
                   "price.reserved.gpu_hour_usd=0.5"));
  expect_whole(c);
  expect_near(c->spending.gpu_hour_usd.value, 0.5);
  release(c);
}

/* At the prices per token that the GPUs have, the API bills as much, and breaking even takes the
 * rate that was served; at twice those prices half of it. */
static void an_api_that_costs_the_same_breaks_even(void **state)
{
  (void)state;
  char input[64], output[64];
  static const char *const closed[] = {"workload.trace=null", "workload.closed.concurrency=16",
                                       "workload.closed.input=600", "workload.closed.output=100",
                                       "workload.closed.requests=160"};
  struct case_of *own = execute("llama-3.1-8b-h100", closed, 5);
  for (int factor = 1; factor <= 2; factor++) {
    const char *sets[7] = {closed[0], closed[1], closed[2], closed[3], closed[4], input, output};
    snprintf(input, sizeof input, "price.api.input_usd_per_mtok=%.17g",
             factor * own->spending.input_mtok_usd.value);
    snprintf(output, sizeof output, "price.api.output_usd_per_mtok=%.17g",
             factor * own->spending.decode_mtok_usd.value);
    struct case_of *c = execute("llama-3.1-8b-h100", sets, 7);
    const double served = 160.0 / ((double)c->run.result.summary.makespan_ps / 1e12);
    expect_near(c->spending.api_usd.value, factor * own->spending.usd.value);
    expect_near(c->spending.api_ratio.value, 1.0 / factor);
    expect_near(c->spending.break_even_req_s.value, served / factor);
    expect_near(c->spending.break_even_share.value, 1.0 / factor);
    release(c);
  }
  release(own);
}

/* Idle 105 W, busy 700 W, by the hours of each; PUE and price on top. */
static void energy_follows_the_busy_share(void **state)
{
  (void)state;
  struct case_of *c = execute("llama-3.1-8b-h100",
                              SETS("workload.limit=300", "workload.rate=1/20", "energy.pue=1.3",
                                   "energy.usd_per_kwh=0.2"));
  const struct kc_summary *s = &c->run.result.summary;
  const double busy_s = (double)s->busy_ps / 1e12, span_s = (double)s->makespan_ps / 1e12;
  const double joules = 1.3 * (700 * busy_s + 105 * (span_s - busy_s));
  assert_true(busy_s < 0.7 * span_s);
  expect_near(c->spending.joules_per_token.value, joules / (double)s->output_tokens);
  expect_near(c->spending.kwh, joules / 3.6e6);
  expect_near(c->spending.energy_usd.value, 0.2 * joules / 3.6e6);
  release(c);
}

static void replicas_are_all_paid(void **state)
{
  (void)state;
  struct case_of *c = execute("llama-3.1-8b-h100",
                              SETS("workload.limit=400", "pools.serve.replicas=3",
                                   "price.cold_start=60s"));
  const struct kc_summary *s = &c->run.result.summary;
  uint64_t busy_ps = 0;
  expect_whole(c);
  for (uint32_t i = 0; i < 3; i++) busy_ps += (uint64_t)c->run.result.replica[i].busy_ps;
  expect_near(c->spending.cold_hours, 3.0 / 60);
  expect_near(c->spending.gpu_hours, 3 * ((double)s->makespan_ps / 3.6e15 + 1.0 / 60));
  expect_near(c->spending.busy_hours, (double)busy_ps / 3.6e15);
  assert_true(c->figures.value[KC_FIGURE_IMBALANCE] >= 1);
  assert_true(c->figures.value[KC_FIGURE_BUSY_SHARE] <= 1);
  release(c);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_add_up),
      cmocka_unit_test(decoding_alone_has_no_prompts_to_pay),
      cmocka_unit_test(a_mix_is_weighted),
      cmocka_unit_test(an_api_that_costs_the_same_breaks_even),
      cmocka_unit_test(energy_follows_the_busy_share),
      cmocka_unit_test(replicas_are_all_paid),
  };
  return cmocka_run_group_tests_name("spending", tests, NULL, NULL);
}
