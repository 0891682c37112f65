/* A paged cache under test, with the logical tokens beside it.
 *
 *   logical   k[slot][token][head][dim], v likewise, as values: what a contiguous cache would hold
 *   paged     the same tokens, written by the kv_write operation into shuffled pages; every byte
 *             that no token owns is 0xFF, a NaN in every format, and every table entry behind a
 *             context is a page far out of range
 *
 * The naive attention reads only the logical side.
 */
#ifndef KC_TESTS_PAGED_BED_H
#define KC_TESTS_PAGED_BED_H

#include "kernels/ops/ops.h"

struct paged_shape {
  enum kc_paged_kind kind;
  enum kc_kv_format k_format, v_format;
  uint32_t page_tokens, kv_heads, group, head_dim, latent, rope;
  uint32_t slots, context_max;
};

struct paged_bed {
  struct paged_shape shape;
  struct kc_kv_layer layer;
  struct kc_page_table table;
  struct kc_page_ref *entry;
  uint32_t *tag, *verdict, *context;
  uint64_t counter[KC_TAG_COUNTERS];
  struct kc_tag_event ring[64];
  struct kc_tag_state integrity;
  uint32_t q_heads, q_dim, v_dim, row_entries;
  uint16_t *k_input, *v_input; /* [slot][token][kv_heads * dim], what is written */
  double *k, *v;               /* the same, as the cache's format keeps it */
  float *k_scale, *v_scale;
};

void paged_bed_make(struct paged_bed *bed, const struct paged_shape *shape, uint64_t seed);
void paged_bed_free(struct paged_bed *bed);

/* A kv_write of `count` tokens of a slot from `start` on; arrays come from the bed. */
enum kc_op_status paged_bed_write(struct paged_bed *bed, uint32_t slot, uint32_t start,
                                  uint32_t count);

/* Attention of one query head over tokens 0 .. context - 1 of a slot, in double, two passes. */
void paged_bed_naive(const struct paged_bed *bed, uint32_t slot, uint32_t context, uint32_t q_head,
                     const uint16_t *q, double scale, double *out, double *lse);

#endif
