/* Threads that wait for work.
 *
 *   run: round + 1, wake all -> everybody takes the next task until there is none -> the last one
 *   to go idle wakes the caller
 *
 * One lock guards everything. Tasks are blocks of a model's pass, tens of microseconds and more, so
 * taking the lock once a task does not show.
 */
#include "engine/exec/team.h"

#include <pthread.h>
#include <stdlib.h>

#include "engine/base/check.h"

struct member {
  struct kc_team *team;
  pthread_t thread;
  uint32_t index;
};

struct kc_team {
  pthread_mutex_t lock;
  pthread_cond_t start, idle;
  uint32_t threads;   /* members that run, 0 included */
  uint64_t round;     /* of work; members compare it with the one they last saw */
  uint32_t next, tasks, busy;
  bool stop;
  void (*work)(void *context, uint32_t member, uint32_t task);
  void *context;
  struct member member[KC_TEAM_MAX];
};

/* Takes tasks until none is left. Called and left with the lock held. */
static void work_off(struct kc_team *team, uint32_t index)
{
  KC_ASSERT(index < team->threads);
  while (team->next < team->tasks) {
    const uint32_t task = team->next++;
    (void)pthread_mutex_unlock(&team->lock);
    team->work(team->context, index, task);
    (void)pthread_mutex_lock(&team->lock);
  }
}

static void *member_main(void *argument)
{
  const struct member *member = argument;
  struct kc_team *team = member->team;
  uint64_t seen = 0;
  (void)pthread_mutex_lock(&team->lock);
  while (!team->stop) {
    if (team->round == seen) {
      (void)pthread_cond_wait(&team->start, &team->lock);
      continue;
    }
    seen = team->round;
    team->busy++;
    work_off(team, member->index);
    team->busy--;
    if (team->busy == 0) (void)pthread_cond_signal(&team->idle);
  }
  (void)pthread_mutex_unlock(&team->lock);
  return NULL;
}

enum kc_err kc_team_create(struct kc_team **out, uint32_t threads, struct kc_diag *diag)
{
  KC_ASSERT(threads >= 1 && threads <= KC_TEAM_MAX);
  *out = NULL;
  struct kc_team *team = calloc(1, sizeof *team);
  if (team == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for a team of threads");
  (void)pthread_mutex_init(&team->lock, NULL);
  (void)pthread_cond_init(&team->start, NULL);
  (void)pthread_cond_init(&team->idle, NULL);
  (void)pthread_mutex_lock(&team->lock); /* members look at `threads` only once all are there */
  for (team->threads = 1; team->threads < threads; team->threads++) {
    struct member *member = &team->member[team->threads];
    *member = (struct member){.team = team, .index = team->threads};
    if (pthread_create(&member->thread, NULL, member_main, member) != 0) break;
  }
  (void)pthread_mutex_unlock(&team->lock);
  if (team->threads < threads) {
    kc_team_destroy(team);
    return kc_fail(diag, KC_ERR_MEMORY, "the system starts no more threads; use fewer");
  }
  *out = team;
  return KC_OK;
}

void kc_team_destroy(struct kc_team *team)
{
  if (team == NULL) return;
  (void)pthread_mutex_lock(&team->lock);
  team->stop = true;
  (void)pthread_cond_broadcast(&team->start);
  (void)pthread_mutex_unlock(&team->lock);
  for (uint32_t i = 1; i < team->threads; i++) (void)pthread_join(team->member[i].thread, NULL);
  (void)pthread_cond_destroy(&team->idle);
  (void)pthread_cond_destroy(&team->start);
  (void)pthread_mutex_destroy(&team->lock);
  free(team);
}

void kc_team_run(struct kc_team *team, uint32_t tasks,
                 void (*work)(void *context, uint32_t member, uint32_t task), void *context)
{
  KC_ASSERT(work != NULL);
  (void)pthread_mutex_lock(&team->lock);
  KC_ASSERT(team->busy == 0);
  team->work = work;
  team->context = context;
  team->next = 0;
  team->tasks = tasks;
  team->round++;
  if (team->threads > 1 && tasks > 1) (void)pthread_cond_broadcast(&team->start);
  work_off(team, 0);
  while (team->busy > 0) (void)pthread_cond_wait(&team->idle, &team->lock);
  team->tasks = 0; /* a member that wakes late finds nothing */
  (void)pthread_mutex_unlock(&team->lock);
}
