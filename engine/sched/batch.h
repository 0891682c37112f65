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
 * Slots are dense, [0, max_running), struct of arrays. The lowest free slot is taken... last freed
 * first, so that the same few rows stay in cache.
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
  bool prior_token;     /* the request has produced a token before this residence */
  /* progress: PREFILL counts `computed`; DECODE derives it from context_key and the step */
  uint32_t known;       /* tokens whose KV must exist before decoding starts */
  uint32_t computed;
  uint32_t outputs_at_join;
  uint64_t decode_from; /* step of the first decode */
  int64_t context_key;  /* context in step s is context_key + s */
  uint32_t bucket;
  /* times */
  kc_ps first_token_ps; /* KC_PS_NEVER before */
  kc_ps last_token_ps;  /* of the previous residence, for the ITL across a preemption */
  /* lists: batch order, and the bucket (DECODE) or the prefill list (PREFILL) in batch order */
  uint64_t order;
  uint32_t run_previous, run_next;
  uint32_t list_previous, list_next;
};

struct kc_list {
  uint32_t head, tail, count;
};

/* A preempted request that waits to start again. */
struct kc_requeued {
  uint32_t request;
  uint32_t outputs;
  uint32_t preemptions;
  kc_ps first_token_ps, last_token_ps;
};

struct kc_batch {
  struct kc_sched_config config;
  struct kc_pool *pool;    /* borrowed */
  struct kc_table *table;  /* borrowed */
  const struct kc_request *requests; /* borrowed; may grow behind us (closed loop) */

  uint32_t next_request;   /* first not yet admitted */
  uint32_t arrived;        /* requests [0, arrived) have arrived */
  struct kc_requeued *requeue; /* stack; top is the head of the waiting queue */
  uint32_t requeue_count;

  struct kc_slot *slot;
  uint32_t *free_slot;     /* stack */
  uint32_t free_slot_count;
  struct kc_list running;  /* all slots, batch order */
  struct kc_list prefill;  /* PREFILL slots, batch order */
  struct kc_list *ring;    /* [page_size] DECODE slots that need a page when step mod page_size = i */
  uint64_t next_order;

  uint32_t decodes;
  int64_t key_sum;         /* of DECODE slots */
  struct kc_heap longest;  /* key = -context_key */
  struct kc_heap crossing[KC_CAPS_MAX]; /* key = step in which the context first reaches W */
  int64_t below_key_sum[KC_CAPS_MAX];   /* of DECODE slots still below W */

  uint64_t step_index;     /* of the step being formed */
  bool composition_changed;
  struct kc_step step;     /* the delta under construction */
  struct kc_join *join;    /* [max_running] */
  uint32_t *leave;         /* [2 * max_running] */
  struct kc_grant *grant;  /* [2 * max_running] */
  struct kc_chunk *chunk;  /* [max_running] */
  struct kc_refusal *refusal; /* [max_running + 1]; more are taken in the next step */
  uint32_t refusal_count;

  uint64_t demand_pages;   /* whole pages of all offered requests, to the length each has reached */
  uint64_t preemptions;
  uint64_t recomputed_tokens;
};

size_t kc_batch_need(const struct kc_sched_config *config, uint64_t pool_pages);
enum kc_err kc_batch_init(struct kc_batch *batch, const struct kc_sched_config *config,
                          struct kc_pool *pool, struct kc_table *table,
                          const struct kc_request *requests, struct kc_arena *arena);

#endif
