/* Threads of a sweep (see sweep.h). Around runs: it may allocate.
 *
 *   ring[position % RING]   FREE -> TAKEN (evaluated) -> READY -> WRITTEN -> FREE (emitted)
 *
 * A position is a number within the shard. At most RING of them are in flight, so a sweep of any
 * size takes the same memory. Slots that are READY or WRITTEN belong to the main thread, TAKEN ones
 * to their worker; the mutex guards states and counters, and nobody holds it while a point is
 * evaluated, written or emitted.
 */
#include "sim/plan/sweep.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/check.h"
#include "sim/plan/sweep_store.h"

enum { RING = 1024, BATCH = 16, BATCH_MS = 250, TICK_MS = 100 };

enum slot_state { FREE, TAKEN, READY, WRITTEN };

struct slot {
  enum slot_state state;
  struct kc_point_result result;
};

struct work {
  const struct kc_sweep *sweep;
  struct kc_point_context context;
  struct kc_sweep_store stored;
  struct kc_sweep_totals *totals;
  uint64_t count;          /* points of this shard */

  pthread_mutex_t mutex;
  pthread_cond_t finished; /* a point is READY, or a worker has ended */
  pthread_cond_t room;     /* a slot is FREE, or there is no more to do */
  bool stop;
  bool interrupted;        /* a point was given up; `stop` is set, too */
  uint32_t workers;        /* that go on */
  uint64_t next;           /* to be taken */
  uint64_t emitted;        /* all below it are */
  uint64_t ready;          /* READY slots */
  struct slot ring[RING];
};

static uint64_t number_of(const struct work *work, uint64_t position)
{
  KC_ASSERT(position < work->count);
  return position * work->sweep->shards + work->sweep->shard - 1;
}

size_t kc_sweep_sets(const struct kc_sweep *sweep, uint64_t number,
                     const char *sets[KC_SWEEP_SETS_MAX])
{
  KC_ASSERT(sweep->set_count <= KC_SWEEP_BASE_SETS_MAX);
  for (size_t i = 0; i < sweep->set_count; i++) sets[i] = sweep->sets[i];
  return sweep->set_count + kc_vary_sets(sweep->grid, number, sets + sweep->set_count);
}

/* ---- workers ---- */

/* Takes the next position; false when there is none for this worker any more. */
static bool take(struct work *work, uint64_t *position)
{
  pthread_mutex_lock(&work->mutex);
  while (!work->stop && work->next < work->count && work->next >= work->emitted + RING) {
    pthread_cond_wait(&work->room, &work->mutex);
  }
  const bool taken = !work->stop && work->next < work->count;
  if (taken) {
    *position = work->next++;
    struct slot *slot = &work->ring[*position % RING];
    KC_ASSERT(slot->state == FREE);
    slot->state = TAKEN;
  }
  pthread_mutex_unlock(&work->mutex);
  return taken;
}

/* Gives a slot to the main thread, or back when the point was interrupted. */
static void hand_over(struct work *work, struct slot *slot, enum kc_err err)
{
  pthread_mutex_lock(&work->mutex);
  KC_ASSERT(slot->state == TAKEN);
  slot->state = err == KC_OK ? READY : FREE;
  if (err == KC_OK) {
    work->ready++;
  } else {
    work->stop = work->interrupted = true;
    pthread_cond_broadcast(&work->room);
  }
  pthread_cond_signal(&work->finished);
  pthread_mutex_unlock(&work->mutex);
}

static enum kc_err evaluate(struct work *work, uint64_t position, struct kc_point *scratch)
{
  const char *sets[KC_SWEEP_SETS_MAX];
  struct kc_point_result *result = &work->ring[position % RING].result;
  const struct kc_point_spec spec = {
      .path = work->sweep->path, .sets = sets, .bill_only = work->sweep->bill_only,
      .set_count = kc_sweep_sets(work->sweep, number_of(work, position), sets)};
  KC_ASSERT(spec.set_count > 0);
  if (scratch != NULL) return kc_point_evaluate(&work->context, &spec, scratch, result);
  memset(result, 0, sizeof *result);
  result->status = KC_POINT_FAILED;
  kc_fail(&result->why, KC_ERR_MEMORY, "no memory for a scenario");
  return KC_OK;
}

