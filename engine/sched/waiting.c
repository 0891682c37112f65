/* The waiting queue (see waiting.h for the picture).
 *
 * Memory: from the run's arena. Records and the bits of `gone` are touched only as far as they are
 * used, so a queue that nobody was put back into costs what its cursor does, whatever its length.
 * FIRST needs no more records than there are slots: only what was admitted can be put back, and no
 * fresh one is admitted before it. The others may need one for every request.
 */
#include "engine/sched/waiting.h"

enum { VALID_MAX = 256 };

static uint32_t capacity_of(enum kc_queue_kind kind, uint32_t max_running, uint32_t requests_max)
{
  KC_ASSERT(max_running > 0);
  KC_ASSERT(kind == KC_QUEUE_FIRST || requests_max > 0);
  return kind == KC_QUEUE_FIRST ? max_running : requests_max;
}

static size_t words_of(uint32_t requests_max) { return ((size_t)requests_max + 63) / 64; }

size_t kc_queue_need(enum kc_queue_kind kind, uint32_t max_running, uint32_t requests_max)
{
  const uint32_t capacity = capacity_of(kind, max_running, requests_max);
  const size_t needs[3] = {kc_arena_need(capacity, sizeof(struct kc_queue_record)),
                           kc_arena_need(words_of(requests_max), sizeof(uint64_t)),
                           kind == KC_QUEUE_PRIORITY ? kc_heap_need(capacity) : 0};
  size_t total = 0;
  KC_ASSERT(capacity > 0);
  for (int i = 0; i < 3; i++) {
    if (__builtin_add_overflow(total, needs[i], &total)) return SIZE_MAX;
  }
  KC_ASSERT(total > 0);
  return total;
}

enum kc_err kc_queue_init(struct kc_queue *queue, enum kc_queue_kind kind, uint32_t max_running,
                          uint32_t requests_max, const struct kc_request *requests,
                          struct kc_arena *arena)
{
  const uint32_t capacity = capacity_of(kind, max_running, requests_max);
  KC_ASSERT(capacity < KC_RECORD_NONE);
  *queue = (struct kc_queue){.kind = kind,
                             .requests = requests,
                             .requests_max = requests_max,
                             .capacity = capacity,
                             .free_record = KC_RECORD_NONE,
                             .head = KC_RECORD_NONE,
                             .tail = KC_RECORD_NONE};
  queue->record = kc_arena_take(arena, capacity, sizeof *queue->record);
  if (queue->record == NULL) return KC_ERR_MEMORY;
  if (requests_max > 0) {
    queue->gone = kc_arena_take(arena, words_of(requests_max), sizeof *queue->gone);
    if (queue->gone == NULL) return KC_ERR_MEMORY;
  }
  return kind == KC_QUEUE_PRIORITY ? kc_heap_init(&queue->heap, capacity, arena) : KC_OK;
}

/* ---- the cursor ---- */

static bool is_gone(const struct kc_queue *queue, uint32_t request)
{
  KC_ASSERT(request < queue->arrived);
  if (queue->gone == NULL) return false;
  return (queue->gone[request / 64] >> (request % 64) & 1) != 0;
}

static void mark_gone(struct kc_queue *queue, uint32_t request)
{
  KC_ASSERT(queue->gone != NULL);
  KC_ASSERT(request >= queue->next && !is_gone(queue, request));
  queue->gone[request / 64] |= UINT64_C(1) << (request % 64);
  queue->gone_ahead++;
}

/* Moves the cursor over those that have gone. */
static void settle_cursor(struct kc_queue *queue)
{
  while (queue->gone_ahead > 0 && queue->next < queue->seen && is_gone(queue, queue->next)) {
    queue->gone_ahead--;
    queue->next++;
  }
}

/* The first fresh request from `request` on that is seen and waits; `seen` when there is none. */
static uint32_t fresh_from(const struct kc_queue *queue, uint32_t request)
{
  if (queue->gone_ahead == 0) return request;
  while (request < queue->seen && is_gone(queue, request)) request++;
  return request;
}

uint32_t kc_queue_arrive(struct kc_queue *queue)
{
  KC_ASSERT(queue->arrived < UINT32_MAX);
  KC_ASSERT(queue->requests_max == 0 || queue->arrived < queue->requests_max);
  return queue->arrived++;
}

