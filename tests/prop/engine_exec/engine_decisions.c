/* label: ci
 * timeout: 600
 * The engine makes the simulator's decisions, under both policies, with and without prefix cache
 * and overlap: random scenarios are run twice in virtual time, once with the predicted executor and
 * once with the computing one, which computes every token of a small model, and the decision logs
 * must be equal byte for byte. The engine writes its log from its own tables.
 *
 * Scenarios with a prefix cache are run once more without it: every request must get the same
 * tokens, which says that shared pages hold the keys and values that their readers would have
 * computed. That the comparison can fail is shown by texts that do not keep what their keys
 * promise.
 *
 *   engine_decisions [--seed N] [--runs N] [--requests N] [--module FILE]
 *
 * runs: of each policy. module: compute on the device behind it, a GPU or the emulated one. Tokens
 * with and without a cache may differ there, where two scores are near each other: a device sums a
 * long context in pieces, and how it is cut depends on the company.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_twin.h"
#include "random_run.h"

struct totals {
  uint64_t runs, different, bytes, tokens, cached, repaired, discarded;
  uint64_t compared, unequal; /* tokens with and without cache */
  uint64_t canaries;          /* runs with broken promises that were seen */
};

struct how {
  const struct twin_model *model;
  const char *policy;
  uint64_t seed;
  uint32_t requests_max;
  bool real;
  bool forget; /* the prefix cache is off, whatever was drawn */
  enum twin_text text;
};

static uint64_t all_outputs(const struct test_run *run)
{
  uint64_t sum = 0;
  if (run->closed) return (uint64_t)run->request_count * run->closed_config.output_tokens;
  for (uint32_t i = 0; i < run->request_count; i++) sum += run->requests[i].output_tokens;
  return sum;
}

/* True when the scenario has a prefix cache. `run` is kept for its requests: free it after the
 * engine. */
static bool execute(struct twin_engine *engine, struct test_run *run, const struct how *how)
{
  random_run_draw_policy(run, how->policy, how->seed, how->requests_max);
  const bool caches = run->instance.sched.prefix_cache;
  if (how->forget) run->instance.sched.prefix_cache = false;
  *engine = (struct twin_engine){.model = how->model,
                                 .real = how->real,
                                 .instance = &run->instance,
                                 .requests = run->requests,
                                 .request_count = run->request_count,
                                 .output_tokens = all_outputs(run),
                                 .text = caches && how->text == TWIN_CHOSEN ? TWIN_KEYED
                                                                            : how->text};
  run->wrap = twin_wrap;
  run->wrap_context = engine;
  test_run_execute(run);
  return caches;
}

static void forget(struct twin_engine *engine, struct test_run *run)
{
  twin_engine_free(engine);
  free(run->outcomes);
  random_run_free(run);
}

/* Tokens that differ, of those that both runs produced; *compared grows by how many those are. */
static uint64_t unequal_tokens(const struct twin_engine *a, const struct twin_engine *b,
                               uint64_t *compared)
{
  uint64_t unequal = 0;
  for (uint32_t i = 0; i < a->request_count; i++) {
    uint32_t count_a, count_b;
    const int32_t *token_a = kc_exec_output(&a->exec, i, &count_a);
    const int32_t *token_b = kc_exec_output(&b->exec, i, &count_b);
    for (uint32_t t = 0; t < count_a && t < count_b; t++) unequal += token_a[t] != token_b[t];
    *compared += count_a < count_b ? count_a : count_b;
  }
  return unequal;
}

