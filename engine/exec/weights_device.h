/* Weights whose arrays lie on a device: made there, or sent there. For weights.c. */
#ifndef KC_ENGINE_EXEC_WEIGHTS_DEVICE_H
#define KC_ENGINE_EXEC_WEIGHTS_DEVICE_H

#include "engine/exec/site.h"
#include "kernels/formats/quantise.h"

/* True for the formats that device kernels multiply by: bf16, fp8, int4. */
bool kc_weights_device_runs(enum kc_weight_format format);

/* Gives an INT4 weight the fragment order, and the sizes of that; leaves others alone. */
void kc_weights_device_layout(const struct kc_site *site, struct kc_weight *weight,
                              struct kc_quantised_sizes *sizes);

/* The synthetic matrix `name` at `out` on the device. */
enum kc_err kc_weights_synthesise(const struct kc_site *site, uint64_t seed, const char *name,
                                  uint64_t rows, uint64_t cols, uint16_t *out,
                                  struct kc_diag *diag);
/* bf16 on the device into the format and layout of `weight`, at `to` on the device. */
enum kc_err kc_weights_quantise(const struct kc_site *site, const struct kc_weight *weight,
                                const uint16_t *bf16, const struct kc_quantised *to,
                                struct kc_diag *diag);

/* A weight in canonical layout on the host, on its way. */
struct kc_weights_staging {
  struct kc_quantised arrays;
  struct kc_quantised_sizes sizes;
};

enum kc_err kc_weights_stage(struct kc_weights_staging *staging, const struct kc_weight *weight,
                             struct kc_diag *diag);
/* Packs it as `weight` says and sends it to `to`. */
enum kc_err kc_weights_send(const struct kc_site *site, const struct kc_weights_staging *staging,
                            const struct kc_weight *weight, const struct kc_quantised *to,
                            struct kc_diag *diag);
void kc_weights_unstage(struct kc_weights_staging *staging);

#endif
