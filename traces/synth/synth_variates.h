/* Gaps between arrivals with mean 1, as renewal processes of four families, in units of 2^-32. */
#ifndef KC_TRACES_SYNTH_VARIATES_H
#define KC_TRACES_SYNTH_VARIATES_H

#include "engine/base/random.h"
#include "traces/synth/fixed_math.h"

enum kc_gap_family { KC_GAP_CONSTANT, KC_GAP_POISSON, KC_GAP_GAMMA, KC_GAP_WEIBULL };

/* Shapes that can be drawn, in billionths. */
#define KC_GAMMA_SHAPE_MIN_NANO UINT64_C(100000)            /* 0.0001: CV 100 */
#define KC_GAMMA_SHAPE_MAX_NANO UINT64_C(10000000000000)    /* 10,000: CV 0.01 */
#define KC_WEIBULL_SHAPE_MIN_NANO UINT64_C(100000000)       /* 0.1: CV 430 */
#define KC_WEIBULL_SHAPE_MAX_NANO UINT64_C(100000000000)    /* 100: CV 0.013 */

struct kc_gap {
  enum kc_gap_family family;
  uint64_t shape_q32;   /* gamma, Weibull */
  int64_t ln_scale_q32; /* Weibull: -ln Gamma(1 + 1/shape), which makes the mean 1 */
};

/* `shape_nano` must lie within the family's bounds; ignored by the first two families. */
void kc_gap_init(struct kc_gap *gap, enum kc_gap_family family, uint64_t shape_nano);

/* The shape whose gaps have this coefficient of variation, 0.02 <= cv <= 100, clamped to the
 * family's bounds. Gamma: 1 / cv^2. Weibull: by bisection of its closed form. */
uint64_t kc_gap_shape_of_cv(enum kc_gap_family family, uint64_t cv_nano);

/* From one arrival to the next. */
uint64_t kc_gap_draw_q32(const struct kc_gap *gap, struct kc_random *random);
/* From an instant chosen at random to the next arrival (the equilibrium gap): a process that starts
 * so has its mean rate from the start, however uneven its gaps. */
uint64_t kc_gap_first_q32(const struct kc_gap *gap, struct kc_random *random);

/* Gamma(shape, 1) for shape >= 1, and the standard normal. */
uint64_t kc_random_gamma_q32(struct kc_random *random, uint64_t shape_q32);
int64_t kc_random_normal_q32(struct kc_random *random);

#endif
