/* The books of a running batch: who runs, in which order, how far, holding which pages.
 *
 * The cost of a step, page grants apart, does not depend on the batch size. That rests on six
 * observations, each with its structure. Time is counted in ticks, steps in which decodes run:
 *
 *   context of a decode grows by one a tick   -> stored as key = context - tick; sums are
 *                                                key_sum + decodes * tick, no work per member
 *   equal growth keeps the order of contexts  -> the longest is the top of a heap of keys
 *   a decode needs a page every page_size     -> ring of buckets by tick mod page_size; a bucket
 *   ticks                                        is a list in batch order
 *   a window W is crossed once                -> one heap per W keyed by the crossing tick
 *   what a decode may still make shrinks by   -> the same, the other way round: above the clip it
 *   one a tick, and is clipped from above        counts as the clip until the tick that reaches it
 *   batch order is join order                 -> a list; the tail is the preemption victim
 *
 * Slots are dense, [0, max_running); the last one freed is taken first, so that the same few rows
 * stay in cache.
 *
 * What a slot holds at its end is settled in two parts, because an overlapped server forms a step
 * between the last token of a request and its release:
 *
 *   PREFILL --chunk_done(last)--> DECODE --retire--> ghost --settle--> gone
 *                 `---listed-----------------------------------> publish (RADIX)
 *
 * The list of slots to settle is made at the end of a step and settled at once, or, with overlap,
 * after the next step was formed.
 *
 * The files: batch.c forms steps, batch_sums.c keeps the sums of the decodes and seals a step,
 * batch_end.c takes slots out, batch_check.c recounts everything.
 */
#ifndef KC_ENGINE_SCHED_BATCH_H
#define KC_ENGINE_SCHED_BATCH_H

#include "engine/base/heap.h"
#include "engine/sched/policy.h"
#include "engine/sched/waiting.h"

#define KC_SLOT_NONE UINT32_MAX

enum kc_slot_state {
  KC_SLOT_FREE = 0,
  KC_SLOT_PREFILL,
  KC_SLOT_DECODE, /* a ghost that will decode once more, too */
  KC_SLOT_HELD    /* a ghost that does not run: pages and place only */
};

struct kc_slot {
  /* identity */
  uint32_t request;
  uint32_t preemptions;
  enum kc_slot_state state;
  bool ghost;                 /* its request has ended */
  bool listed;                /* in batch->settle */
  bool paused;                /* left out of the tick being formed: in no sum of the decodes */
  bool giving_up;             /* cancelled while it ran */
  bool contaminated;          /* see struct kc_outcome */
  /* progress: PREFILL counts `computed`; DECODE derives everything from the tick */
  uint32_t known;             /* tokens whose KV must exist before decoding starts */
  uint32_t computed;          /* PREFILL, ghosts: tokens with KV */
  uint32_t outputs_at_decode; /* tokens produced before `decode_from` */
  uint64_t decode_from;       /* first tick in which it decodes; a pause moves it */
  int64_t context_key;        /* context in tick t is context_key + t */
  /* what it found in the prefix cache */
  uint32_t cached_tokens, recached_tokens;
  /* times */
  kc_ps joined_ps;            /* start of this residence */
  kc_ps host_before_ps;       /* batch->host_ps at that time */
  struct kc_spent spent;      /* until then */
  struct kc_spent first;      /* until its first token */
  kc_ps first_token_ps;       /* KC_PS_NEVER before */
  kc_ps last_token_ps;        /* of an earlier residence, for the gap across a preemption; fresh:
                                 of this one */
  uint32_t fresh_at;          /* 1 + place in batch->fresh; 0: not there */
  /* lists: batch order; and the ring bucket (DECODE) or the prefill list (PREFILL) */
  uint64_t order;
  uint32_t run_previous, run_next;
  uint32_t list_previous, list_next;
};

struct kc_list {
  uint32_t head, tail, count;
};

/* A request that the policy gave up on while it formed a step. */
struct kc_refusal {
  struct kc_waiting waiting;
  enum kc_reason reason;
};

