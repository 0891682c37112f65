/* From samples to the families of a profile: hold-out, physics, tables, residuals.
 *
 *   samples --split by seed--> kept out (never seen)  +  fitted rows
 *   fitted rows --Nelder-Mead--> physics --least squares--> tables, rounded as the file holds them
 *   kept out  --the finished fit--> residuals of the profile */
#ifndef KC_SIM_CALIBRATE_KERNEL_FIT_H
#define KC_SIM_CALIBRATE_KERNEL_FIT_H

#include "sim/calibrate/timing_rows.h"
#include "sim/cost/profile_internal.h"

struct kc_fit_options {
  uint32_t hold_out_percent; /* 0..90; 0 = all rows are fitted and nothing is known about others */
  uint64_t seed;             /* of the split */
  const char *source;        /* who measured, put before the kernels' names */
};

/* Fits every family that has at least KC_FIT_ROWS_MIN samples; the others stay absent. Rows of the
 * same shape are kept out or fitted together. Errors: KC_ERR_INPUT, KC_ERR_MEMORY, KC_ERR_LIMIT. */
enum { KC_FIT_ROWS_MIN = 16 };
enum kc_err kc_fit_families(struct kc_profile *profile, const struct kc_samples *samples,
                            const struct kc_device *device, const struct kc_fit_options *options,
                            struct kc_diag *diag);

/* |predicted / measured - 1| of all samples of a family under a profile. */
enum kc_err kc_score_family(const struct kc_profile *profile, const struct kc_samples *samples,
                            const struct kc_device *device, enum kc_family family,
                            struct kc_residual *out, struct kc_diag *diag);

/* Median and 90th percentile (nearest rank) of errors[0, count), which is sorted here. */
struct kc_residual kc_residual_of(double *errors, size_t count);

/* Marks out[i] = 1 for about `percent` of 100 of the rows: `same[i]` says that row i has the shape
 * of row i - 1 and shares its fate. */
void kc_hold_out(unsigned char *out, const unsigned char *same, size_t rows, uint32_t percent,
                 uint64_t seed, const char *name);

#endif
