/* Operations on paged KV: write, decode attention, prefill attention, tag check.
 *
 * Attention over a row with context c reads tokens 0 .. c - 1 of its slot: token t is at
 * table.entry[slot * stride + t / page_tokens], offset t % page_tokens. Scores are
 * scale * (q . k), softmax over the context, output sum p * v.
 *   GQA   q [rows][q_heads][head_dim]; q head h reads kv head h / (q_heads / kv_heads);
 *         out [rows][q_heads][head_dim]
 *   MLA   absorbed: q [rows][q_heads][latent + rope] (latent part first), all heads read the one
 *         record; k = latent and rope parts, v = latent part; out [rows][q_heads][latent]
 * Log-sum-exp is natural: log(sum exp(scale * q . k)); -infinity for an empty context.
 * The table row of a slot must have been checked before (tag_check): attention reads only the page
 * id; an id out of range, possible only with integrity off, is a zero vector, never a read.
 */
#ifndef KC_KERNELS_OPS_OP_PAGED_H
#define KC_KERNELS_OPS_OP_PAGED_H

#include "kernels/ops/op_types.h"

/* Stores token r's K and V (MLA: its record) at position[r] of slot[r], quantised to the layer's
 * formats. The write carries the entry's (page, tag) and is refused, with an event and a verdict,
 * when the page is out of range or its tag is not the entry's; refused without an event when the
 * slot has a verdict already. position -1 or KC_NO_SLOT: skipped, not counted.
 * Rows run in any order: those of a slot that is found bad in this very call are written or refused
 * as it falls, where their own entry is good.
 * One slot's tokens of one call have distinct positions. */
struct kc_op_kv_write {
  uint32_t rows;
  const uint16_t *k; /* GQA [rows][kv_heads][head_dim]; MLA [rows][latent + rope], rotated */
  uint64_t k_stride;
  const uint16_t *v; /* GQA */
  uint64_t v_stride;
  const uint32_t *slot;    /* [rows] */
  const int32_t *position; /* [rows] */
  struct kc_page_table table;
  struct kc_kv_layer layer;
  struct kc_tag_state integrity;
};

/* ---- decode: split-KV, planned on the host ---- */

/* Tokens [start, start + count) of a batch row, the work of one block (per kv head). */
struct kc_split {
  uint32_t row;     /* KC_NO_SLOT: padding of a captured graph */
  uint32_t start;
  uint32_t count;
  uint32_t partial; /* where its partial result goes; KC_PARTIAL_NONE: the row has no other split,
                       write the output itself */
};

#define KC_PARTIAL_NONE 0xFFFFFFFFu

/* Partials of row r are row_first[r] .. row_first[r + 1] - 1, in order of start; none where the row
 * has fewer than two splits. A row of context 0 has no split: its output is zeroed by the merge.
 * Arrays are in the implementation's memory. */
struct kc_split_plan {
  const struct kc_split *split;
  uint32_t split_count;      /* padding included */
  const uint32_t *row_first; /* [rows + 1] */
  uint32_t partial_count;
};

struct kc_op_decode {
  uint32_t rows, q_heads;
  const uint16_t *q;
  uint64_t q_stride;
  const uint32_t *slot;    /* [rows] */
  const uint32_t *context; /* [rows], tokens to attend to; the new token's KV is written before */
  float scale;
  struct kc_page_table table;
  struct kc_kv_layer layer;
  const uint32_t *verdict; /* [slots]; NULL: none */
  struct kc_split_plan plan;
  float *partial_out;      /* [partial_count][q_heads][out dim], normalised within the split */
  float *partial_lse;      /* [partial_count][q_heads] */
  uint16_t *out;           /* [rows][q_heads][out dim] */
  uint64_t out_stride;
  float *lse;              /* [rows][q_heads]; NULL: not wanted */
};

/* ---- prefill: causal attention of chunks ---- */

/* Rows [row, row + count) of q are positions start .. start + count - 1 of the slot; position p
 * attends to tokens 0 .. p, all of them in pages already. */
struct kc_attention_chunk {
  uint32_t slot;
  uint32_t row;
  uint32_t start;
  uint32_t count;
};

struct kc_op_prefill {
  uint32_t chunks, q_heads;
  const struct kc_attention_chunk *chunk;      /* implementation's memory */
  const struct kc_attention_chunk *chunk_host; /* the same rows, host: sizes the launch */
  const uint16_t *q;
  uint64_t q_stride;
  float scale;
  struct kc_page_table table;
  struct kc_kv_layer layer;
  const uint32_t *verdict; /* NULL: none */
  uint16_t *out;
  uint64_t out_stride;
};

/* ---- tag check ---- */

/* Compares entries 0 .. entries[r] - 1 of the table rows of slot[r] with the pool's tags: an entry
 * is bad if its page is out of range (never read then), its tag is 0, or its tag is not the pool's;
 * or, where places are known, if the page belongs to another slot or to another entry of this one.
 * (A tag moves with its page when two entries change places, so it cannot tell.)
 * Each bad entry is an event and lowers the slot's verdict. Adds 1 to KC_COUNT_CHECKS and the
 * number of entries to KC_COUNT_ENTRIES. Rows with KC_NO_SLOT are skipped. A slot that already
 * has a verdict is checked all the same. */
struct kc_op_tag_check {
  uint32_t rows;
  const uint32_t *slot;    /* [rows], distinct */
  const uint32_t *entries; /* [rows], <= table.stride */
  struct kc_page_table table;
  struct kc_tag_state integrity; /* tag not NULL */
  /* [pages]: KC_PAGE_PLACE of the one entry that may name the page; 0: any may, because rows share
   * it. NULL: places are not looked at. */
  const uint64_t *place;
};

#endif