/* Whoever damages rows on purpose must know what becomes of them. */
struct kc_fault_watch {
  void *context;
  void (*before_release)(void *context, uint32_t slot);
  /* A row that names what is not its own must not be published: the books of the cache would not
   * hold what it was told. */
  bool (*is_sound)(void *context, uint32_t slot);
};

/* What sglang-0.5 keeps from step to step. */
struct kc_sglang_state {
  double new_token_ratio;
  bool batch_is_full;
};

struct kc_batch {
  struct kc_sched_config config;
  const struct kc_policy *policy;    /* borrowed */
  struct kc_pool *pool;              /* borrowed */
  struct kc_table *table;            /* borrowed */
  struct kc_prefix_cache *cache;     /* borrowed; NULL without prefix_cache */
  const struct kc_request *requests; /* borrowed; grows behind us in a closed loop */
  struct kc_queue queue;
  bool faulty;                       /* faults are injected: rows may be wrong */
  bool all_seen;                     /* the policy sees all who wait, and there are no ghosts */
  bool was_idle;                     /* the instance was idle before this forming; policy clears */
  struct kc_sglang_state sglang;

  struct kc_slot *slot;
  uint32_t *free_slot;               /* stack */
  uint32_t free_slot_count;
  struct kc_list running;            /* all slots in use, batch order */
  struct kc_list prefill;            /* PREFILL slots, batch order */
  struct kc_list *ring;              /* [page_size]: DECODE slots that need a page in the ticks
                                        congruent to the index, batch order */
  uint64_t next_order;

  uint32_t decodes;                  /* DECODE slots */
  int64_t key_sum;                   /* of DECODE slots */
  uint64_t prefill_computed;         /* of PREFILL slots */
  struct kc_heap longest;            /* key = -context_key */
  struct kc_heap crossing[KC_CAPS_MAX]; /* DECODE slots below W; key = tick that reaches W */
  int64_t below_key_sum[KC_CAPS_MAX];   /* their keys */
  struct kc_heap clipped;            /* DECODE slots with more than clip_tokens to come; key = tick
                                        that reaches clip_tokens */
  int64_t future_key_sum;            /* of the others: tokens to come + tick */

  uint32_t ghosts;                   /* slots of requests that have ended */
  uint32_t ghost_decodes;            /* of those, DECODE */
  uint64_t ghost_held;               /* tokens with KV of the DECODE ghosts, at their end */
  uint32_t *settle;                  /* [max_running] slots to settle, in order */
  uint32_t settle_count;
  uint32_t *fresh;                   /* [max_running] DECODE slots whose last token did not come
                                        with the last tick */
  uint32_t fresh_count;
  kc_ps decoded_ps;                  /* end of the last tick */
  bool ran_decoding;                 /* the step that ran last was a tick */
  uint64_t paused_held;              /* tokens with KV of the paused decodes */
  uint32_t ungranted;                /* pages of the demand that the step formed last left open:
                                        what decodes that stand still would have taken */

  kc_ps now_ps;                      /* start of the step being formed */
  uint64_t tick;                     /* of the step being formed, if it decodes */
  struct kc_step step;               /* the delta under construction; its arrays are ours: */
  struct kc_join *join;              /* [max_running] */
  uint32_t *leave;                   /* [2 * max_running] */
  struct kc_grant *grant;            /* [2 * max_running] */
  struct kc_chunk *chunk;            /* [max_running] */
  uint32_t *pause;                   /* [max_running] */
  struct kc_ghost *ghost;            /* [max_running] */
  struct kc_refusal *refusal;        /* [KC_REFUSALS_MAX + 1]; more wait for the next forming */
  uint32_t refusal_count;

  uint64_t demand_pages;             /* whole pages of all offered requests, to the length that
                                        each has reached, shared ones once for each; the growth of
                                        the step being formed is in it once it is granted */
  uint64_t preemptions;

  /* Who waits counts nothing itself: what it waited for is the difference of these sums between
   * the end and the beginning of its wait. */
  bool short_of_pages;               /* somebody was turned away for want of pages when the step was
                                        formed; the policy's word, which sglang keeps while it does
                                        not look at who waits */
  kc_ps short_ps;                    /* time of the steps that ran with short_of_pages */
  kc_ps *short_before_ps;            /* [requests_max] short_ps when that request began to wait */
  kc_ps host_ps;                     /* host's part of all steps that ran */

