/* What a step costs, and a page grant: a wave of B equal requests that decode side by side.
 *
 *   bench_step BATCH STEPS PAGE_SIZE [sglang-0.5]   one measurement: nothing but its run, for
 *                                                   callgrind
 *   bench_step                                      a table: nanoseconds, JSON lines
 *
 * With pages of 4096 tokens nobody needs a page after the first, so the difference between two
 * lengths of run is the cost of the extra steps alone. With pages of 16, B / 16 grants a step come
 * on top. tests/prop/test_step_flat.sh counts instructions the same way.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/number.h"
#include "tests/prop/sim_scenario/run_support.h"

enum { STEPS_MAX = 4096 };

static double now_s(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Contexts cost next to nothing here: durations then stay in few buckets of the ITL histogram,
 * whose hashing at the end of a run would otherwise be counted as steps. The work of a step is the
 * same. */
static void flatten(struct kc_cost *cost)
{
  for (uint32_t i = 0; i < cost->op_count; i++) {
    const enum kc_cost_kind kind = cost->op[i].kind;
    if (kind != KC_COST_DECODE_ATTENTION && kind != KC_COST_INTEGRITY) continue;
    cost->op[i].byte_unit = 1;
    cost->op[i].flop_unit = 1;
  }
}

/* sglang-0.5 sets a page and the future aside for each request: twice the pool; and everybody in
 * one prefill step. */
static void use_sglang(struct kc_instance_config *config)
{
  config->policy = kc_policy_find("sglang-0.5");
  config->policy->defaults(&config->sched, UINT64_C(80) << 30, false);
  config->sched.overlap = false;
  config->sched.chunked_prefill = false;
  config->sched.max_prefill_tokens = INT32_MAX;
  config->pages *= 2;
}

/* Seconds for one wave of `batch` requests of `steps` outputs. */
static double wave_s(uint32_t batch, uint32_t steps, uint32_t page_size, bool sglang)
{
  const uint32_t pages_each = STEPS_MAX / page_size + 2; /* the same pool for every length */
  struct test_run run = {.request_count = batch};
  test_instance_default(&run.instance, batch * pages_each);
  if (sglang) use_sglang(&run.instance);
  test_cost_random(&run.cost, 1, 0);
  flatten(&run.cost);
  run.instance.sched.page_size = page_size;
  run.instance.sched.max_running = batch;
  run.instance.sched.max_batched_tokens = batch;
  run.instance.sched.max_model_len = steps + 2;
  run.closed = true;
  run.closed_config = (struct kc_closed_config){.concurrency = batch,
                                                .requests = batch,
                                                .input_tokens = 1,
                                                .output_tokens = steps,
                                                .mode = KC_CLOSED_WAVE};
  run.requests = calloc(batch, sizeof *run.requests);
  if (run.requests == NULL) abort();
  const double start = now_s();
  test_run_execute(&run);
  const double seconds = now_s() - start;
  free(run.requests);
  free(run.outcomes);
  return seconds;
}

static double best_of(uint32_t batch, uint32_t steps, uint32_t page_size)
{
  double best = 1e9;
  for (int i = 0; i < 5; i++) {
    const double seconds = wave_s(batch, steps, page_size, false);
    if (seconds < best) best = seconds;
  }
  return best;
}

static void table(void)
{
  const uint32_t batches[] = {8, 64, 512, 4096};
  for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
    const uint32_t b = batches[i];
    const double step_s = (best_of(b, 4000, 4096) - best_of(b, 2000, 4096)) / 2000;
    const double full_s = (best_of(b, 4000, 16) - best_of(b, 2000, 16)) / 2000;
    printf("{\"bench\":\"step\",\"batch\":%u,\"ns_per_step\":%.1f,\"ns_per_grant\":%.2f}\n", b,
           step_s * 1e9, (full_s - step_s) * 1e9 * 16 / b);
  }
}

static uint32_t argument(const char *text)
{
  uint64_t value;
  if (!kc_parse_u64(text, strlen(text), &value) || value == 0 || value > STEPS_MAX) {
    fprintf(stderr, "bench_step: '%s' is not a count between 1 and %d\n", text, STEPS_MAX);
    exit(2);
  }
  return (uint32_t)value;
}

int main(int argc, char **argv)
{
  const bool sglang = argc == 5 && strcmp(argv[4], "sglang-0.5") == 0;
  if (argc == 4 || sglang) {
    (void)wave_s(argument(argv[1]), argument(argv[2]), argument(argv[3]), sglang);
    return 0;
  }
  if (argc != 1) {
    fprintf(stderr, "usage: bench_step [BATCH STEPS PAGE_SIZE [sglang-0.5]]\n");
    return 2;
  }
  table();
  return 0;
}
