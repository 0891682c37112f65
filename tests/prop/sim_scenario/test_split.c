/* Who caused the time of a step, as the predicted executor books it, against the same question put
 * to the step model from scratch at every step: the step without its chunks, and the step with
 * chunks that begin where nothing was cached.
 *
 * Scenarios are those of random_run.c; a failure prints its seed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "random_run.h"

#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
enum { SEEDS = 400 };
#else
enum { SEEDS = 60 };
#endif

enum { SLOTS_MAX = 65536 };

struct watch {
  struct kc_executor inner;
  uint32_t cached[SLOTS_MAX];
  kc_ps prefill_ps, cached_ps, decode_ps;
  uint64_t mixed, warm; /* steps with both; steps with cached tokens */
};

/* Sum over tokens from + 1 .. from + count of the tokens before and with each. */
static uint64_t pairs_from(uint64_t from, uint64_t count)
{
  uint64_t pairs = 0;
  for (uint64_t i = 1; i <= count; i++) pairs += from + i;
  return pairs;
}

static kc_ps without_chunks(const struct kc_cost *cost, const struct kc_aggregates *sum)
{
  struct kc_aggregates alone = *sum;
  if (sum->decodes == 0) return 0;
  alone.chunks = 0;
  alone.logits = sum->decodes;
  alone.prefill_tokens = alone.prefill_pairs = alone.prefill_context = 0;
  for (int i = 0; i < KC_CAPS_MAX; i++) {
    alone.prefill_capped_pairs[i] = alone.prefill_capped_context[i] = 0;
  }
  return kc_cost_step(cost, &alone);
}

/* Nothing of the prompts was cached, and the chunks are as long. */
static kc_ps without_cached(const struct watch *w, const struct kc_cost *cost,
                            const struct kc_step *step)
{
  struct kc_aggregates cold = step->sum;
  cold.prefill_pairs = cold.prefill_context = 0;
  for (uint32_t i = 0; i < step->chunk_count; i++) {
    const struct kc_chunk *chunk = &step->chunk[i];
    const uint64_t from = chunk->start - w->cached[chunk->slot];
    cold.prefill_pairs += pairs_from(from, chunk->count);
    cold.prefill_context += from + chunk->count;
  }
  return kc_cost_step(cost, &cold);
}

static enum kc_err run(void *context, const struct kc_step *step, struct kc_step_result *result,
                       struct kc_diag *diag)
{
  struct watch *w = context;
  const struct kc_predicted *predicted = w->inner.context;
  const enum kc_err err = w->inner.run(w->inner.context, step, result, diag);
  for (uint32_t i = 0; i < step->join_count; i++) {
    w->cached[step->join[i].slot] = step->join[i].cached;
  }
  const kc_ps decode_ps = step->chunk_count > 0 ? without_chunks(predicted->cost, &step->sum)
                                                : result->duration_ps;
  kc_ps cached_ps = 0;
  if (step->chunk_count > 0) {
    cached_ps = result->duration_ps - without_cached(w, predicted->cost, step);
    w->mixed += step->sum.decodes > 0;
    w->warm += cached_ps > 0;
  }
  if (cached_ps > result->duration_ps - decode_ps) cached_ps = result->duration_ps - decode_ps;
  w->decode_ps += decode_ps;
  w->cached_ps += cached_ps;
  w->prefill_ps += result->duration_ps - decode_ps - cached_ps;
  const struct kc_cost_split split = kc_predicted_split(predicted);
  if (split.decode_ps == w->decode_ps && split.cached_ps == w->cached_ps &&
      split.prefill_ps == w->prefill_ps) {
    return err;
  }
  printf("step %llu: booked %lld %lld %lld, expected %lld %lld %lld\n",
         (unsigned long long)step->index, (long long)split.prefill_ps, (long long)split.cached_ps,
         (long long)split.decode_ps, (long long)w->prefill_ps, (long long)w->cached_ps,
         (long long)w->decode_ps);
  return kc_fail(diag, KC_ERR_LIMIT, "the split differs");
}

static struct kc_executor watch(void *context, const struct kc_executor *executor)
{
  struct watch *w = context;
  w->inner = *executor;
  return (struct kc_executor){.context = w, .name = executor->name, .run = run};
}

int main(int argc, char **argv)
{
  const uint64_t only = option_u64(argc, argv, "--seed", 0);
  uint64_t mixed = 0, warm = 0;
  for (uint64_t seed = only > 0 ? only : 1; seed <= (only > 0 ? only : SEEDS); seed++) {
    struct test_run random;
    struct watch *w = calloc(1, sizeof *w);
    if (w == NULL) return 1;
    if (only > 0) printf("seed %llu\n", (unsigned long long)seed);
    random_run_draw_policy(&random, seed % 2 == 0 ? "vllm-0.19" : "sglang-0.5", seed, 300);
    random.wrap = watch;
    random.wrap_context = w;
    test_run_execute(&random);
    if (w->prefill_ps + w->cached_ps + w->decode_ps != random.result.summary.busy_ps) {
      printf("seed %llu: the parts are not the whole\n", (unsigned long long)seed);
      return 1;
    }
    mixed += w->mixed;
    warm += w->warm;
    free(random.outcomes);
    random_run_free(&random);
    free(w);
  }
  printf("%llu steps with prompts and decodes, %llu with cached tokens\n",
         (unsigned long long)mixed, (unsigned long long)warm);
  return only > 0 || (mixed > SEEDS && warm > SEEDS / 4) ? 0 : 1;
}
