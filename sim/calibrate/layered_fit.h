/* Fits a layered profile: whole layers of one model, as a profiler of a serving engine times them.
 *
 *   dense.csv        layer, tokens, time_us
 *   per_sequence.csv layer, sequences, time_us
 *   attention.csv    prefill_chunk, kv_prefill, n_decode, kv_decode, time_us   one mixed step
 *   skew.csv         unequal contexts: n, pc, kp, kv_big, kv_mean, t_mean_us, t_max_us, t_skew_us
 *   meta.yaml        model, engine limits, shapes of the last tensor degree profiled */
#ifndef KC_SIM_CALIBRATE_LAYERED_FIT_H
#define KC_SIM_CALIBRATE_LAYERED_FIT_H

#include "sim/calibrate/kernel_fit.h"

struct kc_mixed_row {
  struct kc_mixed_step step;
  double us;
  double mean_us, longest_us; /* skew rows: with all contexts the mean, and all the longest */
};

struct kc_layer_row {
  uint32_t layer;             /* index into name[] */
  double units, us;
};

struct kc_layered_rows {
  struct kc_layer_row *layer;  /* heap */
  size_t layer_count;
  struct kc_mixed_row *mixed;  /* heap */
  size_t mixed_count;
  struct kc_mixed_row *spread; /* heap */
  size_t spread_count;
  uint32_t name_count;
  char name[KC_LAYERS_PER_PROFILE][32];
  bool by_sequences[KC_LAYERS_PER_PROFILE];
  struct kc_layered_model model;
};

/* True when the file's name is one of those above. */
bool kc_layered_is_part(const char *path);

/* Appends a file. `*rows` starts as {0}. Errors as kc_samples_read. */
enum kc_err kc_layered_read(struct kc_layered_rows *rows, const char *path, struct kc_diag *diag);
void kc_layered_free(struct kc_layered_rows *rows);

/* Fills layers and attention of a profile. dense and attention rows must be there. */
enum kc_err kc_fit_layered(struct kc_profile *profile, const struct kc_layered_rows *rows,
                           const struct kc_fit_options *options, struct kc_diag *diag);

/* Residuals of a finished profile over rows: layer `index` (mixed part when `part`). */
enum kc_err kc_score_layer(const struct kc_profile *profile, const struct kc_layered_rows *rows,
                           int layer, struct kc_residual *out, struct kc_diag *diag);
enum kc_err kc_score_mixed(const struct kc_profile *profile, const struct kc_layered_rows *rows,
                           enum kc_mixed_part part, struct kc_residual *out, struct kc_diag *diag);

#endif
