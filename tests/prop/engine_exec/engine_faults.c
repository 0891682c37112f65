/* label: ci
 * timeout: 3000
 * Page tags in the real path. Random scenarios of both policies, with prefix caches, overlap,
 * priorities, cancellation and timeouts, are computed twice: as they are, and with faults in the
 * tables that attention reads (engine/exec/tag_fault.h). Each fault must abort exactly its victims
 * before a token of theirs leaves, and every other request must get the same tokens byte for byte.
 *
 * Runs without faults are watched by the same oracle: no step may raise an alarm.
 *
 *   engine_faults [--seed N] [--runs N] [--steps N] [--requests N] [--module FILE]
 *
 * runs: of each policy, with and without faults; more runs follow, without faults alone, until
 * `steps` steps were checked. module: compute on the device behind it, a GPU or the emulated one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_twin.h"
#include "random_run.h"

static const char *const policies[] = {"vllm-0.19", "sglang-0.5"};

struct totals {
  uint64_t runs, steps, entries, checks, alarms;
  uint64_t injected[KC_TAG_FAULTS], victims, aborted, missed, mistaken;
  uint64_t events, refused; /* in counters: found, writes refused */
  uint64_t same, cut;       /* requests with equal tokens; of those, cut short by cancellation */
  uint64_t wrong;           /* requests that got other tokens, or the wrong end */
};

static uint64_t all_outputs(const struct test_run *run)
{
  uint64_t sum = 0;
  if (run->closed) return (uint64_t)run->request_count * run->closed_config.output_tokens;
  for (uint32_t i = 0; i < run->request_count; i++) sum += run->requests[i].output_tokens;
  return sum;
}

/* `kinds` 0: the oracle alone. */
static void execute(struct twin_engine *engine, struct test_run *run,
                    const struct twin_model *model, const char *policy, uint64_t seed,
                    uint32_t requests_max, uint32_t kinds)
{
  random_run_draw_policy(run, policy, seed, requests_max);
  run->instance.integrity = KC_INTEGRITY_OFF; /* the executor's check stands alone */
  *engine = (struct twin_engine){
      .model = model, .real = true, .instance = &run->instance, .requests = run->requests,
      .request_count = run->request_count, .output_tokens = all_outputs(run),
      .text = run->instance.sched.prefix_cache ? TWIN_KEYED : TWIN_CHOSEN, .fault_kinds = kinds,
      .fault_every = kinds == 0 ? 1 : 1 + (uint32_t)(seed % 7)};
  run->wrap = twin_wrap;
  run->wrap_context = engine;
  test_run_execute(run);
}

static void forget(struct twin_engine *engine, struct test_run *run)
{
  twin_engine_free(engine);
  free(run->outcomes);
  random_run_free(run);
}

static void add_sound(struct totals *t, const struct twin_engine *e)
{
  t->steps += e->faults.steps;
  t->entries += e->faults.entries;
  t->checks += e->exec.host.counter[KC_COUNT_CHECKS];
  t->alarms += e->exec.host.counter[KC_COUNT_EVENTS] + e->faults.mistaken;
}

static void add_faulty(struct totals *t, const struct twin_engine *e)
{
  for (int k = 0; k < KC_TAG_FAULTS; k++) t->injected[k] += e->faults.injected[k];
  t->victims += e->faults.victims;
  t->aborted += e->faults.aborted;
  t->missed += e->faults.missed;
  t->mistaken += e->faults.mistaken;
  t->events += e->exec.host.counter[KC_COUNT_EVENTS];
  t->refused += e->exec.host.counter[KC_COUNT_WRITES_REFUSED];
}

/* Tokens of both runs agree as far as both go, and whoever was not hit and completed in both has
 * all of them. */
