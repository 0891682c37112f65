/* Any bytes as a profile of kernels. What is refused is refused with one sentence; what is taken
 * answers every family and every part with a positive, finite time. */
#include <stdint.h>

#include "engine/base/check.h"
#include "sim/cost/profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask_families(const struct kc_profile *profile)
{
  const struct kc_device device = {.memory_bandwidth = 1e12, .flops = {1e14, 2e14, 0, 0},
                                   .link_bandwidth = 1e11, .link_latency_us = 1, .sm_count = 100};
  const struct kc_shape shape = {
      .m = 33, .n = 4096, .k = 512, .batch = 3, .tokens = 100, .context = 1000, .heads = 8,
      .kv_heads = 2, .head_dim = 128, .window = 128, .hidden = 4096, .inter = 1024, .topk = 8,
      .experts = 128, .tp = 2, .ep = 2, .skew = 1.01, .elements = 1e5, .gpus = 4};
  for (int f = 0; f < KC_FAMILIES; f++) {
    const struct kc_op_time t = kc_profile_time(profile, &device, (enum kc_family)f, &shape);
    KC_ASSERT(t.us > 0 && t.us < 1e300);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct kc_profile *profile;
  struct kc_diag diag;
  if (kc_profile_parse(&profile, "f.yaml", (const char *)data, size, &diag) != KC_OK) {
    KC_ASSERT(profile == NULL && diag.text[0] != '\0');
    return 0;
  }
  ask_families(profile);
  if (kc_profile_kind(profile) == KC_PROFILE_LAYERED) {
    const struct kc_mixed_step step = {100, 10, 5, 200, 300};
    KC_ASSERT(kc_profile_mixed_time(profile, &step).us > 0);
    KC_ASSERT(kc_profile_layer_time(profile, 0, 77).us > 0);
  }
  kc_profile_destroy(profile);
  return 0;
}