static void *worker(void *argument)
{
  struct work *work = argument;
  struct kc_point *scratch = malloc(sizeof *scratch);
  uint64_t position;
  while (take(work, &position)) {
    const bool wanted = work->sweep->interrupted == NULL || !work->sweep->interrupted(NULL);
    const enum kc_err err = wanted ? evaluate(work, position, scratch) : KC_ERR_INTERRUPTED;
    hand_over(work, &work->ring[position % RING], err);
  }
  free(scratch);
  pthread_mutex_lock(&work->mutex);
  KC_ASSERT(work->workers > 0);
  work->workers--;
  pthread_cond_signal(&work->finished);
  pthread_mutex_unlock(&work->mutex);
  return NULL;
}

/* ---- the main thread ---- */

static int64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits for points, at most a tick. With the mutex held. */
static void wait_a_tick(struct work *work)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += TICK_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  KC_ASSERT(until.tv_nsec >= 0);
  const int code = pthread_cond_timedwait(&work->finished, &work->mutex, &until);
  KC_ASSERT(code == 0 || code == ETIMEDOUT);
}

static void count(struct work *work, const struct kc_point_result *result)
{
  struct kc_sweep_totals *totals = work->totals;
  KC_ASSERT(result->status <= KC_POINT_FAILED);
  totals->by_status[result->status]++;
  totals->known += result->known;
}

