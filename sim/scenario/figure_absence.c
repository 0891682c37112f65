/* Why a run has no such figure (see figure.h): the first reason that applies. */
#include "sim/scenario/figure.h"
#include "sim/scenario/scenario_run.h"

/* Of the figures that need a price, and perhaps more. */
static const char *no_money(const struct kc_run *run, enum kc_figure figure)
{
  const struct kc_scenario *scenario = run->scenario;
  const struct kc_summary *s = &run->result.summary;
  const bool api = figure == KC_FIGURE_API_USD || figure == KC_FIGURE_API_RATIO ||
                   figure == KC_FIGURE_BREAK_EVEN_REQ_S || figure == KC_FIGURE_BREAK_EVEN_SHARE;
  const bool prompts =
      figure == KC_FIGURE_USD_PER_MTOK_INPUT || figure == KC_FIGURE_USD_PER_MTOK_CACHED;
  KC_ASSERT(scenario->pool_count == 1);
  if (!scenario->price_known) return "no price is known; set price.gpu_hour_usd";
  if (api && !scenario->price.has_api) return "the scenario states no price.api";
  if (prompts && scenario->pool[0].role == KC_ROLE_DECODE) {
    return "in role decode prompts are computed elsewhere";
  }
  if (figure == KC_FIGURE_USD_PER_MTOK_CACHED && s->cached_tokens == 0) {
    return "no prompt token was found in a cache";
  }
  if (figure == KC_FIGURE_BREAK_EVEN_SHARE) return "what sessions could serve at most is not known";
  return "no such token was served";
}

static const char *no_latency(const struct kc_run *run, enum kc_figure figure)
{
  const struct kc_summary *s = &run->result.summary;
  KC_ASSERT(figure >= KC_FIGURE_TTFT_MEAN_MS && figure <= KC_FIGURE_E2E_P99_MS);
  KC_ASSERT(s->requests_total > 0);
  if (s->output_tokens == 0) return "no output token was produced";
  if (s->requests_by_status[KC_STATUS_COMPLETED] == 0) return "no request completed";
  return "no completed request had two output tokens";
}

const char *kc_figure_absence(const struct kc_run *run, enum kc_figure figure)
{
  KC_ASSERT((unsigned)figure < KC_FIGURES);
  KC_ASSERT(run->result.replicas >= 1);
  if (figure >= KC_FIGURE_TTFT_MEAN_MS && figure <= KC_FIGURE_E2E_P99_MS) {
    return no_latency(run, figure);
  }
  switch (figure) {
  case KC_FIGURE_REQUESTS_FIT: return "only a closed workload has requests of one length";
  case KC_FIGURE_GOODPUT_REQ_S:
  case KC_FIGURE_SLO_SHARE: return "the scenario states no limits (slo, or those of classes)";
  case KC_FIGURE_HIT_RATE: return "prompts are not known, or nothing was cached";
  case KC_FIGURE_OOM_S: return "memory never ran out";
  case KC_FIGURE_HEADROOM:
    return "only an open loop in which no request was refused for its size has a distance to "
           "saturation";
  case KC_FIGURE_OUTPUT_TOK_S_USER: return "no completed request had two output tokens";
  case KC_FIGURE_JOULES_PER_TOKEN: return "no output token was produced";
  case KC_FIGURE_USD_TOTAL:
  case KC_FIGURE_USD_PER_MTOK:
  case KC_FIGURE_USD_PER_MTOK_INPUT:
  case KC_FIGURE_USD_PER_MTOK_CACHED:
  case KC_FIGURE_USD_PER_MTOK_OUTPUT:
  case KC_FIGURE_API_USD:
  case KC_FIGURE_API_RATIO:
  case KC_FIGURE_BREAK_EVEN_REQ_S:
  case KC_FIGURE_BREAK_EVEN_SHARE: return no_money(run, figure);
  default: return "nothing was served";
  }
}
