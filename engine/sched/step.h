/* The step contract between scheduler and executor.
 *
 * A step is a batch delta plus aggregates. A predicted executor reads the aggregates; a real one
 * applies the delta to its slot-indexed tables. Neither side knows the other: the scheduler never
 * sees a request's true output length, the executor never decides who runs.
 *
 * Order of a step s:
 *   1. the policy forms it: left (preempted now, or ended after step s-1), joined, grants, chunks
 *   2. the executor runs it: duration, slots that finished with it
 *   3. the instance advances its clock, turns finished prefills into decodes, ends requests
 *
 * Contexts. A decoding slot with c tokens of KV computed before step s writes token c in step s and
 * attends to c + 1 tokens: its context in step s is c + 1. A chunk of n tokens that starts at
 * `start` attends to start + 1, ..., start + n tokens.
 *
 * Decode clock. Some servers compute prompts in steps of their own, in which the decodes stand
 * still (`decoding` is false). `tick` counts the steps with decoding; a decode makes one token a
 * tick. A decode that is left out of a tick although the others make a token is named in `pause`.
 *
 * Ghosts. With overlapped scheduling a step is formed before the results of the one before it are
 * known, so a slot whose request has just ended may decode once more: it counts in the aggregates,
 * and its token is thrown away. It leaves with the delta of the step after. `ghost` names those
 * slots, also the ones that only hold their pages: requests may end by being given up, which an
 * executor does not hear of otherwise.
 *
 * Shared pages. A row begins with pages that the prefix cache knows: table->shared[slot] of them.
 * When that number grows, the entries that it newly covers may name other pages than they did when
 * they were granted, pages with the same content: whoever keeps a copy of the rows copies those
 * again. With vllm-0.19 a prompt's pages are findable in the very step that computes them, so a
 * join of the same step may read what another slot's chunk writes; and where a chunk was taken
 * back, nobody has written them yet.
 */
#ifndef KC_ENGINE_SCHED_STEP_H
#define KC_ENGINE_SCHED_STEP_H

#include "engine/base/vtime.h"

struct kc_key_run; /* engine/kv/content.h */

enum { KC_CAPS_MAX = 4 };

/* A request as it is offered to an instance. Its index in the request table is its identity. */
struct kc_request {
  kc_ps arrival_ps;
  uint32_t input_tokens;  /* >= 1 */
  uint32_t output_tokens; /* true length, >= 1: for the executor alone */
  uint32_t max_tokens;    /* limit that the client set, >= 1 */
  int32_t priority;       /* for policies that look at it: lower is sooner */
  uint32_t tenant;        /* for results; sharing is decided by the keys alone */
  uint32_t class_index;   /* class of service, for results */
  uint32_t run_count;     /* 0: contents unknown, legal without prefix cache only */
  const struct kc_key_run *run; /* keys of floor((input_tokens + output_tokens) / page_size) pages;
                             borrowed, outlives the run */
};

/* Tokens that a request will produce: true length, cut by max_tokens and max_model_len
 * (input_tokens < max_model_len). For executors and accounting; a scheduler must not look. */
static inline uint32_t kc_request_output(const struct kc_request *request, uint64_t max_model_len)
{
  KC_ASSERT(request->input_tokens < max_model_len);
  const uint64_t room = max_model_len - request->input_tokens;
  uint32_t output = request->output_tokens;
  if (request->max_tokens < output) output = request->max_tokens;
  return output < room ? output : (uint32_t)room;
}

struct kc_join {
  uint32_t slot;
  uint32_t request;    /* index in the request table */
  uint32_t known;      /* tokens whose KV must exist before the next one: prompt + outputs */
  uint32_t outputs;    /* outputs produced before (> 0 after a preemption) */
  uint32_t cached;     /* tokens at the beginning whose KV was found in the prefix cache */
  bool kv_in_place;    /* decode role: all but the last known token already have KV */
};

