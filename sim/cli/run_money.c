/* What `kvcap run` says of money and energy: in the JSON document and for people. */
#include <stdio.h>

#include "sim/cli/cli.h"
#include "sim/cli/run_output.h"
#include "sim/scenario/spending.h"

static const char *trust_word(const struct kc_run *run)
{
  return kc_cost_level_name(kc_run_trust(run).level);
}

/* ---- JSON ---- */

static json_t *maybe(struct kc_maybe value)
{
  return value.known ? json_real(value.value) : json_null();
}

/* Who pays how much of the GPU-hour; null without a price. */
static json_t *mix_json(const struct kc_run *run)
{
  const struct kc_price_spec *price = &run->scenario->price;
  if (!run->scenario->price_known) return json_null();
  const struct {
    const char *name;
    double share, usd;
  } parts[] = {{"on_demand", 1 - price->reserved.share - price->spot.share, price->on_demand_usd},
               {"reserved", price->reserved.share, price->reserved.gpu_hour_usd},
               {"spot", price->spot.share, price->spot.gpu_hour_usd}};
  json_t *object = json_object();
  json_object_set_new(object, "gpu_hour_usd", json_real(run->scenario->price_gpu_hour_usd));
  json_object_set_new(object, "spot_lost", json_real(price->spot_lost));
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    json_t *part = json_null();
    if (parts[i].share > 1e-9) {
      part = json_pack("{s:f, s:f}", "share", parts[i].share, "gpu_hour_usd", parts[i].usd);
    }
    json_object_set_new(object, parts[i].name, part);
  }
  return object;
}

static json_t *parts_json(const struct kc_spending *s)
{
  json_t *object = json_object();
  json_object_set_new(object, "prefill", maybe(s->prefill_usd));
  json_object_set_new(object, "cached", maybe(s->cached_usd));
  json_object_set_new(object, "decode", maybe(s->decode_usd));
  json_object_set_new(object, "idle", maybe(s->idle_usd));
  json_object_set_new(object, "cold", maybe(s->cold_usd));
  return object;
}

static json_t *api_json(const struct kc_run *run, const struct kc_spending *s)
{
  const struct kc_price_spec *price = &run->scenario->price;
  if (!price->has_api) return json_null();
  json_t *object = json_object();
  json_object_set_new(object, "input_usd_per_mtok", json_real(price->api_input_usd));
  json_object_set_new(object, "cached_usd_per_mtok", json_real(price->api_cached_usd));
  json_object_set_new(object, "output_usd_per_mtok", json_real(price->api_output_usd));
  json_object_set_new(object, "usd", maybe(s->api_usd));
  json_object_set_new(object, "ratio", maybe(s->api_ratio));
  json_object_set_new(object, "ratio_without_cold_starts", maybe(s->api_ratio_warm));
  json_object_set_new(object, "break_even_requests_per_s", maybe(s->break_even_req_s));
  json_object_set_new(object, "break_even_share", maybe(s->break_even_share));
  return object;
}

void kc_run_money_json(json_t *root, const struct kc_run *run)
{
  struct kc_spending s;
  const struct kc_gpu *gpu = &run->scenario->pool[0].gpu;
  json_t *cost = json_object(), *energy = json_object();
  kc_run_spending(run, &s);
  json_object_set_new(cost, "gpu_hours", json_real(s.gpu_hours));
  json_object_set_new(cost, "busy_gpu_hours", json_real(s.busy_hours));
  json_object_set_new(cost, "idle_gpu_hours", json_real(s.idle_hours));
  json_object_set_new(cost, "cold_gpu_hours", json_real(s.cold_hours));
  json_object_set_new(cost, "prefill_share", json_real(s.prefill_share));
  json_object_set_new(cost, "cached_share", json_real(s.cached_share));
  json_object_set_new(cost, "decode_share", json_real(s.decode_share));
  json_object_set_new(cost, "price", mix_json(run));
  json_object_set_new(cost, "usd_per_hour", maybe(s.hour_usd));
  json_object_set_new(cost, "usd", maybe(s.usd));
  json_object_set_new(cost, "parts_usd", parts_json(&s));
  json_object_set_new(cost, "usd_per_mtok_input", maybe(s.input_mtok_usd));
  json_object_set_new(cost, "usd_per_mtok_cached", maybe(s.cached_mtok_usd));
  json_object_set_new(cost, "usd_per_mtok_output", maybe(s.decode_mtok_usd));
  json_object_set_new(cost, "api", api_json(run, &s));
  json_object_set_new(root, "cost", cost);
  json_object_set_new(energy, "kwh", json_real(s.kwh));
  json_object_set_new(energy, "joules_per_token", maybe(s.joules_per_token));
  json_object_set_new(energy, "usd", maybe(s.energy_usd));
  json_object_set_new(energy, "pue", json_real(run->scenario->energy.pue));
  json_object_set_new(energy, "idle_w", json_real(gpu->idle_w));
  json_object_set_new(energy, "power_w", json_real(gpu->power_w));
  json_object_set_new(root, "energy", energy);
}