/* The same scenario with and without its cache. */
static void compare_tokens(const struct twin_engine *cached, const struct how *how,
                           struct totals *totals)
{
  static struct twin_engine plain, broken;
  struct test_run plain_run, broken_run;
  struct how other = *how;
  uint64_t ignored = 0;
  other.forget = true;
  (void)execute(&plain, &plain_run, &other);
  const uint64_t unequal = unequal_tokens(cached, &plain, &totals->compared);
  if (unequal > 0) {
    printf("%s seed=%" PRIu64 " requests=%" PRIu32 ": %" PRIu64 " tokens differ without cache\n",
           how->policy, how->seed, how->requests_max, unequal);
  }
  totals->unequal += unequal;
  forget(&plain, &plain_run);
  if (cached->exec.rows_cached == 0 || totals->canaries > 0) return;
  other.text = TWIN_OWN;
  (void)execute(&plain, &plain_run, &other);
  other.forget = false;
  (void)execute(&broken, &broken_run, &other);
  totals->canaries += unequal_tokens(&broken, &plain, &ignored) > 0;
  forget(&plain, &plain_run);
  forget(&broken, &broken_run);
}

static uint32_t page_of(const struct how *how)
{
  struct test_run run;
  random_run_draw_policy(&run, how->policy, how->seed, how->requests_max);
  const uint32_t page = run.instance.sched.page_size;
  random_run_free(&run);
  return page;
}

static void compare(const struct how *how, struct totals *totals)
{
  static struct twin_engine simulated, computed;
  struct test_run simulated_run, computed_run;
  struct how real = *how;
  real.real = true;
  if (!twin_has_kernels(how->model, page_of(how))) return;
  (void)execute(&simulated, &simulated_run, how);
  const bool caches = execute(&computed, &computed_run, &real);
  if (!twin_logs_equal(&simulated.log, &computed.log)) {
    printf("%s seed=%" PRIu64 " requests=%" PRIu32 ": logs differ\n", how->policy, how->seed,
           how->requests_max);
    random_run_print(&computed_run);
    totals->different++;
  }
  totals->runs++;
  totals->bytes += simulated.log.bytes;
  totals->tokens += computed.exec.tokens;
  totals->cached += computed.exec.rows_cached;
  totals->repaired += computed.exec.rows_repaired;
  totals->discarded += computed.exec.rows_discarded;
  if (caches) compare_tokens(&computed, &real, totals);
  forget(&simulated, &simulated_run);
  forget(&computed, &computed_run);
}

static bool judge(const char *policy, const struct totals *t, bool exact)
{
  printf("%s: %" PRIu64 " runs, %" PRIu64 " tokens, %" PRIu64 " bytes of decisions, %" PRIu64
         " runs differ\n", policy, t->runs, t->tokens, t->bytes, t->different);
  printf("  %" PRIu64 " prompt tokens from the cache, of which %" PRIu64 " had to be computed; %"
         PRIu64 " rows of ghosts\n", t->cached, t->repaired, t->discarded);
  printf("  with and without cache: %" PRIu64 " tokens, %" PRIu64 " unequal; broken promises %s\n",
         t->compared, t->unequal, t->canaries > 0 ? "seen" : "not seen");
  const bool worth = t->tokens > 0 && t->bytes > 1000 * t->runs && t->cached > 0 &&
                     t->discarded > 0 && t->compared > 0;
  const bool tokens = exact ? t->unequal == 0 : t->unequal < t->compared / 10;
  return t->different == 0 && tokens && t->canaries > 0 && worth;
}

int main(int argc, char **argv)
{
  static const char *const policies[] = {"vllm-0.19", "sglang-0.5"};
  static struct kc_accelerator device; /* zeroed: the host */
  struct twin_model model;
  const uint64_t seed = option_u64(argc, argv, "--seed", 1);
  const uint64_t runs = option_u64(argc, argv, "--runs", 200);
  const uint32_t requests = (uint32_t)option_u64(argc, argv, "--requests", 16);
  bool good = true;
  twin_model_make(&model, twin_open_device(argc, argv, &device));
  for (int p = 0; p < 2; p++) {
    struct totals totals = {0};
    struct how how = {.model = &model, .policy = policies[p], .requests_max = requests};
    for (how.seed = seed; how.seed < seed + runs; how.seed++) compare(&how, &totals);
    good = judge(policies[p], &totals, device.library == NULL) && good;
  }
  twin_model_free(&model);
  if (device.library != NULL) kc_accelerator_close(&device);
  return !good;
}
