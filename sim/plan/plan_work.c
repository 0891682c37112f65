/* Threads of a plan, and how its evaluations are put into words (see plan_parts.h). */
#include "sim/plan/plan_parts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "engine/base/check.h"

/* ---- threads ---- */

struct crew {
  void (*work)(void *context, uint32_t task);
  void *context;
  uint32_t tasks;
  atomic_uint_least32_t next;
};

static void *work_off(void *argument)
{
  struct crew *crew = argument;
  KC_ASSERT(crew->work != NULL);
  for (;;) {
    const uint32_t task = atomic_fetch_add(&crew->next, 1);
    if (task >= crew->tasks) return NULL;
    crew->work(crew->context, task);
  }
}

void kc_plan_work(uint32_t threads, uint32_t tasks, void (*work)(void *context, uint32_t task),
                  void *context)
{
  struct crew crew = {.work = work, .context = context, .tasks = tasks};
  pthread_t thread[KC_SWEEP_THREADS_MAX];
  uint32_t started = 0;
  KC_ASSERT(threads >= 1);
  if (threads > KC_SWEEP_THREADS_MAX) threads = KC_SWEEP_THREADS_MAX;
  while (started + 1 < threads && started + 1 < tasks) { /* the caller is one of them */
    if (pthread_create(&thread[started], NULL, work_off, &crew) != 0) break;
    started++;
  }
  work_off(&crew);
  for (uint32_t i = 0; i < started; i++) pthread_join(thread[i], NULL);
  KC_ASSERT(atomic_load(&crew.next) >= tasks);
}

/* ---- changes of the scenario ---- */

size_t kc_plan_all_sets(const struct kc_plan *plan, const struct kc_plan_sets *sets,
                        const char *out[KC_PLAN_ALL_SETS_MAX])
{
  size_t count = 0;
  KC_ASSERT(plan->request.set_count <= KC_SWEEP_BASE_SETS_MAX);
  for (size_t i = 0; i < plan->request.set_count; i++) out[count++] = plan->request.sets[i];
  for (size_t i = 0; i < sets->count; i++) out[count++] = sets->text[i];
  return count;
}

void kc_plan_add_headroom(const struct kc_plan *plan, struct kc_plan_sets *sets)
{
  const double headroom = plan->request.headroom;
  KC_ASSERT(headroom >= 0);
  if (headroom <= 0) return;
  const struct kc_fraction rate = plan->base.scenario.workload.transform.rate;
  const uint64_t percent_100 = (uint64_t)(headroom * 10000 + 0.5); /* hundredths of a percent */
  kc_sets_add(sets, "workload.rate=%llu/%llu",
              (unsigned long long)(rate.numerator * (10000 + percent_100)),
              (unsigned long long)(rate.denominator * 10000));
}

void kc_plan_serving_sets(const struct kc_plan *plan, const struct kc_search_probe *probe,
                          struct kc_plan_sets *sets)
{
  KC_ASSERT(probe->replicas > 0 && probe->column < plan->column_count);
  kc_space_sets(&plan->request.space, plan->columns[probe->column].number, sets);
  kc_sets_add(sets, "pools.%s.replicas=%u", plan->request.space.pool, probe->replicas);
  kc_plan_add_headroom(plan, sets);
}

void kc_plan_sets_of(const struct kc_plan *plan, const struct kc_search_probe *probe,
                     bool as_bought, struct kc_plan_sets *sets)
{
  KC_ASSERT(probe->column < plan->column_count);
  const uint32_t replicas = probe->replicas + (as_bought ? plan->request.spare : 0);
  kc_space_sets(&plan->request.space, plan->columns[probe->column].number, sets);
  if (replicas != plan->base.scenario.pool[0].replicas) {
    kc_sets_add(sets, "pools.%s.replicas=%u", plan->request.space.pool, replicas);
  }
  if (!as_bought) kc_plan_add_headroom(plan, sets);
}

uint32_t kc_plan_gpus(const struct kc_plan *plan, const struct kc_search_probe *probe)
{
  KC_ASSERT(probe->column < plan->column_count);
  return plan->columns[probe->column].gpus * (probe->replicas + plan->request.spare);
}

double kc_plan_usd_hour(const struct kc_plan *plan, const struct kc_search_probe *probe)
{
  KC_ASSERT(probe->column < plan->column_count);
  return plan->columns[probe->column].usd_hour * (probe->replicas + plan->request.spare);
}
