/* What a scenario says about money, checked: the part of source.c about price.* keys; and what
 * comes of it, the price of a GPU-hour of a mix of on-demand, reserved and spot GPUs. */
#include <stdio.h>

#include "engine/base/check.h"
#include "sim/scenario/source.h"

/* Shares that add up to all but for rounding. */
#define SHARE_EPSILON 1e-9

static void check_part(const char *name, double share, bool has_share, bool has_price,
                       const struct kc_document *document, struct kc_diag_list *problems)
{
  char key[32];
  KC_ASSERT(share >= 0);
  snprintf(key, sizeof key, "price.%s", name);
  if (has_share == has_price) return;
  kc_source_problem(document, document->root, key, problems,
                    "%s needs both share and gpu_hour_usd", key);
}

static void check_api(struct kc_scenario_source *source, const struct kc_document *document,
                      struct kc_diag_list *problems)
{
  struct kc_price_spec *price = &source->price;
  const bool any = source->has_api_input || source->has_api_cached || source->has_api_output;
  price->has_api = source->has_api_input && source->has_api_output;
  if (any && !price->has_api) {
    kc_source_problem(document, document->root, "price.api", problems,
                      "price.api needs both input_usd_per_mtok and output_usd_per_mtok");
  }
  if (!source->has_api_cached) price->api_cached_usd = price->api_input_usd;
  for (uint32_t i = 0; price->has_api && i < source->pool_count; i++) {
    if (source->pool[i].role != KC_ROLE_DECODE) continue;
    kc_source_problem(document, document->root, "price.api", problems,
                      "price.api has no meaning in role decode: an API computes the prompts too");
  }
  KC_ASSERT(price->api_cached_usd >= 0);
}

void kc_source_check_price(struct kc_scenario_source *source, const struct kc_document *document,
                           struct kc_diag_list *problems)
{
  const struct kc_price_spec *price = &source->price;
  KC_ASSERT(price->cold_start_ps >= 0);
  KC_ASSERT(source->energy.pue >= 1 || problems->count > 0);
  check_part("reserved", price->reserved.share, source->has_reserved, source->has_reserved_price,
             document, problems);
  check_part("spot", price->spot.share, source->has_spot, source->has_spot_price, document,
             problems);
  if (source->has_spot_lost && !source->has_spot) {
    kc_source_problem(document, document->root, "price.spot.lost", problems,
                      "price.spot.lost goes with price.spot.share");
  }
  if (price->reserved.share + price->spot.share > 1 + SHARE_EPSILON) {
    kc_source_problem(document, document->root, "price", problems,
                      "price.reserved.share and price.spot.share are %g together, more than all "
                      "GPUs", price->reserved.share + price->spot.share);
  }
  check_api(source, document, problems);
}

bool kc_price_mix(const struct kc_price_spec *price, double *gpu_hour_usd)
{
  const double rest = 1 - price->reserved.share - price->spot.share;
  KC_ASSERT(rest > -2 * SHARE_EPSILON);
  KC_ASSERT(price->spot_lost >= 0 && price->spot_lost < 1);
  const bool has_rest = rest > SHARE_EPSILON;
  *gpu_hour_usd = 0;
  if (has_rest && !price->on_demand_known) return false;
  if (has_rest) *gpu_hour_usd = rest * price->on_demand_usd;
  *gpu_hour_usd += price->reserved.share * price->reserved.gpu_hour_usd;
  *gpu_hour_usd += price->spot.share * (price->spot.gpu_hour_usd / (1 - price->spot_lost));
  return true;
}