void kc_queue_refuse_newest(struct kc_queue *queue)
{
  KC_ASSERT(queue->arrived > 0);
  KC_ASSERT(queue->seen < queue->arrived);
  mark_gone(queue, queue->arrived - 1);
}

uint32_t kc_queue_count(const struct kc_queue *queue)
{
  KC_ASSERT(queue->arrived >= queue->next);
  KC_ASSERT(queue->arrived - queue->next >= queue->gone_ahead);
  return queue->arrived - queue->next - queue->gone_ahead + queue->records;
}

uint32_t kc_queue_unseen(const struct kc_queue *queue)
{
  uint32_t count = 0;
  KC_ASSERT(queue->seen <= queue->arrived);
  uint32_t r = queue->seen > queue->next ? queue->seen : queue->next;
  for (; r < queue->arrived; r++) {
    count += !is_gone(queue, r);
  }
  return count;
}

/* ---- records ---- */

static uint32_t open_record(struct kc_queue *queue, const struct kc_waiting *waiting)
{
  uint32_t index = queue->free_record;
  if (index == KC_RECORD_NONE) {
    KC_ASSERT(queue->used < queue->capacity);
    index = queue->used++;
  } else {
    queue->free_record = queue->record[index].next;
  }
  queue->records++;
  queue->record[index] = (struct kc_queue_record){.waiting = *waiting,
                                                  .behind = queue->seen,
                                                  .previous = KC_RECORD_NONE,
                                                  .next = KC_RECORD_NONE};
  return index;
}

static void push_heap(struct kc_queue *queue, const struct kc_waiting *waiting)
{
  const int64_t priority = queue->requests[waiting->request].priority;
  KC_ASSERT(queue->kind == KC_QUEUE_PRIORITY);
  const uint32_t index = open_record(queue, waiting);
  kc_heap_push(&queue->heap, priority * (INT64_C(1) << 32) + waiting->request, index);
}

static void unlink_record(struct kc_queue *queue, uint32_t index)
{
  const struct kc_queue_record *r = &queue->record[index];
  if (queue->kind == KC_QUEUE_PRIORITY) {
    kc_heap_remove(&queue->heap, index);
    return;
  }
  if (r->previous == KC_RECORD_NONE) queue->head = r->next;
  else queue->record[r->previous].next = r->next;
  if (r->next == KC_RECORD_NONE) queue->tail = r->previous;
  else queue->record[r->next].previous = r->previous;
}

static void close_record(struct kc_queue *queue, uint32_t index)
{
  KC_ASSERT(index < queue->used);
  KC_ASSERT(queue->records > 0);
  unlink_record(queue, index);
  queue->record[index].next = queue->free_record;
  queue->free_record = index;
  queue->records--;
}

void kc_queue_put_back(struct kc_queue *queue, const struct kc_waiting *waiting)
{
  KC_ASSERT(waiting->preemptions > 0);
  KC_ASSERT(waiting->request < queue->seen);
  if (queue->kind == KC_QUEUE_PRIORITY) {
    push_heap(queue, waiting);
    return;
  }
  const uint32_t index = open_record(queue, waiting);
  struct kc_queue_record *r = &queue->record[index];
  if (queue->kind == KC_QUEUE_FIRST) {
    r->next = queue->head;
    if (queue->head != KC_RECORD_NONE) queue->record[queue->head].previous = index;
    else queue->tail = index;
    queue->head = index;
  } else {
    r->previous = queue->tail;
    if (queue->tail != KC_RECORD_NONE) queue->record[queue->tail].next = index;
    else queue->head = index;
    queue->tail = index;
  }
}

/* ---- the order ---- */

static struct kc_waiting fresh(uint32_t request)
{
  return (struct kc_waiting){
      .request = request, .first_token_ps = KC_PS_NEVER, .last_token_ps = KC_PS_NEVER};
}

void kc_queue_show(struct kc_queue *queue, uint32_t seen)
{
  KC_ASSERT(seen >= queue->seen);
  KC_ASSERT(seen <= queue->arrived);
  queue->seen = seen;
  if (queue->kind != KC_QUEUE_PRIORITY) return;
  for (settle_cursor(queue); queue->next < seen; settle_cursor(queue)) {
    const struct kc_waiting waiting = fresh(queue->next++);
    push_heap(queue, &waiting);
  }
}

