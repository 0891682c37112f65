/* The life of a profile, and what can be asked about it (see profile.h).
 *
 *   kc_profile_create --> struct kc_profile --numbers--> one heap block of doubles for all tables
 *
 * The loader (profile_load.c) and the fitter fill it; afterwards nobody writes to it. */
#include "sim/cost/profile.h"

#include <stdlib.h>
#include <string.h>

#include "sim/cost/profile_internal.h"

struct kc_profile *kc_profile_create(size_t numbers)
{
  KC_ASSERT(numbers <= KC_NUMBERS_MAX);
  struct kc_profile *profile = calloc(1, sizeof *profile);
  if (profile == NULL) return NULL;
  if (numbers > 0) profile->numbers = calloc(numbers, sizeof *profile->numbers);
  if (numbers > 0 && profile->numbers == NULL) {
    free(profile);
    return NULL;
  }
  profile->number_max = numbers;
  profile->plain = (struct kc_physics){.latency_us = 3, .bandwidth = 0.8, .rate = 0.6};
  return profile;
}

void kc_profile_destroy(struct kc_profile *profile)
{
  if (profile == NULL) return;
  free(profile->numbers);
  free(profile);
}

double *kc_profile_numbers(struct kc_profile *profile, size_t count)
{
  KC_ASSERT(profile->number_count <= profile->number_max);
  if (count > profile->number_max - profile->number_count) return NULL;
  double *taken = profile->numbers + profile->number_count;
  profile->number_count += count;
  return taken;
}

enum kc_err kc_profile_datasheet(struct kc_profile **out, const struct kc_gpu_profile *entry,
                                 struct kc_diag *diag)
{
  KC_ASSERT(entry->bandwidth_efficiency > 0 && entry->flops_efficiency > 0);
  struct kc_profile *profile = kc_profile_create(0);
  *out = profile;
  if (profile == NULL) return kc_fail(diag, KC_ERR_MEMORY, "out of memory: a datasheet profile");
  profile->kind = KC_PROFILE_DATASHEET;
  const size_t length = strnlen(entry->name, sizeof profile->name - 1);
  memcpy(profile->name, entry->name, length);
  profile->plain = (struct kc_physics){.latency_us = entry->op_latency_us,
                                       .bandwidth = entry->bandwidth_efficiency,
                                       .rate = entry->flops_efficiency};
  return KC_OK;
}

enum kc_profile_kind kc_profile_kind(const struct kc_profile *profile)
{
  return profile->kind;
}

const char *kc_profile_name(const struct kc_profile *profile)
{
  return profile->name;
}

const char *kc_profile_gpu(const struct kc_profile *profile)
{
  return profile->gpu;
}

const char *kc_profile_sha256(const struct kc_profile *profile)
{
  return profile->sha256;
}

static struct kc_family_info info_of(const struct kc_family_fit *fit)
{
  return (struct kc_family_info){.present = fit->present, .source = fit->source,
                                 .rows = fit->rows, .held_out = fit->held_out};
}

struct kc_family_info kc_profile_family(const struct kc_profile *profile, enum kc_family family)
{
  KC_ASSERT((unsigned)family < KC_FAMILIES);
  return info_of(&profile->fit[family]);
}

const struct kc_layered_model *kc_profile_layered_model(const struct kc_profile *profile)
{
  KC_ASSERT(profile->kind == KC_PROFILE_LAYERED);
  return &profile->layered;
}

struct kc_family_info kc_profile_layered_info(const struct kc_profile *profile, const char *part)
{
  KC_ASSERT(part != NULL);
  for (int i = 0; i < KC_MIXED_PARTS; i++) {
    if (strcmp(kc_mixed_part_name((enum kc_mixed_part)i), part) == 0) {
      return info_of(&profile->mixed[i]);
    }
  }
  const int layer = kc_profile_layer(profile, part);
  return layer >= 0 ? info_of(&profile->layer[layer].fit) : (struct kc_family_info){.source = ""};
}
