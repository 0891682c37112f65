/* A rate that changes in steps, and walking along it: arrivals of a renewal process with mean gap 1
 * are laid along the integral of the rate, so that each step has its rate and the gaps keep their
 * unevenness (for Poisson this is the process that thinning gives). */
#ifndef KC_TRACES_SYNTH_RATE_H
#define KC_TRACES_SYNTH_RATE_H

#include "engine/base/random.h"
#include "engine/base/vtime.h"

#define KC_RATE_MAX_NHZ UINT64_C(1000000000000000) /* a million requests per second */

struct kc_rate_piece {
  kc_ps until_ps;    /* ends here; starts where its predecessor ends */
  uint64_t rate_nhz; /* 10^-9 requests per second; 0 = silence */
};

struct kc_rate_curve {
  struct kc_rate_piece *piece; /* heap */
  size_t count, capacity;
};

/* How the rate moves. A zeroed struct with a rate is a constant rate. */
struct kc_rate_spec {
  uint64_t rate_nhz;           /* mean over a week, bursts apart */
  uint64_t diurnal_nano;       /* swing of the day: 0 = none, 10^9 = the quietest hour is silent */
  uint64_t weekend_nano;       /* a weekend day's share of a weekday; 10^9 = alike */
  bool weekly;                 /* the two above apply */
  kc_ps start_ps;              /* of the trace, after Monday 00:00 */
  kc_ps burst_every_ps;        /* mean time between starts of bursts, 0 = none */
  kc_ps burst_length_ps;
  uint64_t burst_factor_nano;  /* the rate within a burst, times this */
};

/* The curve from 0 to `duration_ps`. Errors: KC_ERR_MEMORY; KC_ERR_LIMIT above 10^6 pieces or above
 * KC_RATE_MAX_NHZ. */
enum kc_err kc_rate_curve_build(struct kc_rate_curve *curve, const struct kc_rate_spec *spec,
                                kc_ps duration_ps, uint64_t seed, struct kc_diag *diag);
/* Appends a piece; until_ps must exceed the last one's. */
enum kc_err kc_rate_curve_add(struct kc_rate_curve *curve, kc_ps until_ps, uint64_t rate_nhz,
                              struct kc_diag *diag);
void kc_rate_curve_free(struct kc_rate_curve *curve);

struct kc_rate_cursor {
  const struct kc_rate_curve *curve; /* borrowed */
  size_t at;           /* piece */
  kc_u128 used;        /* of its integral, in ps x nHz; 10^21 = one request */
};

void kc_rate_cursor_init(struct kc_rate_cursor *cursor, const struct kc_rate_curve *curve);
/* Moves on by gap / 2^32 mean gaps. False when the curve ends before. */
bool kc_rate_advance(struct kc_rate_cursor *cursor, uint64_t gap_q32, kc_ps *when_ps);

#endif