/* The earlier of the fresh request `cursor` and the record `record`, as a place. */
static bool place_of(const struct kc_queue *queue, uint32_t cursor, uint32_t record,
                     struct kc_queue_place *place)
{
  const bool has_fresh = cursor < queue->seen;
  if (!has_fresh && record == KC_RECORD_NONE) return false;
  const bool takes_record =
      record != KC_RECORD_NONE && (!has_fresh || queue->kind == KC_QUEUE_FIRST ||
                                   queue->record[record].behind <= cursor);
  if (takes_record) {
    *place = (struct kc_queue_place){.waiting = queue->record[record].waiting,
                                     .record = record,
                                     .after_cursor = cursor,
                                     .after_record = queue->record[record].next};
    return true;
  }
  *place = (struct kc_queue_place){.waiting = fresh(cursor),
                                   .record = KC_RECORD_NONE,
                                   .after_cursor = cursor + 1,
                                   .after_record = record};
  return true;
}

bool kc_queue_head(struct kc_queue *queue, struct kc_queue_place *place)
{
  if (queue->kind == KC_QUEUE_PRIORITY) {
    if (queue->heap.count == 0) return false;
    const uint32_t index = queue->heap.entry[0].item;
    *place = (struct kc_queue_place){.waiting = queue->record[index].waiting,
                                     .record = index,
                                     .after_cursor = queue->next,
                                     .after_record = KC_RECORD_NONE};
    return true;
  }
  settle_cursor(queue);
  return place_of(queue, queue->next, queue->head, place);
}

bool kc_queue_after(const struct kc_queue *queue, struct kc_queue_place *place)
{
  KC_ASSERT(queue->kind != KC_QUEUE_PRIORITY);
  return place_of(queue, fresh_from(queue, place->after_cursor), place->after_record, place);
}

void kc_queue_take(struct kc_queue *queue, const struct kc_queue_place *place)
{
  const uint32_t request = place->waiting.request;
  if (place->record != KC_RECORD_NONE) {
    KC_ASSERT(queue->record[place->record].waiting.request == request);
    close_record(queue, place->record);
  } else if (request == queue->next) {
    KC_ASSERT(request < queue->arrived && !is_gone(queue, request));
    queue->next++;
  } else {
    mark_gone(queue, request);
  }
}

bool kc_queue_find(const struct kc_queue *queue, uint32_t request, struct kc_queue_place *place)
{
  KC_ASSERT(request < queue->arrived);
  if (request >= queue->next) {
    *place = (struct kc_queue_place){.waiting = fresh(request), .record = KC_RECORD_NONE};
    return !is_gone(queue, request);
  }
  if (queue->kind == KC_QUEUE_PRIORITY) {
    for (uint32_t i = 0; i < queue->heap.count; i++) {
      const uint32_t index = queue->heap.entry[i].item;
      if (queue->record[index].waiting.request != request) continue;
      *place = (struct kc_queue_place){.waiting = queue->record[index].waiting, .record = index};
      return true;
    }
    return false;
  }
  for (uint32_t index = queue->head; index != KC_RECORD_NONE; index = queue->record[index].next) {
    if (queue->record[index].waiting.request != request) continue;
    *place = (struct kc_queue_place){.waiting = queue->record[index].waiting, .record = index};
    return true;
  }
  return false;
}

bool kc_queue_valid(const struct kc_queue *queue)
{
  uint32_t count = 0, gone = 0;
  if (queue->kind == KC_QUEUE_PRIORITY) {
    if (!kc_heap_valid(&queue->heap)) return false;
    count = queue->heap.count;
  }
  uint32_t previous = KC_RECORD_NONE;
  for (uint32_t i = queue->head; i != KC_RECORD_NONE && count <= queue->capacity; count++) {
    if (i >= queue->used || queue->record[i].previous != previous) return false;
    previous = i;
    i = queue->record[i].next;
  }
  /* A long queue would make every step of a checked run as long. */
  const bool counts = queue->arrived - queue->next <= VALID_MAX;
  for (uint32_t r = queue->next; counts && r < queue->arrived; r++) gone += is_gone(queue, r);
  if (counts && gone != queue->gone_ahead) return false;
  return count == queue->records && queue->tail == previous &&
         queue->next <= queue->arrived && queue->seen <= queue->arrived;
}