  struct kc_fault_watch watch;       /* all NULL unless faults are injected */
};

enum { KC_REFUSALS_MAX = 64 };

size_t kc_batch_need(const struct kc_sched_config *config, const struct kc_policy *policy,
                     uint32_t requests_max); /* arena bytes */
/* `cache`: NULL without config->prefix_cache. */
enum kc_err kc_batch_init(struct kc_batch *batch, const struct kc_sched_config *config,
                          const struct kc_policy *policy, struct kc_pool *pool,
                          struct kc_table *table, struct kc_prefix_cache *cache,
                          const struct kc_request *requests, uint32_t requests_max,
                          struct kc_arena *arena);

static inline uint64_t kc_pages_of(uint64_t tokens, uint32_t page_size)
{
  return (tokens + page_size - 1) / page_size;
}

static inline struct kc_content kc_batch_content(const struct kc_batch *batch, uint32_t request)
{
  return (struct kc_content){.run = batch->requests[request].run,
                             .run_count = batch->requests[request].run_count};
}

/* Tokens that a request may produce by its limits; the scheduler may know this. */
uint32_t kc_batch_max_new(const struct kc_batch *batch, uint32_t request);

/* Pages that can be had: free ones, and cached ones that nobody uses. */
static inline uint32_t kc_batch_available(const struct kc_batch *batch)
{
  return batch->cache == NULL ? batch->pool->free_count : kc_prefix_cache_available(batch->cache);
}

/* ---- waiting queue ---- */

/* Tokens whose KV must exist before `waiting` can produce its next token. */
uint32_t kc_batch_known(const struct kc_batch *batch, const struct kc_waiting *waiting);
/* Takes one out without starting it and notes why. False when the list of refusals is full. */
bool kc_batch_refuse(struct kc_batch *batch, const struct kc_queue_place *place,
                     enum kc_reason reason);
/* A request arrives. `reason` other than NONE: it is not taken in, and nothing is counted. */
void kc_batch_arrive(struct kc_batch *batch, enum kc_reason reason);

/* ---- what a policy does while it forms a step ---- */

/* The longest beginning of its known tokens that is cached, all but the last token at most. */
struct kc_cache_match kc_batch_match(struct kc_batch *batch, const struct kc_waiting *waiting);
/* Starts one that waits: takes it from the queue, gives it a slot at the tail of the batch, the
 * matched pages, and a chunk of `tokens` tokens after them, for which kc_batch_fill must find pages
 * before the step is sealed. `match` comes from kc_batch_match, and nothing of the cache has
 * changed since. The caller has checked that a slot is free. */
uint32_t kc_batch_start(struct kc_batch *batch, const struct kc_queue_place *place,
                        const struct kc_cache_match *match, uint32_t tokens);
/* Starts one whose KV is in place: pages for all known tokens, which are there, and a place among
 * the decodes at once. */
uint32_t kc_batch_start_in_place(struct kc_batch *batch, const struct kc_queue_place *place);
/* The next `tokens` tokens of a prefill; kc_batch_fill must find pages for them. */
void kc_batch_continue(struct kc_batch *batch, uint32_t slot, uint32_t tokens);
/* Pages that the row of `slot` lacks for `tokens` more tokens. */
uint32_t kc_batch_lacks(const struct kc_batch *batch, uint32_t slot, uint32_t tokens);
/* Pages for the slot's chunk, noted last with `tokens`. False when pages are short. */
bool kc_batch_fill(struct kc_batch *batch, uint32_t slot, uint32_t tokens);
/* The first `tokens` tokens of the slot can be found by others, as far as they fill pages. Nothing
 * without prefix cache. */
void kc_batch_publish(struct kc_batch *batch, uint32_t slot, uint32_t tokens);
/* One page for every decode that needs one, in batch order, when there are enough for all; false
 * and nothing done when there are not. What kc_batch_grant_decode does singly, in one loop. */
