/* Figures of measured requests: the same definitions as of a run (sim/metrics), in seconds.
 *
 *   nearest rank   the smallest value that at least p of all do not exceed
 *   linear         between the two values around rank p (n - 1), as numpy and most reports do
 */
#include <math.h>
#include <stdlib.h>

#include "engine/base/check.h"
#include "sim/calibrate/serving_log.h"

const char *const kc_log_figure_names[KC_LOG_FIGURES] = {"mean", "p50", "p90", "p95", "p99"};

const char *kc_log_metric_name(enum kc_log_metric metric)
{
  static const char *const names[KC_LOG_METRICS] = {"TTFT", "TPOT", "ITL", "E2E"};
  KC_ASSERT((unsigned)metric < KC_LOG_METRICS);
  return names[metric];
}

static double seconds(kc_ps time_ps)
{
  return (double)time_ps / 1e12;
}

struct kc_log_request kc_log_request_of(const struct kc_outcome *outcome, uint32_t input_tokens,
                                        bool parted)
{
  const struct kc_outcome *o = outcome;
  const bool token = o->first_token_ps != KC_PS_NEVER;
  KC_ASSERT(o->end_ps >= o->arrival_ps);
  KC_ASSERT(!token || o->first_token_ps >= o->arrival_ps);
  struct kc_log_request row = {
      .arrival_s = seconds(o->arrival_ps),
      .ttft_s = token ? seconds(o->first_token_ps - o->arrival_ps) : 0,
      .e2e_s = seconds(o->end_ps - o->arrival_ps),
      .parted = parted && token,
      .input_tokens = input_tokens,
      .output_tokens = o->output_tokens,
      .ok = token && o->status == KC_STATUS_COMPLETED};
  row.queue_s = row.e2e_s - seconds(o->resident_ps);
  if (!row.parted) return row;
  row.first = (struct kc_log_spent){seconds(o->first.resident_ps), seconds(o->first.kv_wait_ps),
                                    seconds(o->first.host_ps)};
  row.whole = (struct kc_log_spent){seconds(o->resident_ps), seconds(o->kv_wait_ps),
                                    seconds(o->host_ps)};
  row.queue_s = row.ttft_s - row.first.resident_s;
  return row;
}

bool kc_log_value(const struct kc_log_request *request, enum kc_log_metric metric, double *out)
{
  KC_ASSERT(request != NULL && out != NULL);
  if (!request->ok || metric == KC_LOG_ITL) return false;
  if (metric == KC_LOG_TTFT) {
    *out = request->ttft_s;
  } else if (metric == KC_LOG_E2E) {
    *out = request->e2e_s;
  } else if (request->output_tokens < 2) {
    return false;
  } else {
    *out = (request->e2e_s - request->ttft_s) / (request->output_tokens - 1);
  }
  return true;
}

static int ascending(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void kc_log_figures(double *values, size_t count, bool linear, double out[KC_LOG_FIGURES])
{
  static const double percent[KC_LOG_FIGURES] = {0, 50, 90, 95, 99};
  double sum = 0;
  KC_ASSERT(count > 0);
  qsort(values, count, sizeof values[0], ascending);
  for (size_t i = 0; i < count; i++) sum += values[i];
  out[0] = sum / (double)count;
  for (int k = 1; k < KC_LOG_FIGURES; k++) {
    if (linear) {
      const double rank = percent[k] / 100 * (double)(count - 1);
      const size_t low = (size_t)rank, high = low + 1 < count ? low + 1 : low;
      out[k] = values[low] + (values[high] - values[low]) * (rank - (double)low);
    } else {
      const double rank = ceil(percent[k] * (double)count / 100);
      out[k] = values[rank < 1 ? 0 : (size_t)rank - 1];
    }
  }
  KC_ASSERT(out[1] <= out[4]);
}
