/* What can be done to a trace in memory: cut it, thin it, stretch it, hide it.
 *
 *   filter -> window -> skip, limit -> sample -> shard -> open loop -> idle cap -> rate -> spread
 *          -> anonymise
 *
 * Every step works in place, keeps all columns of the trace consistent, and adds what it dropped or
 * altered to `change`; nothing is silent. A step alone may be called too; the order above is that
 * of kc_trace_transform. All are deterministic: equal trace, options and seed give equal bytes.
 *
 * Rows that wait (`after`) for a row that is dropped wait for the nearest kept row that it waited
 * for, and the waits add up; where none is kept they start at their recorded arrival. */
#ifndef KC_TRACES_TRANSFORM_TRANSFORM_H
#define KC_TRACES_TRANSFORM_TRANSFORM_H

#include "traces/trace.h"

/* Counted changes; the names are printed as they are. */
enum kc_trace_change {
  KC_CHANGE_FAILED_DROPPED,
  KC_CHANGE_CANCELLED_DROPPED,
  KC_CHANGE_WINDOW_DROPPED,
  KC_CHANGE_SKIP_DROPPED,
  KC_CHANGE_LIMIT_DROPPED,
  KC_CHANGE_SAMPLE_DROPPED,
  KC_CHANGE_SHARD_DROPPED,
  KC_CHANGE_RELINKED,    /* rows that now wait for an earlier row, their own being dropped */
  KC_CHANGE_DETACHED,    /* rows that now start at their arrival, nothing they waited for is kept */
  KC_CHANGE_OPENED,      /* rows that waited and now start at their arrival, as asked */
  KC_CHANGE_GAPS_CAPPED, /* stretches in which nobody was active, cut to the cap */
  KC_CHANGE_GAP_REMOVED_MS, /* what that took out of the trace, in ms, rounded down */
  KC_CHANGE_RATE_SCALED, /* rows whose arrival was scaled */
  KC_CHANGE_SPREAD,      /* rows moved within their tick */
  KC_CHANGE_SHIFTED_MS,  /* how far the first kept arrival was moved to 0, in ms, rounded down */
  KC_CHANGE_ANONYMISED,  /* names of kinds replaced */
  KC_CHANGES
};
/* Stable key, for JSON and tests: "window_dropped", ... Never NULL. */
const char *kc_trace_change_name(enum kc_trace_change change);
/* For people, to follow a count: "rows outside the window dropped". Never NULL. */
const char *kc_trace_change_text(enum kc_trace_change change);

/* An exact fraction; both terms positive. */
struct kc_fraction {
  uint64_t numerator, denominator;
};

/* "3/4", "0.75", "2": decimal or fraction, each term at most 10^9 after reduction. False otherwise,
 * and for 0. */
bool kc_fraction_parse(const char *text, struct kc_fraction *fraction);

struct kc_transform {
  bool drop_failed, drop_cancelled; /* rows without output: a policy of the reader */
  kc_ps from_ps, to_ps;          /* keeps from <= arrival < to; to = KC_PS_NEVER: no end */
  uint64_t skip_rows, limit_rows; /* limit = UINT64_MAX: no end */
  struct kc_fraction sample;     /* share of sessions (of rows, without sessions) kept; 1/1 = all */
  uint64_t shard, shards;        /* keeps shard 1 .. shards; shards = 1: all */
  bool open_loop;                /* rows no longer wait for others */
  kc_ps idle_cap_ps;             /* KC_PS_NEVER: none */
  struct kc_fraction rate;       /* arrivals come numerator / denominator times as fast */
  kc_ps spread_ps;               /* 0: none */
  bool anonymise;
  uint64_t seed;                 /* of sample, spread, anonymise */
};
void kc_transform_default(struct kc_transform *transform); /* changes nothing; seed 1 */

/* All that `transform` asks for. Errors: KC_ERR_USAGE for a transform that makes no sense (shard 3
 * of 2), KC_ERR_INPUT when no row is left or a time leaves the range of kc_ps, KC_ERR_MEMORY. After
 * an error the trace is valid but may be half done; free it. */
enum kc_err kc_trace_transform(struct kc_trace *trace, const struct kc_transform *transform,
                               uint64_t change[KC_CHANGES], struct kc_diag *diag);

/* ---- single steps ---- */

/* Keeps the rows whose keep[i] is non-zero, in order: compacts every column, re-links `after`,
 * renumbers sessions by first appearance, drops prefix ids nobody shows, moves the first arrival to
 * 0 and refreshes the sums. Needs at least one kept row. O(rows + blocks). */
enum kc_err kc_trace_keep_rows(struct kc_trace *trace, const uint8_t *keep,
                               uint64_t change[KC_CHANGES], struct kc_diag *diag);

/* Cuts every stretch in which no request is active, from the end of the last one to the next
 * arrival, to `cap_ps`. A request ends where the ones that wait for it say so (their arrival less
 * their wait) and else counts as a point: idle stretches of one session during which another is
 * active stay as they are. Waits across a cut stretch shrink by the same amount. */
enum kc_err kc_trace_cap_idle(struct kc_trace *trace, kc_ps cap_ps, uint64_t change[KC_CHANGES],
                              struct kc_diag *diag);

/* arrival * denominator / numerator, rounded half up; order and ties stay, waits do not change. */
enum kc_err kc_trace_scale_rate(struct kc_trace *trace, struct kc_fraction rate,
                                uint64_t change[KC_CHANGES], struct kc_diag *diag);

/* Coarse clocks: rows that share an instant are spread, uniformly by the seed, over [instant,
 * instant + width), or up to the next instant if that is nearer. Order stays. */
enum kc_err kc_trace_spread(struct kc_trace *trace, kc_ps width_ps, uint64_t seed,
                            uint64_t change[KC_CHANGES], struct kc_diag *diag);

/* Prefix ids and kinds are renumbered by a seeded permutation, kinds are called "kind-1", ...;
 * lengths, times, sessions (numbers already) and which ids are equal stay. */
enum kc_err kc_trace_anonymise(struct kc_trace *trace, uint64_t seed, uint64_t change[KC_CHANGES],
                               struct kc_diag *diag);

/* Recomputes what follows from the rows: span, sums, longest, ties. */
void kc_trace_refresh(struct kc_trace *trace);

#endif
