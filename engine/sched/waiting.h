/* Who waits, and who is next.
 *
 * Fresh requests are a cursor into the request table, [next, arrived): waiting costs them nothing.
 * The policy sees those below `seen` only; the others came too late for the step that is formed.
 * Requests that were preempted wait in records.
 *
 *   order      next is
 *   FIRST      the record put back last, else the cursor's        vllm, FCFS
 *   LAST       the cursor's, as long as it arrived before the      sglang
 *              oldest record was put back; then that record
 *   PRIORITY   the least of (priority, arrival); here fresh        vllm
 *              ones get records too, when they are seen
 *
 * A fresh request that leaves from behind the cursor (cancelled, refused on arrival, admitted out
 * of turn) is marked in `gone` and skipped when the cursor comes by.
 */
#ifndef KC_ENGINE_SCHED_WAITING_H
#define KC_ENGINE_SCHED_WAITING_H

#include "engine/base/heap.h"
#include "engine/sched/step.h"

#define KC_RECORD_NONE UINT32_MAX

enum kc_queue_kind { KC_QUEUE_FIRST, KC_QUEUE_LAST, KC_QUEUE_PRIORITY };

/* Where the time of a request went, up to some instant. */
struct kc_spent {
  kc_ps resident_ps; /* holding a slot */
  kc_ps kv_wait_ps;  /* waiting in steps that turned somebody away for want of pages */
  kc_ps host_ps;     /* host's part of the steps that ran while it held a slot */
};

/* A request that waits: a fresh one, or a preempted one that starts again. */
struct kc_waiting {
  uint32_t request;
  uint32_t outputs; /* produced before; 0 = fresh */
  uint32_t preemptions;
  uint32_t cached_tokens, recached_tokens; /* as in struct kc_outcome */
  bool started;     /* held a slot before */
  bool contaminated;
  struct kc_spent spent, first; /* until it came to wait; until its first token */
  kc_ps first_token_ps, last_token_ps; /* KC_PS_NEVER = none */
};

struct kc_queue_record {
  struct kc_waiting waiting;
  uint32_t behind;  /* LAST: requests [0, behind) had been seen when it was put back */
  uint32_t previous, next;
};

struct kc_queue {
  enum kc_queue_kind kind;
  const struct kc_request *requests; /* borrowed; grows behind us */
  uint32_t next;     /* first request not yet taken by the cursor */
  uint32_t seen;     /* the policy sees requests [0, seen) */
  uint32_t arrived;  /* requests [0, arrived) have arrived */
  uint32_t gone_ahead; /* of [next, arrived): no longer waiting */
  uint64_t *gone;    /* bits, [requests_max]; NULL when requests_max is 0 */
  uint32_t requests_max;
  struct kc_queue_record *record; /* [capacity]; touched only as far as needed at once */
  uint32_t capacity, used;        /* records [0, used) were used at some time */
  uint32_t free_record;           /* list by next */
  uint32_t head, tail;            /* FIRST, LAST: records in the order of the queue */
  uint32_t records;               /* in use */
  struct kc_heap heap;            /* PRIORITY: records; key = priority << 32 | request */
};

/* A place in the queue: who it is, and where. */
struct kc_queue_place {
  struct kc_waiting waiting;
  uint32_t record;       /* KC_RECORD_NONE: a fresh one */
  uint32_t after_cursor; /* walk: the fresh request and the record to look at next */
  uint32_t after_record;
};

size_t kc_queue_need(enum kc_queue_kind kind, uint32_t max_running, uint32_t requests_max);
enum kc_err kc_queue_init(struct kc_queue *queue, enum kc_queue_kind kind, uint32_t max_running,
                          uint32_t requests_max, const struct kc_request *requests,
                          struct kc_arena *arena);

/* Request number `arrived` arrives. Returns its number. */
uint32_t kc_queue_arrive(struct kc_queue *queue);
/* The one that just arrived does not wait: it was refused. Needs requests_max. */
void kc_queue_refuse_newest(struct kc_queue *queue);
/* The policy sees requests [0, seen) from now on; never fewer than before. O(newly seen) for
 * PRIORITY, else O(1). */
void kc_queue_show(struct kc_queue *queue, uint32_t seen);

/* Requests that wait, seen or not. O(1). */
uint32_t kc_queue_count(const struct kc_queue *queue);
/* Of those, the ones that are not seen yet. O(arrivals since the last step). */
uint32_t kc_queue_unseen(const struct kc_queue *queue);

/* The next in line among those seen, or false. */
bool kc_queue_head(struct kc_queue *queue, struct kc_queue_place *place);
/* The one after `place` in the order of the queue; not for PRIORITY. False at the end. */
bool kc_queue_after(const struct kc_queue *queue, struct kc_queue_place *place);
/* Takes a request out, from whatever place head or after gave. */
void kc_queue_take(struct kc_queue *queue, const struct kc_queue_place *place);
/* Puts a request back that was preempted. */
void kc_queue_put_back(struct kc_queue *queue, const struct kc_waiting *waiting);
/* Where `request` waits, seen or not; false when it does not. O(records) when it has one. */
bool kc_queue_find(const struct kc_queue *queue, uint32_t request, struct kc_queue_place *place);

/* Links, counts and order recomputed the slow way. For tests and KC_ASSERT_SLOW. */
bool kc_queue_valid(const struct kc_queue *queue);

#endif