bool kc_batch_grant_needy(struct kc_batch *batch);
/* One page for a decode. False when none is available. */
bool kc_batch_grant_decode(struct kc_batch *batch, uint32_t slot);
/* Does this decode need a page in the tick being formed? */
bool kc_batch_is_needy(const struct kc_batch *batch, uint32_t slot);
/* The decode stands still in the tick being formed. O(log batch). A ghost stops being one that
 * decodes. */
void kc_batch_pause(struct kc_batch *batch, uint32_t slot);
/* Puts a request back into the queue; its pages are given up, its outputs kept. A ghost just goes.
 * With PRIORITY it may have been served in this step already: its grants and chunks are taken
 * back. */
void kc_batch_preempt(struct kc_batch *batch, uint32_t slot);
/* Gives a running request up and notes why; room for one is kept beside KC_REFUSALS_MAX. */
void kc_batch_abort(struct kc_batch *batch, uint32_t slot, enum kc_reason reason);
/* Sum over the decodes, ghosts included, of min(tokens to come, clip_tokens). O(1) amortised. */
uint64_t kc_batch_future(struct kc_batch *batch);

/* Bucket of decodes that need a page in the tick being formed. */
static inline struct kc_list *kc_batch_needy(const struct kc_batch *batch)
{
  return &batch->ring[batch->tick % batch->config.page_size];
}

/* ---- what an instance does around a step ---- */

/* Fills the aggregates of the step just formed. */
void kc_batch_seal(struct kc_batch *batch);
/* The step that was formed is empty and will not run: nobody misses a tick. */
void kc_batch_resume(struct kc_batch *batch);
/* The step ran until `end_ps`: empties the delta and moves on. Call before those below. */
void kc_batch_advance(struct kc_batch *batch, kc_ps end_ps);
/* A prefill chunk of the step that ran is done; true when it was the last one: the slot decodes
 * from the next tick on. */
bool kc_batch_chunk_done(struct kc_batch *batch, const struct kc_chunk *chunk);
/* Where the time of the request in `slot` has gone until `now_ps`. */
struct kc_spent kc_batch_spent(const struct kc_batch *batch, uint32_t slot, kc_ps now_ps);
/* The same for one that waits, when short_ps is `short_ps`. */
struct kc_spent kc_batch_spent_waiting(const struct kc_batch *batch,
                                       const struct kc_waiting *waiting, kc_ps short_ps);
/* Tokens produced by the request in `slot`, the step that ran included. */
uint32_t kc_batch_outputs(const struct kc_batch *batch, uint32_t slot);
/* The last chunk of the slot's prompt is done: with RADIX, its pages are published when the list is
 * settled. */
void kc_batch_list_prompt(struct kc_batch *batch, uint32_t slot);
/* The request that decodes in `slot` has ended: it stops counting, and the slot is listed for
 * settling. With `decodes_on` it stays among the decodes until then. */
void kc_batch_retire(struct kc_batch *batch, uint32_t slot, bool decodes_on);
/* Publishes and releases what is listed, in its order. */
void kc_batch_settle(struct kc_batch *batch);
/* The request in `slot` is aborted, or was a ghost: frees pages and slot at once, publishes
 * nothing. Returns the first fault that freeing met, which is then already reported through the
 * pool's hook. */
enum kc_err kc_batch_end(struct kc_batch *batch, uint32_t slot);
/* A token came out of `slot` at `last_token_ps` in a step that was no tick. */
void kc_batch_note_fresh(struct kc_batch *batch, uint32_t slot, kc_ps last_token_ps);
/* Takes a slot from the list of fresh ones, if it is there. */
void kc_batch_forget_fresh(struct kc_batch *batch, uint32_t slot);
/* Offered decodes that need a page in the coming tick. O(ghosts). */
uint32_t kc_batch_growth(const struct kc_batch *batch);
/* Tokens with KV at the end of the step that was sealed, without ghosts. */
uint64_t kc_batch_held(const struct kc_batch *batch);

/* Every list, sum and heap recomputed the slow way. For tests and KC_ASSERT_SLOW. O(batch). */
bool kc_batch_valid(const struct kc_batch *batch);

#endif
