/* Rows that wait for other rows (see session.h).
 *
 *   first[row] -> next[..] -> next[..]     the rows that wait for `row`, in any order
 *   start                                  cursor over the rows that wait for nobody; they are
 *                                          sorted by arrival, so only the next one is "known"
 *   due                                    heap of (time, row): known rows of the other kind
 *
 * For every known row there is one event in the queue at its time. An event does not say which row
 * it is about: of those due at that instant the least row goes first, and which that is may change
 * until the event comes. Times in the queue and times of known rows are the same multiset, because
 * each is added and taken together with the other.
 *
 * Memory comes from the run's arena: 3 words and a heap entry a row; a step allocates nothing. */
#include "sim/replay/session.h"

size_t kc_sessions_need(uint32_t count)
{
  KC_ASSERT(count > 0);
  KC_ASSERT(count < KC_SESSION_START);
  return 3 * kc_arena_need(count, sizeof(uint32_t)) + kc_heap_need(count);
}

static void announce(struct kc_sessions *sessions, kc_ps time_ps)
{
  const enum kc_err err = kc_events_push(sessions->queue, time_ps, KC_BAND_ARRIVAL,
                                         sessions->event_kind, 0);
  KC_ASSERT(err == KC_OK); /* the queue has room for every row */
}

/* Moves the cursor on to a row that starts at its arrival, from `row` on. */
static void seek_start(struct kc_sessions *sessions, uint32_t row)
{
  const struct kc_session_config *config = &sessions->config;
  KC_ASSERT(row <= sessions->count);
  while (row < sessions->count && config->after[row] != KC_SESSION_START) row++;
  KC_ASSERT(row == sessions->count || config->row[row].arrival_ps >= 0);
  sessions->start = row;
  if (row < sessions->count) announce(sessions, config->row[row].arrival_ps);
}

static void link_rows(struct kc_sessions *sessions)
{
  for (uint32_t row = 0; row < sessions->count; row++) sessions->first[row] = KC_SESSION_START;
  for (uint32_t row = 0; row < sessions->count; row++) {
    const uint32_t after = sessions->config.after[row];
    if (after == KC_SESSION_START) continue;
    KC_ASSERT(after < sessions->count);
    KC_ASSERT(sessions->config.wait_ps[row] >= 0);
    sessions->next[row] = sessions->first[after];
    sessions->first[after] = row;
  }
}

/* Every row must be reached from one that waits for nobody; with one predecessor each, those that
 * are not stand in a circle or behind one. `row_of` is still free and serves as the list of rows
 * reached, each before those that wait for it. */
static enum kc_err check_circles(struct kc_sessions *sessions, struct kc_diag *diag)
{
  uint32_t *reached = sessions->row_of;
  uint32_t count = 0;
  for (uint32_t row = 0; row < sessions->count; row++) {
    if (sessions->config.after[row] == KC_SESSION_START) reached[count++] = row;
  }
  for (uint32_t i = 0; i < count; i++) {
    uint32_t row = sessions->first[reached[i]];
    for (; row != KC_SESSION_START; row = sessions->next[row]) reached[count++] = row;
  }
  KC_ASSERT(count <= sessions->count);
  if (count == sessions->count) return KC_OK;
  return kc_fail(diag, KC_ERR_INPUT,
                 "%u of the trace's %u requests wait for each other in a circle, so none of them "
                 "could ever start; mend the trace, or replay it by its arrival times "
                 "(workload.loop: open)", sessions->count - count, sessions->count);
}

enum kc_err kc_sessions_init(struct kc_sessions *sessions, const struct kc_session_config *config,
                             uint32_t count, struct kc_event_queue *queue, uint32_t event_kind,
                             struct kc_arena *arena, struct kc_diag *diag)
{
  KC_ASSERT(config->row != NULL && config->after != NULL && config->wait_ps != NULL);
  KC_ASSERT(count > 0 && count < KC_SESSION_START);
  *sessions = (struct kc_sessions){
      .config = *config, .count = count, .queue = queue, .event_kind = event_kind};
  sessions->first = kc_arena_take(arena, count, sizeof *sessions->first);
  sessions->next = kc_arena_take(arena, count, sizeof *sessions->next);
  sessions->row_of = kc_arena_take(arena, count, sizeof *sessions->row_of);
  if (sessions->first == NULL || sessions->next == NULL || sessions->row_of == NULL ||
      kc_heap_init(&sessions->due, count, arena) != KC_OK) {
    return kc_fail(diag, KC_ERR_MEMORY, "the run's tables need more memory than was reserved");
  }
  link_rows(sessions);
  KC_TRY(check_circles(sessions, diag));
  seek_start(sessions, 0);
  return KC_OK;
}

/* Takes the least of the rows that are due first: (time, row). */
static uint32_t take_first(struct kc_sessions *sessions, kc_ps *due_ps)
{
  const uint32_t start = sessions->start;
  const bool has_start = start < sessions->count;
  const kc_ps start_ps = has_start ? sessions->config.row[start].arrival_ps : KC_PS_NEVER;
  const kc_ps heap_ps = kc_heap_top_key(&sessions->due);
  KC_ASSERT(has_start || sessions->due.count > 0);
  const bool heap_first =
      sessions->due.count > 0 &&
      (heap_ps < start_ps || (heap_ps == start_ps && sessions->due.entry[0].item < start));
  *due_ps = heap_first ? heap_ps : start_ps;
  if (heap_first) {
    const uint32_t row = sessions->due.entry[0].item;
    kc_heap_remove(&sessions->due, row);
    return row;
  }
  seek_start(sessions, start + 1);
  return start;
}

enum kc_err kc_sessions_offer(struct kc_sessions *sessions, kc_ps now_ps, uint32_t *row,
                              struct kc_diag *diag)
{
  kc_ps due_ps;
  KC_ASSERT(sessions->offered < sessions->count);
  *row = take_first(sessions, &due_ps);
  KC_ASSERT(due_ps == now_ps);
  if (due_ps > KC_SESSION_DUE_MAX_PS) {
    return kc_fail(diag, KC_ERR_LIMIT,
                   "request %u of the trace would start %lld days into the run; a run of sessions "
                   "covers %lld: cut the time in which no session is active (workload.idle_cap: "
                   "600s, or kvcap trace convert --idle-cap), or replay the trace by its arrival "
                   "times (workload.loop: open)", *row,
                   (long long)(due_ps / (86400 * KC_PS_PER_S)),
                   (long long)(KC_SESSION_DUE_MAX_PS / (86400 * KC_PS_PER_S)));
  }
  sessions->row_of[sessions->offered++] = *row;
  return KC_OK;
}

void kc_sessions_ended(struct kc_sessions *sessions, uint32_t position, kc_ps end_ps)
{
  KC_ASSERT(position < sessions->offered);
  KC_ASSERT(end_ps >= 0 && end_ps < KC_PS_NEVER);
  uint32_t row = sessions->first[sessions->row_of[position]];
  for (; row != KC_SESSION_START; row = sessions->next[row]) {
    const kc_ps wait_ps = sessions->config.wait_ps[row];
    const kc_ps room_ps = KC_PS_NEVER - 1 - end_ps; /* beyond it: refused when it is offered */
    const kc_ps due_ps = end_ps + (wait_ps < room_ps ? wait_ps : room_ps);
    kc_heap_push(&sessions->due, due_ps, row);
    announce(sessions, due_ps);
  }
}
