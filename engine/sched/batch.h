/* The books of a running batch: who runs, in which order, how far, holding which pages.
 *
 * The cost of a step, page grants apart, does not depend on the batch size. That rests on five
 * observations, each with its structure:
 *
 *   context of a decode grows by one a step   -> stored as key = context - step; sums are
 *                                                key_sum + decodes * step, no work per member
 *   equal growth keeps the order of contexts  -> the longest is the top of a heap of keys
 *   a decode needs a page every page_size     -> ring of buckets by step mod page_size; a bucket
 *   steps                                        is a list in batch order
 *   a window W is crossed once                -> one heap per W keyed by the crossing step
 *   batch order is join order                 -> a list; the tail is the preemption victim
 *
 * Slots are dense, [0, max_running); the last one freed is taken first, so that the same few rows
 * stay in cache.
 *
 * Waiting requests are the cursor [next_request, arrived) into the request table plus the requeue
 * stack of preempted ones, which has at most max_running entries: only a request that was admitted
 * can be there, and no fresh one is admitted before it is empty.
 */
#ifndef KC_ENGINE_SCHED_BATCH_H
#define KC_ENGINE_SCHED_BATCH_H

#include "engine/base/heap.h"
#include "engine/kv/table.h"
#include "engine/sched/policy.h"

#define KC_SLOT_NONE UINT32_MAX

enum kc_slot_state { KC_SLOT_FREE = 0, KC_SLOT_PREFILL, KC_SLOT_DECODE };

struct kc_slot {
  /* identity */
  uint32_t request;
  uint32_t preemptions;
  enum kc_slot_state state;
  /* progress: PREFILL counts `computed`; DECODE derives everything from the step */
  uint32_t known;             /* tokens whose KV must exist before decoding starts */
  uint32_t computed;          /* PREFILL: tokens with KV */
  uint32_t outputs_at_decode; /* tokens produced before `decode_from` */
  uint64_t decode_from;       /* first step in which it decodes */
  int64_t context_key;        /* context in step s is context_key + s */
  /* times */
  kc_ps joined_ps;            /* start of this residence */
  kc_ps resident_ps;          /* sum of earlier residences */
  kc_ps first_token_ps;       /* KC_PS_NEVER before */
  kc_ps last_token_ps;        /* of an earlier residence, for the gap across a preemption */
  /* lists: batch order; and the ring bucket (DECODE) or the prefill list (PREFILL) */
  uint64_t order;
  uint32_t run_previous, run_next;
  uint32_t list_previous, list_next;
};

struct kc_list {
  uint32_t head, tail, count;
};

/* A request that waits: a fresh one, or a preempted one that starts again. */
struct kc_waiting {
  uint32_t request;
  uint32_t outputs; /* produced before; 0 = fresh */
  uint32_t preemptions;
  kc_ps resident_ps;
  kc_ps first_token_ps, last_token_ps; /* KC_PS_NEVER = none */
};

/* A request that the policy gave up on while it formed a step. */
struct kc_refusal {
  struct kc_waiting waiting;
  enum kc_reason reason;
};

struct kc_batch {
  struct kc_sched_config config;
  struct kc_pool *pool;              /* borrowed */
  struct kc_table *table;            /* borrowed */
  const struct kc_request *requests; /* borrowed; grows behind us in a closed loop */

  uint32_t next_request;             /* first not yet taken from the cursor */
  uint32_t arrived;                  /* requests [0, arrived) have arrived */
  uint32_t refused_ahead;            /* of [next_request, arrived): refused on arrival */
  struct kc_waiting *requeue;        /* stack; its top is the head of the waiting queue */
  uint32_t requeue_count;

  struct kc_slot *slot;
  uint32_t *free_slot;               /* stack */
  uint32_t free_slot_count;
  struct kc_list running;            /* all slots in use, batch order */
  struct kc_list prefill;            /* PREFILL slots, batch order */
  struct kc_list *ring;              /* [page_size]: DECODE slots that need a page in the steps
                                        congruent to the index, batch order */
  uint64_t next_order;

  uint32_t decodes;
  int64_t key_sum;                   /* of DECODE slots */
  uint64_t prefill_computed;         /* of PREFILL slots */
  struct kc_heap longest;            /* key = -context_key */
  struct kc_heap crossing[KC_CAPS_MAX]; /* DECODE slots below W; key = step that reaches W */
  int64_t below_key_sum[KC_CAPS_MAX];   /* their keys */