static void compare(struct totals *t, const struct twin_engine *sound,
                    const struct twin_engine *faulty, const struct test_run *run)
{
  for (uint32_t i = 0; i < run->outcome_count; i++) {
    const struct kc_outcome *o = &run->outcomes[i];
    uint32_t count_a, count_b;
    const int32_t *a = kc_exec_output(&sound->exec, o->request, &count_a);
    const int32_t *b = kc_exec_output(&faulty->exec, o->request, &count_b);
    const uint32_t both = count_a < count_b ? count_a : count_b;
    const bool hit = faulty->faults.hit[o->request];
    const bool aborted = o->reason == KC_REASON_INTEGRITY;
    const bool equal = both == 0 || memcmp(a, b, both * sizeof *a) == 0;
    /* A ghost may be a victim: its request has ended well before. */
    const bool ends = aborted ? hit : !hit || o->status != KC_STATUS_FAILED;
    if (!equal || !ends) {
      printf("request %" PRIu32 ": hit %d, aborted %d, tokens %s\n", o->request, (int)hit,
             (int)aborted, equal ? "equal" : "differ");
      t->wrong++;
    }
    t->same += equal && count_a == count_b;
    t->cut += equal && count_a != count_b;
  }
}

static bool random_run_has_kernels(const struct twin_model *model, const char *policy,
                                   uint64_t seed, uint32_t requests_max)
{
  struct test_run run;
  random_run_draw_policy(&run, policy, seed, requests_max);
  const uint32_t page = run.instance.sched.page_size;
  random_run_free(&run);
  return twin_has_kernels(model, page);
}

static void run_pair(struct totals *t, const struct twin_model *model, const char *policy,
                     uint64_t seed, uint32_t requests_max, bool faults)
{
  static struct twin_engine sound, faulty;
  struct test_run sound_run, faulty_run;
  if (!random_run_has_kernels(model, policy, seed, requests_max)) return;
  execute(&sound, &sound_run, model, policy, seed, requests_max, 0);
  add_sound(t, &sound);
  t->runs++;
  if (faults) {
    const uint64_t wrong = t->wrong + t->missed + t->mistaken;
    execute(&faulty, &faulty_run, model, policy, seed, requests_max, (1u << KC_TAG_FAULTS) - 1);
    add_faulty(t, &faulty);
    compare(t, &sound, &faulty, &faulty_run);
    if (t->wrong + t->missed + t->mistaken != wrong) {
      printf("%s seed=%" PRIu64 " requests=%" PRIu32 "\n", policy, seed, requests_max);
      random_run_print(&faulty_run);
    }
    forget(&faulty, &faulty_run);
  }
  forget(&sound, &sound_run);
}

static bool judge(const struct totals *t)
{
  bool good = t->alarms == 0 && t->missed == 0 && t->mistaken == 0 && t->wrong == 0 &&
              t->victims == t->aborted && t->victims > 0;
  printf("%" PRIu64 " runs without faults: %" PRIu64 " steps, %" PRIu64 " checks of %" PRIu64
         " entries, %" PRIu64 " false alarms\n", t->runs, t->steps, t->checks, t->entries,
         t->alarms);
  printf("with faults:");
  for (int k = 0; k < KC_TAG_FAULTS; k++) {
    printf(" %s %" PRIu64, kc_tag_fault_name((enum kc_tag_fault)k), t->injected[k]);
    good = good && t->injected[k] > 0;
  }
  printf("\n  %" PRIu64 " victims, %" PRIu64 " aborted, %" PRIu64 " missed, %" PRIu64
         " aborted by mistake; %" PRIu64 " events, %" PRIu64 " writes refused\n", t->victims,
         t->aborted, t->missed, t->mistaken, t->events, t->refused);
  printf("  %" PRIu64 " requests with the tokens of the run without faults, %" PRIu64
         " cut short, %" PRIu64 " wrong\n", t->same, t->cut, t->wrong);
  return good;
}

int main(int argc, char **argv)
{
  static struct kc_accelerator device; /* zeroed: the host */
  struct twin_model model;
  struct totals totals = {0};
  const uint64_t seed = option_u64(argc, argv, "--seed", 1);
  const uint64_t runs = option_u64(argc, argv, "--runs", 200);
  const uint64_t steps = option_u64(argc, argv, "--steps", 0);
  const uint32_t requests = (uint32_t)option_u64(argc, argv, "--requests", 16);
  twin_model_make(&model, twin_open_device(argc, argv, &device));
  for (uint64_t s = seed; s < seed + runs || totals.steps < steps; s++) {
    for (int p = 0; p < 2; p++) {
      run_pair(&totals, &model, policies[p], s, requests, s < seed + runs);
    }
  }
  twin_model_free(&model);
  if (device.library != NULL) kc_accelerator_close(&device);
  return !judge(&totals);
}
