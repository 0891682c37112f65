/* Growing rows of a trace in the making, and turning them into a struct kc_trace (private to
 * traces/synth). */
#ifndef KC_TRACES_SYNTH_SYNTH_BUILD_H
#define KC_TRACES_SYNTH_SYNTH_BUILD_H

#include "traces/synth/synth.h"

#define KC_SYNTH_NO_ROW UINT64_MAX

struct kc_synth_item {
  kc_ps arrival_ps;
  uint64_t order;        /* ties of arrivals go by this; unique */
  uint64_t after;        /* `order` of the row to wait for, or KC_SYNTH_NO_ROW */
  kc_ps wait_ps;
  uint64_t own_first;    /* ids: `shared` from shared_first, then the rest from own_first */
  uint64_t shared_first;
  uint32_t shared, blocks;
  uint32_t input_tokens, output_tokens;
  uint32_t session;
  uint8_t flags;
};

struct kc_synth_build {
  struct kc_synth_item *item; /* heap; order = index when added */
  uint64_t count, capacity;
};

/* Appends; sets `order`. Errors: KC_ERR_MEMORY, KC_ERR_LIMIT. */
enum kc_err kc_synth_add(struct kc_synth_build *build, struct kc_synth_item item,
                         struct kc_diag *diag);
void kc_synth_build_free(struct kc_synth_build *build);

/* Sorts the rows and fills `trace` with them. `ids`: largest raw id + 1, 0 = no ids. */
struct kc_synth_shape {
  bool sessions;
  uint64_t ids;
  uint32_t block_tokens;
  enum kc_tail_rule tail;
  uint64_t rows_max; /* keeps the earliest so many; 0 = all. Not with sessions */
};
enum kc_err kc_synth_finish(struct kc_synth_build *build, const struct kc_synth_shape *shape,
                            struct kc_trace *trace, struct kc_diag *diag);

/* Sums, span, ties, first arrival to 0, name; rows must be in order. */
void kc_synth_seal(struct kc_trace *trace);

/* Arrivals of a spec, one after another. */
struct kc_arrivals {
  struct kc_rate_curve curve;
  struct kc_rate_cursor cursor;
  struct kc_gap gap;
  struct kc_random random;
  bool started;
};
enum kc_err kc_arrivals_init(struct kc_arrivals *arrivals, const struct kc_synth_spec *spec,
                             struct kc_diag *diag);
bool kc_arrivals_next(struct kc_arrivals *arrivals, kc_ps *when_ps); /* false: none any more */
void kc_arrivals_free(struct kc_arrivals *arrivals);
/* What to say when the arrivals ended after `count` of spec->rows. KC_OK when that is right. */
enum kc_err kc_arrivals_check(const struct kc_synth_spec *spec, uint64_t count,
                              struct kc_diag *diag);

#endif
