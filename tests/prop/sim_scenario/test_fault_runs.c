/* Runs with damaged pages, drawn from seeds, over both policies with their caches: what the
 * integrity check promises.
 *
 *   check on   no answer holds a token computed from a page that was not the request's own; exactly
 *              the requests whose rows were damaged are aborted, all others end as requests do; the
 *              marking of rows (batched) and the check of every row (paranoid) do the same
 *   check off  nobody is aborted for it, and the contaminated answers are counted
 *
 *   test_fault_runs [--count N] [--seed S]
 *
 * timeout: 300
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_run.h"

#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
enum { COUNT_DEFAULT = 10000 };
#else
enum { COUNT_DEFAULT = 600 };
#endif

struct tally {
  uint64_t runs, injected[KC_INJECT_KINDS], victims, aborted, contaminated_unchecked;
  uint64_t runs_hit;
};

/* Draws the run of `seed` and executes it under one mode. Few faults a run, or many. */
static void execute(struct test_run *run, uint64_t seed, enum kc_integrity integrity)
{
  static const uint32_t every[] = {3, 10, 40, 150};
  const char *policy = seed % 2 == 0 ? "vllm-0.19" : "sglang-0.5";
  if (seed / 2 % 2 == 0) {
    random_run_draw_policy(run, policy, seed, UINT32_MAX);
  } else {
    random_run_draw_policy_sessions(run, policy, seed, UINT32_MAX);
  }
  run->instance.integrity = integrity;
  run->instance.inject = (struct kc_inject_config){
      .kinds = seed % 7 == 0 ? 1u << (seed / 7 % KC_INJECT_KINDS) : KC_INJECT_ALL,
      .every_steps = every[seed / 4 % 4],
      .seed = seed};
  test_run_execute(run);
}

static void finish(struct test_run *run)
{
  free(run->outcomes);
  random_run_free(run);
}

static bool complain(uint64_t seed, const char *what)
{
  printf("seed=%" PRIu64 ": %s\n", seed, what);
  return false;
}

/* Every request that was not aborted by the check ended as it would in a sound run. */
static bool others_are_whole(const struct test_run *run)
{
  for (uint32_t i = 0; i < run->outcome_count; i++) {
    const struct kc_outcome *o = &run->outcomes[i];
    if (o->contaminated) return false;
    if (o->status == KC_STATUS_COMPLETED && o->reason != KC_REASON_NONE) return false;
    if (o->reason == KC_REASON_INTEGRITY && o->status != KC_STATUS_FAILED) return false;
  }
  return run->outcome_count == run->request_count;
}

static uint64_t aborted(const struct test_run *run)
{
  return run->result.summary.requests_by_reason[KC_REASON_INTEGRITY];
}

static bool check_on(uint64_t seed, struct tally *tally)
{
  struct test_run run, all;
  bool fine = true;
  execute(&run, seed, KC_INTEGRITY_BATCHED);
  execute(&all, seed, KC_INTEGRITY_PARANOID);
  const struct kc_injector *in = &run.result.injector;
  if (run.result.summary.contaminated != 0 || in->contaminated != 0) {
    fine = complain(seed, "a contaminated answer left although rows are checked");
  } else if (in->mistaken != 0 || aborted(&run) != in->aborted_soundly) {
    fine = complain(seed, "somebody was aborted whose row was right");
  } else if (!others_are_whole(&run)) {
    fine = complain(seed, "a request that was not hit did not end as it should");
  } else if (strcmp(run.result.summary.result_sha256, all.result.summary.result_sha256) != 0) {
    fine = complain(seed, "marked rows and all rows give different results");
  }
  for (int k = 0; k < KC_INJECT_KINDS; k++) tally->injected[k] += in->injected[k];
  tally->victims += in->victims;
  tally->aborted += in->aborted_soundly;
  tally->runs_hit += in->victims > 0;
  if (!fine) random_run_print(&run);
  finish(&run);
  finish(&all);
  return fine;
}

static bool check_off(uint64_t seed, struct tally *tally)
{
  struct test_run run;
  bool fine = true;
  execute(&run, seed, KC_INTEGRITY_OFF);
  const struct kc_injector *in = &run.result.injector;
  if (aborted(&run) != 0) fine = complain(seed, "aborted although nothing is checked");
  if (run.result.summary.contaminated != in->contaminated || in->contaminated > in->victims) {
    fine = complain(seed, "contaminated answers and the injector's count differ");
  }
  tally->contaminated_unchecked += in->contaminated;
  if (!fine) random_run_print(&run);
  finish(&run);
  return fine;
}

static bool enough(const struct tally *tally)
{
  bool fine = true;
  for (int k = 0; k < KC_INJECT_KINDS; k++) {
    printf("%s%s %" PRIu64, k == 0 ? "injected: " : ", ",
           kc_inject_kind_name((enum kc_inject_kind)(1 << k)), tally->injected[k]);
    if (tally->injected[k] * 50 < tally->runs) fine = false;
  }
  printf("\n%" PRIu64 " runs, %" PRIu64 " with victims: %" PRIu64 " requests hit, %" PRIu64
         " aborted before they computed anything wrong; unchecked, %" PRIu64 " contaminated\n",
         tally->runs, tally->runs_hit, tally->victims, tally->aborted,
         tally->contaminated_unchecked);
  if (!fine) printf("too few faults of some kind were made\n");
  return fine && tally->contaminated_unchecked * 10 > tally->runs;
}

int main(int argc, char **argv)
{
  const uint64_t count = option_u64(argc, argv, "--count", COUNT_DEFAULT);
  const uint64_t first = option_u64(argc, argv, "--seed", 0);
  struct tally tally = {0};
  for (uint64_t seed = first; seed < first + count; seed++) {
    if (!check_on(seed, &tally) || !check_off(seed, &tally)) return 1;
    tally.runs++;
  }
  return count < 100 || enough(&tally) ? 0 : 1;
}
