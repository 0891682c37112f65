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
 *
 * On a device what the host says about the rows (kc_inputs) is sent in one copy; decodes that stand
 * in front take the split-KV kernel; a pass of decodes alone runs as a graph, padded to the next
 * size that has one (graphs.h). Begin enqueues a pass, end waits for its tokens.
 */
#ifndef KC_ENGINE_EXEC_FORWARD_H
#define KC_ENGINE_EXEC_FORWARD_H

#include "engine/exec/cache.h"
#include "engine/exec/graphs.h"
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

/* What the host says about the rows of a pass. */
struct kc_inputs {
  int32_t *token, *position; /* [rows]; -1: padding */
  uint32_t *slot;            /* [rows] */
  uint32_t *context;         /* [rows] of decodes in front */
  struct kc_attention_chunk *chunk; /* [pieces] */
  int32_t *last;             /* [yields] rows that yield, and how their tokens are drawn */
  uint32_t *last_slot;
  int32_t *last_position;
  float *last_temperature;
  uint64_t *last_seed;
  struct kc_split *split;    /* plan of the decodes in front */
  uint32_t *row_first;
};

/* What one rank of a tensor-parallel group would wait for: the time of an all-reduce of `bytes`. */
struct kc_collective {
  void *context;
  uint64_t (*nanoseconds)(void *context, uint64_t bytes); /* NULL: the model is whole */
};

struct kc_forward_config {
  struct kc_site site; /* zeroed: the host */
  const struct kc_weights *weights; /* borrowed, like the cache; both at the site */
  const struct kc_cache *cache;
  struct kc_page_table table;
  uint32_t rows_max;
  uint32_t yields_max; /* rows of a pass that yield; 0: rows_max */
  bool eager;          /* a device runs no graphs */
  struct kc_collective collective;
  bool (*stop)(void *context); /* the host asks it (with NULL) before each layer; NULL: nobody */
};

struct kc_forward {
  struct kc_site site;
  const struct kc_weights *weights;
  const struct kc_cache *cache;
  struct kc_page_table table;
  struct kc_tag_state tags;         /* tag NULL: integrity off */
  uint64_t counter[KC_TAG_COUNTERS];
  struct kc_tag_event ring[KC_FORWARD_RING];
  struct kc_collective collective;
  uint64_t collective_ns;           /* on the host, where nobody waits: what it would have been */
  uint32_t rows_max, yields_max;
  uint32_t rows, pieces, yields;    /* of this pass */
  uint32_t singles;                 /* rows in front for the decode kernel */
  uint32_t splits, partials;        /* of their plan */
  uint32_t blocks;                  /* pieces of a plan that run at once; 0 on the host */
  uint32_t pieces_most;             /* beyond one a row, of any plan */
  struct kc_inputs host, in;        /* as the host writes them, as operations read them */
  unsigned char *host_base, *base;  /* of both */
  struct kc_graphs graphs;
  bool eager;
  bool (*stop)(void *context);
  struct kc_arena scratch, pinned;  /* a device's */
  /* scratch of the site, [rows_max] rows each */
  uint16_t *residual, *x, *delta;
  uint16_t *q, *kv, *full, *latent, *attention; /* GQA: q holds q, k and v */
  uint16_t *gate_up, *act;
  uint8_t *x8;            /* FP8 products of many rows: their inputs */
  float *x8_scale;
  float *router_logits, *route_weight;
  int32_t *expert, *source, *place_of; /* place_of: of a choice among the sorted */
  uint32_t *first;
  uint16_t *expert_gate_up, *expert_act, *expert_out, *shared;
  int32_t *heads_in_order; /* 0, 1, 2, ...: rows of heads as a gather's index */
  float *partial_out, *partial_lse;
  void *dense;            /* INT4 weights as BF16, for products of many rows (dense_product.h) */
  uint64_t dense_bytes;
  void *workspace;
  uint64_t workspace_bytes;
  uint16_t *last_x;
  float *logits;
  int32_t *token;         /* at the site */
  int32_t *token_host;
  uint64_t logits_stride;
};

/* Arena bytes of a forward on the host for blocks of up to rows_max rows. */
size_t kc_forward_need(const struct kc_recipe *recipe, uint32_t rows_max);

/* On the host scratch is taken from `arena`, and nothing needs to be given back; a device's forward
 * takes memory of its own (`arena` may be NULL) until kc_forward_deinit. KC_ERR_MEMORY;
 * KC_ERR_NO_FIT when a device has no room. */
enum kc_err kc_forward_init(struct kc_forward *forward, const struct kc_forward_config *config,
                            struct kc_arena *arena, struct kc_diag *diag);
void kc_forward_deinit(struct kc_forward *forward);

/* `token`: the tokens of all pieces, one behind another; their counts add up to at most rows_max.
 * Tags and verdicts are taken from forward->tags. Between begin and end the forward belongs to the
 * pass; `piece` may change. */
enum kc_op_status kc_forward_begin(struct kc_forward *forward, const struct kc_piece *piece,
                                   uint32_t pieces, const int32_t *token);
/* Waits; fills in the tokens of the pieces that yield. */
enum kc_op_status kc_forward_end(struct kc_forward *forward, struct kc_piece *piece,
                                 uint32_t pieces);
/* Both. */
enum kc_op_status kc_forward_run(struct kc_forward *forward, struct kc_piece *piece,
                                 uint32_t pieces, const int32_t *token);

/* Logits of the last run: row i belongs to the i-th piece that yields; a piece with `every` has as
 * many rows of them as it has tokens. Memory of the site. */
static inline const float *kc_forward_logits(const struct kc_forward *forward, uint32_t row)
{
  return forward->logits + row * forward->logits_stride;
}

#endif