/* ---- for people ---- */

/* "; 50 % reserved at $2.00, 20 % spot at $1.00, the rest at $3.00" */
static void print_mix(const struct kc_price_spec *price)
{
  const double rest = 1 - price->reserved.share - price->spot.share;
  if (price->reserved.share <= 0 && price->spot.share <= 0) return;
  printf("            the GPU-hour:");
  if (price->reserved.share > 0) {
    printf(" %.0f %% reserved at $%.2f", 100 * price->reserved.share,
           price->reserved.gpu_hour_usd);
  }
  if (price->spot.share > 0) {
    printf("%s %.0f %% spot at $%.2f", price->reserved.share > 0 ? "," : "",
           100 * price->spot.share, price->spot.gpu_hour_usd);
    if (price->spot_lost > 0) printf(" (%.1f %% of it lost)", 100 * price->spot_lost);
  }
  if (rest > 1e-9) printf(", the rest on demand at $%.2f", price->on_demand_usd);
  printf("\n");
}

static void print_part(const char *name, double share, struct kc_maybe mtok)
{
  if (!mtok.known) return;
  printf("%s $%.4f (%.1f %%)", name, mtok.value, 100 * share);
}

/* What idle and cold hours are of the whole. */
static void print_hours(const struct kc_spending *s)
{
  if (s->gpu_hours <= 0) return;
  printf("            $%.2f for %.4g GPU-hours, %.1f %% of them idle", s->usd.value, s->gpu_hours,
         100 * s->idle_hours / s->gpu_hours);
  if (s->cold_hours > 0) printf(", %.1f %% cold starts", 100 * s->cold_hours / s->gpu_hours);
  printf("\n            the deployment $%.2f an hour, $%.0f a month of 730 hours, $%.0f a year\n",
         s->hour_usd.value, 730 * s->hour_usd.value, 8760 * s->hour_usd.value);
}

static void print_cost(const struct kc_run *run, const struct kc_spending *s)
{
  double usd;
  const struct kc_scenario *scenario = run->scenario;
  if (!kc_run_cost(run, &usd)) {
    if (!scenario->price_known) {
      printf("  cost      unknown: no price for %s; set price.gpu_hour_usd\n",
             scenario->pool[0].gpu.name);
    } else {
      printf("  cost      none to state: no output token was produced\n");
    }
    return;
  }
  printf("  cost      $%.4f per million output tokens at $%.2f per GPU-hour (%s)\n", usd,
         scenario->price_gpu_hour_usd, trust_word(run));
  print_mix(&scenario->price);
  print_hours(s);
  if (s->input_mtok_usd.known && s->decode_mtok_usd.known) {
    printf("            by what took the time, per million:");
    print_part(" input", s->prefill_share, s->input_mtok_usd);
    print_part(", cached", s->cached_share, s->cached_mtok_usd);
    print_part(", output", s->decode_share, s->decode_mtok_usd);
    printf("\n");
  }
}

static void print_api(const struct kc_spending *s)
{
  if (!s->api_usd.known) return;
  printf("  API       $%.2f for the same tokens", s->api_usd.value);
  if (s->api_ratio.known) printf("; own GPUs cost %.2f times that", s->api_ratio.value);
  if (s->api_ratio_warm.known && s->cold_hours > 0) {
    printf(" (%.2f without cold starts)", s->api_ratio_warm.value);
  }
  if (s->break_even_req_s.known) {
    printf(",\n            break-even without cold starts at %.3g requests/s",
           s->break_even_req_s.value);
    if (s->break_even_share.known) {
      printf(", %.1f %% of what they can serve", 100 * s->break_even_share.value);
    }
  }
  printf("\n");
}

static void print_energy(const struct kc_run *run, const struct kc_spending *s)
{
  const struct kc_gpu *gpu = &run->scenario->pool[0].gpu;
  if (!s->joules_per_token.known) return;
  printf("  energy    %.3g J per output token, %.4g kWh", s->joules_per_token.value, s->kwh);
  if (s->energy_usd.known) printf(" ($%.2f, not part of the cost)", s->energy_usd.value);
  printf("; assumed: a GPU draws %.0f W idle, %.0f W busy", gpu->idle_w, gpu->power_w);
  if (run->scenario->energy.pue > 1) printf(", PUE %.2f", run->scenario->energy.pue);
  printf("\n");
}

void kc_run_money_print(const struct kc_run *run)
{
  struct kc_spending spending;
  kc_run_spending(run, &spending);
  print_cost(run, &spending);
  print_api(&spending);
  print_energy(run, &spending);
}