  kc_ps now_ps;                      /* start of the step being formed */
  struct kc_step step;               /* the delta under construction; its arrays are ours: */
  struct kc_join *join;              /* [max_running] */
  uint32_t *leave;                   /* [2 * max_running] */
  struct kc_grant *grant;            /* [2 * max_running] */
  struct kc_chunk *chunk;            /* [max_running] */
  struct kc_refusal *refusal;        /* [KC_REFUSALS_MAX]; more wait for the next forming */
  uint32_t refusal_count;

  uint64_t demand_pages;             /* whole pages of all offered requests, to the length that
                                        each has reached; the growth of the step being formed is
                                        in it once the step is formed */
  uint64_t preemptions;
};

enum { KC_REFUSALS_MAX = 64 };

size_t kc_batch_need(const struct kc_sched_config *config); /* arena bytes */
enum kc_err kc_batch_init(struct kc_batch *batch, const struct kc_sched_config *config,
                          struct kc_pool *pool, struct kc_table *table,
                          const struct kc_request *requests, struct kc_arena *arena);

/* ---- waiting queue ---- */

/* Next in line, or false when nobody waits. */
bool kc_batch_head(struct kc_batch *batch, struct kc_waiting *head);
/* Requests that have arrived, hold no slot and are not refused. */
uint32_t kc_batch_waiting(const struct kc_batch *batch);
/* Tokens whose KV must exist before `waiting` can produce its next token. */
uint32_t kc_batch_known(const struct kc_batch *batch, const struct kc_waiting *waiting);
/* Takes the head out without starting it and notes why. False when the list of refusals is full. */
bool kc_batch_refuse_head(struct kc_batch *batch, enum kc_reason reason);
/* A request arrives: counts its demand. False (and not counted) when its prompt cannot be taken at
 * all; it is then skipped when the cursor reaches it. */
bool kc_batch_arrive(struct kc_batch *batch);

/* ---- what a policy does while it forms a step ---- */

/* Starts the head: takes it from the queue, gives it a slot at the tail of the batch, pages for its
 * first `tokens` tokens, and a chunk of that size; or, with `kv_in_place`, pages for all known
 * tokens and a place among the decodes at once. The caller has checked that pages and a slot are
 * free. */
uint32_t kc_batch_start_head(struct kc_batch *batch, uint32_t tokens, bool kv_in_place);
/* One page for every decode that needs one, in batch order, when there are enough for all; false
 * and nothing done when there are not. What kc_batch_grant_decode does singly, in one loop. */
bool kc_batch_grant_needy(struct kc_batch *batch);
/* One page for a decode. False when the pool is empty. */
bool kc_batch_grant_decode(struct kc_batch *batch, uint32_t slot);
/* The next `tokens` tokens of a prefill and the pages they need. False when pages are short. */
bool kc_batch_continue_prefill(struct kc_batch *batch, uint32_t slot, uint32_t tokens);
/* Puts a request back to the head of the queue; its pages are freed, its outputs kept. */
void kc_batch_preempt(struct kc_batch *batch, uint32_t slot);

/* Bucket of decodes that need a page in the step being formed. */
static inline struct kc_list *kc_batch_needy(const struct kc_batch *batch)
{
  return &batch->ring[batch->step.index % batch->config.page_size];
}

static inline uint64_t kc_pages_of(uint64_t tokens, uint32_t page_size)
{
  return (tokens + page_size - 1) / page_size;
}

/* ---- what an instance does around a step ---- */

/* Fills the aggregates of the step just formed. */
void kc_batch_seal(struct kc_batch *batch);
/* The step ran: empties the delta and moves on to the next index. Call before the two below. */
void kc_batch_advance(struct kc_batch *batch);
/* A prefill chunk of the step that ran is done; true when it was the last one: the slot decodes
 * from the next step on. */
bool kc_batch_chunk_done(struct kc_batch *batch, const struct kc_chunk *chunk);
/* Tokens produced by the request in `slot`, the step that ran included. */
uint32_t kc_batch_outputs(const struct kc_batch *batch, uint32_t slot);
/* The request in `slot` ended or is aborted: frees pages and slot. Returns the first fault that
 * freeing met, which is then already reported through the pool's hook. */
enum kc_err kc_batch_end(struct kc_batch *batch, uint32_t slot);

/* Every list, sum and heap recomputed the slow way. For tests and KC_ASSERT_SLOW. O(batch). */
bool kc_batch_valid(const struct kc_batch *batch);

#endif
