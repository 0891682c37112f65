/* One pass of a block of tokens through a model: embedding, layers, logits, next tokens.
 *
 *   pieces   [slot 3: tokens 40 .. 55 | slot 0: token 7 | slot 9: token 112 | ...]   the rows
 *
 * A piece is a run of a sequence's tokens; its keys and values are written first, then all its rows
 * attend to what is in the pages, so a decode is a piece of one row and a prompt may come in pieces
 * of any size. A row's result depends on its own sequence alone: blocks may be cut anywhere and
 * given to any thread.
 *
 * A forward owns scratch for one thread. It writes to the slots' pages and verdicts, which no other
 * thread touches meanwhile, and to its own counters and ring.
 */
#ifndef KC_ENGINE_EXEC_FORWARD_H
#define KC_ENGINE_EXEC_FORWARD_H

#include "engine/exec/cache.h"
#include "engine/exec/weights.h"

enum { KC_FORWARD_RING = 64 };

struct kc_piece {
  uint32_t slot;
  uint32_t start, count; /* tokens [start, start + count) of the sequence */
  bool yields;           /* the last row's next token is wanted, */
  bool every;            /* and the logits of all its rows, not of the last one alone */
  float temperature;     /* 0: the likeliest token */
  uint64_t seed;         /* of the draws otherwise; a position is drawn for but once */
  int32_t token;         /* out: it; -1 when the slot has a verdict */
};

struct kc_forward {
  const struct kc_ops *ops;
  void *ops_context;
  const struct kc_weights *weights; /* borrowed, like the cache */
  const struct kc_cache *cache;
  struct kc_page_table table;
  struct kc_tag_state tags;         /* tag NULL: integrity off */
  uint64_t counter[KC_TAG_COUNTERS];
  struct kc_tag_event ring[KC_FORWARD_RING];
  uint32_t rows_max, rows;
  /* scratch, [rows_max] rows each */
  struct kc_attention_chunk *chunk;
  uint32_t *slot;
  int32_t *position;
  uint16_t *residual, *x, *delta;
  uint16_t *q, *kv, *full, *latent, *attention; /* GQA: q holds q, k and v */
  uint16_t *gate_up, *act;
  float *router_logits, *route_weight;
  int32_t *expert, *source, *place;
  uint32_t *first;
  uint16_t *expert_gate_up, *expert_act, *expert_out, *shared;
  int32_t *last;          /* rows that yield */
  uint32_t *last_slot;
  int32_t *last_position;
  float *last_temperature;
  uint64_t *last_seed;
  uint16_t *last_x;
  float *logits;
  int32_t *token;
  uint64_t logits_stride;
};

/* Arena bytes of a forward for blocks of up to rows_max rows. */
size_t kc_forward_need(const struct kc_recipe *recipe, uint32_t rows_max);

/* Runs on the reference operations, or any other whose memory is the host's. */
enum kc_err kc_forward_init(struct kc_forward *forward, const struct kc_ops *ops,
                            void *ops_context, const struct kc_weights *weights,
                            const struct kc_cache *cache, const struct kc_page_table *table,
                            uint32_t rows_max, struct kc_arena *arena);

/* `token`: the tokens of all pieces, one behind another; their counts add up to at most rows_max.
 * Tags and verdicts are taken from forward->tags. */
enum kc_op_status kc_forward_run(struct kc_forward *forward, struct kc_piece *piece,
                                 uint32_t pieces, const int32_t *token);

/* Logits of the last run: row i belongs to the i-th piece that yields; a piece with `every` has as
 * many rows of them as it has tokens. */
static inline const float *kc_forward_logits(const struct kc_forward *forward, uint32_t row)
{
  return forward->logits + row * forward->logits_stride;
}

#endif