/* Pages [first, first + count) of a slot's table row were filled. */
struct kc_grant {
  uint32_t slot;
  uint32_t first;
  uint32_t count;
};

/* Part of a prompt computed in this step. */
struct kc_chunk {
  uint32_t slot;
  uint32_t start; /* tokens computed before */
  uint32_t count; /* >= 1 */
  bool last;      /* completes the known tokens: the step yields a token for this slot */
};

/* A slot whose request has ended. */
struct kc_ghost {
  uint32_t slot;
  bool decodes; /* it decodes in this step; else it only holds its pages */
};

/* Integers that decide a step's duration. Sums are over the batch of this step. */
struct kc_aggregates {
  uint32_t decodes;            /* slots that decode one token, ghosts included */
  uint32_t chunks;             /* prefill chunks */
  uint32_t logits;             /* sequences that yield a token: decodes + chunks with `last` */
  uint64_t prefill_tokens;     /* sum of chunk counts */
  uint64_t decode_context;     /* sum of contexts of the decodes */
  uint64_t decode_context_max; /* longest of them, 0 without decodes */
  uint64_t decode_capped[KC_CAPS_MAX]; /* sum of min(context, W_i) */
  uint64_t prefill_pairs;      /* sum over chunks of (start + 1) + ... + (start + n) */
  uint64_t prefill_context;    /* sum over chunks of start + n (KV read once per chunk) */
  uint64_t prefill_capped_pairs[KC_CAPS_MAX];   /* sum of min(start + j, W_i), j = 1..n */
  uint64_t prefill_capped_context[KC_CAPS_MAX]; /* sum of min(start + n, n + W_i - 1) */
  uint64_t table_entries;      /* block-table entries of the batch, for the integrity check */
};

struct kc_table; /* engine/kv/table.h */
struct kc_pool;  /* engine/kv/pool.h */

/* Arrays belong to the batch and are valid until the next step is formed. */
struct kc_step {
  uint64_t index;      /* 0, 1, 2, ... of this instance */
  uint64_t tick;       /* steps with decoding before this one; = index when all are */
  kc_ps start_ps;
  bool decoding;       /* the decodes of the batch make a token each, but for the paused ones */
  bool composition_changed; /* decodes joined or left since the last step, or chunks in either */
  uint32_t join_count, leave_count, grant_count, chunk_count, pause_count, ghost_count;
  const struct kc_join *join;
  const uint32_t *leave;   /* slots freed since the last step, in order; applied before joins */
  const struct kc_grant *grant; /* also the pages that a request found in the prefix cache */
  const struct kc_chunk *chunk;
  const uint32_t *pause;   /* decodes that stand still in this tick */
  const struct kc_ghost *ghost; /* in the order in which they ended */
  struct kc_aggregates sum;
  /* For executors that compute: the rows that grants name, to be copied when granted, and the pool
   * whose tags a check compares with. Constant for the life of an instance. */
  const struct kc_table *table;
  const struct kc_pool *pool;
};

/* A slot whose row names a page that is not its own. No token of this step leaves for it: it is not
 * in `finish`, and a prompt that the step would have completed yields nothing. */
struct kc_violation {
  uint32_t slot;
  uint32_t page;
  enum kc_err code;
};

struct kc_step_result {
  kc_ps duration_ps;         /* > 0 */
  kc_ps host_ps;             /* of it, what the host takes while the device waits; 0 = not known */
  uint32_t finish_count;     /* slots whose request is complete with this step's token; no ghosts */
  const uint32_t *finish;    /* executor's memory, valid until its next call; ascending order of
                                the slots' join */
  uint32_t violation_count;
  const struct kc_violation *violation;
};

/* ---- executor ---- */

struct kc_executor {
  void *context;
  const char *name; /* "predicted", "cpu", "cuda" */
  /* Runs one step. Errors end the run (device lost, internal limit); violations do not. */
  enum kc_err (*run)(void *context, const struct kc_step *step, struct kc_step_result *result,
                     struct kc_diag *diag);
};

#endif
