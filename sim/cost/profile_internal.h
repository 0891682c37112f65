/* Inside of a profile: shared by the evaluator, the loader and the fitter (sim/calibrate).
 *
 *   struct kc_profile
 *     fit[family]  physics (6 figures) + correction tables + range of every feature + residuals
 *     layered      tables in microseconds, by layer; attention of a mixed step
 *     numbers[]    one block of doubles that knots and values of all tables live in
 *
 * A table is multilinear on a grid of knots: axis a has knots[a] positions x0 < x1 < ..., in the
 * scale of its feature (log2 of a size, or the plain figure of a level such as 0/1). Outside the
 * grid the border value holds. */
#ifndef KC_SIM_COST_PROFILE_INTERNAL_H
#define KC_SIM_COST_PROFILE_INTERNAL_H

#include "engine/base/check.h"
#include "sim/cost/exact.h"
#include "sim/cost/profile.h"

/* ---- families (profile_physics.c) ---- */

enum { KC_FEATURES_MAX = 14, KC_TABLE_AXES_MAX = 4, KC_TABLES_MAX = 8, KC_KNOTS_MAX = 96,
       KC_TABLE_VALUES_MAX = 8192 };

struct kc_feature {
  const char *name;
  bool level;          /* interpolated in the figure itself, which may be 0; else in its log2 */
  bool ranged;         /* part of the fitted range: outside it a figure is extrapolated */
};

/* Features of a family; *count of them, at most KC_FEATURES_MAX. */
const struct kc_feature *kc_family_features(enum kc_family family, uint32_t *count);

/* What the operation must move and compute, and its features as plain figures. */
struct kc_work {
  double bytes, flops;           /* one GPU; all-reduce: bytes on the link */
  enum kc_math math;             /* whose rate bounds it */
  bool link;                     /* bytes go over the link, not to memory */
  double feature[KC_FEATURES_MAX];
};
void kc_family_work(enum kc_family family, const struct kc_device *device,
                    const struct kc_shape *shape, struct kc_work *work);

/* latency + max((bytes + bytes_half) / (bandwidth * BW), (flops + flops_half) / (rate * peak),
 *               bytes / (stream * multiprocessors))
 * The first two are efficiencies that are half of their full value at `half` and saturate beyond.
 * The third is what a multiprocessor takes in when converting, not memory, is the limit (FP8 to
 * BF16 in attention, INT4 in Marlin); it does not get faster with faster memory. */
struct kc_physics {
  double latency_us;
  double bandwidth, bytes_half;  /* (0, 2]: above 1 when a cache serves part; bytes */
  double rate, flops_half;       /* (0, 2]; operations */
  double stream_gb_s;            /* per multiprocessor; 0 = no such limit */
};
double kc_physics_us(const struct kc_physics *physics, const struct kc_device *device,
                     const struct kc_work *work);

/* ---- tables (profile_grid.c) ---- */

struct kc_grid {
  uint32_t axes;
  uint32_t feature[KC_TABLE_AXES_MAX]; /* index into the family's features, or a layered axis */
  uint32_t knots[KC_TABLE_AXES_MAX];
  double *knot[KC_TABLE_AXES_MAX];     /* scaled, ascending */
  double *value;                       /* last axis fastest */
};

/* Corner weights of a point: indices into value[] and their weights (sum 1), 2^axes of them. */
struct kc_corners {
  uint32_t count;
  uint32_t index[1 << KC_TABLE_AXES_MAX];
  double weight[1 << KC_TABLE_AXES_MAX];
};
uint32_t kc_grid_values(const struct kc_grid *table);
/* scaled[a]: position on axis a, already in the axis' scale. */
void kc_grid_corners(const struct kc_grid *table, const double *scaled,
                      struct kc_corners *corners);
double kc_grid_at(const struct kc_grid *table, const double *scaled);
/* A plain figure in the scale of a feature; figures of log features are at least 2^-40. */
double kc_feature_scale(const struct kc_feature *feature, double figure);

/* ---- the profile ---- */

enum { KC_SOURCE_BYTES = 256, KC_LAYERS_PER_PROFILE = 24, KC_NUMBERS_MAX = 1 << 17 };

struct kc_family_fit {
  bool present;
  char source[KC_SOURCE_BYTES];
  uint64_t rows;
  struct kc_residual held_out;
  struct kc_residual fitted;     /* the same over the rows that the fit saw */
  struct kc_physics physics;
  double low[KC_FEATURES_MAX], high[KC_FEATURES_MAX]; /* fitted range, plain figures */
  uint32_t table_count;
  struct kc_grid table[KC_TABLES_MAX];
};

/* A layer of a layered profile: one table over "units"; value = log2 of microseconds. */
struct kc_layer_fit {
  char name[32];
  bool by_sequences;             /* units are sequences, not tokens */
  struct kc_family_fit fit;
};

/* Attention of a layered profile, in four parts:
 *   DECODE   log2 us of a step of decodes alone, over decodes and decode_context
 *   PREFILL  log2 us of chunks alone, over prefill_tokens and past
 *   MIXED    log2 of (time of a mixed step / sum of the two), over all four
 *   SPREAD   share of the way from "all contexts are the mean" to "all are the longest" */
enum kc_mixed_part { KC_MIXED_DECODE, KC_MIXED_PREFILL, KC_MIXED_BOTH, KC_MIXED_SPREAD,
                     KC_MIXED_PARTS };
const char *kc_mixed_part_name(enum kc_mixed_part part); /* "decode", "prefill", ... */
const struct kc_feature *kc_mixed_features(uint32_t *count);
void kc_mixed_figures(const struct kc_mixed_step *step, double *figure);
const struct kc_feature *kc_layer_features(uint32_t *count);
/* Time with all decodes at `context`, from the first three parts. */
double kc_mixed_even_us(const struct kc_profile *profile, const struct kc_mixed_step *step,
                        double context);

struct kc_profile {
  enum kc_profile_kind kind;
  char name[64];
  char gpu[KC_GPU_NAME_BYTES];
  char path[KC_DIAG_PATH_BYTES];
  char sha256[65];
  struct kc_physics plain;       /* for families without a fit */
  double link_latency_us;        /* datasheet all-reduce */
  struct kc_family_fit fit[KC_FAMILIES];
  struct kc_layered_model layered;
  uint32_t layer_count;
  struct kc_layer_fit layer[KC_LAYERS_PER_PROFILE];
  struct kc_family_fit mixed[KC_MIXED_PARTS];
  double *numbers;               /* heap */
  size_t number_count, number_max;
};

/* Heap, zeroed, with room for `numbers` doubles; NULL when memory ran out. */
struct kc_profile *kc_profile_create(size_t numbers);
/* `count` doubles of the profile's block; NULL when it is full. */
double *kc_profile_numbers(struct kc_profile *profile, size_t count);

/* False when a ranged feature lies outside the box of the fit. */
bool kc_fit_covers(const struct kc_family_fit *fit, const struct kc_feature *features,
                   uint32_t count, const double *figure);

/* Sum of the tables of a fit at plain features, in log2. */
double kc_fit_correction(const struct kc_family_fit *fit, const struct kc_feature *features,
                         const double *figure);

#endif
