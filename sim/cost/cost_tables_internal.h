/* Inside of the tables: shared by their look-up and by what fills them. */
#ifndef KC_SIM_COST_COST_TABLES_INTERNAL_H
#define KC_SIM_COST_COST_TABLES_INTERNAL_H

#include "sim/cost/cost_tables.h"
#include "sim/cost/profile.h"

enum {
  KC_TABLE_FRACTION_BITS = 12, /* of the values: 2^-12 ps */
  KC_PREFILL_BATCH = 8,        /* chunks of the second prefill table */
  KC_TOKEN_BITS = 7,           /* knots an octave, as a power of two: by tokens. Every number below
                                  256: products work in tiles, so their times jump there */
  KC_ATTENTION_BITS = 2
};

struct kc_table1 {
  unsigned bits;
  uint32_t knots;
  uint64_t *value;
  uint64_t *outside;    /* what was not measured, as kc_cost_tables_outside */
};

struct kc_table2 {
  unsigned bits;        /* of both axes */
  uint32_t knots_a, knots_b;
  uint64_t *value;      /* [a][b] */
  uint64_t *outside;
};

struct kc_attention_table {
  int32_t cap;          /* index of the window, -1 = whole context */
  uint64_t window;
  struct kc_table2 decode;     /* batch, context */
  struct kc_table2 prefill[2]; /* tokens, context; alone and of eight */
};

struct kc_cost_tables {
  const struct kc_profile *kernels;
  bool is_layered;
  double layers;        /* layered: attention calls of a step */
  double spread_share;  /* of struct kc_gpu_profile */
  /* Layered: from so many decodes on a kernel no longer splits a sequence among blocks, and the
   * first measured batch that is so. */
  double whole_from, whole_measured;
  struct kc_table1 tokens, logits;
  uint32_t group_count;
  struct kc_attention_table group[KC_KV_GROUPS_MAX];
  uint64_t *values, *outsides; /* own all of the above */
};

/* Microseconds to table units, nearest. */
static inline uint64_t kc_table_units(double us)
{
  const double units = us * 1e6 * (1 << KC_TABLE_FRACTION_BITS);
  KC_ASSERT(units >= 0);
  KC_ASSERT(units < 9e18);
  return (uint64_t)(units + 0.5);
}

#endif
