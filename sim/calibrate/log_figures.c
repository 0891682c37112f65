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
