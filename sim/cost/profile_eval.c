/* The time of one operation: physics of its family times its corrections (see profile.h).
 *
 *   shape --kc_family_work--> work --kc_physics_us--> us --tables of the fit--> us * 2^correction
 *                               \--features inside the fitted range?--> trust
 */
#include "sim/cost/profile_internal.h"

struct kc_device kc_device_of(const struct kc_gpu *gpu)
{
  KC_ASSERT(gpu->memory_bandwidth > 0);
  struct kc_device device = {.memory_bandwidth = gpu->memory_bandwidth,
                             .link_latency_us = gpu->link_latency_us,
                             .sm_count = gpu->sm_count};
  for (int math = 0; math < KC_MATH_KINDS; math++) device.flops[math] = gpu->flops[math];
  device.link_bandwidth = gpu->link_bandwidth > 0 ? gpu->link_bandwidth : gpu->pcie_bandwidth;
  KC_ASSERT(device.sm_count >= 1);
  return device;
}

double kc_fit_correction(const struct kc_family_fit *fit, const struct kc_feature *features,
                         const double *figure)
{
  double sum = 0.0;
  KC_ASSERT(fit->table_count <= KC_TABLES_MAX);
  for (uint32_t t = 0; t < fit->table_count; t++) {
    const struct kc_grid *table = &fit->table[t];
    double scaled[KC_TABLE_AXES_MAX];
    for (uint32_t a = 0; a < table->axes; a++) {
      const uint32_t f = table->feature[a];
      scaled[a] = kc_feature_scale(&features[f], figure[f]);
    }
    sum += kc_grid_at(table, scaled);
  }
  return sum;
}

bool kc_fit_covers(const struct kc_family_fit *fit, const struct kc_feature *features,
                   uint32_t count, const double *figure)
{
  const double slack = 1e-9; /* of a figure that went through a quotient */
  for (uint32_t f = 0; f < count; f++) {
    if (!features[f].ranged) continue;
    if (figure[f] < fit->low[f] * (1 - slack) || figure[f] > fit->high[f] * (1 + slack)) {
      return false;
    }
  }
  return true;
}

struct kc_op_time kc_profile_time(const struct kc_profile *profile, const struct kc_device *device,
                                  enum kc_family family, const struct kc_shape *shape)
{
  KC_ASSERT((unsigned)family < KC_FAMILIES);
  const struct kc_family_fit *fit = &profile->fit[family];
  struct kc_work work;
  kc_family_work(family, device, shape, &work);
  if (!fit->present) {
    struct kc_physics plain = profile->plain;
    if (work.link) plain.latency_us = device->link_latency_us;
    return (struct kc_op_time){kc_physics_us(&plain, device, &work), KC_TRUST_DATASHEET};
  }
  uint32_t count;
  const struct kc_feature *features = kc_family_features(family, &count);
  const double base = kc_physics_us(&fit->physics, device, &work);
  const double us = base * kc_exp2_exact(kc_fit_correction(fit, features, work.feature));
  KC_ASSERT(us > 0);
  const bool inside = kc_fit_covers(fit, features, count, work.feature);
  return (struct kc_op_time){us, inside ? KC_TRUST_MEASURED : KC_TRUST_EXTRAPOLATED};
}