/* Stores all that is READY, which becomes WRITTEN. Without the mutex. */
static enum kc_err write_batch(struct work *work, uint64_t limit, struct kc_diag *diag)
{
  struct kc_finished *batch = calloc(RING, sizeof *batch);
  size_t finished = 0;
  if (batch == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for a batch of points");
  pthread_mutex_lock(&work->mutex);
  for (uint64_t p = work->emitted; p < limit; p++) {
    struct slot *slot = &work->ring[p % RING];
    if (slot->state != READY) continue;
    KC_ASSERT(finished < RING);
    batch[finished++] = (struct kc_finished){number_of(work, p), &slot->result, false};
    slot->state = WRITTEN;
    work->ready--;
  }
  pthread_mutex_unlock(&work->mutex);
  enum kc_err err = KC_OK;
  if (finished > 0 && work->sweep->store != NULL) {
    err = kc_sweep_store_write(&work->stored, batch, finished, diag);
  }
  for (size_t i = 0; err == KC_OK && i < finished; i++) count(work, batch[i].result);
  free(batch);
  return err;
}

/* Emits what is WRITTEN, in order; up to the first gap, or with `all` beyond it. */
static enum kc_err emit(struct work *work, uint64_t limit, bool all, struct kc_diag *diag)
{
  const struct kc_sweep *sweep = work->sweep;
  uint64_t position = work->emitted; /* changed by this thread alone */
  KC_ASSERT(limit >= position);
  for (; position < limit; position++) {
    struct slot *slot = &work->ring[position % RING];
    pthread_mutex_lock(&work->mutex);
    const bool written = slot->state == WRITTEN;
    pthread_mutex_unlock(&work->mutex);
    if (!written && !all) break;
    if (!written) continue;
    if (sweep->emit != NULL) {
      KC_TRY(sweep->emit(sweep->context, number_of(work, position), &slot->result, diag));
    }
    pthread_mutex_lock(&work->mutex);
    slot->state = FREE;
    if (!all) work->emitted = position + 1;
    pthread_cond_broadcast(&work->room);
    pthread_mutex_unlock(&work->mutex);
  }
  return KC_OK;
}

static uint64_t finished_points(const struct kc_sweep_totals *totals)
{
  uint64_t finished = 0;
  for (int s = 0; s <= KC_POINT_FAILED; s++) finished += totals->by_status[s];
  KC_ASSERT(finished <= totals->points);
  return finished;
}

static void tell_progress(const struct work *work)
{
  const uint64_t finished = finished_points(work->totals);
  if (work->sweep->progress != NULL) {
    work->sweep->progress(work->sweep->context, finished, work->count);
  }
}

/* Writes and emits until the workers have ended. */
static enum kc_err supervise(struct work *work, struct kc_diag *diag)
{
  enum kc_err err = KC_OK;
  int64_t batch_ms = now_ms();
  bool going = true;
  KC_ASSERT(work->totals != NULL);
  while (going && err == KC_OK) {
    pthread_mutex_lock(&work->mutex);
    if (work->workers > 0) wait_a_tick(work);
    going = work->workers > 0;
    const uint64_t limit = work->next;
    const bool due = now_ms() - batch_ms >= BATCH_MS || work->ready >= BATCH || !going;
    pthread_mutex_unlock(&work->mutex);
    if (due) {
      err = write_batch(work, limit, diag);
      batch_ms = now_ms();
      if (err == KC_OK) err = emit(work, limit, !going, diag);
    }
    tell_progress(work);
  }
  return err;
}

static void stop(struct work *work)
{
  pthread_mutex_lock(&work->mutex);
  work->stop = true;
  pthread_cond_broadcast(&work->room);
  pthread_mutex_unlock(&work->mutex);
}

/* Starts the workers, supervises them, and waits for their end. */
static enum kc_err run_threads(struct work *work, struct kc_diag *diag)
{
  const uint32_t wanted = work->sweep->threads;
  pthread_t thread[KC_SWEEP_THREADS_MAX];
  uint32_t started = 0;
  KC_ASSERT(wanted >= 1 && wanted <= KC_SWEEP_THREADS_MAX);
  work->workers = wanted;
  while (started < wanted && pthread_create(&thread[started], NULL, worker, work) == 0) started++;
  if (started < wanted) {
    pthread_mutex_lock(&work->mutex);
    work->workers -= wanted - started;
    pthread_mutex_unlock(&work->mutex);
  }
  enum kc_err err = started == 0 ? kc_fail(diag, KC_ERR_MEMORY, "the system starts no thread")
                                 : supervise(work, diag);
  stop(work);
  for (uint32_t i = 0; i < started; i++) pthread_join(thread[i], NULL);
  if (err != KC_OK) return err;
  for (uint64_t p = 0; p < RING; p++) KC_ASSERT(work->ring[p].state == FREE);
  if (work->interrupted) {
    return kc_fail(diag, KC_ERR_INTERRUPTED, "interrupted after %llu of %llu points",
                   (unsigned long long)finished_points(work->totals),
                   (unsigned long long)work->count);
  }
  KC_ASSERT(finished_points(work->totals) == work->count);
  return KC_OK;
}

enum kc_err kc_sweep_run(const struct kc_sweep *sweep, struct kc_sweep_totals *totals,
                         struct kc_diag *diag)
{
  KC_ASSERT(sweep->shard >= 1 && sweep->shard <= sweep->shards);
  KC_ASSERT(sweep->grid->points > 0);
  memset(totals, 0, sizeof *totals);
  struct work *work = calloc(1, sizeof *work);
  if (work == NULL) return kc_fail(diag, KC_ERR_MEMORY, "no memory for the sweep");
  work->sweep = sweep;
  work->totals = totals;
  work->count = (sweep->grid->points + sweep->shards - sweep->shard) / sweep->shards;
  work->context = (struct kc_point_context){.inputs = sweep->inputs, .version = sweep->version,
                                            .interrupted = sweep->interrupted};
  totals->points = work->count;
  pthread_mutex_init(&work->mutex, NULL);
  pthread_cond_init(&work->finished, NULL);
  pthread_cond_init(&work->room, NULL);
  enum kc_err err = KC_OK;
  if (sweep->store != NULL) {
    err = kc_sweep_store_open(&work->stored, sweep, diag);
    work->context.known = kc_known_answer;
    work->context.known_context = &work->stored.known;
  }
  if (err == KC_OK) err = run_threads(work, diag);
  kc_sweep_store_close(&work->stored);
  pthread_cond_destroy(&work->room);
  pthread_cond_destroy(&work->finished);
  pthread_mutex_destroy(&work->mutex);
  free(work);
  return err;
}
